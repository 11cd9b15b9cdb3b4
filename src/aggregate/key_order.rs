//! The order that group keys have to come in.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Datum, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::{gt, lt};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::aggregates::AggregateExec;

use crate::false_order::FalseOrder;

/// The order that the keys of a table have to come in: what comes in another is no group by itself.
#[derive(Debug, Clone)]
pub(crate) struct KeyOrder {
    table: Arc<str>,
    /// The columns of the group key in the order that they are sorted by.
    columns: Arc<[KeyColumn]>,
}

#[derive(Debug)]
struct KeyColumn {
    index: usize,
    options: SortOptions,
    /// As in `ORDER BY`.
    shown: String,
}

impl KeyOrder {
    /// The order that the input of `aggregate`, rows of `table`, declares of its group key.
    pub(crate) fn of(aggregate: &AggregateExec, table: &Arc<str>) -> Result<Self> {
        let keys = aggregate.group_expr().input_exprs();
        let properties = aggregate.input().equivalence_properties();
        let (sorts, indices) = properties.find_longest_permutation(&keys)?;
        let columns = sorts.into_iter().zip(indices);
        let columns = columns.map(|(sort, index)| KeyColumn {
            index,
            options: sort.options,
            shown: sort.to_string(),
        });
        Ok(Self {
            table: Arc::clone(table),
            columns: columns.collect(),
        })
    }

    /// The indices of the columns, and how each is sorted.
    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, SortOptions)> {
        self.columns
            .iter()
            .map(|column| (column.index, column.options))
    }

    /// The error that the key in `row` of `after` comes after that in `row` of `before`.
    pub(super) fn broken(
        &self,
        before: &RecordBatch,
        after: &RecordBatch,
        row: usize,
    ) -> Result<FalseOrder> {
        let key = |rows: &RecordBatch| {
            let columns = self.columns.iter();
            let values = columns.map(|column| {
                let value = ScalarValue::try_from_array(rows.column(column.index), row)?;
                Ok(value.to_string())
            });
            Ok::<_, datafusion::common::DataFusionError>(
                values.collect::<Result<Vec<_>>>()?.join(", "),
            )
        };
        let order: Vec<_> = self.columns.iter().map(|column| &*column.shown).collect();
        Ok(FalseOrder {
            table: Arc::clone(&self.table),
            order: order.join(", "),
            rows: format!(
                "of rows that are grouped by it, ({}) comes right after ({}); SortedListingTable::verify names the file",
                key(after)?,
                key(before)?
            ),
        })
    }
}

/// Where a value of `after` belongs before that of `before`.
pub(super) fn descends(
    before: &ArrayRef,
    after: &ArrayRef,
    options: SortOptions,
) -> Result<BooleanBuffer> {
    let (left, right): (&dyn Datum, &dyn Datum) = (before, after);
    let compared = match options.descending {
        false => gt(left, right)?,
        true => lt(left, right)?,
    };
    // NULL where one of them is NULL.
    let of_values = match compared.nulls() {
        Some(known) => compared.values() & known.inner(),
        None => compared.values().clone(),
    };
    let validity = |array: &ArrayRef| match array.logical_nulls() {
        Some(nulls) => nulls.into_inner(),
        None => BooleanBuffer::new_set(array.len()),
    };
    if before.logical_null_count() + after.logical_null_count() == 0 {
        return Ok(of_values);
    }
    let (before, after) = (validity(before), validity(after));
    let of_nulls = match options.nulls_first {
        true => &before & &!&after,
        false => &!&before & &after,
    };
    Ok(&of_values | &of_nulls)
}
