//! How the files of a table lie along its sort key, in the terminal and as an SVG file.
//!
//! `cargo run --example layout -- --location DIR --order 'ts, id DESC'`, or `-- --demo overlap` for a table made here.

mod demo;
mod picture;
mod scale;
mod svg;
mod terminal;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::{LayoutReport, SessionStateBuilderExt, SortedListingTable};

use crate::demo::Demo;
use crate::picture::Picture;
use crate::terminal::Style;

/// Draws the layout of a table of sorted Parquet files.
#[derive(Parser)]
struct Args {
    /// The file, or the folder or glob of the files.
    #[arg(long, value_name = "DIR_OR_URL", required_unless_present = "demo")]
    location: Option<String>,
    /// What each file is sorted by, as in ORDER BY. Without it, what the files' footers say.
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Draw a table that is made for it.
    #[arg(long, value_enum, conflicts_with = "location")]
    demo: Option<Demo>,
    /// How many slices there may be. Without it, as many as there are cores.
    #[arg(long)]
    partitions: Option<usize>,
    /// Put keys evenly, whatever lies between them.
    #[arg(long)]
    by_rank: bool,
    /// The SVG file to write.
    #[arg(long, value_name = "FILE", default_value = "layout.svg")]
    svg: PathBuf,
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
    let folder = tempfile::tempdir()?;
    let (location, order) = match args.demo {
        Some(demo) => {
            demo.write(folder.path())?;
            (
                format!("{}/", folder.path().display()),
                Some(demo.order().into()),
            )
        }
        None => (args.location.unwrap_or_default(), args.order),
    };
    let report = report(&location, order, args.partitions).await?;
    let picture = Picture::new(&report, args.by_rank);

    print!("{}", terminal::draw(&picture, &style()));
    let title = if args.demo.is_some() {
        "demo"
    } else {
        &location
    };
    std::fs::write(&args.svg, svg::draw(&picture, title))?;
    println!(
        "\n{} has the same with file names and bounds",
        args.svg.display()
    );
    Ok(())
}

/// The layout of the table at `location`.
async fn report(
    location: &str,
    order: Option<String>,
    partitions: Option<usize>,
) -> Result<LayoutReport> {
    let mut config = SessionConfig::new();
    if let Some(partitions) = partitions {
        config = config.with_target_partitions(partitions);
    }
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_sorted_listing()
        .build();
    let ctx = SessionContext::new_with_state(state);
    let order = order.map_or(String::new(), |order| format!("WITH ORDER ({order})"));
    let location = location.replace('\'', "''");
    let ddl = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET {order} LOCATION '{location}'");
    ctx.sql(&ddl).await?;
    let table = ctx.table_provider("t").await?;
    match table.downcast_ref::<SortedListingTable>() {
        Some(sorted) => sorted.layout(&ctx.state(), &[]).await,
        None => Err(DataFusionError::Plan(format!(
            "'{location}' is no sorted listing table"
        ))),
    }
}

/// Colours are for people: not for files and pipes, nor where NO_COLOR asks for none (no-color.org).
fn style() -> Style {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let columns = std::env::var("COLUMNS").ok();
    Style {
        width: columns
            .and_then(|columns| columns.parse().ok())
            .unwrap_or(100),
        color: std::io::stdout().is_terminal() && !no_color,
    }
}
