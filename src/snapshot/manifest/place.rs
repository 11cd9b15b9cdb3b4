//! Where a manifest is kept.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use datafusion::common::{Result, config_datafusion_err, exec_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

/// A text in the first column, by which a manifest is known even if most of it is missing.
pub(super) const MARK: &str = "datafusion-sorted-listing manifest";

/// Within how many bytes that text comes.
const WITHIN: usize = 256;

/// How many bytes are read first. Most manifests are not larger.
const FIRST: u64 = 64 << 10;

/// The place of a file.
#[derive(Debug)]
pub(super) struct Place {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

impl Place {
    /// The place `url`, for the manifest of a table that has the files under `paths`.
    ///
    /// # Errors
    /// If that is no place for a file, or one among the files of the table.
    pub(super) fn try_new(
        url: &str,
        runtime: &RuntimeEnv,
        paths: &[ListingTableUrl],
    ) -> Result<Self> {
        let wrong = |why: &str| {
            config_datafusion_err!("Invalid value for sorted_listing.manifest: '{url}' {why}")
        };
        let place = ListingTableUrl::parse(url).map_err(|e| wrong(&format!("is no URL: {e}")))?;
        if place.is_collection() || place.get_glob().is_some() || place.prefix().is_root() {
            return Err(wrong("is not the path of a file"));
        }
        let path = place.prefix();
        let of_table = |of: &ListingTableUrl| {
            of.object_store() == place.object_store() && path.prefix_matches(of.prefix())
        };
        // Whatever its name is: another table of the same folder may read all files there.
        if paths.iter().any(of_table) {
            return Err(wrong("is in the folder of the table; give it another one"));
        }
        Ok(Self {
            store: runtime.object_store(&place)?,
            path: path.clone(),
        })
    }

    /// The manifest that is there, whole or not, if there is a file.
    ///
    /// # Errors
    /// If it is no manifest, of which no more than the beginning is read, or cannot be read.
    pub(super) async fn read(&self) -> Result<Option<Bytes>> {
        let options = GetOptions::new().with_range(Some(0..FIRST));
        let got = match self.store.get_opts(&self.path, options).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let size = got.meta.size;
        let first = got.bytes().await?;
        if !is_begun(&first) {
            return exec_err!("it is another file");
        }
        if size <= FIRST {
            return Ok(Some(first));
        }
        let rest = self.store.get_range(&self.path, FIRST..size).await?;
        let mut all = BytesMut::from(first);
        all.extend_from_slice(&rest);
        Ok(Some(all.freeze()))
    }

    /// Puts `manifest` there: whole or not at all, as stores do it.
    ///
    /// # Errors
    /// If there is a file that is no manifest, which stays as it is, or nothing can be written there.
    pub(super) async fn write(&self, manifest: Vec<u8>) -> Result<()> {
        let size = match self.store.head(&self.path).await {
            Ok(file) => file.size,
            Err(Error::NotFound { .. }) => return self.create(manifest).await,
            Err(e) => return Err(e.into()),
        };
        let first = match size {
            // As devices have it.
            0 => Bytes::new(),
            _ => self.store.get_range(&self.path, 0..size.min(FIRST)).await?,
        };
        if !is_begun(&first) {
            return exec_err!(
                "there is another file, which is no manifest. Give another path, or delete that file"
            );
        }
        self.store.put(&self.path, manifest.into()).await?;
        Ok(())
    }

    /// The same where no file was a moment ago: one that has come since stays, if the store can tell.
    async fn create(&self, manifest: Vec<u8>) -> Result<()> {
        let manifest = PutPayload::from(manifest);
        let options = PutOptions::from(PutMode::Create);
        let created = self.store.put_opts(&self.path, manifest.clone(), options);
        match created.await {
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                self.store.put(&self.path, manifest).await?;
            }
            created => {
                created?;
            }
        }
        Ok(())
    }
}

/// Whether a manifest begins so, be it a torn one.
fn is_begun(bytes: &[u8]) -> bool {
    let first = &bytes[..bytes.len().min(WITHIN)];
    let mut windows = first.windows(MARK.len());
    first.starts_with(b"PAR1") && windows.any(|window| window == MARK.as_bytes())
}
