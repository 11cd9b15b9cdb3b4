//! Rows of several runs, put in order by themselves.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;

use super::gather::Gather;
use super::keys::BatchKeys;

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
/// O(n log sources), by a sort that finds what is in order already.
pub(super) fn merge(stretches: &[Stretch], batch_size: usize, limit: usize) -> Result<Merged> {
    let mut gather = Gather::new(batch_size, limit);
    let mut rows = vec![];
    for Stretch { sources } in stretches {
        gather.begin(sources.len());
        match &sources[..] {
            [source] => gather.push(0, source, source.rows.start, source.rows.len())?,
            sources => {
                rows.clear();
                put_in_order(sources, &mut rows);
                for same in rows.chunk_by(|a, b| a.source == b.source && a.row + 1 == b.row) {
                    let source = same[0].source as usize;
                    gather.push(source, &sources[source], same[0].row as usize, same.len())?;
                }
            }
        }
    }
    gather.finish()
}

/// A row of a source, with the beginning of its key.
struct Row {
    prefix: u128,
    source: u32,
    row: u32,
}

/// Fills `rows` with those of `sources` in order. Batches have far fewer rows than `u32::MAX`.
fn put_in_order(sources: &[Source], rows: &mut Vec<Row>) {
    for (number, source) in (0..).zip(sources) {
        let prefix = |row: usize| source.keys.as_ref().map_or(0, |keys| keys.prefix(row));
        rows.extend(source.rows.clone().map(|row| Row {
            prefix: prefix(row),
            source: number,
            row: row as u32,
        }));
    }
    // Stable, so that rows of one source with equal keys stay in their order.
    rows.sort_by(|a, b| match a.prefix.cmp(&b.prefix) {
        Ordering::Equal => by_whole_key(sources, a, b),
        order => order,
    });
}

fn by_whole_key(sources: &[Source], a: &Row, b: &Row) -> Ordering {
    let (from, other) = (&sources[a.source as usize], &sources[b.source as usize]);
    let keys = from.keys.as_ref().zip(other.keys.as_ref());
    keys.map_or(Ordering::Equal, |(keys, others)| {
        keys.get(a.row as usize).cmp(others.get(b.row as usize))
    })
    .then_with(|| from.place.cmp(&other.place))
}
