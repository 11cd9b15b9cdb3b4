//! Which aggregations can be done by comparing neighbouring rows.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

/// Whether the rows of each group of `aggregate` come together, and the answer is the same if neighbours are compared.
pub(super) fn qualifies(aggregate: &AggregateExec) -> Result<bool> {
    let group_by = aggregate.group_expr();
    let in_one_step = matches!(
        aggregate.mode(),
        AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    let rows_come_together = *aggregate.input_order_mode() == InputOrderMode::Sorted
        && !group_by.is_empty()
        && group_by.is_single()
        && !group_by.has_grouping_set();
    // DataFusion stops early for a limit, and prunes by a dynamic filter.
    let is_all =
        aggregate.limit_options().is_none() && aggregate.dynamic_expressions_produced().is_empty();
    let mut functions = aggregate.aggr_expr().iter();
    let by_group = functions.all(|function| function.groups_accumulator_supported());
    if !(in_one_step && rows_come_together && is_all && by_group) {
        return Ok(false);
    }
    let input = aggregate.input().schema();
    for key in group_by.input_exprs() {
        if !has_plain_equality(&key.data_type(&input)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether values of a type are equal if and only if their bits are, so that a hash table and a comparison agree.
///
/// Floats are not: `-0.0` and `0.0` are one group of DataFusion's, and so are all kinds of NaN, while arrow compares by
/// the total order, in which they differ.
fn has_plain_equality(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_)
        | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) | FixedSizeBinary(_) => {
            true
        }
        // arrow compares the values, and puts dictionaries of these together anew.
        Dictionary(_, values) => {
            values.is_integer() || matches!(**values, Utf8 | LargeUtf8 | Binary | LargeBinary)
        }
        other => other.is_integer() || other.is_string() || other.is_binary(),
    }
}
