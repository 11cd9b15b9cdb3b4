//! Planning and running queries over thousands of small files, against DataFusion's own table.
//!
//! `cargo bench --bench many_files`, or `cargo bench --bench many_files -- --quick` for the tables of 1,000 files.
//!
//! Every engine is a process of its own for each table. It runs each query once, the first of them cold, and then some
//! times warm, of which medians are printed. Files have 10 rows in two row groups.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `MANY_RUNS` | 5 | warm runs of each query |
//! | `MANY_DIR` | a folder in the temporary folder | where local files are kept for the next time |
//! | `MANY_ONLY` | | run only the tables and engines, like `20000 local, ours`, that contain this |

use std::error::Error;
use std::path::Path as FilePath;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::col;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::{SessionStateBuilderExt, SortedListingTable};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROWS_PER_FILE: usize = 10;

/// Files, where they are, and how long each request takes.
#[derive(Debug, Clone, Copy)]
struct Table {
    files: usize,
    place: &'static str,
    latency_ms: u64,
}

const TABLES: [Table; 6] = [
    table(1000, "memory", 0),
    table(1000, "memory", 20),
    table(20_000, "local", 0),
    table(20_000, "memory", 0),
    table(20_000, "memory", 20),
    table(100_000, "memory", 0),
];

const fn table(files: usize, place: &'static str, latency_ms: u64) -> Table {
    Table {
        files,
        place,
        latency_ms,
    }
}

/// `ttl` is ours with `sorted_listing.snapshot_ttl`, `manifest` ours with a manifest of an earlier session, `large` stock
/// with caches of 1 GiB.
const ENGINES: [&str; 5] = ["ours", "ttl", "manifest", "stock", "large"];

const MANIFEST: &str = "mem://many/manifest";

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", table, engine, title] => run(TABLES[table.parse::<usize>()?], engine, title),
        _ => compare(args.iter().any(|arg| arg == "--quick")),
    }
}

fn compare(quick: bool) -> Result<()> {
    let only = std::env::var("MANY_ONLY").unwrap_or_default();
    println!(
        "{:34} {:12} {:>10} {:>10} {:>10} {:>10}",
        "files, engine", "query", "first ms", "plan ms", "run ms", "MB"
    );
    for (index, table) in TABLES.iter().enumerate() {
        for engine in ENGINES {
            let latency = match table.latency_ms {
                0 => String::new(),
                ms => format!(" at {ms} ms"),
            };
            let title = format!("{} {}{latency}, {engine}", table.files, table.place);
            if !title.contains(&only) || quick && table.files > 1000 {
                continue;
            }
            let run = Command::new(std::env::current_exe()?)
                .args(["run", &index.to_string(), engine, &title])
                .status()?;
            if !run.success() {
                return Err(title.into());
            }
        }
    }
    Ok(())
}

/// Runs the queries on one table by one engine, and prints a line for each.
#[tokio::main]
async fn run(table: Table, engine: &str, title: &str) -> Result<()> {
    let runs = match std::env::var("MANY_RUNS") {
        Ok(runs) => runs.parse()?,
        Err(_) => 5,
    };
    let files = match table.place {
        "local" => local_files(table.files)?,
        _ => ListingTableUrl::parse("mem://many/t/")?,
    };
    let store = store_of(table).await?;
    let session = || -> Result<SessionContext> {
        let ctx = session(engine)?;
        let url = ListingTableUrl::parse(MANIFEST)?.object_store();
        ctx.register_object_store(url.as_ref(), Arc::clone(&store));
        register(&ctx, files.clone(), engine)?;
        Ok(ctx)
    };
    if engine == "manifest" {
        let query = session()?.sql("SELECT * FROM t").await?;
        query.create_physical_plan().await?;
    }
    let ctx = session()?;
    let before = resident_megabytes()?;

    for (name, sql) in queries_of(table) {
        let first = time(&ctx, &sql).await?;
        let mut warm = vec![];
        for _ in 0..runs {
            warm.push(time(&ctx, &sql).await?);
        }
        let median = |of: fn(&(f64, f64)) -> f64| {
            let mut times: Vec<_> = warm.iter().map(of).collect();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
        };
        println!(
            "{title:34} {name:12} {:10.1} {:10.1} {:10.1} {:10.0}",
            first.0 + first.1,
            median(|time| time.0),
            median(|time| time.1),
            resident_megabytes()? - before
        );
    }
    Ok(())
}

/// A store with the files of `table`, if they are not local.
async fn store_of(table: Table) -> Result<Arc<dyn ObjectStore>> {
    let files = match table.place {
        "local" => 0,
        _ => table.files,
    };
    let store = ThrottledStore::new(in_memory(files).await?, ThrottleConfig::default());
    let latency = Duration::from_millis(table.latency_ms);
    store.config_mut(|config| {
        config.wait_get_per_call = latency;
        config.wait_list_per_call = latency;
    });
    Ok(Arc::new(store))
}

/// Queries, with their names.
fn queries_of(table: Table) -> Vec<(&'static str, String)> {
    let moment = |file: usize| {
        let row = file * ROWS_PER_FILE;
        format!("arrow_cast({row}, 'Timestamp(Microsecond, None)')")
    };
    let (from, to) = (moment(table.files / 2), moment(table.files / 2 + 10));
    let range = format!("SELECT * FROM t WHERE ts >= {from} AND ts < {to} ORDER BY ts");
    let limit = "SELECT * FROM t ORDER BY ts LIMIT 10";
    let whole = "SELECT count(*), sum(v) FROM (SELECT * FROM t ORDER BY ts LIMIT 1000000000)";
    let statistics = "SELECT count(*), min(ts), max(ts) FROM t";
    let mut queries = vec![("range", range)];
    // What waits for each file of the whole table says nothing of planning.
    if table.latency_ms == 0 {
        let others = [
            ("limit", limit),
            ("statistics", statistics),
            ("whole", whole),
        ];
        queries.extend(others.map(|(name, sql)| (name, sql.to_owned())));
    }
    queries
}

/// How many milliseconds it takes to plan a query, and to run it.
async fn time(ctx: &SessionContext, sql: &str) -> Result<(f64, f64)> {
    let start = Instant::now();
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let planned = start.elapsed().as_secs_f64();
    datafusion::physical_plan::collect(plan, ctx.task_ctx()).await?;
    let all = start.elapsed().as_secs_f64();
    Ok((planned * 1e3, (all - planned) * 1e3))
}

fn session(engine: &str) -> Result<SessionContext> {
    let mut runtime = RuntimeEnvBuilder::new();
    if engine == "large" {
        runtime = runtime
            .with_metadata_cache_limit(1 << 30)
            .with_object_list_cache_limit(1 << 30)
            .with_file_statistics_cache_limit(1 << 30);
    }
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new())
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features();
    let builder = match engine {
        "ours" | "ttl" | "manifest" => builder.with_sorted_listing(),
        _ => builder,
    };
    Ok(SessionContext::new_with_state(builder.build()))
}

fn register(ctx: &SessionContext, url: ListingTableUrl, engine: &str) -> Result<()> {
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_sort_order(vec![vec![col("ts").sort(true, false)]]);
    let config = ListingTableConfig::new(url)
        .with_listing_options(options)
        .with_schema(rows_of(0)?.schema());
    match engine {
        "ours" | "ttl" | "manifest" => {
            let mut options = datafusion_sorted_listing::SortedListingConfig::default();
            options.manifest = (engine == "manifest").then(|| MANIFEST.into());
            options.snapshot_ttl = (engine == "ttl").then(|| Duration::from_secs(3600));
            let table = SortedListingTable::try_new(config)?.with_config(options);
            ctx.register_table("t", Arc::new(table))?;
        }
        _ => {
            let caches = &ctx.runtime_env().cache_manager;
            let table = ListingTable::try_new(config)?;
            let table = table.with_cache(caches.get_file_statistic_cache());
            ctx.register_table("t", Arc::new(table))?;
        }
    }
    Ok(())
}

/// A name that says nothing of the order.
fn name_of(file: usize, files: usize) -> String {
    format!("{:06}.parquet", (file * 7919 + 11) % files)
}

fn rows_of(file: usize) -> Result<RecordBatch> {
    let rows = file * ROWS_PER_FILE..(file + 1) * ROWS_PER_FILE;
    let ts = rows.clone().map(|row| row as i64);
    let v = rows.clone().map(|row| (row * 7 % 100) as f64);
    Ok(RecordBatch::try_from_iter([
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter_values(ts)) as _,
        ),
        (
            "id",
            Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64))) as _,
        ),
        ("v", Arc::new(Float64Array::from_iter_values(v)) as _),
    ])?)
}

fn parquet_of(file: usize) -> Result<Vec<u8>> {
    let batch = rows_of(file)?;
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROWS_PER_FILE / 2))
        .build();
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

async fn in_memory(files: usize) -> Result<InMemory> {
    let store = InMemory::new();
    for file in 0..files {
        let path = Path::from(format!("t/{}", name_of(file, files)));
        store.put(&path, parquet_of(file)?.into()).await?;
    }
    Ok(store)
}

fn local_files(files: usize) -> Result<ListingTableUrl> {
    let folder = std::env::var_os("MANY_DIR").map_or_else(
        || std::env::temp_dir().join("datafusion-sorted-listing-many"),
        Into::into,
    );
    let folder: &FilePath = &folder.join(files.to_string());
    let done = folder.with_extension("done");
    if !done.exists() {
        std::fs::create_dir_all(folder)?;
        for file in 0..files {
            std::fs::write(folder.join(name_of(file, files)), parquet_of(file)?)?;
        }
        std::fs::File::create(done)?;
    }
    Ok(ListingTableUrl::parse(format!("{}/", folder.display()))?)
}

/// The memory that this process has resident, as Linux counts it.
fn resident_megabytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kilobytes
        .ok_or("no VmRSS in /proc/self/status")?
        .parse::<f64>()?
        / 1024.0)
}
