//! Tables whose files come and go: what is listed, what is read to plan, and what plans hold.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMillisecondArray};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_sorted_listing::SortedScan;
use futures::future::join_all;

use crate::support::*;
use crate::watched_store::{Fault, WatchedStore};

const BY_KEY: &str = "SELECT k FROM t ORDER BY k";

fn keys_of(file: usize) -> std::ops::Range<i64> {
    file as i64 * 10..file as i64 * 10 + 10
}

fn write(folder: &Folder, file: usize) {
    folder.write(&shuffled_name(file), &batch([("k", int64(keys_of(file)))]));
}

/// A folder of `files` files of 10 keys each.
fn folder_of(files: usize) -> Folder {
    let folder = Folder::new();
    (0..files).for_each(|file| write(&folder, file));
    folder
}

/// Makes the table `t` of one column of `folder`, in a store that is watched.
async fn watched_table(ctx: &SessionContext, folder: &Folder) -> Arc<WatchedStore> {
    let store = WatchedStore::of(ctx);
    let location = format!("watched://it{}", folder.location());
    let ddl = folder.ddl("k").replace(&folder.location(), &location);
    run(ctx, &ddl.replace("TABLE t", "TABLE t (k BIGINT)")).await;
    // DataFusion looks at the files to make the table.
    store.take_reads();
    store
}

/// How many files a plan is to read.
async fn files_of(ctx: &SessionContext, sql: &str) -> usize {
    files_in(&physical_plan(ctx, sql).await)
}

fn files_in(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let Some(source) = plan.downcast_ref::<DataSourceExec>() else {
        return plan.children().into_iter().map(files_in).sum();
    };
    let scan = source.data_source().downcast_ref::<SortedScan>().unwrap();
    let files: HashSet<_> = scan.slices().flatten().map(|file| file.path()).collect();
    files.len()
}

async fn keys(ctx: &SessionContext) -> Vec<i64> {
    let rows = rows(ctx, BY_KEY).await;
    rows.iter().map(|row| row.parse().unwrap()).collect()
}

fn keys_in(files: impl IntoIterator<Item = usize>) -> Vec<i64> {
    files.into_iter().flat_map(keys_of).collect()
}

#[tokio::test]
async fn footers_are_read_once() {
    let folder = folder_of(40);
    let ctx = Session::new(2).without_caches().sorted().await;
    let store = watched_table(&ctx, &folder).await;
    physical_plan(&ctx, BY_KEY).await;
    assert_eq!(store.take_names(), shuffled_names(0..40));
    for sql in [BY_KEY, "SELECT * FROM t WHERE k > 123", "SELECT 1 FROM t"] {
        physical_plan(&ctx, sql).await;
        assert!(store.take_names().is_empty(), "{sql}");
    }

    // Only those of files that are new or have changed.
    write(&folder, 40);
    folder.write(&shuffled_name(7), &batch([("k", int64(70..75))]));
    std::fs::remove_file(folder.path().join(shuffled_name(8))).unwrap();
    physical_plan(&ctx, BY_KEY).await;
    assert_eq!(store.take_names(), shuffled_names([7, 40]));
    let expected: Vec<_> = keys_in(0..7)
        .into_iter()
        .chain(70..75)
        .chain(keys_in(9..41))
        .collect();
    assert_eq!(keys(&ctx).await, expected);
}

#[tokio::test]
async fn queries_at_the_same_time_share_what_one_reads() {
    let folder = folder_of(20);
    let ctx = Session::new(2).without_caches().sorted().await;
    let store = watched_table(&ctx, &folder).await;
    join_all((0..8).map(|_| physical_plan(&ctx, BY_KEY))).await;
    assert_eq!(store.take_names(), shuffled_names(0..20));
}

#[tokio::test]
async fn a_query_that_fails_leaves_nothing_behind() {
    let folder = folder_of(6);
    let ctx = Session::new(2).without_caches().sorted().await;
    let store = watched_table(&ctx, &folder).await;
    store.fail(&shuffled_name(3), Fault::Error);
    let e = error(&ctx, BY_KEY).await;
    assert!(e.contains(&shuffled_name(3)), "{e}");
    // One that is given up while it reads.
    store.fail(&shuffled_name(3), Fault::Hang);
    let mut given_up = Box::pin(physical_plan(&ctx, BY_KEY));
    for _ in 0..100 {
        assert!(futures::poll!(&mut given_up).is_pending());
    }
    drop(given_up);
    store.heal();
    assert_eq!(keys(&ctx).await, keys_in(0..6));
}

#[tokio::test]
async fn listings_are_as_fresh_as_those_of_the_stock_table() {
    for cache in ["0K", "1M"] {
        let folder = folder_of(4);
        let session = Session::new(2).set("datafusion.runtime.list_files_cache_limit", cache);
        let (ours, stock) = (session.sorted().await, session.stock().await);
        let mut seen = vec![];
        for ctx in [&ours, &stock] {
            run(ctx, &folder.ddl("k")).await;
            seen.push(keys(ctx).await);
        }
        write(&folder, 4);
        std::fs::remove_file(folder.path().join(shuffled_name(0))).unwrap();
        if cache == "0K" {
            // With a cache of listings, the files that it lists have to be there.
            assert_eq!(keys(&ours).await, keys_in(1..5));
            assert_eq!(keys(&stock).await, keys_in(1..5));
        } else {
            assert_eq!(count(&ours).await, count(&stock).await);
            refresh(&ours).await;
            assert_eq!(keys(&ours).await, keys_in(1..5));
        }
        assert_eq!(seen[0], seen[1]);
    }
}

/// The number of rows, which statistics tell.
async fn count(ctx: &SessionContext) -> Vec<String> {
    rows(ctx, "SELECT count(*) FROM t").await
}

#[tokio::test]
async fn a_listing_is_believed_as_long_as_is_said() {
    let folder = folder_of(4);
    let ctx = Session::new(2).without_caches().sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    run(&ctx, "SET sorted_listing.snapshot_ttl = '1000h'").await;
    assert_eq!(keys(&ctx).await, keys_in(0..4));
    write(&folder, 4);
    assert_eq!(keys(&ctx).await, keys_in(0..4));
    refresh(&ctx).await;
    assert_eq!(keys(&ctx).await, keys_in(0..5));

    // What is inserted through the table is seen, although a query comes between the plan and the rows.
    let insert = physical_plan(&ctx, "INSERT INTO t VALUES (1000)").await;
    assert_eq!(keys(&ctx).await, keys_in(0..5));
    datafusion::physical_plan::collect(insert, ctx.task_ctx())
        .await
        .unwrap();
    let with_inserted: Vec<_> = keys_in(0..5).into_iter().chain([1000]).collect();
    assert_eq!(keys(&ctx).await, with_inserted);

    write(&folder, 5);
    assert_eq!(keys(&ctx).await, with_inserted);
    for ttl in ["0s", "none"] {
        run(&ctx, &format!("SET sorted_listing.snapshot_ttl = '{ttl}'")).await;
        assert_eq!(keys(&ctx).await.len(), 61, "{ttl}");
    }
}

#[tokio::test]
async fn plans_hold_what_filters_leave() {
    let folder = folder_of(40);
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    for (filter, files) in [
        ("k >= 100 AND k < 120", 2),
        ("k BETWEEN 95 AND 100", 2),
        ("k = 57", 1),
        ("k IN (5, 6, 250)", 2),
        ("k < 10 OR k > 389", 2),
        ("k <> 5", 40),
        ("k IS NULL", 0),
        ("k IS NOT NULL", 40),
        ("k > 1000", 0),
        ("k > 300 AND k % 2 = 0", 10),
        ("k % 2 = 0", 40),
        ("k > 300 OR k % 2 = 0", 40),
        // Casts that do not keep the order of values rule nothing out, whatever the values are.
        ("CAST(k AS VARCHAR) > '5'", 40),
        ("CAST(k AS BOOLEAN)", 40),
        ("k > 390 + random()", 40),
        ("k IS DISTINCT FROM 5", 40),
    ] {
        let sql = format!("SELECT * FROM t WHERE {filter} ORDER BY k");
        assert_eq!(files_of(&ctx, &sql).await, files, "{filter}");
    }
}

/// NULL, NaN, negative zero, a column that a file lacks, and one of another type.
fn awkward() -> Folder {
    let folder = Folder::new();
    let nullable = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let float = |values: Vec<Option<f64>>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    let long = "x".repeat(200);
    for (name, k, x, s) in [
        (
            "a",
            vec![Some(1), Some(2), None],
            vec![Some(1.0), Some(f64::NAN), None],
            vec!["a", "b", &long],
        ),
        (
            "b",
            vec![None, None],
            vec![None, Some(-f64::NAN)],
            vec!["", "zz"],
        ),
        (
            "c",
            vec![Some(-5), Some(0)],
            vec![Some(-0.0), Some(0.0)],
            vec!["m", "n"],
        ),
    ] {
        let columns = [("k", nullable(k)), ("x", float(x)), ("s", text(s))];
        folder.write(&format!("{name}.parquet"), &batch(columns));
    }
    let without_k = [("x", float(vec![Some(7.0)])), ("s", text(vec!["q"]))];
    folder.write("d.parquet", &batch(without_k));
    let narrow: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![40, 41]));
    folder.write("e.parquet", &batch([("k", narrow)]));
    folder
}

#[tokio::test]
async fn filters_see_null_and_nan() {
    let folder = awkward();
    for order in ["k", "x", "s", "k DESC NULLS FIRST, x, s"] {
        let ddl = folder
            .ddl(order)
            .replace("TABLE t", "TABLE t (k BIGINT, x DOUBLE, s VARCHAR)");
        // What DataFusion prunes as it reads, it prunes without regard to NaN.
        let session = Session::new(2)
            .set("datafusion.execution.parquet.pruning", false)
            .set("datafusion.execution.parquet.enable_page_index", false)
            // Not all files are in all of these orders.
            .set("sorted_listing.verify", "off");
        let ctx = session.sorted().await;
        run(&ctx, &ddl).await;
        // The truth: the rows themselves, without files. A table in memory has no statistics to be wrong.
        run(&ctx, "CREATE TABLE truth AS SELECT * FROM t").await;
        for filter in [
            "k > 1",
            "k < 0",
            "k IS NULL",
            "k IS NOT NULL",
            "NOT (k > 1)",
            "k IN (2, 41)",
            "k NOT IN (1, 2)",
            "k IS DISTINCT FROM 2",
            "k IS NOT DISTINCT FROM NULL",
            "k = 40.0",
            "x > 1000",
            "x < -1000",
            "x = 0",
            "x IS NULL",
            "x <> x",
            "s > 'x'",
            "s LIKE 'x%'",
            "s NOT LIKE 'x%'",
            "s = ''",
            "s IS NULL AND k > 3",
            "k > 1 OR x > 5",
            "coalesce(k, 100) > 50",
        ] {
            let of = async |table: &str| {
                let sql = format!("SELECT * FROM {table} WHERE {filter}");
                let mut rows = rows(&ctx, &sql).await;
                rows.sort_unstable();
                rows
            };
            assert_eq!(of("t").await, of("truth").await, "{order}: {filter}");
        }
    }
}

/// A folder of another partition is no matter of the query, as in DataFusion's own table.
#[tokio::test]
async fn folders_that_filters_leave_out_may_be_unreadable() {
    let folder = Folder::new();
    for part in 0..3usize {
        let name = format!("part={part}/{}", shuffled_name(part));
        folder.write(&name, &batch([("k", int64(keys_of(part)))]));
    }
    let columns = "TABLE t (k BIGINT, part INT)";
    let ddl = folder.ddl("k").replace("TABLE t", columns);
    let ddl = ddl.replace("PARQUET", "PARQUET PARTITIONED BY (part)");
    let kept = Folder::new();
    let manifest = kept.path().join("t.manifest");
    let manifest = format!(
        "OPTIONS ('sorted_listing.manifest' '{}')",
        manifest.display()
    );
    let default = "part=__HIVE_DEFAULT_PARTITION__/0.parquet";
    folder.write(default, &batch([("k", int64(keys_of(3)))]));
    folder.write("part=4/broken.parquet", &batch([("k", int64(keys_of(4)))]));
    std::fs::write(
        folder.path().join("part=4/broken.parquet"),
        b"PAR1 and so on",
    )
    .unwrap();
    for verify in ["boundaries", "rows"] {
        for options in ["", &manifest] {
            let session = Session::new(3).set("sorted_listing.verify", verify);
            let ctx = session.sorted().await;
            run(&ctx, &format!("{ddl} {options}")).await;
            for part in 0..3 {
                for by in ["k", "k DESC"] {
                    let sql = format!("SELECT k FROM t WHERE part = '{part}' ORDER BY {by}");
                    let mut keys: Vec<_> = keys_of(part).map(|key| key.to_string()).collect();
                    if by == "k DESC" {
                        keys.reverse();
                    }
                    assert_eq!(rows(&ctx, &sql).await, keys);
                    let plan = plan(&ctx, &folder, &sql).await;
                    assert!(!plan.contains("SortExec"), "{plan}");
                }
            }
            let error = error(&ctx, "SELECT k FROM t ORDER BY k").await;
            for part in ["__HIVE_DEFAULT_PARTITION__", "'part'", "Int32", default] {
                assert!(error.contains(part), "{error}");
            }
            let error = crate::support::error(&ctx, "SELECT k FROM t WHERE part = 4").await;
            assert!(error.contains("broken.parquet"), "{error}");
        }
    }
}

/// A limit may end a query before it comes to a file that is broken, as in DataFusion's own table.
#[tokio::test]
async fn files_that_a_limit_leaves_out_may_be_unreadable() {
    let folder = folder_of(3);
    std::fs::write(folder.path().join("99-broken.parquet"), b"PAR1 and so on").unwrap();
    let session = Session::new(1).set("datafusion.execution.collect_statistics", false);
    let ddl = folder.ddl("k").replace("TABLE t", "TABLE t (k BIGINT)");
    for order in ["", " WITH ORDER (k)"] {
        let ddl = ddl.replace(" WITH ORDER (k)", order);
        let ctx = session.sorted().await;
        run(&ctx, &ddl).await;
        let sql = "SELECT k FROM t LIMIT 4";
        assert_eq!(rows(&ctx, sql).await.len(), 4);
        let error = error(&ctx, "SELECT k FROM t ORDER BY k").await;
        assert!(error.contains("99-broken.parquet"), "{error}");
    }
}

#[tokio::test]
async fn filters_on_folders_and_columns() {
    let folder = Folder::new();
    for day in 0..5usize {
        for part in 0..4 {
            let file = day * 4 + part;
            let name = format!("day={day}/hour={}/{}", part * 6, shuffled_name(file));
            folder.write(&name, &batch([("k", int64(keys_of(file)))]));
        }
    }
    let partitioned = "PARQUET PARTITIONED BY (day, hour)";
    for types in ["VARCHAR", "BIGINT"] {
        let columns = format!("TABLE t (k BIGINT, day {types}, hour {types})");
        let ddl = folder.ddl("k").replace("PARQUET", partitioned);
        let ctx = Session::new(3).sorted().await;
        run(&ctx, &ddl.replace("TABLE t", &columns)).await;
        run(&ctx, "CREATE TABLE truth AS SELECT * FROM t").await;
        for (filter, files) in [
            ("day = '3'", 4),
            ("day = '3' AND hour = '6'", 1),
            ("day = '7'", 0),
            ("day IN ('1', '2') AND k < 60", 2),
            ("day = '1' OR k = 155", 5),
            ("day IS NULL", 0),
            ("hour <> '6'", 15),
            ("length(CAST(day AS VARCHAR)) = 1", 20),
        ] {
            let of =
                |table: &str| format!("SELECT k, day, hour FROM {table} WHERE {filter} ORDER BY k");
            let ours = rows(&ctx, &of("t")).await;
            assert_eq!(ours, rows(&ctx, &of("truth")).await, "{filter}");
            assert_eq!(files_of(&ctx, &of("t")).await, files, "{filter}");
        }
    }
}

#[tokio::test]
async fn aggregates_that_statistics_answer() {
    let folder = folder_of(8);
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let aggregate = "SELECT count(*), min(k), max(k) FROM t";
    let plan = physical_plan(&ctx, aggregate).await;
    assert!(reads_nothing(&plan), "{plan:?}");
    assert_eq!(rows(&ctx, aggregate).await, ["80 0 79"]);
    for (filter, answer) in [
        ("k > 25 AND k < 42", "16 26 41"),
        ("k > 1000", "0 NULL NULL"),
        ("k >= 20 AND k < 30", "10 20 29"),
    ] {
        for push_down in [false, true] {
            let option = "datafusion.execution.parquet.pushdown_filters";
            run(&ctx, &format!("SET {option} = {push_down}")).await;
            let filtered = format!("{aggregate} WHERE {filter}");
            assert_eq!(rows(&ctx, &filtered).await, [answer], "{filter}");
        }
    }
    for limit in [0, 5, 10, 11, 80, 100] {
        let limited = format!("SELECT count(*) FROM (SELECT k FROM t LIMIT {limit})");
        let answer = limit.min(80).to_string();
        assert_eq!(rows(&ctx, &limited).await, [answer], "{limit}");
    }
}

/// A file without rows is in a folder, but has nothing to say.
#[tokio::test]
async fn folders_of_files_without_rows() {
    let folder = Folder::new();
    folder.write("day=5/a.parquet", &batch([("k", int64(0..10))]));
    folder.write("day=9/b.parquet", &batch([("k", int64([]))]));
    let ctx = Session::new(2).sorted().await;
    let ddl = folder
        .ddl("k")
        .replace("PARQUET", "PARQUET PARTITIONED BY (day)");
    let columns = "TABLE t (k BIGINT, day BIGINT)";
    run(&ctx, &ddl.replace("TABLE t", columns)).await;
    let all = "SELECT count(*), min(day), max(day), max(k) FROM t";
    for (filter, answer) in [
        ("", "10 5 5 9"),
        (" WHERE day > 5", "0 NULL NULL NULL"),
        (" WHERE day <= 9", "10 5 5 9"),
    ] {
        assert_eq!(rows(&ctx, &format!("{all}{filter}")).await, [answer]);
    }
}

fn reads_nothing(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.name() != "DataSourceExec" && plan.children().into_iter().all(reads_nothing)
}

#[tokio::test]
async fn moments_are_compared_as_days() {
    let folder = Folder::new();
    let hours = |hours: std::ops::Range<i64>| {
        let moments = hours.map(|hour| hour * 3_600_000);
        Arc::new(TimestampMillisecondArray::from_iter_values(moments)) as ArrayRef
    };
    for day in -3..3 {
        let name = format!("{}.parquet", day + 3);
        folder.write(&name, &batch([("k", hours(day * 24..day * 24 + 24))]));
    }
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let day = "SELECT * FROM t WHERE CAST(k AS DATE) = '1969-12-31' ORDER BY k";
    assert_eq!(files_of(&ctx, day).await, 1);
    assert_eq!(rows(&ctx, day).await.len(), 24);
    // The hour of the day is in no order.
    let hour = "SELECT * FROM t WHERE CAST(k AS TIME) > '12:00:00' ORDER BY k";
    assert_eq!(files_of(&ctx, hour).await, 6);
}

/// Layouts of whole tables are kept, and must not be taken for those of other queries.
#[tokio::test]
async fn queries_get_the_plan_they_would_get_alone() {
    let apart = folder_of(12);
    let overlapping = Folder::of_keys((0..6).map(|file| int64(file * 5..file * 5 + 30)));
    for folder in [apart, overlapping] {
        let session = || async {
            let ctx = Session::new(3).sorted().await;
            run(&ctx, &folder.ddl("k")).await;
            ctx
        };
        let shared = session().await;
        let strategy = "SET sorted_listing.strategy = 'best_fit'";
        for sql in [
            "SELECT * FROM t",
            "SELECT * FROM t ORDER BY k",
            "SELECT count(*) FROM (SELECT 1 FROM t LIMIT 1000)",
            "SELECT k + 1 FROM t ORDER BY k LIMIT 7",
            "SELECT * FROM t ORDER BY k DESC",
            "SELECT k, count(*) FROM t GROUP BY k",
            "SELECT k FROM t WHERE k % 3 = 0 ORDER BY k",
            "SELECT k FROM t WHERE k > 20 ORDER BY k",
            "SELECT * FROM t LIMIT 5",
        ] {
            for options in [
                None,
                Some(strategy),
                Some("SET sorted_listing.strategy = 'contiguous'"),
            ] {
                let alone = session().await;
                for ctx in [&shared, &alone] {
                    if let Some(options) = options {
                        run(ctx, options).await;
                    }
                }
                let expected = plan(&alone, &folder, sql).await;
                assert_eq!(plan(&shared, &folder, sql).await, expected, "{sql}");
            }
        }
    }
}
