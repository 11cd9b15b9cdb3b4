//! Values of every type a key may have, with the ones at which comparisons go wrong.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray,
    PrimitiveArray, StringArray, UInt32Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::*;
use arrow::row::{RowConverter, SortField};

use crate::random::Random;

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// About `len` distinct values of a type (without dictionary), in ascending order, none of them NULL.
pub(crate) fn pool(random: &mut Random, data_type: &DataType, len: usize) -> ArrayRef {
    sorted_distinct(&values(random, data_type, len))
}

pub(crate) fn has_nan(values: &ArrayRef) -> bool {
    let Ok(floats) = cast(values, &DataType::Float64) else {
        return false;
    };
    let floats = floats.as_primitive::<Float64Type>();
    values.data_type().is_floating() && floats.iter().flatten().any(f64::is_nan)
}

/// Whether there are both `-0.0` and `0.0`, which are different in the order and equal in comparisons.
pub(crate) fn has_both_zeros(values: &ArrayRef) -> bool {
    let Ok(floats) = cast(values, &DataType::Float64) else {
        return false;
    };
    let zeros = floats.as_primitive::<Float64Type>().iter().flatten();
    values.data_type().is_floating() && zeros.filter(|&zero| zero == 0.0).count() > 1
}

/// Whether there is `-0.0`.
pub(crate) fn has_negative_zero(values: &ArrayRef) -> bool {
    let Ok(floats) = cast(values, &DataType::Float64) else {
        return false;
    };
    let mut floats = floats.as_primitive::<Float64Type>().iter().flatten();
    values.data_type().is_floating() && floats.any(|float| float == 0.0 && float.is_sign_negative())
}

/// The type whose values a column holds.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The distinct values of an array in ascending order, as arrow compares rows.
fn sorted_distinct(values: &ArrayRef) -> ArrayRef {
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]).unwrap();
    let rows = converter.convert_columns(&[Arc::clone(values)]).unwrap();
    let mut order: Vec<_> = (0..values.len()).collect();
    order.sort_by_key(|&index| rows.row(index));
    order.dedup_by_key(|index| rows.row(*index));
    let order: UInt32Array = order.into_iter().map(|index| index as u32).collect();
    take(values, &order, None).unwrap()
}

/// The values that are the same after a cast to another type and back.
pub(crate) fn that_survive(values: &ArrayRef, other: &DataType) -> Option<ArrayRef> {
    let there = cast(values, other).ok()?;
    let back = cast(&there, values.data_type()).ok()?;
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]).ok()?;
    let before = converter.convert_columns(&[Arc::clone(values)]).ok()?;
    let after = converter.convert_columns(&[back]).ok()?;
    let same: UInt32Array = (0..values.len())
        .filter(|&index| before.row(index) == after.row(index))
        .map(|index| index as u32)
        .collect();
    take(values, &same, None).ok()
}

fn values(random: &mut Random, data_type: &DataType, len: usize) -> ArrayRef {
    macro_rules! numbers {
        ($type:ty, $from:expr, $to:expr) => {{
            let numbers = numbers(random, $from as i128, $to as i128, len);
            primitive::<$type>(data_type, numbers, |number| number as _)
        }};
        ($type:ty) => {{
            type Native = <$type as ArrowPrimitiveType>::Native;
            numbers!($type, Native::MIN, Native::MAX)
        }};
    }
    use DataType::*;
    use TimeUnit::*;
    match data_type {
        Int8 => numbers!(Int8Type),
        Int16 => numbers!(Int16Type),
        Int32 => numbers!(Int32Type),
        Int64 => numbers!(Int64Type),
        UInt8 => numbers!(UInt8Type),
        UInt16 => numbers!(UInt16Type),
        UInt32 => numbers!(UInt32Type),
        UInt64 => numbers!(UInt64Type),
        Date32 => numbers!(Date32Type),
        // Others have no date that `ScalarValue` could show: it panics.
        Date64 => numbers!(
            Date64Type,
            -8_000_000_000_000_000i64,
            8_000_000_000_000_000i64
        ),
        Time32(Second) => numbers!(Time32SecondType, 0, 86_399),
        Time32(Millisecond) => numbers!(Time32MillisecondType, 0, 86_399_999),
        Time64(Microsecond) => numbers!(Time64MicrosecondType, 0, 86_399_999_999i64),
        Time64(Nanosecond) => numbers!(Time64NanosecondType, 0, 86_399_999_999_999i64),
        Timestamp(Second, _) => numbers!(TimestampSecondType),
        Timestamp(Millisecond, _) => numbers!(TimestampMillisecondType),
        Timestamp(Microsecond, _) => numbers!(TimestampMicrosecondType),
        Timestamp(Nanosecond, _) => numbers!(TimestampNanosecondType),
        Duration(Second) => numbers!(DurationSecondType),
        Duration(Millisecond) => numbers!(DurationMillisecondType),
        Duration(Microsecond) => numbers!(DurationMicrosecondType),
        Duration(Nanosecond) => numbers!(DurationNanosecondType),
        Decimal32(precision, _) => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            numbers!(Decimal32Type, -most, most)
        }
        Decimal64(precision, _) => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            numbers!(Decimal64Type, -most, most)
        }
        Decimal128(precision, _) => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            numbers!(Decimal128Type, -most, most)
        }
        Decimal256(precision, _) => {
            // Beyond 38 digits the numbers end with zeros.
            let digits = u32::from(*precision).min(38);
            let most = 10i128.pow(digits) - 1;
            let factor = i256::from_i128(10)
                .checked_pow(u32::from(*precision) - digits)
                .unwrap();
            let numbers = numbers(random, -most, most, len);
            primitive::<Decimal256Type>(data_type, numbers, |number| {
                i256::from_i128(number).checked_mul(factor).unwrap()
            })
        }
        Float16 => floats::<Float16Type>(random, len, F16::from_f64, F16::from_bits(0xFE00)),
        Float32 => floats::<Float32Type>(random, len, |f| f as f32, -f32::NAN),
        Float64 => floats::<Float64Type>(random, len, |f| f, -f64::NAN),
        Boolean => Arc::new(BooleanArray::from(vec![false, true])),
        Utf8 | LargeUtf8 | Utf8View => {
            let plain: ArrayRef = Arc::new(StringArray::from_iter_values(texts(random, len)));
            cast(&plain, data_type).unwrap()
        }
        Binary | LargeBinary | BinaryView => {
            let plain: ArrayRef = Arc::new(BinaryArray::from_iter_values(bytes(random, len)));
            cast(&plain, data_type).unwrap()
        }
        FixedSizeBinary(width) => {
            let fixed = bytes(random, len).into_iter().map(|mut bytes| {
                bytes.resize(*width as usize, 0);
                bytes
            });
            Arc::new(FixedSizeBinaryArray::try_from_iter(fixed).unwrap())
        }
        other => unreachable!("no key is of type {other}"),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    numbers: Vec<i128>,
    convert: impl Fn(i128) -> T::Native,
) -> ArrayRef {
    let values = numbers.into_iter().map(convert);
    Arc::new(PrimitiveArray::<T>::from_iter_values(values).with_data_type(data_type.clone()))
}

fn numbers(random: &mut Random, least: i128, most: i128, len: usize) -> Vec<i128> {
    let mut numbers: Vec<_> = match random.below(3) {
        // Neighbours, about zero where the type has numbers below it.
        0 => {
            let first = (-(len as i128) / 2).max(least);
            (first..first + len as i128).collect()
        }
        // Neighbours with gaps.
        1 => (0..len).map(|_| random.below(len * 20) as i128).collect(),
        // Anywhere, small and large.
        _ => (0..len)
            .map(|_| {
                let number = i128::from(random.next()) << 64 | i128::from(random.next());
                number >> random.below(128)
            })
            .collect(),
    };
    if random.percent(30) {
        numbers.extend([least, most, least + 1, most - 1, 0]);
    }
    numbers.retain(|number| (least..=most).contains(number));
    if numbers.is_empty() {
        numbers.push(least.max(0));
    }
    numbers
}

fn floats<T: ArrowPrimitiveType>(
    random: &mut Random,
    len: usize,
    convert: impl Fn(f64) -> T::Native,
    negative_nan: T::Native,
) -> ArrayRef {
    let mut values: Vec<_> = (0..len)
        .map(|_| convert((random.below(len * 8) as f64 - len as f64 * 4.0) / 4.0))
        .collect();
    if random.percent(60) {
        let zero = [0.0, -0.0][random.below(2)];
        let zeros = [zero, if random.percent(25) { -zero } else { zero }];
        values.retain(|&value| value != convert(0.0));
        values.extend(zeros.map(&convert));
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300, 1e300];
        for value in special {
            if random.percent(60) {
                values.push(convert(value));
            }
        }
        if random.percent(40) {
            values.push(negative_nan);
        }
    }
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// Longer than any truncation of statistics, so that only what follows tells values apart.
const LONG_PREFIX: &str = "a prefix that is longer than the 64 bytes that statistics keep, by some";

fn texts(random: &mut Random, len: usize) -> Vec<String> {
    let prefix = *random.pick(&["", "", "prefix-", LONG_PREFIX, "\u{10FFFF}\u{10FFFF}", "é"]);
    let mut texts: Vec<_> = (0..len)
        .map(|_| match random.below(4) {
            0 => format!("{prefix}{}", random.below(len * 4)),
            _ => format!("{prefix}{:04}", random.below(len * 4)),
        })
        .collect();
    if random.percent(40) {
        texts.extend(["", "\0", "a", LONG_PREFIX, "\u{7f}", "é", "\u{10FFFF}"].map(String::from));
    }
    texts
}

fn bytes(random: &mut Random, len: usize) -> Vec<Vec<u8>> {
    let prefix = match random.below(4) {
        0 => vec![0xFF; 70],
        1 => vec![0xFF; 3],
        2 => LONG_PREFIX.as_bytes().to_vec(),
        _ => vec![],
    };
    let mut all: Vec<_> = (0..len)
        .map(|_| {
            let suffix = random.next().to_be_bytes();
            [&prefix[..], &suffix[6 - random.below(7)..]].concat()
        })
        .collect();
    if random.percent(40) {
        all.extend([vec![], vec![0], vec![0xFF], vec![0x80, 0]]);
    }
    all
}
