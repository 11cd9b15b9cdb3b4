//! Rows within a range of keys.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
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
    fn check_order(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = self.keys.columns(batch)?;
        let last = self.keys.check_order(&columns, self.last.as_ref())?;
        match last {
            Ok(Some(last)) => self.last = Some(last),
            Ok(None) => {}
            Err(row) => {
                return exec_err!(
                    "the rows are not in the order that is declared: row {row} of a batch comes before the one that \
                     it follows. Write the file anew in that order, or declare another one"
                );
            }
        }
        Ok(())
    }

    fn clip(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.check_order(batch)?;
        let start = self
            .rows_before(batch, self.range.from.as_ref())?
            .unwrap_or(0);
        let rows = batch.num_rows();
        let end = self
            .rows_before(batch, self.range.to.as_ref())?
            .unwrap_or(rows);
        self.is_over = end < rows;
        Ok(batch.slice(start, end.saturating_sub(start)))
    }

    /// How many rows of `batch` come before `limit`. O(log rows).
    fn rows_before(&self, batch: &RecordBatch, limit: Option<&Key>) -> Result<Option<usize>> {
        let Some(limit) = limit.map(|limit| limit.prefix(self.range.columns)) else {
            return Ok(None);
        };
        let columns = self.keys.columns(batch)?;
        let is_before = |row| {
            Ok::<_, datafusion::error::DataFusionError>(
                self.keys.of_row(&columns, row)?.bytes() < limit,
            )
        };
        let (mut low, mut high) = (0, batch.num_rows());
        // Mostly, all rows are on one side.
        if high > 0 && is_before(high - 1)? {
            return Ok(Some(high));
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(low))
    }
}

impl Stream for Clipped {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.is_over {
            let clipped = match ready!(self.rows.poll_next_unpin(cx)) {
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
