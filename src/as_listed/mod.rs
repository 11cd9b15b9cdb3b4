//! Files that are read as they were listed, or not at all.

mod open_file;
mod reader;
mod store;
mod version;

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::execution::cache::TableScopedPath;
use datafusion::execution::cache::cache_manager::ListFilesCache;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;

use self::reader::ReadersAsListed;
use self::store::StoreAsListed;
use crate::snapshot::Snapshots;

/// The listing that the files of a table are known from.
#[derive(Clone)]
pub(crate) struct Listing {
    /// Weak, since a snapshot keeps scans, which know the listing that they are of.
    snapshots: Weak<Snapshots>,
    listings: Option<Arc<ListFilesCache>>,
    paths: Arc<[TableScopedPath]>,
    /// Whether the files are on a file system, and can be opened.
    is_local: bool,
    /// Whether a file that is another version than was listed is an error.
    checks: bool,
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Listing {
    pub(crate) fn new(
        table: &ListingTable,
        snapshots: &Arc<Snapshots>,
        session: &dyn Session,
        checks: bool,
    ) -> Self {
        let scoped = |path: &ListingTableUrl| TableScopedPath {
            table: path.get_table_ref().clone(),
            path: path.prefix().clone(),
        };
        let paths = table.table_paths();
        Self {
            snapshots: Arc::downgrade(snapshots),
            listings: session.runtime_env().cache_manager.get_list_files_cache(),
            paths: paths.iter().map(scoped).collect(),
            is_local: paths.iter().all(|path| path.scheme() == "file"),
            checks,
        }
    }

    /// Makes the next query list the files, whatever `sorted_listing.snapshot_ttl` and the session's cache of listings
    /// say.
    pub(crate) fn forget(&self) {
        if let Some(listings) = &self.listings {
            for path in self.paths.iter() {
                listings.remove(path);
            }
        }
        if let Some(snapshots) = self.snapshots.upgrade() {
            snapshots.invalidate();
        }
    }

    /// `scan`, which ends in an error where a file is not what this listing says, if that is checked. Files in other formats
    /// than Parquet are read as they are.
    pub(crate) fn scan(
        &self,
        scan: FileScanConfig,
        runtime: &RuntimeEnv,
    ) -> Result<FileScanConfig> {
        let Some(source) = scan.file_source().downcast_ref::<ParquetSource>() else {
            return Ok(scan);
        };
        let readers = ReadersAsListed {
            store: runtime.object_store(&scan.object_store_url)?,
            footers: runtime.cache_manager.get_file_metadata_cache(),
            listing: self.clone(),
        };
        let source = source
            .clone()
            .with_parquet_file_reader_factory(Arc::new(readers));
        Ok(FileScanConfigBuilder::from(scan)
            .with_source(Arc::new(source))
            .build())
    }

    /// The footer of this version of a file in `store`, if the table holds it.
    fn footer(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Option<Arc<ParquetMetaData>> {
        self.snapshots.upgrade()?.footer(store, file)
    }

    /// `store`, from which only the listed version of `file` is read, if that is checked.
    pub(crate) fn store_of(
        &self,
        store: Arc<dyn ObjectStore>,
        file: ObjectMeta,
    ) -> Arc<dyn ObjectStore> {
        Arc::new(StoreAsListed::new(store, file, self.clone()))
    }
}
