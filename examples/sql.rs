//! SQL over your own sorted Parquet files.
//!
//! `cargo run --example sql -- --location DIR --order 'ts, id DESC' 'SELECT * FROM t ORDER BY ts LIMIT 10'`

use std::process::ExitCode;

use clap::Parser;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_sorted_listing::SessionStateBuilderExt;

/// Runs a query over a table of sorted Parquet files, which it calls `t`.
#[derive(Parser)]
struct Args {
    /// The file, or the folder or glob of the files.
    #[arg(long, value_name = "DIR_OR_URL")]
    location: String,
    /// What each file is sorted by, as in ORDER BY. Without it, what the files' footers say.
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// The names of the columns that folders like date=2024-01-01 give, separated by commas.
    #[arg(long, value_name = "COLUMNS")]
    partitioned_by: Option<String>,
    /// An option of the session, like sorted_listing.strategy=best_fit. May be given several times.
    #[arg(long, value_name = "OPTION=VALUE")]
    set: Vec<String>,
    /// Show the plan in place of the rows.
    #[arg(long)]
    explain: bool,
    /// The query.
    #[arg(value_name = "SELECT …")]
    query: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {}", e.strip_backtrace());
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_sorted_listing()
        .build();
    let ctx = SessionContext::new_with_state(state);
    for option in &args.set {
        let (option, value) = option
            .split_once('=')
            .ok_or_else(|| plan_error(format!("--set {option}: there is no '='")))?;
        ctx.sql(&format!("SET {option} = '{value}'")).await?;
    }
    check_location(&args.location)?;
    let ddl = ddl(&args);
    ctx.sql(&ddl)
        .await
        .map_err(|e| e.context(format!("the table could not be made by\n  {ddl}\n")))?;
    let query = if args.explain && !args.query.trim().to_lowercase().starts_with("explain") {
        format!("EXPLAIN {}", args.query)
    } else {
        args.query
    };
    ctx.sql(&query).await?.show().await
}

/// DataFusion takes a missing folder for an empty one.
fn check_location(location: &str) -> Result<()> {
    let is_pattern = location.contains("://") || location.contains(['*', '?', '[']);
    if is_pattern || std::fs::exists(location)? {
        return Ok(());
    }
    Err(plan_error(format!(
        "there is no file or folder '{location}'"
    )))
}

fn plan_error(message: String) -> DataFusionError {
    DataFusionError::Plan(message)
}

fn ddl(args: &Args) -> String {
    let partitioned_by = args
        .partitioned_by
        .as_ref()
        .map_or(String::new(), |columns| {
            format!("PARTITIONED BY ({columns})")
        });
    let order = args
        .order
        .as_ref()
        .map_or(String::new(), |order| format!("WITH ORDER ({order})"));
    let location = args.location.replace('\'', "''");
    format!(
        "CREATE EXTERNAL TABLE t STORED AS PARQUET {partitioned_by} {order} LOCATION '{location}'"
    )
}
