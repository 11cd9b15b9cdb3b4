//! Sorted output of the partitions of a plan, read ahead: one after another, and merged where they overlap.

mod exec;
mod inputs;
mod read_ahead;
mod scan;
mod stream;

use std::sync::Arc;

use datafusion::physical_expr::LexOrdering;

pub use exec::SequenceExec;

use crate::layout::Bounds;
use crate::merge::MergeKey;

/// How the partitions of a plan overlap.
#[derive(Debug, Clone)]
pub(crate) struct Overlap {
    /// What rows are compared by.
    pub(crate) key: MergeKey,
    /// The partitions of each run, in order.
    pub(crate) runs: Arc<[Vec<usize>]>,
    /// For each partition, its place in the order of equal keys.
    pub(crate) places: Arc<[usize]>,
    /// Where the keys of each partition lie. Partitions are numbered about in the order in which they begin.
    pub(crate) bounds: Arc<[Option<Bounds>]>,
    /// For each partition, how many bytes may be decoded at once that its reader would hold otherwise.
    pub(crate) at_once: Arc<[u64]>,
}

impl Overlap {
    /// The same, compared by other expressions of the same values.
    fn with_ordering(&self, ordering: LexOrdering) -> Self {
        Self {
            key: self.key.with_ordering(ordering),
            ..self.clone()
        }
    }
}
