//! The data sources that a sorted table puts into DataFusion's `DataSourceExec`.

mod at_once;
mod atoms;
mod byte_ranges;
mod clip;
mod data_source;
mod descent;
mod false_order;
mod finer;
mod footer;
mod grouping;
mod narrow;
mod offer;
mod order_display;
mod pieces;
mod range;
mod read_options;
mod reverse;
mod row_groups;
mod row_ranges;
mod slice_stream;
mod sorted_scan;
mod survey;
mod unit;
mod unordered_scan;
mod verify;

pub(crate) use finer::Finer;
pub(crate) use footer::{Footer, RowGroup};
pub(crate) use grouping::Grouping;
pub(crate) use narrow::narrow;
pub(crate) use offer::Offer;
pub(crate) use order_display::{show, show_column};
pub(crate) use pieces::{InPieces, PieceSize};
pub(crate) use range::{InRanges, Whole};
pub(crate) use read_options::ReadOptions;
pub(crate) use row_groups::{are_ascending, cut_to, groups_in};
pub use sorted_scan::SortedScan;
pub(crate) use sorted_scan::projected_columns;
pub(crate) use unit::{Unit, UnitFacts, bounds_of};
pub(crate) use unordered_scan::UnorderedScan;

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSource;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};

/// The file scan that DataFusion made out of one of ours.
fn as_file_scan(source: &Arc<dyn DataSource>) -> Result<FileScanConfig> {
    match (source.as_ref() as &dyn Any).downcast_ref::<FileScanConfig>() {
        Some(scan) => Ok(scan.clone()),
        None => internal_err!("expected a FileScanConfig, found {source:?}"),
    }
}

/// Whether a scan keeps some filter that it does not apply to each row.
fn some_only_prune(pushed: &FilterPushdownPropagation<Arc<dyn DataSource>>) -> bool {
    let mut filters = pushed.filters.iter();
    filters.any(|pushed| matches!(pushed, PushedDown::No))
}
