//! Batches of merged rows.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use datafusion::common::Result;

/// Rows on their way out: long stretches as slices of their batches, others gathered into batches of their own.
#[derive(Debug)]
pub(super) struct Output {
    batch_size: usize,
    /// The rows that are still asked for.
    left: usize,
    /// The batches that gathered rows are of.
    batches: Vec<RecordBatch>,
    /// For each run, its batch among them.
    of_run: Vec<Option<usize>>,
    /// Batch and row of each gathered row.
    rows: Vec<(usize, usize)>,
    ready: VecDeque<RecordBatch>,
    /// The rows that were gathered in all.
    gathered: usize,
}

impl Output {
    pub(super) fn new(runs: usize, batch_size: usize, fetch: Option<usize>) -> Self {
        Self {
            batch_size: batch_size.max(1),
            left: fetch.unwrap_or(usize::MAX),
            batches: vec![],
            of_run: vec![None; runs],
            rows: vec![],
            ready: VecDeque::new(),
            gathered: 0,
        }
    }

    /// Whether all rows that are asked for have been added.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Adds a batch as it is.
    pub(super) fn push_whole(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows().min(self.left);
        self.left -= rows;
        self.ready.push_back(batch.slice(0, rows));
    }

    /// Adds `len` rows of `batch`, which is the one that `run` is at.
    pub(super) fn push(
        &mut self,
        run: usize,
        batch: &RecordBatch,
        start: usize,
        len: usize,
    ) -> Result<()> {
        let len = len.min(self.left);
        self.left -= len;
        if len >= self.batch_size.div_ceil(2) {
            self.flush()?;
            self.ready.push_back(batch.slice(start, len));
            return Ok(());
        }
        let index = *self.of_run[run].get_or_insert_with(|| {
            self.batches.push(batch.clone());
            self.batches.len() - 1
        });
        self.rows
            .extend((start..start + len).map(|row| (index, row)));
        self.gathered += len;
        if self.rows.len() >= self.batch_size || self.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// The batch that `run` is at has ended.
    pub(super) fn end_batch(&mut self, run: usize) {
        self.of_run[run] = None;
    }

    /// Makes a batch of what was gathered.
    pub(super) fn flush(&mut self) -> Result<()> {
        if !self.rows.is_empty() {
            let batches: Vec<_> = self.batches.iter().collect();
            gather(&batches, &self.rows, &mut self.ready)?;
            self.rows.clear();
            self.batches.clear();
            self.of_run.fill(None);
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.batches.clear();
        self.of_run.fill(None);
        self.ready.clear();
    }

    /// Whether there is nothing to pop.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    /// The rows gathered since the last call.
    pub(super) fn take_gathered(&mut self) -> usize {
        std::mem::take(&mut self.gathered)
    }
}

/// Gathers `rows` into one batch; into several if their strings are too long for one.
fn gather(
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    ready: &mut VecDeque<RecordBatch>,
) -> Result<()> {
    match interleave_record_batch(batches, rows) {
        Ok(batch) => ready.push_back(batch),
        Err(ArrowError::OffsetOverflowError(_)) if rows.len() > 1 => {
            let (first, second) = rows.split_at(rows.len() / 2);
            gather(batches, first, ready)?;
            gather(batches, second, ready)?;
        }
        Err(e) => return Err(e.into()),
    }
    Ok(())
}
