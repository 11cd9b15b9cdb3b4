//! Columns of the key that a query does not read, and that are read all the same to be checked; and plans without them.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

/// `projection` with the columns of `orderings` that it lacks, at its end.
pub(crate) fn with_key_columns<'a>(
    projection: &'a [usize],
    orderings: &[LexOrdering],
) -> Cow<'a, [usize]> {
    let mut all = Cow::Borrowed(projection);
    let sorts = orderings.iter().flat_map(|ordering| ordering.iter());
    let mut columns: Vec<_> = sorts
        .flat_map(|sort| collect_columns(&sort.expr))
        .map(|column| column.index())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    for column in columns {
        if !projection.contains(&column) {
            all.to_mut().push(column);
        }
    }
    all
}

/// The columns of `plan` with these indices, in their order.
pub(crate) fn with_columns(
    plan: Arc<dyn ExecutionPlan>,
    columns: impl IntoIterator<Item = usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let columns = columns.into_iter().map(|index| {
        let name = schema.field(index).name();
        ProjectionExpr::new(Arc::new(Column::new(name, index)), name.clone())
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
