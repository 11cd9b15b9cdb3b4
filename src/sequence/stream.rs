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
    pub(super) rows_merged: Count,
    pub(super) baseline: BaselineMetrics,
}

impl SequenceStream {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let batch = ready!(self.merge.poll_batch(cx));
        self.rows_merged.add(self.merge.take_gathered());
        if let Ok(Some(batch)) = &batch {
            self.merge.runs_mut().emitted(batch.num_rows());
        }
        Poll::Ready(batch.transpose())
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
            && (this.merge.is_full() || !matches!(item, Some(Ok(_))))
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
