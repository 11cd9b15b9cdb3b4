use std::ops::Range;

use arrow::array::{
    Array, Int64Array, ListArray, StringDictionaryBuilder, StructArray, new_null_array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::Int32Type;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTableConfig, ListingTableUrl};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::{LexOrdering, create_lex_ordering};
use datafusion::prelude::{SessionContext, col};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use datafusion::datasource::listing::ListingTable;

use super::*;
use crate::footers::FooterReader;
use crate::listed_scan::table_schema;
use crate::snapshot::build;
use crate::snapshot::listing::list;

/// The columns of files: a dictionary and a number that may be NULL.
fn schema() -> Schema {
    let of_strings = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    Schema::new(vec![
        Field::new("d", of_strings, false),
        Field::new("k", DataType::Int64, true),
    ])
}

fn file(keys: Range<i64>) -> Vec<u8> {
    let mut words = StringDictionaryBuilder::<Int32Type>::new();
    keys.clone()
        .for_each(|key| words.append_value(format!("{:03}", key / 10)));
    let numbers: Int64Array = keys.map(|key| (key % 7 > 0).then_some(key)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(words.finish()), Arc::new(numbers)];
    let batch = RecordBatch::try_new(Arc::new(schema()), columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(20))
        .build();
    let mut writer = ArrowWriter::try_new(vec![], batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// A table as it is declared.
struct Declared {
    schema: Schema,
    order: Vec<&'static str>,
    folder: &'static str,
    partitions: Vec<(String, DataType)>,
}

impl Default for Declared {
    fn default() -> Self {
        Self {
            schema: schema(),
            order: vec!["d", "k"],
            folder: "mem://t/t/",
            partitions: vec![],
        }
    }
}

impl Declared {
    fn listing(&self) -> ListingTable {
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_table_partition_cols(self.partitions.clone());
        let config = ListingTableConfig::new(ListingTableUrl::parse(self.folder).unwrap())
            .with_listing_options(options)
            .with_schema(Arc::new(self.schema.clone()));
        ListingTable::try_new(config).unwrap()
    }

    fn indexer(&self, ctx: &SessionContext, store: &Arc<dyn ObjectStore>) -> Indexer {
        let listing = self.listing();
        let format = listing.options().format.as_ref();
        let reader = FooterReader::try_new(&ctx.state(), format, Arc::clone(store), None).unwrap();
        let order: Vec<_> = self
            .order
            .iter()
            .map(|name| col(*name).sort(true, false))
            .collect();
        let table = table_schema(&listing);
        let columns = table.table_schema();
        let order = create_lex_ordering(columns, &[order], &Default::default()).unwrap();
        let order: Vec<LexOrdering> = order;
        Indexer::new(reader, &listing, table, order, false, None)
    }

    fn described(&self) -> String {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        described(&self.indexer(&SessionContext::new(), &store))
    }
}

/// A snapshot of some files, and what looked at them.
async fn snapshot() -> (Snapshot, Indexer) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for (index, keys) in [0..50, 50..120, 110..111, 300..300].into_iter().enumerate() {
        let path = Path::from(format!("t/{index}.parquet"));
        store.put(&path, file(keys).into()).await.unwrap();
    }
    let ctx = SessionContext::new();
    let url = ObjectStoreUrl::parse("mem://t").unwrap();
    ctx.register_object_store(url.as_ref(), Arc::clone(&store));
    let declared = Declared::default();
    let indexer = declared.indexer(&ctx, &store);
    let listed = list(&ctx.state(), store.as_ref(), &declared.listing()).await;
    let snapshot = build(&indexer, listed.unwrap(), None).await.unwrap();
    (snapshot, indexer)
}

/// All that a snapshot knows, without footers.
fn shown(snapshot: &Snapshot) -> String {
    let files = &snapshot.files;
    format!("{:#?}", (&files.known, &files.statistics, &files.ranges))
}

#[tokio::test]
async fn what_is_loaded_is_what_was_saved() {
    let (snapshot, indexer) = snapshot().await;
    assert_eq!(snapshot.files.known.len(), 4);
    let bytes = Bytes::from(bytes_of(&snapshot, "it".into()).unwrap());
    let loaded = snapshot_of(&bytes, "it", &indexer).unwrap();
    assert_eq!(shown(&loaded), shown(&snapshot));
    assert!(snapshot_of(&bytes, "another", &indexer).is_err());
}

/// `batch` with columns that `change` makes of its own, or without them.
fn changed(
    batch: &RecordBatch,
    change: impl Fn(&str, &ArrayRef) -> Option<ArrayRef>,
) -> RecordBatch {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.filter_map(|(field, array)| {
        Some((field.name().clone(), change(field.name(), array)?, true))
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A list of structs without their column `name`.
fn without_inner(array: &ArrayRef, name: &str) -> ArrayRef {
    let lists = array.as_any().downcast_ref::<ListArray>().unwrap();
    let rows = lists.values().as_any().downcast_ref::<StructArray>();
    let (fields, columns, nulls) = rows.unwrap().clone().into_parts();
    let (fields, columns): (Vec<_>, Vec<_>) = fields
        .iter()
        .cloned()
        .zip(columns)
        .filter(|(field, _)| field.name() != name)
        .unzip();
    let rows = StructArray::new(fields.into(), columns, nulls);
    let item = Field::new_list_field(rows.data_type().clone(), true);
    let offsets = lists.offsets().clone();
    Arc::new(ListArray::new(
        Arc::new(item),
        offsets,
        Arc::new(rows),
        None,
    ))
}

/// What is sealed is still looked at: it may be of a version of this crate that writes other things.
#[tokio::test]
async fn what_does_not_fit_is_an_error() {
    let (snapshot, indexer) = snapshot().await;
    let bytes = Bytes::from(bytes_of(&snapshot, "it".into()).unwrap());
    let batch = batch_of(&bytes, "it").unwrap();
    let load = |batch: &RecordBatch| {
        let bytes = sealed(batch, "it".into()).unwrap();
        snapshot_of(&bytes.into(), "it", &indexer)
    };
    let nothing = |array: &ArrayRef| new_null_array(&DataType::Int8, array.len());
    for field in batch.schema().fields() {
        let wrong = field.name();
        // That is for people and for `Place`, and what is not there is not known.
        let is_needed = wrong != "kind"
            && !["min_", "max_", "range_min_"]
                .iter()
                .any(|of| wrong.starts_with(of) && !wrong.ends_with("_known"));
        let without = changed(&batch, |name, array| {
            (name != wrong).then(|| Arc::clone(array))
        });
        assert_eq!(load(&without).is_err(), is_needed, "without {wrong}");
        let other = changed(&batch, |name, array| match name == wrong {
            true => Some(nothing(array)),
            false => Some(Arc::clone(array)),
        });
        assert_eq!(load(&other).is_err(), wrong != "kind", "{wrong} of nothing");
        let DataType::List(item) = field.data_type() else {
            continue;
        };
        let DataType::Struct(inner) = item.data_type() else {
            continue;
        };
        for inner in inner {
            let without = changed(&batch, |name, array| match name == wrong {
                true => Some(without_inner(array, inner.name())),
                false => Some(Arc::clone(array)),
            });
            let what = format!("{wrong} without {}", inner.name());
            assert!(load(&without).is_err(), "{what}");
        }
    }
    let reversed = Int64Array::from_iter_values((0..batch.num_rows() as i64).rev());
    let reversed = take_record_batch(&batch, &reversed).unwrap();
    assert!(load(&reversed).is_err());
    assert!(load(&batch.slice(1, 2)).is_ok());
}

/// A manifest of another table is not of this one.
#[test]
fn it_is_told_what_it_is_of() {
    let of = |data_type: DataType, nullable: bool| {
        let mut fields = schema().fields().to_vec();
        fields[1] = Arc::new(Field::new("k", data_type, nullable));
        Schema::new(fields)
    };
    let others = [
        Declared {
            schema: of(DataType::Int32, true),
            ..Declared::default()
        },
        Declared {
            schema: of(DataType::Int64, false),
            ..Declared::default()
        },
        Declared {
            order: vec!["d"],
            ..Declared::default()
        },
        Declared {
            order: vec!["k", "d"],
            ..Declared::default()
        },
        Declared {
            folder: "mem://t/u/",
            ..Declared::default()
        },
        Declared {
            partitions: vec![("p".into(), DataType::Int32)],
            ..Declared::default()
        },
        Declared {
            partitions: vec![("p".into(), DataType::Utf8)],
            ..Declared::default()
        },
    ];
    let described: Vec<_> = others.iter().map(Declared::described).collect();
    let this = Declared::default().described();
    assert_eq!(this, Declared::default().described());
    let version = format!("format {FORMAT}, ");
    assert!(this.starts_with(&version), "{this}");
    for (place, other) in described.iter().enumerate() {
        assert_ne!(*other, this);
        assert!(!described[..place].contains(other), "{other}");
    }
}
