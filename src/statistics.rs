//! Minima and maxima that DataFusion would draw wrong conclusions from.
//!
//! DataFusion answers `MIN` and `MAX` from the statistics of files, and reads a column whose minimum is its maximum
//! as a constant. But statistics of floats leave NaN out, where files have another type than the table, DataFusion 55.2
//! compares values of different types, and it counts the partition values of files without rows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};

/// `scan` without such minima and maxima, in its files, its file groups and as a whole.
pub(crate) fn without_doubtful(scan: &FileScanConfig) -> Cow<'_, FileScanConfig> {
    let schema = Arc::clone(scan.file_source().table_schema().table_schema());
    let files = scan.file_groups.iter().flat_map(FileGroup::iter);
    let files: Vec<_> = files
        .filter_map(|file| file.statistics.as_deref())
        .collect();
    let mut doubtful = doubtful_columns(&schema, files.iter().copied());
    // The value of a partition column is no row's if the file has none.
    if files
        .iter()
        .any(|file| file.num_rows == Precision::Exact(0))
    {
        doubtful.extend(scan.file_schema().fields().len()..schema.fields().len());
    }
    if doubtful.is_empty() {
        return Cow::Borrowed(scan);
    }
    let groups = scan
        .file_groups
        .iter()
        .map(|group| {
            let files = group
                .iter()
                .map(|file| clear_file(file.clone(), &doubtful))
                .collect();
            let cleared = FileGroup::new(files);
            match group.file_statistics(None) {
                Some(statistics) => {
                    cleared.with_statistics(Arc::new(clear(statistics.clone(), &doubtful)))
                }
                None => cleared,
            }
        })
        .collect();
    let cleared = FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(groups)
        .with_statistics(clear(scan.statistics(), &doubtful))
        .build();
    Cow::Owned(cleared)
}

/// `file` without the doubtful minima and maxima among its own.
pub(crate) fn file_without_doubtful(file: PartitionedFile, schema: &Schema) -> PartitionedFile {
    let doubtful = doubtful_columns(schema, file.statistics.as_deref().into_iter());
    clear_file(file, &doubtful)
}

/// `file`, which has no rows, without the values of its partition columns, which are no row's.
pub(crate) fn without_partition_values(
    file: PartitionedFile,
    partition_columns: Range<usize>,
) -> PartitionedFile {
    clear_file(file, &partition_columns.collect::<Vec<_>>())
}

/// The columns whose minima and maxima are of floats, or in some of `files` of another type than in `schema`.
fn doubtful_columns<'a>(
    schema: &Schema,
    files: impl Iterator<Item = &'a Statistics>,
) -> Vec<usize> {
    let mut doubtful: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.data_type().is_floating())
        .collect();
    for file in files {
        let columns = file.column_statistics.iter().zip(schema.fields());
        for (doubtful, (column, field)) in doubtful.iter_mut().zip(columns) {
            let differs = |value: &Precision<ScalarValue>| {
                let value = value.get_value();
                value.is_some_and(|value| &value.data_type() != field.data_type())
            };
            *doubtful |= differs(&column.min_value) || differs(&column.max_value);
        }
    }
    let columns = doubtful.into_iter().enumerate();
    columns
        .filter_map(|(column, doubtful)| doubtful.then_some(column))
        .collect()
}

fn clear_file(file: PartitionedFile, columns: &[usize]) -> PartitionedFile {
    let statistics = file
        .statistics
        .map(|statistics| Arc::new(clear(Arc::unwrap_or_clone(statistics), columns)));
    PartitionedFile { statistics, ..file }
}

fn clear(mut statistics: Statistics, columns: &[usize]) -> Statistics {
    for &column in columns {
        if let Some(column) = statistics.column_statistics.get_mut(column) {
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
        }
    }
    statistics
}
