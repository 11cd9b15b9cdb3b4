//! Where the keys of pages lie, so that no more of a row group is read than has to be.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt64Array};

use super::column::{is_float, lossless_cast, order_is_defined, statistics_of};
use super::lossless::{is_lossless, value_type};
use super::sort_key::{FileView, SortKey};
use crate::layout::KeyRange;

impl SortKey {
    /// The rows of row group `group` outside of which no key is in `range`, as far as the page index tells by the first
    /// column of the key; `None` if it tells nothing.
    pub(crate) fn rows_in(
        &self,
        file: FileView<'_>,
        group: usize,
        range: &KeyRange,
    ) -> Option<Range<usize>> {
        let pages = self.pages(file, group)?;
        let from = range.from.as_ref().map(|from| from.column(0));
        let to = range.to.as_ref().map(|to| to.column(0));
        // With more columns than one, a key of this first column may be on either side.
        let is_one_column = range.columns == 1;
        let before = |page: &&Page| from.is_some_and(|from| page.upper.as_ref() < from);
        let after = |page: &&Page| {
            to.is_some_and(|to| {
                page.lower.as_ref() > to || is_one_column && page.lower.as_ref() == to
            })
        };
        let first = pages.iter().take_while(before).count();
        let last = pages.len() - pages.iter().rev().take_while(after).count();
        let end = |page: usize| match pages.get(page) {
            Some(page) => page.first_row,
            None => usize::try_from(file.footer.row_group(group).num_rows()).unwrap_or(0),
        };
        Some(end(first)..end(last).max(end(first)))
    }

    fn pages(&self, file: FileView<'_>, group: usize) -> Option<Vec<Page>> {
        let column = self.columns.first()?;
        let (_, field) = file.schema.column_with_name(&column.name)?;
        let is_known = column.partition.is_none()
            && !file.custom_adapter
            // Bounds leave NaN out.
            && !is_float(&column.data_type)
            && is_lossless(value_type(field.data_type()), &column.data_type);
        if !is_known {
            return None;
        }
        let (pages, offsets) = (file.footer.column_index()?, file.footer.offset_index()?);
        let (converter, leaf) = statistics_of(column, file).ok()?;
        if !order_is_defined(file, file.footer.row_group(group), leaf) {
            return None;
        }
        let nulls = converter
            .data_page_null_counts(pages, offsets, [&group])
            .ok()?;
        let min = converter.data_page_mins(pages, offsets, [&group]).ok()?;
        let max = converter.data_page_maxes(pages, offsets, [&group]).ok()?;
        let (lower, upper) = if column.options.descending {
            (max, min)
        } else {
            (min, max)
        };
        let locations = offsets.get(group)?.get(leaf)?.page_locations();
        let same = [lower.len(), upper.len(), nulls.len()]
            .iter()
            .all(|&len| len == locations.len());
        if !same || !is_complete(&lower, &upper, &nulls) {
            return None;
        }
        let rows = |array: &ArrayRef| {
            let values = lossless_cast(array, &column.data_type).ok()?;
            column.converter.convert_columns(&[values]).ok()
        };
        let (lower, upper) = (rows(&lower)?, rows(&upper)?);
        // An index that contradicts itself proves nothing.
        if (0..lower.num_rows()).any(|page| lower.row(page) > upper.row(page)) {
            return None;
        }
        let page = |(index, location): (
            usize,
            &parquet::file::page_index::offset_index::PageLocation,
        )| {
            Some(Page {
                first_row: usize::try_from(location.first_row_index).ok()?,
                lower: lower.row(index).data().into(),
                upper: upper.row(index).data().into(),
            })
        };
        locations.iter().enumerate().map(page).collect()
    }
}

/// A page of the first column of a key.
struct Page {
    first_row: usize,
    lower: Box<[u8]>,
    upper: Box<[u8]>,
}

/// Whether every page has bounds, and no NULL.
fn is_complete(lower: &ArrayRef, upper: &ArrayRef, nulls: &UInt64Array) -> bool {
    lower.null_count() == 0 && upper.null_count() == 0 && nulls.iter().all(|count| count == Some(0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::compute::SortOptions;
    use datafusion::datasource::table_schema::TableSchema;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::layout::Key;
    use crate::test_random::Random;

    fn footer(batch: &RecordBatch) -> ParquetMetaData {
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(10)
            .set_write_batch_size(5)
            .build();
        let mut bytes = vec![];
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Required)
            .parse_and_finish(&bytes::Bytes::from(bytes))
            .unwrap()
    }

    fn sort_key(batch: &RecordBatch, options: SortOptions, columns: usize) -> SortKey {
        let sorts = ["a", "b"].into_iter().enumerate().take(columns);
        let sorts = sorts.map(|(index, name)| {
            PhysicalSortExpr::new(Arc::new(Column::new(name, index)), options)
        });
        let ordering = LexOrdering::new(sorts).unwrap();
        SortKey::try_new(&ordering, &TableSchema::from(batch.schema())).unwrap()
    }

    #[test]
    fn no_row_of_the_range_is_left_out() {
        let mut random = Random::new(17);
        let mut skipped = 0;
        for case in 0..400 {
            let options = SortOptions::new(case % 2 == 0, case % 4 < 2);
            let columns = 1 + case % 2;
            let mut rows: Vec<_> = (0..100)
                .map(|_| [random.below(40), random.below(9)])
                .collect();
            rows.sort_unstable();
            if options.descending {
                rows.reverse();
            }
            let column = |index: usize| {
                let values = rows.iter().map(|row| row[index] as i64);
                Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
            };
            let batch = RecordBatch::try_from_iter([("a", column(0)), ("b", column(1))]).unwrap();
            let key = sort_key(&batch, options, columns);
            let of = |row: [u64; 2]| {
                let values = row.iter().take(columns).map(|&value| (value as i64).into());
                key.key(&values.collect::<Vec<_>>()).unwrap()
            };
            let mut ends = [of([random.below(41), 4]), of([random.below(41), 4])];
            ends.sort();
            let [from, to] = ends.map(|end| (random.below(4) > 0).then_some(end));
            let footer = footer(&batch);
            let file = FileView {
                footer: &footer,
                schema: &batch.schema(),
                partition_values: &[],
                custom_adapter: false,
            };
            let is_in = |key: &Key| {
                from.as_ref().is_none_or(|from| from <= key)
                    && to.as_ref().is_none_or(|to| key < to)
            };
            let wanted: Vec<_> = (0..100).filter(|&row| is_in(&of(rows[row]))).collect();
            let range = KeyRange {
                columns,
                from: from.clone(),
                to: to.clone(),
            };
            let read = key.rows_in(file, 0, &range).unwrap();
            assert!(
                wanted.iter().all(|row| read.contains(row)),
                "case {case}: {read:?}"
            );
            // No more than a page at each end, and those that share a value of the first column.
            assert!(read.len() <= wanted.len() + 40, "case {case}: {read:?}");
            skipped += 100 - read.len();
        }
        assert!(skipped > 10_000, "{skipped}");
    }

    #[test]
    fn pages_with_null_tell_nothing() {
        let values = (0..50).map(|value| (value % 7 != 0).then_some(value));
        let column = Arc::new(values.collect::<Int64Array>()) as ArrayRef;
        let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
        let key = sort_key(&batch, SortOptions::default(), 1);
        let footer = footer(&batch);
        let file = FileView {
            footer: &footer,
            schema: &batch.schema(),
            partition_values: &[],
            custom_adapter: false,
        };
        let range = KeyRange {
            columns: 1,
            from: None,
            to: Some(key.key(&[3_i64.into()]).unwrap()),
        };
        assert_eq!(key.rows_in(file, 0, &range), None);
    }
}
