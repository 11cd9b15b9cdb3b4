//! Tables whose files overlap.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use parquet::file::properties::WriterProperties;

use crate::support::*;

const BY_KEY: &str = "SELECT k, v FROM t ORDER BY k";

/// `files` files of `rows` keys, each of which begins `step` keys after the one before. `v` tells rows apart.
fn staggered(files: i64, rows: i64, step: i64) -> Folder {
    let folder = Folder::new();
    for file in 0..files {
        let first = file * step;
        let v = int64((0..rows).map(|row| file * rows + row));
        let keys = batch([("k", int64(first..first + rows)), ("v", v)]);
        folder.write_with(&format!("{file:02}.parquet"), &keys, row_groups_of(250));
    }
    folder
}

/// Key and `v` of all rows of [`staggered`], in order, those of the first file first.
fn expected(files: i64, rows: i64, step: i64) -> Vec<String> {
    let mut all: Vec<_> = (0..files)
        .flat_map(|file| (0..rows).map(move |row| (file * step + row, file * rows + row)))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(k, v)| format!("{k} {v}")).collect()
}

#[tokio::test]
async fn neighbours_that_share_a_little_pass_nearly_uncompared() {
    let (files, rows, step) = (12, 1000, 900);
    let folder = staggered(files, rows, step);
    for partitions in [1, 2, 4] {
        let ctx = Session::new(partitions).sorted().await;
        run(&ctx, &folder.ddl("k")).await;
        assert_eq!(
            crate::support::rows(&ctx, BY_KEY).await,
            expected(files, rows, step)
        );
        let desc = crate::support::rows(&ctx, &BY_KEY.replace("BY k", "BY k DESC, v DESC")).await;
        let reversed: Vec<_> = expected(files, rows, step).into_iter().rev().collect();
        assert_eq!(desc, reversed);
        if partitions > 1 {
            let plan = physical_plan(&ctx, BY_KEY).await;
            let batches = collect(plan.clone(), ctx.task_ctx()).await.unwrap();
            assert_eq!(
                batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
                12_000
            );
            // 100 keys of two files at each of 11 places, and what is in the same batches of 64.
            let merged = metric(&plan, "rows_merged");
            assert!((2200..5000).contains(&merged), "{merged} rows were copied");
        }
    }
}

#[tokio::test]
async fn an_input_is_opened_when_its_keys_are_reached() {
    let folder = staggered(6, 1000, 900);
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    for (limit, opened) in [(10, 1), (1000, 5)] {
        let plan = physical_plan(&ctx, &format!("{BY_KEY} LIMIT {limit}")).await;
        collect(plan.clone(), ctx.task_ctx()).await.unwrap();
        let found = metric(&plan, "inputs_opened");
        assert!(found <= opened, "{found} inputs for {limit} rows");
    }
}

#[tokio::test]
async fn files_that_all_cover_the_key_give_the_same_rows_each_time() {
    let folder = staggered(9, 300, 0);
    let expected = expected(9, 300, 0);
    for (partitions, strategy) in [(2, "contiguous"), (2, "best_fit"), (5, "contiguous")] {
        for filter in ["", "WHERE v >= 0 "] {
            let ctx = Session::new(partitions)
                .set("sorted_listing.strategy", strategy)
                .sorted()
                .await;
            run(&ctx, &folder.ddl("k")).await;
            let sql = BY_KEY.replace("ORDER", &format!("{filter}ORDER"));
            let plan = plan(&ctx, &folder, &sql).await;
            assert!(!plan.contains("SortExec"), "{plan}");
            for _ in 0..3 {
                assert_eq!(rows(&ctx, &sql).await, expected, "{plan}");
            }
            let limited = rows(&ctx, &format!("{sql} LIMIT 20 OFFSET 7")).await;
            assert_eq!(limited, expected[7..27]);
        }
    }
}

/// A file that was compacted out of two that lie apart, around a third: its row groups make room.
#[tokio::test]
async fn a_file_between_the_row_groups_of_another() {
    let folder = Folder::new();
    let keys = int64((0..250).chain(500..750));
    folder.write_with("a.parquet", &batch([("k", keys)]), row_groups_of(250));
    folder.write("b.parquet", &batch([("k", int64(300..400))]));
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    // The order is declared at no cost: no merge, also where no order is asked for at the top.
    let grouped = plan(&ctx, &folder, "SELECT k, count(*) FROM t GROUP BY k").await;
    assert!(grouped.contains("strategy=contiguous"), "{grouped}");
    assert!(grouped.contains("slices=2, units=3"), "{grouped}");
    let expected: Vec<_> = (0..250)
        .chain(300..400)
        .chain(500..750)
        .map(|k| k.to_string())
        .collect();
    assert_eq!(rows(&ctx, "SELECT k FROM t ORDER BY k").await, expected);
}

/// One large file and small ones: slices are balanced by its row groups.
#[tokio::test]
async fn a_large_file_is_cut_for_balance() {
    let folder = Folder::new();
    folder.write_with(
        "a.parquet",
        &batch([("k", int64(0..4000))]),
        row_groups_of(250),
    );
    folder.write("b.parquet", &batch([("k", int64(4000..4100))]));
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let plan = physical_plan(&ctx, "SELECT k, count(*) FROM t GROUP BY k").await;
    let mut partitions = HashSet::new();
    let mut node = &plan;
    while let [child] = node.children()[..] {
        node = child;
    }
    for partition in 0..4 {
        let stream = node.execute(partition, ctx.task_ctx()).unwrap();
        let batches = datafusion::physical_plan::common::collect(stream)
            .await
            .unwrap();
        let rows = batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
        assert!(
            (750..1400).contains(&rows),
            "{rows} rows in partition {partition}"
        );
        partitions.insert(partition);
    }
    assert_eq!(partitions.len(), 4);
}

#[tokio::test]
async fn merges_are_accounted_for() {
    let folder = staggered(40, 1000, 0);
    // Nothing can be read ahead; what the merge holds is counted all the same.
    let ctx = Session::new(2).with_memory(20_000).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(rows(&ctx, BY_KEY).await, expected(40, 1000, 0));
    let ctx = Session::new(2).with_memory(4 << 20).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(rows(&ctx, BY_KEY).await, expected(40, 1000, 0));
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
}

/// Readers of many runs hold more than the budget. What takes less memory decoded is decoded at once, if all is asked for.
#[tokio::test]
async fn row_groups_of_many_runs_are_decoded_at_once() {
    let (files, rows, budget) = (12, 2000, 20_000);
    let folder = staggered(files, rows, 0);
    let session = || Session::new(2).set("sorted_listing.read_ahead_bytes", budget);
    let ctx = session().sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let peak = async |ctx: &SessionContext, sql: &str| {
        let plan = physical_plan(ctx, sql).await;
        collect(plan.clone(), ctx.task_ctx()).await.unwrap();
        metric(&plan, "read_ahead_peak_bytes")
    };
    let found = peak(&ctx, BY_KEY).await;
    // A row group of 250 rows of each file, and a quarter more.
    let at_once = files as usize * 250 * 16 * 5 / 4;
    assert!((budget + 1..=budget + at_once).contains(&found), "{found}");
    assert_eq!(
        crate::support::rows(&ctx, BY_KEY).await,
        expected(files, rows, 0)
    );
    let found = peak(&ctx, &format!("{BY_KEY} LIMIT 10000")).await;
    assert!(found <= budget, "{found} for a limit");
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);

    // Half of the memory is left to others.
    let limit = 100_000;
    let ctx = session().with_memory(limit).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let found = peak(&ctx, BY_KEY).await;
    assert!(found <= limit / 2, "{found} of {limit}");
    assert_eq!(
        crate::support::rows(&ctx, BY_KEY).await,
        expected(files, rows, 0)
    );

    // Not where one reader reads several row groups: it would hold the next one besides.
    let budget = 200_000;
    let session = Session::new(2).set("sorted_listing.read_ahead_bytes", budget);
    let ctx = session.sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let found = peak(&ctx, BY_KEY).await;
    assert!(found <= budget, "{found} of {budget}");
}

/// Parts of a row group would each decode its dictionary again.
#[tokio::test]
async fn dictionaries_of_many_runs_are_decoded_once() {
    const ROWS: i64 = 9000;
    let folder = Folder::new();
    let properties = WriterProperties::builder()
        .set_column_dictionary_enabled("w".into(), false)
        .set_dictionary_page_size_limit(16 << 20)
        .build();
    for file in 0..9 {
        let text = |distinct: i64| {
            let all = (0..ROWS).map(move |row| format!("{:01000}", row % distinct));
            Arc::new(StringArray::from_iter_values(all)) as ArrayRef
        };
        let keys = int64((0..ROWS).map(|row| row * 9 + file));
        // Half of it is a dictionary of 4.5 MB.
        let rows = batch([("k", keys), ("s", text(4500)), ("w", text(1))]);
        folder.write_with(&format!("{file}.parquet"), &rows, properties.clone());
    }
    let ctx = Session::new(2)
        .set("datafusion.execution.batch_size", 8192)
        .set("sorted_listing.read_ahead_bytes", 16 << 20)
        .sorted()
        .await;
    run(&ctx, &folder.ddl("k")).await;
    let inputs = async |sql: &str| {
        let plan = physical_plan(&ctx, sql).await;
        let batches = collect(plan.clone(), ctx.task_ctx()).await.unwrap();
        let keys = batches.iter().map(|batch| batch.column(0).as_primitive());
        let keys: Vec<i64> = keys
            .flat_map(|keys: &Int64Array| keys.values().to_vec())
            .collect();
        assert!(keys.iter().copied().eq(0..keys.len() as i64));
        (metric(&plan, "inputs_total"), keys.len())
    };
    assert_eq!(
        inputs("SELECT * FROM t ORDER BY k").await,
        (9, 9 * ROWS as usize)
    );
    // A limit fetches less of each file.
    let (inputs, rows) = inputs("SELECT * FROM t ORDER BY k LIMIT 10").await;
    assert!(inputs > 9 && rows == 10, "{inputs} inputs");
}
