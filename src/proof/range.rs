//! The values of one key column in a file, for filters.

use arrow::array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use parquet::file::metadata::RowGroupMetaData;

use super::column::{Nulls, min_max, statistics_of};
use super::lossless::{is_lossless, value_type};
use super::sort_key::{FileView, KeyColumn};

/// What is known of the values of a column in a file. Unknown is `None`.
///
/// Other than bounds, which put NULL at one end, min and max are of the values that are not NULL.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ColumnRange {
    pub(crate) min: Option<ScalarValue>,
    pub(crate) max: Option<ScalarValue>,
    pub(crate) null_count: Option<u64>,
}

/// The range of `column`, a column of files, in a file whose row groups with rows are `groups`.
pub(super) fn column_range(
    column: &KeyColumn,
    file: FileView<'_>,
    groups: &[&RowGroupMetaData],
) -> ColumnRange {
    if file.custom_adapter {
        return ColumnRange::default();
    }
    let Some((_, field)) = file.schema.column_with_name(&column.name) else {
        let rows = groups.iter().map(|group| u64::try_from(group.num_rows()));
        return ColumnRange {
            // It is NULL in all rows.
            null_count: rows.sum::<Result<_, _>>().ok(),
            ..Default::default()
        };
    };
    if !is_lossless(value_type(field.data_type()), &column.data_type) {
        return ColumnRange::default();
    }
    statistics_range(column, file, groups).unwrap_or_default()
}

fn statistics_range(
    column: &KeyColumn,
    file: FileView<'_>,
    groups: &[&RowGroupMetaData],
) -> Result<ColumnRange, String> {
    let (converter, leaf) = statistics_of(column, file)?;
    let levels = file.footer.file_metadata().schema_descr().column(leaf);
    let nulls = Nulls::read(&converter, levels.max_def_level(), groups)?;
    let mut range = ColumnRange {
        null_count: nulls.count,
        ..Default::default()
    };
    // Statistics of floats leave NaN out, which is above and below all other values.
    if column.data_type.is_floating() {
        return Ok(range);
    }
    if let Ok((min, max)) = min_max(column, &converter, leaf, file, groups, &nulls) {
        range.min = outermost(&min, &nulls, |a, b| a < b);
        range.max = outermost(&max, &nulls, |a, b| a > b);
    }
    Ok(range)
}

/// The value of all row groups that have one which is further out than the others.
fn outermost(
    values: &ArrayRef,
    nulls: &Nulls,
    is_outer: impl Fn(&ScalarValue, &ScalarValue) -> bool,
) -> Option<ScalarValue> {
    let mut outermost: Option<ScalarValue> = None;
    for group in (0..values.len()).filter(|&group| !nulls.all.value(group)) {
        let value = ScalarValue::try_from_array(values, group).ok()?;
        if outermost
            .as_ref()
            .is_none_or(|outermost| is_outer(&value, outermost))
        {
            outermost = Some(value);
        }
    }
    outermost
}
