//! Inserts that a believed listing is out of date after.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use crate::snapshot::Snapshots;

/// `insert`, after which the listing of `snapshots` is not believed any more.
pub(crate) fn invalidating(
    insert: Arc<dyn ExecutionPlan>,
    snapshots: Arc<Snapshots>,
) -> Arc<dyn ExecutionPlan> {
    let Some(exec) = insert.downcast_ref::<DataSinkExec>() else {
        return insert;
    };
    let input = Arc::clone(exec.input());
    let sort_order = exec.sort_order().clone();
    let sink = InvalidatingSink {
        schema: Arc::clone(exec.sink().schema()),
        insert,
        snapshots,
    };
    Arc::new(DataSinkExec::new(input, Arc::new(sink), sort_order))
}

/// The sink of another insert, which has it to itself.
#[derive(Debug)]
struct InvalidatingSink {
    insert: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    snapshots: Arc<Snapshots>,
}

impl InvalidatingSink {
    fn sink(&self) -> Option<&dyn DataSink> {
        let insert = self.insert.downcast_ref::<DataSinkExec>();
        insert.map(|insert| insert.sink())
    }
}

impl DisplayAs for InvalidatingSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sink() {
            Some(sink) => sink.fmt_as(t, f),
            None => f.write_str("InvalidatingSink"),
        }
    }
}

#[async_trait]
impl DataSink for InvalidatingSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.sink()?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let Some(sink) = self.sink() else {
            return internal_err!("an insert without a sink");
        };
        let written = sink.write_all(data, context).await;
        // An insert that fails may have written some files.
        self.snapshots.invalidate();
        written
    }
}
