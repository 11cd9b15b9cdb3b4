//! Where the slices of a table are cut.

use std::sync::Arc;

use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{Result, SplitPoint, TableReference};
use datafusion::datasource::source::DataSourceExec;

use crate::planner::Planner;
use crate::scan::SortedScan;
use crate::table::SortedListingTable;
use crate::table_lookup::{find_table, full_name};

/// The points that a user wants a table to be cut at, or why they are not known.
pub(crate) type GivenPoints = Result<Arc<[SplitPoint]>, Arc<str>>;

/// Where the slices of a table, read whole, are cut; `None` if they own no ranges of the key.
pub(crate) async fn split_points_of(planner: Planner<'_>) -> Result<Option<Vec<SplitPoint>>> {
    let planned = planner.plan(ScanArgs::default()).await?;
    let scan = planned.plan.downcast_ref::<DataSourceExec>();
    let scan = scan.and_then(|exec| exec.data_source().downcast_ref::<SortedScan>());
    Ok(scan.and_then(SortedScan::split_points))
}

/// Where the slices of the sorted table `name` are cut, or of the one that this takes its points from.
///
/// That it cannot be told is no error: a query must not fail for an optimisation.
pub(crate) async fn split_points_from(session: &dyn Session, name: &str) -> GivenPoints {
    let mut names = vec![name.to_owned()];
    loop {
        let name = &names[names.len() - 1];
        let table = table_of(session, name).await?;
        let provider: &dyn TableProvider = Arc::as_ref(&table);
        let Some(sorted) = provider.downcast_ref::<SortedListingTable>() else {
            return Err(format!("the table '{name}' is not a sorted one").into());
        };
        match sorted.takes_points_from(session) {
            // Of tables that take points from each other, the one that comes up again has its own.
            Some(next) if !names.contains(&next) => names.push(next),
            _ => {
                let points = sorted.own_split_points(session).await;
                let points = points.map_err(|e| Arc::from(e.strip_backtrace()))?;
                return match points {
                    Some(points) => Ok(points.into()),
                    None => Err(format!("the slices of '{name}' own no ranges of the key").into()),
                };
            }
        }
    }
}

async fn table_of(session: &dyn Session, name: &str) -> Result<Arc<dyn TableProvider>, Arc<str>> {
    let full = full_name(session, TableReference::from(name));
    match find_table(session, &full).await {
        Ok(table) => table.ok_or_else(|| Arc::from(format!("there is no table '{name}'"))),
        Err(e) => Err(e.strip_backtrace().into()),
    }
}
