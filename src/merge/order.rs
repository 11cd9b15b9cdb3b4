//! The order of the rows of several runs.

use std::cmp::Ordering;

use datafusion::common::{Result, internal_datafusion_err};

use super::keys::BatchKeys;
use super::stretch::Source;

/// The rows of `sources` in order, each as the number of its source and its own. Of rows with equal keys, those of the source
/// whose place is first come first.
pub(super) fn in_order(sources: &[Source]) -> Result<Vec<(usize, usize)>> {
    match Packing::of(sources) {
        Some(packing) => Ok(packing.sorted()),
        None => sorted(sources),
    }
}

/// How a row fits into 64 bits: what its key has more than the least one, and below that its source and its number.
///
/// Mostly they fit, since keys that are merged at a time are near to each other.
struct Packing<'a> {
    sources: &'a [Source],
    /// The keys of the rows of each source.
    prefixes: Vec<&'a [u128]>,
    least: u128,
    /// The low bits of the beginnings of keys, which are the same in all.
    shift: u32,
    key_bits: u32,
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
            key_bits,
            row_bits,
            source_bits,
            by_place,
        })
    }

    /// Sources and rows, in order.
    fn sorted(self) -> Vec<(usize, usize)> {
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
        sort_by_bits(&mut packed, key_shift, self.key_bits, self.sources.len());
        let row_mask = (1 << self.row_bits) - 1;
        let source_mask = (1 << self.source_bits) - 1;
        let places = packed.into_iter().map(|packed| {
            let source = packed >> self.row_bits & source_mask;
            (self.by_place[source as usize], (packed & row_mask) as usize)
        });
        places.collect()
    }
}

/// How many bits a number below `end` has.
fn bits(end: usize) -> u32 {
    usize::BITS - end.saturating_sub(1).leading_zeros()
}

/// Fewer numbers are not worth the counting.
const LEAST_TO_COUNT: usize = 512;
/// So many counters are in the fastest cache.
const MOST_DIGIT_BITS: u32 = 11;

/// Sorts `numbers`, which are `runs` sorted runs, one after another, by the `bits` above the lowest `low`, below which they
/// are in order.
///
/// O(n bits) by counting digits, unless merging the runs takes less time: of 64 runs, counting takes a fifth to a third of that.
fn sort_by_bits(numbers: &mut Vec<u64>, low: u32, bits: u32, runs: usize) {
    let digits = bits.div_ceil(MOST_DIGIT_BITS).max(1);
    if numbers.len() < LEAST_TO_COUNT || digits >= 2 * runs.ilog2() {
        // It finds runs and merges them.
        return numbers.sort();
    }
    let digit_bits = bits.div_ceil(digits);
    let mask = (1 << digit_bits) - 1;
    let mut sorted = vec![0; numbers.len()];
    for digit in 0..digits {
        let shift = low + digit * digit_bits;
        let digit = |number: u64| (number >> shift & mask) as usize;
        let mut places = vec![0_usize; 1 << digit_bits];
        for &number in numbers.iter() {
            places[digit(number)] += 1;
        }
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for &number in numbers.iter() {
            let place = &mut places[digit(number)];
            sorted[*place] = number;
            *place += 1;
        }
        std::mem::swap(numbers, &mut sorted);
    }
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
fn sorted(sources: &[Source]) -> Result<Vec<(usize, usize)>> {
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
    Ok(places
        .map(|row| (row.source as usize, row.row as usize))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
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

    #[test]
    fn counting_and_merging_sort_alike() {
        let mut random = Random::new(12);
        for bits in 1..=44 {
            let low = 19;
            for (len, runs) in [(3, 2), (511, 64), (512, 2), (512, 4), (2000, 64)] {
                // Below the keys they are in order.
                let number = |below: u64| random.below(1 << bits) << low | below;
                let mut numbers: Vec<_> = (0..len).map(number).collect();
                let mut expected = numbers.clone();
                expected.sort_unstable();
                sort_by_bits(&mut numbers, low, bits, runs);
                assert_eq!(numbers, expected, "{len} numbers of {bits} bits");
            }
        }
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
                let len = 1 + random.below(if case % 7 == 0 { 400 } else { 40 }) as usize;
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
            assert_eq!(in_order(&sources).unwrap(), expected, "case {case}");
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
            assert_eq!(in_order(&sources).unwrap(), expected);
        }
    }
}
