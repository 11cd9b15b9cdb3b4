//! 64 sorted files with shuffled names: the plan and the time of `ORDER BY`, with DataFusion's table and with ours.
//!
//! `cargo run --example quickstart`

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::{SessionStateBuilderExt, SortedScan};
use parquet::arrow::ArrowWriter;

const FILES: usize = 64;
const ROWS_PER_FILE: i64 = 2_000;
const QUERY: &str = "SELECT ts, sensor, value FROM events WHERE value > 40 ORDER BY ts";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    write_files(folder.path())?;
    println!(
        "{FILES} files of {ROWS_PER_FILE} rows, each sorted by ts, in {}\n",
        folder.path().display()
    );

    let builder = || {
        SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(4))
            .with_default_features()
    };
    let stock = SessionContext::new_with_state(builder().build());
    // This is all it takes.
    let sorted = SessionContext::new_with_state(builder().with_sorted_listing().build());

    let ddl = format!(
        "CREATE EXTERNAL TABLE events STORED AS PARQUET LOCATION '{}/' WITH ORDER (ts)",
        folder.path().display()
    );
    println!("{ddl};\nEXPLAIN {QUERY};\n");
    for (name, ctx) in [
        ("DataFusion's ListingTable", &stock),
        ("SortedListingTable", &sorted),
    ] {
        ctx.sql(&ddl).await?;
        let plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
        println!("── {name}");
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        print!(
            "{}",
            shown.replace(folder.path().to_string_lossy().trim_start_matches('/'), "…")
        );
        let (rows, time) = run(ctx).await?;
        println!("   {rows} rows in {:.0} ms\n", time.as_secs_f64() * 1e3);
        if let Some(scan) = sorted_scan(&plan) {
            print_slices(scan);
        }
    }
    println!("(The dev profile is slow in all it does; measure with --release.)");
    Ok(())
}

/// The files in order of their time, under names that say nothing of it.
fn write_files(folder: &Path) -> Result<(), Box<dyn Error>> {
    for file in 0..FILES {
        let first = file as i64 * ROWS_PER_FILE;
        let ts = first..first + ROWS_PER_FILE;
        let sensor =
            StringArray::from_iter_values(ts.clone().map(|ts| format!("sensor-{}", ts * 31 % 97)));
        let value = Int64Array::from_iter_values(ts.clone().map(|ts| ts * 7919 % 10_007));
        let batch = RecordBatch::try_from_iter([
            ("ts", Arc::new(Int64Array::from_iter_values(ts)) as _),
            ("sensor", Arc::new(sensor) as _),
            ("value", Arc::new(value) as _),
        ])?;
        let shuffled = (file * 37 + 11) % FILES;
        let out = File::create(folder.join(format!("part-{shuffled:02}.parquet")))?;
        let mut writer = ArrowWriter::try_new(out, batch.schema(), None)?;
        writer.write(&batch)?;
        writer.close()?;
    }
    Ok(())
}

/// Runs the query, and checks that its rows are in order.
async fn run(ctx: &SessionContext) -> Result<(usize, Duration), Box<dyn Error>> {
    let start = Instant::now();
    let batches = ctx.sql(QUERY).await?.collect().await?;
    let time = start.elapsed();
    let mut last = i64::MIN;
    let mut rows = 0;
    for batch in &batches {
        let ts = batch.column(0).as_any().downcast_ref::<Int64Array>();
        for &ts in ts.ok_or("ts is a BIGINT")?.values() {
            if ts < last {
                return Err(format!("{ts} comes after {last}").into());
            }
            last = ts;
            rows += 1;
        }
    }
    Ok((rows, time))
}

fn sorted_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortedScan> {
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>() {
        return exec.data_source().downcast_ref::<SortedScan>();
    }
    plan.children().into_iter().find_map(sorted_scan)
}

fn print_slices(scan: &SortedScan) {
    for (index, files) in scan.slices().enumerate() {
        let names: Vec<_> = files.filter_map(|file| file.path().filename()).collect();
        let [first, .., last] = names.as_slice() else {
            continue;
        };
        println!(
            "   slice {index}: {} files, from {first} to {last}",
            names.len()
        );
    }
    println!();
}
