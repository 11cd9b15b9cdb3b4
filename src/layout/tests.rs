//! Layouts of random intervals against checks that know nothing of the algorithms.

use super::*;
use crate::test_random::Random;

type Interval = (u64, u64);

fn key(value: u64) -> Key {
    Key::new([&value.to_be_bytes()[..]])
}

fn unit((lower, upper): Interval, bytes: u64) -> Unit {
    Unit {
        bounds: Bounds::try_new(key(lower), key(upper)),
        bytes,
        grain: 0,
        follows: None,
    }
}

fn unknown() -> Unit {
    Unit {
        bounds: None,
        bytes: 1,
        grain: 0,
        follows: None,
    }
}

fn units(intervals: &[Interval]) -> Vec<Unit> {
    intervals
        .iter()
        .map(|&interval| unit(interval, 1))
        .collect()
}

/// Random intervals over few keys, so that overlap, containment, touching and equality all occur.
fn random_intervals(random: &mut Random, len: usize, keys: u64, width: u64) -> Vec<Interval> {
    (0..len)
        .map(|_| {
            let lower = random.below(keys);
            (lower, lower + random.below(width))
        })
        .collect()
}

/// The most intervals that cannot be read one after another: over one key, touching not counted, but points
/// inside an interval are.
fn depth(intervals: &[Interval]) -> usize {
    let keys = intervals.iter().flat_map(|&(lower, upper)| [lower, upper]);
    keys.flat_map(|key| {
        // At a key, and between it and the next.
        let at = intervals
            .iter()
            .filter(|(l, u)| *l < key && key < *u)
            .count();
        let points = intervals.iter().any(|&(l, u)| l == key && u == key);
        let after = intervals
            .iter()
            .filter(|(l, u)| *l <= key && key < *u)
            .count();
        [at + usize::from(points), after]
    })
    .max()
    .unwrap_or(0)
}

/// Whether some order of all the intervals makes them a run, by trying every order.
fn is_run_in_some_order(intervals: &[Interval]) -> bool {
    fn search(end: u64, left: &mut Vec<Interval>) -> bool {
        left.is_empty()
            || (0..left.len()).any(|i| {
                let next = left.swap_remove(i);
                let found = end <= next.0 && search(next.1, left);
                left.push(next);
                let last = left.len() - 1;
                left.swap(i, last);
                found
            })
    }
    search(0, &mut intervals.to_vec())
}

fn assert_whole(slices: &[Vec<usize>], len: usize) {
    let mut all: Vec<_> = slices.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..len).collect::<Vec<_>>(), "nothing lost or doubled");
    assert!(
        slices.iter().all(|slice| !slice.is_empty()),
        "no empty slice"
    );
}

fn assert_run(intervals: &[Interval], run: &[usize]) {
    let in_order = run
        .windows(2)
        .all(|pair| intervals[pair[0]].1 <= intervals[pair[1]].0);
    assert!(in_order, "{run:?} of {intervals:?} is not in order");
}

#[test]
fn contiguous_applies_exactly_when_some_order_is_a_run() {
    let mut random = Random::new(7);
    let mut applied = 0;
    for _ in 0..5000 {
        let len = random.below(7) as usize;
        let intervals = random_intervals(&mut random, len, 30, 5);
        let target = 1 + random.below(4) as usize;

        let layout = lay_out(&units(&intervals), target, Strategy::Contiguous);

        let contiguous = layout.is_ok_and(|layout| layout.strategy == Strategy::Contiguous);
        assert_eq!(
            contiguous,
            is_run_in_some_order(&intervals),
            "{intervals:?}"
        );
        applied += usize::from(contiguous);
    }
    assert!(
        (500..4500).contains(&applied),
        "both outcomes are tested: {applied}"
    );
}

#[test]
fn contiguous_slices_are_whole_ordered_and_balanced() {
    let mut random = Random::new(11);
    for case in 0..3000 {
        // A run by construction: disjoint, touching or equal points, in shuffled order.
        let len = random.below(40) as usize;
        let mut end = 0;
        let mut intervals: Vec<Interval> = (0..len)
            .map(|_| {
                let lower = end + random.below(3);
                end = lower + random.below(3);
                (lower, end)
            })
            .collect();
        for i in (1..len).rev() {
            intervals.swap(i, random.below(i as u64 + 1) as usize);
        }
        let bytes: Vec<_> = (0..len).map(|_| 1 + random.below(100)).collect();
        let units: Vec<_> = intervals
            .iter()
            .zip(&bytes)
            .map(|(&i, &b)| unit(i, b))
            .collect();
        let target = 1 + random.below(9) as usize;

        let layout = lay_out(&units, target, Strategy::Contiguous).unwrap();

        assert_eq!(
            layout.strategy,
            Strategy::Contiguous,
            "case {case}: {intervals:?}"
        );
        assert_eq!(layout.stepped_down, None);
        assert_eq!(layout.slices.len(), target.min(len));
        assert_whole(&layout.slices, len);
        // Slice after slice is one run: each slice is in order, and wholly at or before the next.
        assert_run(&intervals, &layout.slices.concat());
        // No slice exceeds an even share by more than the largest unit.
        let size = |slice: &Vec<usize>| slice.iter().map(|&unit| bytes[unit]).sum::<u64>();
        let largest = layout.slices.iter().map(size).max().unwrap_or(0);
        let share = bytes.iter().sum::<u64>() / target as u64;
        assert!(largest <= share + bytes.iter().max().copied().unwrap_or(0));
    }
}

#[test]
fn best_fit_uses_no_more_slices_than_depth_or_target() {
    let mut random = Random::new(13);
    let mut refused = 0;
    for _ in 0..5000 {
        let len = 1 + random.below(30) as usize;
        let width = 1 + random.below(12);
        let intervals = random_intervals(&mut random, len, 40, width);
        let target = 1 + random.below(8) as usize;

        match lay_out(&units(&intervals), target, Strategy::BestFit) {
            Ok(layout) => {
                assert_eq!(layout.strategy, Strategy::BestFit);
                assert!(layout.slices.len() <= target);
                assert_whole(&layout.slices, len);
                layout
                    .slices
                    .iter()
                    .for_each(|slice| assert_run(&intervals, slice));
                assert!(depth(&intervals) <= target);
            }
            Err(NoLayout { slices_needed, .. }) => {
                refused += 1;
                assert!(slices_needed > target);
                assert_eq!(
                    slices_needed,
                    depth(&intervals),
                    "{intervals:?} into {target}"
                );
            }
        }
    }
    assert!(
        (500..4500).contains(&refused),
        "both outcomes are tested: {refused}"
    );
}

#[test]
fn the_named_units_really_overlap() {
    let mut random = Random::new(17);
    for _ in 0..2000 {
        let intervals = random_intervals(&mut random, 12, 60, 9);
        if let Err(Obstacle::Overlap { earlier, later }) = run_order(&units(&intervals)) {
            assert!(intervals[earlier].1 > intervals[later].0);
            assert!(
                intervals[later].1 > intervals[earlier].0
                    || intervals[later] == intervals[earlier]
                    || intervals[later].0 == intervals[later].1,
                "{intervals:?}"
            );
        }
    }
}

#[test]
fn steps_down_where_units_overlap() {
    let units = units(&[(0, 10), (5, 15), (20, 30), (25, 35)]);
    let layout = lay_out(&units, 2, Strategy::Contiguous).unwrap();
    assert_eq!(layout.strategy, Strategy::BestFit);
    assert_eq!(
        layout.stepped_down,
        Some(Obstacle::Overlap {
            earlier: 0,
            later: 1
        })
    );
    assert_eq!(layout.slices, [[0, 2], [1, 3]]);

    let none = lay_out(&units, 1, Strategy::Contiguous).unwrap_err();
    assert_eq!(none.slices_needed, 2);
}

#[test]
fn a_unit_of_unknown_bounds_stands_alone() {
    let units = [unit((0, 1), 1), unknown(), unit((2, 3), 1), unit((4, 5), 1)];
    let layout = lay_out(&units, 2, Strategy::Contiguous).unwrap();
    assert_eq!(layout.strategy, Strategy::BestFit);
    assert_eq!(
        layout.stepped_down,
        Some(Obstacle::UnknownBounds { unit: 1 })
    );
    assert_eq!(layout.slices, vec![vec![1], vec![0, 2, 3]]);

    let none = lay_out(&units, 1, Strategy::Contiguous).unwrap_err();
    assert_eq!(none.obstacle, Obstacle::UnknownBounds { unit: 1 });
    assert_eq!(none.slices_needed, 2);

    // Alone in its table, its order inside is all that is asked for.
    let alone = lay_out(&[unknown()], 4, Strategy::Contiguous).unwrap();
    assert_eq!(alone.slices, [[0]]);
    assert_eq!(alone.strategy, Strategy::Contiguous);
}

#[test]
fn takes_extremes() {
    assert!(
        lay_out(&[], 4, Strategy::Contiguous)
            .unwrap()
            .slices
            .is_empty()
    );
    assert!(
        lay_out(&[], 4, Strategy::BestFit)
            .unwrap()
            .slices
            .is_empty()
    );
    // A point at the edge of wider units touches both.
    let touching = units(&[(5, 9), (5, 5), (1, 5)]);
    assert_eq!(
        lay_out(&touching, 1, Strategy::Contiguous).unwrap().slices,
        [[2, 1, 0]]
    );
}

/// Quadratic work would show itself here by never ending.
#[test]
fn total_overlap_is_not_quadratic() {
    let units: Vec<_> = (0..200_000).map(|i| unit((i, i + 1_000_000), 1)).collect();
    let none = lay_out(&units, 4, Strategy::Contiguous).unwrap_err();
    assert_eq!(none.slices_needed, units.len());
}

/// How long layouts of a million units take, of which what is asked for depends on what is proved:
/// `cargo test --release --lib -- --ignored --nocapture a_million_units`.
#[test]
#[ignore = "measures, and asserts nothing of times"]
fn a_million_units() {
    let mut random = Random::new(5);
    let mut shuffled: Vec<u64> = (0..1_000_000).collect();
    for last in (1..shuffled.len()).rev() {
        shuffled.swap(last, random.below(last as u64 + 1) as usize);
    }
    for (shape, width) in [
        ("apart", 5),
        ("touching", 10),
        ("neighbours overlap", 15),
        ("all overlap", 100_000_000),
    ] {
        let intervals = shuffled.iter().map(|&i| (i * 10, i * 10 + width));
        let units = units(&intervals.collect::<Vec<_>>());
        let start = std::time::Instant::now();
        let layout = lay_out(&units, 16, Strategy::Contiguous);
        let laid_out = start.elapsed();
        let slices = match &layout {
            Ok(layout) => layout.slices.clone(),
            Err(_) => {
                let slices = slices_of_clusters(&units, 16);
                slices.into_iter().flat_map(|slice| slice.runs).collect()
            }
        };
        let clustered = start.elapsed();
        if let Ok(run) = run_order(&units) {
            assert!(Cuts::of_run(&units, &run, 1, 16).is_some());
        }
        let all: usize = slices.iter().map(Vec::len).sum();
        assert_eq!(all, units.len());
        println!(
            "{shape}: lay_out {laid_out:.3?}, with clusters {clustered:.3?}, with cuts {:.3?}",
            start.elapsed()
        );
    }
}

/// The connected components of the relation "overlaps", by flooding.
fn components(units: &[Unit]) -> Vec<Vec<usize>> {
    let overlap = |a: usize, b: usize| match (&units[a].bounds, &units[b].bounds) {
        (Some(a), Some(b)) => !(a.ends_before(b) || b.ends_before(a)),
        _ => true,
    };
    let mut left: Vec<_> = (0..units.len()).collect();
    let mut components = vec![];
    while let Some(first) = left.pop() {
        let mut component = vec![first];
        let mut next = 0;
        while next < component.len() {
            let (near, far) = left
                .iter()
                .partition(|&&unit| overlap(component[next], unit));
            left = far;
            component.extend::<Vec<_>>(near);
            next += 1;
        }
        component.sort_unstable();
        components.push(component);
    }
    components
}

#[test]
fn clusters_are_never_cut_and_slices_are_in_order() {
    let mut random = Random::new(19);
    let mut cut = 0;
    for case in 0..4000 {
        let len = 1 + random.below(25) as usize;
        let width = 1 + random.below(12);
        let intervals = random_intervals(&mut random, len, 80, width);
        let mut units = units(&intervals);
        if case % 10 == 0 {
            units[0].bounds = None;
        }
        let target = 1 + random.below(5) as usize;

        let slices = slices_of_clusters(&units, target);

        let members: Vec<Vec<_>> = slices.iter().map(|slice| slice.runs.concat()).collect();
        assert_whole(&members, len);
        let components = components(&units);
        assert_eq!(slices.len(), target.min(components.len()), "{intervals:?}");
        for component in &components {
            let whole = |slice: &&Vec<usize>| component.iter().all(|unit| slice.contains(unit));
            assert_eq!(
                members.iter().filter(whole).count(),
                1,
                "{component:?} in {slices:?}"
            );
        }
        for (before, after) in members.iter().zip(&members[1..]) {
            let ends = before.iter().map(|&unit| intervals[unit].1).max();
            let begins = after.iter().map(|&unit| intervals[unit].0).min();
            assert!(ends <= begins, "{intervals:?}: {slices:?}");
        }
        cut += usize::from(slices.len() > 1);
    }
    assert!(
        (1000..3900).contains(&cut),
        "both outcomes are tested: {cut}"
    );
}

#[test]
fn runs_are_the_fewest() {
    let mut random = Random::new(23);
    for _ in 0..4000 {
        let len = 1 + random.below(25) as usize;
        let width = 1 + random.below(12);
        let intervals = random_intervals(&mut random, len, 40, width);

        let [slice] = &slices_of_clusters(&units(&intervals), 1)[..] else {
            panic!("one slice is asked for");
        };

        slice
            .runs
            .iter()
            .for_each(|run| assert_run(&intervals, run));
        assert_eq!(slice.runs.len(), depth(&intervals), "{intervals:?}");
    }
}

#[test]
fn a_unit_stays_with_the_one_it_follows() {
    // Two files of three row groups that lie side by side.
    let mut units = units(&[(0, 9), (10, 19), (20, 29), (1, 10), (11, 20), (21, 30)]);
    for unit in [1, 2, 4, 5] {
        units[unit].follows = Some(unit - 1);
    }
    let slices = slices_of_clusters(&units, 1);
    assert_eq!(slices[0].runs, [[0, 1, 2], [3, 4, 5]]);
}
