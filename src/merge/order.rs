//! The order of the rows of several runs.

use std::cmp::Ordering;
use std::ops::Range;

use datafusion::common::{Result, internal_datafusion_err};

use super::keys::BatchKeys;
use super::stretch::Source;

/// Gives the rows of `sources` to `each` in order: the number of a source, and adjacent rows of it. Of rows with equal keys,
/// those of the source whose place is first come first.
pub(super) fn in_order(
    sources: &[Source],
    each: impl FnMut(usize, Range<usize>) -> Result<()>,
) -> Result<()> {
    match Packing::of(sources) {
        Some(packing) => together(packing.sorted(), each),
        None => together(sorted(sources)?, each),
    }
}

/// Gives rows that follow upon one another in a source to `each` together.
fn together(
    mut rows: impl Iterator<Item = (usize, usize)>,
    mut each: impl FnMut(usize, Range<usize>) -> Result<()>,
) -> Result<()> {
    let Some((mut source, row)) = rows.next() else {
        return Ok(());
    };
    let mut adjacent = row..row + 1;
    for (next, row) in rows {
        if next == source && row == adjacent.end {
            adjacent.end += 1;
        } else {
            each(source, std::mem::replace(&mut adjacent, row..row + 1))?;
            source = next;
        }
    }
    each(source, adjacent)
}

/// How a row fits into 64 bits: what its key has more than the least one, and below that its source and its number.
///
/// Sorting such numbers takes a third of the time of sorting rows with whole keys. Mostly they fit, since keys that are
/// merged at a time are near to each other.
struct Packing<'a> {
    sources: &'a [Source],
    /// The keys of the rows of each source.
    prefixes: Vec<&'a [u128]>,
    least: u128,
    /// The low bits of the beginnings of keys, which are the same in all.
    shift: u32,
    row_bits: u32,
    source_bits: u32,
    /// The sources by place.
    by_place: Vec<usize>,
}

impl<'a> Packing<'a> {
    /// The packing of the rows of `sources`, if they fit, and no key is longer than its beginning.
    fn of(sources: &'a [Source]) -> Option<Self> {
        let prefixes: Vec<_> = sources.iter().map(prefixes).collect::<Option<_>>()?;
        // All are looked at, and not the first of each source only: a file that lies may have a lesser one behind it.
        let least = *prefixes.iter().copied().flatten().min()?;
        let all = prefixes.iter().copied().flatten();
        let differences = all.fold(0, |differences, prefix| differences | (prefix - least));
        let shift = differences.trailing_zeros().min(u128::BITS - 1);
        let key_bits = u128::BITS - (differences >> shift).leading_zeros();
        let row_bits = bits(sources.iter().map(|source| source.rows.end).max()?);
        let source_bits = bits(sources.len());
        let mut by_place: Vec<_> = (0..sources.len()).collect();
        by_place.sort_by_key(|&source| sources[source].place);
        (key_bits + source_bits + row_bits < u64::BITS).then_some(Self {
            sources,
            prefixes,
            least,
            shift,
            row_bits,
            source_bits,
            by_place,
        })
    }

    /// Sources and rows, in order.
    fn sorted(self) -> impl Iterator<Item = (usize, usize)> {
        let key_shift = self.source_bits + self.row_bits;
        let all = self.prefixes.iter().map(|prefixes| prefixes.len()).sum();
        let mut packed = Vec::with_capacity(all);
        for (number, &source) in (0..).zip(&self.by_place) {
            let start = self.sources[source].rows.start as u64;
            let rows = (start..).zip(self.prefixes[source]);
            packed.extend(rows.map(|(row, prefix)| {
                let key = ((prefix - self.least) >> self.shift) as u64;
                key << key_shift | number << self.row_bits | row
            }));
        }
        // It finds runs and merges them.
        packed.sort();
        packed.into_iter().map(move |packed| {
            let row = packed & ((1 << self.row_bits) - 1);
            let source = packed >> self.row_bits & ((1 << self.source_bits) - 1);
            (self.by_place[source as usize], row as usize)
        })
    }
}

/// How many bits a number below `end` has.
fn bits(end: usize) -> u32 {
    usize::BITS - end.saturating_sub(1).leading_zeros()
}

/// The keys of the rows of a source, if their beginnings are all of them.
fn prefixes(source: &Source) -> Option<&[u128]> {
    let keys = source.keys.as_ref().filter(|keys| keys.are_short())?;
    Some(keys.prefixes(source.rows.clone()))
}

/// A row of a source, with the beginning of its key.
struct Row {
    prefix: u128,
    source: u32,
    row: u32,
}

/// Sources and rows in order, whatever their keys are. Batches have far fewer rows than `u32::MAX`.
fn sorted(sources: &[Source]) -> Result<impl Iterator<Item = (usize, usize)>> {
    let keys = sources.iter().map(|source| source.keys.as_deref());
    let keys: Option<Vec<&BatchKeys>> = keys.collect();
    let keys = keys.ok_or_else(|| internal_datafusion_err!("rows are merged without keys"))?;
    let mut rows = vec![];
    for (number, (source, keys)) in (0..).zip(sources.iter().zip(&keys)) {
        let start = source.rows.start as u32;
        let prefixes = (start..).zip(keys.prefixes(source.rows.clone()));
        rows.extend(prefixes.map(|(row, &prefix)| Row {
            prefix,
            source: number,
            row,
        }));
    }
    let key = |row: &Row| keys[row.source as usize].get(row.row as usize);
    let place = |row: &Row| sources[row.source as usize].place;
    // Stable, so that rows of one source with equal keys stay in their order.
    rows.sort_by(|a, b| match a.prefix.cmp(&b.prefix) {
        Ordering::Equal => key(a).cmp(key(b)).then_with(|| place(a).cmp(&place(b))),
        order => order,
    });
    let places = rows.into_iter();
    Ok(places.map(|row| (row.source as usize, row.row as usize)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int8Array, Int64Array, RecordBatch, StringArray};
    use arrow::compute::SortOptions;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

    use super::*;
    use crate::merge::keys::{Keys, MergeKey};
    use crate::test_random::Random;

    fn source(key: ArrayRef, rows: Range<usize>, place: usize, reversed: bool) -> Source {
        let batch = RecordBatch::try_from_iter([("k", key)]).unwrap();
        let sort = PhysicalSortExpr::new(
            Arc::new(Column::new("k", 0)),
            SortOptions::new(reversed, reversed),
        );
        let key = MergeKey::new(LexOrdering::new([sort]).unwrap(), reversed);
        let keys = Keys::try_new(key, &batch.schema()).unwrap();
        let keys = keys.of_batch(&keys.columns(&batch).unwrap()).unwrap();
        Source {
            batch,
            keys: Some(Arc::new(keys)),
            rows,
            place,
        }
    }

    fn rows_of(sources: &[Source]) -> Vec<(usize, usize)> {
        let mut all = vec![];
        in_order(sources, |source, rows| {
            all.extend(rows.map(|row| (source, row)));
            Ok(())
        })
        .unwrap();
        all
    }

    /// Few keys and many, near and far, short and longer than their beginnings, in both directions.
    #[test]
    fn rows_are_in_order_of_key_place_and_row() {
        let mut random = Random::new(11);
        let mut packed = 0;
        for case in 0..400 {
            let width = [1, 3, 1000, 1 << 40, i64::MAX as u64][case % 5];
            let (is_text, reversed) = (case % 3 == 0, case % 2 == 0);
            let count = 2 + random.below(9) as usize;
            let mut sources = vec![];
            let mut expected = vec![];
            for number in 0..count {
                let len = 1 + random.below(40) as usize;
                let mut keys: Vec<_> = (0..len).map(|_| random.below(width) as i64).collect();
                keys.sort_unstable();
                if reversed {
                    keys.reverse();
                }
                let start = random.below(len as u64) as usize;
                let end = start + 1 + random.below((len - start) as u64) as usize;
                // Places in another order than sources.
                let place = (number * 7 + 3) % 11;
                for (row, &key) in keys.iter().enumerate().take(end).skip(start) {
                    let key = i128::from(key);
                    expected.push((if reversed { -key } else { key }, place, row, number));
                }
                let text = |key: &i64| format!("the same beginning {key:020}");
                let key: ArrayRef = match is_text {
                    true => Arc::new(StringArray::from_iter_values(keys.iter().map(text))),
                    false => Arc::new(Int64Array::from(keys)),
                };
                sources.push(source(key, start..end, place, reversed));
            }
            expected.sort_unstable();
            let expected: Vec<_> = expected.iter().map(|it| (it.3, it.2)).collect();
            assert_eq!(rows_of(&sources), expected, "case {case}");
            packed += usize::from(Packing::of(&sources).is_some());
        }
        assert!((100..300).contains(&packed), "{packed} of 400");
    }

    /// What comes of a file that lies is told elsewhere; here, no row is lost.
    #[test]
    fn rows_that_are_not_in_order_are_put_in_order() {
        let wide = |keys: Vec<i8>| {
            let keys = keys.into_iter().map(i64::from);
            Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef
        };
        let narrow = |keys: Vec<i8>| Arc::new(Int8Array::from(keys)) as ArrayRef;
        for keys in [&wide as &dyn Fn(Vec<i8>) -> ArrayRef, &narrow] {
            let sources = [
                source(keys(vec![5, 1, 7]), 0..3, 0, false),
                source(keys(vec![6, 2]), 0..2, 1, false),
            ];
            let expected = [(0, 1), (1, 1), (0, 0), (1, 0), (0, 2)];
            assert_eq!(rows_of(&sources), expected);
        }
    }
}
