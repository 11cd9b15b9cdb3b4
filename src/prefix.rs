//! Slices in order of the beginning of a key, where files overlap in all of it.
//!
//! Files that are in order of `device, ts` mostly end and begin within a device. Their bounds are `(a, 1..9)` and
//! `(a..c, 1..9)`: they overlap as far as statistics tell, but in order of `device` they touch.

use crate::arrange::{Arrangement, InSlices};
use crate::keys::Sorted;
use crate::layout::{self, Slice, Strategy, runs_of};
use crate::scan::{self, Finer, Grouping, Whole};

impl Arrangement<'_> {
    /// Slices that own ranges of the longest beginning of `key` that files are a run of; `None` if there is none.
    pub(crate) fn by_prefix(&self, key: &Sorted) -> Option<InSlices> {
        if self.planner.config.strategy != Strategy::Contiguous {
            return None;
        }
        (1..key.ordering.len()).rev().find_map(|columns| {
            let prefix = key.first_columns(columns, self.scan_files)?;
            let parts = self.run_of(&prefix)?;
            // Where slices share a value of the beginning, they are in no order of the whole key.
            let (parts, slices, ranges) = self.in_ranges(&prefix, &parts).ok()?;
            Some(InSlices {
                parts,
                slices,
                ranges: Ok(ranges),
                grouping: Grouping::Strategy {
                    strategy: Strategy::Contiguous,
                    stepped_down: None,
                },
                prefix: Some(prefix),
            })
        })
    }

    /// The order of the whole `key` that slices of `units` have if they are merged, within the limit of runs.
    pub(crate) fn finer(
        &self,
        key: &Sorted,
        units: &[scan::Unit],
        slices: &[Slice],
        whole: Option<&Whole>,
    ) -> Option<Finer> {
        let all = layout_of(units);
        let runs = |slice: &Slice| Slice {
            runs: runs_of(&all, &slice.runs.concat()),
        };
        let slices: Vec<_> = slices.iter().map(runs).collect();
        let whole = whole.map(|whole| Slice {
            runs: runs_of(&layout_of(&whole.units), &whole.slice.runs.concat()),
        });
        let most = slices
            .iter()
            .chain(&whole)
            .map(|slice| slice.runs.len())
            .max();
        let orderings = std::iter::once(key.ordering.clone()).chain(self.without_constants(key));
        (most.unwrap_or(0) <= self.planner.config.max_merge_fan_in).then(|| Finer {
            orderings: orderings.collect(),
            slices,
            whole,
        })
    }
}

/// Units of a scan as the layout sees them.
fn layout_of(units: &[scan::Unit]) -> Vec<layout::Unit> {
    let unit = |unit: &scan::Unit| layout::Unit {
        bounds: unit.facts.bounds.clone(),
        bytes: 0,
        grain: 0,
        follows: None,
    };
    units.iter().map(unit).collect()
}
