//! Row groups cut into ranges of rows, so that no more of a large one has to be held than is read.

use std::ops::Range;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetRowSelection, RowGroupAccess,
};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;

use super::row_groups::{groups_in, with_statistics_of_some_rows};
use super::unit::Unit;
use crate::sizes;

/// Whether nobody has chosen rows of the file already.
pub(super) fn can_select_rows(file: &PartitionedFile) -> bool {
    file.extension::<ParquetAccessPlan>().is_none()
        && file.extension::<ParquetRowSelection>().is_none()
}

/// A row group in ranges of rows of about `bytes` decoded bytes, which begin where pages of its largest column do; none
/// if it is not much larger, or its footer does not say where pages begin: then its reader would fetch all of it each
/// time.
///
/// The reader of each range decodes the dictionaries of its columns anew. A range has at least `per_dictionary` times
/// their bytes.
pub(super) fn row_ranges(
    footer: &ParquetMetaData,
    group: usize,
    bytes: u64,
    per_dictionary: u64,
) -> Vec<Range<usize>> {
    let metadata = &footer.row_groups()[group];
    let rows = sizes::rows(metadata) as usize;
    let dictionaries: u64 = metadata.columns().iter().map(sizes::dictionary).sum();
    let bytes = bytes.max(per_dictionary * dictionaries);
    let ranges = (sizes::decoded(metadata) / bytes.max(1)).min(rows as u64) as usize;
    let largest = metadata
        .columns()
        .iter()
        .enumerate()
        .max_by_key(|(_, column)| column.compressed_size());
    let (Some(pages), Some((largest, _)), true) = (
        footer.offset_index().and_then(|index| index.get(group)),
        largest,
        ranges > 1,
    ) else {
        return vec![];
    };
    // Where some column has no index, selecting rows of it saves nothing.
    if pages
        .iter()
        .any(|column| column.page_locations().is_empty())
    {
        return vec![];
    }
    let mut starts = vec![0];
    for page in pages
        .get(largest)
        .into_iter()
        .flat_map(|column| column.page_locations())
    {
        let start = usize::try_from(page.first_row_index).unwrap_or(0);
        // The even share of the ranges that are left.
        let due = rows * starts.len() / ranges;
        if start >= due && start > starts[starts.len() - 1] && start < rows {
            starts.push(start);
        }
    }
    let ends = starts[1..].iter().copied().chain([rows]);
    let cut: Vec<_> = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| start..end)
        .collect();
    if cut.len() > 1 { cut } else { vec![] }
}

/// `unit`, which is adjacent row groups, cut down to some rows of some of them.
pub(super) fn select_rows(mut unit: Unit, rows: &[(usize, Range<usize>)]) -> Unit {
    let Some(footer) = &unit.facts.footer else {
        return unit;
    };
    let of_group = |group: usize| usize::try_from(footer.row_groups()[group].rows).unwrap_or(0);
    let mut plan = ParquetAccessPlan::new_none(footer.row_groups().len());
    let mut selected = 0;
    for group in groups_in(footer.row_groups(), unit.file.range.as_ref()) {
        plan.scan(group);
        selected += of_group(group);
    }
    for (group, rows) in rows {
        let selection = RowSelection::from(vec![
            RowSelector::skip(rows.start),
            RowSelector::select(rows.len()),
            RowSelector::skip(of_group(*group).saturating_sub(rows.end)),
        ]);
        plan.set(*group, RowGroupAccess::Selection(selection));
        // The page index may claim more rows than there are.
        selected -= of_group(*group).saturating_sub(rows.len());
    }
    let is_exact = unit.facts.clip.is_none();
    unit.file = with_statistics_of_some_rows(unit.file, selected, is_exact);
    unit.file = unit.file.with_extension(plan);
    unit
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn footer(dictionary: bool, page_index: PageIndexPolicy) -> ParquetMetaData {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(10)
            .set_dictionary_enabled(dictionary)
            .build();
        let mut bytes = vec![];
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        ParquetMetaDataReader::new()
            .with_page_index_policy(page_index)
            .parse_and_finish(&bytes::Bytes::from(bytes))
            .unwrap()
    }

    #[test]
    fn ranges_begin_at_pages_and_are_even() {
        let footer = footer(false, PageIndexPolicy::Required);
        assert_eq!(row_ranges(&footer, 0, 4000, 16), [0..500, 500..1000]);
        assert_eq!(
            row_ranges(&footer, 0, 2500, 16),
            [0..400, 400..700, 700..1000]
        );
        assert_eq!(row_ranges(&footer, 0, 1, 16).len(), 10);
        assert!(
            row_ranges(&footer, 0, 5000, 16).is_empty(),
            "not much larger"
        );
    }

    #[test]
    fn dictionaries_are_not_decoded_again_and_again() {
        let footer = footer(true, PageIndexPolicy::Required);
        // It has all values of the column.
        assert!(row_ranges(&footer, 0, 1, 1).is_empty());
        assert_eq!(row_ranges(&footer, 0, 2000, 0).len(), 4);
    }

    #[test]
    fn where_pages_begin_has_to_be_known() {
        assert!(row_ranges(&footer(false, PageIndexPolicy::Skip), 0, 4000, 16).is_empty());
    }
}
