//! The bounds of one key column in each row group of a file.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, new_null_array,
};
use arrow::compute::kernels::cmp::gt;
use arrow::compute::{CastOptions, cast_with_options, nullif};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::file::metadata::RowGroupMetaData;

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

use super::lossless::{is_lossless, value_type};
use super::sort_key::{FileView, KeyColumn, Unknown};

/// Where the values of a column lie, in its sort order, NULL and NaN included: one entry for each row group.
pub(super) struct ColumnBounds {
    pub(super) lower: ArrayRef,
    pub(super) upper: ArrayRef,
    /// Whether some row is known to have the lower and the upper bound itself.
    pub(super) attained: Attained,
    /// Whether no row of any group is NULL.
    pub(super) null_free: bool,
}

/// For each row group, whether a row is known to be at the bound.
pub(super) struct Attained {
    pub(super) lower: Vec<bool>,
    pub(super) upper: Vec<bool>,
}

impl Attained {
    fn all(groups: usize) -> Self {
        Self {
            lower: vec![true; groups],
            upper: vec![true; groups],
        }
    }
}

/// The bounds of `column` in each of `groups`, which have rows; or why there are none.
pub(super) fn column_bounds(
    column: &KeyColumn,
    file: FileView<'_>,
    groups: &[&RowGroupMetaData],
) -> Result<ColumnBounds, Unknown> {
    if let Some(partition) = column.partition {
        return partition_bounds(column, file, partition, groups.len());
    }
    let Some((_, field)) = file.schema.column_with_name(&column.name) else {
        return absent_bounds(column, file, groups.len());
    };
    let file_type = value_type(field.data_type());
    if file.custom_adapter {
        return Err("is adapted by an expression adapter".into());
    }
    if !is_lossless(file_type, &column.data_type) {
        return Err(Unknown {
            why: format!(
                "is of type {file_type} in the file and {} in the table, and the cast may change its order",
                column.data_type
            ),
            may_be_reordered: true,
        });
    }
    statistics_bounds(column, file, groups)
}

/// A Hive partition column has one value in all rows of a file.
fn partition_bounds(
    column: &KeyColumn,
    file: FileView<'_>,
    partition: usize,
    groups: usize,
) -> Result<ColumnBounds, Unknown> {
    let value = file
        .partition_values
        .get(partition)
        .ok_or("has no value in the file's path")?;
    let array = value.to_array_of_size(groups).map_err(|e| e.to_string())?;
    let array = lossless_cast(&array, &column.data_type)?;
    Ok(ColumnBounds {
        lower: Arc::clone(&array),
        upper: array,
        attained: Attained::all(groups),
        null_free: !value.is_null(),
    })
}

/// A column that the file does not have is NULL in all its rows, unless an adapter of the user's fills it.
fn absent_bounds(
    column: &KeyColumn,
    file: FileView<'_>,
    groups: usize,
) -> Result<ColumnBounds, Unknown> {
    if file.custom_adapter {
        return Err("is not in the file, and an expression adapter may fill it".into());
    }
    let nulls = new_null_array(&column.data_type, groups);
    Ok(ColumnBounds {
        lower: Arc::clone(&nulls),
        upper: nulls,
        attained: Attained::all(groups),
        null_free: false,
    })
}

/// Casts to a type for which [`is_lossless`] holds; a value that does not fit is an error, not NULL.
pub(super) fn lossless_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions {
        safe: false,
        ..Default::default()
    };
    cast_with_options(array, to, &options).map_err(|e| format!("has a bound that is no {to}: {e}"))
}

/// The bounds that statistics give: in sort order, and reaching to the end at which NULL lies.
fn statistics_bounds(
    column: &KeyColumn,
    file: FileView<'_>,
    groups: &[&RowGroupMetaData],
) -> Result<ColumnBounds, Unknown> {
    let (converter, leaf) = statistics_of(column, file)?;
    let columns = file.footer.file_metadata().schema_descr();
    let nulls = Nulls::read(&converter, columns.column(leaf).max_def_level(), groups)?;
    let (min, max) = match nan_ends(&column.data_type, groups.len()) {
        Some(ends) => ends,
        None => min_max(column, &converter, leaf, file, groups, &nulls)?,
    };
    let (lower, upper) = if column.options.descending {
        (max, min)
    } else {
        (min, max)
    };
    let (lower_null, upper_null) = if column.options.nulls_first {
        (&nulls.may_be, &nulls.all)
    } else {
        (&nulls.all, &nulls.may_be)
    };
    Ok(ColumnBounds {
        attained: attained(column, &converter, groups, &nulls)?,
        lower: with_nulls(lower, lower_null)?,
        upper: with_nulls(upper, upper_null)?,
        null_free: nulls.may_be.true_count() == 0,
    })
}

/// The statistics of a column that a file has, and its place in the file.
pub(super) fn statistics_of<'a>(
    column: &'a KeyColumn,
    file: FileView<'a>,
) -> Result<(StatisticsConverter<'a>, usize), String> {
    let columns = file.footer.file_metadata().schema_descr();
    let converter = StatisticsConverter::try_new(&column.name, file.schema, columns)
        .map_err(|e| e.to_string())?
        // Unknown is not zero.
        .with_missing_null_counts_as_zero(false);
    let leaf = converter
        .parquet_column_index()
        .ok_or("is nested, and has no bounds")?;
    Ok((converter, leaf))
}

/// Which bounds are those of a row: NULL where there is one, and min and max where they are exact.
fn attained(
    column: &KeyColumn,
    converter: &StatisticsConverter<'_>,
    groups: &[&RowGroupMetaData],
    nulls: &Nulls,
) -> Result<Attained, String> {
    if is_float(&column.data_type) {
        return Ok(Attained {
            lower: vec![false; groups.len()],
            upper: vec![false; groups.len()],
        });
    }
    let min = converter
        .row_group_is_min_value_exact(groups.iter().copied())
        .map_err(|e| e.to_string())?;
    let max = converter
        .row_group_is_max_value_exact(groups.iter().copied())
        .map_err(|e| e.to_string())?;
    let (lower, upper) = if column.options.descending {
        (max, min)
    } else {
        (min, max)
    };
    let is_exact = |exact: &BooleanArray, group| exact.is_valid(group) && exact.value(group);
    // At the end where NULL lies, the bound is NULL if there may be one.
    let near_null = |exact: &BooleanArray, group| match nulls.may_be.value(group) {
        true => nulls.some.value(group),
        false => is_exact(exact, group),
    };
    let far_from_null =
        |exact: &BooleanArray, group| nulls.all.value(group) || is_exact(exact, group);
    let groups = 0..groups.len();
    Ok(if column.options.nulls_first {
        Attained {
            lower: groups
                .clone()
                .map(|group| near_null(&lower, group))
                .collect(),
            upper: groups.map(|group| far_from_null(&upper, group)).collect(),
        }
    } else {
        Attained {
            lower: groups
                .clone()
                .map(|group| far_from_null(&lower, group))
                .collect(),
            upper: groups.map(|group| near_null(&upper, group)).collect(),
        }
    })
}

/// What is known of the NULLs of a column in each row group.
pub(super) struct Nulls {
    /// Whether all rows are NULL.
    pub(super) all: BooleanArray,
    /// Whether some row is known to be NULL.
    some: BooleanArray,
    /// Whether a row may be NULL.
    may_be: BooleanArray,
    /// How many rows are, if that is known of each row group.
    pub(super) count: Option<u64>,
}

impl Nulls {
    pub(super) fn read(
        converter: &StatisticsConverter<'_>,
        max_def_level: i16,
        groups: &[&RowGroupMetaData],
    ) -> Result<Self, String> {
        let counts = converter
            .row_group_null_counts(groups.iter().copied())
            .map_err(|e| e.to_string())?;
        let mut all = Vec::with_capacity(groups.len());
        let mut some = Vec::with_capacity(groups.len());
        let mut may_be = Vec::with_capacity(groups.len());
        let mut sum = Some(0_u64);
        for (group, count) in groups.iter().zip(&counts) {
            let count = if max_def_level == 0 { Some(0) } else { count };
            let rows = u64::try_from(group.num_rows())
                .map_err(|_| "is in a row group of fewer than no rows")?;
            if count.is_some_and(|count| count > rows) {
                return Err("has more NULLs than rows by its statistics".into());
            }
            sum = sum.zip(count).map(|(sum, count)| sum.saturating_add(count));
            all.push(count == Some(rows));
            some.push(count.is_some_and(|count| count > 0));
            may_be.push(count != Some(0));
        }
        Ok(Self {
            all: all.into(),
            some: some.into(),
            may_be: may_be.into(),
            count: sum,
        })
    }
}

/// Min and max in each row group, in the type of the table's column. Groups of NULL alone need none.
pub(super) fn min_max(
    column: &KeyColumn,
    converter: &StatisticsConverter<'_>,
    leaf: usize,
    file: FileView<'_>,
    groups: &[&RowGroupMetaData],
    nulls: &Nulls,
) -> Result<(ArrayRef, ArrayRef), String> {
    let min = converter
        .row_group_mins(groups.iter().copied())
        .map_err(|e| e.to_string())?;
    let max = converter
        .row_group_maxes(groups.iter().copied())
        .map_err(|e| e.to_string())?;
    for (index, group) in groups.iter().enumerate() {
        if nulls.all.value(index) {
            continue;
        }
        if min.is_null(index) || max.is_null(index) {
            return Err("has a row group without min and max".into());
        }
        if !order_is_defined(file, group, leaf) {
            return Err("has min and max of an undefined order".into());
        }
    }
    let (min, max) = (
        lossless_cast(&min, &column.data_type)?,
        lossless_cast(&max, &column.data_type)?,
    );
    // Bounds that reach to NULL, and those of several columns, need not show it.
    let reversed = gt(&min, &max).map_err(|e| e.to_string())?;
    if (0..groups.len()).any(|index| !nulls.all.value(index) && reversed.value(index)) {
        return Err("has a minimum above its maximum".into());
    }
    Ok((min, max))
}

/// `values`, NULL where `mask` is true.
fn with_nulls(values: ArrayRef, mask: &BooleanArray) -> Result<ArrayRef, String> {
    if mask.true_count() == 0 {
        return Ok(values);
    }
    nullif(&values, mask).map_err(|e| e.to_string())
}

/// The two ends of a float type's order, which are both NaN. They are the only bounds of a float column: min and max
/// leave NaN out, and no footer says whether there is any.
fn nan_ends(data_type: &DataType, len: usize) -> Option<(ArrayRef, ArrayRef)> {
    // The NaNs with every bit set, negative and positive, are the outermost values of the IEEE 754 total order.
    fn array<T: ArrowPrimitiveType>(end: T::Native, len: usize) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_value(end, len))
    }
    Some(match data_type {
        DataType::Float16 => (
            array::<Float16Type>(F16::from_bits(!0), len),
            array::<Float16Type>(F16::from_bits(!0 >> 1), len),
        ),
        DataType::Float32 => (
            array::<Float32Type>(f32::from_bits(!0), len),
            array::<Float32Type>(f32::from_bits(!0 >> 1), len),
        ),
        DataType::Float64 => (
            array::<Float64Type>(f64::from_bits(!0), len),
            array::<Float64Type>(f64::from_bits(!0 >> 1), len),
        ),
        _ => return None,
    })
}

/// Whether min and max of a type leave values out.
pub(super) fn is_float(data_type: &DataType) -> bool {
    nan_ends(data_type, 0).is_some()
}

/// Whether min and max of a column are in an order that the format defines, and that is the type's own.
///
/// Without a column order, and in the deprecated fields, that is so for signed integers only: see `Statistics` and
/// `ColumnOrder` in parquet.thrift.
pub(super) fn order_is_defined(file: FileView<'_>, group: &RowGroupMetaData, leaf: usize) -> bool {
    let column = group.column(leaf);
    let Some(statistics) = column.statistics() else {
        return false;
    };
    let description = column.column_descr();
    let physical = description.physical_type();
    if physical == Type::INT96 {
        return false;
    }
    let order = ColumnOrder::sort_order_for_type(
        description.logical_type_ref(),
        description.converted_type(),
        physical,
    );
    let signed_integer =
        matches!(physical, Type::INT32 | Type::INT64) && order == SortOrder::SIGNED;
    if statistics.is_min_max_deprecated() {
        return signed_integer;
    }
    match file.footer.file_metadata().column_order(leaf) {
        ColumnOrder::TYPE_DEFINED_ORDER(order) => order != SortOrder::UNDEFINED,
        ColumnOrder::UNDEFINED => signed_integer,
        ColumnOrder::UNKNOWN => false,
    }
}
