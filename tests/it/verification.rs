//! `SortedListingTable::verify`.

use std::sync::Arc;
use std::sync::Mutex;

use datafusion::catalog::TableProvider;
use datafusion::prelude::SessionContext;
use datafusion_sorted_listing::{
    SortedListingTable, VerifyDepth, VerifyProblem, VerifyProgress, VerifyReport,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;
use crate::verify::lies;

async fn table(ctx: &SessionContext) -> Arc<dyn TableProvider> {
    ctx.table_provider("t").await.unwrap()
}

async fn verify(ctx: &SessionContext, depth: VerifyDepth) -> VerifyReport {
    let table = table(ctx).await;
    let sorted = table.downcast_ref::<SortedListingTable>().unwrap();
    sorted.verify(&ctx.state(), depth).await.unwrap()
}

async fn made(folder: &Folder, order: &str) -> SessionContext {
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl(order)).await;
    ctx
}

#[tokio::test]
async fn each_lie_is_found() {
    for lie in lies() {
        let ctx = made(&lie.folder, lie.order).await;
        let report = verify(&ctx, VerifyDepth::Rows).await;
        assert!(!report.is_ok(), "{}: {report}", lie.name);
        for problem in &report.problems {
            assert!(
                matches!(problem, VerifyProblem::FalseOrder { .. })
                    && problem.file().ends_with(".parquet"),
                "{}: {problem}",
                lie.name
            );
        }
    }
}

#[tokio::test]
async fn true_orders_are_confirmed() {
    let folder = Folder::new();
    for file in 0..5_i64 {
        // Files overlap, which is no false order.
        let k = int64((0..300).map(|row| file * 100 + row));
        let v = int64((0..300).map(|row| row % 7));
        let rows = batch([("k", k), ("v", v)]);
        folder.write_with(&shuffled_name(file as usize), &rows, row_groups_of(100));
    }
    folder.write(
        "empty.parquet",
        &batch([("k", int64([])), ("v", int64([]))]),
    );
    let ctx = made(&folder, "k").await;
    let table = table(&ctx).await;
    let sorted = table.downcast_ref::<SortedListingTable>().unwrap();
    let seen = Mutex::new(vec![]);
    let note = |progress: VerifyProgress| seen.lock().unwrap().push(progress);
    let state = ctx.state();
    let report = sorted.verify_with_progress(&state, VerifyDepth::Rows, note);
    let report = report.await.unwrap();
    assert_eq!(
        report.to_string(),
        "1500 rows of 5 files of the table t do not contradict the order [k ASC NULLS LAST]"
    );
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 5);
    for (place, progress) in seen.iter().enumerate() {
        let expected = VerifyProgress {
            files: place + 1,
            of_files: 5,
            rows: 300 * (place as u64 + 1),
        };
        assert_eq!(*progress, expected);
    }
    let report = verify(&ctx, VerifyDepth::Footers).await;
    assert!(
        report.is_ok() && report.files == 5 && report.rows == 0,
        "{report}"
    );
}

#[tokio::test]
async fn what_is_wrong_is_named_for_each_file() {
    let folder = Folder::new();
    let write = |index: usize, keys: Vec<i64>, properties: WriterProperties| {
        folder.write_with(
            &shuffled_name(index),
            &batch([("k", int64(keys))]),
            properties,
        );
    };
    let falling =
        |from: i64| (0..200).map(move |row| from + if row < 100 { 100 + row } else { row - 100 });
    write(0, (0..200).collect(), row_groups_of(100));
    // The footer says so.
    write(1, falling(1000).collect(), row_groups_of(100));
    // The footer says nothing.
    let silent = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None);
    write(2, falling(2000).collect(), silent.build());
    write(3, (3000..3200).collect(), row_groups_of(100));
    // Rows are overwritten.
    let broken = folder.path().join(shuffled_name(3));
    let ctx = made(&folder, "k").await;
    let footers = verify(&ctx, VerifyDepth::Footers).await;
    let names = |report: &VerifyReport| {
        let files = report
            .problems
            .iter()
            .map(|problem| problem.file().rsplit('/').next());
        let mut names: Vec<_> = files.map(|name| name.unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&footers), [shuffled_name(1)]);
    let problem = footers.problems[0].to_string();
    assert!(
        problem.contains("row group 0 has a row with \"k\" = 1199, and row group 1, which comes later, one with \"k\" = 1000"),
        "{problem}"
    );

    let mut bytes = std::fs::read(&broken).unwrap();
    bytes[4..400].fill(0xff);
    std::fs::write(&broken, bytes).unwrap();
    let ctx = made(&folder, "k").await;
    let report = verify(&ctx, VerifyDepth::Rows).await;
    let mut expected = [1, 2, 3].map(shuffled_name);
    expected.sort();
    assert_eq!(names(&report), expected, "{report}");
    for problem in &report.problems {
        let unreadable = matches!(problem, VerifyProblem::Unreadable { .. });
        assert_eq!(
            unreadable,
            problem.file().ends_with(&shuffled_name(3)),
            "{problem}"
        );
    }
    assert!(
        report.to_string().contains("row 0 of row group 1, counted from 0, has the key 1000, and row 99 of row group 0, before it, 1199"),
        "{report}"
    );
}

#[tokio::test]
async fn without_an_order_there_is_nothing_to_verify() {
    let folder = Folder::of_keys([int64(0..10)]);
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl("k").replace(" WITH ORDER (k)", "")).await;
    let table = table(&ctx).await;
    let sorted = table.downcast_ref::<SortedListingTable>().unwrap();
    let error = sorted
        .verify(&ctx.state(), VerifyDepth::Rows)
        .await
        .unwrap_err();
    let error = error.strip_backtrace();
    assert!(
        error.contains("The table t has no order to verify"),
        "{error}"
    );
    // Of no rows, any order is true.
    let empty = Folder::of_keys([int64([])]);
    let ctx = made(&empty, "k").await;
    assert!(verify(&ctx, VerifyDepth::Rows).await.is_ok());
}
