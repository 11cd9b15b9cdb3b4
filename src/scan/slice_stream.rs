//! The rows of one slice.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::source::DataSource;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::Count;
use futures::{Stream, StreamExt};

use super::SortedScan;
use super::clip::Clipped;
use super::reverse::ReversedUnit;
use crate::layout::Slice;
use crate::merge::{BoundedMerge, MergeKey, MergeOptions, Part, Polled, Runs, Seams};

/// Reads the units of each run of a slice one after another, each opened when it is reached, and merges the runs.
pub(super) struct SliceStream {
    merge: BoundedMerge<SliceRuns>,
    schema: SchemaRef,
}

impl SliceStream {
    pub(super) fn try_new(
        scan: SortedScan,
        partition: usize,
        slice: &Slice,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let schema = scan.file_scan.projected_schema()?;
        let key = scan.merge_key();
        let options = MergeOptions {
            batch_size: context.session_config().batch_size(),
            fetch: scan.fetch,
            // There are other slices for the other cores.
            tasks: 0,
            reservation: MemoryConsumer::new("SortedScan").register(context.memory_pool()),
        };
        let runs = SliceRuns {
            runs: slice.runs.iter().cloned().map(Run::new).collect(),
            key: key.clone(),
            seams: scan.seams(slice, &schema)?,
            rows_checked: scan.rows_checked(partition),
            scan,
            context,
        };
        Ok(Self {
            merge: BoundedMerge::try_new(runs, key, &schema, options)?,
            schema,
        })
    }
}

impl Stream for SliceStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let batch = ready!(this.merge.poll_batch(cx));
        if !matches!(batch, Ok(Some(_))) || this.merge.is_full() {
            this.merge.end();
        }
        Poll::Ready(batch.transpose())
    }
}

impl RecordBatchStream for SliceStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The units of a slice as runs.
struct SliceRuns {
    scan: SortedScan,
    key: Option<MergeKey>,
    /// What is checked where units meet.
    seams: Vec<(usize, Seams)>,
    rows_checked: Count,
    context: Arc<TaskContext>,
    runs: Vec<Run>,
}

struct Run {
    units: Vec<usize>,
    /// How many units have ended.
    at: usize,
    open: Option<UnitStream>,
    /// What it gave before it was asked for.
    early: Option<Option<Result<RecordBatch>>>,
}

/// The rows of a unit.
enum UnitStream {
    Forward(SendableRecordBatchStream),
    Reversed(ReversedUnit),
}

impl Run {
    fn new(units: Vec<usize>) -> Self {
        Self {
            units,
            at: 0,
            open: None,
            early: None,
        }
    }
}

impl UnitStream {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match self {
            Self::Forward(stream) => stream.poll_next_unpin(cx),
            Self::Reversed(unit) => unit.poll_batch(cx),
        }
    }
}

impl SliceRuns {
    fn open(&self, unit: usize) -> Result<UnitStream> {
        let mut stream = self.scan.scan_of(unit).open(0, Arc::clone(&self.context))?;
        stream = self.scan.verified(unit, stream, &self.rows_checked)?;
        if let Some(range) = &self.scan.units[unit].facts.clip {
            let key = self.scan.merge_key();
            let Some(key) = key.and_then(|key| key.first_columns(range.columns)) else {
                return internal_err!("the columns to clip by are not projected");
            };
            stream = Box::pin(Clipped::try_new(stream, key, range.clone())?);
        }
        Ok(if self.scan.reversed {
            let pool = self.context.memory_pool();
            let reservation = MemoryConsumer::new("SortedScan reversed").register(pool);
            UnitStream::Reversed(ReversedUnit::new(stream, self.scan.fetch, reservation))
        } else {
            UnitStream::Forward(stream)
        })
    }

    /// Checks that a batch of `unit` does not begin before the unit ends that is read before it.
    fn check_seam(&mut self, run: usize, unit: usize, batch: &RecordBatch) -> Result<()> {
        for (ordering, seams) in &mut self.seams {
            if let Some(seam) = seams.check(run, unit, batch)? {
                return Err(self.scan.false_order_of_units(*ordering, unit, &seam));
            }
        }
        Ok(())
    }

    fn while_reading(&self, unit: usize, error: DataFusionError) -> DataFusionError {
        error.context(format!("while reading '{}'", self.scan.file(unit).path()))
    }
}

impl Runs for SliceRuns {
    fn count(&self) -> usize {
        self.runs.len()
    }

    fn part(&self, run: usize) -> Option<Part<'_>> {
        let run = &self.runs[run];
        let &unit = run.units.get(run.at)?;
        let bounds = self.scan.units[unit].facts.bounds.as_ref();
        Some(Part {
            place: unit,
            first: self.key.as_ref().and_then(|key| Some(key.first(bounds?))),
        })
    }

    fn poll(&mut self, index: usize, cx: &mut Context<'_>) -> Poll<Result<Polled>> {
        let Some(&unit) = self.runs[index].units.get(self.runs[index].at) else {
            return Poll::Ready(Ok(Polled::PartEnd));
        };
        if self.runs[index].open.is_none() {
            let opened = self.open(unit).map_err(|e| self.while_reading(unit, e))?;
            self.runs[index].open = Some(opened);
        }
        let run = &mut self.runs[index];
        let Some(open) = &mut run.open else {
            return Poll::Ready(internal_err!("unit {unit} is not open"));
        };
        let batch = match run.early.take() {
            Some(batch) => batch,
            None => ready!(open.poll_batch(cx)),
        };
        Poll::Ready(match batch {
            Some(Ok(batch)) => self
                .check_seam(index, unit, &batch)
                .map(|()| Polled::Batch(batch)),
            Some(Err(e)) => Err(self.while_reading(unit, e)),
            None => {
                run.open = None;
                run.at += 1;
                Ok(Polled::PartEnd)
            }
        })
    }

    fn wait(&mut self, run: usize, cx: &mut Context<'_>) {
        let unit = |run: &Run| run.units.get(run.at).copied();
        let bounds = |unit: Option<usize>| self.scan.units[unit?].facts.bounds.as_ref();
        let (Some(key), Some(awaited)) = (&self.key, bounds(unit(&self.runs[run]))) else {
            return;
        };
        let overlaps = |run: &Run| bounds(unit(run)).is_none_or(|next| key.overlap(awaited, next));
        let early: Vec<_> = (0..self.runs.len())
            .filter(|&other| self.runs[other].open.is_none() && overlaps(&self.runs[other]))
            .collect();
        for other in early {
            let Some(unit) = unit(&self.runs[other]) else {
                continue;
            };
            // An error is met again when the unit is reached.
            if let Ok(mut open) = self.open(unit) {
                let run = &mut self.runs[other];
                if let Poll::Ready(batch) = open.poll_batch(cx) {
                    run.early = Some(batch);
                }
                run.open = Some(open);
            }
        }
    }

    fn end(&mut self) {
        self.runs.clear();
    }
}
