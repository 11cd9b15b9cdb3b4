//! The order that footers claim.

use arrow::compute::SortOptions;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use parquet::file::metadata::{ParquetMetaData, SortingColumn};
use std::sync::Arc;

/// The longest order that the `sorting_columns` of all row groups with rows, in all `footers`, begin with.
///
/// `Err` holds the index of a footer that has no order, or whose order begins otherwise than those before it.
/// The order ends before the first column that is not a plain column of the table.
pub(crate) fn footer_order<'a>(
    footers: impl Iterator<Item = &'a ParquetMetaData>,
    table: &TableSchema,
) -> Result<Option<LexOrdering>, usize> {
    let mut common: Option<Vec<PhysicalSortExpr>> = None;
    for (index, footer) in footers.enumerate() {
        let groups = footer
            .row_groups()
            .iter()
            .filter(|group| group.num_rows() != 0);
        for group in groups {
            let claimed = group.sorting_columns().map_or(&[][..], Vec::as_slice);
            let order = plain_columns(claimed, footer, table);
            let shared = match common.take() {
                None => order,
                Some(common) => common
                    .into_iter()
                    .zip(order)
                    .map_while(|(a, b)| (a == b).then_some(a))
                    .collect(),
            };
            if shared.is_empty() {
                return Err(index);
            }
            common = Some(shared);
        }
    }
    Ok(common.and_then(LexOrdering::new))
}

fn plain_columns(
    claimed: &[SortingColumn],
    footer: &ParquetMetaData,
    table: &TableSchema,
) -> Vec<PhysicalSortExpr> {
    let leaves = footer.file_metadata().schema_descr().columns();
    claimed
        .iter()
        .map_while(|sorting| {
            let leaf = leaves.get(usize::try_from(sorting.column_idx).ok()?)?;
            // A column inside a struct or list is no column of the table, whatever its name.
            let [name] = leaf.path().parts() else {
                return None;
            };
            let (index, _) = table.file_schema().column_with_name(name)?;
            Some(PhysicalSortExpr::new(
                Arc::new(Column::new(name, index)),
                SortOptions::new(sorting.descending, sorting.nulls_first),
            ))
        })
        .collect()
}
