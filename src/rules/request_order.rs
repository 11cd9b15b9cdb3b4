//! The optimizer rule that asks scans for the order that a sort would make.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, SortOrderPushdownResult, replace_children_if_necessary,
};

use super::chain::Chain;
use crate::scan::{SortedScan, UnorderedScan};

/// Asks a sorted table for an order that it gives on demand, through the nodes at which DataFusion's `PushdownSort`
/// stops, and drops the sort if it can be had.
///
/// ```text
/// SortPreservingMergeExec: [ts@0 DESC]              SortPreservingMergeExec: [ts@0 DESC]
///   SortExec: expr=[ts@0 DESC], …             →       FilterExec: value@2 > 40
///     FilterExec: value@2 > 40                          DataSourceExec: SortedScan: slices=4, …, reversed
///       DataSourceExec: SortedScan: slices=4, …
/// ```
///
/// It also drops a round-robin repartition between the filter and the scan, which would lose the order: a sort costs
/// more than a filter on fewer cores does, and [`SequenceSlices`] spreads the filter over all cores anyway.
///
/// [`with_sorted_listing`] registers it after DataFusion's own rules and before [`SequenceSlices`]. It does nothing
/// where `datafusion.optimizer.enable_sort_pushdown` is off.
///
/// [`SequenceSlices`]: crate::SequenceSlices
/// [`with_sorted_listing`]: crate::SessionStateBuilderExt::with_sorted_listing
#[derive(Debug, Default)]
pub struct RequestOrder {}

impl RequestOrder {
    /// The rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for RequestOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.enable_sort_pushdown {
            return Ok(plan);
        }
        plan.transform_down(|plan| {
            Ok(match without_sort(&plan)? {
                Some(sorted) => Transformed::yes(sorted),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "RequestOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan`, a sort or a merge of sorted partitions, over a scan that is in order by itself.
fn without_sort(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        let Some(sort) = merge.input().downcast_ref::<SortExec>() else {
            return Ok(None);
        };
        return match in_order(sort)? {
            Some(sorted) => replace_children_if_necessary(Arc::clone(plan), vec![sorted]).map(Some),
            None => Ok(None),
        };
    }
    let Some(sort) = plan.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    // What is above may have counted the partitions.
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    Ok(in_order(sort)?.filter(|sorted| partitions(sorted) == partitions(sort.input())))
}

/// The input of `sort` in its order, partition by partition, if the scan below can be read so.
fn in_order(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // A limit below would choose other rows in another order.
    let Some(chain) = Chain::below_without_round_robin(sort.input())
        .filter(|chain| chain.fetch.is_none() && is_ours(chain))
    else {
        return Ok(None);
    };
    let order = chain.down(sort.expr())?;
    if let SortOrderPushdownResult::Exact { inner } = chain.source.try_pushdown_sort(&order)?
        && let Some(sorted) = sorted_by(sort, chain.over(inner)?)?
    {
        return Ok(Some(sorted));
    }
    // A filter may know more: rows of one device that are in order of `device, ts` are in order of `ts`.
    let offered = match chain.source.downcast_ref::<UnorderedScan>() {
        Some(unordered) => unordered.offered()?,
        None => None,
    };
    let scan = offered
        .as_ref()
        .or_else(|| chain.source.downcast_ref::<SortedScan>());
    let on_demand = scan.into_iter().flat_map(SortedScan::on_demand);
    for scan in offered.clone().map(Ok).into_iter().chain(on_demand) {
        let plan = chain.over(Arc::new(scan?))?;
        if let Some(sorted) = sorted_by(sort, plan)? {
            return Ok(Some(sorted));
        }
    }
    Ok(None)
}

/// `plan` in place of `sort`, if it is in that order.
fn sorted_by(
    sort: &SortExec,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let properties = plan.equivalence_properties();
    if !properties.ordering_satisfy(sort.expr().iter().cloned())? {
        return Ok(None);
    }
    Ok(Some(match sort.fetch() {
        Some(fetch) => Arc::new(LocalLimitExec::new(plan, fetch)),
        None => plan,
    }))
}

fn is_ours(chain: &Chain<'_>) -> bool {
    chain.source.is::<SortedScan>() || chain.source.is::<UnorderedScan>()
}
