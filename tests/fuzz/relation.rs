//! How the files of a table lie to each other along the key.

use crate::random::Random;
use crate::table::{Column, Ranks, compare};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    Disjoint,
    /// A file begins with the key that the one before ends with.
    Touching,
    /// Some rows about each boundary are in the wrong file.
    Neighbours,
    /// Each file covers some piece of the key.
    Overlap,
    /// Each file covers all of the key.
    Total,
}

impl Relation {
    pub(crate) const ALL: [Self; 5] = [
        Self::Disjoint,
        Self::Touching,
        Self::Neighbours,
        Self::Overlap,
        Self::Total,
    ];
}

/// The keys of each file, in no order within the file.
pub(crate) fn keys_of_files(
    random: &mut Random,
    relation: Relation,
    columns: &[Column],
    key_len: usize,
) -> Vec<Vec<Ranks>> {
    let sizes = sizes(random);
    let line = line(random, columns, key_len, sizes.iter().sum());
    match relation {
        Relation::Disjoint => {
            // Bounds of a compound key are seldom disjoint but by its first column.
            let distinct = if random.percent(60) { 1 } else { key_len };
            cut_where_different(&line, &sizes, &columns[..distinct.min(key_len)])
        }
        Relation::Touching => touching(random, cut(&line, &sizes)),
        Relation::Neighbours => exchange(random, cut(&line, &sizes)),
        Relation::Overlap | Relation::Total => sizes
            .iter()
            .map(|&size| {
                let (mut from, mut to) = (0, line.len());
                if relation == Relation::Overlap {
                    from = random.below(line.len());
                    to = from + 1 + random.below(line.len() - from);
                }
                let any = |_| line[from + random.below(to - from)].clone();
                (0..size).map(any).collect()
            })
            .collect(),
    }
}

/// The number of rows of each file.
fn sizes(random: &mut Random) -> Vec<usize> {
    let files = match random.below(10) {
        0..=4 => random.within(1..=5),
        5..=7 => random.within(4..=12),
        _ => random.within(10..=40),
    };
    let most = match files {
        0..=4 => random.weighted(&[(50, 10), (40, 40), (10, 200)]),
        5..=12 => random.weighted(&[(60, 6), (40, 25)]),
        _ => random.weighted(&[(70, 3), (30, 10)]),
    };
    (0..files)
        .map(|_| match random.below(10) {
            0 => 0,
            1 => 1,
            _ => random.within(1..=most),
        })
        .collect()
}

/// All keys of a table in the declared order.
fn line(random: &mut Random, columns: &[Column], key_len: usize, rows: usize) -> Vec<Ranks> {
    let nulls: Vec<_> = columns
        .iter()
        .map(|_| random.weighted(&[(60, 0), (25, 5), (15, 40)]))
        .collect();
    let mut line: Vec<Ranks> = (0..rows)
        .map(|_| {
            let values = columns.iter().zip(&nulls);
            values
                .map(|(column, &nulls)| {
                    let null = random.percent(nulls);
                    (!null).then(|| random.below(column.pool.len()) as u32)
                })
                .collect()
        })
        .collect();
    line.sort_by(|a, b| compare(&columns[..key_len], a, b));
    line
}

fn cut(line: &[Ranks], sizes: &[usize]) -> Vec<Vec<Ranks>> {
    let mut rest = line;
    sizes
        .iter()
        .map(|&size| {
            let (file, after) = rest.split_at(size);
            rest = after;
            file.to_vec()
        })
        .collect()
}

/// As `cut`, but each cut moved on to where the first columns of the key differ.
fn cut_where_different(line: &[Ranks], sizes: &[usize], first: &[Column]) -> Vec<Vec<Ranks>> {
    let mut from = 0;
    let mut planned = 0;
    sizes
        .iter()
        .map(|&size| {
            planned += size;
            let mut to = planned.max(from);
            while to > from && to < line.len() && compare(first, &line[to - 1], &line[to]).is_eq() {
                to += 1;
            }
            let file = line[from..to].to_vec();
            from = to;
            file
        })
        .collect()
}

/// Begins most files with the key that the one before ends with. One that was empty has that key only.
fn touching(random: &mut Random, mut files: Vec<Vec<Ranks>>) -> Vec<Vec<Ranks>> {
    let mut last: Option<Ranks> = None;
    for file in &mut files {
        if let Some(last) = &last
            && random.percent(80)
        {
            let copies = random.within(1..=3);
            file.splice(0..0, std::iter::repeat_n(last.clone(), copies));
        }
        last = file.last().cloned().or(last);
    }
    files
}

/// Moves some rows about each boundary to the other side.
fn exchange(random: &mut Random, mut files: Vec<Vec<Ranks>>) -> Vec<Vec<Ranks>> {
    let reach = random.within(1..=4);
    for index in 1..files.len() {
        let (before, after) = files.split_at_mut(index);
        let (before, after) = (&mut before[index - 1], &mut after[0]);
        let mut mixed = before.split_off(before.len().saturating_sub(reach));
        mixed.extend(after.drain(..after.len().min(reach)));
        for row in mixed {
            match random.percent(50) {
                true => before.push(row),
                false => after.insert(0, row),
            }
        }
    }
    files
}
