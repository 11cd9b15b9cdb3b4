//! Checks that the rows of a unit are in the declared order, while they are read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source::DataSource;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{Count, MetricBuilder};
use futures::{Stream, StreamExt};

use super::SortedScan;
use super::descent::first_descent;
use super::false_order::{Found, Violation};
use super::sorted_scan::projected;
use super::unit::bounds_of;
use crate::config::Verify;
use crate::layout::{Bounds, Slice};
use crate::merge::{KeyBuf, Keys, MergeKey, Seams, reverse};

/// The rows of a unit in the order of its file, as long as that is the declared one.
pub(super) struct Verified {
    rows: SendableRecordBatchStream,
    schema: SchemaRef,
    scan: SortedScan,
    unit: usize,
    checks: Vec<Check>,
    /// How many rows came before the next batch.
    row: usize,
    rows_checked: Count,
}

/// One declared order, as far as its columns are read.
struct Check {
    /// Its number.
    ordering: usize,
    keys: Keys,
    /// Of the first column.
    options: SortOptions,
    /// Where all rows lie, if that is known.
    bounds: Option<Bounds>,
    columns: usize,
    /// The last key so far.
    last: Option<KeyBuf>,
    every_row: bool,
}

impl SortedScan {
    /// The rows of a unit, checked if that is wanted, and if columns of the key are read.
    pub(super) fn verified(
        &self,
        unit: usize,
        rows: SendableRecordBatchStream,
        rows_checked: &Count,
    ) -> Result<SendableRecordBatchStream> {
        let schema = rows.schema();
        let checks = self.checks(unit, &schema)?;
        if checks.is_empty() {
            return Ok(rows);
        }
        Ok(Box::pin(Verified {
            rows,
            schema,
            scan: self.clone(),
            unit,
            checks,
            row: 0,
            rows_checked: rows_checked.clone(),
        }))
    }

    /// The metric of what was compared of a slice.
    pub(super) fn rows_checked(&self, slice: usize) -> Count {
        match self.options.verify {
            Verify::Off => Count::new(),
            Verify::Boundaries | Verify::Rows => {
                MetricBuilder::new(&self.file_scan.metrics()).counter("rows_checked", slice)
            }
        }
    }

    fn checks(&self, unit: usize, schema: &Schema) -> Result<Vec<Check>> {
        let check = |(ordering, key): (usize, MergeKey)| {
            let stored = key.ordering().iter().cloned();
            let stored = LexOrdering::new(stored.map(|sort| self.as_stored(sort)));
            let Some(stored) = stored else {
                return internal_err!("a key has columns");
            };
            Ok(Check {
                ordering,
                options: stored[0].options,
                columns: stored.len(),
                keys: Keys::try_new(MergeKey::new(stored, false), schema)?,
                // Bounds are those of the first.
                bounds: (ordering == 0).then(|| self.bounds_as_read(unit)).flatten(),
                last: None,
                every_row: self.options.verify == Verify::Rows,
            })
        };
        self.checked_keys(schema).into_iter().map(check).collect()
    }

    /// What is checked where the units of a slice meet.
    /// Each with the number of its ordering.
    pub(super) fn seams(&self, slice: &Slice, schema: &Schema) -> Result<Vec<(usize, Seams)>> {
        let keys = self.checked_keys(schema).into_iter();
        let seams = keys.map(|(ordering, key)| {
            let seams = Seams::try_new(&key, slice.runs.len(), schema)?;
            Ok(seams.map(|seams| (ordering, seams)))
        });
        seams.filter_map(Result::transpose).collect()
    }

    /// Whether there is something to check.
    pub(crate) fn checks_rows(&self) -> Result<bool> {
        let schema = self.file_scan.projected_schema()?;
        Ok(!self.checked_keys(&schema).is_empty())
    }

    /// The orderings that are checked, as far as their columns are read, each with its number.
    fn checked_keys(&self, schema: &Schema) -> Vec<(usize, MergeKey)> {
        let mut keys: Vec<(usize, MergeKey)> = vec![];
        if self.options.verify == Verify::Off {
            return keys;
        }
        for (number, ordering) in self.orderings().iter().enumerate() {
            let key = LexOrdering::new(projected(&self.file_scan, ordering));
            let key = key.and_then(|key| MergeKey::new(key, self.reversed).checkable(schema));
            let Some(key) = key else {
                continue;
            };
            let follows =
                |(_, other): &(usize, MergeKey)| other.ordering().starts_with(key.ordering());
            if !keys.iter().any(follows) {
                keys.push((number, key));
            }
        }
        keys
    }

    /// The order of a column as files have it.
    pub(super) fn as_stored(&self, sort: PhysicalSortExpr) -> PhysicalSortExpr {
        PhysicalSortExpr {
            options: match self.reversed {
                true => reverse(sort.options),
                false => sort.options,
            },
            ..sort
        }
    }

    /// Where all rows lie that are read of a unit, those that are clipped included.
    fn bounds_as_read(&self, unit: usize) -> Option<Bounds> {
        let facts = &self.units[unit].facts;
        match &facts.clip {
            None => facts.bounds.clone(),
            Some(_) => bounds_of(&facts.groups, &self.row_groups_of(unit)?),
        }
    }
}

impl Verified {
    fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        for check in &mut self.checks {
            if let Some(violation) = check.check(batch, self.row)? {
                return Err(self.scan.false_order(self.unit, &violation));
            }
        }
        let every_row = self.checks.iter().any(|check| check.every_row);
        let checked = if every_row { batch.num_rows() } else { 2 };
        self.rows_checked.add(checked.min(batch.num_rows()));
        self.row += batch.num_rows();
        Ok(())
    }
}

impl Check {
    /// What is out of order in `batch`, whose first row is the `row`th.
    fn check(&mut self, batch: &RecordBatch, row: usize) -> Result<Option<Violation>> {
        let Some(last_row) = batch.num_rows().checked_sub(1) else {
            return Ok(None);
        };
        let columns = self.keys.columns(batch)?;
        let key = |row: usize| self.keys.of_row(&columns, row);
        let (first, last) = (key(0)?, key(last_row)?);
        let bounds = self.bounds.as_ref();
        if let Some(before) = &self.last
            && first.is_before(before)
        {
            return self.found(row, &first, Found::After(row - 1), before.bytes());
        }
        if let Some(lower) = bounds.map(|bounds| bounds.lower().prefix(self.columns))
            && first.bytes() < lower
        {
            return self.found(row, &first, Found::LowerBound, lower);
        }
        if self.every_row
            && let Some(late) = first_descent(&self.keys, &columns, self.options)?
        {
            let found = Found::After(row + late - 1);
            return self.found(row + late, &key(late)?, found, key(late - 1)?.bytes());
        }
        if last.is_before(&first) {
            return self.found(row + last_row, &last, Found::After(row), first.bytes());
        }
        if let Some(upper) = bounds.map(|bounds| bounds.upper().prefix(self.columns))
            && last.bytes() > upper
        {
            return self.found(row + last_row, &last, Found::UpperBound, upper);
        }
        self.last = Some(last);
        Ok(None)
    }

    fn found(
        &self,
        row: usize,
        key: &KeyBuf,
        found: Found,
        other: &[u8],
    ) -> Result<Option<Violation>> {
        Ok(Some(Violation {
            ordering: self.ordering,
            row,
            key: self.keys.values(key.bytes())?,
            found,
            other: self.keys.values(other)?,
        }))
    }
}

impl Stream for Verified {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = ready!(self.rows.poll_next_unpin(cx));
        Poll::Ready(match batch {
            Some(Ok(batch)) => Some(self.check(&batch).map(|()| batch)),
            other => other,
        })
    }
}

impl RecordBatchStream for Verified {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
