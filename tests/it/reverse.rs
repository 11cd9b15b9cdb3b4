//! Tables read from the last row to the first.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use datafusion::physical_plan::collect;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::support::*;
use crate::watched_store::WatchedStore;

/// 4 files of 1,000 keys in row groups of 250, in order of the key across them.
fn folder() -> Folder {
    let folder = Folder::new();
    for file in 0..4 {
        let k = file * 1000..(file + 1) * 1000;
        let v = int64(k.clone().map(|k| k * 7919 % 1009));
        let keys = batch([("k", int64(k)), ("v", v)]);
        folder.write_with(&shuffled_name(file as usize), &keys, row_groups_of(250));
    }
    folder
}

fn descending(keys: impl DoubleEndedIterator<Item = i64>) -> Vec<String> {
    keys.rev().map(|k| k.to_string()).collect()
}

#[tokio::test]
async fn all_rows_and_the_first_of_them() {
    let folder = folder();
    for partitions in [1, 2, 4] {
        for strategy in ["contiguous", "best_fit"] {
            let ctx = Session::new(partitions)
                .set("sorted_listing.strategy", strategy)
                .sorted()
                .await;
            run(&ctx, &folder.ddl("k")).await;
            for (rest, expected) in [
                ("ORDER BY k DESC", descending(0..4000)),
                ("ORDER BY k DESC LIMIT 300", descending(3700..4000)),
                ("ORDER BY k DESC LIMIT 5 OFFSET 998", descending(2997..3002)),
                (
                    "WHERE k < 1200 ORDER BY k DESC LIMIT 3",
                    descending(1197..1200),
                ),
                (
                    "WHERE v = 3 ORDER BY k DESC",
                    descending((0..4000).filter(|k| k * 7919 % 1009 == 3)),
                ),
            ] {
                let sql = format!("SELECT k FROM t {rest}");
                let plan = plan(&ctx, &folder, &sql).await;
                assert!(!plan.contains("SortExec"), "{plan}");
                assert!(plan.contains("reversed, "), "{plan}");
                assert_eq!(rows(&ctx, &sql).await, expected, "{plan}");
            }
        }
    }
}

#[tokio::test]
async fn null_is_reversed_too() {
    let folder = Folder::new();
    let nullable: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(4), None]));
    folder.write("b.parquet", &batch([("k", nullable)]));
    folder.write("a.parquet", &batch([("k", int64([1, 2]))]));
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let reversal = "SELECT k FROM t ORDER BY k DESC NULLS FIRST";
    assert!(!plan(&ctx, &folder, reversal).await.contains("SortExec"));
    assert_eq!(rows(&ctx, reversal).await, ["NULL", "4", "3", "2", "1"]);
    // That is no reversal of a key that has NULLs.
    let other = "SELECT k FROM t ORDER BY k DESC NULLS LAST";
    assert!(plan(&ctx, &folder, other).await.contains("SortExec"));
    assert_eq!(rows(&ctx, other).await, ["4", "3", "2", "1", "NULL"]);
    // Without NULL it is.
    let without = "SELECT k FROM t WHERE k < 3 ORDER BY k DESC NULLS LAST";
    assert_eq!(rows(&ctx, without).await, ["2", "1"]);
}

#[tokio::test]
async fn a_limit_reads_the_last_row_group_of_the_last_file() {
    let folder = folder();
    let ctx = Session::new(4).sorted().await;
    let store = WatchedStore::of(&ctx);
    let ddl = folder.ddl("k");
    run(&ctx, &ddl.replace("LOCATION '", "LOCATION 'watched://it")).await;
    let plan = physical_plan(&ctx, "SELECT k, v FROM t ORDER BY k DESC LIMIT 100").await;
    // Planning has read the footers, which are cached.
    store.take_reads();
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    assert_eq!(
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        100
    );
    assert_eq!(metric(&plan, "inputs_opened"), 1);

    let last = shuffled_name(3);
    let file = std::fs::File::open(folder.path().join(&last)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let row_group = reader.metadata().row_group(3).compressed_size() as u64;
    let reads = store.take_reads();
    assert!(reads.iter().all(|(file, _)| *file == last), "{reads:?}");
    let bytes: u64 = reads.iter().map(|(_, bytes)| bytes).sum();
    assert!((1..=row_group).contains(&bytes), "{bytes} of {row_group}");
}

#[tokio::test]
async fn one_row_group_is_held_and_accounted_for() {
    let folder = folder();
    // A row group is 250 rows of two columns of eight bytes, and cannot be refused.
    let ctx = Session::new(1).with_memory(3_000).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let sql = "SELECT k, v FROM t ORDER BY k DESC";
    assert_eq!(rows(&ctx, sql).await.len(), 4000);
    let ctx = Session::new(1).with_memory(20_000).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(rows(&ctx, sql).await.len(), 4000);
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
}
