//! How much units overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bounds::QuickKey;
use super::{Bounds, Key};

/// How much units overlap, for a report. Slices are not made of this.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overlaps {
    /// The number of each unit's cluster. Clusters are numbered in key order.
    pub(crate) cluster_of: Vec<usize>,
    pub(crate) clusters: usize,
    /// The most units over one key: the fewest runs that all units can be put into.
    pub(crate) depth: usize,
    /// For each unit, whether its keys are all greater than those of the units that come before it in key order.
    pub(crate) strict_gap: Vec<bool>,
}

/// The overlaps of units with these bounds. Unknown bounds overlap all others. O(n log n).
pub(crate) fn overlaps(bounds: &[Option<&Bounds>]) -> Overlaps {
    let mut known: Vec<_> = bounds
        .iter()
        .enumerate()
        .filter_map(|(unit, bounds)| Some((unit, (*bounds)?)))
        .collect();
    known.sort_by_cached_key(|(_, bounds)| bounds.ends());
    let unknown = bounds.len() - known.len();

    let mut overlaps = Overlaps {
        cluster_of: vec![0; bounds.len()],
        clusters: usize::from(unknown > 0),
        depth: unknown,
        strict_gap: vec![false; bounds.len()],
    };
    // Where the units end that reach further than the lower bound at hand.
    let mut open: BinaryHeap<Reverse<QuickKey>> = BinaryHeap::new();
    let mut reach: Option<&Key> = None;
    for (unit, bounds) in known {
        let begin = QuickKey::from(&bounds.lower);
        while open.peek().is_some_and(|end| end.0 <= begin) {
            open.pop();
        }
        if open.is_empty() && unknown == 0 {
            overlaps.clusters += 1;
        }
        overlaps.cluster_of[unit] = overlaps.clusters - 1;
        overlaps.strict_gap[unit] = unknown == 0 && reach.is_none_or(|reach| *reach < bounds.lower);
        open.push(Reverse(QuickKey::from(&bounds.upper)));
        overlaps.depth = overlaps.depth.max(open.len() + unknown);
        reach = reach.max(Some(&bounds.upper));
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    fn bounds(lower: u8, upper: u8) -> Bounds {
        Bounds::try_new(Key::new([&[lower][..]]), Key::new([&[upper][..]])).unwrap()
    }

    fn of(units: &[Option<(u8, u8)>]) -> Overlaps {
        let units: Vec<_> = units
            .iter()
            .map(|unit| unit.map(|(lower, upper)| bounds(lower, upper)))
            .collect();
        overlaps(&units.iter().map(Option::as_ref).collect::<Vec<_>>())
    }

    #[test]
    fn touching_is_no_overlap_and_no_gap() {
        let touching = of(&[Some((5, 9)), Some((0, 5)), Some((10, 10)), Some((10, 12))]);
        assert_eq!(touching.cluster_of, [1, 0, 2, 3]);
        assert_eq!((touching.clusters, touching.depth), (4, 1));
        assert_eq!(touching.strict_gap, [false, true, true, false]);
    }

    #[test]
    fn unknown_bounds_overlap_all() {
        let one = of(&[None]);
        assert_eq!((one.clusters, one.depth), (1, 1));
        let some = of(&[Some((0, 1)), None, Some((2, 3)), None]);
        assert_eq!(some.cluster_of, [0; 4]);
        assert_eq!((some.clusters, some.depth), (1, 3));
        assert_eq!(some.strict_gap, [false; 4]);
        let none = of(&[]);
        assert_eq!((none.clusters, none.depth), (0, 0));
    }

    /// Half points of the key axis, counted one by one: an open interval covers the points inside of it, and units of one
    /// single key overlap what has that key inside.
    #[test]
    fn random_units_agree_with_counting_points() {
        let mut random = Random::new(9);
        for case in 0..2000 {
            let units: Vec<_> = (0..random.below(9))
                .map(|_| {
                    let lower = random.below(12) as u8;
                    (lower, lower + random.below([1, 3, 9][case % 3]) as u8)
                })
                .collect();
            let found = of(&units.iter().copied().map(Some).collect::<Vec<_>>());
            // Twice the key, so that there are points between keys.
            let points = |unit: &(u8, u8)| {
                let (lower, upper) = (2 * i32::from(unit.0), 2 * i32::from(unit.1));
                if lower == upper {
                    lower..lower + 1
                } else {
                    lower + 1..upper
                }
            };
            // Units of one single key are one after another wherever they lie, and not over one another.
            let is_wide = |unit: &&(u8, u8)| unit.0 < unit.1;
            let depth_at = |point: i32| {
                let wide = units.iter().filter(is_wide);
                let wide = wide.filter(|unit| points(unit).contains(&point)).count();
                let narrow = units.iter().filter(|unit| !is_wide(unit));
                wide + usize::from(narrow.clone().any(|unit| points(unit).contains(&point)))
            };
            let depth = (0..60).map(depth_at).max().unwrap();
            assert_eq!(found.depth, depth, "{units:?}");

            for (a, unit) in units.iter().enumerate() {
                for (b, other) in units.iter().enumerate() {
                    let shared = points(unit).any(|point| points(other).contains(&point));
                    let wide = is_wide(&unit) || is_wide(&other);
                    if shared && wide {
                        assert_eq!(found.cluster_of[a], found.cluster_of[b], "{units:?}");
                    }
                }
                let before = |other: &&(u8, u8)| *other < unit;
                let gap = units.iter().filter(before).all(|other| other.1 < unit.0);
                let same = units.iter().filter(|other| *other == unit).count();
                assert!(found.strict_gap[a] == gap || same > 1, "{units:?}");
            }
            let cuts = (0..=60).filter(|&point| {
                let ends = |unit: &(u8, u8)| 2 * i32::from(unit.1) <= point;
                let begins = |unit: &(u8, u8)| 2 * i32::from(unit.0) >= point;
                units.iter().all(|unit| ends(unit) || begins(unit))
                    && units.iter().any(|unit| is_wide(&unit) && ends(unit))
                    && units
                        .iter()
                        .any(|unit| is_wide(&unit) && begins(unit) && !ends(unit))
            });
            // Each cut is between two clusters of wide units.
            let wide: std::collections::BTreeSet<_> = (0..units.len())
                .filter(|&unit| is_wide(&&units[unit]))
                .map(|unit| found.cluster_of[unit])
                .collect();
            assert_eq!(cuts.count() > 0, wide.len() > 1, "{units:?}");
        }
    }
}
