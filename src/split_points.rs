//! Where the slices of a table are cut.

use std::sync::Arc;

use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{Result, SplitPoint, TableReference, plan_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::session_state::SessionState;

use crate::planner::Planner;
use crate::scan::SortedScan;
use crate::table::SortedListingTable;

/// Where the slices of a table, read whole, are cut; `None` if they own no ranges of the key.
pub(crate) async fn split_points_of(planner: Planner<'_>) -> Result<Option<Vec<SplitPoint>>> {
    let planned = planner.plan(ScanArgs::default()).await?;
    let scan = planned.plan.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|exec| exec.data_source().downcast_ref::<SortedScan>());
    Ok(scan.and_then(SortedScan::split_points))
}

/// Where the slices of the sorted table `name` are cut.
///
/// # Errors
/// If there is no such table, or it is not a sorted one.
pub(crate) async fn split_points_from(
    session: &dyn Session,
    name: &str,
) -> Result<Option<Vec<SplitPoint>>> {
    let option = "sorted_listing.split_points_from";
    let Some(session_state) = session.as_any().downcast_ref::<SessionState>() else {
        return plan_err!("{option} needs a session of DataFusion's to find '{name}' in");
    };
    let reference = TableReference::from(name);
    let schema = session_state.schema_for_ref(reference.clone())?;
    let Some(table) = schema.table(reference.table()).await? else {
        return plan_err!("{option} names the table '{name}', which does not exist");
    };
    let table: &dyn TableProvider = Arc::as_ref(&table);
    match table.downcast_ref::<SortedListingTable>() {
        Some(sorted) => sorted.split_points(session).await,
        None => plan_err!("{option} names the table '{name}', which is not a sorted one"),
    }
}
