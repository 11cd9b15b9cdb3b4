//! The snapshot that a table holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::ListingTable;
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;

use super::listing::{Listed, list, same_version, sorted};
use super::manifest::Manifest;
use super::{Indexer, KnownFile, Snapshot, build};

/// The newest snapshot of a table. Queries share it as long as the listing stays the same.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<Option<Held>>,
    /// Held while a snapshot is built, so that queries at the same time do not read the same footers.
    building: tokio::sync::Mutex<()>,
    /// Held while a manifest is written, so that an older one does not come last.
    saving: Arc<tokio::sync::Mutex<()>>,
    /// How often the listing has been found to be out of date.
    invalidated: AtomicU64,
}

/// Why there is no snapshot.
#[derive(Debug)]
pub(crate) enum SnapshotError {
    /// A file of the table, which the error names, cannot be looked at.
    File(DataFusionError),
    Other(DataFusionError),
}

impl From<DataFusionError> for SnapshotError {
    fn from(error: DataFusionError) -> Self {
        Self::Other(error)
    }
}

impl From<SnapshotError> for DataFusionError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::File(error) | SnapshotError::Other(error) => error,
        }
    }
}

#[derive(Debug, Clone)]
struct Held {
    snapshot: Arc<Snapshot>,
    /// Where its files are. The same path in another store is another file.
    store: Arc<dyn ObjectStore>,
    /// When its files were listed, unless that is known to be out of date.
    listed: Option<Instant>,
}

impl Snapshots {
    /// The snapshot of the files of `table` as they are now, or were within the last `ttl`.
    ///
    /// # Errors
    /// If the files cannot be listed, or a footer cannot be read. Then the next query tries again.
    pub(crate) async fn current(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table: &ListingTable,
        indexer: &Indexer,
        ttl: Option<Duration>,
    ) -> Result<Arc<Snapshot>, SnapshotError> {
        if let Some(snapshot) = self.listed_within(store, ttl) {
            return Ok(snapshot);
        }
        let invalidated = self.invalidated.load(Ordering::Acquire);
        let now = Instant::now();
        let listing = list(session, store.as_ref(), table).await?;
        self.of_listing_at(store, listing, indexer, now, invalidated)
            .await
    }

    /// The snapshot of the files that a query has listed by itself; `is_whole` if these are all of the table.
    pub(crate) async fn of_listing(
        &self,
        store: &Arc<dyn ObjectStore>,
        listing: Vec<Listed>,
        indexer: &Indexer,
        is_whole: bool,
    ) -> Result<Arc<Snapshot>, SnapshotError> {
        let listing = sorted(listing);
        if !is_whole {
            let known = self.of_store(store);
            let built = build(indexer, listing, known.as_deref()).await;
            return built.map(Arc::new).map_err(SnapshotError::File);
        }
        // When they were listed is not known.
        let invalidated = u64::MAX;
        self.of_listing_at(store, listing, indexer, Instant::now(), invalidated)
            .await
    }

    async fn of_listing_at(
        &self,
        store: &Arc<dyn ObjectStore>,
        listing: Vec<Listed>,
        indexer: &Indexer,
        now: Instant,
        invalidated: u64,
    ) -> Result<Arc<Snapshot>, SnapshotError> {
        if let Some(snapshot) = self.listed_again(store, &listing, now, invalidated) {
            return Ok(snapshot);
        }
        let building = self.building.lock().await;
        // It may be what another query was building.
        if let Some(snapshot) = self.listed_again(store, &listing, now, invalidated) {
            return Ok(snapshot);
        }
        let manifest = indexer.manifest.as_ref();
        let manifest = manifest.map(|url| url.of(indexer)).transpose()?;
        let known = match (self.of_store(store), &manifest) {
            (None, Some(manifest)) => manifest.load(indexer).await.map(Arc::new),
            (known, _) => known,
        };
        let built = build(indexer, listing, known.as_deref()).await;
        let snapshot = Arc::new(built.map_err(SnapshotError::File)?);
        self.hold(&snapshot, store, now, invalidated);
        // Other queries need not wait until it is written.
        drop(building);
        if let Some(manifest) = manifest {
            self.save(&snapshot, manifest).await;
        }
        Ok(snapshot)
    }

    /// Saves `snapshot`, one at a time. That goes on if the query is dropped, since no other would do it.
    async fn save(&self, snapshot: &Arc<Snapshot>, manifest: Manifest) {
        let (saving, snapshot) = (Arc::clone(&self.saving), Arc::clone(snapshot));
        let saved = tokio::spawn(async move {
            let _saving = saving.lock().await;
            snapshot.save_to(&manifest).await;
        });
        if let Err(e) = saved.await {
            log::warn!("a manifest is not written: {e}");
        }
    }

    /// Holds `snapshot`, of a listing that was taken at `now`.
    fn hold(
        &self,
        snapshot: &Arc<Snapshot>,
        store: &Arc<dyn ObjectStore>,
        now: Instant,
        invalidated: u64,
    ) {
        let mut held = self.lock();
        // Looked at while it is locked, so that what is invalidated after that is seen.
        let is_current = self.invalidated.load(Ordering::Acquire) == invalidated;
        *held = Some(Held {
            snapshot: Arc::clone(snapshot),
            store: Arc::clone(store),
            listed: is_current.then_some(now),
        });
    }

    /// Makes the next query list the files. What is known of files that have not changed stays.
    pub(crate) fn invalidate(&self) {
        self.invalidated.fetch_add(1, Ordering::AcqRel);
        if let Some(held) = self.lock().as_mut() {
            held.listed = None;
        }
    }

    /// The footer of this version of a file in `store`, if it is held.
    pub(crate) fn footer(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Option<Arc<ParquetMetaData>> {
        let snapshot = self.of_store(store)?;
        let files = snapshot.files();
        let by_location = |known: &Arc<KnownFile>| known.meta.location.cmp(&file.location);
        let place = files.binary_search_by(by_location).ok()?;
        let footer = snapshot.footer(place)?;
        same_version(&files[place].meta, file).then(|| Arc::clone(footer))
    }

    /// The snapshot of files in `store`, whether it is out of date or not.
    pub(crate) fn of_store(&self, store: &Arc<dyn ObjectStore>) -> Option<Arc<Snapshot>> {
        let held = self.lock();
        let held = held
            .as_ref()
            .filter(|held| Arc::ptr_eq(&held.store, store))?;
        Some(Arc::clone(&held.snapshot))
    }

    fn listed_within(
        &self,
        store: &Arc<dyn ObjectStore>,
        ttl: Option<Duration>,
    ) -> Option<Arc<Snapshot>> {
        let listed = self.lock().as_ref()?.listed?;
        (listed.elapsed() < ttl?).then(|| self.of_store(store))?
    }

    /// The snapshot that is held, if it is of `listing`, which was taken at `now`.
    fn listed_again(
        &self,
        store: &Arc<dyn ObjectStore>,
        listing: &[Listed],
        now: Instant,
        invalidated: u64,
    ) -> Option<Arc<Snapshot>> {
        let snapshot = self
            .of_store(store)
            .filter(|snapshot| snapshot.is_of(listing))?;
        if let Some(held) = self.lock().as_mut()
            && Arc::ptr_eq(&held.snapshot, &snapshot)
            && self.invalidated.load(Ordering::Acquire) == invalidated
        {
            held.listed = held.listed.max(Some(now));
        }
        Some(snapshot)
    }

    // Nothing that could panic happens while it is locked.
    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
