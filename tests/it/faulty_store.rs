//! An object store in memory of which one request goes wrong.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// How a request goes wrong.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Error,
    /// It takes long.
    Delay,
    /// It never ends.
    Hang,
    Panic,
    /// Half of the bytes come.
    Short,
    /// Other bytes come.
    Noise,
    /// The file was written anew just before.
    Replaced(Path, Bytes),
    /// The file was deleted just before.
    Deleted(Path),
}

#[derive(Debug)]
pub(crate) struct FaultyStore {
    pub(crate) files: InMemory,
    /// How many requests there have been.
    requests: AtomicUsize,
    /// The number of the request that goes wrong, and how.
    fault: Mutex<Option<(usize, Fault)>>,
    /// How many requests are not answered yet.
    in_flight: Arc<AtomicUsize>,
    hangs: tokio::sync::Notify,
}

/// One of the requests that are not answered yet.
struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultyStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            files: InMemory::new(),
            requests: AtomicUsize::new(0),
            fault: Mutex::default(),
            in_flight: Arc::default(),
            hangs: tokio::sync::Notify::new(),
        })
    }

    /// Puts this store under `faulty://it` in `ctx`.
    pub(crate) fn register(self: &Arc<Self>, ctx: &SessionContext) {
        let url = ObjectStoreUrl::parse("faulty://it").unwrap();
        ctx.register_object_store(url.as_ref(), Arc::clone(self) as _);
    }

    pub(crate) async fn write(&self, path: &Path, bytes: Bytes) {
        self.files.put(path, bytes.into()).await.unwrap();
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// From now on, requests are counted from 0, and the one with this number goes wrong.
    pub(crate) fn arm(&self, request: usize, fault: Fault) {
        self.requests.store(0, Ordering::SeqCst);
        *self.fault.lock().unwrap() = Some((request, fault));
    }

    /// From now on, nothing goes wrong.
    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
    }

    /// Waits until a request hangs.
    pub(crate) async fn hung(&self) {
        self.hangs.notified().await;
    }

    fn begin(&self) -> (InFlight, Option<Fault>) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let request = self.requests.fetch_add(1, Ordering::SeqCst);
        let fault = self.fault.lock().unwrap();
        let fault = fault.as_ref().filter(|(number, _)| *number == request);
        let fault = fault.map(|(_, fault)| fault.clone());
        (InFlight(Arc::clone(&self.in_flight)), fault)
    }

    /// What comes before an answer.
    async fn suffer(&self, fault: Option<&Fault>) -> Result<()> {
        match fault {
            None | Some(Fault::Short | Fault::Noise) => {}
            Some(Fault::Error) => {
                return Err(object_store::Error::Generic {
                    store: "FaultyStore",
                    source: "told to fail".into(),
                });
            }
            Some(Fault::Delay) => {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            }
            Some(Fault::Hang) => {
                self.hangs.notify_one();
                std::future::pending::<()>().await;
            }
            Some(Fault::Panic) => panic!("told to panic"),
            Some(Fault::Replaced(path, bytes)) => {
                self.files.put(path, bytes.clone().into()).await?;
            }
            Some(Fault::Deleted(path)) => self.files.delete(path).await?,
        }
        Ok(())
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

/// The answer `got`, with a body that is not what was asked for.
async fn spoilt(got: GetResult, fault: Option<Fault>) -> Result<GetResult> {
    let spoil: fn(Bytes) -> Bytes = match fault {
        Some(Fault::Short) => |body| body.slice(..body.len() / 2),
        Some(Fault::Noise) => |body| {
            let noise = (0..body.len()).map(|byte| (byte * 151 + 89) as u8);
            noise.collect()
        },
        _ => return Ok(got),
    };
    let (meta, range, attributes) = (got.meta.clone(), got.range.clone(), got.attributes.clone());
    let body = spoil(got.bytes().await?);
    Ok(GetResult {
        payload: GetResultPayload::Stream(stream::once(async { Ok(body) }).boxed()),
        meta,
        range,
        attributes,
    })
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (_request, fault) = self.begin();
        self.suffer(fault.as_ref()).await?;
        spoilt(self.files.get_opts(location, options).await?, fault).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (request, fault) = self.begin();
        let files = self.files.list(prefix);
        match fault {
            Some(Fault::Error) => {
                let error = object_store::Error::Generic {
                    store: "FaultyStore",
                    source: "told to fail".into(),
                };
                // After the first file.
                files.take(1).chain(stream::iter([Err(error)])).boxed()
            }
            Some(Fault::Hang) => {
                self.hangs.notify_one();
                let never = std::future::pending::<()>().map(move |()| drop(request));
                stream::once(never)
                    .flat_map(|()| stream::empty())
                    .chain(files)
                    .boxed()
            }
            Some(Fault::Panic) => files.map(|_| panic!("told to panic")).boxed(),
            _ => files,
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (_request, fault) = self.begin();
        self.suffer(fault.as_ref()).await?;
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
