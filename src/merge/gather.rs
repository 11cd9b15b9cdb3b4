//! Batches of merged rows.

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use datafusion::common::Result;

use super::stretch::{Merged, Source};

/// Puts rows into batches: long stretches as slices of their batches, others copied into batches of their own.
#[derive(Debug)]
pub(super) struct Gather<'a> {
    batch_size: usize,
    /// The rows that are still asked for.
    left: usize,
    /// The batches that gathered rows are of.
    batches: Vec<&'a RecordBatch>,
    /// For each source, its batch among them.
    of_source: Vec<Option<usize>>,
    /// Batch and row of each gathered row.
    rows: Vec<(usize, usize)>,
    merged: Merged,
}

impl<'a> Gather<'a> {
    pub(super) fn new(batch_size: usize, limit: usize) -> Self {
        Self {
            batch_size,
            left: limit,
            batches: vec![],
            of_source: vec![],
            rows: vec![],
            merged: Merged::default(),
        }
    }

    /// Goes on with other sources.
    pub(super) fn begin(&mut self, sources: usize) {
        self.of_source.clear();
        self.of_source.resize(sources, None);
    }

    /// Adds `len` rows of `source`, the one with this index, from `start` on.
    pub(super) fn push(
        &mut self,
        index: usize,
        source: &'a Source,
        start: usize,
        len: usize,
    ) -> Result<()> {
        let len = len.min(self.left);
        self.left -= len;
        if passes(len, self.batch_size) {
            self.flush()?;
            self.merged.batches.push(source.batch.slice(start, len));
            return Ok(());
        }
        let batch = *self.of_source[index].get_or_insert_with(|| {
            self.batches.push(&source.batch);
            self.batches.len() - 1
        });
        self.rows
            .extend((start..start + len).map(|row| (batch, row)));
        self.merged.gathered += len;
        if self.rows.len() >= self.batch_size {
            self.flush()?;
        }
        Ok(())
    }

    /// Makes a batch of what was gathered.
    fn flush(&mut self) -> Result<()> {
        if !self.rows.is_empty() {
            gather(&self.batches, &self.rows, &mut self.merged.batches)?;
            self.rows.clear();
            self.batches.clear();
            self.of_source.fill(None);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Merged> {
        self.flush()?;
        Ok(self.merged)
    }
}

/// Whether so many rows of one batch are not worth to be copied.
pub(super) fn passes(rows: usize, batch_size: usize) -> bool {
    rows >= batch_size.div_ceil(2)
}

/// Gathers `rows` into one batch; into several if their strings are too long for one.
fn gather(
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    ready: &mut Vec<RecordBatch>,
) -> Result<()> {
    match interleave_record_batch(batches, rows) {
        Ok(batch) => ready.push(batch),
        Err(ArrowError::OffsetOverflowError(_)) if rows.len() > 1 => {
            let (first, second) = rows.split_at(rows.len() / 2);
            gather(batches, first, ready)?;
            gather(batches, second, ready)?;
        }
        Err(e) => return Err(e.into()),
    }
    Ok(())
}
