//! The classic: every unit into the emptiest slice that ends before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Bounds, Unit};

/// Puts each unit, by its lower bound, into the slice with the fewest units among those that end before it,
/// beginning with `target` empty slices, and opens a further one where there is none.
///
/// Gives non-empty slices that are each a run, and more than `target` of them only if more than `target` units
/// lie over one key: the number is then that depth. A unit of unknown bounds has a slice of its own.
/// O(n log n) however much units overlap: a slice is either busy, in a heap by where it ends, or free, in a heap
/// by how many units it has.
pub(super) fn slices(units: &[Unit], target: usize) -> Vec<Vec<usize>> {
    let mut known = Vec::with_capacity(units.len());
    let mut slices: Vec<Vec<usize>> = vec![];
    for (unit, Unit { bounds, .. }) in units.iter().enumerate() {
        match bounds {
            Some(Bounds { lower, upper }) => known.push((lower.as_ref(), upper.as_ref(), unit)),
            None => slices.push(vec![unit]),
        }
    }
    known.sort_unstable();

    // (units, slice)
    let mut free: BinaryHeap<Reverse<(usize, usize)>> = (slices.len()..target)
        .map(|slice| Reverse((0, slice)))
        .collect();
    slices.resize(target.max(slices.len()), vec![]);
    // (upper bound, slice)
    let mut busy: BinaryHeap<Reverse<(&[u8], usize)>> = BinaryHeap::new();

    for (lower, upper, unit) in known {
        while let Some(&Reverse((end, slice))) = busy.peek()
            && end <= lower
        {
            busy.pop();
            free.push(Reverse((slices[slice].len(), slice)));
        }
        let slice = match free.pop() {
            Some(Reverse((_, slice))) => slice,
            None => {
                slices.push(vec![]);
                slices.len() - 1
            }
        };
        slices[slice].push(unit);
        busy.push(Reverse((upper, slice)));
    }

    slices.retain(|slice| !slice.is_empty());
    slices
}
