//! The statistics of files, by column.

use arrow::datatypes::Schema;
use datafusion::common::{ColumnStatistics, Result, Statistics, stats::Precision};

use super::values::{Counts, Values};

/// The statistics of many files, as DataFusion knows them of each: of the columns of files, without partition columns.
///
/// Minima and maxima that it would draw wrong conclusions from are left out, see [`crate::statistics`].
#[derive(Debug)]
pub(super) struct FileStatistics {
    pub(super) rows: Counts,
    pub(super) bytes: Counts,
    pub(super) columns: Vec<Column>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) min: Values,
    pub(super) max: Values,
    pub(super) null_count: Counts,
    pub(super) distinct_count: Counts,
    pub(super) byte_size: Counts,
}

impl FileStatistics {
    pub(super) fn new(files: &[Statistics], schema: &Schema) -> Result<Self> {
        let column = |(index, data_type): (usize, _)| {
            let of = || {
                let columns = files.iter();
                columns.filter_map(move |file| file.column_statistics.get(index))
            };
            let values = |value: fn(&ColumnStatistics) -> &Precision<_>| {
                let of_all = of().map(|column| match data_type {
                    data_type if arrow::datatypes::DataType::is_floating(data_type) => {
                        &Precision::Absent
                    }
                    _ => value(column),
                });
                Values::new(of_all, data_type)
            };
            Ok(Column {
                min: values(|column| &column.min_value)?,
                max: values(|column| &column.max_value)?,
                null_count: Counts::new(of().map(|column| column.null_count)),
                distinct_count: Counts::new(of().map(|column| column.distinct_count)),
                byte_size: Counts::new(of().map(|column| column.byte_size)),
            })
        };
        let types = schema.fields().iter().map(|field| field.data_type());
        Ok(Self {
            rows: Counts::new(files.iter().map(|file| file.num_rows)),
            bytes: Counts::new(files.iter().map(|file| file.total_byte_size)),
            columns: types.enumerate().map(column).collect::<Result<_>>()?,
        })
    }

    pub(super) fn rows(&self, file: usize) -> Precision<usize> {
        self.rows.get(file)
    }

    pub(super) fn get(&self, file: usize) -> Result<Statistics> {
        let column = |column: &Column| {
            Ok(ColumnStatistics {
                null_count: column.null_count.get(file),
                max_value: column.max.get(file)?,
                min_value: column.min.get(file)?,
                sum_value: Precision::Absent,
                distinct_count: column.distinct_count.get(file),
                byte_size: column.byte_size.get(file),
            })
        };
        Ok(Statistics {
            num_rows: self.rows.get(file),
            total_byte_size: self.bytes.get(file),
            column_statistics: self.columns.iter().map(column).collect::<Result<_>>()?,
        })
    }

    /// The statistics at `places`, which are each a part and a file of it. All parts are of the same columns.
    pub(super) fn pick(parts: &[&Self], places: &[(usize, usize)]) -> Result<Self> {
        let counts = |of: fn(&Self) -> &Counts| {
            let parts: Vec<_> = parts.iter().map(|part| of(part)).collect();
            Counts::pick(&parts, places)
        };
        let column = |index: usize| {
            let columns: Vec<_> = parts.iter().map(|part| &part.columns[index]).collect();
            let values = |of: fn(&Column) -> &Values| {
                let parts: Vec<_> = columns.iter().map(|column| of(column)).collect();
                Values::pick(&parts, places)
            };
            let counts = |of: fn(&Column) -> &Counts| {
                let parts: Vec<_> = columns.iter().map(|column| of(column)).collect();
                Counts::pick(&parts, places)
            };
            Ok(Column {
                min: values(|column| &column.min)?,
                max: values(|column| &column.max)?,
                null_count: counts(|column| &column.null_count),
                distinct_count: counts(|column| &column.distinct_count),
                byte_size: counts(|column| &column.byte_size),
            })
        };
        let columns = parts.first().map_or(0, |part| part.columns.len());
        Ok(Self {
            rows: counts(|part| &part.rows),
            bytes: counts(|part| &part.bytes),
            columns: (0..columns).map(column).collect::<Result<_>>()?,
        })
    }
}
