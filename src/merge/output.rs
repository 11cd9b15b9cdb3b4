//! What a merge emits.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::FutureExt;

use super::gather::passes;
use super::stretch::{Merged, Source, Stretch, merge};

/// Rows on their way out: whole batches, and stretches that are put in order by tasks of their own.
#[derive(Debug)]
pub(super) struct Output {
    batch_size: usize,
    /// How many tasks may run at a time. If none, stretches are put in order at once.
    most_tasks: usize,
    tasks: usize,
    /// The rows that are still asked for.
    left: usize,
    /// What comes next.
    stretches: Vec<Stretch>,
    rows: usize,
    /// The bytes of the batches that end in these stretches.
    bytes: usize,
    ready: VecDeque<Ready>,
    /// The rows that were copied since it was asked for.
    gathered: usize,
    reservation: MemoryReservation,
}

/// What may wait behind a task, for each of the tasks that there may be.
const MOST_READY: usize = 4;

#[derive(Debug)]
enum Ready {
    Batch(RecordBatch),
    /// What a task will give, and the bytes of the batches that it holds.
    Task(SpawnedTask<Result<Merged>>, usize),
}

impl Output {
    pub(super) fn new(
        batch_size: usize,
        fetch: Option<usize>,
        most_tasks: usize,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            batch_size: batch_size.max(1),
            most_tasks,
            tasks: 0,
            left: fetch.unwrap_or(usize::MAX),
            stretches: vec![],
            rows: 0,
            bytes: 0,
            ready: VecDeque::new(),
            gathered: 0,
            reservation,
        }
    }

    /// Whether all rows that are asked for have been added.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// How many rows make a batch, of those that are still asked for.
    pub(super) fn batch_rows(&self) -> usize {
        self.batch_size.min(self.left).max(1)
    }

    /// Whether there is nothing to pop.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.stretches.is_empty()
    }

    /// Whether the merge may go on while a task puts in order what comes next.
    pub(super) fn has_room(&self) -> bool {
        self.most_tasks == 0
            || self.tasks < self.most_tasks && self.ready.len() < MOST_READY * self.most_tasks
    }

    /// The merge holds a batch. Counted, and not refused: the batch is there, and the merge cannot go on without it.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.reservation.grow(bytes);
    }

    /// A batch is needed no longer than the rows of it that are added next.
    pub(super) fn let_go(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Adds a batch as it is.
    pub(super) fn push_whole(&mut self, batch: &RecordBatch) -> Result<()> {
        self.flush()?;
        let rows = batch.num_rows().min(self.left);
        self.left -= rows;
        self.ready.push_back(Ready::Batch(batch.slice(0, rows)));
        Ok(())
    }

    /// Adds rows that none of another run comes between.
    pub(super) fn push_rows(&mut self, source: Source) -> Result<()> {
        if passes(source.rows.len(), self.batch_size) {
            let Source { batch, rows, .. } = source;
            return self.push_whole(&batch.slice(rows.start, rows.len()));
        }
        self.push(Stretch {
            sources: vec![source],
        })
    }

    /// Adds rows that are still to be put in order.
    pub(super) fn push(&mut self, stretch: Stretch) -> Result<()> {
        let rows = stretch.rows().min(self.left);
        self.left -= rows;
        self.rows += rows;
        self.stretches.push(stretch);
        if self.rows >= self.batch_size || self.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Puts the stretches that have come together in order.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.stretches.is_empty() {
            self.reservation.shrink(std::mem::take(&mut self.bytes));
            return Ok(());
        }
        let stretches = std::mem::take(&mut self.stretches);
        let rows = std::mem::take(&mut self.rows);
        let bytes = std::mem::take(&mut self.bytes);
        let batch_size = self.batch_size;
        if self.most_tasks == 0 {
            let merged = merge(&stretches, batch_size, rows)?;
            self.reservation.shrink(bytes);
            self.gathered += merged.gathered;
            self.ready
                .extend(merged.batches.into_iter().map(Ready::Batch));
            return Ok(());
        }
        let task = SpawnedTask::spawn(async move { merge(&stretches, batch_size, rows) });
        self.tasks += 1;
        self.ready.push_back(Ready::Task(task, bytes));
        Ok(())
    }

    /// What comes next; `None` if nothing has been added that was not popped.
    pub(super) fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while let Some(next) = self.ready.pop_front() {
            let (mut task, bytes) = match next {
                Ready::Batch(batch) => return Poll::Ready(Some(Ok(batch))),
                Ready::Task(task, bytes) => (task, bytes),
            };
            let Poll::Ready(joined) = task.poll_unpin(cx) else {
                self.ready.push_front(Ready::Task(task, bytes));
                return Poll::Pending;
            };
            self.tasks -= 1;
            self.reservation.shrink(bytes);
            let merged = match joined {
                Ok(Ok(merged)) => merged,
                Ok(Err(e)) => return Poll::Ready(Some(Err(e))),
                Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
                Err(e) => return Poll::Ready(Some(Err(DataFusionError::External(Box::new(e))))),
            };
            self.gathered += merged.gathered;
            for batch in merged.batches.into_iter().rev() {
                self.ready.push_front(Ready::Batch(batch));
            }
        }
        Poll::Ready(None)
    }

    /// The rows copied since the last call.
    pub(super) fn take_gathered(&mut self) -> usize {
        std::mem::take(&mut self.gathered)
    }

    /// Lets go of everything.
    pub(super) fn end(&mut self) {
        self.stretches.clear();
        self.ready.clear();
        self.reservation.free();
    }
}
