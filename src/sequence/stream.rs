//! The rows of a sequence of inputs.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use futures::task::AtomicWaker;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::read_ahead::{Charge, ReadAhead};

/// Emits the partitions of `plan` one after another, while those that come next are read ahead.
///
/// Dropping it stops all inputs.
pub(super) struct SequenceStream {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) context: Arc<TaskContext>,
    pub(super) schema: SchemaRef,
    /// The partitions of `plan`, and the next of them to open.
    pub(super) inputs: usize,
    pub(super) next: usize,
    /// Those that are open, in order; the first is being emitted.
    pub(super) open: VecDeque<Input>,
    /// How many may run at a time.
    pub(super) window: usize,
    pub(super) running: Arc<RunningInputs>,
    pub(super) read_ahead: Arc<ReadAhead>,
    /// The rows still to be emitted, if there is a limit.
    pub(super) fetch: Option<usize>,
    pub(super) opened: Count,
    pub(super) baseline: BaselineMetrics,
}

/// How many inputs run, and who wants to know when one ends.
#[derive(Debug, Default)]
pub(super) struct RunningInputs {
    count: AtomicUsize,
    waker: AtomicWaker,
}

/// An input that is read by a task of its own.
pub(super) struct Input {
    batches: UnboundedReceiver<Result<(RecordBatch, Charge)>>,
    task: SpawnedTask<()>,
    /// The rows still to come, if there is a limit and they are known exactly.
    exact_rows: Option<usize>,
}

impl SequenceStream {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        // Another input may be opened when one ends, whether or not it is the one to emit.
        self.running.waker.register(cx.waker());
        loop {
            if self.fetch == Some(0) {
                return Poll::Ready(None);
            }
            self.open_inputs();
            let Some(input) = self.open.front_mut() else {
                return Poll::Ready(None);
            };
            match ready!(input.batches.poll_recv(cx)) {
                Some(Ok((batch, charge))) => {
                    self.read_ahead.release(charge);
                    return Poll::Ready(Some(Ok(self.within_fetch(batch))));
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                // The channel closes when the task has ended, in one way or another.
                None => {
                    let ended = ready!(input.task.poll_unpin(cx));
                    if let Err(e) = ended {
                        if e.is_panic() {
                            std::panic::resume_unwind(e.into_panic());
                        }
                        return Poll::Ready(Some(Err(DataFusionError::External(Box::new(e)))));
                    }
                    self.open.pop_front();
                    self.read_ahead.advance();
                }
            }
        }
    }

    /// Opens as many inputs as may run and can be needed: always one to emit.
    fn open_inputs(&mut self) {
        while self.next < self.inputs {
            let may_read_ahead = self.running.count.load(Ordering::Acquire) < self.window
                && self.read_ahead.has_room()
                && self.can_need_next();
            if !self.open.is_empty() && !may_read_ahead {
                return;
            }
            self.open.push_back(self.spawn(self.next));
            self.opened.add(1);
            self.next += 1;
        }
    }

    /// Whether the rows of the open inputs may not be enough.
    fn can_need_next(&self) -> bool {
        let Some(fetch) = self.fetch else {
            return true;
        };
        let sure: usize = self.open.iter().filter_map(|input| input.exact_rows).sum();
        sure < fetch
    }

    fn spawn(&self, input: usize) -> Input {
        let (sender, batches) = unbounded_channel();
        let running = Running::new(&self.running);
        let read_ahead = Arc::clone(&self.read_ahead);
        let plan = Arc::clone(&self.plan);
        let context = Arc::clone(&self.context);
        let task = SpawnedTask::spawn(async move {
            let _running = running;
            if let Err(e) = read(input, plan, context, &read_ahead, &sender).await {
                // Nobody listens any more: then nobody has to know.
                let _ = sender.send(Err(e));
            }
        });
        let exact_rows = self.fetch.and_then(|_| self.exact_rows(input));
        Input {
            batches,
            task,
            exact_rows,
        }
    }

    /// The rows of an input, if statistics know them exactly.
    fn exact_rows(&self, input: usize) -> Option<usize> {
        let args = StatisticsArgs::new().with_partition(Some(input));
        let statistics = StatisticsContext::new().compute(self.plan.as_ref(), &args);
        match statistics.ok()?.num_rows {
            Precision::Exact(rows) => Some(rows),
            _ => None,
        }
    }

    fn within_fetch(&mut self, batch: RecordBatch) -> RecordBatch {
        if let Some(Input {
            exact_rows: Some(rows),
            ..
        }) = self.open.front_mut()
        {
            *rows = rows.saturating_sub(batch.num_rows());
        }
        let Some(fetch) = &mut self.fetch else {
            return batch;
        };
        let rows = batch.num_rows().min(*fetch);
        *fetch -= rows;
        batch.slice(0, rows)
    }

    /// Stops all inputs.
    fn end(&mut self) {
        self.open.clear();
        self.next = self.inputs;
        self.read_ahead.close();
    }
}

/// Reads all of an input into its channel, as far as the read-ahead lets it.
async fn read(
    input: usize,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    read_ahead: &ReadAhead,
    sender: &UnboundedSender<Result<(RecordBatch, Charge)>>,
) -> Result<()> {
    let mut batches = plan.execute(input, context)?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let charge = read_ahead
            // Buffers that batches share are counted for each: rather too much than too little.
            .admit(input, get_record_batch_memory_size(&batch))
            .await;
        if sender.send(Ok((batch, charge))).is_err() {
            break;
        }
    }
    Ok(())
}

/// Counts a task as running until it is dropped, however it ends.
struct Running(Arc<RunningInputs>);

impl Running {
    fn new(running: &Arc<RunningInputs>) -> Self {
        running.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.waker.wake();
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
            this.end();
        }
        this.baseline.record_poll(poll)
    }
}

impl RecordBatchStream for SequenceStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
