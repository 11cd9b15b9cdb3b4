//! The statistics of files and the ranges of their keys, as columns of a manifest.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt8Array, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::columns::Columns;
use crate::snapshot::known_file::KnownFile;
use crate::snapshot::ranges::{KeyRanges, Range};
use crate::snapshot::statistics::{Column, FileStatistics};
use crate::snapshot::values::{Counts, Known, Values};

/// What comes before the index of a column, in the names of those that are its range.
const RANGE: &str = "range_min_";

pub(super) fn put_statistics(columns: &mut Columns, statistics: &FileStatistics, files: usize) {
    put_counts(columns, "rows", &statistics.rows, files);
    put_counts(columns, "bytes", &statistics.bytes, files);
    for (index, column) in statistics.columns.iter().enumerate() {
        put_values(columns, &format!("min_{index}"), &column.min);
        put_values(columns, &format!("max_{index}"), &column.max);
        let counts = [
            ("null_count", &column.null_count),
            ("distinct_count", &column.distinct_count),
            ("byte_size", &column.byte_size),
        ];
        for (name, counts) in counts {
            put_counts(columns, &format!("{name}_{index}"), counts, files);
        }
    }
}

pub(super) fn statistics_of(
    columns: &Columns,
    schema: &Schema,
    files: usize,
) -> Result<FileStatistics> {
    let counts = |name: &str| counts_of(columns, name, files);
    let column = |(index, data_type): (usize, &DataType)| {
        Ok(Column {
            min: values_of(columns, &format!("min_{index}"), data_type, files)?,
            max: values_of(columns, &format!("max_{index}"), data_type, files)?,
            null_count: counts(&format!("null_count_{index}"))?,
            distinct_count: counts(&format!("distinct_count_{index}"))?,
            byte_size: counts(&format!("byte_size_{index}"))?,
        })
    };
    let types = schema.fields().iter().map(|field| field.data_type());
    Ok(FileStatistics {
        rows: counts("rows")?,
        bytes: counts("bytes")?,
        columns: types.enumerate().map(column).collect::<Result<_>>()?,
    })
}

pub(super) fn put_ranges(columns: &mut Columns, ranges: &KeyRanges) {
    for (index, range) in &ranges.columns {
        columns.put(format!("{RANGE}{index}"), Arc::clone(&range.min));
        columns.put(format!("range_max_{index}"), Arc::clone(&range.max));
        columns.put(
            format!("range_null_count_{index}"),
            Arc::clone(&range.null_count),
        );
    }
}

pub(super) fn ranges_of(
    columns: &Columns,
    files: &[Arc<KnownFile>],
    data_type: impl Fn(usize) -> Option<DataType>,
) -> Result<KeyRanges> {
    let indices = columns
        .names()
        .filter_map(|name| name.strip_prefix(RANGE)?.parse().ok());
    let range = |index: usize| {
        let values = data_type(index);
        let array = |name: &str, data_type: &Option<DataType>| {
            let array = columns.get(&format!("{name}{index}"));
            let array = array.filter(|array| Some(array.data_type()) == data_type.as_ref());
            array
                .cloned()
                .ok_or_else(|| exec_datafusion_err!("there are other ranges of column {index}"))
        };
        let range = Range {
            min: array(RANGE, &values)?,
            max: array("range_max_", &values)?,
            null_count: array("range_null_count_", &Some(DataType::UInt64))?,
        };
        Ok((index, range))
    };
    let rows = files.iter().map(|file| file.rows());
    Ok(KeyRanges {
        rows: Arc::new(UInt64Array::from_iter_values(rows)),
        columns: indices.map(range).collect::<Result<_>>()?,
    })
}

/// Nothing of values that are known of no file: they may be of types that Parquet does not have.
fn put_values(columns: &mut Columns, name: &str, values: &Values) {
    if values.known.iter().all(|known| *known == Known::Absent) {
        return;
    }
    let known = values.known.iter().map(|known| match known {
        Known::Absent => 0,
        Known::Inexact => 1,
        Known::Exact => 2,
    });
    let known: ArrayRef = Arc::new(UInt8Array::from_iter_values(known));
    columns.put(name, Arc::clone(&values.array));
    columns.put(format!("{name}_known"), known);
}

fn values_of(columns: &Columns, name: &str, data_type: &DataType, files: usize) -> Result<Values> {
    let Some(array) = columns.get(name) else {
        return Ok(Values {
            array: new_null_array(data_type, files),
            known: vec![Known::Absent; files],
        });
    };
    if array.data_type() != data_type {
        return exec_err!("\"{name}\" is of type {}", array.data_type());
    }
    let known: &UInt8Array = columns.need(&format!("{name}_known"))?;
    let known = known.values().iter().map(|known| match known {
        1 => Known::Inexact,
        2 => Known::Exact,
        _ => Known::Absent,
    });
    Ok(Values {
        array: Arc::clone(array),
        known: known.collect(),
    })
}

fn put_counts(columns: &mut Columns, name: &str, counts: &Counts, files: usize) {
    let all = || (0..files).map(|file| counts.get(file));
    let values = all().map(|count| count.get_value().map(|&count| count as u64));
    let exact = all().map(|count| Some(matches!(count, Precision::Exact(_))));
    columns.put(name, Arc::new(values.collect::<UInt64Array>()));
    columns.put(
        format!("{name}_exact"),
        Arc::new(exact.collect::<BooleanArray>()),
    );
}

fn counts_of(columns: &Columns, name: &str, files: usize) -> Result<Counts> {
    let values: &UInt64Array = columns.need(name)?;
    let exact: &BooleanArray = columns.need(&format!("{name}_exact"))?;
    let count = |file: usize| {
        let count = || usize::try_from(values.value(file)).map_err(|e| exec_datafusion_err!("{e}"));
        Ok(match (values.is_valid(file), exact.value(file)) {
            (false, _) => Precision::Absent,
            (true, false) => Precision::Inexact(count()?),
            (true, true) => Precision::Exact(count()?),
        })
    };
    let counts = (0..files).map(count).collect::<Result<Vec<_>>>()?;
    Ok(Counts::new(counts.into_iter()))
}
