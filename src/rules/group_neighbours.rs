//! The optimizer rule that groups sorted rows without a hash table.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::scan_column::{index_of, scan_of_column};
use crate::aggregate::{KeyOrder, SortedAggregateExec};
use crate::config::Verify;
use crate::scan::ReadOptions;

/// Groups rows by comparing each with the one before, where sorted scans give them in the order of the group key.
///
/// ```text
/// AggregateExec: mode=SinglePartitioned, …, ordering_mode=Sorted      SortedAggregateExec: mode=SinglePartitioned, …
///   DataSourceExec: SortedScan: slices=4, …                       →     DataSourceExec: SortedScan: slices=4, …
/// ```
///
/// DataFusion's node looks each key up in a hash table even so. It stays where a limit lets it stop early, where a key is
/// no column of a sorted scan, or of a type whose equality is not plain (floats, nested types), and where an aggregate has
/// no accumulator for all groups at once, as `array_agg(… ORDER BY …)` has none.
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

/// The node that may take the place of `plan`, if that is an aggregation by columns of sorted scans.
fn sorted_aggregate(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<SortedAggregateExec>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let keys = aggregate.group_expr().expr().iter();
    let scans = keys.map(|(key, _)| scan_of_column(aggregate.input(), index_of(key)?));
    let scans: Option<Vec<_>> = scans.collect();
    let Some([scan, ..]) = scans.as_deref() else {
        return Ok(None);
    };
    let ReadOptions { table, verify, .. } = scan.options();
    let order = match verify {
        Verify::Off => None,
        Verify::Boundaries | Verify::Rows => Some(KeyOrder::of(aggregate, table)?),
    };
    SortedAggregateExec::in_place_of(aggregate, order)
}
