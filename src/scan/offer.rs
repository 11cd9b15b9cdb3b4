//! An order on demand.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_expr::LexOrdering;

use super::grouping::Grouping;
use super::read_options::ReadOptions;
use super::sorted_scan::SortedScan;
use super::unit::Unit;
use crate::layout::{self, Slice, slices_of_clusters};
use crate::why_not::WhyNot;

/// The order that a scan of overlapping units can be put into by merging them, which costs something, so that it is
/// done only where a query asks for it.
#[derive(Debug)]
pub(crate) struct Offer {
    /// In key order.
    pub(crate) units: Arc<[Unit]>,
    /// The same units, as the layout sees them.
    pub(crate) layout: Vec<layout::Unit>,
    /// The order of units and rows.
    pub(crate) ordering: LexOrdering,
    /// Orders that follow from it.
    pub(crate) further: Vec<LexOrdering>,
    pub(crate) null_free: Vec<usize>,
    /// Why the order cannot be had for free.
    pub(crate) why: Arc<WhyNot>,
    pub(crate) options: ReadOptions,
}

impl Offer {
    /// The files of `scan` in order, in as many slices as it has partitions; `None` if it projects no column of the
    /// ordering. The order ends before the first of its columns that is not projected.
    pub(super) fn take_up(&self, scan: &FileScanConfig) -> Option<SortedScan> {
        let partitions = scan.file_groups.len();
        let mut slices = slices_of_clusters(&self.layout, partitions);
        // What is above has counted the partitions.
        slices.resize(partitions.max(slices.len()), Slice { runs: vec![] });
        let orderings = std::iter::once(&self.ordering).chain(&self.further);
        let sorted = SortedScan::new(
            scan,
            Arc::clone(&self.units),
            slices,
            orderings.cloned().collect(),
            self.null_free.clone(),
            Grouping::Clusters(Arc::clone(&self.why)),
        )
        .with_options(self.options.clone());
        sorted.up_to_projected()
    }
}
