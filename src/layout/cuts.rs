//! Cutting the key space so that each value of the key, or of the beginning of it, lies in one slice only.

use std::ops::Range;

use super::{Bounds, Key, Slice, Unit, balance, runs_of};

/// Where slices of the key space begin. The first has no beginning, and each other one begins at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// How many columns of the key are compared.
    columns: usize,
    /// In order, and of that many columns each.
    keys: Vec<Key>,
}

/// A piece of the key space: keys at or after `from` and before `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) columns: usize,
    pub(crate) from: Option<Key>,
    pub(crate) to: Option<Key>,
}

/// Slices may be larger than their even share by half of it.
const MOST_SKEW: (u128, u128) = (3, 2);
/// A gap is worth to be farther from an even cut by this part of a share.
const NEAR: u128 = 10;
/// What is read twice may be this part of all.
const MOST_READ_TWICE: u128 = 20;

impl Cuts {
    /// Cuts at these keys, which are in order and have `columns` columns each.
    pub(crate) fn new(columns: usize, keys: Vec<Key>) -> Self {
        Self { columns, keys }
    }

    /// Balanced cuts of `run` into `target` slices, by as few of the first `columns` columns of the key as can be.
    ///
    /// Mostly that is where one unit ends before the next begins. Where units touch, or share a value of those columns,
    /// rows of one unit may be in two slices: it is then read twice, as far as need be. `None` if slices would be much
    /// out of balance, or too much would be read twice. O(n log n) for each column.
    pub(crate) fn of_run(
        units: &[Unit],
        run: &[usize],
        columns: usize,
        target: usize,
    ) -> Option<Self> {
        if target < 2 || run.len() < target {
            return None;
        }
        let sizes = || run.iter().map(|&unit| units[unit].bytes);
        let best = largest(sizes(), &balance::cut(sizes(), target));
        let bounds: Option<Vec<_>> = run
            .iter()
            .map(|&unit| units[unit].bounds.as_ref())
            .collect();
        let bounds = bounds?;
        (1..=columns).find_map(|columns| {
            let places = Places::new(&bounds, columns);
            let at_gaps = places.cut(sizes(), target, true);
            let cut = at_gaps.filter(|cut| is_balanced(sizes(), cut, best));
            let cut = cut.or_else(|| {
                let cut = places.cut(sizes(), target, false)?;
                let read_twice: u128 = cut[1..]
                    .iter()
                    .filter(|slice| !places.is_gap(slice.start))
                    .map(|slice| u128::from(units[run[slice.start - 1]].grain))
                    .sum();
                let total: u128 = sizes().map(u128::from).sum();
                (is_balanced(sizes(), &cut, best) && read_twice * MOST_READ_TWICE <= total)
                    .then_some(cut)
            })?;
            let begins = cut[1..].iter().map(|slice| bounds[slice.start].lower());
            Some(Self {
                columns,
                keys: begins.map(|key| key.first(columns)).collect(),
            })
        })
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The piece of the key space that is slice `slice`.
    pub(crate) fn range(&self, slice: usize) -> KeyRange {
        let before = slice.checked_sub(1);
        KeyRange {
            columns: self.columns,
            from: before.and_then(|before| self.keys.get(before).cloned()),
            to: self.keys.get(slice).cloned(),
        }
    }

    /// The units that have rows in each slice, in as few runs as there can be. A unit may be in several slices, and is
    /// to be cut down to the [range](Self::range) of each. `None` if bounds are not known.
    ///
    /// O(n log n) in the number of units in all slices.
    pub(crate) fn slices(&self, units: &[Unit]) -> Option<Vec<Slice>> {
        let mut members = vec![vec![]; self.keys.len() + 1];
        for (unit, Unit { bounds, .. }) in units.iter().enumerate() {
            let bounds = bounds.as_ref()?;
            let owners = self.slice_of(bounds.lower())..=self.slice_of(bounds.upper());
            members[owners].iter_mut().for_each(|of| of.push(unit));
        }
        let slice = |members: Vec<usize>| Slice {
            runs: runs_of(units, &members),
        };
        Some(members.into_iter().map(slice).collect())
    }

    fn slice_of(&self, key: &Key) -> usize {
        let key = key.prefix(self.columns);
        self.keys
            .partition_point(|cut| cut.prefix(self.columns) <= key)
    }
}

impl KeyRange {
    /// Whether all keys within `bounds` are in the range.
    pub(crate) fn contains(&self, bounds: &Bounds) -> bool {
        self.has_begun(&bounds.lower) && !self.has_ended(&bounds.upper)
    }

    /// Whether some key within `bounds` may be in the range.
    pub(crate) fn overlaps(&self, bounds: &Bounds) -> bool {
        self.has_begun(&bounds.upper) && !self.has_ended(&bounds.lower)
    }

    /// Whether the range begins at or before `key`.
    fn has_begun(&self, key: &Key) -> bool {
        let from = self.from.as_ref();
        from.is_none_or(|from| from.prefix(self.columns) <= key.prefix(self.columns))
    }

    /// Whether the range ends at or before `key`.
    fn has_ended(&self, key: &Key) -> bool {
        let to = self.to.as_ref();
        to.is_some_and(|to| to.prefix(self.columns) <= key.prefix(self.columns))
    }

    /// The part of `bounds` in the range.
    pub(crate) fn narrow(&self, bounds: &Bounds) -> Bounds {
        let from = self.from.iter().chain([&bounds.lower]).max();
        let to = self.to.iter().chain([&bounds.upper]).min();
        let narrowed = from
            .zip(to)
            .and_then(|(lower, upper)| Bounds::try_new(lower.clone(), upper.clone()));
        narrowed.unwrap_or_else(|| bounds.clone())
    }
}

/// The places between the units of a run at which it can be cut.
struct Places<'a> {
    bounds: &'a [&'a Bounds],
    columns: usize,
}

impl<'a> Places<'a> {
    fn new(bounds: &'a [&'a Bounds], columns: usize) -> Self {
        Self { bounds, columns }
    }

    /// Whether the unit before this place ends before the unit after it begins.
    fn is_gap(&self, place: usize) -> bool {
        let (before, after) = (self.bounds[place - 1], self.bounds[place]);
        before.upper.prefix(self.columns) < after.lower.prefix(self.columns)
    }

    /// Whether a value begins at this place: all that comes before begins earlier.
    fn is_beginning(&self, place: usize) -> bool {
        let (before, after) = (self.bounds[place - 1], self.bounds[place]);
        before.lower.prefix(self.columns) < after.lower.prefix(self.columns)
    }

    /// The run in `target` slices, cut at gaps only, or else at beginnings, but at gaps that are near.
    fn cut(
        &self,
        sizes: impl Iterator<Item = u64>,
        target: usize,
        gaps_only: bool,
    ) -> Option<Vec<Range<usize>>> {
        let sums: Vec<u128> = std::iter::once(0)
            .chain(sizes.scan(0, |sum, size| {
                *sum += u128::from(size);
                Some(*sum)
            }))
            .collect();
        let is_place = |place: &usize| match gaps_only {
            true => self.is_gap(*place),
            false => self.is_beginning(*place),
        };
        let len = self.bounds.len();
        let mut places = vec![0];
        places.extend((1..len).filter(is_place));
        places.push(len);
        let blocks = places
            .windows(2)
            .map(|block| u64::try_from(sums[block[1]] - sums[block[0]]).unwrap_or(u64::MAX));
        let cut = balance::cut(blocks, target);
        if cut.len() < target {
            return None;
        }
        let near = sums[len] / target as u128 / NEAR;
        let mut ends: Vec<_> = cut.iter().map(|slice| places[slice.end]).collect();
        for end in &mut ends[..target - 1] {
            *end = self.gap_near(*end, &sums, near).unwrap_or(*end);
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let slices: Vec<_> = starts.zip(&ends).map(|(start, &end)| start..end).collect();
        slices
            .iter()
            .all(|slice| !slice.is_empty())
            .then_some(slices)
    }

    /// The gap nearest to `place`, if there is one within `near` bytes.
    fn gap_near(&self, place: usize, sums: &[u128], near: u128) -> Option<usize> {
        let distance = |other: usize| sums[place].abs_diff(sums[other]);
        let before = (1..=place).rev();
        let after = place + 1..self.bounds.len();
        let in_reach = |other: &usize| distance(*other) <= near;
        let before = before
            .take_while(in_reach)
            .find(|&place| self.is_gap(place));
        let after = after.take_while(in_reach).find(|&place| self.is_gap(place));
        before
            .into_iter()
            .chain(after)
            .min_by_key(|&other| distance(other))
    }
}

fn largest(sizes: impl Iterator<Item = u64>, slices: &[Range<usize>]) -> u128 {
    let sizes: Vec<_> = sizes.collect();
    let size = |slice: &Range<usize>| sizes[slice.clone()].iter().copied().map(u128::from).sum();
    slices.iter().map(size).max().unwrap_or(0)
}

/// Whether no slice is much larger than its share, or than it has to be.
fn is_balanced(
    sizes: impl Iterator<Item = u64> + Clone,
    slices: &[Range<usize>],
    best: u128,
) -> bool {
    let total: u128 = sizes.clone().map(u128::from).sum();
    let (times, of) = MOST_SKEW;
    let largest = largest(sizes, slices);
    largest * of * slices.len() as u128 <= total * times || largest * NEAR <= best * (NEAR + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    fn unit(lower: [u8; 2], upper: [u8; 2], bytes: u64) -> Unit {
        let key = |key: [u8; 2]| Key::new([&key[..1], &key[1..]]);
        Unit {
            bounds: Bounds::try_new(key(lower), key(upper)),
            bytes,
            grain: 1,
            follows: None,
        }
    }

    fn cuts(units: &[Unit], target: usize) -> Option<(usize, Vec<Vec<u8>>)> {
        let run: Vec<_> = (0..units.len()).collect();
        let cuts = Cuts::of_run(units, &run, 2, target)?;
        let bytes = |key: &Key| key.prefix(2).to_vec();
        Some((cuts.columns(), cuts.keys().iter().map(bytes).collect()))
    }

    #[test]
    fn cuts_by_the_first_column_where_it_has_gaps() {
        let units: Vec<_> = (0..4).map(|n| unit([n, 0], [n, 9], 100)).collect();
        assert_eq!(cuts(&units, 2), Some((1, vec![vec![2]])));
        assert_eq!(cuts(&units, 4), Some((1, vec![vec![1], vec![2], vec![3]])));
        assert_eq!(cuts(&units, 5), None, "there are fewer units");
        assert_eq!(cuts(&units, 1), None);
    }

    #[test]
    fn one_value_of_the_first_column_is_cut_by_the_next() {
        let units: Vec<_> = (0..4).map(|n| unit([7, n], [7, n], 100)).collect();
        assert_eq!(cuts(&units, 2), Some((2, vec![vec![7, 2]])));
    }

    #[test]
    fn touching_units_are_cut_where_one_begins() {
        let units: Vec<_> = (0..4).map(|n| unit([n, 0], [n + 1, 0], 100)).collect();
        assert_eq!(cuts(&units, 2), Some((1, vec![vec![2]])));
        let slices = Cuts::new(1, vec![Key::new([&[2][..]])])
            .slices(&units)
            .unwrap();
        let runs: Vec<_> = slices.into_iter().map(|slice| slice.runs).collect();
        assert_eq!(runs, [[vec![0, 1]], [vec![1, 2, 3]]]);
    }

    #[test]
    fn a_gap_that_is_near_is_better_than_the_middle() {
        let mut units: Vec<_> = (0..40).map(|n| unit([n, 0], [n + 1, 0], 100)).collect();
        units[20] = unit([20, 0], [20, 5], 100);
        assert_eq!(cuts(&units, 2), Some((1, vec![vec![21]])));
    }

    #[test]
    fn nothing_is_cut_that_costs_too_much() {
        let mut units: Vec<_> = (0..4).map(|n| unit([n, 0], [n + 1, 0], 100)).collect();
        for unit in &mut units {
            unit.grain = 100;
        }
        assert_eq!(cuts(&units, 2), None, "a quarter would be read twice");
        let skewed = [
            unit([1, 1], [1, 1], 100),
            unit([1, 1], [1, 1], 100),
            unit([2, 0], [2, 0], 1),
        ];
        assert_eq!(cuts(&skewed, 2), None, "equal keys do not part");
    }

    #[test]
    fn every_key_is_in_one_slice() {
        let mut random = Random::new(7);
        for case in 0..2000 {
            let spread = 1 + random.below(6);
            let mut key = || [random.below(spread) as u8, random.below(4) as u8];
            let units: Vec<_> = (0..1 + case % 7)
                .map(|_| {
                    let (a, b) = (key(), key());
                    unit(a.min(b), a.max(b), 10)
                })
                .collect();
            let columns = 1 + case as usize % 2;
            let mut keys: Vec<_> = (0..random.below(4))
                .map(|_| [random.below(spread) as u8, random.below(4) as u8][..columns].to_vec())
                .collect();
            keys.sort();
            keys.dedup();
            let cut = |key: &Vec<u8>| Key::new(key.chunks(1));
            let cuts = Cuts::new(columns, keys.iter().map(cut).collect());
            let slices = cuts.slices(&units).unwrap();
            assert_eq!(slices.len(), keys.len() + 1);
            for (slice, Slice { runs }) in slices.iter().enumerate() {
                let range = cuts.range(slice);
                for (index, unit) in units.iter().enumerate() {
                    let bounds = unit.bounds.as_ref().unwrap();
                    let is_in = runs.iter().flatten().any(|&member| member == index);
                    assert_eq!(is_in, range.overlaps(bounds), "case {case}");
                    // Every key there is, by brute force.
                    let keys = (0..6).flat_map(|a| (0..4).map(move |b| [a, b]));
                    let within = keys.filter(|key| {
                        let key = &key[..];
                        bounds.lower.prefix(2) <= key && key <= bounds.upper.prefix(2)
                    });
                    let in_range = |key: &[u8; 2]| {
                        let first = &key[..columns];
                        range
                            .from
                            .as_ref()
                            .is_none_or(|from| from.prefix(2) <= first)
                            && range.to.as_ref().is_none_or(|to| first < to.prefix(2))
                    };
                    let within: Vec<_> = within.collect();
                    let inside = within.iter().filter(|key| in_range(key)).count();
                    assert_eq!(
                        range.contains(bounds),
                        inside == within.len(),
                        "case {case}"
                    );
                    assert!(is_in || inside == 0, "case {case}: a row would be lost");
                    let narrowed = range.narrow(bounds);
                    for key in within.iter().filter(|key| in_range(key)) {
                        assert!(narrowed.lower.prefix(2) <= &key[..], "case {case}");
                        assert!(&key[..] <= narrowed.upper.prefix(2), "case {case}");
                    }
                }
            }
        }
    }
}
