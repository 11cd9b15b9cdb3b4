//! The types of key columns, in tables and in files.

use arrow::datatypes::{DataType, TimeUnit};

use crate::random::Random;

use DataType::*;
use TimeUnit::*;

/// The type of a table's key column: mostly one whose bounds are exact, so that layouts are contiguous.
pub(crate) fn random_type(random: &mut Random) -> DataType {
    if random.percent(40) {
        let common = [Int64, Int32, Utf8View, Utf8, Timestamp(Nanosecond, None)];
        return random.pick(&common).clone();
    }
    let families = families();
    let family = random.pick(&families);
    random.pick(family).clone()
}

/// The type of the same column in some files: mostly one that is near to the table's.
pub(crate) fn other_type(random: &mut Random, table: &DataType) -> DataType {
    let families = families();
    let near = families.iter().find(|family| family.contains(table));
    let family = match near {
        Some(near) if random.percent(85) => near,
        _ => random.pick(&families),
    };
    random.pick(family).clone()
}

/// The type of a Hive partition column, and some of its values in ascending order, as they stand in paths.
pub(crate) fn hive_type(random: &mut Random) -> (DataType, &'static [&'static str]) {
    match random.below(4) {
        0 => (Int64, &["-5", "3", "20", "100"]),
        1 => (Int32, &["1", "2", "10"]),
        2 => (Date32, &["1969-12-31", "2024-01-02", "2024-01-10"]),
        _ => (Utf8, &["10", "9", "a", "b"]),
    }
}

fn families() -> Vec<Vec<DataType>> {
    let zones = [None, Some("UTC"), Some("+01:00")];
    let units = [Second, Millisecond, Microsecond, Nanosecond];
    let stamps = zones
        .iter()
        .flat_map(|zone| units.map(|unit| Timestamp(unit, zone.map(Into::into))));
    let dictionary =
        |keys: DataType, values: DataType| Dictionary(Box::new(keys), Box::new(values));
    vec![
        vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64],
        vec![
            Decimal32(9, 2),
            Decimal32(5, 0),
            Decimal64(18, 4),
            Decimal128(12, 2),
            Decimal128(38, 10),
            Decimal256(40, 2),
            Decimal256(76, 10),
        ],
        vec![Date32, Date64],
        vec![
            Time32(Second),
            Time32(Millisecond),
            Time64(Microsecond),
            Time64(Nanosecond),
        ],
        stamps.collect(),
        vec![
            Utf8,
            LargeUtf8,
            Utf8View,
            dictionary(Int32, Utf8),
            dictionary(UInt16, LargeUtf8),
        ],
        vec![Binary, LargeBinary, BinaryView],
        vec![FixedSizeBinary(5), FixedSizeBinary(80)],
        vec![Boolean],
        vec![Float16, Float32, Float64],
        units.map(Duration).to_vec(),
    ]
}
