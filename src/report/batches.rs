//! The report as tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::{LayoutReport, UnitReport};

/// The columns of `sorted_layout`.
pub(crate) fn units_schema() -> SchemaRef {
    schema(&[
        ("slice", DataType::UInt64, true),
        // CLUSTER by itself is a word of SQL.
        ("cluster_id", DataType::UInt64, false),
        ("run", DataType::UInt64, false),
        ("file", DataType::Utf8, false),
        ("first_row_group", DataType::UInt64, true),
        ("row_groups", DataType::UInt64, true),
        ("rows", DataType::UInt64, true),
        ("bytes", DataType::UInt64, false),
        ("lower", DataType::Utf8, true),
        ("upper", DataType::Utf8, true),
        ("null_count", DataType::UInt64, true),
        ("strict_gap", DataType::Boolean, false),
    ])
}

/// The columns of `sorted_layout_summary`.
pub(crate) fn summary_schema() -> SchemaRef {
    schema(&[
        ("sort_key", DataType::Utf8, true),
        ("ordering", DataType::Utf8, false),
        ("strategy", DataType::Utf8, false),
        ("slices", DataType::UInt64, false),
        ("units", DataType::UInt64, false),
        ("clusters", DataType::UInt64, false),
        ("depth", DataType::UInt64, false),
        ("skew", DataType::Float64, true),
        ("range_declared", DataType::Boolean, false),
        ("strict_cuts", DataType::Boolean, false),
        ("rows", DataType::UInt64, true),
        ("bytes", DataType::UInt64, false),
        ("on_demand", DataType::Utf8, true),
        ("why_no_ranges", DataType::Utf8, true),
        ("why_not_kind", DataType::Utf8, true),
        ("why_not", DataType::Utf8, true),
    ])
}

/// A row for each unit, in order of the key.
pub(crate) fn units_batch(report: &LayoutReport) -> Result<RecordBatch, ArrowError> {
    let units = &report.units;
    let lower = |unit: &UnitReport| Some(unit.bounds.as_ref()?.lower.to_string());
    let upper = |unit: &UnitReport| Some(unit.bounds.as_ref()?.upper.to_string());
    let first = |unit: &UnitReport| Some(unit.row_groups.as_ref()?.start as u64);
    let groups = |unit: &UnitReport| Some(unit.row_groups.as_ref()?.len() as u64);
    let files = units.iter().map(|unit| Some(unit.file.as_str()));
    let gaps: Vec<_> = units.iter().map(|unit| unit.strict_gap).collect();
    RecordBatch::try_new(
        units_schema(),
        vec![
            numbers(units, |unit| unit.slice.map(|slice| slice as u64)),
            numbers(units, |unit| Some(unit.cluster as u64)),
            numbers(units, |unit| Some(unit.run as u64)),
            Arc::new(StringArray::from_iter(files)),
            numbers(units, first),
            numbers(units, groups),
            numbers(units, |unit| unit.rows),
            numbers(units, |unit| Some(unit.bytes)),
            Arc::new(StringArray::from_iter(units.iter().map(lower))),
            Arc::new(StringArray::from_iter(units.iter().map(upper))),
            numbers(units, |unit| unit.null_count),
            Arc::new(BooleanArray::from(gaps)),
        ],
    )
}

/// One row.
pub(crate) fn summary_batch(report: &LayoutReport) -> Result<RecordBatch, ArrowError> {
    let number = |number: usize| Arc::new(UInt64Array::from(vec![number as u64])) as ArrayRef;
    let text = |text: Option<&str>| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let truth = |truth: bool| Arc::new(BooleanArray::from(vec![truth])) as ArrayRef;
    let why = report.why_not.as_ref();
    let why_text = why.map(|why| format!("{why:#}"));
    RecordBatch::try_new(
        summary_schema(),
        vec![
            text(report.order().as_deref()),
            text(Some(report.ordering.as_str())),
            text(Some(report.strategy)),
            number(report.slices),
            number(report.units.len()),
            number(report.clusters),
            number(report.depth),
            Arc::new(Float64Array::from(vec![report.skew()])),
            truth(report.range_declared),
            truth(report.strict_cuts),
            Arc::new(UInt64Array::from(vec![report.rows()])),
            Arc::new(UInt64Array::from(vec![report.bytes()])),
            text(report.on_demand.as_deref()),
            text(report.why_no_ranges.as_deref()),
            text(why.map(|why| why.kind())),
            text(why_text.as_deref()),
        ],
    )
}

fn schema(columns: &[(&str, DataType, bool)]) -> SchemaRef {
    let field = |(name, data_type, nullable): &(&str, DataType, bool)| {
        Field::new(*name, data_type.clone(), *nullable)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn numbers(units: &[UnitReport], number: impl Fn(&UnitReport) -> Option<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter(units.iter().map(number)))
}
