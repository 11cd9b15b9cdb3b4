//! Reading Parquet footers.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::ParquetMetaData;

/// What is known of the inside of a file.
#[derive(Debug, Clone)]
pub(crate) enum Footer {
    Parquet {
        metadata: Arc<ParquetMetaData>,
        schema: SchemaRef,
    },
    /// The file has no footer, or none that can be looked at.
    Unreadable(Arc<str>),
}

/// Reads footers as DataFusion's own scan will, so that both find them in the same cache.
#[derive(Clone)]
pub(crate) struct FooterReader {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    concurrency: usize,
    /// How many bytes of the end of a file to read first, or why footers are not read.
    size_hint: Result<Option<usize>, Arc<str>>,
}

impl FooterReader {
    pub(crate) fn new(
        session: &dyn Session,
        format: &dyn FileFormat,
        store: Arc<dyn ObjectStore>,
    ) -> Self {
        let size_hint = match format.downcast_ref::<ParquetFormat>() {
            None => Err(format!("files of format {} have no bounds", format.get_ext()).into()),
            Some(parquet) if is_encrypted(parquet) => {
                Err("encrypted footers are not looked at".into())
            }
            Some(parquet) => Ok(parquet.metadata_size_hint()),
        };
        Self {
            store,
            cache: session
                .runtime_env()
                .cache_manager
                .get_file_metadata_cache(),
            concurrency: session
                .config_options()
                .execution
                .meta_fetch_concurrency
                .get(),
            size_hint,
        }
    }

    /// The footer of each of `files`, read concurrently.
    ///
    /// # Errors
    /// If one cannot be read, naming its file.
    pub(crate) async fn read(&self, files: Vec<ObjectMeta>) -> Result<Vec<Footer>> {
        // Boxed one by one, and of owned parts: otherwise it takes the compiler a minute to see that this is `Send`.
        let footers = files.into_iter().map(|file| self.clone().read_one(file));
        stream::iter(footers.collect::<Vec<_>>())
            .buffered(self.concurrency)
            .try_collect()
            .await
    }

    fn read_one(self, file: ObjectMeta) -> BoxFuture<'static, Result<Footer>> {
        async move {
            let size_hint = match self.size_hint {
                Ok(size_hint) => size_hint,
                Err(why) => return Ok(Footer::Unreadable(why)),
            };
            let metadata = DFParquetMetadata::new(self.store.as_ref(), &file)
                .with_metadata_size_hint(size_hint)
                .with_file_metadata_cache(Some(self.cache))
                .fetch_metadata()
                .await;
            metadata
                .and_then(|metadata| {
                    let schema = arrow_schema(&metadata)?;
                    Ok(Footer::Parquet { metadata, schema })
                })
                .map_err(|e| {
                    e.context(format!(
                        "the Parquet footer of '{}' cannot be read",
                        file.location
                    ))
                })
        }
        .boxed()
    }
}

fn is_encrypted(format: &ParquetFormat) -> bool {
    let crypto = &format.options().crypto;
    crypto.file_decryption.is_some() || crypto.factory_id.is_some()
}

fn arrow_schema(footer: &ParquetMetaData) -> Result<SchemaRef> {
    let file = footer.file_metadata();
    let schema: Schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
        .map_err(DataFusionError::from)?;
    Ok(Arc::new(schema))
}
