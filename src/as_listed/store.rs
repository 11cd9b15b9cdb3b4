//! A store from which one file is read, as it was listed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, coalesce_ranges,
};

use tokio::sync::OnceCell;

use super::Listing;
use super::open_file::{OpenFile, permit};
use super::version::{described, is_same_version};

/// Another store, of which one file is read. If that is not the version that was listed any more, reading is an error,
/// unless the listing does not check it.
#[derive(Debug)]
pub(super) struct StoreAsListed {
    store: Arc<dyn ObjectStore>,
    file: ObjectMeta,
    listing: Listing,
    /// The file, once it has been opened, if it is one of a file system.
    open: OnceCell<Option<OpenFile>>,
    /// All of it, once it has been read, if it is a small one of a file system.
    small: OnceCell<Option<Bytes>>,
}

/// How many bytes a file of a file system has at most that is read at once: its footer and its pages would be two reads,
/// each of which another thread has to be woken for.
const SMALL: u64 = 64 << 10;

impl StoreAsListed {
    pub(super) fn new(store: Arc<dyn ObjectStore>, file: ObjectMeta, listing: Listing) -> Self {
        Self {
            store,
            file,
            listing,
            open: OnceCell::new(),
            small: OnceCell::new(),
        }
    }

    /// The bytes in `ranges`, if the file is one of a file system.
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Option<Vec<Bytes>>> {
        if !self.listing.is_local {
            return Ok(None);
        }
        let is_within =
            |range: &Range<u64>| range.start <= range.end && range.end <= self.file.size;
        if self.file.size <= SMALL && ranges.iter().all(is_within) {
            let all = self.small.get_or_try_init(|| self.read_whole()).await?;
            let slice = |all: &Bytes, range: &Range<u64>| {
                all.slice(range.start as usize..range.end as usize)
            };
            let slices = |all: &Bytes| ranges.iter().map(|range| slice(all, range)).collect();
            return Ok(all.as_ref().map(slices));
        }
        match self.open.get_or_try_init(|| self.open_file()).await? {
            Some(open) => self.read_now(open, ranges).await.map(Some),
            None => Ok(None),
        }
    }

    /// Opens the file, unless its store does not, or there are too many open files: then it is read by its store, which opens
    /// it for each read. Other stores than those of files would begin to send the whole of it.
    async fn open_file(&self) -> Result<Option<OpenFile>> {
        let Some(permit) = permit() else {
            return Ok(None);
        };
        let got = match self.store.get(&self.file.location).await {
            Ok(got) => got,
            // What is wrong is said by reading it.
            Err(Error::Generic { .. }) => return Ok(None),
            Err(e) => return Err(self.explained(e).await),
        };
        self.check(&got.meta)?;
        Ok(match got.payload {
            GetResultPayload::File(file, path) => Some(OpenFile::new(file, path, permit)),
            GetResultPayload::Stream(_) => None,
        })
    }

    /// All bytes of the file, which does not stay open.
    async fn read_whole(&self) -> Result<Option<Bytes>> {
        let Some(open) = self.open_file().await? else {
            return Ok(None);
        };
        let all = 0..self.file.size;
        let bytes = self.read_now(&open, std::slice::from_ref(&all)).await?;
        Ok(bytes.into_iter().next())
    }

    async fn read_now(&self, open: &OpenFile, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match open.read(ranges, &self.file).await {
            Ok((bytes, now)) => self.check(&now).map(|()| bytes),
            Err(e) => Err(self.explained(e).await),
        }
    }

    /// That `now` is the version that was listed.
    fn check(&self, now: &ObjectMeta) -> Result<()> {
        if !self.listing.checks || is_same_version(&self.file, now) {
            return Ok(());
        }
        let (then, now) = (described(&self.file), described(now));
        Err(self.changed(&format!("it was of {then}, and is of {now}")))
    }

    /// Why the file cannot be read: `error`, or that it is another one by now.
    async fn explained(&self, error: Error) -> Error {
        if !self.listing.checks {
            return error;
        }
        match error {
            Error::NotFound { .. } => return self.changed("it is gone"),
            // That is no matter of the file, and asking again no better.
            Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::JoinError { .. } => return error,
            _ => {}
        }
        let now = self.store.head(&self.file.location).await;
        let changed = now.ok().and_then(|now| self.check(&now).err());
        changed.unwrap_or(error)
    }

    fn changed(&self, how: &str) -> Error {
        self.listing.forget();
        let what = format!(
            "the file has changed since it was listed: {how}. Run the query again: it lists the files anew"
        );
        Error::Precondition {
            path: self.file.location.to_string(),
            source: what.into(),
        }
    }
}

/// `got`, whose body is an error if it ends early: what reads it takes it for whole.
fn whole(mut got: GetResult) -> GetResult {
    if let GetResultPayload::Stream(body) = got.payload {
        let missing = got.range.end - got.range.start;
        let location = got.meta.location.clone();
        let body = stream::try_unfold((body, missing), move |(mut body, missing)| {
            let location = location.clone();
            async move {
                match body.try_next().await? {
                    Some(bytes) => {
                        let missing = missing.saturating_sub(bytes.len() as u64);
                        Ok(Some((bytes, (body, missing))))
                    }
                    None if missing == 0 => Ok(None),
                    None => Err(Error::Generic {
                        store: "SortedListingTable",
                        source: format!("the body of '{location}' ends {missing} bytes early")
                            .into(),
                    }),
                }
            }
        });
        got.payload = GetResultPayload::Stream(body.boxed());
    }
    got
}

impl fmt::Display for StoreAsListed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for StoreAsListed {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let has_body = !options.head;
        if let (true, Some(GetRange::Bounded(range))) = (has_body, &options.range)
            && let Some(bytes) = self.read(std::slice::from_ref(range)).await?
        {
            return Ok(GetResult {
                payload: GetResultPayload::Stream(stream::iter(bytes).map(Ok).boxed()),
                meta: self.file.clone(),
                range: range.clone(),
                attributes: Attributes::default(),
            });
        }
        match self.store.get_opts(location, options).await {
            Ok(got) => {
                self.check(&got.meta)?;
                Ok(if has_body { whole(got) } else { got })
            }
            Err(e) => Err(self.explained(e).await),
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(bytes) = self.read(ranges).await? {
            return Ok(bytes);
        }
        if !self.listing.checks {
            return self.store.get_ranges(location, ranges).await;
        }
        // As the trait does by itself: each answer says which version it is of.
        let get = |range| self.get_range(location, range);
        coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}
