//! Files cut at the boundaries of their row groups, into byte ranges.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::FileRange;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::unit::Unit;
use crate::statistics::file_without_doubtful;

/// The row groups that DataFusion reads of a byte range. They are adjacent if their places are ascending.
pub(crate) fn groups_in(groups: &[RowGroupMetaData], range: Option<&FileRange>) -> Range<usize> {
    match range {
        Some(range) if are_ascending(groups) => {
            let first = groups.partition_point(|group| start_of(group) < range.start);
            let end = groups.partition_point(|group| start_of(group) < range.end);
            first..end
        }
        Some(_) => 0..0,
        None => 0..groups.len(),
    }
}

/// Whether row groups lie in the file in the order of its footer, so that it can be cut into byte ranges.
pub(crate) fn are_ascending(groups: &[RowGroupMetaData]) -> bool {
    groups
        .windows(2)
        .all(|pair| start_of(&pair[0]) < start_of(&pair[1]))
}

/// The byte that a range must hold for DataFusion to read a row group: that of its first page.
fn start_of(group: &RowGroupMetaData) -> i64 {
    group.columns().first().map_or(0, |column| {
        column
            .dictionary_page_offset()
            .unwrap_or_else(|| column.data_page_offset())
    })
}

/// `unit` cut down to some of its row groups, which must be ascending, with statistics of its own.
pub(crate) fn cut_to(unit: Unit, groups: Range<usize>, scan: &FileScanConfig) -> Result<Unit> {
    let Some(footer) = unit.facts.footer.clone() else {
        return Ok(unit);
    };
    let all = footer.row_groups();
    let (Some(first), false) = (all.get(groups.start), groups.is_empty()) else {
        return Ok(unit);
    };
    let end_of_file = i64::try_from(unit.file.object_meta.size).unwrap_or(i64::MAX);
    let end = all.get(groups.end).map_or(end_of_file, start_of);
    let mut unit = unit;
    unit.file = unit.file.with_range(start_of(first), end);
    unit.facts.bounds = unit.facts.bounds_of(&groups);
    with_statistics_of(unit, groups, scan)
}

/// A unit with the statistics of the row groups that are read of it, if there are any.
pub(super) fn with_statistics_of(
    unit: Unit,
    groups: Range<usize>,
    scan: &FileScanConfig,
) -> Result<Unit> {
    let Some(footer) = unit.facts.footer.as_ref().filter(|_| !groups.is_empty()) else {
        return Ok(unit);
    };
    let read = ParquetMetaData::new(
        footer.file_metadata().clone(),
        footer.row_groups()[groups].to_vec(),
    );
    let statistics =
        DFParquetMetadata::statistics_from_parquet_metadata(&read, scan.file_schema())?;
    let statistics = match &unit.facts.clip {
        None => statistics,
        // Not all of its rows are read.
        Some(_) => statistics.to_inexact(),
    };
    let file = unit.file.with_statistics(Arc::new(statistics));
    let schema = scan.file_source().table_schema().table_schema();
    Ok(Unit {
        file: file_without_doubtful(file, schema),
        facts: unit.facts,
    })
}
