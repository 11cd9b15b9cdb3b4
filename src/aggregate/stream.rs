//! The stream of groups.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{Stream, StreamExt};

use super::groups::Groups;

/// Groups the rows of its input, which come in the order of the group key.
pub(super) struct SortedAggregateStream {
    input: SendableRecordBatchStream,
    /// `None` after the last row, and after an error.
    groups: Option<Groups>,
    /// What of the groups is next.
    output: VecDeque<RecordBatch>,
    schema: SchemaRef,
    batch_size: usize,
    reservation: MemoryReservation,
    baseline: BaselineMetrics,
}

impl SortedAggregateStream {
    pub(super) fn new(
        input: SendableRecordBatchStream,
        groups: Groups,
        schema: SchemaRef,
        batch_size: usize,
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Self {
        Self {
            input,
            groups: Some(groups),
            output: VecDeque::new(),
            schema,
            batch_size: batch_size.max(1),
            reservation,
            baseline,
        }
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(batch) = self.next_output() {
                return Poll::Ready(Some(Ok(batch)));
            }
            if self.groups.is_none() {
                return Poll::Ready(None);
            }
            let rows = ready!(self.input.poll_next_unpin(cx)).transpose();
            let compute = self.baseline.elapsed_compute().clone();
            let _timer = compute.timer();
            if let Err(e) = rows.and_then(|rows| self.advance(rows)) {
                self.end();
                return Poll::Ready(Some(Err(e)));
            }
        }
    }

    /// Adds rows, or ends without any.
    fn advance(&mut self, rows: Option<RecordBatch>) -> Result<()> {
        let Some(groups) = &mut self.groups else {
            return Ok(());
        };
        let Some(rows) = rows else {
            self.output.extend(groups.finish()?);
            self.end();
            return Ok(());
        };
        self.output.extend(groups.add(&rows)?);
        if let Err(e) = self.reservation.try_resize(groups.size()) {
            // What is complete need not be held. What is left then is little, and DataFusion's node takes it, too.
            self.output.extend(groups.give_out_complete()?);
            if self.output.is_empty() {
                return Err(e);
            }
        }
        Ok(())
    }

    /// Lets go of all that is held for more rows.
    fn end(&mut self) {
        self.groups = None;
        self.input = Box::pin(EmptyRecordBatchStream::new(self.input.schema()));
        self.reservation.free();
    }

    /// The next of the groups that are given out, no more than a batch of them.
    fn next_output(&mut self) -> Option<RecordBatch> {
        let groups = self.output.pop_front()?;
        let rows = groups.num_rows();
        if rows <= self.batch_size {
            return Some(groups);
        }
        let rest = groups.slice(self.batch_size, rows - self.batch_size);
        self.output.push_front(rest);
        Some(groups.slice(0, self.batch_size))
    }
}

impl Stream for SortedAggregateStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let poll = this.poll_batch(cx);
        this.baseline.record_poll(poll)
    }
}

impl RecordBatchStream for SortedAggregateStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
