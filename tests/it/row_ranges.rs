//! Row groups so large that they are read in ranges of rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use datafusion::physical_plan::collect;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::support::*;
use crate::watched_store::WatchedStore;

const ROWS: i64 = 700_000;

/// Two files of one row group of over 8 MiB, whose columns have pages of different numbers of rows. The second holds the
/// odd keys from the middle of the first on.
fn folder() -> Folder {
    let folder = Folder::new();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(100_000)
        .build();
    for (name, first) in [("a.parquet", 0), ("b.parquet", ROWS + 1)] {
        let k = (0..ROWS).map(|row| first + row * 2);
        let v: ArrayRef = Arc::new(Int64Array::from_iter((0..ROWS).map(|row| {
            // Half of them NULL, so that pages hold twice as many rows.
            (row % 2 == 0).then_some(row * 7919 % 10_007)
        })));
        let keys = batch([("k", int64(k)), ("v", v)]);
        folder.write_with(name, &keys, properties.clone());
    }
    folder
}

fn all_keys() -> Vec<i64> {
    let mut keys: Vec<_> = [0, ROWS + 1]
        .into_iter()
        .flat_map(|first| (0..ROWS).map(move |row| first + row * 2))
        .collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn rows_are_read_once_and_in_order() {
    let folder = folder();
    for partitions in [2, 4] {
        let ctx = Session::new(partitions)
            .set("datafusion.execution.batch_size", 8192)
            .sorted()
            .await;
        run(&ctx, &folder.ddl("k")).await;
        for (order, reversed) in [("k", false), ("k DESC", true)] {
            let plan = physical_plan(&ctx, &format!("SELECT k FROM t ORDER BY {order}")).await;
            let inputs = metric_after_run(&plan, &ctx, reversed).await;
            assert!(inputs >= 4, "{inputs} for two row groups");
        }
    }
}

/// Runs a plan, and gives how many inputs its sequence has.
async fn metric_after_run(
    plan: &Arc<dyn datafusion::physical_plan::ExecutionPlan>,
    ctx: &datafusion::prelude::SessionContext,
    reversed: bool,
) -> usize {
    let batches = collect(Arc::clone(plan), ctx.task_ctx()).await.unwrap();
    let mut found: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    if reversed {
        found.reverse();
    }
    assert!(found == all_keys(), "{} rows", found.len());
    metric(plan, "inputs_total")
}

#[tokio::test]
async fn filters_and_limits_see_the_rows_of_their_range() {
    let folder = folder();
    for pushdown in [false, true] {
        let ctx = Session::new(2)
            .set("datafusion.execution.parquet.pushdown_filters", pushdown)
            .set("datafusion.execution.batch_size", 8192)
            .sorted()
            .await;
        run(&ctx, &folder.ddl("k")).await;
        for (rest, expected) in [
            (
                "WHERE k BETWEEN 999990 AND 999999 ORDER BY k DESC LIMIT 3",
                "999999 999998 999997",
            ),
            ("WHERE v = 1 ORDER BY k LIMIT 0", ""),
            (
                "ORDER BY k LIMIT 3 OFFSET 1000000",
                "1350000 1350001 1350002",
            ),
        ] {
            let found = rows(&ctx, &format!("SELECT k FROM t {rest}")).await;
            assert_eq!(found.join(" "), expected, "{rest}");
        }
    }
}

#[tokio::test]
async fn a_limit_reads_less_than_the_row_group() {
    let folder = folder();
    let ctx = Session::new(2).sorted().await;
    let store = WatchedStore::of(&ctx);
    let ddl = folder.ddl("k");
    run(&ctx, &ddl.replace("LOCATION '", "LOCATION 'watched://it")).await;
    let file = std::fs::File::open(folder.path().join("a.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let row_group = reader.metadata().row_group(0).compressed_size() as u64;
    for (order, expected) in [("k", "0 2 4"), ("k DESC", "2099999 2099997 2099995")] {
        let sql = format!("SELECT k FROM t ORDER BY {order} LIMIT 3");
        physical_plan(&ctx, &sql).await;
        store.take_reads();
        assert_eq!(rows(&ctx, &sql).await.join(" "), expected);
        let bytes: u64 = store.take_reads().iter().map(|(_, bytes)| bytes).sum();
        assert!(
            (1..row_group / 2).contains(&bytes),
            "{bytes} of {row_group}"
        );
    }
}
