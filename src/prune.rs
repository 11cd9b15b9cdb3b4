//! Which files filters leave, by the ranges of key columns and the values of partition columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{
    self, BinaryExpr, CastExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
    TryCastExpr, lit,
};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::proof::is_lossless;
use crate::snapshot::Snapshot;

/// For each file of `snapshot`, whether some of its rows may pass all `filters`; `None` if filters rule no file out.
///
/// A filter that cannot be held against ranges rules nothing out, and neither does a range that is not known.
pub(crate) fn may_match(
    session: &dyn Session,
    snapshot: &Snapshot,
    filters: &[Expr],
) -> Option<Vec<bool>> {
    let schema = Arc::clone(snapshot.table().table_schema());
    let df_schema = DFSchema::try_from(Arc::clone(&schema)).ok()?;
    let physical = |filter: &Expr| {
        session
            .create_physical_expr(filter.clone(), &df_schema)
            .ok()
    };
    let filters = filters.iter().filter_map(physical);
    let prunable = filters.map(|filter| prunable(&filter, &schema));
    let predicate = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(&schema))
        .try_build(conjunction(prunable))
        .ok()?;
    if predicate.always_true() {
        return None;
    }
    let ranges = Ranges { snapshot, schema };
    let mask = predicate.prune(&ranges).ok()?;
    mask.contains(&false).then_some(mask)
}

/// `filter` with `true` for what DataFusion's pruning might draw wrong conclusions from: casts that do not keep the
/// order of values, and functions that give another value each time.
fn prunable(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Arc<dyn PhysicalExpr> {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>()
        && matches!(binary.op(), Operator::And | Operator::Or)
    {
        return Arc::new(BinaryExpr::new(
            prunable(binary.left(), schema),
            *binary.op(),
            prunable(binary.right(), schema),
        ));
    }
    match is_plain(filter, schema) {
        true => Arc::clone(filter),
        false => lit(true),
    }
}

/// Whether a condition is on plain columns and literals only.
fn is_plain(condition: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> bool {
    let is_condition = match condition.downcast_ref::<BinaryExpr>() {
        Some(binary) => {
            use Operator::*;
            matches!(binary.op(), Eq | NotEq | Lt | LtEq | Gt | GtEq)
        }
        None => {
            condition.is::<IsNullExpr>()
                || condition.is::<IsNotNullExpr>()
                || condition.is::<InListExpr>()
                || condition.is::<LikeExpr>()
                || condition.is::<NotExpr>()
                || condition.is::<Literal>()
                || condition.is::<expressions::Column>()
        }
    };
    let children = condition.children();
    is_condition
        && children
            .into_iter()
            .all(|child| is_plain_value(child, schema))
}

fn is_plain_value(value: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> bool {
    let cast = match value.downcast_ref::<CastExpr>() {
        Some(cast) => Some((cast.expr(), cast.cast_type())),
        None => value
            .downcast_ref::<TryCastExpr>()
            .map(|cast| (cast.expr(), cast.cast_type())),
    };
    match cast {
        Some((inner, to)) => {
            let from = inner.data_type(schema);
            is_plain_value(inner, schema) && from.is_ok_and(|from| keeps_order(&from, to))
        }
        None => value.is::<expressions::Column>() || value.is::<Literal>(),
    }
}

/// Whether a cast keeps the order of values, although it may make some of them equal.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    is_lossless(from, to) || matches!((from, to), (DataType::Timestamp(_, None), DataType::Date32))
}

/// The ranges of columns in the files of a snapshot.
struct Ranges<'a> {
    snapshot: &'a Snapshot,
    schema: SchemaRef,
}

impl Ranges<'_> {
    /// The value of a partition column in each file, if it is one.
    fn partition(&self, column: &Column) -> Option<ArrayRef> {
        let index = self.schema.index_of(column.name()).ok()?;
        let file_columns = self.snapshot.table().file_schema().fields().len();
        let partition = index.checked_sub(file_columns)?;
        let values = self.snapshot.files().iter().map(|file| {
            match file.partition_values.get(partition)? {
                ScalarValue::Dictionary(_, value) => Some(value.as_ref().clone()),
                value => Some(value.clone()),
            }
        });
        ScalarValue::iter_to_array(values.collect::<Option<Vec<_>>>()?).ok()
    }

    fn range(&self, column: &Column) -> Option<&crate::snapshot::Range> {
        let index = self.schema.index_of(column.name()).ok()?;
        self.snapshot.ranges().of_column(index)
    }
}

impl PruningStatistics for Ranges<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        match self.range(column) {
            Some(range) => Some(Arc::clone(&range.min)),
            None => self.partition(column),
        }
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        match self.range(column) {
            Some(range) => Some(Arc::clone(&range.max)),
            None => self.partition(column),
        }
    }

    fn num_containers(&self) -> usize {
        self.snapshot.files().len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        match self.range(column) {
            Some(range) => Some(Arc::clone(&range.null_count)),
            None => {
                let values = self.partition(column)?;
                let nulls = (0..values.len()).map(|file| {
                    // All rows of a file have its value.
                    let rows = self.snapshot.files()[file].rows();
                    if values.is_null(file) { rows } else { 0 }
                });
                Some(Arc::new(UInt64Array::from_iter_values(nulls)))
            }
        }
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::clone(self.snapshot.ranges().rows()))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
