//! The nodes between a rule's node and a scan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

/// Nodes that keep partitions and order, above a scan.
pub(super) struct Chain<'a> {
    /// From the top.
    nodes: Vec<&'a Arc<dyn ExecutionPlan>>,
    pub(super) source: &'a Arc<dyn DataSource>,
    /// The smallest limit of any node or of the scan.
    pub(super) fetch: Option<usize>,
    /// Whether a filter comes after a limit.
    pub(super) filters_limited_rows: bool,
}

impl<'a> Chain<'a> {
    /// The nodes from `plan` down, if all of them keep partitions and order.
    pub(super) fn below(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        Self::through(plan, false)
    }

    /// The same, leaving out nodes that deal rows to partitions in turn: they keep neither, and help only what is slow
    /// on few partitions.
    pub(super) fn below_without_round_robin(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        Self::through(plan, true)
    }

    fn through(plan: &'a Arc<dyn ExecutionPlan>, drop_round_robin: bool) -> Option<Self> {
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
                limit(exec.fetch(), filters_above);
                return Some(Self {
                    nodes,
                    source: exec.data_source(),
                    fetch,
                    filters_limited_rows,
                });
            }
            // A filter limits what it lets through.
            limit(plan.fetch(), filters_above);
            if plan.is::<FilterExec>() {
                filters_above = true;
                nodes.push(plan);
            } else if plan.is::<ProjectionExec>()
                || plan.is::<CooperativeExec>()
                || plan.is::<LocalLimitExec>()
            {
                nodes.push(plan);
            } else if !(drop_round_robin && is_round_robin(plan)) {
                return None;
            }
            let [input] = plan.children()[..] else {
                return None;
            };
            plan = input;
        }
    }

    /// The nodes above another source.
    pub(super) fn over(&self, source: Arc<dyn DataSource>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(DataSourceExec::new(source));
        for node in self.nodes.iter().rev() {
            plan = replace_children_if_necessary(Arc::clone(node), vec![plan])?;
        }
        Ok(plan)
    }

    /// An ordering above the nodes in terms of what the scan gives.
    pub(super) fn down(&self, ordering: &LexOrdering) -> Result<Vec<PhysicalSortExpr>> {
        let mut ordering = ordering.to_vec();
        for node in &self.nodes {
            for sort in &mut ordering {
                sort.expr = below(node, &sort.expr)?;
            }
        }
        Ok(ordering)
    }

    /// An ordering of the scan's columns in terms of what the nodes give, as far as they give it.
    pub(super) fn up(&self, ordering: &LexOrdering) -> Option<LexOrdering> {
        let mut ordering = ordering.to_vec();
        for node in self.nodes.iter().rev() {
            let above = ordering.iter().map_while(|sort| {
                let index = sort.expr.downcast_ref::<Column>()?.index();
                let column = above(node, index)?;
                Some(PhysicalSortExpr::new(Arc::new(column), sort.options))
            });
            ordering = above.collect();
        }
        LexOrdering::new(ordering)
    }
}

fn is_round_robin(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let repartition = plan.downcast_ref::<RepartitionExec>();
    repartition.is_some_and(|repartition| {
        matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
    })
}

/// An expression over the columns of `node` in terms of those of its input.
pub(super) fn below(
    node: &Arc<dyn ExecutionPlan>,
    expr: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return projection.projection_expr().unproject_expr(expr);
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>()
        && let Some(projection) = filter.projection()
    {
        let schema = filter.input().schema();
        return ProjectionExprs::from_indices(projection, &schema).unproject_expr(expr);
    }
    Ok(Arc::clone(expr))
}

/// The column of `node` that the `index`th of its input becomes, if it does.
fn above(node: &Arc<dyn ExecutionPlan>, index: usize) -> Option<Column> {
    let is_it = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>()
            .is_some_and(|column| column.index() == index)
    };
    let place = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        projection
            .expr()
            .iter()
            .position(|projected| is_it(&projected.expr))?
    } else if let Some(projection) = node
        .downcast_ref::<FilterExec>()
        .and_then(|filter| filter.projection().as_ref())
    {
        projection
            .iter()
            .position(|&projected| projected == index)?
    } else {
        index
    };
    Some(Column::new(node.schema().field(place).name(), place))
}
