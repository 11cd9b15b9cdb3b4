//! The key order of units that do not overlap.

use super::{Obstacle, Unit};

/// The units as one run: the order in which reading one after another is sorted.
///
/// A single unit is a run whatever its bounds. O(n log n).
pub(crate) fn run_order(units: &[Unit]) -> Result<Vec<usize>, Obstacle> {
    if units.len() < 2 {
        return Ok((0..units.len()).collect());
    }
    let mut run = Vec::with_capacity(units.len());
    for (unit, Unit { bounds, .. }) in units.iter().enumerate() {
        let bounds = bounds.as_ref().ok_or(Obstacle::UnknownBounds { unit })?;
        run.push((unit, bounds));
    }
    run.sort_by_cached_key(|(_, bounds)| bounds.ends());

    let overlap = run
        .windows(2)
        .find(|pair| !pair[0].1.ends_before(pair[1].1));
    match overlap {
        Some(pair) => Err(Obstacle::Overlap {
            earlier: pair[0].0,
            later: pair[1].0,
        }),
        None => Ok(run.into_iter().map(|(unit, _)| unit).collect()),
    }
}
