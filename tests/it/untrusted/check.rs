//! What must hold of a file that nobody vouches for. The fuzz target `footer` includes this file.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext, col};
use datafusion_sorted_listing::{
    KeyBounds, LayoutReport, SessionStateBuilderExt, SortedListingTable,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::basic::{ColumnOrder, LogicalType, SortOrder};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::statistics::Statistics;

/// A session over files in memory.
pub(crate) struct Checker {
    ctx: SessionContext,
    store: Arc<dyn ObjectStore>,
    cases: usize,
}

/// What came of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is refused.
    Error,
    /// Nothing is known of its bounds.
    Unknown,
    /// It has bounds, which follow from its statistics.
    Proved,
}

impl Checker {
    pub(crate) fn new() -> Self {
        let state = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(3))
            .with_default_features()
            .with_sorted_listing()
            .build();
        let ctx = SessionContext::new_with_state(state);
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let url = ObjectStoreUrl::parse("memory://").unwrap();
        ctx.register_object_store(url.as_ref(), Arc::clone(&store));
        Self {
            ctx,
            store,
            cases: 0,
        }
    }

    /// Asks for the layout of the table of this one file, by each of its columns, and for the plan and the rows of the
    /// table in order; asserts that bounds follow from the statistics.
    ///
    /// An error is fine, a panic is not.
    pub(crate) async fn check(&mut self, file: &Bytes) -> [Outcome; 2] {
        // Caches go by paths.
        let name = format!("{}/f.parquet", self.cases);
        let path = Path::from(name.as_str());
        self.store.put(&path, file.clone().into()).await.unwrap();
        let mut outcomes = [Outcome::Error; 2];
        for (column, outcome) in ["k", "s"].into_iter().zip(&mut outcomes) {
            let table = self.table(column).unwrap();
            if let Ok(report) = table.layout(&self.ctx.state(), &[]).await {
                *outcome = assert_follows(file, column, &report);
            }
            let query = self.ctx.read_table(Arc::new(table)).unwrap();
            let query = query.sort(vec![col(column).sort(true, false)]).unwrap();
            // What the pages hold is DataFusion's to read.
            let _ = query.collect().await;
        }
        self.store.delete(&path).await.unwrap();
        self.cases += 1;
        outcomes
    }

    fn table(&self, column: &str) -> Result<SortedListingTable> {
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_file_sort_order(vec![vec![col(column).sort(true, false)]]);
        let url = ListingTableUrl::parse(format!("memory:///{}/", self.cases))?;
        let config = ListingTableConfig::new(url)
            .with_listing_options(options)
            .with_schema(schema());
        SortedListingTable::try_new(config)
    }
}

/// `k` of integers, `s` of text.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]))
}

/// Asserts that what is reported of `column` follows from the footer of `file`, by the rules as the format has them.
fn assert_follows(file: &Bytes, column: &str, report: &LayoutReport) -> Outcome {
    let footer = ParquetMetaDataReader::new().parse_and_finish(file).unwrap();
    let leaf = footer.file_metadata().schema_descr().columns().iter();
    let leaf = leaf
        .map(|leaf| leaf.path().parts().to_vec())
        .position(|path| path == [column]);
    assert!(report.units.len() <= footer.num_row_groups());
    let mut outcome = Outcome::Unknown;
    for unit in &report.units {
        let (Some(bounds), Some(groups)) = (&unit.bounds, &unit.row_groups) else {
            continue;
        };
        outcome = Outcome::Proved;
        for group in &footer.row_groups()[groups.clone()] {
            assert!(
                group.num_rows() >= 0,
                "a group of {} rows",
                group.num_rows()
            );
            if group.num_rows() > 0 {
                assert_group_within(&footer, group, leaf, bounds);
            }
        }
    }
    outcome
}

fn assert_group_within(
    footer: &ParquetMetaData,
    group: &RowGroupMetaData,
    leaf: Option<usize>,
    bounds: &KeyBounds,
) {
    let ends = [&bounds.lower, &bounds.upper].map(|key| &key.columns()[0]);
    let [lower, upper] = ends;
    // NULL comes last.
    let null_is_within = upper.is_null();
    let Some(leaf) = leaf else {
        assert!(
            lower.is_null() && null_is_within,
            "a column that the file does not have"
        );
        return;
    };
    let column = group.column(leaf);
    let rows = group.num_rows() as u64;
    let is_required = column.column_descr().max_def_level() == 0;
    let nulls = column.statistics().and_then(Statistics::null_count_opt);
    let nulls = if is_required { Some(0) } else { nulls };
    assert!(
        nulls.is_none_or(|nulls| nulls <= rows),
        "{nulls:?} NULLs in {rows} rows"
    );
    assert!(
        nulls == Some(0) || null_is_within,
        "{nulls:?} NULLs, and {bounds}"
    );
    if nulls == Some(rows) {
        return;
    }
    let (min, max) = ends_of(footer, group, leaf);
    assert!(min <= max, "{min} to {max} is accepted");
    assert!(!lower.is_null() && *lower <= min, "{lower} is above {min}");
    assert!(null_is_within || *upper >= max, "{upper} is below {max}");
}

/// Min and max of a row group, in the type of the table. Panics if there is none, or none that means anything.
fn ends_of(
    footer: &ParquetMetaData,
    group: &RowGroupMetaData,
    leaf: usize,
) -> (ScalarValue, ScalarValue) {
    let column = group.column(leaf);
    let statistics = column.statistics().expect("bounds without statistics");
    let is_unsigned = matches!(
        column.column_descr().logical_type_ref(),
        Some(LogicalType::Integer(integer)) if !integer.is_signed
    ) || column
        .column_descr()
        .converted_type()
        .to_string()
        .starts_with("UINT");
    let order = footer.file_metadata().column_order(leaf);
    let has_order =
        matches!(order, ColumnOrder::TYPE_DEFINED_ORDER(order) if order != SortOrder::UNDEFINED);
    let is_meaningless = statistics.is_min_max_deprecated() || !has_order;
    match statistics {
        Statistics::Int64(values) => {
            assert!(!is_unsigned, "UINT64 is read as BIGINT");
            let end = |end: Option<&i64>| ScalarValue::Int64(Some(*end.expect("no end")));
            (end(values.min_opt()), end(values.max_opt()))
        }
        Statistics::Int32(values) => {
            assert!(
                !(is_unsigned && is_meaningless),
                "signed order of unsigned values"
            );
            let wide = |value: i32| {
                if is_unsigned {
                    i64::from(value as u32)
                } else {
                    value.into()
                }
            };
            let end = |end: Option<&i32>| ScalarValue::Int64(Some(wide(*end.expect("no end"))));
            (end(values.min_opt()), end(values.max_opt()))
        }
        Statistics::ByteArray(values) => {
            assert!(!is_meaningless, "text without an order");
            let end = |end: Option<&parquet::data_type::ByteArray>| {
                let end = end.expect("no end");
                ScalarValue::Utf8(Some(end.as_utf8().expect("no text").to_owned()))
            };
            (end(values.min_opt()), end(values.max_opt()))
        }
        other => panic!("bounds from {other:?}"),
    }
}
