//! `ORDER BY` over sorted files against the unordered scan, which is the limit, and against DataFusion's own table.
//!
//! `cargo bench --bench scans`, or `cargo bench --bench scans -- --quick` for an eighth of the rows.
//!
//! Every run is a process of its own, so that its peak memory is its own, and engines take turns, so that a machine
//! whose speed drifts slows all of them. Printed are medians.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `SCANS_ROWS` | 16000000 | rows of each table |
//! | `SCANS_RUNS` | 5 | runs of each query and engine, after one that is not counted |
//! | `SCANS_DIR` | a folder in the temporary folder | where tables are kept for the next time |
//! | `SCANS_SET` | | options for all engines, like `datafusion.execution.batch_size=1000`, separated by semicolons |
//! | `SCANS_ONLY` | | run only the lines whose table and query contain this |

mod data;

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::SessionStateBuilderExt;
use futures::StreamExt;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How a query is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// The stock table and no ORDER BY: the limit.
    Unordered,
    Stock,
    /// The stock table with `split_file_groups_by_statistics`.
    Split,
    Ours,
    /// Ours with `sorted_listing.verify = off`.
    Unchecked,
    /// Ours with `sorted_listing.verify = rows`.
    EveryRow,
}

impl Engine {
    /// Ours comes last.
    fn of(line: &Line) -> Vec<Self> {
        let compared = match line.query {
            "verify" => vec![Self::Unchecked, Self::EveryRow],
            // Where there is a LIMIT, or no order, the unordered scan is nothing to compare with.
            _ if line.order.ends_with("ts") || line.order.ends_with("DESC") => {
                vec![Self::Unordered, Self::Stock, Self::Split]
            }
            _ => vec![Self::Stock, Self::Split],
        };
        compared.into_iter().chain([Self::Ours]).collect()
    }

    /// The value of `sorted_listing.verify`, if this is of ours.
    fn verify(self) -> Option<&'static str> {
        match self {
            Self::Unordered | Self::Stock | Self::Split => None,
            Self::Ours => Some("boundaries"),
            Self::Unchecked => Some("off"),
            Self::EveryRow => Some("rows"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unordered => "unordered",
            Self::Stock => "stock",
            Self::Split => "split",
            Self::Ours => "ours",
            Self::Unchecked => "unchecked",
            Self::EveryRow => "every row",
        }
    }
}

/// A line of the benchmark. The order is left out for [`Engine::Unordered`].
struct Line {
    table: &'static str,
    query: &'static str,
    select: &'static str,
    order: &'static str,
}

const LINES: [Line; 19] = [
    line("disjoint", "order", "SELECT * FROM t", "ORDER BY ts"),
    line("touching", "order", "SELECT * FROM t", "ORDER BY ts"),
    line("one", "order", "SELECT * FROM t", "ORDER BY ts"),
    line(
        "disjoint",
        "filter",
        "SELECT * FROM t WHERE v > 0.99",
        "ORDER BY ts",
    ),
    line(
        "one",
        "filter",
        "SELECT * FROM t WHERE v > 0.99",
        "ORDER BY ts",
    ),
    line(
        "disjoint",
        "limit",
        "SELECT * FROM t",
        "ORDER BY ts LIMIT 100",
    ),
    line("disjoint", "verify", "SELECT * FROM t", "ORDER BY ts"),
    line("one", "verify", "SELECT * FROM t", "ORDER BY ts"),
    line("overlap", "order", "SELECT * FROM t", "ORDER BY ts"),
    line("full", "order", "SELECT * FROM t", "ORDER BY ts"),
    line("disjoint", "desc", "SELECT * FROM t", "ORDER BY ts DESC"),
    line(
        "disjoint",
        "desc limit",
        "SELECT * FROM t",
        "ORDER BY ts DESC LIMIT 100",
    ),
    line("overlap", "no order", "SELECT * FROM t", ""),
    line("full", "no order", "SELECT * FROM t", ""),
    line(
        "disjoint",
        "group ts",
        "SELECT ts, count(*), sum(v) FROM t GROUP BY ts",
        "",
    ),
    line("disjoint", "distinct ts", "SELECT DISTINCT ts FROM t", ""),
    line(
        "devices",
        "window",
        "SELECT device, ts, row_number() OVER (PARTITION BY device ORDER BY ts) FROM t",
        "",
    ),
    line(
        "disjoint",
        "self join",
        "SELECT a.ts, a.v, b.id FROM t a JOIN t b ON a.ts = b.ts",
        "",
    ),
    line(
        "disjoint",
        "group device",
        "SELECT device, count(*), avg(v) FROM t GROUP BY device",
        "",
    ),
];

const fn line(
    table: &'static str,
    query: &'static str,
    select: &'static str,
    order: &'static str,
) -> Line {
    Line {
        table,
        query,
        select,
        order,
    }
}

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", folder, engine, sql] => run(folder, engine, sql),
        _ => compare(args.iter().any(|arg| arg == "--quick")),
    }
}

/// Runs one query in this process, and prints its seconds, peak megabytes and rows.
#[tokio::main]
async fn run(folder: &str, engine: &str, sql: &str) -> Result<()> {
    let mut config = SessionConfig::new();
    if engine == Engine::Split.name() {
        config
            .options_mut()
            .execution
            .split_file_groups_by_statistics = true;
    }
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let all = [Engine::Ours, Engine::Unchecked, Engine::EveryRow];
    let verify = all.into_iter().find(|ours| ours.name() == engine);
    let verify = verify.and_then(Engine::verify);
    if verify.is_some() {
        builder = builder.with_sorted_listing();
    }
    let ctx = SessionContext::new_with_state(builder.build());
    if let Some(verify) = verify {
        ctx.sql(&format!("SET sorted_listing.verify = '{verify}'"))
            .await?;
    }
    let options = std::env::var("SCANS_SET").unwrap_or_default();
    for (option, value) in options
        .split(';')
        .filter_map(|option| option.split_once('='))
    {
        if option.starts_with("datafusion.") || verify.is_some() {
            ctx.sql(&format!("SET {option} = '{value}'")).await?;
        }
    }
    let order = match folder.ends_with("devices") {
        true => "device, ts",
        false => "ts",
    };
    let ddl = format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{folder}/' WITH ORDER ({order})"
    );
    ctx.sql(&ddl).await?;

    let start = Instant::now();
    let mut batches = ctx.sql(sql).await?.execute_stream().await?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    println!(
        "{} {} {rows}",
        start.elapsed().as_secs_f64(),
        peak_megabytes()?
    );
    Ok(())
}

/// The most memory that this process had resident, as Linux counts it.
fn peak_megabytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kilobytes
        .ok_or("no VmHWM in /proc/self/status")?
        .parse::<f64>()?
        / 1024.0)
}

fn compare(quick: bool) -> Result<()> {
    let rows = variable("SCANS_ROWS", if quick { 2_000_000 } else { 16_000_000 })?;
    let runs = variable("SCANS_RUNS", 5)?;
    let folder = std::env::var_os("SCANS_DIR").map_or_else(
        || std::env::temp_dir().join(format!("datafusion-sorted-listing-scans-{rows}")),
        Into::into,
    );
    let only = std::env::var("SCANS_ONLY").unwrap_or_default();
    data::write_tables(&folder, rows)?;
    println!(
        "{rows} rows, medians of {runs} runs, in {}",
        folder.display()
    );
    println!(
        "{:20} {:10} {:>9} {:>9} {:>10} {:>12} {:>12}",
        "table, query", "engine", "seconds", "peak MB", "rows", "ours / time", "ours / peak"
    );
    for line in LINES {
        let title = format!("{}, {}", line.table, line.query);
        if title.contains(&only) {
            compare_line(&title, &line, &folder, runs)?;
        }
    }
    Ok(())
}

fn variable(name: &str, default: usize) -> Result<usize> {
    match std::env::var(name) {
        Ok(value) => value.parse().map_err(|e| format!("{name}: {e}").into()),
        Err(_) => Ok(default),
    }
}

/// What a run measured.
#[derive(Debug, Clone, Copy)]
struct Measured {
    seconds: f64,
    megabytes: f64,
    rows: usize,
}

fn compare_line(title: &str, line: &Line, folder: &Path, runs: usize) -> Result<()> {
    let engines = Engine::of(line);
    let mut measured = vec![vec![]; engines.len()];
    for round in 0..=runs {
        for (engine, measured) in engines.iter().zip(&mut measured) {
            let result = run_apart(line, *engine, folder)?;
            // The first fills the page cache.
            if round > 0 {
                measured.push(result);
            }
        }
    }
    let medians: Vec<_> = measured.iter_mut().map(|runs| median(runs)).collect();
    let ours = medians[medians.len() - 1];
    for (engine, of) in engines.iter().zip(&medians) {
        println!(
            "{title:20} {:10} {:9.3} {:9.0} {:10} {:12.2} {:12.2}",
            engine.name(),
            of.seconds,
            of.megabytes,
            of.rows,
            ours.seconds / of.seconds,
            ours.megabytes / of.megabytes,
        );
    }
    Ok(())
}

fn run_apart(line: &Line, engine: Engine, folder: &Path) -> Result<Measured> {
    let order = if engine == Engine::Unordered {
        ""
    } else {
        line.order
    };
    let sql = format!("{} {order}", line.select);
    let output = Command::new(std::env::current_exe()?)
        .arg("run")
        .arg(folder.join(line.table))
        .args([engine.name(), &sql])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let [seconds, megabytes, rows] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("{sql}: {}", String::from_utf8_lossy(&output.stderr)).into());
    };
    Ok(Measured {
        seconds: seconds.parse()?,
        megabytes: megabytes.parse()?,
        rows: rows.parse()?,
    })
}

/// The median of each figure by itself.
fn median(runs: &mut [Measured]) -> Measured {
    let middle = runs.len() / 2;
    runs.sort_by(|a, b| a.megabytes.total_cmp(&b.megabytes));
    let megabytes = runs[middle].megabytes;
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Measured {
        megabytes,
        ..runs[middle]
    }
}
