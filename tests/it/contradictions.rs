//! Declared orders that footers prove false are not believed.

use crate::support::*;

/// Whatever is declared, the answer is right: the rows are sorted.
async fn assert_sorted_for_the_reason(folder: &Folder, order: &str, reason: &str) {
    let ctx = Session::new(2).sorted().await;
    run(&ctx, &folder.ddl(order)).await;
    let sql = "SELECT k FROM t ORDER BY k";
    let plan = plan(&ctx, folder, sql).await;
    assert!(plan.contains("SortExec"), "{plan}");
    assert!(plan.contains(reason), "{plan}");
    let found: Vec<i64> = rows(&ctx, sql)
        .await
        .iter()
        .map(|row| row.parse().unwrap())
        .collect();
    assert!(found.is_sorted(), "{found:?}");
    assert_eq!(found.len(), 8);
}

#[tokio::test]
async fn row_groups_out_of_order() {
    let folder = Folder::new();
    folder.write_with(
        "a.parquet",
        &batch([("k", int64([1, 2, 7, 8]))]),
        row_groups_of(2),
    );
    folder.write_with(
        "b.parquet",
        &batch([("k", int64([15, 16, 13, 14]))]),
        row_groups_of(2),
    );
    assert_sorted_for_the_reason(
        &folder,
        "k",
        "the order is declared as [k ASC NULLS LAST], but 'b.parquet' is not in it: row group 0 has a row with \
         \"k\" = 16, and row group 1, which comes later, one with \"k\" = 13",
    )
    .await;
}

#[tokio::test]
async fn the_other_direction() {
    let folder = Folder::new();
    for (name, first) in [("a.parquet", 1), ("b.parquet", 11)] {
        let keys = batch([("k", int64(first..first + 4))]);
        folder.write_with(name, &keys, row_groups_of(2));
    }
    assert_sorted_for_the_reason(&folder, "k DESC", "but 'a.parquet' is not in it").await;
}
