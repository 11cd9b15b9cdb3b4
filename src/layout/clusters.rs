//! Slices of units that overlap: cut between clusters, and inside a slice as few runs as there can be.

use std::ops::Range;

use super::{Bounds, Key, Unit, balance, best_fit};

/// A contiguous piece of the key space: every row of a slice lies at or before every row of the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Slice {
    /// Units that are in order one after another. To read several runs in order is to merge them.
    pub(crate) runs: Vec<Vec<usize>>,
}

/// Puts `units` into at most `target` slices, balanced by bytes, that are cut between clusters.
///
/// A unit of unknown bounds overlaps all others. A slice has as many runs as there are units over one key in it, the
/// fewest there can be. O(n log n).
pub(crate) fn slices_of_clusters(units: &[Unit], target: usize) -> Vec<Slice> {
    let (order, clusters) = clusters(units);
    let bytes = |cluster: &Range<usize>| {
        let members = order[cluster.clone()].iter();
        members.map(|&unit| units[unit].bytes).sum()
    };
    balance::cut(clusters.iter().map(bytes), target)
        .into_iter()
        .map(|range| {
            let slice = clusters[range.start].start..clusters[range.end - 1].end;
            Slice {
                runs: runs_of(units, &order[slice]),
            }
        })
        .collect()
}

/// `members` of `units` in as few runs as there can be. O(n log n).
pub(crate) fn runs_of(units: &[Unit], members: &[usize]) -> Vec<Vec<usize>> {
    best_fit::slices(units, members, 0)
}

/// The units in order of their bounds, and the clusters as ranges of that order: maximal sets of units that overlap,
/// directly or through others.
fn clusters(units: &[Unit]) -> (Vec<usize>, Vec<Range<usize>>) {
    // Unknown bounds come first.
    let bounds = |unit: usize| units[unit].bounds.as_ref();
    let mut order: Vec<_> = (0..units.len()).collect();
    order.sort_by_cached_key(|&unit| bounds(unit).map(Bounds::ends));

    let mut clusters: Vec<Range<usize>> = vec![];
    // Where the cluster ends, if that is known.
    let mut reach: Option<&Key> = None;
    for (place, &unit) in order.iter().enumerate() {
        let (lower, upper) = match bounds(unit) {
            Some(bounds) => (Some(&bounds.lower), Some(&bounds.upper)),
            None => (None, None),
        };
        match clusters.last_mut() {
            Some(cluster) if !matches!((reach, lower), (Some(r), Some(l)) if r <= l) => {
                cluster.end = place + 1;
                reach = match (reach, upper) {
                    (Some(reach), Some(upper)) => Some(reach.max(upper)),
                    _ => None,
                };
            }
            _ => {
                clusters.push(place..place + 1);
                reach = upper;
            }
        }
    }
    (order, clusters)
}
