//! Faults of the store, of the memory pool and of tasks: each ends in a clear error or in the right rows, nothing hangs
//! or stays behind, and the session works afterwards.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use bytes::Bytes;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::faulty_store::{Fault, FaultyStore};
use crate::support::*;
use crate::watched_store::{self, WatchedStore};

/// Far more than anything here takes.
const BOUND: Duration = Duration::from_secs(60);

const DDL: &str =
    "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'faulty://it/t/' WITH ORDER (k)";

/// Queries that open files in different ways, all of one order of rows.
const QUERIES: [&str; 6] = [
    "SELECT k, v FROM t ORDER BY k, v",
    "SELECT k, v FROM t ORDER BY k DESC, v DESC",
    "SELECT k, v FROM t WHERE v % 3 = 0 ORDER BY k, v LIMIT 150",
    "SELECT k, count(*) FROM t GROUP BY k ORDER BY k",
    "SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k ORDER BY a.k, b.v, a.v",
    "SELECT count(*), min(k), max(v) FROM t WHERE k > 70",
];

/// A file with these keys, in row groups of 50 rows. `v` is the key with a version of the file.
fn file(keys: impl Iterator<Item = i64> + Clone, version: i64) -> Bytes {
    let v = int64(keys.clone().map(|key| key * 10 + version));
    let rows = batch([("k", int64(keys)), ("v", v)]);
    parquet_bytes(&rows, row_groups_of(50)).into()
}

fn path(file: usize) -> Path {
    Path::from(format!("t/{}", shuffled_name(file)))
}

/// Four files whose keys follow one another, or of which each reaches into the next.
async fn fill(store: &FaultyStore, overlap: i64, version: i64) {
    for index in 0..4_i64 {
        let keys = index * 100..index * 100 + 100 + overlap;
        store
            .write(&path(index as usize), file(keys, version))
            .await;
    }
}

async fn session(store: &Arc<FaultyStore>) -> SessionContext {
    let ctx = Session::new(2).sorted().await;
    store.register(&ctx);
    ctx
}

/// How a query ends that may panic. A `None` is a panic.
async fn outcome(ctx: &SessionContext, sql: &str) -> Option<Result<Vec<String>, String>> {
    let query = async {
        match try_run(ctx, sql).await {
            Ok(batches) => Ok(show(&batches)),
            Err(e) => Err(e.to_string()),
        }
    };
    let ended = tokio::time::timeout(BOUND, AssertUnwindSafe(query).catch_unwind()).await;
    ended.unwrap_or_else(|_| panic!("{sql} hangs")).ok()
}

fn show(batches: &[RecordBatch]) -> Vec<String> {
    let shown = arrow::util::pretty::pretty_format_batches(batches).unwrap();
    shown.to_string().lines().map(str::to_owned).collect()
}

/// Waits until nothing of a query is left: neither requests nor tasks.
async fn all_is_quiet(store: &FaultyStore, tasks: usize) {
    let quiet = async {
        while store.in_flight() > 0
            || tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
                > tasks
        {
            tokio::task::yield_now().await;
        }
    };
    let quiet = tokio::time::timeout(BOUND, quiet).await;
    quiet.unwrap_or_else(|_| panic!("{} requests are left", store.in_flight()));
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// What each query gives while nothing goes wrong, sorted by force.
async fn right_rows(store: &Arc<FaultyStore>) -> Vec<Vec<String>> {
    let stock = Session::new(1).stock().await;
    store.register(&stock);
    run(&stock, &DDL.replace(" WITH ORDER (k)", "")).await;
    let mut all = vec![];
    for query in QUERIES {
        all.push(show(&run(&stock, query).await));
    }
    all
}

/// Runs each query once for each request that it makes, which goes wrong, from the making of the table on.
async fn sweep(overlap: i64, fault: Fault, may_be_wrong: bool) {
    let store = FaultyStore::new();
    fill(&store, overlap, 1).await;
    let right = right_rows(&store).await;
    let tasks = alive_tasks();
    let mut failed = 0;
    for (query, right) in QUERIES.iter().zip(&right) {
        let mut request = 0;
        loop {
            let ctx = session(&store).await;
            store.arm(request, fault.clone());
            let mut ended = outcome(&ctx, DDL).await;
            let made = matches!(ended, Some(Ok(_)));
            if made {
                ended = outcome(&ctx, query).await;
            }
            let requests = store.requests();
            store.heal();
            let case = format!("{query}, request {request} of {requests}, {fault:?}");
            match ended {
                Some(Ok(rows)) => assert!(may_be_wrong || rows == *right, "{case}: {rows:?}"),
                Some(Err(error)) => {
                    assert!(!error.contains("Internal error"), "{case}: {error}");
                    failed += 1;
                }
                None => failed += 1,
            }
            all_is_quiet(&store, tasks).await;
            if !made {
                run(&ctx, DDL).await;
            }
            assert_eq!(show(&run(&ctx, query).await), *right, "after {case}");
            request += 1;
            if request >= requests {
                break;
            }
        }
    }
    assert_eq!(failed > 0, !matches!(fault, Fault::Delay), "{fault:?}");
}

#[tokio::test]
async fn requests_that_fail() {
    sweep(0, Fault::Error, false).await;
    sweep(30, Fault::Error, false).await;
}

#[tokio::test]
async fn requests_that_take_long() {
    sweep(0, Fault::Delay, false).await;
    sweep(30, Fault::Delay, false).await;
}

#[tokio::test]
async fn requests_that_panic() {
    sweep(0, Fault::Panic, false).await;
    sweep(30, Fault::Panic, false).await;
}

#[tokio::test]
async fn bodies_that_are_short() {
    sweep(0, Fault::Short, false).await;
    sweep(30, Fault::Short, false).await;
}

#[tokio::test]
async fn bodies_that_are_noise() {
    sweep(0, Fault::Noise, false).await;
    sweep(30, Fault::Noise, false).await;
}

/// Drops each query while a request of it hangs.
#[tokio::test]
async fn queries_that_are_cancelled() {
    for overlap in [0, 30] {
        let store = FaultyStore::new();
        fill(&store, overlap, 1).await;
        let right = right_rows(&store).await;
        let tasks = alive_tasks();
        for (query, right) in QUERIES.iter().zip(&right) {
            for request in 0.. {
                let ctx = session(&store).await;
                store.arm(request, Fault::Hang);
                let all = async {
                    run(&ctx, DDL).await;
                    run(&ctx, query).await;
                };
                let ended = tokio::select! {
                    () = all => true,
                    () = store.hung() => false,
                    () = tokio::time::sleep(BOUND) => panic!("{query}: neither"),
                };
                store.heal();
                all_is_quiet(&store, tasks).await;
                if ended {
                    assert!(request > 4, "{query}: {request}");
                    break;
                }
                if !ctx.table_exist("t").unwrap() {
                    run(&ctx, DDL).await;
                }
                assert_eq!(show(&run(&ctx, query).await), *right, "{query}, {request}");
            }
        }
    }
}

/// A file becomes another one at each moment of a query: the rows are those of before or after, or there is an error that
/// names the file.
#[tokio::test]
async fn files_that_are_written_anew() {
    let fault = |path: &Path, bytes: Option<&Bytes>| match bytes {
        Some(bytes) => Fault::Replaced(path.clone(), bytes.clone()),
        None => Fault::Deleted(path.clone()),
    };
    // Of the same size as before, of another, and deleted.
    let same = file(100..200, 2);
    assert_eq!(same.len(), file(100..200, 1).len());
    let other = file((100..200).filter(|key| key % 3 > 0), 2);
    for now in [Some(same), Some(other), None] {
        let mut noticed = 0;
        for query in QUERIES {
            let store = FaultyStore::new();
            fill(&store, 0, 1).await;
            let before = right_rows(&store).await;
            match &now {
                Some(now) => {
                    store.write(&path(1), now.clone()).await;
                }
                None => store.files.delete(&path(1)).await.unwrap(),
            }
            let after = right_rows(&store).await;
            let place = QUERIES.iter().position(|other| *other == query).unwrap();
            let (before, after) = (&before[place], &after[place]);
            for request in 0.. {
                fill(&store, 0, 1).await;
                let ctx = session(&store).await;
                run(&ctx, DDL).await;
                store.arm(request, fault(&path(1), now.as_ref()));
                let ended = outcome(&ctx, query).await.unwrap();
                let is_over = store.requests() <= request;
                store.heal();
                let is_noticed = ended.is_err();
                match ended {
                    Ok(rows) => assert!(
                        rows == *before || rows == *after,
                        "{query}, {request}: {rows:#?}"
                    ),
                    Err(error) => {
                        noticed += 1;
                        assert!(
                            error.contains("has changed since it was listed")
                                && error.contains(path(1).as_ref()),
                            "{query}, {request}: {error}"
                        );
                    }
                }
                if is_over {
                    break;
                }
                // As the error says. If the file was read before, the session does not know yet: it keeps listings.
                let mut again = outcome(&ctx, query).await.unwrap();
                if !is_noticed && again.is_err() {
                    again = outcome(&ctx, query).await.unwrap();
                }
                assert_eq!(again.as_ref(), Ok(after), "{query}, {request}");
            }
        }
        assert!(noticed > QUERIES.len(), "{noticed}");
    }
}

/// The same on a file system, between planning and reading.
#[tokio::test]
async fn local_files_that_are_written_anew() {
    for (what, fits) in [("other rows", true), ("fewer rows", true), ("none", false)] {
        let folder = Folder::new();
        let write = |index: i64, step: usize, version: i64| {
            let keys = (index * 100..index * 100 + 100).step_by(step);
            let v = int64(keys.clone().map(|key| key * 10 + version));
            let rows = batch([("k", int64(keys)), ("v", v)]);
            folder.write(&shuffled_name(index as usize), &rows);
        };
        (0..4).for_each(|index| write(index, 1, 1));
        let ctx = Session::new(2).sorted().await;
        run(&ctx, &folder.ddl("k")).await;
        let query = "SELECT k, v FROM t ORDER BY k";
        let plan = physical_plan(&ctx, query).await;
        let name = shuffled_name(2);
        match what {
            "other rows" => write(2, 1, 2),
            "fewer rows" => write(2, 2, 1),
            _ => std::fs::remove_file(folder.path().join(&name)).unwrap(),
        }
        let error = collect(plan, ctx.task_ctx()).await.unwrap_err().to_string();
        assert!(
            error.contains("has changed since it was listed") && error.contains(&name),
            "{what}: {error}"
        );
        let stock = Session::new(1).stock().await;
        run(&stock, &folder.ddl("k").replace(" WITH ORDER (k)", "")).await;
        assert_eq!(rows(&ctx, query).await, rows(&stock, query).await, "{what}");
        assert!(fits || rows(&ctx, "SELECT count(*) FROM t").await == ["300"]);
    }
}

/// What a local file becomes once its first rows were read.
#[derive(Debug)]
enum Becomes {
    /// Another file of the same name.
    Another,
    /// The same file, with other bytes.
    Rewritten,
    Gone,
}

/// The same while a file is being read: one that is replaced stays open, and is read to its end as it was listed.
#[tokio::test]
async fn local_files_that_are_written_anew_while_they_are_read() {
    for becomes in [Becomes::Another, Becomes::Rewritten, Becomes::Gone] {
        let folder = Folder::new();
        let rows_of = |version: i64| {
            let keys = 0..20_000_i64;
            let v = int64(keys.clone().map(|key| key * 10 + version));
            batch([("k", int64(keys)), ("v", v)])
        };
        folder.write_with("a.parquet", &rows_of(1), row_groups_of(500));
        folder.write_with("b.tmp", &rows_of(2), row_groups_of(500));
        let (path, other) = (folder.path().join("a.parquet"), folder.path().join("b.tmp"));
        let ctx = Session::new(1)
            .set("sorted_listing.read_ahead_bytes", 0)
            .sorted()
            .await;
        run(&ctx, &folder.ddl("k")).await;
        let plan = physical_plan(&ctx, "SELECT k, v FROM t ORDER BY k").await;
        let mut stream = datafusion::physical_plan::execute_stream(plan, ctx.task_ctx()).unwrap();
        let mut read = vec![stream.next().await.unwrap().unwrap()];
        match becomes {
            Becomes::Another => std::fs::rename(&other, &path).unwrap(),
            Becomes::Rewritten => {
                std::fs::write(&path, std::fs::read(&other).unwrap()).unwrap();
            }
            Becomes::Gone => std::fs::remove_file(&path).unwrap(),
        }
        let mut error = None;
        while let Some(next) = stream.next().await {
            match next {
                Ok(batch) => read.push(batch),
                Err(e) => error = Some(e.to_string()),
            }
        }
        // What was read is of the first version in any case.
        let read = concat_batches(&read[0].schema(), &read).unwrap();
        assert_eq!(read, rows_of(1).slice(0, read.num_rows()), "{becomes:?}");
        match (becomes, error) {
            (Becomes::Rewritten, Some(e)) => assert!(
                e.contains("has changed since it was listed") && e.contains("a.parquet"),
                "{e}"
            ),
            (Becomes::Another | Becomes::Gone, None) => assert_eq!(read.num_rows(), 20_000),
            (becomes, error) => panic!("{becomes:?}: {error:?}"),
        }
    }
}

/// Whoever checks nothing reads what is there.
/// A process may have too many open files.
#[tokio::test]
async fn local_files_that_cannot_be_opened_are_read_by_their_store() {
    let folder = Folder::new();
    let large = 20_000;
    for (file, rows) in [(0, large), (1, 10), (2, large), (3, 10)] {
        let keys = file as i64 * large..file as i64 * large + rows;
        let v = int64(keys.clone().map(|key| key * 7919 % 10_007));
        folder.write(&shuffled_name(file), &batch([("k", int64(keys)), ("v", v)]));
        let size = std::fs::metadata(folder.path().join(shuffled_name(file))).unwrap();
        assert_eq!(size.len() > 64 << 10, rows == large);
    }
    let ctx = Session::new(2).sorted().await;
    let store = WatchedStore::of(&ctx);
    ctx.register_object_store(&"file://".parse().unwrap(), Arc::clone(&store) as _);
    run(&ctx, &folder.ddl("k")).await;
    let right = rows(&ctx, "SELECT * FROM t ORDER BY k").await;
    assert_eq!(right.len(), 40_020);
    for file in 0..4 {
        let name = shuffled_name(file);
        store.fail(&name, watched_store::Fault::NotOpened);
        store.take_reads();
        assert_eq!(rows(&ctx, "SELECT * FROM t ORDER BY k").await, right);
        assert!(store.take_names().contains(&name));
        store.fail(&name, watched_store::Fault::Error);
        let error = error(&ctx, "SELECT * FROM t ORDER BY k").await;
        assert!(error.contains("told to fail"), "{error}");
    }
}

#[tokio::test]
async fn nothing_is_noticed_without_checks() {
    let folder = Folder::of_keys([int64(0..100), int64(100..200)]);
    let ctx = Session::new(2)
        .set("sorted_listing.verify", "off")
        .sorted()
        .await;
    run(&ctx, &folder.ddl("k")).await;
    let plan = physical_plan(&ctx, "SELECT k FROM t ORDER BY k").await;
    // The same bytes, and another file.
    let path = folder.path().join(shuffled_name(1));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let batches = collect(plan, ctx.task_ctx()).await.unwrap();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 200);
}

/// The listing that a session keeps is out of date: who checks nothing may get rows of both versions, or an error of
/// Parquet's, and is not told of the version.
#[tokio::test]
async fn nothing_is_checked_when_planning_either() {
    let store = FaultyStore::new();
    fill(&store, 0, 1).await;
    for (verify, is_told) in [("off", false), ("boundaries", true)] {
        let ctx = session(&store).await;
        run(&ctx, &format!("SET sorted_listing.verify = '{verify}'")).await;
        run(&ctx, DDL).await;
        fill(&store, 0, 2).await;
        let ended = outcome(&ctx, QUERIES[0]).await.unwrap();
        let told = matches!(&ended, Err(e) if e.contains("has changed since it was listed"));
        assert_eq!(told, is_told, "{verify}: {ended:?}");
    }
}

/// Nothing of a session is kept alive by the tables that were in it.
#[tokio::test]
async fn nothing_stays_behind_when_a_session_ends() {
    let store = FaultyStore::new();
    fill(&store, 0, 1).await;
    let tasks = alive_tasks();
    let ctx = session(&store).await;
    run(&ctx, DDL).await;
    for query in QUERIES {
        run(&ctx, query).await;
    }
    drop(ctx);
    all_is_quiet(&store, tasks).await;
    assert_eq!(Arc::strong_count(&store), 1);
}

/// Rows of 1 kB, overlapping or not, within pools that are smaller than the table.
#[tokio::test]
async fn small_memory_pools() {
    for overlap in [0, 500] {
        let folder = Folder::new();
        for index in 0..6_i64 {
            let keys = index * 2000..index * 2000 + 2000 + overlap;
            let text = |key: i64| format!("{key:0>1000}");
            let text: ArrayRef = Arc::new(StringArray::from_iter_values(keys.clone().map(text)));
            let rows = batch([("k", int64(keys)), ("text", text)]);
            folder.write_with(&shuffled_name(index as usize), &rows, row_groups_of(500));
        }
        let stock = Session::new(2).stock().await;
        run(&stock, &folder.ddl("k").replace(" WITH ORDER (k)", "")).await;
        for mebibytes in [8, 16, 32] {
            let ctx = Session::new(2).with_memory(mebibytes << 20).sorted().await;
            run(&ctx, &folder.ddl("k")).await;
            for query in [
                "SELECT k, text FROM t ORDER BY k",
                "SELECT k, text FROM t ORDER BY k DESC",
                "SELECT k, count(*), max(text) FROM t GROUP BY k ORDER BY k",
            ] {
                let expected = rows(&stock, query).await;
                match try_run(&ctx, query).await {
                    Ok(batches) => {
                        let stock = try_run(&stock, query).await.unwrap();
                        assert_eq!(
                            batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
                            expected.len()
                        );
                        let first = |batches: &[RecordBatch]| show(&batches[..1])[..20].to_vec();
                        assert_eq!(first(&batches), first(&stock), "{query}");
                    }
                    Err(e) => {
                        let e = e.to_string();
                        assert!(e.contains("Resources exhausted"), "{query}: {e}");
                        assert!(overlap > 0 || query.contains("DESC"), "{query}: {e}");
                    }
                }
                assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0, "{query}");
            }
        }
    }
}

/// The stream of each partition of a scan, dropped after its first batch.
#[tokio::test]
async fn streams_that_are_dropped() {
    let store = FaultyStore::new();
    fill(&store, 30, 1).await;
    let ctx = session(&store).await;
    run(&ctx, DDL).await;
    let tasks = alive_tasks();
    for query in QUERIES {
        let plan = physical_plan(&ctx, query).await;
        let context: Arc<TaskContext> = ctx.task_ctx();
        let mut stream = datafusion::physical_plan::execute_stream(plan, context).unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        drop(stream);
        all_is_quiet(&store, tasks).await;
        assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0, "{query}");
    }
}
