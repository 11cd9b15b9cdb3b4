//! The order that footers claim.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use parquet::file::metadata::{ParquetMetaData, SortingColumn};

use super::lossless::{is_lossless, value_type};

/// The longest order that the `sorting_columns` of all row groups with rows begin with, in all files.
///
/// Each file comes with its footer and its Arrow schema. `Err` gives a file that has no order, or whose order begins
/// otherwise than those before it. The order ends before the first column that is not a plain column of the table, or
/// that a cast to the type of the table's column may put into another order.
pub(crate) fn footer_order<'a, F>(
    files: impl Iterator<Item = (F, &'a ParquetMetaData, &'a Schema)>,
    table: &TableSchema,
) -> Result<Option<LexOrdering>, F> {
    let mut common: Option<Vec<PhysicalSortExpr>> = None;
    for (file, footer, schema) in files {
        let groups = footer
            .row_groups()
            .iter()
            .filter(|group| group.num_rows() != 0);
        for group in groups {
            let claimed = group.sorting_columns().map_or(&[][..], Vec::as_slice);
            let order = plain_columns(claimed, footer, schema, table);
            let shared = match common.take() {
                None => order,
                Some(common) => common
                    .into_iter()
                    .zip(order)
                    .map_while(|(a, b)| (a == b).then_some(a))
                    .collect(),
            };
            if shared.is_empty() {
                return Err(file);
            }
            common = Some(shared);
        }
    }
    Ok(common.and_then(LexOrdering::new))
}

fn plain_columns(
    claimed: &[SortingColumn],
    footer: &ParquetMetaData,
    schema: &Schema,
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
            let (index, column) = table.file_schema().column_with_name(name)?;
            let (_, stored) = schema.column_with_name(name)?;
            if !is_lossless(
                value_type(stored.data_type()),
                value_type(column.data_type()),
            ) {
                return None;
            }
            Some(PhysicalSortExpr::new(
                Arc::new(Column::new(name, index)),
                SortOptions::new(sorting.descending, sorting.nulls_first),
            ))
        })
        .collect()
}
