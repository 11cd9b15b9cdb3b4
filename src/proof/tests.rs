//! The rules of proof, on footers of files written here, some of them edited.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use parquet::arrow::{ArrowWriter, parquet_to_arrow_schema};
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;

use super::*;
use crate::layout::{Bounds, Key};
use crate::test_random::Random;

const ASC_LAST: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

/// The four ways to sort a column.
fn all_options() -> [SortOptions; 4] {
    [(false, false), (false, true), (true, false), (true, true)]
        .map(|(descending, nulls_first)| SortOptions::new(descending, nulls_first))
}

fn batch(columns: impl IntoIterator<Item = ArrayRef>) -> RecordBatch {
    let names = ["a", "b", "c"].into_iter();
    RecordBatch::try_from_iter_with_nullable(
        names.zip(columns).map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn footer_of(batch: &RecordBatch, rows_per_group: usize) -> ParquetMetaData {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows_per_group))
        .set_statistics_truncate_length(Some(4))
        .build();
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::from(bytes))
        .unwrap()
}

/// `footer` with the statistics of the first column replaced in every row group.
fn with_statistics(footer: &ParquetMetaData, statistics: Option<&Statistics>) -> ParquetMetaData {
    let groups = footer.row_groups().iter().map(|group| {
        let mut group = group.clone().into_builder();
        let mut columns = group.take_columns();
        let column = columns[0].clone().into_builder().clear_statistics();
        columns[0] = match statistics {
            Some(statistics) => column.set_statistics(statistics.clone()),
            None => column,
        }
        .build()
        .unwrap();
        group.set_column_metadata(columns).build().unwrap()
    });
    let groups = groups.collect();
    footer.clone().into_builder().set_row_groups(groups).build()
}

fn ordering(options: &[SortOptions]) -> LexOrdering {
    let sorts = options.iter().enumerate().map(|(index, &options)| {
        let name = ["a", "b", "c"][index];
        PhysicalSortExpr::new(Arc::new(Column::new(name, index)), options)
    });
    LexOrdering::new(sorts).unwrap()
}

fn facts_in(table: &Schema, footer: &ParquetMetaData, options: &[SortOptions]) -> KeyFacts {
    let file = footer.file_metadata();
    let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()).unwrap();
    let table = TableSchema::from(Arc::new(table.clone()));
    let key = SortKey::try_new(&ordering(options), &table).unwrap();
    key.facts(FileView {
        footer,
        schema: &schema,
        partition_values: &[],
        custom_adapter: false,
    })
}

fn why_unknown(facts: &KeyFacts) -> &str {
    &facts.bounds.as_ref().unwrap_err().why
}

/// The keys of all rows, encoded by a converter of its own.
fn keys(batch: &RecordBatch, options: &[SortOptions]) -> Rows {
    let columns = &batch.columns()[..options.len()];
    let fields = columns
        .iter()
        .zip(options)
        .map(|(column, &options)| SortField::new_with_options(column.data_type().clone(), options))
        .collect();
    RowConverter::new(fields)
        .unwrap()
        .convert_columns(columns)
        .unwrap()
}

/// A key of one column, or of several whose ends do not matter.
fn point(row: &[u8]) -> Bounds {
    between(row, row)
}

fn between(lower: &[u8], upper: &[u8]) -> Bounds {
    Bounds::try_new(Key::new([lower]), Key::new([upper])).unwrap()
}

/// Asserts that every row's key lies within the bounds, and gives whether the bounds are keys of rows.
fn assert_outer(batch: &RecordBatch, rows_per_group: usize, options: &[SortOptions]) -> bool {
    let facts = facts_in(&batch.schema(), &footer_of(batch, rows_per_group), options);
    let bounds = facts
        .bounds
        .as_ref()
        .unwrap_or_else(|unknown| panic!("{unknown:?}: {batch:?}"));
    let all = keys(batch, options)
        .iter()
        .map(|row| point(row.data()))
        .reduce(Bounds::union)
        .unwrap();
    assert_eq!(
        &all.clone().union(bounds.clone()),
        bounds,
        "{options:?}: {batch:?}"
    );
    for (column, null_free) in batch.columns().iter().zip(facts.null_free.iter()) {
        assert_eq!(*null_free, column.logical_null_count() == 0, "{batch:?}");
    }
    &all == bounds
}

/// Every `n`th value NULL, if `n` is not 0.
fn nullable<T: Clone>(values: &[T], n: usize) -> Vec<Option<T>> {
    let null = |index: usize| n != 0 && (index + 1).is_multiple_of(n);
    let value = |(index, value): (usize, &T)| (!null(index)).then(|| value.clone());
    values.iter().enumerate().map(value).collect()
}

fn random_column(random: &mut Random, rows: usize) -> ArrayRef {
    let nulls = random.below(4) as usize;
    let small: Vec<_> = (0..rows).map(|_| random.below(7) as i64 - 3).collect();
    let ints = nullable(&small, nulls);
    let texts: Vec<_> = ints
        .iter()
        .map(|x| x.map(|x| "prefix".repeat((x + 3) as usize) + &x.to_string()))
        .collect();
    let float =
        |x: i64| [f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, 1.5, -1e300][(x + 3) as usize];
    match random.below(12) {
        0 => Arc::new(Int64Array::from(ints)),
        1 => Arc::new(Int32Array::from_iter(
            ints.iter().map(|x| x.map(|x| x as i32)),
        )),
        2 => Arc::new(UInt64Array::from_iter(
            ints.iter().map(|x| x.map(|x| x as u64)),
        )),
        3 => Arc::new(StringArray::from_iter(texts)),
        4 => Arc::new(StringViewArray::from_iter(texts)),
        5 => Arc::new(BinaryArray::from_iter(texts)),
        6 => Arc::new(BooleanArray::from_iter(
            ints.iter().map(|x| x.map(|x| x > 0)),
        )),
        7 => Arc::new(Float64Array::from_iter(ints.iter().map(|x| x.map(float)))),
        8 => Arc::new(Float32Array::from_iter(
            ints.iter().map(|x| x.map(|x| float(x) as f32)),
        )),
        9 => Arc::new(Date32Array::from_iter(
            ints.iter().map(|x| x.map(|x| x as i32)),
        )),
        10 => Arc::new(TimestampMicrosecondArray::from(ints).with_timezone("UTC")),
        _ => Arc::new(
            Decimal128Array::from_iter(ints.iter().map(|x| x.map(i128::from)))
                .with_precision_and_scale(20, 2)
                .unwrap(),
        ),
    }
}

#[test]
fn every_key_lies_within_the_bounds() {
    let mut random = Random::new(3);
    let mut tight = 0;
    for _ in 0..2000 {
        let rows = 1 + random.below(12) as usize;
        let columns = 1 + random.below(3) as usize;
        let batch = batch((0..columns).map(|_| random_column(&mut random, rows)));
        let options: Vec<_> = (0..columns)
            .map(|_| all_options()[random.below(4) as usize])
            .collect();
        let rows_per_group = 1 + random.below(6) as usize;
        tight += usize::from(assert_outer(&batch, rows_per_group, &options));
    }
    assert!(tight > 200, "bounds are not merely wide: {tight}");
}

#[test]
fn dictionaries_are_bounded_by_their_values() {
    let values: DictionaryArray<Int32Type> = [Some("b"), None, Some("a")].into_iter().collect();
    for options in all_options() {
        assert!(assert_outer(
            &batch([Arc::new(values.clone()) as ArrayRef]),
            2,
            &[options]
        ));
    }
}

#[test]
fn null_reaches_its_own_end_only() {
    let int = |values: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let with_null = batch([int(&[Some(1), Some(5), None])]);
    for options in all_options() {
        assert!(
            assert_outer(&with_null, 10, &[options]),
            "the bounds are NULL and the far value"
        );
    }
    // A row group of NULL alone has no min and max, and needs none.
    assert!(assert_outer(
        &batch([int(&[None, None, Some(1)])]),
        2,
        &[ASC_LAST]
    ));
}

fn one_to_nine() -> (RecordBatch, ParquetMetaData) {
    let batch = batch([Arc::new(Int64Array::from_iter_values(1..10)) as ArrayRef]);
    let footer = footer_of(&batch, 100);
    (batch, footer)
}

#[test]
fn an_absent_null_count_is_not_zero() {
    let (batch, footer) = one_to_nine();
    let absent = with_statistics(
        &footer,
        Some(&Statistics::int64(Some(1), Some(9), None, None, false)),
    );
    let facts = facts_in(&batch.schema(), &absent, &[ASC_LAST]);
    let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let rows = keys(&super::tests::batch([null]), &[ASC_LAST]);
    assert_eq!(
        facts.bounds.unwrap(),
        between(rows.row(0).data(), rows.row(1).data())
    );
    assert_eq!(*facts.null_free, [false]);
}

#[test]
fn what_is_missing_or_absurd_is_unknown() {
    let (batch, footer) = one_to_nine();
    let int = |min, max, nulls| Some(Statistics::int64(min, max, None, nulls, false));
    for (statistics, why) in [
        (None, "without min and max"),
        (int(None, Some(9), Some(0)), "without min and max"),
        (int(Some(1), None, Some(0)), "without min and max"),
        (int(Some(1), Some(9), Some(10)), "more NULLs than rows"),
        (
            int(Some(9), Some(1), Some(0)),
            "a minimum above its maximum",
        ),
        (
            int(Some(9), Some(1), Some(3)),
            "a minimum above its maximum",
        ),
        (int(Some(9), Some(1), None), "a minimum above its maximum"),
    ] {
        let facts = facts_in(
            &batch.schema(),
            &with_statistics(&footer, statistics.as_ref()),
            &[ASC_LAST],
        );
        assert!(why_unknown(&facts).contains(why), "{facts:?}");
    }
    // All NULL needs no min and max.
    let all_null = with_statistics(&footer, int(None, None, Some(9)).as_ref());
    assert!(
        facts_in(&batch.schema(), &all_null, &[ASC_LAST])
            .bounds
            .is_ok()
    );
}

#[test]
fn deprecated_statistics_hold_for_signed_integers_only() {
    let (batch, footer) = one_to_nine();
    let deprecated = Statistics::int64(Some(1), Some(9), None, Some(0), true);
    let facts = facts_in(
        &batch.schema(),
        &with_statistics(&footer, Some(&deprecated)),
        &[ASC_LAST],
    );
    assert!(facts.bounds.is_ok(), "{facts:?}");

    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "ü"]));
    let batch = self::batch([text]);
    let footer = footer_of(&batch, 100);
    let value = |text: &str| Some(ByteArray::from(text));
    let deprecated = Statistics::byte_array(value("a"), value("ü"), None, Some(0), true);
    let facts = facts_in(
        &batch.schema(),
        &with_statistics(&footer, Some(&deprecated)),
        &[ASC_LAST],
    );
    assert!(why_unknown(&facts).contains("undefined order"), "{facts:?}");
}

#[test]
fn types_that_differ_go_through_lossless_casts_only() {
    let (_, footer) = one_to_nine();
    let table = |data_type| Schema::new(vec![Field::new("a", data_type, true)]);
    for (data_type, known) in [
        (DataType::Int64, true),
        (DataType::Int32, false),
        (DataType::UInt64, false),
        (DataType::Utf8, false),
        (DataType::Float64, false),
        (DataType::Timestamp(TimeUnit::Second, None), false),
    ] {
        let facts = facts_in(&table(data_type.clone()), &footer, &[ASC_LAST]);
        assert_eq!(facts.bounds.is_ok(), known, "{data_type}: {facts:?}");
    }

    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, i64::MAX]));
    let footer = footer_of(&batch([seconds]), 100);
    let nanoseconds = table(DataType::Timestamp(TimeUnit::Nanosecond, None));
    let facts = facts_in(&nanoseconds, &footer, &[ASC_LAST]);
    assert!(
        facts.bounds.is_err(),
        "a bound that does not fit is no bound: {facts:?}"
    );
}

#[test]
fn a_missing_column_is_null() {
    let (_, footer) = one_to_nine();
    let table = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let facts = facts_in(&table, &footer, &[ASC_LAST, ASC_LAST]);
    let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>, None]));
    let ends: ArrayRef = Arc::new(Int64Array::from(vec![1, 9]));
    let rows = keys(&batch([ends, null]), &[ASC_LAST, ASC_LAST]);
    assert_eq!(
        facts.bounds.unwrap(),
        between(rows.row(0).data(), rows.row(1).data())
    );
    assert_eq!(*facts.null_free, [true, false]);
}

#[test]
fn a_contradiction_is_one_of_rows_and_not_of_outer_bounds() {
    let contradiction = |values: ArrayRef, options: SortOptions| {
        let batch = batch([values]);
        facts_in(&batch.schema(), &footer_of(&batch, 2), &[options]).contradiction
    };
    let ints = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let desc_first = SortOptions::new(true, true);
    let in_order = ints(&[Some(1), Some(2), Some(2), Some(3), Some(3), None]);
    assert_eq!(contradiction(Arc::clone(&in_order), ASC_LAST), None);
    assert!(contradiction(in_order, desc_first).is_some());
    // Not between neighbours.
    let later = ints(&[Some(1), Some(9), Some(9), Some(9), Some(5), Some(9)]);
    assert_eq!(
        contradiction(later, ASC_LAST).unwrap(),
        "row group 0 has a row with \"a\" = 9, and row group 2, which comes later, one with \"a\" = 5"
    );
    let null = ints(&[Some(1), None, Some(2), Some(3)]);
    assert_eq!(
        contradiction(null, ASC_LAST).unwrap(),
        "row group 0 has a row with \"a\" = NULL, and row group 1, which comes later, one with \"a\" = 2"
    );
    // The statistics end after four bytes: the first group reaches to "aaab", where its last row is not.
    let text = |values: [&str; 4]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    assert_eq!(
        contradiction(text(["aaaaa", "aaaac", "aaaad", "b"]), ASC_LAST),
        None
    );
    assert!(contradiction(text(["a", "d", "c", "e"]), ASC_LAST).is_some());
}

#[test]
fn a_later_column_contradicts_only_within_one_value_of_those_before() {
    for (first, found) in [([1, 1, 1, 1], true), ([1, 1, 2, 2], false)] {
        let first: ArrayRef = Arc::new(Int64Array::from(first.to_vec()));
        let second: ArrayRef = Arc::new(Int64Array::from(vec![5, 6, 3, 4]));
        let batch = batch([first, second]);
        let facts = facts_in(
            &batch.schema(),
            &footer_of(&batch, 2),
            &[ASC_LAST, ASC_LAST],
        );
        assert_eq!(facts.contradiction.is_some(), found, "{facts:?}");
    }
}

#[test]
fn nested_columns_have_no_bounds() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    let batch = batch([Arc::new(list) as ArrayRef]);
    let table = TableSchema::from(batch.schema());
    let why = SortKey::try_new(&ordering(&[ASC_LAST]), &table).unwrap_err();
    assert!(why.contains("column \"a\" is of type List"), "{why}");

    // A plain column of the table that is a struct in the file.
    let field = Arc::new(Field::new("a", DataType::Int64, true));
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, inner)]));
    let footer = footer_of(&super::tests::batch([nested]), 10);
    let table = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    assert!(facts_in(&table, &footer, &[ASC_LAST]).bounds.is_err());
}

#[test]
fn row_groups_in_and_out_of_order() {
    let int = |values: Vec<i64>| batch([Arc::new(Int64Array::from(values)) as ArrayRef]);
    for (values, in_order) in [
        (vec![1, 2, 2, 3], true),
        (vec![3, 4, 1, 2], false),
        (vec![1, 3, 2, 4], false),
        (vec![2, 1], true),
    ] {
        let batch = int(values);
        let facts = facts_in(&batch.schema(), &footer_of(&batch, 2), &[ASC_LAST]);
        assert_eq!(facts.groups_in_order, in_order, "{batch:?}");
    }
}

#[test]
fn partition_columns_have_one_value() {
    let (batch, footer) = one_to_nine();
    let date = Arc::new(Field::new("date", DataType::Utf8, false));
    let table = TableSchema::builder(batch.schema())
        .with_table_partition_cols(vec![date])
        .build();
    let by_date = PhysicalSortExpr::new(Arc::new(Column::new("date", 1)), ASC_LAST);
    let key = SortKey::try_new(&LexOrdering::new([by_date]).unwrap(), &table).unwrap();
    let view = |partition_values| FileView {
        footer: &footer,
        schema: batch.schema_ref(),
        partition_values,
        custom_adapter: false,
    };
    let date = [ScalarValue::from("2024-01-01")];
    let facts = key.facts(view(&date));
    let dates: ArrayRef = Arc::new(StringArray::from(vec!["2024-01-01"]));
    let rows = keys(&super::tests::batch([dates]), &[ASC_LAST]);
    assert_eq!(facts.bounds.unwrap(), point(rows.row(0).data()));
    assert_eq!(*facts.null_free, [true]);
    assert!(key.facts(view(&[])).bounds.is_err());
}
