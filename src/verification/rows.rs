//! Comparing all rows.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSource;
use datafusion::execution::TaskContext;
use futures::{StreamExt, stream};

use super::{VerifyProblem, VerifyProgress, VerifyReport};
use crate::config::Verify;
use crate::false_order::FalseOrder;
use crate::key_columns::with_key_columns;
use crate::keys::Sorted;
use crate::layout::{Slice, Strategy};
use crate::planner::Planner;
use crate::scan::{Grouping, ReadOptions, SortedScan};
use crate::scan_files::ScanFiles;
use crate::units::Parts;

/// Adds to `report` what is wrong with the rows of `files`. They are read side by side, as many as there are partitions,
/// and of their columns those of `keys` only.
pub(super) async fn verify(
    planner: &Planner<'_>,
    scan: &FileScanConfig,
    files: &ScanFiles,
    keys: &[Sorted],
    report: &mut VerifyReport,
    on_progress: &(dyn Fn(VerifyProgress) + Send + Sync),
) -> Result<()> {
    let scan = scan_of_each(planner, scan, files, keys)?;
    let count = scan.slice_count();
    let context = planner.session.task_ctx();
    let checks = (0..count).map(|file| {
        let (scan, context) = (scan.clone(), Arc::clone(&context));
        // To be read by all cores.
        async move {
            let read = SpawnedTask::spawn(read_all(scan, file, context));
            (file, read.join_unwind().await)
        }
    });
    let partitions = planner.session.config().target_partitions();
    let mut checked = stream::iter(checks.collect::<Vec<_>>()).buffer_unordered(partitions);
    let mut found = vec![None; count];
    let mut progress = VerifyProgress {
        files: 0,
        of_files: count,
        rows: 0,
    };
    while let Some((file, read)) = checked.next().await {
        let (rows, end) = read.map_err(|e| DataFusionError::External(Box::new(e)))?;
        progress.files += 1;
        progress.rows += rows;
        found[file] = end
            .err()
            .map(|e| problem(files.files()[file].file.path().as_ref(), &e));
        on_progress(progress);
    }
    report.rows = progress.rows;
    let found: Vec<_> = found.into_iter().flatten().collect();
    // The rows say more than the footer, if they were read.
    let says_more = |of: &VerifyProblem, other: &VerifyProblem| {
        matches!(other, VerifyProblem::FalseOrder { .. }) && other.file() == of.file()
    };
    report
        .problems
        .retain(|problem| !found.iter().any(|other| says_more(problem, other)));
    report.problems.extend(found);
    Ok(())
}

/// A scan of the columns of `keys`, whose slices are the files, one each.
fn scan_of_each(
    planner: &Planner<'_>,
    scan: &FileScanConfig,
    files: &ScanFiles,
    keys: &[Sorted],
) -> Result<SortedScan> {
    let facts = &keys[0].facts;
    let parts = Parts::files(files.files(), facts);
    let units = parts.scan_units(files.files(), facts, scan)?;
    let orderings: Vec<_> = keys.iter().map(|key| key.ordering.clone()).collect();
    let columns = with_key_columns(&[], &orderings).into_owned();
    let scan = FileScanConfigBuilder::from(planner.as_listed(scan.clone())?)
        .with_projection_indices(Some(columns))?
        .build();
    let slice = |unit| Slice {
        runs: vec![vec![unit]],
    };
    let slices = (0..units.len()).map(slice).collect();
    let grouping = Grouping::Strategy {
        strategy: Strategy::BestFit,
        stepped_down: None,
    };
    let scan = SortedScan::new(&scan, units, slices, orderings, vec![], grouping);
    let scan = scan.with_options(ReadOptions {
        verify: Verify::Rows,
        ..planner.read_options()
    });
    if !scan.checks_rows()? {
        return plan_err!(
            "The order of the table {} cannot be verified: the values of its first column cannot be compared",
            planner.name
        );
    }
    Ok(scan)
}

/// How many rows of a file were read, and how that ended.
async fn read_all(scan: SortedScan, file: usize, context: Arc<TaskContext>) -> (u64, Result<()>) {
    let mut rows = 0;
    let mut batches = match scan.open(file, context) {
        Ok(batches) => batches,
        Err(e) => return (rows, Err(e)),
    };
    while let Some(batch) = batches.next().await {
        match batch {
            Ok(batch) => rows += batch.num_rows() as u64,
            Err(e) => return (rows, Err(e)),
        }
    }
    (rows, Ok(()))
}

fn problem(file: &str, error: &DataFusionError) -> VerifyProblem {
    let file = file.to_owned();
    match FalseOrder::of(error) {
        Some(FalseOrder { order, rows, .. }) => VerifyProblem::FalseOrder {
            file,
            rows: format!("not in the order [{order}]: {rows}"),
        },
        None => VerifyProblem::Unreadable {
            file,
            error: error.strip_backtrace(),
        },
    }
}
