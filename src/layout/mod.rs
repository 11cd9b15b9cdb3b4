//! How units are put into slices: interval mathematics and nothing else.
//!
//! This module knows bounds and sizes. It knows nothing of plans, streams or object stores, so that it can be
//! tested with random intervals by the thousand.

mod balance;
mod best_fit;
mod bounds;
mod clusters;
mod contiguous;
mod cuts;
mod overlaps;

use std::fmt;
use std::str::FromStr;

pub(crate) use bounds::{Bounds, Key};
pub(crate) use clusters::{Slice, runs_of, slices_of_clusters};
pub(crate) use contiguous::run_order;
pub(crate) use cuts::{Cuts, KeyRange};
pub(crate) use overlaps::overlaps;

/// What a layout needs to know of a unit: a file, or a run of adjacent row groups of one.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Where the unit's keys lie; `None` if that is not proved. Unknown is never empty.
    pub(crate) bounds: Option<Bounds>,
    /// Its size in bytes, which slices are balanced by.
    pub(crate) bytes: u64,
    /// The least that has to be read of it to read any row, in bytes.
    pub(crate) grain: u64,
    /// The unit that it comes right after in a file, and is best read after.
    pub(crate) follows: Option<usize>,
}

/// How units are put into slices (`sorted_listing.strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Units in key order, cut into contiguous slices balanced by bytes: slice `i` lies wholly at or before
    /// slice `i + 1`.
    #[default]
    Contiguous,
    /// Each unit joins the slice with the fewest units among those that end before it. Every slice is in order,
    /// but slices may interleave.
    BestFit,
}

impl Strategy {
    /// Every strategy, for error messages.
    const ALL: [Self; 2] = [Self::Contiguous, Self::BestFit];

    /// The name of the strategy in options and plans.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::BestFit => "best_fit",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str().eq_ignore_ascii_case(s.trim()))
            .ok_or_else(|| {
                let valid = Self::ALL.map(Self::as_str).join("', '");
                format!("'{s}' is not a strategy; valid ones are '{valid}'")
            })
    }
}

/// Why units cannot be read one after another in key order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The bounds of this unit are not known.
    UnknownBounds { unit: usize },
    /// `later` begins before `earlier` ends.
    Overlap { earlier: usize, later: usize },
}

impl Obstacle {
    /// The same of other numbers.
    pub(crate) fn map(self, number: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::UnknownBounds { unit } => Self::UnknownBounds { unit: number(unit) },
            Self::Overlap { earlier, later } => Self::Overlap {
                earlier: number(earlier),
                later: number(later),
            },
        }
    }
}

/// The slices of one scan, as indices of units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slices: Vec<Vec<usize>>,
    pub(crate) strategy: Strategy,
    /// What kept a better strategy from applying, if one was asked for.
    pub(crate) stepped_down: Option<Obstacle>,
}

/// Why there is no layout at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoLayout {
    pub(crate) obstacle: Obstacle,
    /// How many slices it would take to keep every slice in order.
    pub(crate) slices_needed: usize,
}

/// Puts `units` into at most `target` slices that are each in key order.
///
/// Tries `strategy`, and where [`Strategy::Contiguous`] meets an overlap or an unknown bound,
/// [`Strategy::BestFit`]. A unit of unknown bounds gets a slice of its own there. O(n log n) in the number of
/// units, whatever their overlap.
pub(crate) fn lay_out(
    units: &[Unit],
    target: usize,
    strategy: Strategy,
) -> Result<Layout, NoLayout> {
    let order = run_order(units);
    if strategy == Strategy::Contiguous
        && let Ok(order) = &order
    {
        let slices = balance::cut(order.iter().map(|&unit| units[unit].bytes), target)
            .into_iter()
            .map(|range| order[range].to_vec())
            .collect();
        return Ok(Layout {
            slices,
            strategy,
            stepped_down: None,
        });
    }

    let all: Vec<_> = (0..units.len()).collect();
    let slices = best_fit::slices(units, &all, target);
    match order {
        Err(obstacle) if slices.len() > target => Err(NoLayout {
            obstacle,
            slices_needed: slices.len(),
        }),
        order => Ok(Layout {
            slices,
            strategy: Strategy::BestFit,
            stepped_down: order.err().filter(|_| strategy == Strategy::Contiguous),
        }),
    }
}

#[cfg(test)]
mod tests;
