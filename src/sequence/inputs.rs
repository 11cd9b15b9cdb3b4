//! The inputs of a sequence, read by tasks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use futures::task::AtomicWaker;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Overlap;
use super::read_ahead::{Charge, ReadAhead};
use super::scan::sorted_scan_below;
use crate::layout::Bounds;
use crate::merge::{MergeKey, Part, Polled, Runs, Seams};

/// The partitions of a plan as runs, while those that come next are read ahead.
///
/// Dropping it stops all inputs.
pub(super) struct Inputs {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// The partitions of each run, in order.
    runs: Vec<Run>,
    /// How to compare, and where the keys of each partition lie, if there are several runs.
    key: Option<MergeKey>,
    bounds: Arc<[Option<Bounds>]>,
    places: Arc<[usize]>,
    /// Each partition.
    inputs: Vec<Slot>,
    /// The partition to be read ahead next.
    next: usize,
    /// How many may run at a time.
    window: usize,
    running: Arc<RunningInputs>,
    read_ahead: Arc<ReadAhead>,
    /// The rows still to be emitted, if there is a limit.
    fetch: Option<usize>,
    opened: Count,
    /// What is checked where inputs meet.
    seams: Option<Seams>,
}

struct Run {
    partitions: Arc<[usize]>,
    /// How many have ended.
    at: usize,
}

/// Where an input is in its life.
enum Slot {
    Closed,
    Open(Input),
    Ended,
}

/// How many inputs run, and who wants to know when one ends.
#[derive(Debug, Default)]
struct RunningInputs {
    count: AtomicUsize,
    waker: AtomicWaker,
}

/// An input that is read by a task of its own.
struct Input {
    batches: UnboundedReceiver<Result<(RecordBatch, Charge)>>,
    task: SpawnedTask<()>,
    /// The rows still to come, if there is a limit and they are known exactly.
    exact_rows: Option<usize>,
}

impl Inputs {
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        overlap: Option<&Overlap>,
        read_ahead: ReadAhead,
        fetch: Option<usize>,
        opened: Count,
        seams: Option<Seams>,
    ) -> Self {
        let inputs = plan.properties().partitioning.partition_count();
        let run = |partitions: &[usize]| Run {
            partitions: partitions.into(),
            at: 0,
        };
        Self {
            runs: match overlap {
                Some(overlap) => overlap
                    .runs
                    .iter()
                    .map(|partitions| run(partitions))
                    .collect(),
                None => vec![run(&(0..inputs).collect::<Vec<_>>())],
            },
            key: overlap.map(|overlap| overlap.key.clone()),
            bounds: overlap
                .map_or_else(|| Arc::new([]) as _, |overlap| Arc::clone(&overlap.bounds)),
            places: overlap
                .map_or_else(|| Arc::new([]) as _, |overlap| Arc::clone(&overlap.places)),
            inputs: (0..inputs).map(|_| Slot::Closed).collect(),
            next: 0,
            window: context.session_config().target_partitions(),
            running: Arc::default(),
            read_ahead: Arc::new(read_ahead),
            fetch,
            opened,
            seams,
            plan,
            context,
        }
    }

    /// Takes down that so many rows were emitted.
    pub(super) fn emitted(&mut self, rows: usize) {
        if let Some(fetch) = &mut self.fetch {
            *fetch = fetch.saturating_sub(rows);
        }
    }

    /// Opens as many inputs as may run and can be needed.
    fn read_ahead(&mut self) {
        let may_run = |inputs: &Self| {
            inputs.running.count.load(Ordering::Acquire) < inputs.window
                && inputs.read_ahead.has_room()
        };
        while self.skip_opened() && may_run(self) && self.can_need_next() {
            self.spawn(self.next);
        }
    }

    /// Goes on to the next input that is not open yet, if there is one.
    fn skip_opened(&mut self) -> bool {
        let closed = |slot: &Slot| matches!(slot, Slot::Closed);
        let next = self.inputs[self.next..].iter().position(closed);
        self.next = next.map_or(self.inputs.len(), |next| self.next + next);
        next.is_some()
    }

    /// Whether the rows of the open inputs may not be enough.
    fn can_need_next(&self) -> bool {
        let Some(fetch) = self.fetch else {
            return true;
        };
        let rows = |slot: &Slot| match slot {
            Slot::Open(input) => input.exact_rows,
            Slot::Closed | Slot::Ended => None,
        };
        self.inputs.iter().filter_map(rows).sum::<usize>() < fetch
    }

    /// Checks that a batch of an input does not begin before the input ends that is read before it.
    fn check_seam(&mut self, run: usize, input: usize, batch: &RecordBatch) -> Result<()> {
        let seam = match &mut self.seams {
            Some(seams) => seams.check(run, input, batch)?,
            None => None,
        };
        let Some(seam) = seam else {
            return Ok(());
        };
        match sorted_scan_below(&self.plan) {
            Some(scan) => Err(scan.false_order_of_slices(input, &seam)),
            None => internal_err!("a sequence of other inputs than slices"),
        }
    }

    fn spawn(&mut self, input: usize) {
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
        self.opened.add(1);
        self.read_ahead.open();
        self.inputs[input] = Slot::Open(Input {
            batches,
            task,
            exact_rows,
        });
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
}

impl Runs for Inputs {
    fn count(&self) -> usize {
        self.runs.len()
    }

    fn part(&self, run: usize) -> Option<Part<'_>> {
        let run = &self.runs[run];
        let &partition = run.partitions.get(run.at)?;
        let bounds = self.bounds.get(partition).and_then(Option::as_ref);
        Some(Part {
            place: self.places.get(partition).copied().unwrap_or(partition),
            first: self.key.as_ref().and_then(|key| Some(key.first(bounds?))),
        })
    }

    fn poll(&mut self, run: usize, cx: &mut Context<'_>) -> Poll<Result<Polled>> {
        // Another input may be opened when one ends, whether or not it is the one to emit.
        self.running.waker.register(cx.waker());
        let Some(&partition) = self.runs[run].partitions.get(self.runs[run].at) else {
            return Poll::Ready(Ok(Polled::PartEnd));
        };
        if matches!(self.inputs[partition], Slot::Closed) {
            self.spawn(partition);
        }
        self.read_ahead.need(partition);
        self.read_ahead();
        let Slot::Open(input) = &mut self.inputs[partition] else {
            return Poll::Ready(internal_err!("input {partition} has ended"));
        };
        match ready!(input.batches.poll_recv(cx)) {
            Some(Ok((batch, charge))) => {
                self.read_ahead.release(partition, charge);
                if let Some(rows) = &mut input.exact_rows {
                    *rows = rows.saturating_sub(batch.num_rows());
                }
                let checked = self.check_seam(run, partition, &batch);
                Poll::Ready(checked.map(|()| Polled::Batch(batch)))
            }
            Some(Err(e)) => Poll::Ready(Err(e)),
            // The channel closes when the task has ended, in one way or another.
            None => {
                if let Err(e) = ready!(input.task.poll_unpin(cx)) {
                    if e.is_panic() {
                        std::panic::resume_unwind(e.into_panic());
                    }
                    return Poll::Ready(Err(DataFusionError::External(Box::new(e))));
                }
                self.inputs[partition] = Slot::Ended;
                self.runs[run].at += 1;
                self.read_ahead.advance();
                Poll::Ready(Ok(Polled::PartEnd))
            }
        }
    }

    /// All that overlap with an input are needed before it ends. Some are opened at a time, and not one after another.
    fn wait(&mut self, run: usize, _cx: &mut Context<'_>) {
        let awaited = self.runs[run].partitions.get(self.runs[run].at);
        let all = Arc::clone(&self.bounds);
        let bounds = |input: usize| all.get(input).and_then(Option::as_ref);
        let (Some(key), Some(awaited)) =
            (self.key.clone(), awaited.and_then(|&input| bounds(input)))
        else {
            return;
        };
        while self.read_ahead.unneeded() < self.window && self.skip_opened() && self.can_need_next()
        {
            if bounds(self.next).is_some_and(|next| !key.overlap(awaited, next)) {
                return;
            }
            self.spawn(self.next);
        }
    }

    fn end(&mut self) {
        self.runs.clear();
        self.inputs.clear();
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
