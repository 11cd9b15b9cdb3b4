//! The order that footers claim.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use parquet::file::metadata::{ParquetMetaData, SortingColumn};

use super::lossless::{is_lossless, value_type};

/// The longest order that the `sorting_columns` of all row groups with rows of a file begin with.
///
/// It ends before the first column that is not a plain column of the table, or that a cast to the type of the table's
/// column may put into another order.
pub(crate) fn claimed_order(
    footer: &ParquetMetaData,
    schema: &Schema,
    table: &TableSchema,
) -> Vec<PhysicalSortExpr> {
    let groups = footer
        .row_groups()
        .iter()
        .filter(|group| group.num_rows() != 0);
    let claimed = groups.map(|group| {
        let claimed = group.sorting_columns().map_or(&[][..], Vec::as_slice);
        plain_columns(claimed, footer, schema, table)
    });
    claimed
        .reduce(|a, b| common_beginning(a, &b))
        .unwrap_or_default()
}

/// The longest order that those of all files begin with, each of which comes with the file that claims it. `Err` gives
/// a file that claims none, or one that begins otherwise than those before it.
pub(crate) fn shared_order<'a, F>(
    claims: impl Iterator<Item = (F, &'a [PhysicalSortExpr])>,
) -> Result<Option<LexOrdering>, F> {
    let mut shared: Option<Vec<_>> = None;
    for (file, claimed) in claims {
        let common = match shared.take() {
            None => claimed.to_vec(),
            Some(shared) => common_beginning(shared, claimed),
        };
        if common.is_empty() {
            return Err(file);
        }
        shared = Some(common);
    }
    Ok(shared.and_then(LexOrdering::new))
}

fn common_beginning(mut a: Vec<PhysicalSortExpr>, b: &[PhysicalSortExpr]) -> Vec<PhysicalSortExpr> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    a.truncate(same);
    a
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
