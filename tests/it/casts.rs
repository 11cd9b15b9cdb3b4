//! Casts that do not keep the order, of which DataFusion 55.2 believes that they do.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal256Array, TimestampSecondArray};
use arrow::datatypes::i256;
use datafusion::prelude::SessionContext;

use crate::support::*;

const HOURS: i64 = 120;
const NOON: i64 = 1_577_880_000;

/// The hour of the day of a row.
fn hour(row: i64) -> i64 {
    (12 + row) % 24
}

/// Four files of 30 hours, in order of `ts`.
fn folder() -> Folder {
    let folder = Folder::new();
    for file in 0..4 {
        let rows = || file * 30..file * 30 + 30;
        let ts = rows().map(|row| NOON + row * 3600);
        let ts: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(ts));
        let columns = batch([("ts", ts), ("id", int64(rows()))]);
        folder.write(&shuffled_name(file as usize), &columns);
    }
    folder
}

async fn sessions() -> Vec<SessionContext> {
    let mut sessions = vec![];
    for (partitions, pushdown) in [(1, false), (4, false), (4, true)] {
        let session = Session::new(partitions);
        let session = session.set("datafusion.execution.parquet.pushdown_filters", pushdown);
        sessions.push(session.sorted().await);
    }
    sessions
}

fn ids(mut expected: Vec<i64>, key: impl Fn(i64) -> i64) -> Vec<String> {
    expected.sort_by_key(|&row| (key(row), row));
    expected.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn filters_by_the_time_of_day_find_all_days() {
    let folder = folder();
    for ctx in sessions().await {
        run(&ctx, &folder.ddl("ts")).await;
        for cast in ["CAST(ts AS TIME)", "TRY_CAST(ts AS TIME)"] {
            let found = async |filter: &str| {
                rows(
                    &ctx,
                    &format!("SELECT id FROM t WHERE {cast} {filter} ORDER BY id"),
                )
                .await
            };
            let at_ten = (0..HOURS).filter(|&row| hour(row) == 10).collect();
            assert_eq!(
                found("= TIME '10:00:00'").await,
                ids(at_ten, |_| 0),
                "{cast}"
            );
            let at_night = (0..HOURS).filter(|&row| hour(row) < 3).collect();
            assert_eq!(
                found("< TIME '03:00:00'").await,
                ids(at_night, |_| 0),
                "{cast}"
            );
        }
    }
}

#[tokio::test]
async fn rows_are_sorted_and_grouped_by_the_time_of_day() {
    let folder = folder();
    let each = |hour: i64| (0..HOURS).filter(move |&row| self::hour(row) == hour);
    for ctx in sessions().await {
        run(&ctx, &folder.ddl("ts")).await;
        let sorted = rows(&ctx, "SELECT id FROM t ORDER BY CAST(ts AS TIME), id").await;
        assert_eq!(sorted, ids((0..HOURS).collect(), hour));
        let grouped =
            "SELECT CAST(ts AS TIME) AS time, count(*) FROM t GROUP BY time ORDER BY time";
        let expected: Vec<_> = (0..24)
            .map(|hour| format!("{hour:02}:00:00 {}", each(hour).count()))
            .collect();
        assert_eq!(rows(&ctx, grouped).await, expected);
        let distinct = rows(&ctx, "SELECT DISTINCT CAST(ts AS TIME) FROM t").await;
        assert_eq!(distinct.len(), 24);
        let first = "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY CAST(ts AS TIME) ORDER BY ts) AS nth \
                     FROM t) WHERE nth = 1 ORDER BY id";
        assert_eq!(rows(&ctx, first).await, ids((0..24).collect(), |_| 0));
        let pairs = "SELECT count(*) FROM t a JOIN t b ON CAST(a.ts AS TIME) = CAST(b.ts AS TIME)";
        let expected: usize = (0..24).map(|hour| each(hour).count().pow(2)).sum();
        assert_eq!(rows(&ctx, pairs).await, [expected.to_string()]);
    }
}

/// Wide decimals wrap around.
#[tokio::test]
async fn wide_decimals_are_in_another_order_as_integers() {
    let folder = Folder::new();
    let wide = |values: [i128; 3]| -> ArrayRef {
        let values = values.map(i256::from_i128);
        let wide = Decimal256Array::from_iter_values(values);
        Arc::new(wide.with_precision_and_scale(50, 0).unwrap())
    };
    folder.write("a.parquet", &batch([("d", wide([1, 2, 1 << 64]))]));
    folder.write(
        "b.parquet",
        &batch([("d", wide([(1 << 64) + 5, 1 << 65, 1 << 66]))]),
    );
    for ctx in sessions().await {
        run(&ctx, &folder.ddl("d")).await;
        let sorted = rows(&ctx, "SELECT CAST(d AS BIGINT) AS n FROM t ORDER BY n").await;
        assert_eq!(sorted, ["0", "0", "0", "1", "2", "5"]);
    }
}

/// The order itself is not given up, nor that of other casts, and columns keep their names.
#[tokio::test]
async fn other_orders_and_names_stay() {
    let folder = folder();
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("ts")).await;
    for sql in [
        "SELECT CAST(ts AS TIME) AS time FROM t ORDER BY ts",
        "SELECT id FROM t ORDER BY CAST(ts AS DATE)",
        "SELECT id FROM t WHERE CAST(ts AS TIME) > TIME '10:00:00' ORDER BY ts",
    ] {
        let plan = plan(&ctx, &folder, sql).await;
        assert!(!plan.contains("SortExec"), "{plan}");
    }
    let stock = Session::new(2).stock().await;
    run(&stock, &folder.ddl("ts")).await;
    for sql in [
        "SELECT CAST(ts AS TIME), max(CAST(ts AS TIME)) FROM t GROUP BY CAST(ts AS TIME)",
        "SELECT CAST(ts AS TIME) AS time FROM t ORDER BY CAST(ts AS TIME)",
        "SELECT * FROM t WHERE ts::time > TIME '10:00:00'",
    ] {
        let schema = async |ctx: &SessionContext| {
            let plan = ctx.sql(sql).await.unwrap().into_optimized_plan().unwrap();
            plan.schema().as_arrow().clone()
        };
        assert_eq!(schema(&ctx).await, schema(&stock).await, "{sql}");
    }
}
