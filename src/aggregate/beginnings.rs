//! Where groups begin.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::array::{BooleanBufferBuilder, Datum};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{FilterBuilder, SortOptions};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};

use super::key_order::{KeyOrder, descends};

/// The rows of a batch that begin a group: those whose key is not that of the row before.
pub(super) struct Beginnings {
    /// Whether the first row does, rather than going on with the group before.
    pub(super) first: bool,
    /// The same of the others.
    others: BooleanBuffer,
    /// How many there are.
    pub(super) count: usize,
}

impl Beginnings {
    /// Those of one row or more with these `keys`, where `before` is the key of the row before, if there is one.
    ///
    /// # Errors
    /// If a key comes after one that belongs behind it in `order`.
    pub(super) fn of(
        keys: &RecordBatch,
        before: Option<&RecordBatch>,
        order: Option<&KeyOrder>,
    ) -> Result<Self> {
        let others = keys.num_rows() - 1;
        let first = match before {
            None => true,
            Some(before) => differing(before, &keys.slice(0, 1), order)?.value(0),
        };
        let others = differing(&keys.slice(0, others), &keys.slice(1, others), order)?;
        Ok(Self {
            first,
            count: usize::from(first) + others.count_set_bits(),
            others,
        })
    }

    fn rows(&self) -> usize {
        self.others.len() + 1
    }

    /// Puts the number of the group of each row into `numbers`, where there were `before` groups.
    pub(super) fn number(&self, before: usize, numbers: &mut Vec<usize>) {
        let rows = self.rows();
        let mut group = match self.first {
            true => before,
            // Then there is one that it goes on with.
            false => before.saturating_sub(1),
        };
        numbers.clear();
        if self.count + usize::from(!self.first) == rows {
            numbers.extend(group..group + rows);
            return;
        }
        let mut begin = 0;
        for row in self.others.set_indices().map(|other| other + 1) {
            numbers.extend(repeat_n(group, row - begin));
            begin = row;
            group += 1;
        }
        numbers.extend(repeat_n(group, rows - begin));
    }

    /// The keys of the groups that begin.
    pub(super) fn keys(&self, keys: &RecordBatch) -> Result<RecordBatch> {
        let goes_on = usize::from(!self.first);
        if self.count + goes_on == self.rows() {
            return Ok(keys.slice(goes_on, self.count));
        }
        let mut begins = BooleanBufferBuilder::new(self.rows());
        begins.append(self.first);
        begins.append_buffer(&self.others);
        let filter = FilterBuilder::new(&BooleanArray::new(begins.finish(), None)).optimize();
        let columns = filter.build().filter_record_batch(keys)?;
        // A few keys do not keep the text of all rows.
        let columns = columns.columns().iter().map(compacted).collect();
        Ok(RecordBatch::try_new(keys.schema(), columns)?)
    }
}

/// Where rows of `before` and of `after` differ. NULL is equal to NULL.
///
/// # Errors
/// If one of `after` belongs before its partner in `order`.
fn differing(
    before: &RecordBatch,
    after: &RecordBatch,
    order: Option<&KeyOrder>,
) -> Result<BooleanBuffer> {
    let mut all = BooleanBuffer::new_unset(before.num_rows());
    let mut compare = |index: usize, options: Option<SortOptions>| {
        let (left, right) = (before.column(index), after.column(index));
        if let (Some(options), Some(order)) = (options, order) {
            // Rows that differ in a column before this one may come in any order of it.
            let descends = &descends(left, right, options)? & &!&all;
            if let Some(row) = descends.set_indices().next() {
                let broken = order.broken(before, after, row)?;
                return Err(DataFusionError::External(Box::new(broken)));
            }
        }
        let differing = distinct(left as &dyn Datum, right as &dyn Datum)?;
        all = &all | differing.values();
        Ok(())
    };
    match order {
        Some(order) => order
            .columns()
            .try_for_each(|(index, options)| compare(index, Some(options)))?,
        None => (0..before.num_columns()).try_for_each(|index| compare(index, None))?,
    }
    Ok(all)
}

/// Views without the buffers that they do not need.
fn compacted(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => ArrayRef::clone(column),
    }
}
