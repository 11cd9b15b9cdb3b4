//! What a layout report asks of scans.

use datafusion::common::Result;
use datafusion::datasource::physical_plan::FileScanConfig;

use super::grouping::Grouping;
use super::order_display::show;
use super::unit::Unit;
use super::{SortedScan, UnorderedScan, as_file_scan};
use crate::why_not::WhyNot;

impl SortedScan {
    /// The units, each with its slice and its run in that slice.
    pub(crate) fn placed_units(&self) -> impl Iterator<Item = (usize, usize, Unit)> {
        self.slices
            .iter()
            .enumerate()
            .flat_map(move |(slice, members)| {
                let runs = members.runs.iter().enumerate();
                runs.flat_map(move |(run, units)| {
                    units.iter().map(move |&unit| (slice, run, self.unit(unit)))
                })
            })
    }

    /// The order that it can be put into besides, by a merge.
    pub(crate) fn finer_order(&self) -> Option<String> {
        let finer = self.finer.as_ref()?;
        Some(show(finer.orderings.first()?))
    }

    /// Why its slices own no ranges of the key, if they do not.
    pub(crate) fn why_no_ranges(&self) -> Option<String> {
        let no_ranges = self.no_ranges.as_ref();
        no_ranges.map(|none| none.why.to_string())
    }

    pub(crate) fn grouping(&self) -> &Grouping {
        &self.grouping
    }

    pub(crate) fn file_scan(&self) -> &FileScanConfig {
        &self.file_scan
    }
}

impl UnorderedScan {
    pub(crate) fn file_scan(&self) -> Result<FileScanConfig> {
        as_file_scan(&self.files)
    }

    /// Why it is in no order.
    pub(crate) fn why(&self) -> &WhyNot {
        &self.why
    }
}
