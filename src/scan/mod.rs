//! The data sources that a sorted table puts into DataFusion's `DataSourceExec`.

mod data_source;
mod grouping;
mod order_display;
mod pieces;
mod slice_stream;
mod sorted_scan;
mod unordered_scan;

pub(crate) use grouping::Grouping;
pub(crate) use pieces::PieceSize;
pub use sorted_scan::SortedScan;
pub(crate) use sorted_scan::Unit;
pub(crate) use unordered_scan::UnorderedScan;

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSource;

/// The file scan that DataFusion made out of one of ours.
fn as_file_scan(source: &Arc<dyn DataSource>) -> Result<FileScanConfig> {
    match (source.as_ref() as &dyn Any).downcast_ref::<FileScanConfig>() {
        Some(scan) => Ok(scan.clone()),
        None => internal_err!("expected a FileScanConfig, found {source:?}"),
    }
}
