//! The classic: every unit into the emptiest slice that ends before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Unit;
use super::bounds::QuickKey;

/// Puts each of `members`, by its lower bound, into the slice with the fewest units among those that end before it,
/// beginning with `target` empty slices, and opens a further one where there is none. A unit that follows another in
/// its file stays with that, if it can.
///
/// Gives non-empty slices that are each a run, and more than `target` of them only if more than `target` units
/// lie over one key: the number is then that depth. A unit of unknown bounds has a slice of its own.
/// O(n log n) however much units overlap: a slice is either busy, in a heap by where it ends, or free, in a heap
/// by how many units it has.
pub(super) fn slices(units: &[Unit], members: &[usize], target: usize) -> Vec<Vec<usize>> {
    let mut known = Vec::with_capacity(members.len());
    let mut slices: Vec<Vec<usize>> = vec![];
    for &unit in members {
        match &units[unit].bounds {
            Some(bounds) => known.push((bounds.ends(), unit)),
            None => slices.push(vec![unit]),
        }
    }
    known.sort_unstable();

    // Entries hold the number of units that the slice had; where it has more now, they are out of date.
    // (units, slice)
    let mut free: BinaryHeap<Reverse<(usize, usize)>> = (slices.len()..target)
        .map(|slice| Reverse((0, slice)))
        .collect();
    slices.resize(target.max(slices.len()), vec![]);
    // (upper bound, slice, units)
    let mut busy = BinaryHeap::new();
    // One more than the slice of each unit that is in one.
    let mut slice_of = vec![0_usize; units.len()];

    for ((lower, upper), unit) in known {
        while let Some(&Reverse((end, slice, len))) = busy.peek()
            && end <= lower
        {
            busy.pop();
            free.push(Reverse((len, slice)));
        }
        let after = units[unit].follows.and_then(|before| {
            let slice = slice_of[before].checked_sub(1)?;
            let ends = &units[before].bounds.as_ref()?.upper;
            (slices[slice].last() == Some(&before) && QuickKey::from(ends) <= lower)
                .then_some(slice)
        });
        let emptiest = || {
            while let Some(Reverse((len, slice))) = free.pop() {
                if slices[slice].len() == len {
                    return Some(slice);
                }
            }
            None
        };
        let slice = after.or_else(emptiest).unwrap_or(slices.len());
        if slice == slices.len() {
            slices.push(vec![]);
        }
        slices[slice].push(unit);
        slice_of[unit] = slice + 1;
        busy.push(Reverse((QuickKey::from(upper), slice, slices[slice].len())));
    }

    slices.retain(|slice| !slice.is_empty());
    slices
}
