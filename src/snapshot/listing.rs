//! The files of a table, as the session lists them.

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::listing::helpers::parse_partitions_for_path;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl, PartitionedFile};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore};

/// A file that is there.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) meta: ObjectMeta,
    /// Which of the paths of the table it is under.
    pub(crate) path: usize,
}

impl Listed {
    /// A file as `table` lists it.
    pub(crate) fn of(file: &PartitionedFile, table: &ListingTable) -> Self {
        let location = &file.object_meta.location;
        let mut paths = table.table_paths().iter();
        let path = paths.position(|path| path.strip_prefix(location).is_some());
        Self {
            meta: file.object_meta.clone(),
            path: path.unwrap_or(0),
        }
    }
}

/// The files of `table`, sorted by path. They are listed as [`ListingTable`] lists them: through the session's cache,
/// without files of no bytes and those outside of partitions, and each once, although paths may overlap.
pub(crate) async fn list(
    session: &dyn Session,
    store: &dyn ObjectStore,
    table: &ListingTable,
) -> Result<Vec<Listed>> {
    let concurrency = session.config_options().execution.meta_fetch_concurrency;
    let paths = table.table_paths().iter().enumerate();
    let lists: Vec<_> = paths
        .map(|(path, url)| list_path(session, store, table, path, url))
        .collect();
    let lists: Vec<_> = stream::iter(lists)
        .buffered(concurrency.get())
        .try_collect()
        .await?;
    Ok(sorted(lists.into_iter().flatten().collect()))
}

/// `files` sorted by path, and each once.
pub(super) fn sorted(mut files: Vec<Listed>) -> Vec<Listed> {
    files.sort_unstable_by(|a, b| (&a.meta.location, a.path).cmp(&(&b.meta.location, b.path)));
    files.dedup_by(|b, a| a.meta.location == b.meta.location);
    files
}

// Boxed, since it takes the compiler long otherwise to see that this is `Send`.
fn list_path<'a>(
    session: &'a dyn Session,
    store: &'a dyn ObjectStore,
    table: &'a ListingTable,
    path: usize,
    url: &'a ListingTableUrl,
) -> BoxFuture<'a, Result<Vec<Listed>>> {
    let options = table.options();
    let columns = &options.table_partition_cols;
    async move {
        let mut found = url
            .list_all_files(session, store, &options.file_extension)
            .await?;
        let mut files = vec![];
        while let Some(meta) = found.try_next().await? {
            let names = columns.iter().map(|(name, _)| name.as_str());
            if meta.size > 0
                && (columns.is_empty()
                    || parse_partitions_for_path(url, &meta.location, names).is_some())
            {
                files.push(Listed { meta, path });
            }
        }
        Ok(files)
    }
    .boxed()
}

/// Whether two descriptions are of the same version of a file.
pub(super) fn same_version(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    a.location == b.location
        && a.size == b.size
        && a.last_modified == b.last_modified
        && a.e_tag == b.e_tag
        && a.version == b.version
}
