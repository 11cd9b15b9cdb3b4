//! Which types of a file's column keep the order of their values in the type of the table's column.

use arrow::datatypes::{DataType, TimeUnit};

/// The type whose values a column holds: that of the dictionary's values, if it has one.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        other => other,
    }
}

/// Whether a cast from `from` to `to` keeps every value and its order, so that bounds may go through it.
///
/// Both are types without dictionary, see [`value_type`].
pub(crate) fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if from == to {
        return true;
    }
    if let (Some((from_signed, from_bits)), Some((to_signed, to_bits))) =
        (integer(from), integer(to))
    {
        return match (from_signed, to_signed) {
            (true, false) => false,
            (false, true) => from_bits < to_bits,
            _ => from_bits <= to_bits,
        };
    }
    if let (Some((from_precision, from_scale)), Some((to_precision, to_scale))) =
        (decimal(from), decimal(to))
    {
        let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
        return from_scale <= to_scale
            && whole(from_precision, from_scale) <= whole(to_precision, to_scale);
    }
    match (from, to) {
        (from, to) if is_text(from) => is_text(to) || is_bytes(to),
        // Bytes compare as text does, where they are text at all; where they are not, the cast says so.
        (from, to) if is_bytes(from) => is_text(to) || is_bytes(to),
        (Float16, Float32 | Float64) | (Float32, Float64) | (Date32, Date64) => true,
        (Timestamp(from, from_zone), Timestamp(to, to_zone)) => {
            from_zone == to_zone && fineness(from) <= fineness(to)
        }
        (Time32(from) | Time64(from), Time32(to) | Time64(to)) => fineness(from) <= fineness(to),
        _ => false,
    }
}

/// Whether values of a type have one total order, the same in arrow's row format and in DataFusion's sorts.
pub(super) fn is_ordered(data_type: &DataType) -> bool {
    use DataType::*;
    integer(data_type).is_some()
        || decimal(data_type).is_some()
        || is_text(data_type)
        || is_bytes(data_type)
        || matches!(
            data_type,
            Boolean
                | Float16
                | Float32
                | Float64
                | Date32
                | Date64
                | Time32(_)
                | Time64(_)
                | Timestamp(_, _)
                | Duration(_)
                | FixedSizeBinary(_)
        )
}

/// Whether values of a column have one total order, the same in arrow's row format and in DataFusion's sorts.
pub(crate) fn has_total_order(data_type: &DataType) -> bool {
    is_ordered(value_type(data_type))
}

/// Whether the type is signed, and its width in bits.
fn integer(data_type: &DataType) -> Option<(bool, u8)> {
    use DataType::*;
    Some(match data_type {
        Int8 => (true, 8),
        Int16 => (true, 16),
        Int32 => (true, 32),
        Int64 => (true, 64),
        UInt8 => (false, 8),
        UInt16 => (false, 16),
        UInt32 => (false, 32),
        UInt64 => (false, 64),
        _ => return None,
    })
}

fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    use DataType::*;
    match data_type {
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Binary | LargeBinary | BinaryView)
}

fn fineness(unit: &TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::*;

    #[test]
    fn widening_is_lossless_and_narrowing_is_not() {
        let pairs = [
            (Int32, Int64),
            (UInt32, Int64),
            (UInt8, UInt16),
            (Float32, Float64),
            (Utf8, Utf8View),
            (Binary, Utf8View),
            (Date32, Date64),
            (Decimal32(5, 2), Decimal128(10, 2)),
            (Decimal128(10, 2), Decimal128(12, 4)),
            (
                Timestamp(TimeUnit::Second, None),
                Timestamp(TimeUnit::Nanosecond, None),
            ),
            (Time32(TimeUnit::Millisecond), Time64(TimeUnit::Nanosecond)),
        ];
        for (narrow, wide) in pairs {
            assert!(is_lossless(&narrow, &wide), "{narrow} to {wide}");
            let text = is_text(&narrow) || is_bytes(&narrow);
            assert_eq!(is_lossless(&wide, &narrow), text, "{wide} to {narrow}");
        }
    }

    #[test]
    fn other_casts_are_not() {
        let zone = |zone: &str| Some(zone.into());
        for (from, to) in [
            (Int64, UInt64),
            (UInt64, Int64),
            (Int64, Utf8),
            (Utf8, Int64),
            (Int64, Float64),
            (Decimal128(10, 2), Decimal128(10, 4)),
            (
                Timestamp(TimeUnit::Second, None),
                Timestamp(TimeUnit::Second, zone("+01:00")),
            ),
            (
                Timestamp(TimeUnit::Second, zone("UTC")),
                Timestamp(TimeUnit::Second, zone("+01:00")),
            ),
            (Date32, Timestamp(TimeUnit::Second, None)),
        ] {
            assert!(!is_lossless(&from, &to), "{from} to {to}");
        }
    }
}
