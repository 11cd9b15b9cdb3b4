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

    /// Adds `rows` of `sources`: the number of a source, and a row of it.
    pub(super) fn push(&mut self, sources: &'a [Source], rows: &[(usize, usize)]) -> Result<()> {
        let rows = &rows[..rows.len().min(self.left)];
        self.left -= rows.len();
        let may_pass = |source: &Source| passes(source.rows.len(), self.batch_size);
        if !sources.iter().any(may_pass) {
            return self.copy(sources, rows);
        }
        let mut done = 0;
        let mut at = 0;
        for adjacent in rows.chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1) {
            let before = done..at;
            at += adjacent.len();
            if passes(adjacent.len(), self.batch_size) {
                self.copy(sources, &rows[before])?;
                self.flush()?;
                let (source, start) = adjacent[0];
                let rows = sources[source].batch.slice(start, adjacent.len());
                self.merged.batches.push(rows);
                done = at;
            }
        }
        self.copy(sources, &rows[done..])
    }

    /// Adds rows to be copied.
    fn copy(&mut self, sources: &'a [Source], mut rows: &[(usize, usize)]) -> Result<()> {
        self.merged.gathered += rows.len();
        while !rows.is_empty() {
            let room = self.batch_size - self.rows.len();
            let (now, later) = rows.split_at(rows.len().min(room));
            let mut of_source = vec![None; sources.len()];
            let now = now.iter().map(|&(source, row)| {
                let batch = *of_source[source].get_or_insert_with(|| {
                    self.batches.push(&sources[source].batch);
                    self.batches.len() - 1
                });
                (batch, row)
            });
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn source(keys: &[i64], place: usize) -> Source {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let batch = RecordBatch::try_from_iter([("k", keys)]).unwrap();
        Source {
            rows: 0..batch.num_rows(),
            batch,
            keys: None,
            place,
        }
    }

    #[test]
    fn a_limit_ends_in_a_batch_that_is_not_empty() {
        let keys = [vec![0, 2, 4, 100], vec![1, 3, 5, 6, 7, 8, 9, 10]];
        let sources = [source(&keys[0], 0), source(&keys[1], 1)];
        let places =
            (0..2).flat_map(|source| (0..keys[source].len()).map(move |row| (source, row)));
        let mut rows: Vec<_> = places.collect();
        rows.sort_by_key(|&(source, row)| keys[source][row]);
        for limit in 0..=12 {
            let mut gather = Gather::new(8, limit);
            gather.push(&sources, &rows).unwrap();
            let batches = gather.finish().unwrap().batches;
            assert!(batches.iter().all(|batch| batch.num_rows() > 0), "{limit}");
            let found: Vec<_> = batches
                .iter()
                .flat_map(|batch| {
                    batch
                        .column(0)
                        .as_primitive::<Int64Type>()
                        .values()
                        .to_vec()
                })
                .collect();
            let all: Vec<_> = (0..=10).chain([100]).collect();
            assert_eq!(found, all[..limit]);
        }
    }
}
