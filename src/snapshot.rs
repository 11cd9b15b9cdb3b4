//! The files of a scan and what their footers prove, at one moment.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexOrdering;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::ParquetMetaData;

use crate::proof::{FileView, KeyFacts, SortKey, footer_order};

/// The files of one scan that may have rows, sorted by path, each with its footer.
///
/// Proof and execution use the same snapshot: the files that are read are those whose footers were looked at.
#[derive(Debug)]
pub(crate) struct Snapshot {
    table: TableSchema,
    custom_adapter: bool,
    files: Vec<ListedFile>,
}

#[derive(Debug)]
pub(crate) struct ListedFile {
    pub(crate) file: PartitionedFile,
    /// The file group that the listing put it into.
    pub(crate) group: usize,
    footer: Footer,
}

/// What is known of the inside of a file.
#[derive(Debug)]
enum Footer {
    Parquet {
        metadata: Arc<ParquetMetaData>,
        schema: SchemaRef,
    },
    /// The file has no footer, or none that can be looked at.
    Unreadable(Arc<str>),
}

impl Snapshot {
    /// Reads the footers of the files of `scan`, concurrently and through the session's `FileMetadataCache`.
    ///
    /// Files of exactly zero rows are set aside: they belong to no slice and say nothing of the order.
    ///
    /// # Errors
    /// If a footer cannot be read, naming its file.
    pub(crate) async fn read(
        session: &dyn Session,
        format: &dyn FileFormat,
        scan: &FileScanConfig,
    ) -> Result<Self> {
        let listed = scan
            .file_groups
            .iter()
            .enumerate()
            .flat_map(|(group, files)| files.iter().map(move |file| (group, file.clone())));
        let store = session.runtime_env().object_store(&scan.object_store_url)?;
        let footers = FooterReader::new(session, format, store);
        let concurrency = session
            .config_options()
            .execution
            .meta_fetch_concurrency
            .get();
        let mut files: Vec<_> = stream::iter(listed)
            .map(|(group, file)| {
                let footers = &footers;
                async move {
                    let footer = footers.read(&file.object_meta).await?;
                    Ok::<_, DataFusionError>(ListedFile {
                        file,
                        group,
                        footer,
                    })
                }
            })
            .boxed() // https://github.com/rust-lang/rust/issues/64552
            .buffer_unordered(concurrency)
            .try_filter(|file| futures::future::ready(!file.is_empty()))
            .try_collect()
            .await?;
        // The listing comes in no particular order.
        files.sort_unstable_by(|a, b| a.file.path().cmp(b.file.path()));

        Ok(Self {
            table: scan.file_source().table_schema().clone(),
            custom_adapter: scan.expr_adapter_factory.is_some(),
            files,
        })
    }

    pub(crate) fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// What each file proves of the key of `ordering`.
    pub(crate) fn key_facts(&self, ordering: &LexOrdering) -> Vec<KeyFacts> {
        let key = SortKey::try_new(ordering, &self.table);
        let facts = |file: &ListedFile| match (&key, &file.footer) {
            (Err(why), _) => KeyFacts::unknown(why),
            (_, Footer::Unreadable(why)) => KeyFacts::unknown(why.as_ref()),
            (Ok(key), Footer::Parquet { metadata, schema }) => key.facts(FileView {
                footer: metadata,
                schema,
                partition_values: &file.file.partition_values,
                custom_adapter: self.custom_adapter,
            }),
        };
        self.files.iter().map(facts).collect()
    }

    /// The order that all footers share; `Err` names a file whose footer does not share it.
    pub(crate) fn footer_order(&self) -> Result<Option<LexOrdering>, &ListedFile> {
        let footers = self.files.iter().filter_map(|file| match &file.footer {
            Footer::Parquet { metadata, .. } => Some(metadata.as_ref()),
            Footer::Unreadable(_) => None,
        });
        footer_order(footers, &self.table).map_err(|file| &self.files[file])
    }
}

impl ListedFile {
    /// The footer of the file, if it is Parquet.
    pub(crate) fn footer(&self) -> Option<Arc<ParquetMetaData>> {
        match &self.footer {
            Footer::Parquet { metadata, .. } => Some(Arc::clone(metadata)),
            Footer::Unreadable(_) => None,
        }
    }

    fn is_empty(&self) -> bool {
        match &self.footer {
            Footer::Parquet { metadata, .. } => metadata
                .row_groups()
                .iter()
                .all(|group| group.num_rows() == 0),
            Footer::Unreadable(_) => false,
        }
    }
}

/// Reads footers as DataFusion's own scan will, so that both find them in the same cache.
struct FooterReader<'a> {
    session: &'a dyn Session,
    store: Arc<dyn ObjectStore>,
    format: Result<&'a ParquetFormat, Arc<str>>,
}

impl<'a> FooterReader<'a> {
    fn new(
        session: &'a dyn Session,
        format: &'a dyn FileFormat,
        store: Arc<dyn ObjectStore>,
    ) -> Self {
        let format = match format.downcast_ref::<ParquetFormat>() {
            None => Err(format!("files of format {} have no bounds", format.get_ext()).into()),
            Some(parquet) if is_encrypted(parquet) => {
                Err("encrypted footers are not looked at".into())
            }
            Some(parquet) => Ok(parquet),
        };
        Self {
            session,
            store,
            format,
        }
    }

    async fn read(&self, file: &ObjectMeta) -> Result<Footer> {
        let format = match &self.format {
            Ok(format) => format,
            Err(why) => return Ok(Footer::Unreadable(Arc::clone(why))),
        };
        let cache = self
            .session
            .runtime_env()
            .cache_manager
            .get_file_metadata_cache();
        let metadata = DFParquetMetadata::new(self.store.as_ref(), file)
            .with_metadata_size_hint(format.metadata_size_hint())
            .with_file_metadata_cache(Some(cache))
            .fetch_metadata()
            .await
            .map_err(|e| in_footer_of(file, e))?;
        let schema = arrow_schema(&metadata).map_err(|e| in_footer_of(file, e))?;
        Ok(Footer::Parquet { metadata, schema })
    }
}

fn is_encrypted(format: &ParquetFormat) -> bool {
    let crypto = &format.options().crypto;
    crypto.file_decryption.is_some() || crypto.factory_id.is_some()
}

fn arrow_schema(footer: &ParquetMetaData) -> Result<SchemaRef> {
    let file = footer.file_metadata();
    let schema: Schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?;
    Ok(Arc::new(schema))
}

fn in_footer_of(file: &ObjectMeta, error: DataFusionError) -> DataFusionError {
    error.context(format!(
        "while reading the Parquet footer of '{}'",
        file.location
    ))
}
