//! The optimizer rule that groups sorted rows without a hash table.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;

use super::chain::has_our_scan;
use super::merge_joins::keeps_order;
use crate::aggregate::SortedAggregateExec;

/// Groups rows by comparing each with the one before, where sorted scans give them in the order of the group key.
///
/// ```text
/// AggregateExec: mode=SinglePartitioned, …, ordering_mode=Sorted      SortedAggregateExec: mode=SinglePartitioned, …
///   DataSourceExec: SortedScan: slices=4, …                       →     DataSourceExec: SortedScan: slices=4, …
/// ```
///
/// DataFusion's node looks each key up in a hash table even so. It stays where a limit lets it stop early, where a key is
/// of a type whose equality is not plain (floats, nested types), and where an aggregate has no accumulator for all
/// groups at once, as `array_agg(… ORDER BY …)` has none.
///
/// [`with_sorted_listing`](crate::SessionStateBuilderExt::with_sorted_listing) registers it after DataFusion's own rules.
/// It may run anywhere after the order of the plan is settled, and any number of times.
#[derive(Debug, Default)]
pub struct GroupNeighbours {}

impl GroupNeighbours {
    /// The rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for GroupNeighbours {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match sorted_aggregate(&plan)? {
                Some(aggregate) => Transformed::yes(Arc::new(aggregate) as _),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "GroupNeighbours"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The node that may take the place of `plan`, if that is an aggregation of sorted scans.
fn sorted_aggregate(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<SortedAggregateExec>> {
    match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) if has_our_scan(plan) && !claims_false_order(plan) => {
            SortedAggregateExec::in_place_of(aggregate)
        }
        _ => Ok(None),
    }
}

/// Whether there is a merge join in `plan` that does not keep the order that it claims. A hash table still puts together
/// what is out of place within a batch.
fn claims_false_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let merge_join = plan.downcast_ref::<SortMergeJoinExec>();
    merge_join.is_some_and(|join| !keeps_order(join.filter.as_ref(), join.join_type))
        || plan.children().into_iter().any(claims_false_order)
}
