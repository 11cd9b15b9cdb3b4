//! A snapshot as a Parquet file, from which the next session knows the files that have not changed.
//!
//! It is a cache: whatever is wrong with it, the footers are read as if it were not there.

mod columns;
mod files;
mod place;
mod seal;
mod statistics;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::iter;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_datafusion_err, exec_err, internal_datafusion_err};
use datafusion::execution::runtime_env::RuntimeEnv;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use self::columns::Columns;
use self::files::{columns_of, files_of};
use self::place::{MARK, Place};
use self::seal::{is_sealed, seal, unsealed};
use self::statistics::{put_ranges, put_statistics, ranges_of, statistics_of};
use super::known_file::Indexer;
use super::{Files, Snapshot};
use crate::proof::value_type;

/// To be raised where what is written changes, or what footers prove.
const FORMAT: u32 = 2;

/// What the manifest is of, and what its bytes are, as names in its footer.
const OF: &str = "sorted_listing.of";
const HASH: &str = "sorted_listing.hash";

/// Where the user wants the manifest of a table to be.
#[derive(Debug)]
pub(crate) struct ManifestUrl {
    url: String,
    runtime: Arc<RuntimeEnv>,
}

impl ManifestUrl {
    pub(crate) fn new(url: &str, session: &dyn Session) -> Self {
        Self {
            url: url.to_owned(),
            runtime: Arc::clone(session.runtime_env()),
        }
    }

    /// The manifest of the table of `indexer`.
    ///
    /// # Errors
    /// If that is no place for a file, or one for a file of the table.
    pub(super) fn of(&self, indexer: &Indexer) -> Result<Manifest> {
        let place = Place::try_new(&self.url, &self.runtime, &indexer.paths)?;
        Ok(Manifest {
            place,
            name: self.url.clone(),
            of: described(indexer),
        })
    }
}

/// The manifest of a table.
#[derive(Debug)]
pub(super) struct Manifest {
    place: Place,
    /// What the user calls it.
    name: String,
    /// All that proofs depend on besides the files.
    of: String,
}

impl Manifest {
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
        let Some(bytes) = self.place.read().await? else {
            return Ok(None);
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
        self.place.write(bytes).await
    }
}

/// Whether `footer` is that of a manifest, which may lie among the files of a table by mistake.
pub(super) fn is_manifest(footer: &ParquetMetaData) -> bool {
    let pairs = footer.file_metadata().key_value_metadata();
    pairs.into_iter().flatten().any(|pair| pair.key == OF)
}

/// All that decides what the footers of a table's files prove, apart from the files.
fn described(indexer: &Indexer) -> String {
    let schema = &indexer.table;
    let mut of = format!(
        "format {FORMAT}, {} {}, DataFusion {}, arrow {}\n",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION,
        arrow::ARROW_VERSION,
    );
    // Writing into a String does not fail.
    for path in indexer.paths.iter() {
        let _ = writeln!(of, "path {}", path.as_str());
    }
    let columns = schema.table_schema().fields().iter().enumerate();
    for (index, field) in columns {
        let is_of_path = index >= schema.file_schema().fields().len();
        let kind = if is_of_path { "partition" } else { "column" };
        let (name, data_type, nullable) = (field.name(), field.data_type(), field.is_nullable());
        let _ = writeln!(of, "{kind} {name:?} {data_type:?} {nullable}");
    }
    for order in indexer.declared.iter() {
        let _ = writeln!(of, "order {order}");
    }
    of
}

fn bytes_of(snapshot: &Snapshot, of: String) -> Result<Vec<u8>> {
    let files = &snapshot.files;
    let mut columns = columns_of(&files.known)?;
    put_statistics(&mut columns, &files.statistics, files.known.len());
    put_ranges(&mut columns, &files.ranges);
    sealed(&marked(&columns.into_batch()?)?, of)
}

/// A Parquet file of `batch`, with a hash of all that is in it.
fn sealed(batch: &RecordBatch, of: String) -> Result<Vec<u8>> {
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();
    let mut writer = ArrowWriter::try_new(vec![], batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.append_key_value_metadata(KeyValue::new(OF.into(), of));
    writer.append_key_value_metadata(KeyValue::new(HASH.into(), unsealed()));
    let mut bytes = writer.into_inner()?;
    seal(&mut bytes).ok_or_else(|| internal_datafusion_err!("a manifest without \"{HASH}\""))?;
    Ok(bytes)
}

/// `batch` with [`MARK`] in a column before the others.
fn marked(batch: &RecordBatch) -> Result<RecordBatch> {
    let marks = StringArray::from_iter_values(iter::repeat_n(MARK, batch.num_rows()));
    let schema = batch.schema();
    let mark = Arc::new(Field::new("kind", DataType::Utf8, false));
    let fields = iter::once(&mark).chain(schema.fields()).cloned();
    let schema = Schema::new(fields.collect::<Fields>());
    let columns = iter::once(Arc::new(marks) as ArrayRef).chain(batch.columns().to_vec());
    Ok(RecordBatch::try_new(Arc::new(schema), columns.collect())?)
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
