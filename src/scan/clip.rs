//! Rows within a range of keys.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};

use crate::layout::{Key, KeyRange};
use crate::merge::{KeyBuf, Keys, MergeKey};

/// The rows of a sorted stream whose keys are in a range, and no more of it is read than has to be.
pub(super) struct Clipped {
    rows: SendableRecordBatchStream,
    keys: Keys,
    range: KeyRange,
    schema: SchemaRef,
    /// The key of the last row that was read.
    last: Option<KeyBuf>,
    /// Whether a row was met that comes after the range.
    is_over: bool,
}

impl Clipped {
    /// `key` is the beginning of the key that the range is of.
    pub(super) fn try_new(
        rows: SendableRecordBatchStream,
        key: MergeKey,
        range: KeyRange,
    ) -> Result<Self> {
        let schema = rows.schema();
        Ok(Self {
            keys: Keys::try_new(key, &schema)?,
            rows,
            range,
            schema,
            last: None,
            is_over: false,
        })
    }

    /// What is clipped away here is read by another slice only if rows are in order: a false order would lose rows.
    fn check_order(&mut self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let first = self.keys.of_row(columns, 0)?;
        let late = match &self.last {
            // In the order of files, whichever way the scan is read.
            Some(last) if first.bytes() < last.bytes() => Some(0),
            _ => self.keys.first_descent(columns)?,
        };
        if let Some(row) = late {
            return exec_err!(
                "the rows are not in the order that is declared: row {row} of a batch comes before the one that \
                 it follows. Write the file anew in that order, or declare another one"
            );
        }
        self.last = Some(self.keys.of_row(columns, rows - 1)?);
        Ok(())
    }

    /// The rows of `batch`, which has some, that are in the range.
    fn clip(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.keys.columns(batch)?;
        self.check_order(&columns, rows)?;
        let before = |limit: &Option<Key>| match limit {
            Some(limit) => self.rows_before(&columns, rows, limit).map(Some),
            None => Ok(None),
        };
        let start = before(&self.range.from)?.unwrap_or(0);
        let end = before(&self.range.to)?.unwrap_or(rows);
        self.is_over = end < rows;
        Ok(batch.slice(start, end.saturating_sub(start)))
    }

    /// How many of `rows` rows come before `limit`. O(log rows).
    fn rows_before(&self, columns: &[ArrayRef], rows: usize, limit: &Key) -> Result<usize> {
        let limit = limit.prefix(self.range.columns);
        let is_before =
            |row| Ok::<_, DataFusionError>(self.keys.of_row(columns, row)?.bytes() < limit);
        let (mut low, mut high) = (0, rows);
        // Mostly, all rows are on one side.
        if is_before(rows - 1)? {
            return Ok(rows);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

impl Stream for Clipped {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.is_over {
            let clipped = match ready!(self.rows.poll_next_unpin(cx)) {
                Some(Ok(batch)) if batch.num_rows() == 0 => continue,
                Some(Ok(batch)) => self.clip(&batch),
                other => return Poll::Ready(other),
            };
            match clipped {
                Ok(batch) if batch.num_rows() == 0 => {}
                clipped => return Poll::Ready(Some(clipped)),
            }
        }
        Poll::Ready(None)
    }
}

impl RecordBatchStream for Clipped {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
