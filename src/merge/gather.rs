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
            rows: vec![],
            merged: Merged::default(),
        }
    }

    /// Adds the rows of one source.
    pub(super) fn push(&mut self, source: &'a Source) -> Result<()> {
        let len = source.rows.len().min(self.left);
        if passes(len, self.batch_size) {
            return self.pass(source, source.rows.start, len);
        }
        let rows: Vec<_> = source.rows.clone().map(|row| (0, row)).collect();
        self.copy(std::slice::from_ref(source), &rows)
    }

    /// Adds `rows` of `sources`: the number of a source, and a row of it.
    pub(super) fn push_all(
        &mut self,
        sources: &'a [Source],
        rows: &[(usize, usize)],
    ) -> Result<()> {
        let may_pass = |source: &Source| passes(source.rows.len(), self.batch_size);
        if !sources.iter().any(may_pass) {
            return self.copy(sources, rows);
        }
        let mut done = 0;
        let mut at = 0;
        for adjacent in rows.chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1) {
            let (source, start) = adjacent[0];
            if passes(adjacent.len().min(self.left), self.batch_size) {
                self.copy(sources, &rows[done..at])?;
                self.pass(&sources[source], start, adjacent.len().min(self.left))?;
                done = at + adjacent.len();
            }
            at += adjacent.len();
        }
        self.copy(sources, &rows[done..])
    }

    /// Adds adjacent rows as they are.
    fn pass(&mut self, source: &Source, start: usize, len: usize) -> Result<()> {
        self.flush()?;
        self.left -= len;
        self.merged.batches.push(source.batch.slice(start, len));
        Ok(())
    }

    /// Adds rows to be copied.
    fn copy(&mut self, sources: &'a [Source], rows: &[(usize, usize)]) -> Result<()> {
        let mut rows = &rows[..rows.len().min(self.left)];
        self.left -= rows.len();
        self.merged.gathered += rows.len();
        while !rows.is_empty() {
            let room = self.batch_size - self.rows.len();
            let (now, later) = rows.split_at(rows.len().min(room));
            let first = self.batches.len();
            self.batches
                .extend(sources.iter().map(|source| &source.batch));
            let now = now.iter().map(|&(source, row)| (first + source, row));
            self.rows.extend(now);
            if self.rows.len() == self.batch_size {
                self.flush()?;
            }
            rows = later;
        }
        Ok(())
    }

    /// Makes a batch of what was gathered.
    fn flush(&mut self) -> Result<()> {
        if !self.rows.is_empty() {
            gather(&self.batches, &self.rows, &mut self.merged.batches)?;
            self.rows.clear();
            self.batches.clear();
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
