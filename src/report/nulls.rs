//! The NULLs of key columns.

use std::ops::Range;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::scan::Unit;
use crate::sizes;

/// Counts the NULLs of the columns of a key by the statistics of row groups.
pub(super) struct NullCounter {
    /// `None` if the key is not of columns, or what its columns are is up to an adapter of the user's.
    columns: Option<Vec<CountedColumn>>,
}

enum CountedColumn {
    /// A column of the files.
    File(String),
    /// The index of a Hive partition column.
    Partition(usize),
}

impl NullCounter {
    pub(super) fn new(ordering: Option<&LexOrdering>, scan: &FileScanConfig) -> Self {
        let file_columns = scan.file_schema().fields().len();
        let columns = ordering.filter(|_| scan.expr_adapter_factory.is_none());
        let counted = |ordering: &LexOrdering| {
            let column = |column: &Column| match column.index().checked_sub(file_columns) {
                Some(partition) => CountedColumn::Partition(partition),
                None => CountedColumn::File(column.name().to_owned()),
            };
            let columns = ordering
                .iter()
                .map(|sort| sort.expr.downcast_ref::<Column>());
            columns
                .map(|found| found.map(column))
                .collect::<Option<Vec<_>>>()
        };
        Self {
            columns: columns.and_then(counted),
        }
    }

    /// How many values of the key columns are NULL in some row groups of a unit's file, if that is known.
    pub(super) fn count(&self, unit: &Unit, groups: Option<&Range<usize>>) -> Option<u64> {
        let footer = unit.facts.footer.as_ref()?.whole()?;
        let groups = footer.row_groups().get(groups?.clone())?;
        let columns = self.columns.as_ref()?.iter();
        columns
            .map(|column| match column {
                CountedColumn::File(name) => {
                    let leaf = leaf_of(footer, name);
                    groups.iter().map(|group| nulls_of(group, leaf)).sum()
                }
                CountedColumn::Partition(partition) => {
                    match unit.file.partition_values.get(*partition)?.is_null() {
                        true => Some(groups.iter().map(sizes::rows).sum()),
                        false => Some(0),
                    }
                }
            })
            .sum()
    }
}

/// The place of a column that is not nested among the leaves of a file.
fn leaf_of(footer: &ParquetMetaData, name: &str) -> Option<usize> {
    let columns = footer.file_metadata().schema_descr().columns();
    let is_it = |path: &[String]| matches!(path, [column] if column == name);
    columns
        .iter()
        .position(|column| is_it(column.path().parts()))
}

/// The NULLs of a row group in a column, which are all of its rows if the file does not have the column.
fn nulls_of(group: &RowGroupMetaData, leaf: Option<usize>) -> Option<u64> {
    let rows = sizes::rows(group);
    let Some(leaf) = leaf else { return Some(rows) };
    let column = group.columns().get(leaf)?;
    if column.column_descr().max_def_level() == 0 {
        return Some(0);
    }
    let nulls = column.statistics()?.null_count_opt()?;
    (nulls <= rows).then_some(nulls)
}
