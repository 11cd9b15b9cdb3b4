//! The rows of one slice.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec::IntoIter;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSource;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use futures::{Stream, StreamExt};

/// Reads the units of a slice one after another, each opened when the one before has ended.
pub(super) struct SliceStream {
    /// A scan in which every unit is a file group of its own.
    file_scan: Arc<FileScanConfig>,
    schema: SchemaRef,
    context: Arc<TaskContext>,
    left: IntoIter<usize>,
    open: Option<(usize, SendableRecordBatchStream)>,
    /// The rows that may still be given, if there is a limit.
    fetch: Option<usize>,
}

impl SliceStream {
    pub(super) fn try_new(
        file_scan: Arc<FileScanConfig>,
        slice: Vec<usize>,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        Ok(Self {
            schema: file_scan.projected_schema()?,
            fetch: file_scan.limit,
            file_scan,
            context,
            left: slice.into_iter(),
            open: None,
        })
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if self.fetch == Some(0) {
                return Poll::Ready(None);
            }
            let Some((unit, stream)) = &mut self.open else {
                let Some(unit) = self.left.next() else {
                    return Poll::Ready(None);
                };
                let stream = self
                    .file_scan
                    .open(unit, Arc::clone(&self.context))
                    .map_err(|e| self.while_reading(unit, e))?;
                self.open = Some((unit, stream));
                continue;
            };
            match ready!(stream.poll_next_unpin(cx)) {
                Some(Ok(batch)) => return Poll::Ready(Some(Ok(self.within_fetch(batch)))),
                Some(Err(e)) => {
                    let unit = *unit;
                    return Poll::Ready(Some(Err(self.while_reading(unit, e))));
                }
                None => self.open = None,
            }
        }
    }

    fn while_reading(&self, unit: usize, error: DataFusionError) -> DataFusionError {
        let files = self.file_scan.file_groups[unit].files();
        let paths: Vec<_> = files.iter().map(|file| file.path().as_ref()).collect();
        error.context(format!("while reading '{}'", paths.join("', '")))
    }

    fn within_fetch(&mut self, batch: RecordBatch) -> RecordBatch {
        let Some(fetch) = &mut self.fetch else {
            return batch;
        };
        let rows = batch.num_rows().min(*fetch);
        *fetch -= rows;
        batch.slice(0, rows)
    }

    /// Lets go of the open unit and of those still to come.
    fn end(&mut self) {
        self.open = None;
        self.left = vec![].into_iter();
    }
}

impl Stream for SliceStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let item = ready!(this.poll_batch(cx));
        if !matches!(item, Some(Ok(_))) || this.fetch == Some(0) {
            this.end();
        }
        Poll::Ready(item)
    }
}

impl RecordBatchStream for SliceStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
