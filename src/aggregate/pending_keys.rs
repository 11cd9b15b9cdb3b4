//! The keys of groups that are not given out yet.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;

/// Keys in pieces, as batches brought them: mostly they are given out as they came.
pub(super) struct PendingKeys {
    schema: SchemaRef,
    pieces: Vec<RecordBatch>,
    /// How many there are.
    pub(super) count: usize,
    /// The bytes that the pieces keep in memory.
    pub(super) bytes: usize,
}

impl PendingKeys {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            pieces: vec![],
            count: 0,
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, keys: RecordBatch) {
        if keys.num_rows() > 0 {
            self.count += keys.num_rows();
            self.bytes += RecordBatchMemoryCounter::new().count_batch(&keys);
            self.pieces.push(keys);
        }
    }

    /// The last key, as a batch of one row.
    pub(super) fn last(&self) -> Option<RecordBatch> {
        let piece = self.pieces.last()?;
        Some(piece.slice(piece.num_rows() - 1, 1))
    }

    /// Takes out the first `count` keys.
    pub(super) fn take(&mut self, count: usize) -> Result<RecordBatch> {
        let keys = match &self.pieces[..] {
            [piece] => piece.clone(),
            pieces => joined(&self.schema, pieces)?,
        };
        self.pieces.clear();
        self.count = 0;
        self.bytes = 0;
        self.push(keys.slice(count, keys.num_rows() - count));
        Ok(keys.slice(0, count))
    }
}

/// All rows of `pieces`. Dictionaries are made anew: joined as they are, they may have more values than there are keys.
fn joined(schema: &SchemaRef, pieces: &[RecordBatch]) -> Result<RecordBatch> {
    let fields = schema.fields().iter();
    if !fields.clone().any(|field| is_dictionary(field.data_type())) {
        return Ok(concat_batches(schema, pieces)?);
    }
    let fields = fields.map(|field| match field.data_type() {
        DataType::Dictionary(_, values) => {
            let values = DataType::clone(values);
            Arc::new(Field::new(field.name(), values, true))
        }
        _ => Arc::clone(field),
    });
    let plain = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| cast_to(piece, &plain))
        .collect::<Result<_>>()?;
    cast_to(&concat_batches(&plain, &pieces)?, schema)
}

pub(super) fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

fn cast_to(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
