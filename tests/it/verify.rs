//! Declared orders that are false end the query, and true ones never do (`sorted_listing.verify`).

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take_record_batch};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};

use crate::support::*;

const ROWS: i64 = 256;

/// Pages of 8 rows, in which batches, of 64 rows, begin and end.
fn pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_data_page_row_count_limit(8)
        .set_write_batch_size(4)
        .set_dictionary_enabled(false)
}

fn one_group() -> WriterProperties {
    pages().build()
}

/// Two row groups, which without statistics cannot be seen to be out of order.
fn two_groups_unknown() -> WriterProperties {
    pages()
        .set_max_row_group_row_count(Some(128))
        .set_statistics_enabled(EnabledStatistics::None)
        .build()
}

/// A table whose rows are not in the order that is declared.
pub(crate) struct Lie {
    pub(crate) name: &'static str,
    pub(crate) order: &'static str,
    pub(crate) folder: Folder,
    /// Whether it shows at the edge of a batch.
    at_edge: bool,
}

fn lie(name: &'static str, order: &'static str, folder: Folder, at_edge: bool) -> Lie {
    Lie {
        name,
        order,
        folder,
        at_edge,
    }
}

/// The keys of three files, in order.
fn true_keys() -> Vec<Vec<i64>> {
    let file = |file: i64| (0..ROWS).map(|row| (file * ROWS + row) * 2).collect();
    (0..3).map(file).collect()
}

/// Three files that are in order, but for what `spoil` does to them.
fn spoilt(properties: &WriterProperties, spoil: impl FnOnce(&mut Vec<Vec<i64>>)) -> Folder {
    let mut files = true_keys();
    spoil(&mut files);
    of_columns(files.into_iter().map(int64), properties)
}

/// Files of these keys, and of `v`, which is in no order.
fn of_columns(keys: impl IntoIterator<Item = ArrayRef>, properties: &WriterProperties) -> Folder {
    let folder = Folder::new();
    for (index, k) in keys.into_iter().enumerate() {
        let v = int64((0..k.len() as i64).map(|row| row * 7919 % 1009));
        let rows = batch([("k", k), ("v", v)]);
        folder.write_with(&shuffled_name(index), &rows, properties.clone());
    }
    folder
}

fn one_file(keys: impl Into<ArrayRef>) -> Folder {
    of_columns([keys.into()], &one_group())
}

fn strings(values: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Rows of `k, v`.
fn compound(rows: impl Iterator<Item = (i64, i64)>) -> Folder {
    let (k, v): (Vec<_>, Vec<_>) = rows.unzip();
    let folder = Folder::new();
    let rows = batch([("k", int64(k)), ("v", int64(v))]);
    folder.write_with("a.parquet", &rows, one_group());
    folder
}

/// A file whose footer, statistics included, is that of other rows.
fn with_false_statistics() -> Folder {
    let folder = Folder::new();
    let bytes = |keys: std::ops::Range<i64>| {
        let rows = batch([("k", int64(keys))]);
        folder.write_with("a.parquet", &rows, one_group());
        let bytes = std::fs::read(folder.path().join("a.parquet")).unwrap();
        let length = &bytes[bytes.len() - 8..bytes.len() - 4];
        let footer = u32::from_le_bytes(length.try_into().unwrap()) as usize + 8;
        (bytes[..bytes.len() - footer].to_vec(), footer, bytes)
    };
    let (rows, ..) = bytes(1_000_000..1_000_000 + ROWS);
    let (_, footer, all) = bytes(0..ROWS);
    assert_eq!(rows.len() + footer, all.len());
    // The page index lies between the rows and the footer, and is that of the rows.
    let spliced = [&rows[..], &all[all.len() - footer..]].concat();
    std::fs::write(folder.path().join("a.parquet"), spliced).unwrap();
    folder
}

fn lies_of_place() -> Vec<Lie> {
    let swap = |a: usize, b: usize| move |files: &mut Vec<Vec<i64>>| files[1].swap(a, b);
    vec![
        lie(
            "rows of a page",
            "k",
            spoilt(&one_group(), swap(10, 11)),
            false,
        ),
        lie(
            "rows of two pages",
            "k",
            spoilt(&one_group(), swap(7, 8)),
            false,
        ),
        lie(
            "pages",
            "k",
            spoilt(&one_group(), |files| files[1][16..32].rotate_left(8)),
            false,
        ),
        lie(
            "rows of two batches",
            "k",
            spoilt(&one_group(), swap(63, 64)),
            true,
        ),
        lie(
            "the ends of a batch",
            "k",
            spoilt(&one_group(), swap(64, 127)),
            true,
        ),
        lie(
            "rows where row groups meet",
            "k",
            spoilt(&two_groups_unknown(), swap(127, 128)),
            true,
        ),
        lie(
            "rows of two row groups",
            "k",
            spoilt(&two_groups_unknown(), swap(20, 200)),
            false,
        ),
        lie(
            "row groups",
            "k",
            spoilt(&two_groups_unknown(), |files| files[2].rotate_left(128)),
            true,
        ),
        lie(
            "rows of two files",
            "k",
            spoilt(&one_group(), |files| {
                let (a, b) = files.split_at_mut(1);
                std::mem::swap(&mut a[0][100], &mut b[0][100]);
            }),
            false,
        ),
        lie(
            "one late row",
            "k",
            one_file(int64(
                (0..5000).map(|row| if row == 3333 { 7 } else { row }),
            )),
            false,
        ),
        lie(
            "one early row",
            "k DESC",
            one_file(int64(
                (0..5000)
                    .rev()
                    .map(|row| if row == 100 { 3000 } else { row }),
            )),
            false,
        ),
        lie(
            "two stretches, each sorted",
            "k",
            one_file(int64((0..ROWS).map(|row| row % 128))),
            true,
        ),
        lie(
            "a ring",
            "k",
            one_file(int64((0..ROWS).map(|row| (row + 77) % ROWS))),
            true,
        ),
    ]
}

fn lies_of_order() -> Vec<Lie> {
    let nulls = |range: std::ops::Range<i64>| {
        let keys = (0..ROWS).map(move |row| (!range.contains(&row)).then_some(row));
        one_file(Arc::new(Int64Array::from_iter(keys)) as ArrayRef)
    };
    let descending = |files: &mut Vec<Vec<i64>>| files[1].reverse();
    vec![
        lie("a NULL in the middle", "k", nulls(100..101), false),
        lie("NULL at the other end", "k NULLS LAST", nulls(0..10), true),
        lie(
            "NULL at the other end, first",
            "k NULLS FIRST",
            nulls(250..256),
            true,
        ),
        lie(
            "the other direction",
            "k DESC",
            of_columns([int64(0..ROWS)], &one_group()),
            true,
        ),
        lie(
            "the other column",
            "v",
            of_columns([int64(0..ROWS)], &one_group()),
            true,
        ),
        lie(
            "another direction in one file",
            "k",
            spoilt(&one_group(), descending),
            true,
        ),
        lie(
            "the second column",
            "k, v",
            compound((0..ROWS).map(|row| (row / 4, -row))),
            false,
        ),
        lie(
            "the second column of one key",
            "k, v",
            compound((0..ROWS).map(|row| (7, -row))),
            true,
        ),
        lie(
            "the direction of the second column",
            "k, v DESC",
            compound((0..ROWS).map(|row| (row / 200, row))),
            true,
        ),
        lie(
            "nothing known of rows in no order",
            "k",
            spoilt(&two_groups_unknown(), |files| {
                for file in files {
                    file.sort_unstable_by_key(|key| key * 7919 % 1009);
                }
            }),
            true,
        ),
        lie(
            "statistics of other rows",
            "k",
            with_false_statistics(),
            true,
        ),
    ]
}

fn lies_of_type() -> Vec<Lie> {
    let letters = |row: i64| format!("{}{row:03}", if row % 3 == 0 { 'B' } else { 'a' });
    let codes = Int32Array::from_iter_values((0..ROWS as i32).map(|row| row / 32));
    let words = ["e", "d", "c", "h", "b", "a", "g", "f"];
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::new(codes, words));
    let floats = |first: f64| {
        let keys = (0..ROWS).map(move |row| if row == 0 { first } else { row as f64 });
        one_file(Arc::new(Float64Array::from_iter_values(keys)) as ArrayRef)
    };
    let zeros = (0..ROWS).map(|row| match row {
        ..100 => -1.0,
        100 => 0.0,
        101 => -0.0,
        _ => 1.0,
    });
    let absolute = (0..i128::from(ROWS)).map(|row| if row % 2 == 0 { row } else { -row });
    let absolute = Decimal128Array::from_iter_values(absolute);
    let absolute = absolute.with_precision_and_scale(20, 2).unwrap();
    let moments = (0..ROWS).map(|row| if row == 40 { 0 } else { row * 1_000_000 });
    vec![
        lie(
            "numbers as text",
            "k",
            one_file(strings((0..ROWS).map(|row| row.to_string()))),
            true,
        ),
        lie(
            "text in the order of a dictionary",
            "k",
            one_file(strings((0..ROWS).map(letters))),
            true,
        ),
        lie(
            "codes and not what they stand for",
            "k",
            one_file(dictionary),
            true,
        ),
        lie("NaN first", "k", floats(f64::NAN), true),
        lie(
            "zeros",
            "k",
            one_file(Arc::new(Float64Array::from_iter_values(zeros)) as ArrayRef),
            false,
        ),
        lie(
            "absolute values",
            "k",
            one_file(Arc::new(absolute) as ArrayRef),
            true,
        ),
        lie(
            "true before false",
            "k",
            one_file(Arc::new(BooleanArray::from_iter(
                (0..ROWS).map(|row| Some(row < 100)),
            )) as ArrayRef),
            true,
        ),
        lie(
            "a clock put back",
            "k",
            one_file(Arc::new(TimestampMicrosecondArray::from_iter_values(moments)) as ArrayRef),
            false,
        ),
    ]
}

/// Tables that lie, of all kinds.
pub(crate) fn lies() -> Vec<Lie> {
    let mut lies = lies_of_place();
    lies.extend(lies_of_order());
    lies.extend(lies_of_type());
    lies
}

async fn session(partitions: usize, verify: &'static str) -> SessionContext {
    let session = Session::new(partitions).set("sorted_listing.verify", verify);
    session.sorted().await
}

const TO_DO: &str = "Write the files anew in that order, or declare the order that they are in";

/// Whether reading in the declared order, or in the reverse of it, ends with the error of a false order.
async fn is_found_out(lie: &Lie, ctx: &SessionContext, sql: &str) -> bool {
    match try_run(ctx, sql).await {
        Ok(_) => false,
        // A merge may stumble over what is not checked.
        Err(e) if e.to_string().contains("by which they are merged") => false,
        Err(e) => {
            let text = e.to_string();
            assert!(
                text.contains(TO_DO) && text.contains(".parquet'"),
                "{}: {text}",
                lie.name
            );
            assert!(
                text.contains("the table t is not in its declared order ["),
                "{}: {text}",
                lie.name
            );
            true
        }
    }
}

#[tokio::test]
async fn lies_end_the_query() {
    let lies = lies();
    assert!(lies.len() >= 30);
    for lie in &lies {
        for partitions in [1, 2, 4] {
            for verify in ["off", "boundaries", "rows"] {
                let ctx = session(partitions, verify).await;
                run(&ctx, &lie.folder.ddl(lie.order)).await;
                let sql = format!("SELECT * FROM t ORDER BY {}", lie.order);
                let found = is_found_out(lie, &ctx, &sql).await;
                let expected = match verify {
                    "off" => false,
                    "boundaries" => lie.at_edge,
                    _ => true,
                };
                // Where files are cut, there are other batches.
                if verify != "boundaries" || partitions == 1 {
                    assert_eq!(found, expected, "{} {verify} {partitions}", lie.name);
                }
            }
        }
    }
}

#[tokio::test]
async fn lies_are_found_out_in_reverse_and_without_order_by() {
    let keys =
        |swap: [usize; 2]| spoilt(&one_group(), move |files| files[1].swap(swap[0], swap[1]));
    let folder = keys([100, 150]);
    let ctx = session(2, "rows").await;
    run(&ctx, &folder.ddl("k")).await;
    for sql in [
        "SELECT k FROM t ORDER BY k DESC",
        "SELECT k FROM t",
        "SELECT count(*) FROM (SELECT DISTINCT k FROM t)",
        "SELECT k, v FROM t WHERE v >= 0 ORDER BY k",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k ORDER BY a.k",
    ] {
        let error = error(&ctx, sql).await;
        assert!(error.contains(TO_DO), "{sql}: {error}");
    }
    // The query reads nothing of the key.
    let query = "SELECT v FROM t";
    assert!(error(&ctx, query).await.contains(TO_DO));
    run(&ctx, "SET sorted_listing.verify = 'boundaries'").await;
    run(&ctx, query).await;
    run(&ctx, "SET sorted_listing.verify = 'rows'").await;
    // These come before.
    assert_eq!(
        rows(&ctx, "SELECT k FROM t ORDER BY k LIMIT 2").await,
        ["0", "2"]
    );
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let folder = spoilt(&two_groups_unknown(), |files| {
        files.truncate(1);
        files[0].swap(140, 150);
    });
    let case = async |folder: &Folder, verify, order: &str, query: &str| {
        let ctx = session(1, verify).await;
        run(&ctx, &folder.ddl(order)).await;
        error(&ctx, query).await
    };
    let name = shuffled_name(0);
    let error = case(&folder, "rows", "k", "SELECT * FROM t ORDER BY k").await;
    let path = folder.path().join(name);
    let error = error.replace(path.to_str().unwrap().trim_start_matches('/'), "FILE");
    assert!(
        error.contains(
            "the table t is not in its declared order [k ASC NULLS LAST]: in 'FILE', row 13 of row group 1, counted from \
             0, has the key 282, and row 12 of row group 1, before it, 300. Write"
        ),
        "{error}"
    );
    assert!(error.contains("sorted_listing.verify = off"), "{error}");

    let error = case(
        &with_false_statistics(),
        "boundaries",
        "k",
        "SELECT * FROM t",
    )
    .await;
    assert!(
        error.contains(
            "row 63 of row group 0, counted from 0, has the key 1000063, after 255, which is the last by the statistics in the footer"
        ),
        "{error}"
    );

    let rows = compound((0..ROWS).map(|row| (row / 4, -row)));
    let error = case(&rows, "rows", "k, v", "SELECT * FROM t ORDER BY k, v").await;
    assert!(
        error.contains("row 1 of row group 0, counted from 0, has the key (0, -1), and row 0 of row group 0, before it, (0, 0)"),
        "{error}"
    );
}

/// Of several declared orders, the error is of the one that does not hold.
#[tokio::test]
async fn the_order_that_is_false_is_named() {
    let folder = compound((0..ROWS).map(|row| (row, if row == 100 { 0 } else { row })));
    let ctx = session(1, "rows").await;
    run(&ctx, &folder.ddl("k").replace("(k)", "(k) WITH ORDER (v)")).await;
    let error = error(&ctx, "SELECT k, v FROM t ORDER BY k").await;
    assert!(
        error.contains("not in its declared order [v ASC NULLS LAST]")
            && error.contains("row 100 of row group 0, counted from 0, has the key 0,"),
        "{error}"
    );
}

/// Row groups without statistics are pieces of a sequence, which are checked where they meet.
#[tokio::test]
async fn pieces_are_checked_where_they_meet() {
    for (partitions, order) in [(1, "k"), (2, "k"), (4, "k"), (2, "k DESC"), (4, "k DESC")] {
        let folder = spoilt(&two_groups_unknown(), |files| {
            files.truncate(1);
            files[0][..128].iter_mut().for_each(|key| *key += 10_000);
        });
        for verify in ["boundaries", "rows"] {
            let ctx = session(partitions, verify).await;
            run(&ctx, &folder.ddl("k")).await;
            let error = error(&ctx, &format!("SELECT k FROM t ORDER BY {order}")).await;
            assert!(
                error.contains("declared order") && error.contains(TO_DO),
                "{error}"
            );
        }
    }
}

/// Keys of many types, each with all that is special to its type.
fn true_columns() -> Vec<ArrayRef> {
    let n = 400_i64;
    let scattered = move |modulus: i64| (0..n).map(move |row| row * 7919 % modulus);
    let floats = scattered(97).map(|value| match value {
        0..10 => f64::NAN,
        10..15 => -0.0,
        15..20 => 0.0,
        20 => f64::NEG_INFINITY,
        _ => value as f64 - 50.0,
    });
    let text = || {
        scattered(211).map(|value| format!("{}é{value}", if value % 2 == 0 { "x" } else { "X" }))
    };
    let words: ArrayRef = strings((0..20).map(|word| format!("w{}", word * 7 % 20)));
    let codes = Int32Array::from_iter(scattered(23).map(|code| (code < 20).then_some(code as i32)));
    let decimals = Decimal128Array::from_iter_values(scattered(307).map(|it| i128::from(it) - 150));
    let with_nulls = |modulus: i64| {
        let values = scattered(modulus).map(|value| (value % 11 != 0).then_some(value));
        Arc::new(Int64Array::from_iter(values)) as ArrayRef
    };
    vec![
        int64(scattered(389)),
        with_nulls(101),
        Arc::new(Float64Array::from_iter_values(floats)),
        strings(text()),
        Arc::new(StringArray::from_iter(
            text().map(|it| it.contains('7').then_some(it)),
        )),
        Arc::new(DictionaryArray::new(codes, words)),
        Arc::new(decimals.with_precision_and_scale(12, 3).unwrap()),
        Arc::new(TimestampMicrosecondArray::from_iter_values(scattered(200)).with_timezone("UTC")),
        Arc::new(BooleanArray::from_iter(
            scattered(3).map(|it| (it > 0).then_some(it > 1)),
        )),
        new_null_array(&arrow::datatypes::DataType::Int32, n as usize),
    ]
}

/// Files of `k, v` that are sorted by both.
fn sorted_files(k: &ArrayRef, options: [SortOptions; 2], properties: &WriterProperties) -> Folder {
    let v = int64((0..k.len() as i64).map(|row| row * 31 % 17));
    let sort = |values: &ArrayRef, options| SortColumn {
        values: Arc::clone(values),
        options: Some(options),
    };
    let order = lexsort_to_indices(&[sort(k, options[0]), sort(&v, options[1])], None).unwrap();
    let rows = batch([("k", Arc::clone(k)), ("v", v)]);
    let sorted: RecordBatch = take_record_batch(&rows, &order).unwrap();
    let folder = Folder::new();
    for (index, start) in (0..sorted.num_rows()).step_by(100).enumerate() {
        let rows = sorted.slice(start, 100.min(sorted.num_rows() - start));
        folder.write_with(&shuffled_name(index), &rows, properties.clone());
    }
    folder
}

fn show(options: SortOptions) -> String {
    let direction = if options.descending { "DESC" } else { "ASC" };
    let nulls = if options.nulls_first { "FIRST" } else { "LAST" };
    format!("{direction} NULLS {nulls}")
}

#[tokio::test]
async fn true_orders_are_never_called_false() {
    let groups = pages().set_max_row_group_row_count(Some(40)).build();
    let unknown = two_groups_unknown();
    for (index, k) in true_columns().iter().enumerate() {
        let all = [(false, false), (false, true), (true, true), (true, false)];
        // Two of them for each type.
        for (descending, nulls_first) in all.into_iter().skip(index % 2).step_by(2) {
            let options = SortOptions::new(descending, nulls_first);
            let properties = if index % 3 == 2 { &unknown } else { &groups };
            let folder = sorted_files(k, [options, !options], properties);
            let order = format!("k {}, v {}", show(options), show(!options));
            let reverse = format!("k {}, v {}", show(!options), show(options));
            let stock = Session::new(1).stock().await;
            let ddl = folder.ddl(&order);
            run(&stock, ddl.split(" WITH ORDER").next().unwrap()).await;
            let queries = [
                format!("SELECT k, v FROM t ORDER BY {order}"),
                format!("SELECT k, v FROM t ORDER BY {reverse}"),
                format!("SELECT k, v FROM t ORDER BY {order} LIMIT 130"),
                format!("SELECT k, v FROM t WHERE v % 5 = 2 ORDER BY {order}"),
                format!("SELECT k, v FROM t WHERE v > 7 ORDER BY {reverse} LIMIT 33"),
                format!("SELECT k, v FROM t WHERE k IS NOT NULL ORDER BY {order}"),
                format!(
                    "SELECT k, count(*) FROM t GROUP BY k ORDER BY k {}",
                    show(options)
                ),
                format!("SELECT k FROM t ORDER BY k {}", show(options)),
            ];
            let mut expected = vec![];
            for sql in &queries {
                expected.push(rows(&stock, sql).await);
            }
            for (partitions, verify) in [(1, "rows"), (3, "rows"), (2, "boundaries")] {
                let ctx = Session::new(partitions)
                    .set("sorted_listing.verify", verify)
                    .set(
                        "datafusion.execution.parquet.pushdown_filters",
                        partitions != 1,
                    )
                    .sorted()
                    .await;
                run(&ctx, &ddl).await;
                for (sql, expected) in queries.iter().zip(&expected) {
                    assert_eq!(
                        &rows(&ctx, sql).await,
                        expected,
                        "{index} {sql} {partitions}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_checked_is_counted() {
    let folder = spoilt(&one_group(), |_| {});
    for (verify, checked) in [
        ("off", None),
        ("boundaries", Some(3 * 4 * 2)),
        ("rows", Some(3 * 256)),
    ] {
        let ctx = session(1, verify).await;
        run(&ctx, &folder.ddl("k")).await;
        let plan = physical_plan(&ctx, "SELECT k FROM t ORDER BY k").await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let metrics = plan.metrics().unwrap();
        let found = metrics.sum_by_name("rows_checked");
        assert_eq!(
            found.map(|found| found.as_usize()),
            checked,
            "{verify}: {metrics}"
        );
    }
}

/// The option of a table goes before that of the session.
#[tokio::test]
async fn a_table_has_an_option_of_its_own() {
    let folder = spoilt(&one_group(), |files| files[0].swap(63, 64));
    let ctx = session(1, "rows").await;
    let options = "OPTIONS ('sorted_listing.verify' 'off')";
    run(&ctx, &format!("{} {options}", folder.ddl("k"))).await;
    let found = rows(&ctx, "SELECT k FROM t ORDER BY k LIMIT 66").await;
    assert_eq!(found[62..66], ["124", "128", "126", "130"]);
}
