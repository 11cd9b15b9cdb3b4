//! Slices that own ranges of the key: grouping, windows and joins that need no repartitioning.

use arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::common::{ScalarValue, SplitPoint};
use datafusion::datasource::listing::{ListingTableConfig, ListingTableUrl};
use datafusion::prelude::{SessionContext, col};
use datafusion_sorted_listing::SortedListingTable;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

use crate::support::*;

/// Row groups and pages of few rows, so that files are cut in the middle.
fn small_pages() -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(64))
        .set_data_page_row_count_limit(8)
        .set_write_batch_size(4)
        .set_dictionary_enabled(false)
        .build()
}

/// `files` files of 100 rows of `width` rows for each key; with `touching`, each begins with the key that the one before
/// ends with.
fn files_of(files: i64, width: i64, touching: bool) -> Folder {
    let folder = Folder::new();
    let step = 100 / width - i64::from(touching);
    for file in 0..files {
        let keys = int64((0..100).map(|row| file * step + row / width));
        let v = int64((0..100).map(|row| (file * 100 + row) * 7919 % 1000));
        let rows = batch([("k", keys), ("v", v)]);
        folder.write_with(&shuffled_name(file as usize), &rows, small_pages());
    }
    folder
}

const QUERIES: [&str; 14] = [
    "SELECT k, count(*), sum(v) FROM t GROUP BY k",
    "SELECT k, v, count(*) FROM t GROUP BY k, v",
    "SELECT DISTINCT k FROM t",
    "SELECT k, count(DISTINCT v) FROM t GROUP BY k",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) FROM t",
    "SELECT k, v, sum(v) OVER (PARTITION BY k) FROM t",
    "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY k DESC) FROM t",
    "SELECT a.k, a.v, b.v FROM t a JOIN t b ON a.k = b.k",
    "SELECT a.k, b.v FROM t a FULL JOIN t b ON a.k = b.k AND a.v < b.v",
    "SELECT k, count(*) FROM t WHERE v > 300 GROUP BY k",
    "SELECT k, max(v) FROM t WHERE k > 20 AND k < 200 GROUP BY k",
    "SELECT count(*), min(k), max(k), sum(v) FROM t",
    "SELECT v, count(*) FROM t GROUP BY v",
    "SELECT k, v FROM t",
];

/// The rows of a query in some order.
async fn sorted_rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = rows(ctx, sql).await;
    rows.sort_unstable();
    rows
}

/// Compares each of [`QUERIES`] with the stock table without an order.
async fn compare(folder: &Folder, order: &str, session: &Session) {
    let ctx = session.sorted().await;
    run(&ctx, &folder.ddl(order)).await;
    let stock = Session::new(3).stock().await;
    let ddl = folder.ddl(order);
    run(&stock, ddl.split(" WITH ORDER").next().unwrap()).await;
    for sql in QUERIES {
        let expected = sorted_rows(&stock, sql).await;
        assert_eq!(sorted_rows(&ctx, sql).await, expected, "{sql} {session:?}");
    }
    for tail in ["k, v", "k DESC, v DESC"] {
        let sql = format!("SELECT k, v FROM t ORDER BY {tail}");
        let expected = rows(&stock, &sql).await;
        assert_eq!(rows(&ctx, &sql).await, expected, "{sql} {session:?}");
    }
    for direction in ["", "DESC"] {
        let sql = format!("SELECT k FROM t ORDER BY k {direction}");
        for tail in ["", " LIMIT 150", " LIMIT 20 OFFSET 190"] {
            let sql = format!("{sql}{tail}");
            let expected = rows(&stock, &sql).await;
            assert_eq!(rows(&ctx, &sql).await, expected, "{sql} {session:?}");
        }
    }
}

async fn plan_of(folder: &Folder, partitions: usize, sql: &str) -> String {
    let ctx = join_session(partitions).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    plan(&ctx, folder, sql).await
}

#[tokio::test]
async fn keys_that_touch_live_in_one_slice() {
    for (width, touching) in [(1, false), (1, true), (10, true), (50, true)] {
        let folder = files_of(8, width, touching);
        for partitions in [2, 4] {
            {
                let pushdown = partitions == 4;
                let session = join_session(partitions)
                    .set("datafusion.execution.parquet.pushdown_filters", pushdown);
                compare(&folder, "k", &session).await;
            }
        }
        if width < 50 {
            let plan = plan_of(&folder, 4, QUERIES[0]).await;
            assert!(plan.contains("Range([k@0 ASC NULLS LAST]"), "{plan}");
            assert!(!plan.contains("RepartitionExec"), "{plan}");
        }
    }
}

#[tokio::test]
async fn one_key_over_many_files_is_not_cut() {
    let folder = Folder::new();
    for file in 0..6 {
        let last = i64::from(file == 5);
        let keys = int64((0..100).map(|row| if row == 99 { 1 + last } else { 1 }));
        let rows = batch([("k", keys), ("v", int64(0..100))]);
        folder.write_with(&shuffled_name(file), &rows, small_pages());
    }
    let plan = plan_of(&folder, 4, QUERIES[0]).await;
    assert!(!plan.contains("Range("), "{plan}");
    compare(&folder, "k", &Session::new(4)).await;
}

#[tokio::test]
async fn nulls_live_in_one_slice() {
    for order in ["k ASC NULLS LAST", "k ASC NULLS FIRST", "k DESC NULLS LAST"] {
        let folder = Folder::new();
        for file in 0..6_i64 {
            let mut keys: Vec<_> = (0..50).map(|row| Some(file * 25 + row / 2)).collect();
            // At one end of the table, and at the boundary of two files.
            let nulls = match order {
                "k ASC NULLS FIRST" => [0, 1],
                _ => [5, 4],
            };
            if file == nulls[0] {
                keys = vec![None; 50];
            } else if file == nulls[1] {
                keys[40..].fill(None);
                if order == "k ASC NULLS FIRST" {
                    keys.rotate_right(10);
                }
            }
            if order.starts_with("k DESC") {
                let known = keys.iter().filter(|key| key.is_some()).count();
                keys[..known].reverse();
                let last = 5 * 25;
                keys.iter_mut()
                    .flatten()
                    .for_each(|key| *key = *key % 25 + last - file * 25);
                keys[..known].sort_unstable_by(|a, b| b.cmp(a));
            }
            let keys: ArrayRef = Arc::new(Int64Array::from(keys));
            let rows = batch([
                ("k", keys),
                ("v", int64((0..50).map(|row| file * 50 + row))),
            ]);
            folder.write_with(&shuffled_name(file as usize), &rows, small_pages());
        }
        for partitions in [2, 3, 4] {
            compare(&folder, order, &Session::new(partitions)).await;
        }
    }
}

#[tokio::test]
async fn a_key_of_strings_is_cut_at_truncated_bounds() {
    let folder = Folder::new();
    let properties = || {
        WriterProperties::builder()
            .set_max_row_group_row_count(Some(16))
            .set_statistics_truncate_length(Some(4))
            .set_column_index_truncate_length(Some(3))
            .set_data_page_row_count_limit(4)
            .set_write_batch_size(2)
            .build()
    };
    for file in 0..6 {
        let key = |row: usize| format!("a{:05}", (file * 48 + row) / 3 * 7);
        let keys: ArrayRef = Arc::new(StringArray::from_iter_values((0..48).map(key)));
        let rows = batch([("k", keys), ("v", int64(0..48))]);
        folder.write_with(&shuffled_name(file), &rows, properties());
    }
    let stock = Session::new(3).stock().await;
    run(&stock, folder.ddl("k").split(" WITH ORDER").next().unwrap()).await;
    for partitions in [2, 4, 8] {
        let ctx = Session::new(partitions).sorted().await;
        run(&ctx, &folder.ddl("k")).await;
        for sql in [QUERIES[0], QUERIES[2], QUERIES[4], QUERIES[7], QUERIES[13]] {
            let expected = sorted_rows(&stock, sql).await;
            assert_eq!(sorted_rows(&ctx, sql).await, expected, "{sql}");
        }
    }
}

/// A table of these files, sorted by `k`.
async fn table_of(ctx: &SessionContext, folder: &Folder) -> SortedListingTable {
    let options = datafusion::datasource::listing::ListingOptions::new(Arc::new(
        datafusion::datasource::file_format::parquet::ParquetFormat::default(),
    ))
    .with_file_sort_order(vec![vec![col("k").sort(true, false)]]);
    let config = ListingTableConfig::new(ListingTableUrl::parse(folder.location()).unwrap())
        .with_listing_options(options)
        .infer_schema(&ctx.state())
        .await
        .unwrap();
    SortedListingTable::try_new(config).unwrap()
}

const JOINS: [&str; 10] = [
    "SELECT * FROM t JOIN u ON t.k = u.k",
    "SELECT * FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT * FROM t RIGHT JOIN u ON t.k = u.k AND t.v > u.v",
    "SELECT * FROM t FULL JOIN u ON t.k = u.k",
    "SELECT * FROM t WHERE k IN (SELECT k FROM u WHERE v > 500)",
    "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT t.v, u.v FROM t JOIN u ON t.k = u.k",
    "SELECT count(*) FROM t FULL JOIN u ON t.k = u.k AND t.v < u.v",
    "SELECT max(u.v), t.v FROM t LEFT JOIN u ON t.k = u.k GROUP BY t.v",
    "SELECT t.k, count(*), max(u.v) FROM t JOIN u ON t.k = u.k GROUP BY t.k",
];

/// Joins two tables of different files, which are made by `register`, and compares them with stock tables.
async fn compare_joins(left: &Folder, right: &Folder, ctx: &SessionContext) {
    let stock = Session::new(3).stock().await;
    for (name, folder) in [("t", left), ("u", right)] {
        let location = folder.location();
        let ddl = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{location}'");
        run(&stock, &ddl).await;
    }
    for sql in JOINS {
        let expected = sorted_rows(&stock, sql).await;
        assert_eq!(sorted_rows(ctx, sql).await, expected, "{sql}");
    }
}

/// The plan of a join of which neither side is repartitioned or sorted.
fn assert_merges(plan: &str) {
    assert!(plan.contains("SortMergeJoinExec"), "{plan}");
    assert!(
        !plan.contains("RepartitionExec") && !plan.contains("SortExec"),
        "{plan}"
    );
}

fn join_session(partitions: usize) -> Session {
    Session::new(partitions)
        .set(
            "datafusion.optimizer.hash_join_single_partition_threshold",
            0,
        )
        .set(
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            0,
        )
}

#[tokio::test]
async fn shared_split_points_make_joins_stream() {
    let left = files_of(8, 10, true);
    let right = files_of(5, 4, true);
    let points = |points: &[i64]| {
        let point = |&point| SplitPoint::new(vec![ScalarValue::Int64(Some(point))]);
        points.iter().map(point).collect::<Vec<_>>()
    };
    for given in [
        &[10, 20, 50][..],
        &[31],
        &[-5, 7, 1000],
        &[0, 1, 2, 3, 4, 5, 6],
    ] {
        let ctx = join_session(given.len() + 1).sorted().await;
        for (name, folder) in [("t", &left), ("u", &right)] {
            let table = table_of(&ctx, folder)
                .await
                .with_split_points(points(given));
            assert_eq!(
                table.split_points(&ctx.state()).await.unwrap(),
                Some(points(given))
            );
            ctx.register_table(name, Arc::new(table)).unwrap();
        }
        let plan = plan(&ctx, &left, JOINS[0]).await;
        assert_merges(&plan);
        compare_joins(&left, &right, &ctx).await;
        run(&ctx, "SET sorted_listing.merge_joins = false").await;
        let plan = crate::support::plan(&ctx, &left, JOINS[0]).await;
        assert!(plan.contains("HashJoinExec: mode=Partitioned"), "{plan}");
        assert!(!plan.contains("RepartitionExec"), "{plan}");
        compare_joins(&left, &right, &ctx).await;
        run(&ctx, "SET datafusion.optimizer.prefer_hash_join = false").await;
        let plan = crate::support::plan(&ctx, &left, JOINS[0]).await;
        assert_merges(&plan);
        compare_joins(&left, &right, &ctx).await;
    }
}

#[tokio::test]
async fn split_points_come_from_another_table() {
    let left = files_of(8, 10, true);
    let right = files_of(5, 4, true);
    for partitions in [2, 4] {
        let ctx = join_session(partitions).sorted().await;
        run(&ctx, &left.ddl("k")).await;
        let ddl = right.ddl("k").replace("TABLE t", "TABLE u");
        let from =
            |table: &str| format!("{ddl} OPTIONS ('sorted_listing.split_points_from' '{table}')");
        run(&ctx, &from("t")).await;
        let plan = plan(&ctx, &left, JOINS[0]).await;
        assert_merges(&plan);
        compare_joins(&left, &right, &ctx).await;

        run(&ctx, "DROP TABLE u").await;
        run(&ctx, &from("nowhere")).await;
        let plan = crate::support::plan(&ctx, &left, JOINS[0]).await;
        assert!(
            plan.contains("no_ranges=[there is no table 'nowhere']"),
            "{plan}"
        );
        compare_joins(&left, &right, &ctx).await;
    }
}

#[tokio::test]
async fn split_points_that_do_not_suit_the_order_are_not_used() {
    let folder = files_of(4, 10, true);
    let text = |text: &str| SplitPoint::new(vec![ScalarValue::from(text)]);
    let number = |number| SplitPoint::new(vec![ScalarValue::Int64(Some(number))]);
    let cases = [
        vec![text("ten")],
        vec![number(9), number(3)],
        vec![SplitPoint::new(vec![])],
    ];
    for points in cases {
        let ctx = Session::new(4).sorted().await;
        let table = table_of(&ctx, &folder).await.with_split_points(points);
        ctx.register_table("t", Arc::new(table)).unwrap();
        let plan = plan(&ctx, &folder, QUERIES[0]).await;
        assert!(!plan.contains("Range("), "{plan}");
        assert!(
            plan.contains("SortedScan") && plan.contains("no_ranges=["),
            "{plan}"
        );
        let provider = ctx.table_provider("t").await.unwrap();
        let table: &dyn datafusion::catalog::TableProvider = provider.as_ref();
        let table = table.downcast_ref::<SortedListingTable>().unwrap();
        assert_eq!(table.split_points(&ctx.state()).await.unwrap(), None);
    }
}

/// 6 files of `device, ts`, of which each ends and the next begins within a device.
fn devices() -> Folder {
    let folder = Folder::new();
    for file in 0..6_i64 {
        let rows = || file * 100..file * 100 + 100;
        let device = StringArray::from_iter_values(rows().map(|row| format!("d{:02}", row / 35)));
        let columns = batch([
            ("device", Arc::new(device) as ArrayRef),
            ("ts", int64(rows().map(|row| row % 35 / 2))),
            ("v", int64(rows().map(|row| row * 7919 % 1000))),
        ]);
        folder.write_with(&shuffled_name(file as usize), &columns, small_pages());
    }
    folder
}

#[tokio::test]
async fn files_that_end_within_a_device_are_merged_for_the_whole_key_only() {
    let folder = devices();
    let stock = Session::new(3).stock().await;
    let ddl = folder.ddl("device, ts");
    run(&stock, ddl.split(" WITH ORDER").next().unwrap()).await;
    let window =
        "SELECT device, ts, v, row_number() OVER (PARTITION BY device ORDER BY ts, v) FROM t";
    let lag = "SELECT device, ts, max(v) OVER (PARTITION BY device ORDER BY ts) FROM t";
    let unordered = [
        window,
        lag,
        "SELECT device, ts, count(*), sum(v) FROM t GROUP BY device, ts",
        "SELECT device, count(DISTINCT ts) FROM t WHERE v > 100 GROUP BY device",
        "SELECT * FROM t",
        "SELECT count(*), sum(v) FROM t",
        "SELECT ts, count(*) FROM t GROUP BY ts",
    ];
    let ordered = [
        "SELECT device, ts FROM t ORDER BY device, ts",
        "SELECT device, ts FROM t ORDER BY device, ts LIMIT 170",
        "SELECT device, ts FROM t ORDER BY device DESC, ts DESC",
        "SELECT device, ts FROM t ORDER BY device DESC, ts DESC LIMIT 77",
        "SELECT device, ts FROM t WHERE v > 300 ORDER BY device, ts",
        "SELECT device FROM t ORDER BY device DESC",
        "SELECT ts FROM t WHERE device = 'd02' ORDER BY ts",
    ];
    for partitions in [1, 2, 4] {
        for strategy in ["contiguous", "best_fit"] {
            let ctx = Session::new(partitions)
                .set("sorted_listing.strategy", strategy)
                .sorted()
                .await;
            run(&ctx, &ddl).await;
            for sql in unordered {
                let expected = sorted_rows(&stock, sql).await;
                assert_eq!(sorted_rows(&ctx, sql).await, expected, "{sql}");
            }
            for sql in ordered {
                assert_eq!(rows(&ctx, sql).await, rows(&stock, sql).await, "{sql}");
            }
        }
    }

    let ctx = Session::new(4).sorted().await;
    run(&ctx, &ddl).await;
    let plan = plan(&ctx, &folder, lag).await;
    assert!(
        !plan.contains("SortExec") && !plan.contains("RepartitionExec"),
        "{plan}"
    );
    assert!(plan.contains("runs=2"), "{plan}");
    let plan = crate::support::plan(&ctx, &folder, "SELECT * FROM t").await;
    assert!(
        !plan.contains("runs="),
        "no merge for a query without an order: {plan}"
    );
    assert!(
        plan.contains("on_demand=[device ASC NULLS LAST, ts ASC NULLS LAST]"),
        "{plan}"
    );
    for sql in ordered {
        let plan = crate::support::plan(&ctx, &folder, sql).await;
        assert!(!plan.contains("SortExec"), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn zeros_of_either_sign_are_not_cut_apart() {
    let folder = Folder::new();
    let keys = [f64::NEG_INFINITY, -1.0, -0.0, -0.0, 0.0, 1.0, f64::NAN];
    let keys: ArrayRef = Arc::new(arrow::array::Float64Array::from_iter_values(keys));
    folder.write("a.parquet", &batch([("k", keys)]));
    let ctx = Session::new(2).sorted().await;
    let point = SplitPoint::new(vec![ScalarValue::Float64(Some(0.0))]);
    let table = table_of(&ctx, &folder).await.with_split_points(vec![point]);
    ctx.register_table("t", Arc::new(table)).unwrap();
    let groups = rows(&ctx, "SELECT count(*) FROM t WHERE k = 0 GROUP BY k").await;
    assert_eq!(groups, ["3"]);
}

#[tokio::test]
async fn a_false_order_loses_no_row() {
    let folder = Folder::new();
    let properties = || {
        WriterProperties::builder()
            .set_data_page_row_count_limit(64)
            .set_write_batch_size(64)
            .set_dictionary_enabled(false)
            .build()
    };
    for file in 0..4_i64 {
        // The last row of a batch is out of place.
        let key = |row: i64| file * 100 + if row == 63 { 100 } else { row / 20 };
        let rows = batch([("k", int64((0..2000).map(key))), ("v", int64(0..2000))]);
        folder.write_with(&shuffled_name(file as usize), &rows, properties());
    }
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let sql = "SELECT count(v), sum(k) FROM t WHERE v >= 0";
    let plan = plan(&ctx, &folder, sql).await;
    if plan.contains("clipped=") {
        let error = error(&ctx, sql).await;
        assert!(error.contains(".parquet"), "names the file: {error}");
        assert!(error.contains("not in its declared order"), "{error}");
    } else {
        assert_eq!(rows(&ctx, sql).await, ["8000 1596388"]);
    }
    let sql = "SELECT k, v FROM t WHERE v >= 0";
    let error = error(&ctx, sql).await;
    assert!(error.contains("not in its declared order"), "{error}");
}

#[tokio::test]
async fn points_of_a_constant_column_are_points_of_the_whole_key() {
    let folder = Folder::new();
    for file in 0..6_i64 {
        let ts = int64(file * 80..file * 80 + 80);
        let device = int64((0..80).map(|_| 7));
        folder.write(
            &shuffled_name(file as usize),
            &batch([("k", device), ("ts", ts)]),
        );
    }
    let ctx = join_session(3).sorted().await;
    run(&ctx, &folder.ddl("k, ts")).await;
    let group = "SELECT ts, count(*) FROM t GROUP BY ts";
    let alone = plan(&ctx, &folder, group).await;
    assert!(alone.contains("Range([ts@0 ASC NULLS LAST]"), "{alone}");
    assert!(!alone.contains("RepartitionExec"), "{alone}");
    let ddl = |table: &str, from: &str| {
        let ddl = folder
            .ddl("k, ts")
            .replace("TABLE t", &format!("TABLE {table}"));
        format!("{ddl} OPTIONS ('sorted_listing.split_points_from' '{from}')")
    };
    run(&ctx, &ddl("u", "t")).await;
    run(&ctx, &ddl("w", "u")).await;
    let sql = "SELECT u.k, u.ts FROM u JOIN w ON u.k = w.k AND u.ts = w.ts";
    let joined = plan(&ctx, &folder, sql).await;
    assert!(joined.contains("SortMergeJoinExec"), "{joined}");
    assert!(!joined.contains("RepartitionExec"), "{joined}");
    assert_eq!(rows(&ctx, sql).await.len(), 480);
}

/// DataFusion's merge join gives out the rows of a filtered outer join in no order, and claims one.
#[tokio::test]
async fn filtered_outer_joins_stay_hash_joins() {
    let folder = Folder::new();
    let k: Vec<_> = (0..60).map(|row| row / 3).collect();
    let rows_of = batch([("k", int64(k)), ("v", int64(0..60))]);
    folder.write_with("a.parquet", &rows_of, row_groups_of(15));
    let ctx = join_session(2)
        .set("datafusion.execution.batch_size", 3)
        .sorted()
        .await;
    run(&ctx, &folder.ddl("k")).await;
    let join = |kind: &str, filter: &str| {
        format!("SELECT a.k, a.v, b.v FROM t a {kind} JOIN t b ON a.k = b.k {filter}")
    };
    for kind in ["LEFT", "RIGHT", "FULL"] {
        let sql = join(kind, "AND a.v < b.v ORDER BY 1, 2, 3");
        let plan = plan(&ctx, &folder, &sql).await;
        assert!(!plan.contains("SortMergeJoin"), "{plan}");
    }
    let plan_of_inner = plan(&ctx, &folder, &join("INNER", "AND a.v < b.v")).await;
    assert!(plan_of_inner.contains("SortMergeJoin"), "{plan_of_inner}");

    let found = rows(&ctx, &join("LEFT", "AND a.v < b.v ORDER BY a.k")).await;
    let keys: Vec<i64> = found
        .iter()
        .map(|row| row.split(' ').next().unwrap().parse().unwrap())
        .collect();
    // Of three rows of a key, the pairs are three, and the last row has none.
    assert_eq!(found.len(), 20 * 4);
    assert!(keys.is_sorted(), "{keys:?}");
}
