//! Finding the file that an error is about.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use futures::{StreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};

/// `error` with the path of the first file whose Parquet footer cannot be read, if it is about such a thing.
///
/// DataFusion's own does not say which of a thousand files is broken. This reads their footers to find out, those
/// that are in the session's cache from there, and only after a failure.
pub(crate) async fn name_broken_file(
    session: &dyn Session,
    locations: &[ListingTableUrl],
    extension: &str,
    error: DataFusionError,
) -> DataFusionError {
    if !matches!(error.find_root(), DataFusionError::ParquetError(_)) {
        return error;
    }
    for location in locations {
        let Ok(store) = session.runtime_env().object_store(location) else {
            continue;
        };
        let Ok(files) = location
            .list_all_files(session, store.as_ref(), extension)
            .await
        else {
            continue;
        };
        let files: Vec<_> = files
            .filter_map(|file| std::future::ready(file.ok()))
            .filter(|file| std::future::ready(file.size > 0))
            .collect()
            .await;
        if let Some(broken) = first_broken(session, &store, files).await {
            return error.context(format!(
                "while reading the Parquet footer of '{}'",
                broken.location
            ));
        }
    }
    error
}

async fn first_broken(
    session: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: Vec<ObjectMeta>,
) -> Option<ObjectMeta> {
    let concurrency = session
        .config_options()
        .execution
        .meta_fetch_concurrency
        .get();
    let cache = session
        .runtime_env()
        .cache_manager
        .get_file_metadata_cache();
    let footers = stream::iter(files).map(|file| {
        let cache = Some(Arc::clone(&cache));
        async move {
            let footer = DFParquetMetadata::new(store.as_ref(), &file)
                .with_file_metadata_cache(cache)
                .fetch_metadata()
                .await;
            footer.is_err().then_some(file)
        }
    });
    let broken = footers
        .boxed()
        .buffered(concurrency)
        .filter_map(std::future::ready);
    std::pin::pin!(broken).next().await
}
