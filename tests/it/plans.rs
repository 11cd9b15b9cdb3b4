//! The shapes of plans, as `EXPLAIN` shows them.
//!
//! Snapshots show whole plans. What matters of each is asserted besides.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::SplitPoint;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTableConfig, ListingTableUrl};
use datafusion::logical_expr::{Partitioning, RangePartitioning, col};
use datafusion::prelude::SessionContext;
use datafusion_sorted_listing::SortedListingTable;
use insta::assert_snapshot;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;

/// 8 files of 10 rows: `ts` from 0 to 79 across them, `v` scattered, `device` of 16 values in order.
fn events() -> Folder {
    let folder = Folder::new();
    for file in 0..8 {
        folder.write(
            &shuffled_name(file as usize),
            &event_batch(file * 10..file * 10 + 10),
        );
    }
    folder
}

fn event_batch(ts: std::ops::Range<i64>) -> RecordBatch {
    let device = StringArray::from_iter_values(ts.clone().map(|ts| format!("d{:02}", ts / 5)));
    let v = Int64Array::from_iter_values(ts.clone().map(|ts| ts * 7 % 80));
    batch([
        ("ts", int64(ts) as ArrayRef),
        ("device", Arc::new(device)),
        ("v", Arc::new(v)),
    ])
}

async fn session_over(folder: &Folder, order: &str) -> SessionContext {
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl(order)).await;
    ctx
}

/// The plan of a query that needs no sort.
async fn sorted_plan(ctx: &SessionContext, folder: &Folder, sql: &str) -> String {
    let plan = plan(ctx, folder, sql).await;
    assert!(!plan.contains("SortExec"), "{sql}:\n{plan}");
    assert!(plan.contains("SortedScan: "), "{sql}:\n{plan}");
    plan
}

/// The plan of a query that DataFusion has to sort.
async fn unsorted_plan(ctx: &SessionContext, folder: &Folder, sql: &str) -> String {
    let plan = plan(ctx, folder, sql).await;
    assert!(plan.contains("SortExec"), "{sql}:\n{plan}");
    assert!(!plan.contains("output_ordering"), "{sql}:\n{plan}");
    plan
}

#[tokio::test]
async fn order_by_the_key() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    assert_snapshot!(
        "key",
        sorted_plan(&ctx, &folder, "SELECT * FROM t ORDER BY ts").await
    );
    assert_snapshot!(
        "key_limit",
        sorted_plan(
            &ctx,
            &folder,
            "SELECT * FROM t ORDER BY ts LIMIT 10 OFFSET 5"
        )
        .await
    );
    assert_snapshot!(
        "key_filter",
        sorted_plan(&ctx, &folder, "SELECT * FROM t WHERE v > 40 ORDER BY ts").await
    );
    assert_snapshot!(
        "key_dropped",
        sorted_plan(&ctx, &folder, "SELECT v FROM t ORDER BY ts").await
    );
    assert_snapshot!(
        "key_alias",
        sorted_plan(
            &ctx,
            &folder,
            "SELECT ts AS moment, v + 1 FROM t ORDER BY moment"
        )
        .await
    );
}

#[tokio::test]
async fn order_by_a_compound_key_and_its_prefix() {
    let folder = events();
    let ctx = session_over(&folder, "device, ts").await;
    let sql = "SELECT * FROM t ORDER BY device";
    assert_snapshot!("prefix", sorted_plan(&ctx, &folder, sql).await);
    let sql = "SELECT * FROM t ORDER BY device, ts";
    assert_snapshot!("compound", sorted_plan(&ctx, &folder, sql).await);
    let sql = "SELECT * FROM t WHERE device = 'd03' ORDER BY ts";
    assert_snapshot!("constant_prefix", sorted_plan(&ctx, &folder, sql).await);
}

#[tokio::test]
async fn keys_without_null_serve_both_placements() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    for sql in [
        "SELECT * FROM t ORDER BY ts NULLS FIRST",
        "SELECT v, ts AS a FROM t ORDER BY a NULLS FIRST LIMIT 3",
    ] {
        let plan = sorted_plan(&ctx, &folder, sql).await;
        assert!(plan.contains("order=[ts ASC],"), "{plan}");
    }
    let first = rows(&ctx, "SELECT ts FROM t ORDER BY ts NULLS FIRST LIMIT 3").await;
    assert_eq!(first, ["0", "1", "2"]);
}

#[tokio::test]
async fn groups_and_windows_over_the_key() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    let group = "SELECT ts, count(*) FROM t GROUP BY ts";
    let plan = sorted_plan(&ctx, &folder, group).await;
    assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
    assert_snapshot!("group_by", plan);
    let window = "SELECT ts, row_number() OVER (ORDER BY ts) FROM t";
    assert_snapshot!("window", sorted_plan(&ctx, &folder, window).await);
}

#[tokio::test]
async fn best_fit() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    run(&ctx, "SET sorted_listing.strategy = 'best_fit'").await;
    assert_snapshot!(
        "best_fit",
        sorted_plan(&ctx, &folder, "SELECT * FROM t ORDER BY ts").await
    );
}

#[tokio::test]
async fn further_orders_are_declared_where_they_hold() {
    let folder = Folder::new();
    // `up` and `down` hold in every file and across them, `wave` in every file only.
    for file in 0..8i64 {
        let up = file * 10..file * 10 + 10;
        folder.write(
            &shuffled_name(file as usize),
            &batch([
                ("up", int64(up.clone())),
                ("down", int64(up.map(|up| -up))),
                ("wave", int64(0..10)),
            ]),
        );
    }
    let ctx = Session::new(4).sorted().await;
    let ddl = folder
        .ddl("up")
        .replace("(up)", "(up) WITH ORDER (down DESC) WITH ORDER (wave)");
    run(&ctx, &ddl).await;
    for (sql, sorted) in [
        ("SELECT * FROM t ORDER BY up", true),
        ("SELECT * FROM t ORDER BY down DESC", true),
        ("SELECT * FROM t ORDER BY wave", false),
    ] {
        let plan = plan(&ctx, &folder, sql).await;
        assert_eq!(!plan.contains("SortExec"), sorted, "{sql}:\n{plan}");
    }
}

#[tokio::test]
async fn other_orders_are_sorted_as_by_the_stock_table() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    let sql = "SELECT * FROM t ORDER BY v LIMIT 5";
    assert_snapshot!("other_order", unsorted_plan(&ctx, &folder, sql).await);
    // A sort is left what is in order already.
    let plan = plan(&ctx, &folder, "SELECT * FROM t ORDER BY ts, v LIMIT 5").await;
    assert!(plan.contains("sort_prefix=[ts@0 ASC NULLS LAST]"), "{plan}");
}

#[tokio::test]
async fn overlap() {
    let folder = Folder::new();
    for file in 0..8 {
        folder.write(&format!("{file}.parquet"), &event_batch(file..file + 20));
    }
    let sql = "SELECT * FROM t ORDER BY ts";
    // All files overlap: a slice each, if there are enough, as the stock table has it.
    let ctx = Session::new(8).sorted().await;
    run(&ctx, &folder.ddl("ts")).await;
    assert_snapshot!("overlap_fits", sorted_plan(&ctx, &folder, sql).await);
    // If there are not, they are merged where a query asks for it.
    let ctx = session_over(&folder, "ts").await;
    assert_snapshot!("overlap", sorted_plan(&ctx, &folder, sql).await);
    let desc = "SELECT ts, v FROM t WHERE v > 10 ORDER BY ts DESC LIMIT 5";
    assert_snapshot!("overlap_desc", sorted_plan(&ctx, &folder, desc).await);
    // A query that wants no order has the plan of the stock table.
    let unordered = plan(&ctx, &folder, "SELECT v FROM t").await;
    assert_eq!(unordered.lines().count(), 1, "{unordered}");
    assert!(unordered.contains("UnorderedScan: why=["), "{unordered}");
    let aggregate = plan(&ctx, &folder, "SELECT ts, count(*) FROM t GROUP BY ts").await;
    assert!(!aggregate.contains("ordering_mode"), "{aggregate}");
}

#[tokio::test]
async fn too_many_runs_to_merge() {
    let folder = Folder::new();
    for file in 0..8 {
        folder.write(&format!("{file}.parquet"), &event_batch(file..file + 20));
    }
    let ctx = Session::new(4)
        .set("sorted_listing.max_merge_fan_in", 7)
        .sorted()
        .await;
    run(&ctx, &folder.ddl("ts")).await;
    let sql = "SELECT * FROM t ORDER BY ts";
    assert_snapshot!("too_many_runs", unsorted_plan(&ctx, &folder, sql).await);
}

#[tokio::test]
async fn unknown_bounds() {
    let folder = Folder::new();
    for file in 0..8 {
        let statistics = if file == 3 {
            EnabledStatistics::None
        } else {
            EnabledStatistics::Chunk
        };
        let properties = WriterProperties::builder()
            .set_statistics_enabled(statistics)
            .build();
        folder.write_with(
            &format!("{file}.parquet"),
            &event_batch(file * 10..file * 10 + 10),
            properties,
        );
    }
    let sql = "SELECT * FROM t ORDER BY ts";
    // One of unknown bounds stands alone, beside the others.
    let ctx = session_over(&folder, "ts").await;
    assert_snapshot!("unknown_fits", sorted_plan(&ctx, &folder, sql).await);
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("ts")).await;
    assert_snapshot!("unknown", sorted_plan(&ctx, &folder, sql).await);
}

#[tokio::test]
async fn an_order_on_an_expression_has_no_bounds() {
    let folder = events();
    let ctx = session_over(&folder, "ts / 10").await;
    let sql = "SELECT * FROM t ORDER BY ts / 10";
    assert_snapshot!("expression", unsorted_plan(&ctx, &folder, sql).await);
}

#[tokio::test]
async fn switched_off() {
    let folder = events();
    let sql = "SELECT * FROM t ORDER BY ts";
    let ctx = session_over(&folder, "ts").await;
    run(&ctx, "SET sorted_listing.enabled = false").await;
    let off = plan(&ctx, &folder, sql).await;
    let stock = Session::new(4).stock().await;
    run(&stock, &folder.ddl("ts")).await;
    assert_eq!(off, plan(&stock, &folder, sql).await);
}

#[tokio::test]
async fn no_order_is_the_stock_plan() {
    let folder = events();
    let ddl = folder.ddl("").replace(" WITH ORDER ()", "");
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &ddl).await;
    let stock = Session::new(4).stock().await;
    run(&stock, &ddl).await;
    let sql = "SELECT * FROM t";
    assert_eq!(
        plan(&ctx, &folder, sql).await,
        plan(&stock, &folder, sql).await
    );
}

/// The table `t` in Rust, with a declared partitioning of `ts` at 40.
async fn declared(folder: &Folder, files: &str) -> SessionContext {
    let ctx = Session::new(4).sorted().await;
    let order = col("ts").sort(true, false);
    let at_40 = SplitPoint::new(vec![40i64.into()]);
    let range = RangePartitioning::try_new(vec![order.clone()], vec![at_40]).unwrap();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_sort_order(vec![vec![order]])
        .with_output_partitioning(Some(Partitioning::Range(range)));
    let location = ListingTableUrl::parse(format!("{}{files}", folder.location())).unwrap();
    let config = ListingTableConfig::new(location)
        .with_listing_options(options)
        .infer_schema(&ctx.state())
        .await
        .unwrap();
    let table = SortedListingTable::try_new(config).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
    ctx
}

#[tokio::test]
async fn a_declared_partitioning_is_kept() {
    let folder = Folder::new();
    for (name, first) in [("a", 10), ("b", 0), ("c", 60), ("d", 50)] {
        folder.write(&format!("{name}.parquet"), &event_batch(first..first + 10));
    }
    let sql = "SELECT * FROM t ORDER BY ts";
    let ctx = declared(&folder, "").await;
    assert_snapshot!("declared", sorted_plan(&ctx, &folder, sql).await);
    let ts = rows(&ctx, "SELECT ts FROM t ORDER BY ts").await;
    let expected = (0..20).chain(50..70).map(|ts| ts.to_string());
    assert_eq!(ts, expected.collect::<Vec<_>>());

    // Another order does not lose the partitioning, which a window may need.
    let window = "SELECT ts, sum(v) OVER (PARTITION BY ts ORDER BY v) FROM t";
    assert_eq!(rows(&ctx, window).await.len(), 40);

    // Where the files of a partition overlap, the partitioning is kept and the order is not.
    folder.write("b.parquet", &event_batch(5..15));
    let ctx = declared(&folder, "").await;
    assert_snapshot!("declared_overlap", unsorted_plan(&ctx, &folder, sql).await);
}

#[tokio::test]
async fn other_formats() {
    let ctx = Session::new(4).sorted().await;
    let folder = Folder::new();
    for file in 0..3 {
        let keys = (file * 2..file * 2 + 4)
            .map(|k| format!("{k}\n"))
            .collect::<String>();
        std::fs::write(
            folder.path().join(format!("{file}.csv")),
            format!("k\n{keys}"),
        )
        .unwrap();
    }
    let ddl = |file: &str| {
        let ddl = folder
            .ddl("k")
            .replace("STORED AS PARQUET", "STORED AS CSV");
        ddl.replace("/'", &format!("/{file}'")) + " OPTIONS ('format.has_header' 'true')"
    };
    run(&ctx, &ddl("")).await;
    let sql = "SELECT * FROM t ORDER BY k";
    assert_snapshot!("csv", sorted_plan(&ctx, &folder, sql).await);
    assert_eq!(rows(&ctx, sql).await.join(" "), "0 1 2 2 3 3 4 4 5 5 6 7");

    let ctx = Session::new(2).sorted().await;
    run(&ctx, &ddl("")).await;
    assert_snapshot!("csv_merged", sorted_plan(&ctx, &folder, sql).await);
    assert_eq!(rows(&ctx, sql).await.join(" "), "0 1 2 2 3 3 4 4 5 5 6 7");

    // One file in byte ranges is in order in each of them.
    let ctx = Session::new(4)
        .set("datafusion.optimizer.repartition_file_min_size", 1)
        .sorted()
        .await;
    run(&ctx, &ddl("0.csv")).await;
    let filter = "SELECT * FROM t WHERE k <> 1 ORDER BY k";
    assert_snapshot!("csv_ranges", sorted_plan(&ctx, &folder, filter).await);
    assert_eq!(rows(&ctx, filter).await.join(" "), "0 2 3");
}

/// DataFusion would share rows out among idle partitions, and sort them afterwards.
#[tokio::test]
async fn fewer_files_than_partitions() {
    let folder = Folder::new();
    for file in 0..2 {
        let ts = file * 500..file * 500 + 500;
        folder.write_with(
            &format!("{file}.parquet"),
            &event_batch(ts),
            row_groups_of(100),
        );
    }
    let ctx = session_over(&folder, "ts").await;
    let sql = "SELECT ts FROM t WHERE v > 40 ORDER BY ts";
    assert_snapshot!("few_files", sorted_plan(&ctx, &folder, sql).await);
    let expected = (0..1000)
        .filter(|ts| ts * 7 % 80 > 40)
        .map(|ts| ts.to_string());
    assert_eq!(rows(&ctx, sql).await, expected.collect::<Vec<_>>());
}

/// One file is as many pieces as it has row groups.
#[tokio::test]
async fn one_file() {
    let folder = Folder::new();
    folder.write_with("a.parquet", &event_batch(0..160), row_groups_of(10));
    for partitions in [1, 4] {
        let ctx = Session::new(partitions).sorted().await;
        run(&ctx, &folder.ddl("ts")).await;
        let plan = sorted_plan(&ctx, &folder, "SELECT ts FROM t ORDER BY ts").await;
        // One core has nobody to read ahead.
        assert_eq!(plan.contains("SequenceExec"), partitions > 1, "{plan}");
        assert!(partitions == 1 || plan.contains("inputs=16"), "{plan}");
        let ts = rows(&ctx, "SELECT ts FROM t ORDER BY ts").await;
        assert_eq!(ts, (0..160).map(|ts| ts.to_string()).collect::<Vec<_>>());
        let counted = rows(&ctx, "SELECT count(*), count(v) FROM t WHERE ts >= 25").await;
        assert_eq!(counted, ["135 135"]);
    }
}

#[tokio::test]
async fn display_formats() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    let plan = physical_plan(&ctx, "SELECT * FROM t ORDER BY ts").await;
    let show = datafusion::physical_plan::displayable(plan.as_ref());
    let location = folder.location();
    let folder = location.trim_start_matches('/');
    assert_snapshot!("tree", show.tree_render().to_string().replace(folder, ""));
    assert_snapshot!("verbose", show.indent(true).to_string().replace(folder, ""));
}

/// DataFusion deals the rows of a small table to all partitions for the filter. It must not come to a sort.
#[tokio::test]
async fn few_rows_below_a_filter() {
    let folder = Folder::new();
    folder.write("a.parquet", &event_batch(0..40));
    let ctx = session_over(&folder, "ts").await;
    for order in ["ts", "ts DESC"] {
        let sql = format!("SELECT ts FROM t WHERE v > 10 ORDER BY {order}");
        sorted_plan(&ctx, &folder, &sql).await;
    }
}

/// The plan of a query over slices that own ranges: nothing is sorted, and no row changes its partition.
async fn plan_in_ranges(ctx: &SessionContext, folder: &Folder, sql: &str) -> String {
    let plan = sorted_plan(ctx, folder, sql).await;
    assert!(!plan.contains("RepartitionExec"), "{sql}:\n{plan}");
    assert!(plan.contains("Range("), "{sql}:\n{plan}");
    plan
}

#[tokio::test]
async fn groups_and_windows_on_the_key_stay_in_their_slices() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    let streams = |plan: &str| assert!(plan.contains("ordering_mode=Sorted"), "{plan}");
    for (name, sql) in [
        ("range_group_by", "SELECT ts, sum(v) FROM t GROUP BY ts"),
        ("range_distinct", "SELECT DISTINCT ts FROM t"),
        (
            "range_count_distinct",
            "SELECT ts, count(DISTINCT v) FROM t GROUP BY ts",
        ),
    ] {
        let plan = plan_in_ranges(&ctx, &folder, sql).await;
        streams(&plan);
        assert_snapshot!(name, plan);
    }
    let sql = "SELECT ts, v, count(*) FROM t GROUP BY ts, v";
    let plan = plan_in_ranges(&ctx, &folder, sql).await;
    assert!(plan.contains("ordering_mode=PartiallySorted"), "{plan}");
    assert_snapshot!("range_group_by_more", plan);
    let sql = "SELECT ts, sum(v) OVER (PARTITION BY ts) FROM t";
    assert_snapshot!("range_window", plan_in_ranges(&ctx, &folder, sql).await);

    let ctx = session_over(&folder, "device, ts").await;
    let sql = "SELECT device, row_number() OVER (PARTITION BY device ORDER BY ts) FROM t";
    assert_snapshot!("range_row_number", plan_in_ranges(&ctx, &folder, sql).await);
    let sql = "SELECT device, count(*) FROM t GROUP BY device";
    let plan = plan_in_ranges(&ctx, &folder, sql).await;
    streams(&plan);
}

#[tokio::test]
async fn tables_cut_at_the_same_points_join_slice_by_slice() {
    let folder = events();
    let ctx = session_over(&folder, "ts").await;
    let small = "datafusion.optimizer.hash_join_single_partition_threshold";
    run(&ctx, &format!("SET {small} = 0")).await;
    run(&ctx, &format!("SET {small}_rows = 0")).await;
    let ddl = folder.ddl("ts").replace("TABLE t", "TABLE u");
    let options = "OPTIONS ('sorted_listing.split_points_from' 't')";
    run(&ctx, &format!("{ddl} {options}")).await;
    let sql = "SELECT t.ts, t.v, u.device FROM t JOIN u ON t.ts = u.ts";
    assert_snapshot!("range_join", plan_in_ranges(&ctx, &folder, sql).await);
}
