//! New, rewritten and deleted files, and when queries see them.

use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::properties::WriterProperties;

use crate::support::*;

/// Where the files are.
struct Place {
    store: Arc<dyn ObjectStore>,
    /// The URL of the store, and the folder in it.
    url: &'static str,
    folder: String,
    _kept: Option<Folder>,
}

impl Place {
    fn memory() -> Self {
        Self {
            store: Arc::new(InMemory::new()),
            url: "mem://it",
            folder: "/some".into(),
            _kept: None,
        }
    }

    fn local() -> Self {
        let kept = Folder::new();
        Self {
            store: Arc::new(LocalFileSystem::new()),
            url: "file://",
            folder: kept.path().display().to_string(),
            _kept: Some(kept),
        }
    }

    fn path(&self, file: i64) -> Path {
        Path::from(format!("{}/t/{file}.parquet", self.folder))
    }

    /// A file of ten keys; `v` is of this version. All versions are of the same size.
    async fn write(&self, file: i64, version: i64) {
        let keys = file * 10..file * 10 + 10;
        let v = int64(keys.clone().map(|_| version));
        let rows = batch([("k", int64(keys)), ("v", v)]);
        let bytes = parquet_bytes(&rows, WriterProperties::default());
        let path = self.path(file);
        self.store.put(&path, bytes.into()).await.unwrap();
    }

    async fn delete(&self, file: i64) {
        self.store.delete(&self.path(file)).await.unwrap();
    }

    /// A session with the table `t`, of options that are given as SQL.
    async fn session(&self, session: Session, options: &str) -> SessionContext {
        let ctx = session.sorted().await;
        if self.url != "file://" {
            let url = ObjectStoreUrl::parse(self.url).unwrap();
            ctx.register_object_store(url.as_ref(), Arc::clone(&self.store));
        }
        let (url, folder) = (self.url, &self.folder);
        let options = options.replace("PLACE", &format!("{url}{folder}"));
        let ddl = format!(
            "CREATE EXTERNAL TABLE t (k BIGINT, v BIGINT) STORED AS PARQUET LOCATION '{url}{folder}/t/' WITH ORDER (k) {options}"
        );
        run(&ctx, &ddl).await;
        ctx
    }
}

/// The versions of the files that a query sees, as it reads rows in order.
async fn versions(ctx: &SessionContext) -> Result<Vec<(i64, i64)>, String> {
    let rows = try_run(ctx, "SELECT k, v FROM t ORDER BY k").await;
    let mut versions = vec![];
    for batch in rows.map_err(|e| e.to_string())? {
        let column = |column: usize| {
            let array = batch.column(column).as_any();
            array
                .downcast_ref::<arrow::array::Int64Array>()
                .unwrap()
                .values()
        };
        versions.extend(column(0).iter().zip(column(1)).map(|(k, v)| (k / 10, *v)));
    }
    assert_eq!(versions.len() % 10, 0);
    assert!(versions.chunks(10).all(|file| file[0] == file[9]));
    Ok(versions.into_iter().step_by(10).collect())
}

async fn places() -> [Place; 2] {
    let places = [Place::memory(), Place::local()];
    for place in &places {
        for file in 0..4 {
            place.write(file, 1).await;
        }
    }
    places
}

/// What is `seen` after each change is what is there.
async fn sees_all(place: &Place, seen: impl AsyncFn() -> Vec<(i64, i64)>) {
    assert_eq!(seen().await, [(0, 1), (1, 1), (2, 1), (3, 1)]);
    place.write(4, 1).await;
    assert_eq!(seen().await, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    place.write(1, 2).await;
    assert_eq!(seen().await, [(0, 1), (1, 2), (2, 1), (3, 1), (4, 1)]);
    place.delete(2).await;
    assert_eq!(seen().await, [(0, 1), (1, 2), (3, 1), (4, 1)]);
}

/// Files are listed for each query where the session keeps no listings.
#[tokio::test]
async fn by_default_the_next_query_sees_all() {
    for place in places().await {
        let session = Session::new(2).set("datafusion.runtime.list_files_cache_limit", "0K");
        let ctx = place.session(session, "").await;
        let seen = async || versions(&ctx).await.unwrap();
        sees_all(&place, seen).await;
    }
}

/// Where a listing is believed, new files are not seen before it is given up; and never are rows of a version given for
/// those of another.
#[tokio::test]
async fn a_listing_that_is_believed_is_given_up_for_what_it_lacks() {
    let cached = ("datafusion.runtime.list_files_cache_limit", "1M", "");
    let ttl = (
        "datafusion.runtime.list_files_cache_limit",
        "0K",
        "OPTIONS ('sorted_listing.snapshot_ttl' '1000h')",
    );
    for (option, value, options) in [cached, ttl] {
        for place in places().await {
            let ctx = place
                .session(Session::new(2).set(option, value), options)
                .await;
            let seen = async || versions(&ctx).await.unwrap();
            assert_eq!(seen().await, [(0, 1), (1, 1), (2, 1), (3, 1)]);
            place.write(4, 1).await;
            assert_eq!(seen().await, [(0, 1), (1, 1), (2, 1), (3, 1)]);
            refresh(&ctx).await;
            assert_eq!(seen().await, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);

            place.write(1, 2).await;
            let error = versions(&ctx).await.unwrap_err();
            assert!(error.contains("1.parquet"), "{error}");
            assert_eq!(seen().await, [(0, 1), (1, 2), (2, 1), (3, 1), (4, 1)]);

            place.delete(2).await;
            let error = versions(&ctx).await.unwrap_err();
            assert!(error.contains("2.parquet"), "{error}");
            refresh(&ctx).await;
            assert_eq!(seen().await, [(0, 1), (1, 2), (3, 1), (4, 1)]);
        }
    }
}

/// A manifest is of versions of files, and of no others.
#[tokio::test]
async fn with_a_manifest_the_next_session_sees_all() {
    for place in places().await {
        let seen = async || {
            let options = "OPTIONS ('sorted_listing.manifest' 'PLACE/manifest')";
            let ctx = place.session(Session::new(2), options).await;
            versions(&ctx).await.unwrap()
        };
        sees_all(&place, &seen).await;
        // All that has been is in it, and nothing is there any more.
        for file in [0, 1, 3] {
            place.delete(file).await;
        }
        assert_eq!(seen().await, [(4, 1)]);
        place.write(0, 3).await;
        assert_eq!(seen().await, [(0, 3), (4, 1)]);
    }
}
