//! Reading Parquet footers.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::physical_plan::parquet::CachedParquetMetaData;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use crate::as_listed::Listing;

/// Reads footers as DataFusion's own scan will, so that both find them in the same cache.
#[derive(Clone)]
pub(crate) struct FooterReader {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    /// Whether what is read goes into the cache.
    fills_cache: bool,
    concurrency: usize,
    /// How many bytes of the end of a file to read first.
    size_hint: Option<usize>,
    /// What files are read as, if that matters.
    listing: Option<Listing>,
}

impl FooterReader {
    /// A reader of the footers of files of `format`; or why they are not read.
    pub(crate) fn try_new(
        session: &dyn Session,
        format: &dyn FileFormat,
        store: Arc<dyn ObjectStore>,
        listing: Option<Listing>,
    ) -> Result<Self, String> {
        Ok(Self {
            store,
            listing,
            cache: session
                .runtime_env()
                .cache_manager
                .get_file_metadata_cache(),
            fills_cache: true,
            concurrency: session
                .config_options()
                .execution
                .meta_fetch_concurrency
                .get(),
            size_hint: readable(format)?.metadata_size_hint(),
        })
    }

    /// How many footers to read at a time.
    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// This reader, which from here on does not put footers into the session's cache if that cannot hold so many bytes of
    /// them: each would only drive out another.
    pub(crate) fn expecting(mut self, bytes: usize) -> Self {
        self.fills_cache &= bytes <= self.cache.cache_limit();
        self
    }

    /// The footer of `file`, if the session has it in its cache.
    pub(crate) fn cached(&self, file: &ObjectMeta) -> Option<Arc<ParquetMetaData>> {
        let cached = self.cache.get(&file.location)?;
        let footer = cached.file_metadata.as_any();
        let footer = footer.downcast_ref::<CachedParquetMetaData>()?;
        (cached.is_valid_for(file) && cached.meta.e_tag == file.e_tag)
            .then(|| Arc::clone(footer.parquet_metadata()))
    }

    /// The footer of `file`. The future is boxed and of owned parts: otherwise it takes the compiler a minute to see that
    /// it is `Send`.
    ///
    /// # Errors
    /// If it cannot be read, or is not the version of the file that was listed any more, naming the file.
    pub(crate) fn read(
        &self,
        file: ObjectMeta,
    ) -> BoxFuture<'static, Result<Arc<ParquetMetaData>>> {
        let reader = self.clone();
        async move {
            if !reader.fills_cache
                && let Some(footer) = reader.cached(&file)
            {
                return Ok(footer);
            }
            // DataFusion does not compare ETags.
            let is_outdated = |cached: CachedFileMetadataEntry| cached.meta.e_tag != file.e_tag;
            if reader.cache.get(&file.location).is_some_and(is_outdated) {
                reader.cache.remove(&file.location);
            }
            let store = match &reader.listing {
                Some(listing) => listing.store_of(reader.store, file.clone()),
                None => reader.store,
            };
            let footer = DFParquetMetadata::new(store.as_ref(), &file)
                .with_metadata_size_hint(reader.size_hint)
                // As if it went into the cache.
                .with_page_index_policy(Some(PageIndexPolicy::Optional))
                .with_file_metadata_cache(reader.fills_cache.then_some(reader.cache))
                .fetch_metadata()
                .await;
            footer.map_err(|e| unreadable(&file, e))
        }
        .boxed()
    }
}

/// The error that the footer of `file` cannot be read.
pub(crate) fn unreadable(file: &ObjectMeta, error: DataFusionError) -> DataFusionError {
    error.context(format!(
        "the Parquet footer of '{}' cannot be read",
        file.location
    ))
}

/// The format of files whose footers can be looked at; or why they cannot.
pub(crate) fn readable(format: &dyn FileFormat) -> Result<&ParquetFormat, String> {
    match format.downcast_ref::<ParquetFormat>() {
        None => Err(format!(
            "files of format {} have no bounds",
            format.get_ext()
        )),
        Some(parquet) if is_encrypted(parquet) => Err("encrypted footers are not looked at".into()),
        Some(parquet) => Ok(parquet),
    }
}

fn is_encrypted(format: &ParquetFormat) -> bool {
    let crypto = &format.options().crypto;
    crypto.file_decryption.is_some() || crypto.factory_id.is_some()
}

/// The Arrow schema of a file, as its reader sees it.
pub(crate) fn arrow_schema(footer: &ParquetMetaData) -> Result<SchemaRef> {
    let file = footer.file_metadata();
    let schema: Schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
        .map_err(DataFusionError::from)?;
    Ok(Arc::new(schema))
}
