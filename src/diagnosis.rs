//! Finding the file that an error is about.

use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::ListingTableUrl;
use futures::{StreamExt, TryStreamExt, stream};

use crate::footers::{FooterReader, arrow_schema};

/// `error`, or if it is Parquet's, the error of the first file whose footer cannot be read, which names the file.
///
/// DataFusion's own does not say which of a thousand files is broken. This reads their footers to find out, those
/// that are in the session's cache from there, and only after a failure.
pub(crate) async fn name_broken_file(
    session: &dyn Session,
    format: &dyn FileFormat,
    locations: &[ListingTableUrl],
    extension: &str,
    error: DataFusionError,
) -> DataFusionError {
    if !matches!(error.find_root(), DataFusionError::ParquetError(_)) {
        return error;
    }
    for location in locations {
        let read = read_footers(session, format, location, extension).await;
        if let Err(broken) = read {
            return broken;
        }
    }
    error
}

async fn read_footers(
    session: &dyn Session,
    format: &dyn FileFormat,
    location: &ListingTableUrl,
    extension: &str,
) -> Result<()> {
    let store = session.runtime_env().object_store(location)?;
    let files = location
        .list_all_files(session, store.as_ref(), extension)
        .await?;
    let mut files: Vec<_> = files.try_collect().await?;
    // As DataFusion does.
    files.retain(|file| file.size > 0);
    let Ok(reader) = FooterReader::try_new(session, format, store, None) else {
        return Ok(());
    };
    let footers: Vec<_> = files.into_iter().map(|file| reader.read(file)).collect();
    stream::iter(footers)
        .buffered(reader.concurrency())
        .try_for_each(async |footer| arrow_schema(&footer).map(|_| ()))
        .await
}
