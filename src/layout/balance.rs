//! Cutting a sequence of sizes into contiguous, balanced ranges.

use std::ops::Range;

/// Cuts the sequence `sizes` into `min(parts, len)` non-empty contiguous ranges.
///
/// The largest range is as small as it can be for any such cut, and within that limit each cut is the one nearest
/// to an even share of what is left. O(n + p log n log total).
pub(super) fn cut(sizes: impl Iterator<Item = u64>, parts: usize) -> Vec<Range<usize>> {
    let sums = Sums::new(sizes);
    let parts = parts.min(sums.len());
    if parts == 0 {
        return vec![];
    }
    let limit = sums.smallest_limit(parts);
    let first_start = sums.first_starts(parts, limit);

    let mut ranges = Vec::with_capacity(parts);
    let mut start = 0;
    for left in (0..parts).rev() {
        // The rest must fit into `left` ranges, of at least one item each.
        let earliest = first_start[left].max(start + 1);
        let latest = sums.last_end(start, limit).min(sums.len() - left);
        let share = sums.between(start, sums.len()) / (left as u128 + 1);
        let end = sums.nearest_end(start, share).clamp(earliest, latest);
        ranges.push(start..end);
        start = end;
    }
    ranges
}

/// Prefix sums: `self.0[i]` is the size of the first `i` items.
struct Sums(Vec<u128>);

impl Sums {
    fn new(sizes: impl Iterator<Item = u64>) -> Self {
        let mut total = 0;
        let sums = sizes.map(|size| {
            total += u128::from(size);
            total
        });
        Self(std::iter::once(0).chain(sums).collect())
    }

    /// The number of items.
    fn len(&self) -> usize {
        self.0.len() - 1
    }

    fn between(&self, start: usize, end: usize) -> u128 {
        self.0[end] - self.0[start]
    }

    /// The largest `end` for which `start..end` is within `limit`.
    fn last_end(&self, start: usize, limit: u128) -> usize {
        self.0.partition_point(|&sum| sum <= self.0[start] + limit) - 1
    }

    /// The `end` for which the size of `start..end` is nearest to `share`.
    fn nearest_end(&self, start: usize, share: u128) -> usize {
        let below = self.last_end(start, share);
        let above = (below + 1).min(self.len());
        let short = share - self.between(start, below);
        let over = self.between(start, above).saturating_sub(share);
        if over < short { above } else { below }
    }

    /// The smallest limit under which all items fit into `parts` ranges.
    fn smallest_limit(&self, parts: usize) -> u128 {
        let fits = |limit| {
            let mut end = 0;
            for _ in 0..parts {
                end = self.last_end(end, limit);
            }
            end == self.len()
        };
        let total = self.between(0, self.len());
        let (mut low, mut high) = (total / parts as u128, total);
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// For each number of ranges below `parts`, the first item from which on all items fit into that many.
    fn first_starts(&self, parts: usize, limit: u128) -> Vec<usize> {
        let mut end = self.len();
        let mut starts = vec![end];
        for _ in 1..parts {
            let floor = self.0[end].saturating_sub(limit);
            end = self.0.partition_point(|&sum| sum < floor).min(end);
            starts.push(end);
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    fn largest(sizes: &[u64], ranges: &[Range<usize>]) -> u64 {
        let sum = |range: &Range<usize>| sizes[range.clone()].iter().sum();
        ranges.iter().map(sum).max().unwrap_or(0)
    }

    /// The smallest possible size of the largest of `parts` ranges, by trying every first cut.
    fn best_by_brute_force(sizes: &[u64], parts: usize) -> u64 {
        if parts == 1 {
            return sizes.iter().sum();
        }
        (1..=sizes.len() - (parts - 1))
            .map(|cut| {
                let first = sizes[..cut].iter().sum::<u64>();
                first.max(best_by_brute_force(&sizes[cut..], parts - 1))
            })
            .min()
            .unwrap()
    }

    #[test]
    fn is_the_best_cut() {
        let mut random = Random::new(1);
        for case in 0..3000 {
            let len = 1 + random.below(9) as usize;
            let spread = [1, 2, 10, 1000][case % 4];
            let sizes: Vec<_> = (0..len).map(|_| random.below(spread + 1)).collect();
            let parts = 1 + random.below(6) as usize;

            let ranges = cut(sizes.iter().copied(), parts);

            assert_eq!(ranges.len(), parts.min(len), "{sizes:?} into {parts}");
            assert!(
                ranges.iter().all(|range| !range.is_empty()),
                "{sizes:?} {ranges:?}"
            );
            let items: Vec<_> = ranges.iter().cloned().flatten().collect();
            assert_eq!(
                items,
                (0..len).collect::<Vec<_>>(),
                "nothing lost or doubled"
            );
            assert_eq!(
                largest(&sizes, &ranges),
                best_by_brute_force(&sizes, parts.min(len)),
                "{sizes:?} into {parts}: {ranges:?}"
            );
        }
    }

    #[test]
    fn spreads_what_the_limit_leaves_open() {
        // Filling each range up to the limit of 3 would give 3, 3, 3, 1.
        let ranges = cut([1; 10].into_iter(), 4);
        let mut sizes: Vec<_> = ranges.iter().map(Range::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [2, 2, 3, 3]);
    }

    #[test]
    fn takes_extremes() {
        assert!(cut(std::iter::empty(), 4).is_empty());
        assert!(cut([1, 2].into_iter(), 0).is_empty());
        assert_eq!(cut([0, 0, 0].into_iter(), 2).len(), 2);
        assert_eq!(cut([u64::MAX; 4].into_iter(), 2), [0..2, 2..4]);
    }
}
