//! Columns of a manifest, by name.

use std::any::type_name;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_datafusion_err, internal_datafusion_err};

/// Arrays of the same length, by name.
#[derive(Debug, Default)]
pub(super) struct Columns(BTreeMap<String, ArrayRef>);

impl Columns {
    pub(super) fn put(&mut self, name: impl Into<String>, array: ArrayRef) {
        self.0.insert(name.into(), array);
    }

    /// These columns with another one.
    pub(super) fn with(mut self, name: &str, array: impl Array + 'static) -> Self {
        self.put(name, Arc::new(array));
        self
    }

    fn fields(&self) -> Fields {
        let columns = self.0.iter();
        columns
            .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
            .collect()
    }

    pub(super) fn into_batch(self) -> Result<RecordBatch> {
        let columns = self.0.into_iter().map(|(name, array)| (name, array, true));
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }

    pub(super) fn of_batch(batch: &RecordBatch) -> Self {
        Self::of(batch.schema().fields(), batch.columns())
    }

    fn of(fields: &Fields, arrays: &[ArrayRef]) -> Self {
        let names = fields.iter().map(|field| field.name().clone());
        Self(names.zip(arrays.iter().cloned()).collect())
    }

    /// One column of lists, of which each takes as many of these rows as `lengths` says.
    pub(super) fn into_lists(self, lengths: impl IntoIterator<Item = usize>) -> Result<ListArray> {
        let fields = self.fields();
        let item = Field::new_list_field(DataType::Struct(fields.clone()), true);
        let rows = StructArray::try_new(fields, self.0.into_values().collect(), None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(ListArray::try_new(
            Arc::new(item),
            offsets,
            Arc::new(rows),
            None,
        )?)
    }

    /// The rows that a column of lists is made of, and which of them each list takes.
    pub(super) fn lists(&self, name: &str) -> Result<(Vec<Range<usize>>, Self)> {
        let lists: &ListArray = self.need(name)?;
        let rows = lists.values().as_any().downcast_ref::<StructArray>();
        let rows = rows.ok_or_else(|| exec_datafusion_err!("\"{name}\" is of other lists"))?;
        let bounds = lists.offsets().windows(2);
        let ranges = bounds.map(|pair| pair[0] as usize..pair[1] as usize);
        Ok((ranges.collect(), Self::of(rows.fields(), rows.columns())))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn get(&self, name: &str) -> Option<&ArrayRef> {
        self.0.get(name)
    }

    /// # Errors
    /// If there is no such column, or it is not of type `A`.
    pub(super) fn need<A: Array + 'static>(&self, name: &str) -> Result<&A> {
        let array = self
            .get(name)
            .ok_or_else(|| exec_datafusion_err!("it has no column \"{name}\""))?;
        array
            .as_any()
            .downcast_ref()
            .ok_or_else(|| exec_datafusion_err!("\"{name}\" is no {}", type_name::<A>()))
    }
}

/// A number as the column of a manifest holds it.
pub(super) fn to_u32(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| internal_datafusion_err!("{number} is too large"))
}
