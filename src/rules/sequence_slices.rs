//! The optimizer rule that puts sequences into plans.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::chain::Chain;
use crate::scan::{InPieces, PieceSize, SortedScan, UnorderedScan};
use crate::sequence::{Overlap, SequenceExec};

/// Reads slices as a [`SequenceExec`] of small pieces, in place of a merge.
///
/// It replaces a [`SortPreservingMergeExec`] over a [`SortedScan`], and a scan of one slice, seen through nodes that keep
/// partitions and order. Pieces that overlap are in several runs, whose rows are compared where they do. The slices are cut into pieces of some row groups each, so that the
/// pieces that come next are decoded by other cores while one is emitted:
///
/// ```text
/// SortPreservingMergeExec: [ts@0 ASC]              SequenceExec: [ts@0 ASC], inputs=64
///   FilterExec: value@2 > 40                  →      FilterExec: value@2 > 40
///     DataSourceExec: SortedScan: slices=4, …          DataSourceExec: SortedScan: slices=64, …
/// ```
///
/// [`with_sorted_listing`] registers it after DataFusion's own rules. Without it, sorted tables are slower, and share a
/// fault of DataFusion 55.2: a merge by the beginning of an ordering is taken to keep all of it.
/// It may run anywhere after the distribution of the plan is settled, and any number of times.
///
/// [`with_sorted_listing`]: crate::SessionStateBuilderExt::with_sorted_listing
#[derive(Debug, Default)]
pub struct SequenceSlices {}

impl SequenceSlices {
    /// The rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for SequenceSlices {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sequencer = Sequencer {
            cores: config.execution.target_partitions as u64,
            may_cut: config.optimizer.repartition_file_scans,
        };
        plan.transform_down(|plan| {
            Ok(match sequencer.sequence(&plan)? {
                Some(sequence) => Transformed::yes(sequence),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "SequenceSlices"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// For each core. What is read ahead is about a piece for each core: this much less than the budget allows.
const PIECES_IN_BUDGET: u64 = 4;
/// Fewer would leave cores idle at the end of a scan.
const PIECES_PER_CORE: u64 = 4;
/// Each costs the opening of a file.
const MOST_PIECES: u64 = 4096;

/// A reader fetches what it reads of a row group at once, and holds it. Less than this is not worth another reader.
const LEAST_OF_ROW_GROUP: u64 = 4 << 20;

struct Sequencer {
    /// How many pieces are read at a time.
    cores: u64,
    /// Whether files may be cut.
    may_cut: bool,
}

impl Sequencer {
    /// The sequence that may take the place of `plan`.
    fn sequence(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match plan.downcast_ref::<SortPreservingMergeExec>() {
            Some(merge) => match self.in_place_of_merge(merge)? {
                None => with_whole_ordering(merge),
                sequence => Ok(sequence),
            },
            None if plan.output_partitioning().partition_count() == 1 => {
                self.in_place_of_slice(plan)
            }
            None => Ok(None),
        }
    }

    fn in_place_of_merge(
        &self,
        merge: &SortPreservingMergeExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // `PushdownSort` puts a buffer below a merge, whose work the sequence does.
        let below = match merge.input().downcast_ref::<BufferExec>() {
            Some(buffer) => buffer.input(),
            None => merge.input(),
        };
        let Some((chain, scan)) = sorted(below) else {
            return Ok(None);
        };
        // A limit of each slice is one of each piece only if it is not what limits the query.
        let limited_above = match (chain.fetch, merge.fetch()) {
            (None, _) => true,
            (Some(below), Some(above)) => above <= below && !chain.filters_limited_rows,
            (Some(_), None) => false,
        };
        if !limited_above {
            return Ok(None);
        }
        let ordering = merge.expr().clone();
        // Where there is nothing to cut, the slices are the inputs. Those in key order are one run, and each merges its
        // own runs, if it has several. Others have to be compared by the whole key: see `with_whole_ordering`.
        let limit = merge.fetch().or(chain.fetch);
        let inputs = match self.pieces(scan, limit)? {
            Some(pieces) => pieces,
            None => scan.uncut(),
        };
        in_sequence(&chain, inputs, Some(ordering), merge.fetch())
    }

    /// One slice is one partition already, and gains only where it is cut.
    fn in_place_of_slice(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some((chain, scan)) = sorted(plan) else {
            return Ok(None);
        };
        // Then the limit has to stay below the filter: the sequence goes in between, when the walk comes there.
        if chain.filters_limited_rows {
            return Ok(None);
        }
        let Some(pieces) = self.pieces(scan, chain.fetch)? else {
            return Ok(None);
        };
        let ordering = plan.output_ordering().cloned();
        in_sequence(&chain, pieces, ordering, chain.fetch)
    }

    fn pieces(&self, scan: &SortedScan, limit: Option<usize>) -> Result<Option<InPieces>> {
        if !self.may_cut || self.cores < 2 {
            return Ok(None);
        }
        scan.in_pieces(PieceSize {
            bytes: scan.options().read_ahead_bytes as u64 / (PIECES_IN_BUDGET * self.cores),
            at_least: PIECES_PER_CORE * self.cores,
            at_most: MOST_PIECES,
            row_group: LEAST_OF_ROW_GROUP,
            all_rows: limit.is_none(),
        })
    }
}

/// `merge` by all of the ordering that its input has, if it merges by the beginning of that only, and the input is one of
/// ours.
///
/// DataFusion 55.2 believes that a merge keeps all of the ordering of its inputs, and drops later sorts for that. But
/// rows of several inputs that are equal in what is compared come in any order.
fn with_whole_ordering(merge: &SortPreservingMergeExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(whole) = merge.input().output_ordering() else {
        return Ok(None);
    };
    let by_beginning =
        merge.expr().len() < whole.len() && whole[..merge.expr().len()] == merge.expr()[..];
    if !by_beginning || !has_our_scan(merge.input()) {
        return Ok(None);
    }
    let by_all = SortPreservingMergeExec::new(whole.clone(), Arc::clone(merge.input()))
        .with_fetch(merge.fetch());
    Ok(Some(Arc::new(by_all)))
}

fn has_our_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<DataSourceExec>() {
        Some(exec) => {
            exec.data_source().is::<SortedScan>() || exec.data_source().is::<UnorderedScan>()
        }
        None => plan.children().into_iter().any(has_our_scan),
    }
}

/// The chain from `plan` down to a sorted scan.
fn sorted(plan: &Arc<dyn ExecutionPlan>) -> Option<(Chain<'_>, &SortedScan)> {
    let chain = Chain::below(plan)?;
    let scan = chain.source.downcast_ref::<SortedScan>()?;
    Some((chain, scan))
}

/// A sequence of `pieces` in `ordering`, below the nodes of `chain`; `None` if they cannot be put into it.
fn in_sequence(
    chain: &Chain<'_>,
    pieces: InPieces,
    ordering: Option<LexOrdering>,
    fetch: Option<usize>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let InPieces {
        scan,
        runs,
        places,
        at_once,
    } = pieces;
    let overlap = if runs.len() > 1 {
        // The columns that the nodes let through.
        let Some(key) = scan.merge_key() else {
            return Ok(None);
        };
        let Some(by) = chain.up(key.ordering()) else {
            return Ok(None);
        };
        Some(Overlap {
            key: key.with_ordering(by),
            runs: runs.into(),
            places: places.into(),
            at_once: at_once.into(),
            bounds: (0..scan.slice_count())
                .map(|slice| scan.first_bounds(slice))
                .collect(),
        })
    } else {
        None
    };
    let read_ahead_bytes = scan.options().read_ahead_bytes;
    let input = chain.over(Arc::new(scan))?;
    let sequence = SequenceExec::new(input, ordering.clone(), overlap, fetch, read_ahead_bytes);
    // Everything that is known of the order below comes from the scan. A merge is in the order that it compares by alone.
    let properties = sequence.properties().equivalence_properties();
    let in_order = properties.ordering_satisfy(ordering.into_iter().flatten())?;
    Ok(in_order.then(|| Arc::new(sequence) as _))
}
