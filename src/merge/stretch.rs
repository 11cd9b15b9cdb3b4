//! Rows of several runs, put in order by themselves.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;

use super::gather::Gather;
use super::keys::BatchKeys;
use super::order::in_order;

/// All the rows that come between two moments of a merge. None of its other rows comes in between, so that they can be
/// put in order at any time, and on any core.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) sources: Vec<Source>,
}

/// The rows of one run.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) batch: RecordBatch,
    /// The keys of the batch, if there are other sources.
    pub(super) keys: Option<Arc<BatchKeys>>,
    pub(super) rows: Range<usize>,
    pub(super) place: usize,
}

/// Rows in order.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) batches: Vec<RecordBatch>,
    /// How many of them were copied.
    pub(super) gathered: usize,
}

impl Stretch {
    pub(super) fn rows(&self) -> usize {
        self.sources.iter().map(|source| source.rows.len()).sum()
    }
}

/// The first `limit` rows of `stretches`, which come one after another, in batches of about `batch_size` rows.
///
/// See [`in_order`] for the complexity.
pub(super) fn merge(stretches: &[Stretch], batch_size: usize, limit: usize) -> Result<Merged> {
    let mut gather = Gather::new(batch_size, limit);
    for Stretch { sources } in stretches {
        let rows = match &sources[..] {
            // It has no keys.
            [source] => source.rows.clone().map(|row| (0, row)).collect(),
            sources => in_order(sources)?,
        };
        gather.push(sources, &rows)?;
    }
    gather.finish()
}
