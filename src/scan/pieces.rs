//! Cutting a scan whose units are one run into small pieces of that run.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::SortedScan;
use super::sorted_scan::Unit;
use crate::statistics::file_without_doubtful;

/// How small pieces should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceSize {
    /// The bytes of a piece, decoded, if its row groups are no larger.
    pub(crate) bytes: u64,
    /// The pieces that there should be at least, so that all cores have some, if there are as many row groups.
    pub(crate) at_least: u64,
    /// The pieces that there may be at most.
    pub(crate) at_most: u64,
}

/// What is read as a whole: a row group, or a file that is not cut.
struct Atom {
    unit: usize,
    /// The row group of the file, if the file is cut.
    group: Option<usize>,
    bytes: u64,
}

impl SortedScan {
    /// The same rows in the same order, cut into more slices; `None` if there is nothing to cut.
    ///
    /// Files are cut at the boundaries of row groups, into byte ranges, for reading only: nothing has to be known of
    /// the bounds of row groups, since the order inside a file is the file's own.
    pub(crate) fn in_pieces(&self, size: PieceSize) -> Result<Option<Self>> {
        let atoms: Vec<_> = self
            .slices
            .iter()
            .flatten()
            .flat_map(|&unit| self.atoms(unit))
            .collect();
        let total: u64 = atoms.iter().map(|atom| atom.bytes).sum();
        let bytes = size
            .bytes
            .min(total / size.at_least.max(1))
            .max(total / size.at_most.max(1));

        let mut pieces = Pieces::new(bytes);
        for run in atoms.chunk_by(|a, b| a.unit == b.unit) {
            let mut rest = run;
            while !rest.is_empty() {
                let (part, left) = rest.split_at(pieces.take(rest));
                let whole = part.len() == run.len();
                pieces.push(if whole {
                    self.unit(run[0].unit)
                } else {
                    self.row_groups(part)?
                });
                rest = left;
            }
        }
        let Pieces { units, slices, .. } = pieces;
        Ok((slices.len() > self.slices.len()).then(|| self.with_slices(units, slices)))
    }

    fn unit(&self, unit: usize) -> Unit {
        Unit {
            file: self.file(unit).clone(),
            footer: self.footers[unit].clone(),
        }
    }

    fn file(&self, unit: usize) -> &PartitionedFile {
        // Every unit is a file group of its own.
        &self.file_scan.file_groups[unit].files()[0]
    }

    /// The row groups of a unit that can be cut, or the unit.
    fn atoms(&self, unit: usize) -> Vec<Atom> {
        let file = self.file(unit);
        let whole = |bytes| {
            vec![Atom {
                unit,
                group: None,
                bytes,
            }]
        };
        let Some(footer) = &self.footers[unit] else {
            return whole(file.effective_size());
        };
        let all = footer.row_groups();
        let read = groups_in(all, file.range.as_ref());
        let groups = &all[read.clone()];
        let decoded =
            |group: &RowGroupMetaData| u64::try_from(group.total_byte_size()).unwrap_or(0);
        let is_cut = groups.len() > 1 && are_ascending(all);
        if !is_cut {
            return whole(groups.iter().map(decoded).sum());
        }
        read.map(|group| Atom {
            unit,
            group: Some(group),
            bytes: decoded(&all[group]),
        })
        .collect()
    }

    /// Whether byte ranges of a file are in the order of its rows: if its row groups lie as its footer lists them.
    pub(super) fn ranges_are_runs(&self) -> bool {
        let mut footers = self.footers.iter().flatten();
        footers.all(|footer| are_ascending(footer.row_groups()))
    }

    /// The units of byte ranges of files of this scan, in the order of its slices.
    pub(super) fn ranges_in_order(&self, ranges: Vec<PartitionedFile>) -> Result<Vec<Unit>> {
        let order: HashMap<_, _> = self
            .slices
            .iter()
            .flatten()
            .enumerate()
            .map(|(place, &unit)| (self.file(unit).path(), (place, unit)))
            .collect();
        let mut placed = ranges
            .into_iter()
            .map(|range| {
                let Some(&(place, unit)) = order.get(range.path()) else {
                    return internal_err!("'{}' is no file of this scan", range.path());
                };
                let start = range.range.as_ref().map_or(0, |range| range.start);
                Ok(((place, start), unit, range))
            })
            .collect::<Result<Vec<_>>>()?;
        placed.sort_unstable_by_key(|(place, _, _)| *place);
        let units = placed.into_iter().map(|(_, unit, file)| {
            let footer = self.footers[unit].clone();
            let groups = footer
                .as_ref()
                .map(|footer| groups_in(footer.row_groups(), file.range.as_ref()));
            // The statistics are those of the whole file.
            let file = PartitionedFile {
                statistics: None,
                ..file
            };
            self.with_statistics_of(Unit { file, footer }, groups.unwrap_or_default())
        });
        units.collect()
    }

    /// A unit cut down to the adjacent row groups of `part`.
    fn row_groups(&self, part: &[Atom]) -> Result<Unit> {
        let mut unit = self.unit(part[0].unit);
        let group = |atom: Option<&Atom>| atom.and_then(|atom| atom.group);
        let (Some(footer), Some(first), Some(last)) =
            (&unit.footer, group(part.first()), group(part.last()))
        else {
            return Ok(unit);
        };
        let all = footer.row_groups();
        let end_of_file = i64::try_from(unit.file.object_meta.size).unwrap_or(i64::MAX);
        let end = all.get(last + 1).map_or(end_of_file, start_of);
        unit.file = unit.file.with_range(start_of(&all[first]), end);
        self.with_statistics_of(unit, first..last + 1)
    }

    /// A unit with the statistics of the row groups that are read of it, if there are any.
    fn with_statistics_of(&self, unit: Unit, groups: Range<usize>) -> Result<Unit> {
        let Some(footer) = unit.footer.as_ref().filter(|_| !groups.is_empty()) else {
            return Ok(unit);
        };
        let read = ParquetMetaData::new(
            footer.file_metadata().clone(),
            footer.row_groups()[groups].to_vec(),
        );
        let statistics = DFParquetMetadata::statistics_from_parquet_metadata(
            &read,
            self.file_scan.file_schema(),
        )?;
        let file = unit.file.with_statistics(Arc::new(statistics));
        let schema = self.file_scan.file_source().table_schema().table_schema();
        Ok(Unit {
            file: file_without_doubtful(file, schema),
            footer: unit.footer,
        })
    }
}

/// The row groups that DataFusion reads of a byte range. They are adjacent if their places are ascending.
fn groups_in(groups: &[RowGroupMetaData], range: Option<&FileRange>) -> Range<usize> {
    match range {
        Some(range) if are_ascending(groups) => {
            let first = groups.partition_point(|group| start_of(group) < range.start);
            let end = groups.partition_point(|group| start_of(group) < range.end);
            first..end
        }
        Some(_) => 0..0,
        None => 0..groups.len(),
    }
}

/// Whether row groups lie in the file in the order of its footer.
fn are_ascending(groups: &[RowGroupMetaData]) -> bool {
    groups
        .windows(2)
        .all(|pair| start_of(&pair[0]) < start_of(&pair[1]))
}

/// The byte that a range must hold for DataFusion to read a row group: that of its first page.
fn start_of(group: &RowGroupMetaData) -> i64 {
    let column = group.column(0);
    column
        .dictionary_page_offset()
        .unwrap_or_else(|| column.data_page_offset())
}

/// Pieces as they are filled.
struct Pieces {
    bytes: u64,
    /// The bytes left in the last piece.
    room: u64,
    units: Vec<Unit>,
    slices: Vec<Vec<usize>>,
}

impl Pieces {
    fn new(bytes: u64) -> Self {
        Self {
            bytes,
            room: 0,
            units: vec![],
            slices: vec![],
        }
    }

    /// How many of `atoms`, of one unit, go into the last piece, or into a new one if none does: at least one.
    fn take(&mut self, atoms: &[Atom]) -> usize {
        if self.slices.is_empty() || atoms[0].bytes > self.room {
            self.slices.push(vec![]);
            self.room = self.bytes;
        }
        let fits = |atom: &&Atom| {
            let fits = atom.bytes <= self.room;
            if fits {
                self.room -= atom.bytes;
            }
            fits
        };
        let taken = atoms.iter().take_while(fits).count();
        if taken == 0 {
            // Larger than a piece should be, and a piece by itself.
            self.room = 0;
        }
        taken.max(1)
    }

    fn push(&mut self, unit: Unit) {
        if let Some(slice) = self.slices.last_mut() {
            slice.push(self.units.len());
            self.units.push(unit);
        }
    }
}
