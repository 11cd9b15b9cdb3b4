//! Reading a scan from its last row to its first.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::Result;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use futures::StreamExt;

use super::SortedScan;
use super::row_groups::cut_to;
use crate::layout::Slice;
use crate::merge::reverse;

impl SortedScan {
    /// The same rows in the reverse of the declared orderings; `None` if some unit cannot be read so.
    ///
    /// Slices are to be read from the last to the first. Their units and row groups come in reverse, and each row group is a unit of its own: it is held decoded while
    /// its rows are turned round.
    pub(super) fn reversed(&self) -> Result<Option<Self>> {
        if self.reversed {
            return Ok(None);
        }
        let mut units = vec![];
        let mut new_units = vec![vec![]; self.units.len()];
        for old in (0..self.units.len()).rev() {
            let Some(groups) = self.row_groups_of(old) else {
                return Ok(None);
            };
            let cut = groups.len() > 1;
            for group in groups.rev() {
                new_units[old].push(units.len());
                units.push(if cut {
                    cut_to(self.unit(old), group..group + 1, &self.file_scan)?
                } else {
                    self.unit(old)
                });
            }
        }
        let turned = |slice: &Slice| Slice {
            runs: slice
                .runs
                .iter()
                .map(|run| {
                    run.iter()
                        .rev()
                        .flat_map(|&old| new_units[old].iter().copied())
                        .collect()
                })
                .collect(),
        };
        // They keep their numbers, and with them what they own.
        let slices: Vec<_> = self.slices.iter().map(turned).collect();
        let turned = |sort: &PhysicalSortExpr| PhysicalSortExpr {
            options: reverse(sort.options),
            ..sort.clone()
        };
        let orderings = self
            .orderings()
            .iter()
            .filter_map(|ordering| LexOrdering::new(ordering.iter().map(turned)))
            .collect();
        Ok(Some(Self {
            reversed: true,
            ranges: self.reversed_ranges()?,
            ..self.with_slices(units, slices).with_orderings(orderings)
        }))
    }
}

/// The rows of a unit from the last to the first. All of them are held, and accounted for, until they are emitted.
pub(super) struct ReversedUnit {
    /// What is still to be read.
    forward: Option<SendableRecordBatchStream>,
    batches: VecDeque<RecordBatch>,
    /// The rows of these batches.
    rows: usize,
    /// How many rows are asked for at most, which are the last.
    fetch: Option<usize>,
    reservation: MemoryReservation,
}

impl ReversedUnit {
    pub(super) fn new(
        forward: SendableRecordBatchStream,
        fetch: Option<usize>,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            forward: Some(forward),
            batches: VecDeque::new(),
            rows: 0,
            fetch,
            reservation,
        }
    }

    /// Lets go of batches that the last rows are enough without.
    fn drop_unwanted(&mut self) {
        let Some(fetch) = self.fetch else {
            return;
        };
        while let Some(first) = self.batches.front()
            && self.rows - first.num_rows() >= fetch
        {
            self.rows -= first.num_rows();
            self.reservation.shrink(get_record_batch_memory_size(first));
            self.batches.pop_front();
        }
    }

    pub(super) fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while let Some(forward) = &mut self.forward {
            match ready!(forward.poll_next_unpin(cx)).transpose() {
                Ok(Some(batch)) => {
                    // Counted, and not refused: there is no other way to read the unit.
                    self.reservation.grow(get_record_batch_memory_size(&batch));
                    self.rows += batch.num_rows();
                    self.batches.push_back(batch);
                    self.drop_unwanted();
                }
                Ok(None) => self.forward = None,
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
        Poll::Ready(self.batches.pop_back().map(|batch| {
            self.reservation
                .shrink(get_record_batch_memory_size(&batch));
            turned_round(&batch)
        }))
    }
}

fn turned_round(batch: &RecordBatch) -> Result<RecordBatch> {
    // A batch has far fewer rows.
    let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
    let indices = UInt32Array::from_iter_values((0..rows).rev());
    Ok(take_record_batch(batch, &indices)?)
}
