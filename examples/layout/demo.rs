//! Tables to look at.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, TimestampMillisecondArray};
use clap::ValueEnum;
use datafusion::error::Result;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// A table of sorted files.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Demo {
    /// 64 files, one after another.
    Disjoint,
    /// 24 files, each of which begins before the one before ends.
    Overlap,
    /// 60 files of all lengths, many over one another, and two gaps.
    Deep,
    /// 40 files, a few of which have most of the rows.
    Skewed,
    /// Sorted by text, with NULL, and one file has no statistics.
    Text,
    /// One file.
    One,
    /// 5,000 small files.
    Many,
}

/// A file: where its keys begin and end, in minutes, and how many rows it has.
type Shape = (i64, i64, i64);

const MINUTE: i64 = 60_000;
const DAY: i64 = 1440;
/// 2024-01-01.
const START: i64 = 1_704_067_200_000;
const CITIES: [&str; 12] = [
    "Accra", "Bergen", "Cusco", "Dakar", "Essen", "Fukuoka", "Galway", "Hanoi", "Izmir", "Jaipur",
    "Kigali", "Lima",
];

impl Demo {
    /// What the files are sorted by.
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Text => "city, ts",
            _ => "ts",
        }
    }

    /// Writes the files of the table, under names that say nothing of their order.
    pub(crate) fn write(self, folder: &Path) -> Result<()> {
        let shapes = self.shapes();
        for (index, &(from, to, rows)) in shapes.iter().enumerate() {
            let name = format!("part-{:04}.parquet", (index * 37 + 11) % shapes.len());
            let at = |row: i64| START + from * MINUTE + (to - from) * MINUTE * row / rows;
            let ts = TimestampMillisecondArray::from_iter_values((0..rows).map(at));
            let city = |row: i64| CITIES.get(index + (2 * row / rows) as usize).copied();
            let city: StringArray = (0..rows).map(city).collect();
            let columns = [("city", Arc::new(city) as _), ("ts", Arc::new(ts) as _)];
            let batch = RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            )?;
            let statistics = match self == Self::Text && index == 4 {
                true => EnabledStatistics::None,
                false => EnabledStatistics::Chunk,
            };
            let properties = WriterProperties::builder()
                .set_statistics_enabled(statistics)
                .build();
            let file = File::create(folder.join(name))?;
            let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties))?;
            writer.write(&batch)?;
            writer.close()?;
        }
        Ok(())
    }

    fn shapes(self) -> Vec<Shape> {
        let scattered = |index: i64, below: i64| (index * 2_654_435_761 % 4_294_967_296) % below;
        match self {
            Self::Disjoint => (0..64)
                .map(|day| (day * DAY, (day + 1) * DAY, 1440))
                .collect(),
            Self::Overlap => (0..24)
                .map(|day| (day * DAY, day * DAY + 2000, 2000))
                .collect(),
            Self::Deep => (0..60)
                .map(|file| {
                    let from = (file % 3) * 20 * DAY + scattered(file, 12 * DAY);
                    let days = 1 + scattered(file + 7, 5);
                    (from, from + days * DAY, days * 300)
                })
                .collect(),
            Self::Skewed => (0..40)
                .map(|file| {
                    let rows = if file % 13 == 5 { 60_000 } else { 200 };
                    (file * DAY, (file + 1) * DAY, rows)
                })
                .collect(),
            Self::Text => (0..12).map(|_| (0, DAY, 100)).collect(),
            Self::One => vec![(0, DAY, 1440)],
            Self::Many => (0..5000)
                .map(|file| {
                    let extra = if file % 500 == 100 { 90 } else { 0 };
                    (file * 30, file * 30 + 30 + extra, 20 + file % 30)
                })
                .collect(),
        }
    }
}
