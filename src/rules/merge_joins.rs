//! The optimizer rule that joins sorted slices as they stream.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr, RangePartitioning,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::config::SortedListingConfig;
use crate::key_columns::with_columns;

/// Joins slice by slice as rows stream, in place of a hash join that holds all of one side, where both sides own the
/// same ranges of the join key and are in its order.
///
/// ```text
/// HashJoinExec: mode=Partitioned, on=[(ts@0, ts@0)]      SortMergeJoinExec: join_type=Inner, on=[(ts@0, ts@0)]
///   DataSourceExec: SortedScan: slices=4, …          →     DataSourceExec: SortedScan: slices=4, …
///   DataSourceExec: SortedScan: slices=4, …                DataSourceExec: SortedScan: slices=4, …
/// ```
///
/// DataFusion itself makes such a join only where `datafusion.optimizer.prefer_hash_join` is off, and then of all joins.
/// A small side, of which DataFusion collects the whole (`mode=CollectLeft`), stays a hash join. So do all where
/// `sorted_listing.range_partitioning` is off.
///
/// [`with_sorted_listing`](crate::SessionStateBuilderExt::with_sorted_listing) registers it after DataFusion's own rules.
#[derive(Debug, Default)]
pub struct MergeJoins {}

impl MergeJoins {
    /// The rule.
    pub fn new() -> Self {
        Self::default()
    }
}

impl PhysicalOptimizerRule for MergeJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<SortedListingConfig>();
        if options.is_some_and(|options| !options.merge_joins) {
            return Ok(plan);
        }
        plan.transform_up(|plan| {
            Ok(match merge_join(&plan)? {
                Some(join) => Transformed::yes(join),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "MergeJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The merge join that may take the place of `plan`, if that is a hash join of co-partitioned sorted sides.
fn merge_join(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(None);
    };
    let streams = join.mode == PartitionMode::Partitioned
        && !join.null_aware
        && keeps_order(join.filter.as_ref(), join.join_type);
    let (true, None, Some(left), Some(right)) = (
        streams,
        join.fetch(),
        ranges(&join.left),
        ranges(&join.right),
    ) else {
        return Ok(None);
    };
    let options: Vec<_> = left.ordering().iter().map(|sort| sort.options).collect();
    let same_ranges = left.split_points() == right.split_points()
        && options.len() == join.on.len()
        && right
            .ordering()
            .iter()
            .map(|sort| sort.options)
            .eq(options.iter().copied());
    if !same_ranges {
        return Ok(None);
    }
    let left_schema = join.left.schema();
    for (key, _) in &join.on {
        if !is_comparable(&key.data_type(&left_schema)?, join.join_type) {
            return Ok(None);
        }
    }
    let sorted = |side: &Arc<dyn ExecutionPlan>, keys: Vec<&Arc<dyn PhysicalExpr>>| {
        let sorts = keys.into_iter().zip(&options);
        let sorts = sorts.map(|(key, options)| PhysicalSortExpr::new(Arc::clone(key), *options));
        side.equivalence_properties().ordering_satisfy(sorts)
    };
    let (left_keys, right_keys) = join.on.iter().map(|(left, right)| (left, right)).unzip();
    if !sorted(&join.left, left_keys)? || !sorted(&join.right, right_keys)? {
        return Ok(None);
    }
    let merge: Arc<dyn ExecutionPlan> = Arc::new(SortMergeJoinExec::try_new(
        Arc::clone(&join.left),
        Arc::clone(&join.right),
        join.on.clone(),
        join.filter.as_ref().map(left_columns_first).transpose()?,
        join.join_type,
        options,
        join.null_equality,
    )?);
    let merge = match &join.projection {
        None => merge,
        Some(columns) => with_columns(merge, columns.iter().copied())?,
    };
    Ok(keeps_properties(plan, &merge)?.then_some(merge))
}

/// Whether DataFusion's merge join keeps the order that it claims: 55.2 gives out rows of an outer join that a filter leaves
/// without a partner later than their place.
pub(super) fn keeps_order(filter: Option<&JoinFilter>, join_type: JoinType) -> bool {
    filter.is_none() || join_type == JoinType::Inner
}

/// Whether DataFusion's merge join knows keys of a type: that of semi, anti and mark joins does not know all.
fn is_comparable(data_type: &DataType, join_type: JoinType) -> bool {
    let joins_rows = matches!(
        join_type,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full
    );
    // Its equality of floats is not that of a hash join: `-0.0` is `0.0` in one of them only.
    !data_type.is_floating()
        && (joins_rows
            || data_type.is_integer()
            || data_type.is_string()
            || data_type.is_binary()
            || matches!(
                data_type,
                DataType::Boolean
                    | DataType::Decimal128(..)
                    | DataType::Timestamp(_, None)
                    | DataType::Date32
                    | DataType::Date64
            ))
}

/// `filter` of the columns of the left side and then those of the right, as a merge join takes them to be. They are not
/// where DataFusion has swapped the sides of a hash join.
fn left_columns_first(filter: &JoinFilter) -> Result<JoinFilter> {
    let columns = filter.column_indices();
    let mut order: Vec<_> = (0..columns.len()).collect();
    order.sort_by_key(|&column| columns[column].side != JoinSide::Left);
    let place = |column: usize| order.iter().position(|&old| old == column);
    let expression = Arc::clone(filter.expression()).transform_up(|expr| {
        let column = expr.downcast_ref::<Column>();
        let moved = column.and_then(|column| {
            let moved = Column::new(column.name(), place(column.index())?);
            Some(Arc::new(moved) as Arc<dyn PhysicalExpr>)
        });
        Ok(moved.map_or_else(|| Transformed::no(expr), Transformed::yes))
    });
    let schema = filter.schema().project(&order)?;
    let columns = order
        .iter()
        .map(|&column| columns[column].clone())
        .collect();
    Ok(JoinFilter::new(
        expression.data()?,
        columns,
        Arc::new(schema),
    ))
}

fn ranges(side: &Arc<dyn ExecutionPlan>) -> Option<&RangePartitioning> {
    match side.output_partitioning() {
        Partitioning::Range(ranges) => Some(ranges),
        _ => None,
    }
}

/// Whether what is above may count on the same of `new` as of `old`.
fn keeps_properties(old: &Arc<dyn ExecutionPlan>, new: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let ordering: Option<&LexOrdering> = old.output_ordering();
    let in_order = new
        .equivalence_properties()
        .ordering_satisfy(ordering.into_iter().flatten().cloned())?;
    // What is unknown is never equal, but nothing counts on it.
    let same_partitioning = match (old.output_partitioning(), new.output_partitioning()) {
        (Partitioning::UnknownPartitioning(old), new) => *old == new.partition_count(),
        (old, new) => old == new,
    };
    Ok(in_order && same_partitioning)
}
