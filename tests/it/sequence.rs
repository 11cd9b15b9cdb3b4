//! What a sequence reads, buffers and opens, and how it ends.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::support::*;
use crate::watched_store::{Fault, WatchedStore};

const FILES: i64 = 8;
const ROWS: i64 = 2_000;
const BY_KEY: &str = "SELECT k, v FROM t ORDER BY k";

/// Files of 2,000 keys in row groups of 500, in order of the key across them.
fn folder() -> Folder {
    let folder = Folder::new();
    for file in 0..FILES {
        let k = file * ROWS..(file + 1) * ROWS;
        let v = int64(k.clone().map(|k| k * 7919 % 10_007));
        let batch = batch([("k", int64(k)), ("v", v)]);
        folder.write_with(&name(file), &batch, row_groups_of(500));
    }
    folder
}

fn name(file: i64) -> String {
    shuffled_name(file as usize)
}

/// The table of `folder` in a watched store.
async fn watched(ctx: &SessionContext, folder: &Folder) -> Arc<WatchedStore> {
    let store = WatchedStore::of(ctx);
    let ddl = folder.ddl("k");
    run(ctx, &ddl.replace("LOCATION '", "LOCATION 'watched://it")).await;
    store
}

async fn physical(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let plan = physical_plan(ctx, sql).await;
    assert!(sequence_of(&plan).is_some(), "{plan:?}");
    plan
}

/// Runs a query: its plan, for the metrics, and the keys it gave.
async fn read(ctx: &SessionContext, sql: &str) -> (Arc<dyn ExecutionPlan>, Vec<i64>) {
    let plan = physical(ctx, sql).await;
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    (plan, keys(&batches))
}

fn keys(batches: &[RecordBatch]) -> Vec<i64> {
    let keys = |batch: &RecordBatch| {
        batch
            .column(0)
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap()
            .clone()
    };
    batches
        .iter()
        .flat_map(|batch| keys(batch).values().to_vec())
        .collect()
}

fn all_keys() -> Vec<i64> {
    (0..FILES * ROWS).collect()
}

/// Lets other tasks run until they have nothing left to do.
async fn settle() {
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
}

/// Lets other tasks run until `condition` holds. What they wait for are threads that read files.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::spawn_blocking(std::thread::yield_now)
            .await
            .unwrap();
    }
    panic!("never: {what}");
}

/// Everything up to the first error, and the error; nothing may come after it.
async fn until_error(mut stream: SendableRecordBatchStream) -> (Vec<i64>, String) {
    let mut batches = vec![];
    loop {
        match stream.next().await {
            Some(Ok(batch)) => batches.push(batch),
            Some(Err(e)) => {
                assert!(stream.next().await.is_none(), "an error is the end");
                return (keys(&batches), e.to_string());
            }
            None => panic!("no error in {} batches", batches.len()),
        }
    }
}

#[tokio::test]
async fn a_limit_opens_one_input_and_reads_one_row_group() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    let store = watched(&ctx, &folder).await;
    let plan = physical(&ctx, &format!("{BY_KEY} LIMIT 100")).await;
    // Planning has read the footers, which are cached.
    store.take_reads();
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    assert_eq!(keys(&batches), (0..100).collect::<Vec<_>>());
    assert_eq!(metric(&plan, "inputs_opened"), 1);
    assert_eq!(metric(&plan, "inputs_total"), (FILES * 2) as usize);

    let file = std::fs::File::open(folder.path().join(name(0))).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let row_group = reader.metadata().row_group(0).compressed_size() as u64;
    let reads = store.take_reads();
    assert!(reads.iter().all(|(file, _)| *file == name(0)), "{reads:?}");
    let bytes: u64 = reads.iter().map(|(_, bytes)| bytes).sum();
    assert!((1..=row_group).contains(&bytes), "{bytes} of {row_group}");
}

#[tokio::test]
async fn a_limit_opens_as_many_inputs_as_it_has_to() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    // A piece is two row groups of 500 rows: there are four pieces for each partition.
    for (limit, opened) in [(1000, 1), (1001, 2), (3500, 4)] {
        let (plan, read) = read(&ctx, &format!("{BY_KEY} LIMIT {limit}")).await;
        assert_eq!(read, (0..limit).collect::<Vec<_>>());
        assert_eq!(metric(&plan, "inputs_opened"), opened, "LIMIT {limit}");
    }
}

#[tokio::test]
async fn buffers_no_more_than_the_budget() {
    let folder = folder();
    for budget in [0, 1, 5_000, 50_000, 64 << 20] {
        let ctx = Session::new(4)
            .set("sorted_listing.read_ahead_bytes", budget)
            .sorted()
            .await;
        run(&ctx, &folder.ddl("k")).await;
        let (plan, read) = read(&ctx, BY_KEY).await;
        assert_eq!(read, all_keys(), "budget {budget}");
        let peak = metric(&plan, "read_ahead_peak_bytes");
        assert!(peak <= budget, "{peak} of {budget}");
    }
}

#[tokio::test]
async fn a_slow_consumer_lets_the_budget_fill_and_no_more() {
    let folder = folder();
    let budget = 20_000;
    let ctx = Session::new(4)
        .set("sorted_listing.read_ahead_bytes", budget)
        .sorted()
        .await;
    run(&ctx, &folder.ddl("k")).await;
    let plan = physical(&ctx, BY_KEY).await;
    let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    let first = stream.next().await.unwrap().unwrap();

    let pool = Arc::clone(&ctx.runtime_env().memory_pool);
    // It is full when one more batch of 64 rows of two columns does not fit.
    until("the budget is full", || pool.reserved() + 2_000 > budget).await;
    settle().await;
    let reserved = pool.reserved();
    assert!(reserved <= budget, "{reserved} of {budget}");
    assert!(metric(&plan, "inputs_opened") < metric(&plan, "inputs_total"));

    let mut batches = vec![first];
    while let Some(batch) = stream.next().await {
        batches.push(batch.unwrap());
    }
    assert_eq!(keys(&batches), all_keys());
    drop(stream);
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test]
async fn a_dropped_consumer_stops_everything() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    let store = watched(&ctx, &folder).await;
    let plan = physical(&ctx, BY_KEY).await;
    let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let pool = Arc::clone(&ctx.runtime_env().memory_pool);
    until("the memory is given back", || pool.reserved() == 0).await;
    settle().await;
    store.take_reads();
    settle().await;
    assert_eq!(store.take_reads(), [], "nothing is read any more");
    // The plan and the session work afterwards.
    assert_eq!(rows(&ctx, &format!("{BY_KEY} LIMIT 1")).await, ["0 0"]);
}

#[tokio::test]
async fn a_failing_input_fails_in_its_place() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    let store = watched(&ctx, &folder).await;
    let plan = physical(&ctx, BY_KEY).await;
    store.fail(&name(5), Fault::Error);
    let stream = execute_stream(plan, ctx.task_ctx()).unwrap();
    let (keys, error) = until_error(stream).await;
    assert_eq!(keys, (0..5 * ROWS).collect::<Vec<_>>());
    assert!(
        error.contains("told to fail") && error.contains(&name(5)),
        "{error}"
    );
    // What comes before it does not fail.
    assert_eq!(
        rows(&ctx, &format!("{BY_KEY} LIMIT 1 OFFSET 9999"))
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn a_panic_reaches_the_consumer() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    let store = watched(&ctx, &folder).await;
    let plan = physical(&ctx, BY_KEY).await;
    store.fail(&name(3), Fault::Panic);
    let task_ctx = ctx.task_ctx();
    let query: Result<_, _> = tokio::spawn(async move { collect(plan, task_ctx).await }).await;
    assert!(query.unwrap_err().is_panic());
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
}

#[tokio::test]
async fn a_full_memory_pool_only_means_no_read_ahead() {
    let folder = folder();
    for limit in [1, 10_000, 32 << 20] {
        let ctx = Session::new(4).with_memory(limit).sorted().await;
        run(&ctx, &folder.ddl("k")).await;
        let (plan, read) = read(&ctx, BY_KEY).await;
        assert_eq!(read, all_keys(), "{limit} bytes");
        assert!(metric(&plan, "read_ahead_peak_bytes") <= limit);
    }
}

#[tokio::test]
async fn the_rule_may_run_again_and_is_not_needed() {
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion_sorted_listing::SequenceSlices;

    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let state = ctx.state();
    let config = state.config_options();
    for sql in [
        BY_KEY,
        "SELECT k FROM t WHERE v > 100 ORDER BY k LIMIT 7",
        "SELECT k FROM t ORDER BY k NULLS FIRST",
    ] {
        let once = physical(&ctx, sql).await;
        let show = |plan: &Arc<dyn ExecutionPlan>| {
            datafusion::physical_plan::displayable(plan.as_ref())
                .indent(true)
                .to_string()
        };
        assert!(!show(&once).contains("BufferExec"), "{}", show(&once));
        let twice = SequenceSlices::new()
            .optimize(Arc::clone(&once), config)
            .unwrap();
        assert_eq!(show(&once), show(&twice));
        // All rules again, as some engines do.
        let mut again = Arc::clone(&once);
        for rule in state.physical_optimizers() {
            again = rule.optimize(again, config).unwrap();
        }
        let rows = keys(&collect(once, ctx.task_ctx()).await.unwrap());
        assert_eq!(
            keys(&collect(again, ctx.task_ctx()).await.unwrap()),
            rows,
            "{sql}"
        );

        let others = state.physical_optimizers().iter();
        let others = others
            .filter(|rule| rule.name() != "SequenceSlices")
            .cloned();
        let without = SessionStateBuilder::new_from_existing(state.clone())
            .with_physical_optimizer_rules(others.collect())
            .build();
        let without = SessionContext::new_with_state(without);
        let plan = physical_plan(&without, sql).await;
        assert!(sequence_of(&plan).is_none());
        assert_eq!(
            keys(&collect(plan, ctx.task_ctx()).await.unwrap()),
            rows,
            "{sql}"
        );
    }
}

/// A table may have a budget of its own.
#[tokio::test]
async fn the_budget_of_a_table() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    let ddl = folder.ddl("k") + " OPTIONS ('sorted_listing.read_ahead_bytes' '3000')";
    run(&ctx, &ddl).await;
    let (plan, read) = read(&ctx, BY_KEY).await;
    assert_eq!(read, all_keys());
    assert!(metric(&plan, "read_ahead_peak_bytes") <= 3000);
}

/// An operator above may keep the stream long after it has ended.
#[tokio::test]
async fn a_reached_limit_gives_everything_back() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    // What the filter lets through is not known, so that it is read ahead.
    let plan = physical(&ctx, "SELECT k FROM t WHERE v >= 0 ORDER BY k LIMIT 70").await;
    let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    let mut batches = vec![];
    while let Some(batch) = stream.next().await {
        batches.push(batch.unwrap());
        if batches.len() == 1 {
            let peak = || metric(&plan, "read_ahead_peak_bytes");
            until("something is read ahead", || peak() > 0).await;
        }
    }
    assert_eq!(keys(&batches), (0..70).collect::<Vec<_>>());
    assert!(metric(&plan, "read_ahead_peak_bytes") > 0);
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
    drop(stream);
}

/// A front that gives no rows for long must not keep the others from being read.
#[tokio::test]
async fn inputs_are_opened_while_the_front_is_silent() {
    // One row group each, so that one input is silent and not as many as may run.
    let folder = Folder::of_keys((0..8).map(|file| int64(file * 10..file * 10 + 10)));
    let ctx = Session::new(2).sorted().await;
    let store = watched(&ctx, &folder).await;
    let plan = physical(&ctx, "SELECT k FROM t ORDER BY k").await;
    store.fail(&name(0), Fault::Hang);
    let stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    let reader = tokio::spawn(stream.collect::<Vec<_>>());
    until("the others are opened", || {
        metric(&plan, "inputs_opened") == 8
    })
    .await;
    reader.abort();
    assert!(reader.await.unwrap_err().is_cancelled());
    let pool = Arc::clone(&ctx.runtime_env().memory_pool);
    until("the memory is given back", || pool.reserved() == 0).await;
}
