//! Sorted rows that are grouped by comparing neighbours.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampSecondArray};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::{FalseOrder, SessionStateBuilderExt};
use parquet::file::properties::WriterProperties;

use crate::support::*;

/// 6 files of 300 rows in order of `k, v`, with three rows of most `k` and NULL at the end. They are in order of `f` and of
/// `s` too.
fn files() -> Folder {
    let folder = Folder::new();
    for file in 0..6_i64 {
        let rows = || file * 300..file * 300 + 300;
        let key = |row: i64| (row < 1790).then_some(row / 3);
        let columns = batch([
            (
                "k",
                Arc::new(rows().map(key).collect::<Int64Array>()) as ArrayRef,
            ),
            (
                "v",
                int64(rows().map(|row| if row < 1790 { row % 3 / 2 } else { 2 })),
            ),
            (
                "f",
                Arc::new(Float64Array::from_iter_values(rows().map(|row| row as f64))),
            ),
            (
                "s",
                Arc::new(StringArray::from_iter_values(
                    rows().map(|row| format!("s{:04}", row / 6)),
                )),
            ),
            ("x", int64(rows().map(|row| row * 7919 % 1000))),
        ]);
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(64))
            .build();
        folder.write_with(&shuffled_name(file as usize), &columns, properties);
    }
    folder
}

const GROUPED: [&str; 9] = [
    "SELECT k, count(*), sum(x), avg(x), min(s), max(f) FROM t GROUP BY k",
    "SELECT k, v, count(*), sum(x) FROM t GROUP BY k, v",
    "SELECT v, k FROM t GROUP BY v, k",
    "SELECT DISTINCT k FROM t",
    "SELECT DISTINCT v, k FROM t",
    "SELECT k, count(*) FILTER (WHERE x > 500), count(DISTINCT x) FROM t GROUP BY k",
    "SELECT k, sum(x) FROM t WHERE x > 100 GROUP BY k HAVING count(*) > 1",
    "SELECT k / 10, count(*) FROM (SELECT k, sum(x) FROM t GROUP BY k) GROUP BY k / 10",
    "SELECT k, string_agg(s, ',' ORDER BY x), first_value(x ORDER BY x DESC) FROM t WHERE k < 0 GROUP BY k",
];

#[tokio::test]
async fn answers_are_those_of_the_stock_table() {
    let folder = files();
    let ddl = folder.ddl("k, v");
    let stock = Session::new(3).stock().await;
    run(&stock, ddl.split(" WITH ORDER").next().unwrap()).await;
    for partitions in [1, 2, 4] {
        for batch_size in [1, 7, 8192] {
            let session = Session::new(partitions)
                .set("datafusion.execution.batch_size", batch_size)
                .set("datafusion.optimizer.subset_repartition_threshold", 1);
            let ctx = session.sorted().await;
            run(&ctx, &ddl).await;
            for sql in GROUPED {
                let [mut expected, mut actual] = [rows(&stock, sql).await, rows(&ctx, sql).await];
                expected.sort_unstable();
                actual.sort_unstable();
                assert_eq!(actual, expected, "{sql} {session:?}");
            }
            let sql = "SELECT k, v, count(*), sum(x) FROM t GROUP BY k, v ORDER BY k, v";
            assert_eq!(rows(&ctx, sql).await, rows(&stock, sql).await, "{sql}");
        }
    }
}

async fn plans(order: &str, partitions: usize, sql: &str) -> String {
    let folder = files();
    let ctx = Session::new(partitions).sorted().await;
    run(&ctx, &folder.ddl(order)).await;
    plan(&ctx, &folder, sql).await
}

#[tokio::test]
async fn groups_of_the_key_need_no_hash_table() {
    for partitions in [1, 4] {
        for sql in &GROUPED[..7] {
            let plan = plans("k, v", partitions, sql).await;
            // All aggregations are of this kind.
            let kinds = ["AggregateExec", "SortedAggregateExec"];
            let [all, sorted] = kinds.map(|kind| plan.matches(kind).count());
            assert_eq!((all, sorted), (1, 1), "{sql}\n{plan}");
            assert!(!plan.contains("RepartitionExec"), "{sql}\n{plan}");
        }
    }
    let plan = plans("s", 4, "SELECT s, sum(x) FROM t GROUP BY s").await;
    assert!(plan.contains("SortedAggregateExec: mode=SinglePartitioned, gby=[s@0 as s], aggr=[sum(t.x)], ordering_mode=Sorted"), "{plan}");
}

#[tokio::test]
async fn rows_of_a_sequence_are_grouped() {
    let folder = files();
    let session = Session::new(4)
        .set("datafusion.optimizer.repartition_aggregations", false)
        .set("datafusion.optimizer.enable_round_robin_repartition", false);
    let ctx = session.sorted().await;
    run(&ctx, &folder.ddl("k, v")).await;
    // A limit below, so that one partition is grouped.
    let sql = "SELECT k, count(*) FROM (SELECT * FROM t ORDER BY k, v LIMIT 1000) GROUP BY k";
    let plan = plan(&ctx, &folder, sql).await;
    assert!(plan.contains("SortedAggregateExec: mode=Single,"), "{plan}");
    assert!(plan.contains("SequenceExec"), "{plan}");
    let groups = rows(&ctx, sql).await;
    assert_eq!(groups.len(), 334, "{groups:?}");
    assert_eq!(groups.last().unwrap(), "333 1");
    assert!(
        groups[..333].iter().all(|row| row.ends_with(" 3")),
        "{groups:?}"
    );
}

#[tokio::test]
async fn what_a_comparison_of_neighbours_cannot_do_is_left() {
    let cases = [
        // In no order, or in that of a part of the key.
        ("k, v", "SELECT x, count(*) FROM t GROUP BY x"),
        ("k, v", "SELECT k, x, count(*) FROM t GROUP BY k, x"),
        ("k, v", "SELECT v, count(*) FROM t GROUP BY v"),
        (
            "k, v",
            "SELECT k, v, count(*) FROM t GROUP BY ROLLUP (k, v)",
        ),
        // One accumulator for each group.
        (
            "k, v",
            "SELECT k, array_agg(x ORDER BY x) FROM t GROUP BY k",
        ),
        // No key.
        ("k, v", "SELECT count(*), sum(x) FROM t"),
    ];
    for (order, sql) in cases {
        for partitions in [1, 4] {
            let plan = plans(order, partitions, sql).await;
            assert!(plan.contains("AggregateExec"), "{sql}\n{plan}");
            assert!(!plan.contains("SortedAggregateExec"), "{sql}\n{plan}");
        }
    }
    // Not our scan.
    let folder = files();
    let ctx = Session::new(1).sorted().await;
    run(&ctx, "SET sorted_listing.enabled = false").await;
    run(&ctx, &folder.ddl("k, v")).await;
    let plan = plan(&ctx, &folder, "SELECT k FROM t WHERE k = 3 GROUP BY k").await;
    assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
    assert!(!plan.contains("SortedAggregateExec"), "{plan}");
}

/// One file, which is in order of `f` whatever its statistics say of NaN.
#[tokio::test]
async fn floats_are_equal_as_the_hash_table_has_it() {
    let folder = Folder::new();
    let nan = [f64::NAN, -f64::NAN];
    let values = [nan[1], -1.0, -0.0, 0.0, 0.0, 1.0, nan[0], nan[0]];
    let f: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    folder.write("a.parquet", &batch([("f", f)]));
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("f")).await;
    let stock = Session::new(1).stock().await;
    let ddl = folder.ddl("f");
    run(&stock, ddl.split(" WITH ORDER").next().unwrap()).await;
    for sql in [
        "SELECT f, count(*) FROM t GROUP BY f",
        "SELECT DISTINCT f FROM t",
    ] {
        let plan = plan(&ctx, &folder, sql).await;
        assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
        assert!(!plan.contains("SortedAggregateExec"), "{plan}");
        let expected = rows(&stock, sql).await;
        assert_eq!(rows(&ctx, sql).await.len(), expected.len(), "{sql}");
    }
}

#[tokio::test]
async fn joins_that_claim_a_false_order_are_not_grouped_by_neighbours() {
    let folder = files();
    let session = Session::new(2).set("datafusion.optimizer.prefer_hash_join", false);
    let ctx = session.sorted().await;
    run(&ctx, &folder.ddl("s")).await;
    let stock = Session::new(3).stock().await;
    let ddl = folder.ddl("s");
    run(&stock, ddl.split(" WITH ORDER").next().unwrap()).await;
    for (join, on, neighbours) in [
        ("JOIN", "", true),
        ("LEFT JOIN", "", true),
        ("JOIN", " AND a.x < b.x", true),
        ("LEFT JOIN", " AND a.x < b.x", false),
    ] {
        let sql = format!("SELECT a.s, count(*) FROM t a {join} t b ON a.s = b.s{on} GROUP BY a.s");
        let plan = plan(&ctx, &folder, &sql).await;
        assert!(plan.contains("SortMergeJoinExec"), "{sql}\n{plan}");
        assert!(plan.contains("ordering_mode=Sorted"), "{sql}\n{plan}");
        assert_eq!(
            plan.contains("SortedAggregateExec"),
            neighbours,
            "{sql}\n{plan}"
        );
        // With a hash table, groups whose rows are in two batches are in two pieces all the same.
        if !neighbours {
            continue;
        }
        let [mut expected, mut actual] = [rows(&stock, &sql).await, rows(&ctx, &sql).await];
        expected.sort_unstable();
        actual.sort_unstable();
        assert_eq!(actual, expected, "{sql}");
    }
}

#[tokio::test]
async fn many_groups_fit_into_little_memory() {
    let folder = Folder::new();
    for file in 0..4_i64 {
        let rows = || file * 100_000..file * 100_000 + 100_000;
        let columns = batch([("k", int64(rows())), ("v", int64(rows()))]);
        folder.write(&shuffled_name(file as usize), &columns);
    }
    let pool = Arc::new(GreedyMemoryPool::new(2 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_runtime_env(runtime.build_arc().unwrap())
        .with_default_features()
        .with_sorted_listing();
    let ctx = SessionContext::new_with_state(builder.build());
    run(&ctx, &folder.ddl("k")).await;
    let sql = "SELECT count(*), sum(n), sum(s) FROM (SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k)";
    let plan = plan(&ctx, &folder, sql).await;
    assert!(plan.contains("SortedAggregateExec"), "{plan}");
    assert_eq!(rows(&ctx, sql).await, ["400000 400000 79999800000"]);
}

/// DataFusion says that a cast to the time of day keeps the order.
#[tokio::test]
async fn the_order_of_other_expressions_is_not_believed() {
    let folder = Folder::new();
    for day in 0..4_i64 {
        let seconds = (0..24).map(|hour| day * 86_400 + hour * 3600);
        let ts = TimestampSecondArray::from_iter_values(seconds);
        folder.write(
            &shuffled_name(day as usize),
            &batch([("ts", Arc::new(ts) as ArrayRef)]),
        );
    }
    for partitions in [1, 3] {
        let ctx = Session::new(partitions).sorted().await;
        run(&ctx, &folder.ddl("ts")).await;
        for sql in [
            "SELECT CAST(ts AS TIME) AS c, count(*) FROM t GROUP BY c",
            "SELECT c, count(*) FROM (SELECT CAST(ts AS TIME) AS c FROM t WHERE ts IS NOT NULL) GROUP BY c",
            "SELECT c, count(*) FROM (SELECT DISTINCT ts, CAST(ts AS TIME) AS c FROM t) GROUP BY c",
        ] {
            let plan = plan(&ctx, &folder, sql).await;
            let by_time = plan.lines().find(|line| line.contains("AggregateExec"));
            assert!(!by_time.unwrap().contains("SortedAggregateExec"), "{plan}");
        }
    }
}

/// An order that is not proved may come from another table.
#[tokio::test]
async fn the_order_of_other_tables_is_not_believed() {
    let folder = files();
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("k, v")).await;
    run(&ctx, "SET sorted_listing.enabled = false").await;
    let other = folder.ddl("k, v").replace("TABLE t", "TABLE other");
    let other = format!("{other} OPTIONS ('sorted_listing.enabled' 'false')");
    run(&ctx, &other).await;
    run(&ctx, "SET sorted_listing.enabled = true").await;
    let sql = "SELECT other.k, count(*) FROM t JOIN other ON t.x = other.x WHERE t.k < 3 GROUP BY other.k";
    let plan = plan(&ctx, &folder, sql).await;
    assert!(plan.contains("SortedScan"), "{plan}");
    assert!(!plan.contains("SortedAggregateExec"), "{plan}");
}

/// What is out of order in the middle of a batch, which reading in that order does not see.
#[tokio::test]
async fn rows_that_are_grouped_are_in_order() {
    let folder = Folder::new();
    let keys = [1, 1, 3, 1, 2, 6];
    folder.write(
        "a.parquet",
        &batch([("k", int64(keys)), ("v", int64(0..6))]),
    );
    folder.write(
        "b.parquet",
        &batch([("k", int64(10..16)), ("v", int64(0..6))]),
    );
    let sql = "SELECT k, count(*) FROM t GROUP BY k";
    for partitions in [1, 2] {
        for verify in ["off", "boundaries", "rows"] {
            let session = Session::new(partitions).set("sorted_listing.verify", verify);
            let ctx = session.sorted().await;
            run(&ctx, &folder.ddl("k")).await;
            let plan = plan(&ctx, &folder, sql).await;
            assert!(plan.contains("SortedAggregateExec"), "{plan}");
            if verify == "off" {
                assert_eq!(rows(&ctx, sql).await.len(), 5 + 6);
                continue;
            }
            let error = try_run(&ctx, sql).await.unwrap_err();
            let broken = FalseOrder::of(&error).expect(verify);
            assert_eq!(&*broken.table, "t");
            assert!(broken.order.starts_with('k'), "{broken}");
        }
    }
}

/// DataFusion takes a column for constant that is filtered to be zero, and there are two zeros.
#[tokio::test]
async fn the_order_behind_floats_is_not_believed() {
    let folder = Folder::new();
    let zeros = (0..120).map(|row| if row < 60 { -0.0 } else { 0.0 });
    let z: ArrayRef = Arc::new(Float64Array::from_iter_values(zeros));
    let k = int64((0..120).map(|row| row % 60));
    folder.write(
        "a.parquet",
        &batch([("z", z), ("k", k), ("v", int64(0..120))]),
    );
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("z, k")).await;
    for zero in ["0.0", "-0.0"] {
        let sql = format!("SELECT k, count(*) FROM t WHERE z = {zero} GROUP BY k");
        let plan = plan(&ctx, &folder, &sql).await;
        assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
        assert!(!plan.contains("SortedAggregateExec"), "{plan}");
        // It runs without `FalseOrder`. How many groups `AggregateExec` makes is not ours: it
        // splits some where batches end.
        assert!(rows(&ctx, &sql).await.len() >= 60);
    }
    // What comes before them is.
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("v, z")).await;
    let plan = plan(&ctx, &folder, "SELECT v, count(*) FROM t GROUP BY v").await;
    assert!(plan.contains("SortedAggregateExec"), "{plan}");
}
