//! The layout report, from Rust and as SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMillisecondArray};
use datafusion::common::{ScalarValue, SplitPoint};
use datafusion::prelude::{SessionContext, col, lit};
use datafusion_sorted_listing::{LayoutReport, OrderingState, SortedListingTable, WhyNot};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;

/// The layout of the table `t`.
async fn layout(ctx: &SessionContext) -> LayoutReport {
    let table = ctx.table_provider("t").await.unwrap();
    let sorted = table.downcast_ref::<SortedListingTable>().unwrap();
    sorted.layout(&ctx.state(), &[]).await.unwrap()
}

async fn session_over(folder: &Folder, partitions: usize, order: &str) -> SessionContext {
    let ctx = Session::new(partitions).sorted().await;
    run(&ctx, &folder.ddl(order)).await;
    ctx
}

/// `lower` and `upper` of each unit.
fn bounds(report: &LayoutReport) -> Vec<String> {
    let text = |bounds: &_| format!("{bounds}");
    let units = report.units.iter();
    units
        .map(|unit| unit.bounds.as_ref().map_or_else(|| "?".into(), text))
        .collect()
}

#[tokio::test]
async fn disjoint_files() {
    // 8 files of 10 keys, each from 10 times its number on, and 1 NULL in the column of the last.
    let folder = Folder::new();
    for file in 0..8 {
        let keys = (file * 10..file * 10 + 10).map(|k| (k != 79).then_some(k));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter(keys));
        folder.write(&shuffled_name(file as usize), &batch([("k", keys)]));
    }
    let ctx = session_over(&folder, 4, "k").await;
    let report = layout(&ctx).await;

    assert_eq!(report.ordering, OrderingState::Declared);
    assert_eq!(report.strategy, "contiguous");
    assert_eq!(report.order().unwrap(), "k ASC NULLS LAST");
    assert_eq!((report.slices, report.clusters, report.depth), (4, 8, 1));
    assert_eq!((report.rows(), report.why_not.as_ref()), (Some(80), None));
    assert!(report.strict_cuts);
    let sizes: Vec<_> = (0..8)
        .map(|file| {
            folder
                .path()
                .join(shuffled_name(file))
                .metadata()
                .unwrap()
                .len()
        })
        .collect();
    assert_eq!(report.bytes(), sizes.iter().sum::<u64>());
    let largest = sizes.chunks(2).map(|pair| pair[0] + pair[1]).max().unwrap();
    let skew = largest as f64 * 4.0 / report.bytes() as f64;
    assert!((report.skew().unwrap() - skew).abs() < 1e-9);

    let expected: Vec<_> = (0..8)
        .map(|file| {
            let (lower, nulls) = (file * 10, i64::from(file == 7));
            let upper = if file == 7 {
                "NULL".into()
            } else {
                (lower + 9).to_string()
            };
            let name = shuffled_name(file as usize);
            let bytes = sizes[file as usize];
            format!(
                "{} {file} 0 {name} 0 1 10 {bytes} {lower} {upper} {nulls} true",
                file / 2
            )
        })
        .collect();
    let prefix = folder.location();
    let found: Vec<_> = rows(&ctx, "SELECT * FROM sorted_layout('t')")
        .await
        .iter()
        .map(|row| row.replace(prefix.trim_start_matches('/'), ""))
        .collect();
    assert_eq!(found, expected);

    let summary = rows(
        &ctx,
        "SELECT sort_key, ordering, strategy, slices, units, clusters, depth, strict_cuts, rows, why_not \
         FROM sorted_layout_summary('t')",
    )
    .await;
    assert_eq!(
        summary,
        ["k ASC NULLS LAST declared contiguous 4 8 8 1 true 80 NULL"]
    );
}

#[tokio::test]
async fn it_says_what_more_there_is_and_what_is_not() {
    let sql =
        "SELECT ordering, range_declared, on_demand, why_no_ranges FROM sorted_layout_summary('t')";
    // Files end within a value of the first column.
    let folder = Folder::new();
    for file in 0..8_i64 {
        let rows = (file * 60..file * 60 + 60).map(|row| (row / 100, row % 100 * 7 % 100));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable();
        let (k, v): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let rows = batch([("k", int64(k)), ("v", int64(v))]);
        folder.write(&shuffled_name(file as usize), &rows);
    }
    let ctx = session_over(&folder, 2, "k, v").await;
    let found = rows(&ctx, sql).await;
    assert_eq!(
        found,
        ["declared true k ASC NULLS LAST, v ASC NULLS LAST NULL"]
    );

    let disjoint = Folder::of_keys((0..4).map(|file| int64(file * 10..file * 10 + 10)));
    let ctx = session_over(&disjoint, 1, "k").await;
    let found = rows(&ctx, sql).await;
    assert!(
        found[0].starts_with("declared false NULL ") && !found[0].ends_with("NULL"),
        "{found:?}"
    );
    let ctx = session_over(&disjoint, 2, "k").await;
    assert_eq!(rows(&ctx, sql).await, ["declared true NULL NULL"]);
    run(&ctx, "SET sorted_listing.range_partitioning = 'off'").await;
    let found = rows(&ctx, sql).await;
    assert!(found[0].contains("range_partitioning"), "{found:?}");
}

#[tokio::test]
async fn it_is_a_table_like_others() {
    let folder = Folder::of_keys((0..6).map(|file| int64(file * 10..file * 10 + 10 + file % 2)));
    let ctx = session_over(&folder, 2, "k").await;
    let sql = "SELECT slice, sum(rows) FROM sorted_layout('datafusion.public.t') WHERE NOT strict_gap \
               GROUP BY slice ORDER BY slice";
    // Those of 11 keys end with the key that the next begins with, and are no overlap.
    assert_eq!(rows(&ctx, sql).await, ["0 10", "1 10"]);
    assert_eq!(
        rows(
            &ctx,
            "SELECT depth, strict_cuts FROM sorted_layout_summary('t')"
        )
        .await,
        ["1 true"]
    );
    // It is looked at anew each time.
    run(&ctx, "SET sorted_listing.strategy = 'best_fit'").await;
    let strategy = "SELECT strategy FROM sorted_layout_summary('t')";
    assert_eq!(rows(&ctx, strategy).await, ["best_fit"]);
}

#[tokio::test]
async fn mistakes_are_named() {
    let folder = Folder::of_keys([int64(0..3)]);
    let ctx = session_over(&folder, 2, "k").await;
    run(&ctx, "CREATE TABLE other AS VALUES (1)").await;
    for (call, message) in [
        (
            "sorted_layout('x')",
            "table 'datafusion.public.x' not found",
        ),
        ("sorted_layout('a.b.c')", "table 'a.b.c' not found"),
        (
            "sorted_layout('other')",
            "sorted_layout: the table 'other' is no sorted listing table",
        ),
        ("sorted_layout()", "sorted_layout('events')"),
        (
            "sorted_layout_summary(7)",
            "sorted_layout_summary('events')",
        ),
        ("sorted_layout('t', 't')", "sorted_layout('events')"),
    ] {
        let e = error(&ctx, &format!("SELECT * FROM {call}")).await;
        assert!(e.contains(message), "{call}: {e}");
    }
    std::fs::write(folder.path().join("broken.parquet"), "no Parquet at all").unwrap();
    let ctx = Session::new(2).sorted().await;
    let ddl = folder.ddl("k").replace("TABLE t", "TABLE t (k BIGINT)");
    run(&ctx, &ddl).await;
    let e = error(&ctx, "SELECT * FROM sorted_layout('t')").await;
    assert!(e.contains("broken.parquet"), "{e}");
}

#[tokio::test]
async fn keys_are_shown_in_their_own_types() {
    let folder = Folder::new();
    let day = 86_400_000;
    for (name, city, first) in [("b", Some("Rome"), 0), ("a", None, 3 * day)] {
        let city: ArrayRef = Arc::new(StringArray::from(vec![city; 2]));
        let ts: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![first + day, first]));
        folder.write(
            &format!("{name}.parquet"),
            &batch([("city", city), ("ts", ts)]),
        );
    }
    let ctx = session_over(&folder, 2, "city DESC, ts DESC").await;
    let report = layout(&ctx).await;
    assert_eq!(
        bounds(&report),
        [
            "[(NULL, 1970-01-05T00:00:00), (NULL, 1970-01-04T00:00:00)]",
            "[(Rome, 1970-01-02T00:00:00), (Rome, 1970-01-01T00:00:00)]",
        ]
    );
    assert_eq!(report.order().unwrap(), "city DESC, ts DESC");
    let nulls: Vec<_> = report.units.iter().map(|unit| unit.null_count).collect();
    assert_eq!(nulls, [Some(2), Some(0)]);
    assert!(report.units[0].bounds.as_ref().unwrap().lower.columns()[0].is_null());

    // Of floats, it is not known whether there is NaN.
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5]));
    let folder = Folder::of_keys([floats]);
    let ctx = session_over(&folder, 1, "k").await;
    assert_eq!(bounds(&layout(&ctx).await), ["[NaN, NaN]"]);
}

#[tokio::test]
async fn row_groups_around_another_file() {
    let folder = Folder::new();
    let outer = batch([("k", int64((0..10).chain(50..60)))]);
    folder.write_with("outer.parquet", &outer, row_groups_of(5));
    folder.write("inner.parquet", &batch([("k", int64(20..30))]));
    let ctx = session_over(&folder, 1, "k").await;
    let sql = "SELECT split_part(file, '/', -1), first_row_group, row_groups, rows, lower, upper \
               FROM sorted_layout('t')";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "outer.parquet 0 2 10 0 9",
            "inner.parquet 0 1 10 20 29",
            "outer.parquet 2 2 10 50 59",
        ]
    );
    let report = layout(&ctx).await;
    let whole = folder
        .path()
        .join("outer.parquet")
        .metadata()
        .unwrap()
        .len();
    let halves = report.units[0].bytes + report.units[2].bytes;
    assert!(halves > 0 && halves < whole, "{halves} of {whole}");
}

/// 4 files of 20 keys, each of which begins 10 keys after the one before.
fn staggered() -> Folder {
    Folder::of_keys((0..4).map(|file| int64(file * 10..file * 10 + 20)))
}

#[tokio::test]
async fn an_overlap_is_named_with_its_bounds() {
    let folder = staggered();
    for (partitions, ordering, strategy, slices, needed) in [
        (2, OrderingState::Declared, "best_fit", 2, None),
        (1, OrderingState::OnDemand, "clusters", 1, Some(2)),
    ] {
        let ctx = session_over(&folder, partitions, "k").await;
        let report = layout(&ctx).await;
        assert_eq!((report.ordering, report.strategy), (ordering, strategy));
        assert_eq!(
            (report.slices, report.clusters, report.depth),
            (slices, 1, 2)
        );
        assert_eq!(
            bounds(&report),
            ["[0, 19]", "[10, 29]", "[20, 39]", "[30, 49]"]
        );
        assert!(!report.strict_cuts || slices == 1);
        let why = report.why_not.unwrap();
        let found = match &why {
            WhyNot::TooManySlices { needed, .. } => Some(*needed),
            _ => None,
        };
        assert_eq!(found, needed);
        let WhyNot::Overlap { earlier, later } = why.cause() else {
            panic!("{why}");
        };
        assert!(earlier.file.ends_with(&shuffled_name(0)), "{why}");
        assert!(later.file.ends_with(&shuffled_name(1)), "{why}");
        let part_bounds = |part: &datafusion_sorted_listing::FilePart| {
            part.bounds.as_ref().map(ToString::to_string).unwrap()
        };
        assert_eq!(part_bounds(earlier), "[0, 19]");
        assert_eq!(part_bounds(later), "[10, 29]");
        // EXPLAIN has the short form.
        let plan = plan(&ctx, &folder, "SELECT * FROM t").await;
        let short = why
            .to_string()
            .replace(folder.location().trim_start_matches('/'), "");
        assert!(plan.contains(&short), "{plan}\n{short}");
    }
}

#[tokio::test]
async fn what_cannot_be_merged_is_shown_all_the_same() {
    let folder = staggered();
    let ctx = Session::new(1)
        .set("sorted_listing.max_merge_fan_in", 1)
        .sorted()
        .await;
    run(&ctx, &folder.ddl("k")).await;
    let report = layout(&ctx).await;
    assert_eq!(report.ordering, OrderingState::None);
    assert_eq!(
        (report.strategy, report.slices, report.depth),
        ("unordered", 0, 2)
    );
    assert_eq!(
        bounds(&report),
        ["[0, 19]", "[10, 29]", "[20, 39]", "[30, 49]"]
    );
    let runs: Vec<_> = report
        .units
        .iter()
        .map(|unit| (unit.slice, unit.run))
        .collect();
    assert_eq!(runs, [(None, 0), (None, 1), (None, 0), (None, 1)]);
    let why = report.why_not.unwrap();
    assert!(
        matches!(
            why,
            WhyNot::TooManyRuns {
                needed: 2,
                limit: 1,
                ..
            }
        ),
        "{why}"
    );
    assert_eq!(why.kind(), "overlap");
}

/// The kind of reason that each table has, and nothing for a table that lacks nothing.
#[tokio::test]
async fn each_reason_has_its_kind() {
    let kind = async |folder: &Folder, ddl: &str| {
        let ctx = Session::new(1).sorted().await;
        run(&ctx, ddl).await;
        let found = rows(
            &ctx,
            "SELECT ordering, coalesce(why_not_kind, '-') FROM sorted_layout_summary('t')",
        )
        .await
        .join("");
        let plan = plan(&ctx, folder, "SELECT * FROM t").await;
        let report = layout(&ctx).await;
        if let Some(why) = report.why_not.filter(|_| plan.contains("why=")) {
            let why = why.to_string();
            let why = why.replace(folder.location().trim_start_matches('/'), "");
            assert!(plan.contains(&format!("why=[{why}]")), "{why}\n{plan}");
        }
        found
    };
    let folder = staggered();
    assert_eq!(kind(&folder, &folder.ddl("k")).await, "on demand overlap");
    assert_eq!(
        kind(&folder, &folder.ddl("k + 1")).await,
        "none unknown_bounds"
    );
    let unordered = folder.ddl("k").replace("WITH ORDER (k)", "");
    assert_eq!(kind(&folder, &unordered).await, "none no_order");
    let disabled = folder.ddl("k") + " OPTIONS ('sorted_listing.enabled' 'false')";
    assert_eq!(kind(&folder, &disabled).await, "none disabled");

    let folder = Folder::new();
    let empty = folder.ddl("k").replace("TABLE t", "TABLE t (k BIGINT)");
    assert_eq!(kind(&folder, &empty).await, "none no_rows");
    folder.write("a.parquet", &batch([("k", int64([]))]));
    assert_eq!(kind(&folder, &empty).await, "none no_rows");
    folder.write("b.parquet", &batch([("k", int64(0..4))]));
    assert_eq!(kind(&folder, &empty).await, "declared -");
    folder.write_with(
        "c.parquet",
        &batch([("k", int64([8, 9, 6, 7]))]),
        row_groups_of(2),
    );
    assert_eq!(kind(&folder, &empty).await, "none false_order");

    let folder = Folder::of_keys([int64(0..4), int64(4..8)]);
    let without = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    folder.write_with("z.parquet", &batch([("k", int64(0..4))]), without);
    assert_eq!(
        kind(&folder, &folder.ddl("k")).await,
        "on demand unknown_bounds"
    );
}

#[tokio::test]
async fn files_without_footers() {
    let folder = Folder::new();
    for file in 0..3 {
        let path = folder.path().join(format!("{file}.csv"));
        std::fs::write(path, format!("k\n{file}\n")).unwrap();
    }
    let ctx = Session::new(3).sorted().await;
    let ddl = folder.ddl("k").replace("AS PARQUET", "AS CSV");
    run(&ctx, &(ddl + " OPTIONS ('format.has_header' 'true')")).await;
    let found = rows(
        &ctx,
        "SELECT slice, cluster_id, run, first_row_group, rows, bytes, lower, null_count, strict_gap \
         FROM sorted_layout('t') ORDER BY slice",
    )
    .await;
    let expected = |slice| format!("{slice} 0 0 NULL NULL 4 NULL NULL false");
    assert_eq!(found, [expected(0), expected(1), expected(2)]);
    let sql = "SELECT strategy, depth, rows, why_not_kind FROM sorted_layout_summary('t')";
    assert_eq!(rows(&ctx, sql).await, ["file_per_slice 3 NULL no_bounds"]);
}

#[tokio::test]
async fn of_what_filters_leave() {
    let folder = Folder::new();
    for day in 1..4i64 {
        let name = format!("day={day}/a.parquet");
        folder.write(&name, &batch([("k", int64(day * 10..day * 10 + 5))]));
    }
    let ctx = Session::new(2).sorted().await;
    let ddl = folder
        .ddl("day, k")
        .replace("PARQUET", "PARQUET PARTITIONED BY (day)")
        .replace("TABLE t", "TABLE t (k BIGINT, day BIGINT)");
    run(&ctx, &ddl).await;
    let table = ctx.table_provider("t").await.unwrap();
    let sorted = table.downcast_ref::<SortedListingTable>().unwrap();
    let filter = col("day").gt(lit(1i64));
    let report = sorted.layout(&ctx.state(), &[filter]).await.unwrap();
    assert_eq!(
        bounds(&report),
        ["[(2, 20), (2, 24)]", "[(3, 30), (3, 34)]"]
    );
    assert_eq!(report.units[0].null_count, Some(0));
}

#[tokio::test]
async fn slices_that_own_ranges() {
    let folder = Folder::of_keys((0..3).map(|file| int64(file * 100..file * 100 + 100)));
    let ctx = session_over(&folder, 2, "k").await;
    let table = ctx.table_provider("t").await.unwrap();
    let sorted = table.downcast_ref::<SortedListingTable>().unwrap();
    let point = SplitPoint::new(vec![ScalarValue::Int64(Some(150))]);
    let split = SortedListingTable::from(sorted.listing_table().clone());
    let split = split.with_split_points(vec![point]);
    let report = split.layout(&ctx.state(), &[]).await.unwrap();

    assert!(report.range_declared && report.strict_cuts, "{report:?}");
    assert_eq!((report.slices, report.depth), (2, 1));
    // The file in the middle is read by both slices: that is not known to be how many rows of each.
    assert_eq!(
        bounds(&report),
        ["[0, 99]", "[100, 150]", "[150, 199]", "[200, 299]"]
    );
    let units: Vec<_> = report
        .units
        .iter()
        .map(|unit| (unit.slice, unit.rows))
        .collect();
    let (first, second) = (Some(0), Some(1));
    assert_eq!(
        units,
        [
            (first, Some(100)),
            (first, None),
            (second, None),
            (second, Some(100))
        ]
    );
    assert_eq!(report.rows(), None);
}
