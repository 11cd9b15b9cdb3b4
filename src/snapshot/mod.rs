//! The files of a table and what their footers prove, at one moment.

mod build;
mod holder;
mod known_file;
mod listing;
mod manifest;
mod ranges;
mod statistics;
mod values;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::table_schema::TableSchema;
use parquet::file::metadata::ParquetMetaData;

pub(crate) use build::build;
pub(crate) use holder::{SnapshotError, Snapshots};
pub(crate) use known_file::{Indexer, KnownFile};
pub(crate) use listing::Listed;
pub(crate) use manifest::ManifestUrl;
pub(crate) use ranges::{KeyRanges, Range};

use self::listing::same_version;
use self::manifest::Manifest;
use self::statistics::FileStatistics;
use crate::kept_layouts::KeptLayouts;

/// How many bytes of footers a snapshot holds at most. Of a table whose footers are larger it holds none: then they are
/// in the session's cache, or are read again where a query needs more of them than the snapshot knows.
const MOST_FOOTERS: usize = 64 << 20;

/// The files of a table, sorted by path, and what is known of each.
///
/// Proof and execution use the same snapshot: what is read are the files that were listed, see
/// [`Listing::scan`](crate::as_listed::Listing::scan).
#[derive(Debug)]
pub(crate) struct Snapshot {
    table: TableSchema,
    files: Files,
    /// The statistics of all files together, once they are known.
    whole: OnceLock<Statistics>,
    layouts: KeptLayouts,
    /// How many of the files are in no manifest yet.
    unsaved: AtomicUsize,
}

/// Files, and by the same index what is known of them.
#[derive(Debug)]
struct Files {
    known: Vec<Arc<KnownFile>>,
    footers: Vec<Option<HeldFooter>>,
    statistics: FileStatistics,
    ranges: KeyRanges,
}

#[derive(Debug, Clone)]
struct HeldFooter {
    footer: Arc<ParquetMetaData>,
    bytes: usize,
}

impl Snapshot {
    fn new(table: TableSchema, files: Files, unsaved: usize) -> Self {
        Self {
            table,
            files,
            whole: OnceLock::new(),
            layouts: KeptLayouts::default(),
            unsaved: AtomicUsize::new(unsaved),
        }
    }

    /// Keeps what is known in `manifest`, if that lacks more than it is worth to leave out: where files come and go all the
    /// time, writing all of them each time would take long.
    async fn save_to(self: &Arc<Self>, manifest: &Manifest) {
        let files = self.files().len();
        if files > 0 && self.unsaved.load(Ordering::Acquire) > files / 16 {
            // If it fails, the next query need not try at once.
            self.unsaved.store(0, Ordering::Release);
            manifest.save(self).await;
        }
    }

    pub(crate) fn table(&self) -> &TableSchema {
        &self.table
    }

    /// The files, sorted by path.
    pub(crate) fn files(&self) -> &[Arc<KnownFile>] {
        &self.files.known
    }

    /// The footer of a file, if it is held.
    pub(crate) fn footer(&self, file: usize) -> Option<&Arc<ParquetMetaData>> {
        self.files.footers[file].as_ref().map(|held| &held.footer)
    }

    /// The statistics of a file, without partition columns.
    pub(crate) fn statistics(&self, file: usize) -> Result<Statistics> {
        self.files.statistics.get(file)
    }

    /// The statistics of all files together, which `merged` gives if they are not known yet.
    pub(crate) fn whole_statistics(
        &self,
        merged: impl FnOnce() -> Result<Statistics>,
    ) -> Result<Statistics> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole.clone());
        }
        let whole = merged()?;
        Ok(self.whole.get_or_init(|| whole).clone())
    }

    /// The layouts of all files.
    pub(crate) fn layouts(&self) -> &KeptLayouts {
        &self.layouts
    }

    /// How many rows a file has.
    pub(crate) fn rows(&self, file: usize) -> Precision<usize> {
        self.files.statistics.rows(file)
    }

    /// The ranges of key columns in each file.
    pub(crate) fn ranges(&self) -> &KeyRanges {
        &self.files.ranges
    }

    /// Whether these are the files that are listed, in the same versions.
    fn is_of(&self, listing: &[Listed]) -> bool {
        self.files().len() == listing.len()
            && self.files().iter().zip(listing).all(|(known, listed)| {
                known.path == listed.path && same_version(&known.meta, &listed.meta)
            })
    }
}
