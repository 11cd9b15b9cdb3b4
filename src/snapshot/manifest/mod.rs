//! A snapshot as a Parquet file, from which the next session knows the files that have not changed.
//!
//! It is a cache: whatever is wrong with it, the footers are read as if it were not there.

mod columns;
mod files;
mod seal;
mod statistics;

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{
    Result, config_datafusion_err, config_err, exec_datafusion_err, exec_err,
    internal_datafusion_err,
};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexOrdering;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use self::columns::Columns;
use self::files::{columns_of, files_of};
use self::seal::{is_sealed, seal, unsealed};
use self::statistics::{put_ranges, put_statistics, ranges_of, statistics_of};
use super::known_file::Indexer;
use super::{Files, Snapshot};
use crate::proof::value_type;

/// To be raised where what is written changes, or what footers prove.
const FORMAT: u32 = 1;

/// What the manifest is of, and what its bytes are, as names in its footer.
const OF: &str = "sorted_listing.of";
const HASH: &str = "sorted_listing.hash";

/// Where the manifest of a table is.
#[derive(Debug)]
pub(crate) struct Manifest {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// What the user calls it.
    name: String,
    /// All that proofs depend on besides the files.
    of: String,
}

impl Manifest {
    /// The manifest at `url` of a table that declares these orders.
    ///
    /// # Errors
    /// If that is no place for a file, or one for a file of the table.
    pub(crate) fn try_new(
        session: &dyn Session,
        url: &str,
        table: &ListingTable,
        schema: &TableSchema,
        declared: &[LexOrdering],
    ) -> Result<Self> {
        let wrong = |why: &str| {
            config_datafusion_err!("Invalid value for sorted_listing.manifest: '{url}' {why}")
        };
        let place = ListingTableUrl::parse(url).map_err(|e| wrong(&format!("is no URL: {e}")))?;
        if place.is_collection() || place.get_glob().is_some() || place.prefix().is_root() {
            return Err(wrong("is not the path of a file"));
        }
        let path = place.prefix();
        let of_table = |of: &ListingTableUrl| {
            of.object_store() == place.object_store() && of.contains(path, false)
        };
        let extension = &table.options().file_extension;
        if table.table_paths().iter().any(of_table) && path.as_ref().ends_with(extension) {
            return config_err!(
                "Invalid value for sorted_listing.manifest: '{url}' would be a file of the table; give it another folder, \
                 or another extension than '{extension}'"
            );
        }
        Ok(Self {
            store: session.runtime_env().object_store(&place)?,
            path: path.clone(),
            name: url.to_owned(),
            of: described(table, schema, declared),
        })
    }

    /// The snapshot that was saved, if it is of this table and whole.
    pub(super) async fn load(&self, indexer: &Indexer) -> Option<Snapshot> {
        match self.try_load(indexer).await {
            Ok(snapshot) => snapshot,
            Err(e) => {
                log::warn!(
                    "the manifest '{}' is not used, and all footers are read: {}",
                    self.name,
                    e.strip_backtrace()
                );
                None
            }
        }
    }

    async fn try_load(&self, indexer: &Indexer) -> Result<Option<Snapshot>> {
        let bytes = match self.store.get(&self.path).await {
            Ok(got) => got.bytes().await?,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let (of, indexer) = (self.of.clone(), indexer.clone());
        let read = SpawnedTask::spawn_blocking(move || snapshot_of(&bytes, &of, &indexer));
        let read = read.await.map_err(|e| exec_datafusion_err!("{e}"))?;
        Ok(Some(read?))
    }

    /// Saves `snapshot`, or says in the log why it cannot be.
    pub(super) async fn save(&self, snapshot: &Arc<Snapshot>) {
        if let Err(e) = self.try_save(snapshot).await {
            log::warn!(
                "the manifest '{}' is not written: {}",
                self.name,
                e.strip_backtrace()
            );
        }
    }

    async fn try_save(&self, snapshot: &Arc<Snapshot>) -> Result<()> {
        let (of, snapshot) = (self.of.clone(), Arc::clone(snapshot));
        let bytes = SpawnedTask::spawn_blocking(move || bytes_of(&snapshot, of));
        let bytes = bytes.await.map_err(|e| exec_datafusion_err!("{e}"))??;
        // Whole or not at all, as stores do it.
        self.store.put(&self.path, bytes.into()).await?;
        Ok(())
    }
}

/// All that decides what the footers of a table's files prove, apart from the files.
fn described(table: &ListingTable, schema: &TableSchema, declared: &[LexOrdering]) -> String {
    let mut of = format!(
        "format {FORMAT}, {} {}, DataFusion {}, arrow {}\n",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION,
        arrow::ARROW_VERSION,
    );
    // Writing into a String does not fail.
    for path in table.table_paths() {
        let _ = writeln!(of, "path {}", path.as_str());
    }
    let columns = schema.table_schema().fields().iter().enumerate();
    for (index, field) in columns {
        let is_of_path = index >= schema.file_schema().fields().len();
        let kind = if is_of_path { "partition" } else { "column" };
        let (name, data_type, nullable) = (field.name(), field.data_type(), field.is_nullable());
        let _ = writeln!(of, "{kind} {name:?} {data_type:?} {nullable}");
    }
    for order in declared {
        let _ = writeln!(of, "order {order}");
    }
    of
}

fn bytes_of(snapshot: &Snapshot, of: String) -> Result<Vec<u8>> {
    let files = &snapshot.files;
    let mut columns = columns_of(&files.known)?;
    put_statistics(&mut columns, &files.statistics, files.known.len());
    put_ranges(&mut columns, &files.ranges);
    let batch = columns.into_batch()?;
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();
    let mut writer = ArrowWriter::try_new(vec![], batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.append_key_value_metadata(KeyValue::new(OF.into(), of));
    writer.append_key_value_metadata(KeyValue::new(HASH.into(), unsealed()));
    let mut bytes = writer.into_inner()?;
    seal(&mut bytes).ok_or_else(|| internal_datafusion_err!("a manifest without \"{HASH}\""))?;
    Ok(bytes)
}

fn snapshot_of(bytes: &Bytes, of: &str, indexer: &Indexer) -> Result<Snapshot> {
    let batch = batch_of(bytes, of)?;
    let columns = Columns::of_batch(&batch);
    let table = &indexer.table;
    let known = files_of(&columns, indexer)?;
    let data_type = |column: usize| {
        let field = table.table_schema().fields().get(column)?;
        Some(value_type(field.data_type()).clone())
    };
    let files = Files {
        footers: vec![None; known.len()],
        statistics: statistics_of(&columns, table.file_schema(), known.len())?,
        ranges: ranges_of(&columns, &known, data_type)?,
        known,
    };
    Ok(Snapshot::new(table.clone(), files, 0))
}

/// The one batch that the Parquet file `bytes` is made of.
fn batch_of(bytes: &Bytes, of: &str) -> Result<RecordBatch> {
    if !is_sealed(bytes) {
        return exec_err!("it is not whole, or no manifest");
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?;
    let file = reader.metadata().file_metadata();
    let mut pairs = file.key_value_metadata().into_iter().flatten();
    let is_of = pairs.find(|pair| pair.key == OF);
    if is_of.and_then(|pair| pair.value.as_deref()) != Some(of) {
        return exec_err!("it is of another table, another declaration or another version");
    }
    let rows = usize::try_from(file.num_rows()).unwrap_or(0);
    let schema = Arc::clone(reader.schema());
    let batches = reader.with_batch_size(rows.max(1)).build()?;
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}
