//! The optimizer rule that puts sequences into plans.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

use crate::scan::{PieceSize, SortedScan};
use crate::sequence::SequenceExec;

/// Reads slices that are one run as a [`SequenceExec`] of small pieces, in place of a merge.
///
/// It replaces a [`SortPreservingMergeExec`] over a [`SortedScan`] of contiguous slices, and a scan of one slice, seen
/// through nodes that keep partitions and order. The slices are cut into pieces of some row groups each, so that the
/// pieces that come next are decoded by other cores while one is emitted:
///
/// ```text
/// SortPreservingMergeExec: [ts@0 ASC]              SequenceExec: [ts@0 ASC], inputs=64
///   FilterExec: value@2 > 40                  →      FilterExec: value@2 > 40
///     DataSourceExec: SortedScan: slices=4, …          DataSourceExec: SortedScan: slices=64, …
/// ```
///
/// [`with_sorted_listing`] registers it after DataFusion's own rules. Without it, sorted tables are right, and slower.
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
            Some(merge) => self.in_place_of_merge(merge),
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
        let Some(chain) = Chain::below(below) else {
            return Ok(None);
        };
        // Everything that is known of the order below comes from the scan, whose orderings hold across its slices.
        let in_order = merge
            .input()
            .equivalence_properties()
            .ordering_satisfy(merge.expr().iter().cloned())?;
        // A limit of each slice is one of each piece only if it is not what limits the query.
        let limited_above = match (chain.fetch, merge.fetch()) {
            (None, _) => true,
            (Some(below), Some(above)) => above <= below && !chain.filters_limited_rows,
            (Some(_), None) => false,
        };
        if !in_order || !limited_above {
            return Ok(None);
        }
        let input = match self.pieces(chain.scan)? {
            Some(pieces) => chain.over(pieces)?,
            None => chain.over(chain.scan.clone())?,
        };
        let ordering = Some(merge.expr().clone());
        Ok(Some(chain.sequence(input, ordering, merge.fetch())))
    }

    /// One slice is one partition already, and gains only where it is cut.
    fn in_place_of_slice(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(chain) = Chain::below(plan) else {
            return Ok(None);
        };
        // Then the limit has to stay below the filter: the sequence goes in between, when the walk comes there.
        if chain.filters_limited_rows {
            return Ok(None);
        }
        let Some(pieces) = self.pieces(chain.scan)? else {
            return Ok(None);
        };
        let input = chain.over(pieces)?;
        let ordering = plan.output_ordering().cloned();
        Ok(Some(chain.sequence(input, ordering, chain.fetch)))
    }

    fn pieces(&self, scan: &SortedScan) -> Result<Option<SortedScan>> {
        if !self.may_cut || self.cores < 2 {
            return Ok(None);
        }
        scan.in_pieces(PieceSize {
            bytes: scan.read_ahead_bytes() as u64 / (PIECES_IN_BUDGET * self.cores),
            at_least: PIECES_PER_CORE * self.cores,
            at_most: MOST_PIECES,
        })
    }
}

/// Nodes that keep partitions and order, above a scan whose slices are one run.
struct Chain<'a> {
    /// From the top.
    nodes: Vec<&'a Arc<dyn ExecutionPlan>>,
    scan: &'a SortedScan,
    /// The smallest limit of any node or of the scan.
    fetch: Option<usize>,
    /// Whether a filter comes after a limit.
    filters_limited_rows: bool,
}

impl<'a> Chain<'a> {
    fn below(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut nodes = vec![];
        let mut fetch: Option<usize> = None;
        let mut filters_above = false;
        let mut filters_limited_rows = false;
        let mut limit = |limit: Option<usize>, filters_above: bool| {
            if let Some(limit) = limit {
                fetch = Some(fetch.map_or(limit, |fetch| fetch.min(limit)));
                filters_limited_rows |= filters_above;
            }
        };
        let mut plan = plan;
        loop {
            if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
                let scan = exec.data_source().downcast_ref::<SortedScan>()?;
                limit(exec.fetch(), filters_above);
                return scan.is_one_run().then_some(Self {
                    nodes,
                    scan,
                    fetch,
                    filters_limited_rows,
                });
            }
            // A filter limits what it lets through.
            limit(plan.fetch(), filters_above);
            if plan.is::<FilterExec>() {
                filters_above = true;
            } else if !(plan.is::<ProjectionExec>()
                || plan.is::<CooperativeExec>()
                || plan.is::<LocalLimitExec>())
            {
                return None;
            }
            nodes.push(plan);
            let [input] = plan.children()[..] else {
                return None;
            };
            plan = input;
        }
    }

    /// A sequence of `input`, which is this chain over some scan.
    fn sequence(
        &self,
        input: Arc<dyn ExecutionPlan>,
        ordering: Option<LexOrdering>,
        fetch: Option<usize>,
    ) -> Arc<dyn ExecutionPlan> {
        let read_ahead_bytes = self.scan.read_ahead_bytes();
        Arc::new(SequenceExec::new(input, ordering, fetch, read_ahead_bytes))
    }

    /// The nodes above another scan.
    fn over(&self, scan: SortedScan) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(scan);
        for node in self.nodes.iter().rev() {
            plan = replace_children_if_necessary(Arc::clone(node), vec![plan])?;
        }
        Ok(plan)
    }
}
