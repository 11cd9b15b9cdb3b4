//! Readers of Parquet files that are as they were listed.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors;
use parquet::file::metadata::ParquetMetaData;

use super::Listing;

/// Makes readers of files that are as they were listed.
#[derive(Debug)]
pub(super) struct ReadersAsListed {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) footers: Arc<FileMetadataCache>,
    pub(super) listing: Listing,
}

impl ParquetFileReaderFactory for ReadersAsListed {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let footer = self.listing.footer(&self.store, &file.object_meta);
        let store = Arc::clone(&self.store);
        let store = self.listing.store_of(store, file.object_meta.clone());
        let readers = CachedParquetFileReaderFactory::new(store, Arc::clone(&self.footers));
        let reader = readers.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(match footer {
            Some(footer) => Box::new(WithFooter { reader, footer }),
            None => reader,
        })
    }
}

/// A reader of a file whose footer is known. The session's cache may have had to let go of it: that of a table of
/// thousands of files does not fit into it.
struct WithFooter {
    reader: Box<dyn AsyncFileReader + Send>,
    footer: Arc<ParquetMetaData>,
}

impl AsyncFileReader for WithFooter {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, errors::Result<Bytes>> {
        self.reader.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, errors::Result<Vec<Bytes>>> {
        self.reader.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, errors::Result<Arc<ParquetMetaData>>> {
        let footer = Arc::clone(&self.footer);
        async move { Ok(footer) }.boxed()
    }
}
