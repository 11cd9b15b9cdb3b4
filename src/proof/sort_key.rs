//! The sort key of a declared ordering, and what a file's footer proves of it.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::column::{ColumnBounds, column_bounds};
use super::contradiction::contradiction;
use super::lossless::{is_ordered, value_type};
use super::range::{ColumnRange, column_range};
use crate::layout::{Bounds, Key};

/// A sort key made of plain columns, ready to compare keys in their declared order.
#[derive(Debug)]
pub(crate) struct SortKey {
    pub(super) columns: Vec<KeyColumn>,
}

/// One column of a sort key.
#[derive(Debug)]
pub(super) struct KeyColumn {
    pub(super) name: String,
    /// The type of the table's column, without dictionary.
    pub(super) data_type: DataType,
    /// The type of the table's column.
    pub(super) table_type: DataType,
    pub(super) options: SortOptions,
    /// The index of the table's column.
    index: usize,
    /// The index of the Hive partition column it is, if it is not a column of the files.
    pub(super) partition: Option<usize>,
    /// The row format of a key is that of its columns, one after another.
    pub(super) converter: RowConverter,
}

/// A column of the key, and its bounds in each row group.
pub(super) struct BoundedColumn<'a> {
    pub(super) column: &'a KeyColumn,
    pub(super) bounds: ColumnBounds,
    pub(super) lower: Rows,
    pub(super) upper: Rows,
}

/// A file, as far as proofs look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileView<'a> {
    pub(crate) footer: &'a ParquetMetaData,
    /// The Arrow schema of the file, as its reader sees it.
    pub(crate) schema: &'a Schema,
    pub(crate) partition_values: &'a [ScalarValue],
    /// Whether an expression adapter of the user's decides how columns of the file become columns of the table.
    pub(crate) custom_adapter: bool,
}

/// Why nothing is known of the keys of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) why: String,
    /// Whether the rows of the file may be in another order than is declared, although they are in order as stored.
    pub(crate) may_be_reordered: bool,
}

impl<S: Into<String>> From<S> for Unknown {
    fn from(why: S) -> Self {
        Self {
            why: why.into(),
            may_be_reordered: false,
        }
    }
}

/// What a file's footer proves of a sort key.
#[derive(Debug, Clone)]
pub(crate) struct KeyFacts {
    /// Where the keys of all rows lie, or why that is not known.
    pub(crate) bounds: Result<Bounds, Unknown>,
    /// For each column of the key, whether no row is NULL in it.
    pub(crate) null_free: Arc<[bool]>,
    /// Where the keys of each row group lie that has rows, if that is known.
    pub(crate) groups: Arc<[GroupBounds]>,
    /// Whether the row groups are proved to be a run in the order they are stored in.
    pub(crate) groups_in_order: bool,
    /// What proves that the rows of the file are not in order, if something does.
    pub(crate) contradiction: Option<String>,
}

/// Where the keys of a row group lie.
#[derive(Debug)]
pub(crate) struct GroupBounds {
    /// The index of the row group in its file.
    pub(crate) group: usize,
    pub(crate) bounds: Bounds,
}

impl KeyFacts {
    /// Nothing is known of the keys of a file, for the reason `why`.
    pub(crate) fn unknown(why: impl Into<Unknown>) -> Self {
        Self {
            bounds: Err(why.into()),
            null_free: Arc::new([]),
            groups: Arc::new([]),
            groups_in_order: false,
            contradiction: None,
        }
    }

    /// The same of a key that is some of the columns of this one, in the order they have here.
    ///
    /// A contradiction in a column is one of rows that are equal in the columns before it. So none is known of the
    /// columns that are left.
    pub(crate) fn of_columns(&self, columns: &[usize]) -> Self {
        let of_group = |group: &GroupBounds| {
            Some(GroupBounds {
                group: group.group,
                bounds: group.bounds.of_columns(columns)?,
            })
        };
        let groups = self.groups.iter().map(of_group);
        let groups: Vec<_> = groups.collect::<Option<_>>().unwrap_or_default();
        let whole = groups.iter().map(|group| group.bounds.clone());
        let null_free = |&column: &usize| self.null_free.get(column).copied().unwrap_or(false);
        Self {
            bounds: match &self.bounds {
                Ok(_) => whole
                    .reduce(Bounds::union)
                    .ok_or_else(|| "its bounds contradict each other".into()),
                Err(unknown) => Err(unknown.clone()),
            },
            null_free: columns.iter().map(null_free).collect(),
            groups_in_order: in_order(&groups) && (!groups.is_empty() || self.groups_in_order),
            contradiction: None,
            groups: groups.into(),
        }
    }
}

/// Whether row groups are a run in the order they are stored in.
fn in_order(groups: &[GroupBounds]) -> bool {
    let in_order = |pair: &[GroupBounds]| pair[0].bounds.ends_before(&pair[1].bounds);
    groups.windows(2).all(in_order)
}

impl SortKey {
    /// The key of `ordering`, whose columns are those of `table`; or why nothing can be proved of such a key.
    pub(crate) fn try_new(ordering: &LexOrdering, table: &TableSchema) -> Result<Self, String> {
        let file_columns = table.file_schema().fields().len();
        let mut columns = Vec::with_capacity(ordering.len());
        for sort in ordering {
            let Some(column) = sort.expr.downcast_ref::<Column>() else {
                return Err(format!(
                    "the declared order is on the expression {}, and bounds are known of columns only",
                    sort.expr
                ));
            };
            let field = table.table_schema().field(column.index());
            let data_type = value_type(field.data_type()).clone();
            if !is_ordered(&data_type) {
                return Err(format!(
                    "column \"{}\" is of type {data_type}, whose values have no bounds",
                    field.name()
                ));
            }
            let sort_field = SortField::new_with_options(data_type.clone(), sort.options);
            columns.push(KeyColumn {
                name: field.name().clone(),
                data_type,
                table_type: field.data_type().clone(),
                options: sort.options,
                index: column.index(),
                partition: column.index().checked_sub(file_columns),
                converter: RowConverter::new(vec![sort_field]).map_err(|e| e.to_string())?,
            });
        }
        Ok(Self { columns })
    }

    /// Whether some of the first `columns` columns is of floats.
    pub(crate) fn has_float(&self, columns: usize) -> bool {
        let columns = self.columns.iter().take(columns);
        columns
            .map(|column| &column.data_type)
            .any(|data_type| data_type.is_floating())
    }

    /// What the footer of a file with rows proves of this key. O(row groups × columns of the key).
    ///
    /// The bounds of a compound key are row-wise: `(lower_a, lower_b) ≤ row ≤ (upper_a, upper_b)`, taken in each
    /// row group by itself, which is tighter than bounds of whole columns.
    pub(crate) fn facts(&self, file: FileView<'_>) -> KeyFacts {
        let (indices, groups): (Vec<_>, Vec<_>) = file
            .footer
            .row_groups()
            .iter()
            .enumerate()
            .filter(|(_, group)| group.num_rows() != 0)
            .unzip();
        let mut facts = self
            .try_facts(file, &indices, &groups)
            .unwrap_or_else(KeyFacts::unknown);
        facts.groups_in_order |= groups.len() < 2;
        facts
    }

    /// The ranges of the columns of this key that are columns of files, by the index of the table's column.
    pub(crate) fn ranges(&self, file: FileView<'_>) -> Vec<(usize, ColumnRange)> {
        let groups: Vec<_> = file
            .footer
            .row_groups()
            .iter()
            .filter(|group| group.num_rows() != 0)
            .collect();
        self.columns
            .iter()
            .filter(|column| column.partition.is_none())
            .map(|column| (column.index, column_range(column, file, &groups)))
            .collect()
    }

    fn try_facts(
        &self,
        file: FileView<'_>,
        indices: &[usize],
        groups: &[&RowGroupMetaData],
    ) -> Result<KeyFacts, Unknown> {
        let columns = self
            .columns
            .iter()
            .map(|column| BoundedColumn::try_new(column, file, groups))
            .collect::<Result<Vec<_>, _>>()?;
        let bounds = |place: usize| {
            Bounds::try_new(
                Key::new(columns.iter().map(|column| column.lower.row(place).data())),
                Key::new(columns.iter().map(|column| column.upper.row(place).data())),
            )
        };
        let groups = indices
            .iter()
            .enumerate()
            .map(|(place, &group)| {
                Some(GroupBounds {
                    group,
                    bounds: bounds(place)?,
                })
            })
            .collect::<Option<Vec<_>>>()
            .ok_or("the statistics put a minimum above its maximum")?;
        let whole = groups.iter().map(|group| group.bounds.clone());
        Ok(KeyFacts {
            bounds: whole
                .reduce(Bounds::union)
                .ok_or_else(|| "it has no rows".into()),
            null_free: columns
                .iter()
                .map(|column| column.bounds.null_free)
                .collect(),
            groups_in_order: in_order(&groups),
            contradiction: contradiction(&columns, indices),
            groups: groups.into(),
        })
    }
}

impl<'a> BoundedColumn<'a> {
    fn try_new(
        column: &'a KeyColumn,
        file: FileView<'_>,
        groups: &[&RowGroupMetaData],
    ) -> Result<Self, Unknown> {
        let bounds = column_bounds(column, file, groups).map_err(|unknown| Unknown {
            why: format!("column \"{}\" {}", column.name, unknown.why),
            ..unknown
        })?;
        let rows = |array: &ArrayRef| {
            let columns = [Arc::clone(array)];
            column
                .converter
                .convert_columns(&columns)
                .map_err(|e| e.to_string())
        };
        Ok(Self {
            lower: rows(&bounds.lower)?,
            upper: rows(&bounds.upper)?,
            column,
            bounds,
        })
    }
}
