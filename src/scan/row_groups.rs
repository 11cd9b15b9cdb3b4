//! Files cut at the boundaries of their row groups, into byte ranges.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use parquet::file::metadata::ParquetMetaData;

use super::footer::RowGroup;
use super::unit::Unit;
use crate::statistics::file_without_doubtful;

/// The row groups that DataFusion reads of a byte range. They are adjacent if their places are ascending.
pub(crate) fn groups_in(groups: &[RowGroup], range: Option<&FileRange>) -> Range<usize> {
    match range {
        Some(range) if are_ascending(groups) => {
            let first = groups.partition_point(|group| group.start < range.start);
            let end = groups.partition_point(|group| group.start < range.end);
            first..end
        }
        Some(_) => 0..0,
        None => 0..groups.len(),
    }
}

/// Whether row groups lie in the file in the order of its footer, so that it can be cut into byte ranges.
pub(crate) fn are_ascending(groups: &[RowGroup]) -> bool {
    groups.windows(2).all(|pair| pair[0].start < pair[1].start)
}

/// `unit` cut down to some of its row groups, which must be ascending, with statistics of its own if its footer is at
/// hand.
pub(crate) fn cut_to(unit: Unit, groups: Range<usize>, scan: &FileScanConfig) -> Result<Unit> {
    let Some(footer) = unit.facts.footer.clone() else {
        return Ok(unit);
    };
    let all = footer.row_groups();
    let (Some(first), false) = (all.get(groups.start), groups.is_empty()) else {
        return Ok(unit);
    };
    let end_of_file = i64::try_from(unit.file.object_meta.size).unwrap_or(i64::MAX);
    let end = all.get(groups.end).map_or(end_of_file, |group| group.start);
    let mut unit = unit;
    unit.file = unit.file.with_range(first.start, end);
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
    let Some(footer) = footer.whole() else {
        let rows = footer.row_groups()[groups].iter().map(|group| group.rows);
        let rows = usize::try_from(rows.sum::<u64>()).unwrap_or(usize::MAX);
        return Ok(Unit {
            file: with_statistics_of_some_rows(unit.file, rows, unit.facts.clip.is_none()),
            facts: unit.facts,
        });
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

/// A part of a file that has `rows` rows, or if that is not exact, at most as many. Minima and maxima of the whole hold,
/// but may not be reached.
pub(super) fn with_statistics_of_some_rows(
    file: PartitionedFile,
    rows: usize,
    is_exact: bool,
) -> PartitionedFile {
    let statistics = file.statistics.map(|statistics| {
        let mut statistics = Arc::unwrap_or_clone(statistics).to_inexact();
        statistics.num_rows = match is_exact {
            true => Precision::Exact(rows),
            false => Precision::Inexact(rows),
        };
        Arc::new(statistics)
    });
    PartitionedFile { statistics, ..file }
}
