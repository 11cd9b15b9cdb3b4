//! The tables of the benchmarks.

use std::error::Error;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

const FILES: usize = 64;
const DEVICES: usize = 500;
const BATCH: usize = 50_000;
/// Row groups do not grow with the table.
const ROWS_PER_GROUP: usize = 250_000;

/// Writes each table into a folder of its own, unless it is there already.
///
/// * `disjoint`: 64 files, each its own range of `ts`, which are all distinct;
/// * `touching`: 64 files, each of which begins at the `ts` that the one before ends at;
/// * `overlap`: 64 files, each of which shares a tenth of its range with the one before;
/// * `full`: 64 files, each of which covers the whole range of `ts`, which are all distinct;
/// * `one`: one file, of row groups of a million rows;
/// * `devices`: 64 files in order of `device, ts`, which cut most devices in two.
pub(crate) fn write_tables(folder: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    let per_file = rows.div_ceil(FILES);
    let files = || (0..FILES).map(|file| file * per_file..((file + 1) * per_file).min(rows));
    write_table(&folder.join("disjoint"), files(), ROWS_PER_GROUP, |row| {
        by_ts(row, row)
    })?;
    write_table(&folder.join("touching"), files(), ROWS_PER_GROUP, |row| {
        // The last row of a file has the time of the first of the next.
        let last = row % per_file == per_file - 1;
        by_ts(row, row + usize::from(last))
    })?;
    write_table(&folder.join("overlap"), files(), ROWS_PER_GROUP, |row| {
        let shared = row / per_file * (per_file / 10);
        by_ts(row, row - shared)
    })?;
    write_table(&folder.join("full"), files(), ROWS_PER_GROUP, |row| {
        by_ts(row, row % per_file * FILES + row / per_file)
    })?;
    let one = std::iter::once(0..rows);
    write_table(&folder.join("one"), one, 4 * ROWS_PER_GROUP, |row| {
        by_ts(row, row)
    })?;
    let per_device = rows.div_ceil(DEVICES);
    write_table(&folder.join("devices"), files(), ROWS_PER_GROUP, |row| {
        Keys {
            ts: (row % per_device) as i64 * 1000,
            device: row / per_device,
        }
    })
}

/// The columns that tables are in order of.
struct Keys {
    ts: i64,
    device: usize,
}

/// A row at this time, of any device.
fn by_ts(row: usize, time: usize) -> Keys {
    Keys {
        ts: time as i64 * 1000,
        device: (random(row, 1) % DEVICES as u64) as usize,
    }
}

fn write_table(
    folder: &Path,
    files: impl Iterator<Item = Range<usize>>,
    rows_per_group: usize,
    keys: impl Fn(usize) -> Keys,
) -> Result<(), Box<dyn Error>> {
    let done = folder.join("_done");
    if done.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    for (index, rows) in files.enumerate() {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(rows_per_group))
            .build();
        // Names that say nothing of the order.
        let name = format!("{:02}-{index}.parquet", (index * 37 + 11) % FILES);
        let file = File::create(folder.join(name))?;
        let mut writer =
            ArrowWriter::try_new(file, batch(0..0, &keys)?.schema(), Some(properties))?;
        let mut start = rows.start;
        while start < rows.end {
            let end = (start + BATCH).min(rows.end);
            writer.write(&batch(start..end, &keys)?)?;
            start = end;
        }
        writer.close()?;
    }
    File::create(done)?;
    Ok(())
}

fn batch(rows: Range<usize>, keys: impl Fn(usize) -> Keys) -> Result<RecordBatch, Box<dyn Error>> {
    let times = rows.clone().map(|row| keys(row).ts);
    let ids = rows.clone().map(|row| random(row, 0) as i64);
    let devices = rows
        .clone()
        .map(|row| format!("device-{:03}", keys(row).device));
    let vs = rows
        .clone()
        .map(|row| (random(row, 2) >> 11) as f64 / (1u64 << 53) as f64);
    let payloads = rows.clone().map(|row| random(row, 3) as i64);
    Ok(RecordBatch::try_from_iter([
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter_values(times)) as _,
        ),
        ("id", Arc::new(Int64Array::from_iter_values(ids)) as _),
        (
            "device",
            Arc::new(StringArray::from_iter_values(devices)) as _,
        ),
        ("v", Arc::new(Float64Array::from_iter_values(vs)) as _),
        (
            "payload",
            Arc::new(Int64Array::from_iter_values(payloads)) as _,
        ),
    ])?)
}

fn random(row: usize, column: u64) -> u64 {
    scramble(row as u64 * 4 + column)
}

/// SplitMix64 of a counter.
fn scramble(x: u64) -> u64 {
    let mut z = x.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
