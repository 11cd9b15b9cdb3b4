//! Orderings as SQL has them: the names of columns without their indices.

use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;

/// An ordering as in `ORDER BY`.
pub(crate) fn show(ordering: &[PhysicalSortExpr]) -> String {
    let sorts: Vec<_> = ordering.iter().map(show_sort).collect();
    sorts.join(", ")
}

fn show_sort(sort: &PhysicalSortExpr) -> String {
    let options = match (sort.options.descending, sort.options.nulls_first) {
        (false, true) => "ASC",
        (false, false) => "ASC NULLS LAST",
        (true, true) => "DESC",
        (true, false) => "DESC NULLS LAST",
    };
    match sort.expr.downcast_ref::<Column>() {
        Some(column) => format!("{} {options}", column.name()),
        None => format!("{} {options}", sort.expr),
    }
}
