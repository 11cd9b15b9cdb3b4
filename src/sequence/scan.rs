//! The scan whose slices a sequence reads.

use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::scan::SortedScan;

/// The sorted scan at the bottom of `plan`, if that is one chain of nodes.
pub(super) fn sorted_scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortedScan> {
    match plan.downcast_ref::<DataSourceExec>() {
        Some(exec) => exec.data_source().downcast_ref::<SortedScan>(),
        None => match plan.children().as_slice() {
            [child] => sorted_scan_below(child),
            _ => None,
        },
    }
}
