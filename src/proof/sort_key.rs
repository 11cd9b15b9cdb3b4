//! The sort key of a declared ordering, and what a file's footer proves of it.

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::column::column_bounds;
use super::lossless::{is_ordered, value_type};
use crate::layout::Bounds;

/// A sort key made of plain columns, ready to compare keys in their declared order.
#[derive(Debug)]
pub(crate) struct SortKey {
    columns: Vec<KeyColumn>,
    converter: RowConverter,
}

/// One column of a sort key.
#[derive(Debug)]
pub(super) struct KeyColumn {
    pub(super) name: String,
    /// The type of the table's column, without dictionary.
    pub(super) data_type: DataType,
    pub(super) options: SortOptions,
    /// The index of the Hive partition column it is, if it is not a column of the files.
    pub(super) partition: Option<usize>,
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
#[derive(Debug)]
pub(crate) struct KeyFacts {
    /// Where the keys of all rows lie, or why that is not known.
    pub(crate) bounds: Result<Bounds, Unknown>,
    /// For each column of the key, whether no row is NULL in it.
    pub(crate) null_free: Vec<bool>,
    /// Whether the row groups are proved to be a run in the order they are stored in.
    pub(crate) groups_in_order: bool,
}

impl KeyFacts {
    /// Nothing is known of the keys of a file, for the reason `why`.
    pub(crate) fn unknown(why: impl Into<Unknown>) -> Self {
        Self {
            bounds: Err(why.into()),
            null_free: vec![],
            groups_in_order: false,
        }
    }
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
            columns.push(KeyColumn {
                name: field.name().clone(),
                data_type,
                options: sort.options,
                partition: column.index().checked_sub(file_columns),
            });
        }
        let fields = columns
            .iter()
            .map(|column| SortField::new_with_options(column.data_type.clone(), column.options))
            .collect();
        let converter = RowConverter::new(fields).map_err(|e| e.to_string())?;
        Ok(Self { columns, converter })
    }

    /// What the footer of a file with rows proves of this key. O(row groups × columns of the key).
    ///
    /// The bounds of a compound key are row-wise: `(lower_a, lower_b) ≤ row ≤ (upper_a, upper_b)`, taken in each
    /// row group by itself, which is tighter than bounds of whole columns.
    pub(crate) fn facts(&self, file: FileView<'_>) -> KeyFacts {
        let groups: Vec<_> = file
            .footer
            .row_groups()
            .iter()
            .filter(|group| group.num_rows() != 0)
            .collect();
        let mut facts = self
            .try_facts(file, &groups)
            .unwrap_or_else(KeyFacts::unknown);
        facts.groups_in_order |= groups.len() < 2;
        facts
    }

    fn try_facts(
        &self,
        file: FileView<'_>,
        groups: &[&RowGroupMetaData],
    ) -> Result<KeyFacts, Unknown> {
        let mut lowers: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        let mut uppers = Vec::with_capacity(self.columns.len());
        let mut null_free = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let bounds = column_bounds(column, file, groups).map_err(|unknown| Unknown {
                why: format!("column \"{}\" {}", column.name, unknown.why),
                ..unknown
            })?;
            lowers.push(bounds.lower);
            uppers.push(bounds.upper);
            null_free.push(bounds.null_free);
        }
        let lowers = self
            .converter
            .convert_columns(&lowers)
            .map_err(|e| e.to_string())?;
        let uppers = self
            .converter
            .convert_columns(&uppers)
            .map_err(|e| e.to_string())?;
        let groups = lowers
            .iter()
            .zip(uppers.iter())
            .map(|(lower, upper)| Bounds::try_new(lower.data(), upper.data()))
            .collect::<Option<Vec<_>>>()
            .ok_or("the statistics put a minimum above its maximum")?;
        let groups_in_order = groups.windows(2).all(|pair| pair[0].ends_before(&pair[1]));
        let bounds = groups.into_iter().reduce(Bounds::union);
        Ok(KeyFacts {
            bounds: bounds.ok_or_else(|| "it has no rows".into()),
            null_free,
            groups_in_order,
        })
    }
}
