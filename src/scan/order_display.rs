//! Orderings as SQL has them: the names of columns without their indices.

use arrow::compute::SortOptions;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;

/// An ordering as in `ORDER BY`.
pub(crate) fn show(ordering: &[PhysicalSortExpr]) -> String {
    let sorts: Vec<_> = ordering.iter().map(show_sort).collect();
    sorts.join(", ")
}

fn show_sort(sort: &PhysicalSortExpr) -> String {
    match sort.expr.downcast_ref::<Column>() {
        Some(column) => show_column(column.name(), sort.options),
        None => show_column(&sort.expr.to_string(), sort.options),
    }
}

/// A column, or an expression, as in `ORDER BY`.
pub(crate) fn show_column(name: &str, options: SortOptions) -> String {
    let options = match (options.descending, options.nulls_first) {
        (false, true) => "ASC",
        (false, false) => "ASC NULLS LAST",
        (true, true) => "DESC",
        (true, false) => "DESC NULLS LAST",
    };
    format!("{name} {options}")
}
