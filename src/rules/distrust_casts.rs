//! The optimizer rule that keeps DataFusion from believing that every cast keeps the order.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::proof::value_type;

/// Hides casts that do not keep the order, of which DataFusion 55.2 believes that they do.
///
/// From an order of `ts` it concludes one of `CAST(ts AS TIME)`, and does not sort by that, or takes neighbours for groups
/// ([#25506](https://github.com/apache/datafusion/issues/25506)). From the minimum and the maximum of `ts` it concludes
/// those of `CAST(ts AS TIME)`, and leaves out files and row groups of several days in which there are rows for
/// `WHERE CAST(ts AS TIME) = TIME '10:00'`. That is so with every table, and shows more often the more is known of the order.
///
/// ```text
/// Filter: CAST(t.ts AS Time64(ns)) = …    →    Filter: in_no_order(CAST(t.ts AS Time64(ns))) = …
/// ```
///
/// The function gives its argument. [`with_sorted_listing`] registers the rule after DataFusion's own: it has to be the last
/// one. It is to go when DataFusion no longer believes this.
///
/// [`with_sorted_listing`]: crate::SessionStateBuilderExt::with_sorted_listing
#[derive(Debug)]
pub struct DistrustCasts {
    in_no_order: Arc<ScalarUDF>,
}

impl Default for DistrustCasts {
    fn default() -> Self {
        Self {
            in_no_order: Arc::new(InNoOrder::default().into()),
        }
    }
}

impl DistrustCasts {
    /// The rule.
    pub fn new() -> Self {
        Self::default()
    }

    fn hide(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let is_hidden = match &expr {
            Expr::ScalarFunction(function) => function.func.inner().is::<InNoOrder>(),
            _ => false,
        };
        if is_hidden {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        let (Expr::Cast(Cast { expr: from, field }) | Expr::TryCast(TryCast { expr: from, field })) =
            &expr
        else {
            return Ok(Transformed::no(expr));
        };
        // The columns of MERGE are not all those of its input.
        let from = from.get_type(schema).ok();
        if from.is_none_or(|from| keeps_order(&from, field.data_type())) {
            return Ok(Transformed::no(expr));
        }
        let hidden = self.in_no_order.call(vec![expr]);
        Ok(Transformed::new(hidden, true, TreeNodeRecursion::Jump))
    }
}

impl OptimizerRule for DistrustCasts {
    fn name(&self) -> &str {
        "distrust_casts"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let schema = match &plan {
            // Its filters may have columns that it does not give.
            LogicalPlan::TableScan(scan) => {
                DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?
            }
            plan => merge_schema(&plan.inputs()),
        };
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let hidden = expr.transform_down(|expr| self.hide(expr, &schema))?;
            Ok(hidden.update_data(|expr| name.restore(expr)))
        })
    }
}

/// Whether a cast keeps the order, as far as DataFusion believes that it does.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let from = value_type(from);
    match to {
        Time32(_) | Time64(_) => !matches!(from, Timestamp(..) | Date64),
        // It wraps around.
        to if to.is_integer() => !matches!(from, Decimal256(..)),
        _ => true,
    }
}

/// The function that gives its argument, of whose order nothing is known.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InNoOrder {
    signature: Signature,
}

impl Default for InNoOrder {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for InNoOrder {
    fn name(&self) -> &str {
        "in_no_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [one] = take_function_args(self.name(), types)?;
        Ok(one.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [one] = take_function_args(self.name(), args.arg_fields)?;
        Ok(FieldRef::clone(one))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [one] = take_function_args(self.name(), args.args)?;
        Ok(one)
    }
}
