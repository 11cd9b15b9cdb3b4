//! The rows of a sequence of inputs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use futures::Stream;

use super::inputs::Inputs;
use crate::merge::BoundedMerge;

/// Emits the rows of inputs in order, and no more than are asked for.
pub(super) struct SequenceStream {
    pub(super) merge: BoundedMerge<Inputs>,
    pub(super) schema: SchemaRef,
    /// The rows still to be emitted, if there is a limit.
    pub(super) fetch: Option<usize>,
    pub(super) rows_merged: Count,
    pub(super) baseline: BaselineMetrics,
}

impl SequenceStream {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.fetch == Some(0) {
            return Poll::Ready(None);
        }
        let batch = ready!(self.merge.poll_batch(cx));
        self.rows_merged.add(self.merge.take_gathered());
        Poll::Ready(
            batch
                .map(|batch| batch.map(|batch| self.within_fetch(batch)))
                .transpose(),
        )
    }

    fn within_fetch(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(fetch) = &mut self.fetch else {
            return batch;
        };
        let rows = batch.num_rows().min(*fetch);
        *fetch -= rows;
        self.merge.runs_mut().emitted(rows);
        batch.slice(0, rows)
    }
}

impl Stream for SequenceStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let timer = this.baseline.elapsed_compute().clone();
        let _timer = timer.timer();
        let poll = this.poll_batch(cx);
        if let Poll::Ready(item) = &poll
            && (this.fetch == Some(0) || !matches!(item, Some(Ok(_))))
        {
            this.merge.end();
        }
        this.baseline.record_poll(poll)
    }
}

impl RecordBatchStream for SequenceStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
