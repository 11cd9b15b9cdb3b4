//! Verifying the declared order of a table, before it is trusted.

mod report;
mod rows;

use std::sync::Arc;

use datafusion::catalog::ScanArgs;
use datafusion::common::{Result, plan_err};

pub use report::{VerifyDepth, VerifyProblem, VerifyProgress, VerifyReport};

use crate::keys::{Sorted, sort_keys};
use crate::listed_scan::file_scan;
use crate::planner::Planner;
use crate::scan_files::ScanFiles;

/// What is wrong with the order of the table of `planner`, as far as `depth` tells.
///
/// # Errors
/// If the files cannot be listed, a footer cannot be read, or there is no order to verify.
pub(crate) async fn verify(
    planner: &Planner<'_>,
    depth: VerifyDepth,
    on_progress: &(dyn Fn(VerifyProgress) + Send + Sync),
) -> Result<VerifyReport> {
    let declared = planner
        .table
        .try_create_output_ordering(planner.session.execution_props(), &[])?;
    let mut report = VerifyReport {
        table: Arc::clone(&planner.name),
        depth,
        orders: vec![],
        files: 0,
        rows: 0,
        problems: vec![],
    };
    let plan = planner.stock_plan(ScanArgs::default()).await?;
    let Some(scan) = file_scan(&plan) else {
        return Ok(report);
    };
    let files = planner.files_of(scan, &declared, true).await?;
    if files.files().is_empty() {
        return Ok(report);
    }
    let keys = match sort_keys(&files, declared) {
        Ok(keys) => keys,
        Err(why) => return plan_err!("The table {} has no order to verify: {why:#}", planner.name),
    };
    report.orders = keys.iter().map(Sorted::show).collect();
    report.files = files.files().len();
    report.problems = in_footers(&files, &keys);
    if depth == VerifyDepth::Rows {
        rows::verify(planner, scan, &files, &keys, &mut report, on_progress).await?;
    }
    report.problems.sort_by(|a, b| a.file().cmp(b.file()));
    Ok(report)
}

/// What the statistics of row groups contradict.
fn in_footers(files: &ScanFiles, keys: &[Sorted]) -> Vec<VerifyProblem> {
    let of_key = |key: &Sorted| {
        let order = key.show();
        let files = files.files().iter().zip(&key.facts);
        let problem = files.filter_map(|(file, facts)| {
            Some(VerifyProblem::FalseOrder {
                file: file.file.path().to_string(),
                rows: format!(
                    "not in the order [{order}]: {}",
                    facts.contradiction.as_ref()?
                ),
            })
        });
        problem.collect::<Vec<_>>()
    };
    keys.iter().flat_map(of_key).collect()
}
