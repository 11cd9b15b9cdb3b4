//! The ranges of key columns, as filters are held against them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};

use super::values::pick_array;
use crate::proof::ColumnRange;

/// The ranges of columns in many files, by the index of the table's column. What is not known is NULL.
#[derive(Debug)]
pub(crate) struct KeyRanges {
    pub(super) rows: ArrayRef,
    pub(super) columns: BTreeMap<usize, Range>,
}

/// The range of a column in each file.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) min: ArrayRef,
    pub(crate) max: ArrayRef,
    pub(crate) null_count: ArrayRef,
}

impl KeyRanges {
    /// The ranges of files, each of which has so many rows; `data_type` gives the type of a column's values.
    pub(super) fn new(
        files: &[(u64, Vec<(usize, ColumnRange)>)],
        data_type: impl Fn(usize) -> DataType,
    ) -> Result<Self> {
        let unknown = ColumnRange::default();
        let rows = files.iter().map(|(rows, _)| *rows);
        let mut columns = BTreeMap::new();
        for &(column, _) in files.iter().flat_map(|(_, ranges)| ranges) {
            if columns.contains_key(&column) {
                continue;
            }
            let of_file = |(_, ranges): &'_ (u64, Vec<(usize, ColumnRange)>)| {
                let range = ranges.iter().find(|(index, _)| *index == column);
                range.map_or_else(|| unknown.clone(), |(_, range)| range.clone())
            };
            let ranges: Vec<_> = files.iter().map(of_file).collect();
            columns.insert(column, Range::new(&ranges, &data_type(column))?);
        }
        Ok(Self {
            rows: Arc::new(UInt64Array::from_iter_values(rows)),
            columns,
        })
    }

    /// How many rows each file has.
    pub(crate) fn rows(&self) -> &ArrayRef {
        &self.rows
    }

    pub(crate) fn of_column(&self, column: usize) -> Option<&Range> {
        self.columns.get(&column)
    }

    /// The ranges at `places`, which are each a part and a file of it.
    pub(super) fn pick(parts: &[&Self], places: &[(usize, usize)]) -> Result<Self> {
        let rows: Vec<_> = parts.iter().map(|part| &part.rows).collect();
        let mut columns = BTreeMap::new();
        for (&column, range) in parts.iter().flat_map(|part| &part.columns) {
            if columns.contains_key(&column) {
                continue;
            }
            let data_type = range.min.data_type();
            let parts: Vec<_> = parts
                .iter()
                .map(|part| match part.columns.get(&column) {
                    Some(range) => range.clone(),
                    None => Range::unknown(part.rows.len(), data_type),
                })
                .collect();
            columns.insert(column, Range::pick(&parts, places)?);
        }
        Ok(Self {
            rows: pick_array(&rows, places)?,
            columns,
        })
    }
}

impl Range {
    fn new(files: &[ColumnRange], data_type: &DataType) -> Result<Self> {
        let null = ScalarValue::try_from(data_type)?;
        let array = |value: fn(&ColumnRange) -> &Option<ScalarValue>| {
            let values = files.iter().map(|file| match value(file) {
                Some(value) => value.clone(),
                None => null.clone(),
            });
            ScalarValue::iter_to_array(values)
        };
        let null_counts = files.iter().map(|file| file.null_count);
        Ok(Self {
            min: array(|file| &file.min)?,
            max: array(|file| &file.max)?,
            null_count: Arc::new(null_counts.collect::<UInt64Array>()),
        })
    }

    fn unknown(files: usize, data_type: &DataType) -> Self {
        Self {
            min: new_null_array(data_type, files),
            max: new_null_array(data_type, files),
            null_count: new_null_array(&DataType::UInt64, files),
        }
    }

    fn pick(parts: &[Self], places: &[(usize, usize)]) -> Result<Self> {
        let array = |of: fn(&Self) -> &ArrayRef| {
            let arrays: Vec<_> = parts.iter().map(of).collect();
            pick_array(&arrays, places)
        };
        Ok(Self {
            min: array(|range| &range.min)?,
            max: array(|range| &range.max)?,
            null_count: array(|range| &range.null_count)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_part_does_not_know_is_null() {
        let int = |value: i64| Some(ScalarValue::Int64(Some(value)));
        let known = ColumnRange {
            min: int(1),
            max: int(5),
            null_count: Some(2),
        };
        let a = KeyRanges::new(&[(9, vec![(3, known)])], |_| DataType::Int64).unwrap();
        let b = KeyRanges::new(&[(7, vec![])], |_| DataType::Int64).unwrap();
        let both = KeyRanges::pick(&[&b, &a], &[(0, 0), (1, 0)]).unwrap();
        let range = both.of_column(3).unwrap();
        let text = |array: &ArrayRef| format!("{array:?}").replace(['\n', ' '], "");
        assert!(text(&range.min).contains("[null,1,]"));
        assert!(text(&range.max).contains("[null,5,]"));
        assert!(text(&range.null_count).contains("[null,2,]"));
        assert!(text(both.rows()).contains("[7,9,]"));
    }
}
