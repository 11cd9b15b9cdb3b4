//! What a user does by SQL: tables, options, inserts, folders, drifting files and mistakes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;

use crate::support::*;

const BY_KEY: &str = "SELECT k FROM t ORDER BY k";

/// 6 files of 10 keys each, in order of the key across them.
fn sixty_keys() -> Folder {
    Folder::of_keys((0..6).map(|file| int64(file * 10..file * 10 + 10)))
}

fn numbers(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|k| k.to_string()).collect()
}

/// Runs a query that must need no sort.
async fn sorted_rows(
    ctx: &datafusion::prelude::SessionContext,
    folder: &Folder,
    sql: &str,
) -> Vec<String> {
    let plan = plan(ctx, folder, sql).await;
    assert!(plan.contains("SortedScan: "), "{plan}");
    assert!(!plan.contains("SortExec"), "{plan}");
    rows(ctx, sql).await
}

#[tokio::test]
async fn options_of_sessions_and_tables() {
    let folder = sixty_keys();
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let own =
        folder.ddl("k").replace(" t ", " own ") + " OPTIONS ('sorted_listing.strategy' 'best_fit')";
    run(&ctx, &own).await;
    let strategy = async |table: &str| {
        let plan = plan(&ctx, &folder, &format!("SELECT * FROM {table}")).await;
        let start = plan.find("strategy=").map(|at| at + "strategy=".len());
        start.map(|at| plan[at..].split(',').next().unwrap().to_string())
    };
    assert_eq!(strategy("t").await.unwrap(), "contiguous");
    assert_eq!(strategy("own").await.unwrap(), "best_fit");

    run(&ctx, "SET sorted_listing.strategy = 'best_fit'").await;
    assert_eq!(strategy("t").await.unwrap(), "best_fit");
    run(&ctx, "SET sorted_listing.enabled = false").await;
    assert_eq!(strategy("t").await, None);
    assert_eq!(
        strategy("own").await,
        None,
        "what a table does not set is the session's"
    );
    assert_eq!(rows(&ctx, BY_KEY).await, numbers(0..60));
}

#[tokio::test]
async fn wrong_options() {
    let folder = sixty_keys();
    let ctx = Session::new(4).sorted().await;
    let with = |options: &str| format!("{} OPTIONS ({options})", folder.ddl("k"));
    let e = error(&ctx, &with("'sorted_listing.strategi' 'x'")).await;
    assert!(
        e.contains("Unknown option 'sorted_listing.strategi'; valid ones are"),
        "{e}"
    );
    let e = error(&ctx, &with("'sorted_listing.strategy' 'x'")).await;
    assert!(e.contains("valid ones are 'contiguous', 'best_fit'"), "{e}");
    let e = error(&ctx, "SET sorted_listing.strategi = 'x'").await;
    assert!(
        e.contains("valid ones are 'sorted_listing.enabled', 'sorted_listing.strategy'"),
        "{e}"
    );
    // Options of the format are still its own.
    run(&ctx, &with("'format.pushdown_filters' 'true'")).await;
}

#[tokio::test]
async fn asking_twice_for_sorted_tables_does_no_harm() {
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::prelude::SessionContext;
    use datafusion_sorted_listing::SessionStateBuilderExt;

    let folder = sixty_keys();
    let builder = SessionStateBuilder::new().with_default_features();
    let state = builder.with_sorted_listing().with_sorted_listing().build();
    let ctx = SessionContext::new_with_state(state);
    let ddl = folder.ddl("k") + " OPTIONS ('sorted_listing.strategy' 'best_fit')";
    run(&ctx, &ddl).await;
    let plan = plan(&ctx, &folder, BY_KEY).await;
    assert!(plan.contains("strategy=best_fit"), "{plan}");
    assert_eq!(rows(&ctx, BY_KEY).await, numbers(0..60));
}

#[tokio::test]
async fn a_session_without_our_options_uses_the_defaults() {
    use datafusion::prelude::SessionContext;
    use datafusion_sorted_listing::SortedListingTableFactory;

    let folder = sixty_keys();
    let ctx = SessionContext::new();
    ctx.state_ref()
        .write()
        .table_factories_mut()
        .insert("PARQUET".into(), Arc::new(SortedListingTableFactory::new()));
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(sorted_rows(&ctx, &folder, BY_KEY).await, numbers(0..60));
}

#[tokio::test]
async fn insert_and_read_back_in_order() {
    let folder = Folder::new();
    let ctx = Session::new(4).sorted().await;
    let location = folder.location();
    run(
        &ctx,
        &format!(
            "CREATE EXTERNAL TABLE t (k BIGINT, s VARCHAR) STORED AS PARQUET LOCATION '{location}' WITH ORDER (k)"
        ),
    )
    .await;
    assert!(rows(&ctx, BY_KEY).await.is_empty(), "an empty table");

    // Unsorted values: DataFusion sorts what it inserts into a table that declares an order.
    for values in [
        "(5, 'a'), (1, 'b'), (3, 'c')",
        "(9, 'd'), (7, 'e')",
        "(2, 'f')",
    ] {
        run(&ctx, &format!("INSERT INTO t VALUES {values}")).await;
    }
    assert_eq!(rows(&ctx, BY_KEY).await.join(" "), "1 2 3 5 7 9");
    let all = rows(&ctx, "SELECT k, s FROM t ORDER BY k DESC LIMIT 2").await;
    assert_eq!(all, ["9 d", "7 e"]);
}

#[tokio::test]
async fn hive_folders() {
    let folder = Folder::new();
    for day in 0..4i64 {
        for part in 0..2 {
            let first = day * 20 + part * 10;
            let name = format!(
                "date=2024-01-0{}/{}",
                day + 1,
                shuffled_name((part * 3 + day) as usize)
            );
            folder.write(&name, &batch([("k", int64(first..first + 10))]));
        }
    }
    let ctx = Session::new(3).sorted().await;
    // DataFusion checks a declared order against the files' columns, unless the columns are given.
    let partitioned = |order: &str| {
        let ddl = folder
            .ddl(order)
            .replace("PARQUET", "PARQUET PARTITIONED BY (date)");
        ddl.replace("TABLE t", "TABLE t (k BIGINT, date VARCHAR)")
    };
    run(&ctx, &partitioned("k")).await;
    assert_eq!(sorted_rows(&ctx, &folder, BY_KEY).await, numbers(0..80));
    let one_day = "SELECT k FROM t WHERE date = '2024-01-03' ORDER BY k";
    assert_eq!(sorted_rows(&ctx, &folder, one_day).await, numbers(40..60));
    let limited = "SELECT date, k FROM t WHERE date >= '2024-01-02' ORDER BY k LIMIT 1 OFFSET 19";
    assert_eq!(sorted_rows(&ctx, &folder, limited).await, ["2024-01-02 39"]);

    // The folder as a part of the key.
    run(&ctx, "DROP TABLE t").await;
    run(&ctx, &partitioned("date, k")).await;
    let by_both = "SELECT k FROM t ORDER BY date, k";
    assert_eq!(sorted_rows(&ctx, &folder, by_both).await, numbers(0..80));
    assert_eq!(sorted_rows(&ctx, &folder, one_day).await, numbers(40..60));
    run(&ctx, "DROP TABLE t").await;
    run(&ctx, &partitioned("date DESC, k")).await;
    let newest = "SELECT k FROM t ORDER BY date DESC, k LIMIT 3";
    assert_eq!(sorted_rows(&ctx, &folder, newest).await, numbers(60..63));
}

#[tokio::test]
async fn columns_in_another_order_in_each_file() {
    let folder = Folder::new();
    for file in 0..4i64 {
        let k = int64(file * 10..file * 10 + 10);
        let v: ArrayRef = Arc::new(StringArray::from(vec![format!("file {file}"); 10]));
        let w = int64((0..10).rev());
        let batch = match file % 3 {
            0 => batch([("k", k), ("v", v), ("w", w)]),
            1 => batch([("w", w), ("v", v), ("k", k)]),
            _ => batch([("v", v), ("k", k), ("w", w)]),
        };
        folder.write(&shuffled_name(file as usize), &batch);
    }
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(sorted_rows(&ctx, &folder, BY_KEY).await, numbers(0..40));
    let sql = "SELECT v, w, k FROM t WHERE w < 2 ORDER BY k LIMIT 3";
    assert_eq!(
        sorted_rows(&ctx, &folder, sql).await,
        ["file 0 1 8", "file 0 0 9", "file 1 1 18"]
    );
}

#[tokio::test]
async fn a_file_without_the_key_is_null() {
    let folder = Folder::new();
    folder.write("a.parquet", &batch([("v", int64(0..3))]));
    folder.write(
        "b.parquet",
        &batch([("k", int64(10..12)), ("v", int64(0..2))]),
    );
    folder.write(
        "c.parquet",
        &batch([("k", int64(0..2)), ("v", int64(0..2))]),
    );
    for (order, expected) in [
        ("k NULLS LAST", "0 1 10 11 NULL NULL NULL"),
        ("k NULLS FIRST", "NULL NULL NULL 0 1 10 11"),
    ] {
        let ctx = Session::new(1).sorted().await;
        let ddl = folder
            .ddl(order)
            .replace("TABLE t", "TABLE t (k BIGINT, v BIGINT)");
        run(&ctx, &ddl).await;
        let sql = format!("SELECT k FROM t ORDER BY {order}");
        assert_eq!(sorted_rows(&ctx, &folder, &sql).await.join(" "), expected);
    }
}

#[tokio::test]
async fn a_narrower_file_is_proved_and_another_type_is_not() {
    let folder = Folder::new();
    folder.write("a.parquet", &batch([("k", int64(5..8))]));
    let narrow: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5));
    folder.write("b.parquet", &batch([("k", narrow)]));
    let ctx = Session::new(1).sorted().await;
    run(
        &ctx,
        &folder.ddl("k").replace("TABLE t", "TABLE t (k BIGINT)"),
    )
    .await;
    assert_eq!(sorted_rows(&ctx, &folder, BY_KEY).await, numbers(0..8));

    // As text, 10 comes before 9: a file that is in order as stored is in another order as the table has it.
    let folder = Folder::new();
    folder.write("a.parquet", &batch([("k", int64(9..11))]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["11", "12"]));
    folder.write("b.parquet", &batch([("k", text)]));
    for partitions in [1, 2, 8] {
        let ctx = Session::new(partitions).sorted().await;
        run(
            &ctx,
            &folder.ddl("k").replace("TABLE t", "TABLE t (k VARCHAR)"),
        )
        .await;
        let plan = plan(&ctx, &folder, BY_KEY).await;
        assert!(plan.contains("SortExec"), "{plan}");
        assert!(
            plan.contains("'a.parquet' are unknown: column \"k\" is of type Int64 in the file"),
            "{plan}"
        );
        assert_eq!(rows(&ctx, BY_KEY).await.join(" "), "10 11 12 9");
    }
}

/// What a footer claims of numbers is not so of their texts.
#[tokio::test]
async fn a_claim_does_not_survive_a_cast() {
    let folder = Folder::new();
    folder.write_with("a.parquet", &key_batch(8..12), sorted_by_first_column(10));
    for partitions in [1, 4] {
        let ctx = Session::new(partitions).sorted().await;
        let ddl = folder.ddl("").replace(" WITH ORDER ()", "");
        run(&ctx, &ddl.replace("TABLE t", "TABLE t (k VARCHAR)")).await;
        assert_eq!(rows(&ctx, BY_KEY).await.join(" "), "10 11 8 9");
    }
}

#[tokio::test]
async fn files_without_rows_belong_to_no_slice() {
    let folder = sixty_keys();
    let none: ArrayRef = Arc::new(Int64Array::new_null(0));
    folder.write("00-empty.parquet", &batch([("k", none.clone())]));
    folder.write("99-empty.parquet", &batch([("k", none.clone())]));
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(sorted_rows(&ctx, &folder, BY_KEY).await, numbers(0..60));
    let plan = plan(&ctx, &folder, BY_KEY).await;
    assert!(
        plan.contains("units=6,") && !plan.contains("empty"),
        "{plan}"
    );

    let empty = Folder::of_keys([none.clone(), none]);
    let ctx = Session::new(4).sorted().await;
    run(&ctx, &empty.ddl("k")).await;
    assert!(rows(&ctx, BY_KEY).await.is_empty());
}

fn sorted_by_first_column(rows_per_group: usize) -> WriterProperties {
    let by_first = SortingColumn {
        column_idx: 0,
        descending: false,
        nulls_first: false,
    };
    WriterProperties::builder()
        .set_sorting_columns(Some(vec![by_first]))
        .set_max_row_group_row_count(Some(rows_per_group))
        .build()
}

fn key_batch(keys: impl IntoIterator<Item = i64>) -> RecordBatch {
    batch([("k", int64(keys))])
}

#[tokio::test]
async fn an_order_that_all_footers_claim() {
    let folder = Folder::new();
    let ddl = folder.ddl("").replace(" WITH ORDER ()", "");
    for file in 0..6 {
        let keys = key_batch(file * 10..file * 10 + 10);
        folder.write_with(
            &shuffled_name(file as usize),
            &keys,
            sorted_by_first_column(3),
        );
    }
    // It has no row groups, and so no claims.
    folder.write("0-empty.parquet", &key_batch([]));
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &ddl).await;
    assert_eq!(sorted_rows(&ctx, &folder, BY_KEY).await, numbers(0..60));

    // One file that claims nothing.
    folder.write("z.parquet", &key_batch(60..70));
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &ddl).await;
    let plan = plan(&ctx, &folder, BY_KEY).await;
    assert!(
        plan.contains("'z.parquet' claims no order that the others share"),
        "{plan}"
    );
    assert_eq!(rows(&ctx, BY_KEY).await, numbers(0..70));
}

/// `sorting_columns` speak of a row group. Taking them for the order of the file gives `2 3 0 1`.
#[tokio::test]
async fn row_groups_that_are_each_in_order() {
    let folder = Folder::new();
    folder.write_with(
        "a.parquet",
        &key_batch([2, 3, 0, 1]),
        sorted_by_first_column(2),
    );
    let ctx = Session::new(1).sorted().await;
    run(&ctx, &folder.ddl("").replace(" WITH ORDER ()", "")).await;
    let plan = plan(&ctx, &folder, BY_KEY).await;
    assert!(
        plan.contains("is not proved across the row groups of 'a.parquet'"),
        "{plan}"
    );
    assert_eq!(rows(&ctx, BY_KEY).await, numbers(0..4));
}

#[tokio::test]
async fn mistakes_are_named() {
    let folder = sixty_keys();
    let ctx = Session::new(2).sorted().await;

    let e = error(&ctx, &folder.ddl("nokey")).await;
    assert!(e.contains("nokey"), "{e}");
    let e = error(
        &ctx,
        &folder.ddl("nokey").replace("TABLE t", "TABLE t (k BIGINT)"),
    )
    .await;
    assert!(e.contains("nokey"), "{e}");
    let missing = folder
        .ddl("k")
        .replace(&folder.location(), "/no/such/folder/");
    let e = error(&ctx, &missing).await;
    assert!(e.contains("/no/such/folder/"), "{e}");

    let broken = folder.path().join("broken.parquet");
    let whole = std::fs::read(folder.path().join(shuffled_name(0))).unwrap();
    let contents: [(&str, &[u8]); 3] = [
        ("cut off", &whole[..whole.len() - 20]),
        ("foreign", b"k,v\n1,2\nthis is no Parquet file at all\n"),
        ("tiny", b"PAR1"),
    ];
    for (what, content) in contents {
        std::fs::write(&broken, content).unwrap();
        let ctx = Session::new(2).sorted().await;
        let e = error(&ctx, &folder.ddl("k")).await;
        assert!(e.contains("broken.parquet"), "{what}: {e}");
        // Footers are first read by the query if the columns are given.
        run(
            &ctx,
            &folder.ddl("k").replace("TABLE t", "TABLE t (k BIGINT)"),
        )
        .await;
        let e = error(&ctx, BY_KEY).await;
        assert!(e.contains("broken.parquet"), "{what}: {e}");
        run(&ctx, "SET datafusion.execution.collect_statistics = false").await;
        let e = error(&ctx, BY_KEY).await;
        assert!(e.contains("broken.parquet"), "{what}: {e}");
    }
    std::fs::remove_file(broken).unwrap();
    run(&ctx, &folder.ddl("k")).await;
    assert_eq!(
        rows(&ctx, BY_KEY).await,
        numbers(0..60),
        "the session works afterwards"
    );
}

#[tokio::test]
async fn broken_pages_are_named() {
    let folder = sixty_keys();
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k")).await;
    let path = folder.path().join(shuffled_name(3));
    let mut content = std::fs::read(&path).unwrap();
    content[4..60].fill(0xEE);
    std::fs::write(&path, content).unwrap();
    let e = error(&ctx, BY_KEY).await;
    assert!(e.contains(&shuffled_name(3)), "{e}");
}
