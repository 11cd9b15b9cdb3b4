//! The local file system behind an object store that notes what is read, and fails on demand.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What happens to whoever reads a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Error,
    Panic,
    /// Waits for ever.
    Hang,
    /// As if too many files were open, except for what is read at once.
    NotOpened,
}

#[derive(Debug)]
pub(crate) struct WatchedStore {
    files: LocalFileSystem,
    reads: Mutex<Vec<(Path, Range<u64>)>>,
    fault: Mutex<Option<(String, Fault)>>,
}

impl WatchedStore {
    /// A store that `ctx` has under `watched://it`.
    pub(crate) fn of(ctx: &SessionContext) -> Arc<Self> {
        let store = Arc::new(Self {
            files: LocalFileSystem::new(),
            reads: Mutex::default(),
            fault: Mutex::default(),
        });
        let url = ObjectStoreUrl::parse("watched://it").unwrap();
        ctx.register_object_store(url.as_ref(), Arc::clone(&store) as _);
        store
    }

    /// From now on, reading the file with this name goes wrong.
    pub(crate) fn fail(&self, name: &str, fault: Fault) {
        *self.fault.lock().unwrap() = Some((name.to_string(), fault));
    }

    /// From now on, nothing goes wrong.
    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
    }

    /// The names of the files of which something has been read since this was last asked, sorted.
    pub(crate) fn take_names(&self) -> Vec<String> {
        let reads = self.take_reads();
        let mut names: Vec<_> = reads.into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    /// What has been read since this was last asked: names of files, and bytes.
    pub(crate) fn take_reads(&self) -> Vec<(String, u64)> {
        let reads = std::mem::take(&mut *self.reads.lock().unwrap());
        reads
            .into_iter()
            .map(|(path, range)| {
                (
                    path.filename().unwrap().to_string(),
                    range.end - range.start,
                )
            })
            .collect()
    }
}

impl fmt::Display for WatchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedStore")
    }
}

#[async_trait]
impl ObjectStore for WatchedStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(GetRange::Bounded(range)) = &options.range {
            self.reads
                .lock()
                .unwrap()
                .push((location.clone(), range.clone()));
        }
        let fault = self.fault.lock().unwrap().clone();
        let fault = fault.filter(|(name, _)| location.filename() == Some(name));
        let error = |source: &str| {
            Err(object_store::Error::Generic {
                store: "WatchedStore",
                source: source.into(),
            })
        };
        match fault {
            Some((_, Fault::Error)) => error("told to fail"),
            Some((_, Fault::Panic)) => panic!("told to panic"),
            Some((_, Fault::Hang)) => std::future::pending().await,
            Some((_, Fault::NotOpened)) if options.range.is_none() && !options.head => {
                error("Too many open files")
            }
            _ => self.files.get_opts(location, options).await,
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.files.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, opts).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}
