//! From a column of a plan down to the scan that it comes from.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use super::chain::below;
use super::merge_joins::keeps_order;
use crate::aggregate::SortedAggregateExec;
use crate::scan::SortedScan;
use crate::sequence::SequenceExec;

/// The sorted scan of whose key the column of `plan` with this `index` is a column, unchanged, if nothing in between makes
/// an order of its own.
///
/// What DataFusion 55.2 says of the order of other expressions is not always true, as of a cast to the time of day, or of
/// columns after floats.
pub(super) fn scan_of_column(plan: &Arc<dyn ExecutionPlan>, index: usize) -> Option<&SortedScan> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        let scan = exec.data_source().downcast_ref::<SortedScan>()?;
        return scan.is_key_before_floats(index).then_some(scan);
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let (side, index) = side_of(join, index)?;
        return scan_of_column(side, index);
    }
    let aggregate = match plan.downcast_ref::<SortedAggregateExec>() {
        Some(sorted) => Some(sorted.aggregate()),
        None => plan.downcast_ref::<AggregateExec>(),
    };
    if let Some(aggregate) = aggregate {
        let group_by = aggregate.group_expr();
        let keeps_order = *aggregate.input_order_mode() != InputOrderMode::Linear;
        let (key, _) = group_by
            .expr()
            .get(index)
            .filter(|_| keeps_order && group_by.is_single())?;
        return scan_of_column(aggregate.input(), index_of(key)?);
    }
    let is_projection = plan.is::<ProjectionExec>() || plan.is::<FilterExec>();
    let passes_columns = plan.is::<SequenceExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<GlobalLimitExec>();
    let [input] = plan.children()[..] else {
        return None;
    };
    if is_projection {
        let name = plan.schema().field(index).name().clone();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&name, index));
        return scan_of_column(input, index_of(&below(plan, &column).ok()?)?);
    }
    passes_columns
        .then(|| scan_of_column(input, index))
        .flatten()
}

/// The index of the column that `expr` is, if it is one.
pub(super) fn index_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    Some(expr.downcast_ref::<Column>()?.index())
}

/// The input whose rows a merge join gives in their order, and the index there of the column with this `index`, if it is of
/// that input. Of the other one, each row may come several times, or NULL in its place.
fn side_of(join: &SortMergeJoinExec, index: usize) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    if !keeps_order(join.filter.as_ref(), join.join_type) {
        return None;
    }
    let of_right = index.checked_sub(join.left.schema().fields().len());
    match (join.join_type, of_right) {
        (JoinType::Inner | JoinType::Left, None) => Some((&join.left, index)),
        (JoinType::Right, Some(index)) => Some((&join.right, index)),
        _ => None,
    }
}
