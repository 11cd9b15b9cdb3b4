//! The groups of rows that come in the order of their key.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, aggregate_expressions};

use super::beginnings::Beginnings;
use super::key_order::KeyOrder;
use super::pending_keys::{PendingKeys, is_dictionary};

/// Groups that hold more bytes are given out, however few they are.
const MANY_BYTES: usize = 1 << 20;

/// The groups that are not given out yet. Rows of the last of them may still come.
pub(super) struct Groups {
    group_by: Vec<Arc<dyn PhysicalExpr>>,
    key_schema: SchemaRef,
    keys: PendingKeys,
    /// The order that keys have to come in, if that is checked.
    order: Option<KeyOrder>,
    aggregates: Vec<Aggregate>,
    schema: SchemaRef,
    /// So many are given out: first one, for a query that wants few, and twice as many each time.
    enough: usize,
    at_most: usize,
    /// The number of the group of each row of a batch. Kept for its memory.
    numbers: Vec<usize>,
}

/// One aggregate, of all groups.
struct Aggregate {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    accumulator: Box<dyn GroupsAccumulator>,
}

impl Groups {
    pub(super) fn try_new(
        aggregate: &AggregateExec,
        order: Option<KeyOrder>,
        batch_size: usize,
    ) -> Result<Self> {
        let group_by = aggregate.group_expr();
        let key_schema = group_by.group_schema(&aggregate.input().schema())?;
        // Half a batch, so that the groups of batches that are a little shorter than asked for do not wait for the next.
        // A dictionary holds no more values than its keys can count. There are enough of them for those of a batch.
        let fields = key_schema.fields();
        let at_most = match fields.iter().any(|field| is_dictionary(field.data_type())) {
            true => 1,
            false => (batch_size / 2).max(1),
        };
        let arguments = aggregate_expressions(aggregate.aggr_expr(), aggregate.mode(), 0)?;
        let filters = aggregate.filter_expr().iter().cloned();
        let aggregates = aggregate.aggr_expr().iter().zip(arguments).zip(filters);
        let aggregates = aggregates.map(|((function, arguments), filter)| {
            let accumulator = function.create_groups_accumulator()?;
            Ok(Aggregate {
                arguments,
                filter,
                accumulator,
            })
        });
        Ok(Self {
            group_by: group_by.input_exprs(),
            keys: PendingKeys::new(Arc::clone(&key_schema)),
            key_schema,
            order,
            aggregates: aggregates.collect::<Result<_>>()?,
            schema: aggregate.schema(),
            enough: 1,
            at_most,
            numbers: vec![],
        })
    }

    /// Adds rows, and gives out the groups that are complete before them, if they are enough.
    ///
    /// Whether the last group is complete, the next rows show. So most often all groups go out at once, with the keys as
    /// they came, and nothing of what is left has to be moved.
    pub(super) fn add(&mut self, rows: &RecordBatch) -> Result<Option<RecordBatch>> {
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        let keys = evaluate(&self.group_by, rows)?;
        let keys = RecordBatch::try_new(Arc::clone(&self.key_schema), keys)?;
        let beginnings = Beginnings::of(&keys, self.keys.last().as_ref(), self.order.as_ref())?;
        let goes_on = usize::from(!beginnings.first);
        let complete = self.keys.count - goes_on;
        let are_enough = complete >= self.enough || (complete > 0 && self.size() > MANY_BYTES);
        let output = match are_enough {
            true => {
                self.enough = self.at_most.min(2 * self.enough);
                Some(self.give_out(complete)?)
            }
            false => None,
        };
        if !self.aggregates.is_empty() {
            beginnings.number(self.keys.count, &mut self.numbers);
        }
        self.keys.push(beginnings.keys(&keys)?);
        for aggregate in &mut self.aggregates {
            aggregate.update(rows, &self.numbers, self.keys.count)?;
        }
        Ok(output)
    }

    /// Gives out what is left when there are no more rows.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        match self.keys.count {
            0 => Ok(None),
            count => self.give_out(count).map(Some),
        }
    }

    /// Gives out all groups but the last, if there are more.
    pub(super) fn give_out_complete(&mut self) -> Result<Option<RecordBatch>> {
        match self.keys.count {
            0 | 1 => Ok(None),
            count => self.give_out(count - 1).map(Some),
        }
    }

    /// Takes out the first groups. After all of them, accumulators begin anew.
    fn give_out(&mut self, count: usize) -> Result<RecordBatch> {
        let emit_to = match count == self.keys.count {
            true => EmitTo::All,
            false => EmitTo::First(count),
        };
        let mut columns = self.keys.take(count)?.columns().to_vec();
        for aggregate in &mut self.aggregates {
            columns.push(aggregate.accumulator.evaluate(emit_to)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The bytes that they hold.
    pub(super) fn size(&self) -> usize {
        let aggregates = self.aggregates.iter();
        let accumulators: usize = aggregates.map(|it| it.accumulator.size()).sum();
        accumulators + self.keys.bytes + self.numbers.capacity() * size_of::<usize>()
    }
}

impl Aggregate {
    /// Adds `rows` of the groups of these numbers, of which there are `groups`.
    fn update(&mut self, rows: &RecordBatch, numbers: &[usize], groups: usize) -> Result<()> {
        let arguments = evaluate(&self.arguments, rows)?;
        let filter = match &self.filter {
            None => None,
            Some(filter) => Some(filter.evaluate(rows)?.into_array(rows.num_rows())?),
        };
        let filter = filter.as_ref().map(|it| as_boolean_array(it)).transpose()?;
        self.accumulator
            .update_batch(&arguments, numbers, filter, groups)
    }
}

fn evaluate(exprs: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let values = exprs.iter();
    let values = values.map(|expr| expr.evaluate(rows)?.into_array(rows.num_rows()));
    values.collect()
}
