//! Cutting a scan into small pieces, each in order, to be read at the same time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use parquet::file::metadata::RowGroupMetaData;

use super::SortedScan;
use super::row_groups::{are_ascending, cut_to, groups_in, with_statistics_of};
use super::unit::Unit;
use crate::layout::{Bounds, Slice};

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

/// A scan whose slices are pieces of runs.
pub(crate) struct InPieces {
    pub(crate) scan: SortedScan,
    /// The slices of each run, in order.
    pub(crate) runs: Vec<Vec<usize>>,
}

/// What is read as a whole: a row group, or a file that is not cut.
struct Atom {
    unit: usize,
    /// The row group of the file, if the file is cut.
    group: Option<usize>,
    bytes: u64,
}

/// Units that are read one after another by one reader.
struct Piece {
    run: usize,
    units: Vec<Unit>,
}

impl SortedScan {
    /// The runs that all slices together are.
    fn runs(&self) -> Vec<Vec<usize>> {
        if !self.is_in_key_order() {
            return self
                .slices
                .iter()
                .flat_map(|slice| slice.runs.clone())
                .collect();
        }
        // Slice after slice is in order, whichever run of the one meets which of the next.
        let count = self.slices.iter().map(|slice| slice.runs.len()).max();
        let mut runs = vec![vec![]; count.unwrap_or(0)];
        for slice in self.slices.iter() {
            for (run, units) in runs.iter_mut().zip(&slice.runs) {
                run.extend(units);
            }
        }
        runs
    }

    /// The same rows, cut into more slices that are each in order; `None` if there is nothing to cut.
    ///
    /// Files are cut at the boundaries of row groups, into byte ranges, for reading only: nothing has to be known of
    /// the bounds of row groups, since the order inside a file is the file's own. Slices are numbered in order of where
    /// their keys begin.
    pub(crate) fn in_pieces(&self, size: PieceSize) -> Result<Option<InPieces>> {
        let runs: Vec<Vec<Atom>> = self
            .runs()
            .iter()
            .map(|run| run.iter().flat_map(|&unit| self.atoms(unit)).collect())
            .collect();
        let total: u64 = runs.iter().flatten().map(|atom| atom.bytes).sum();
        let bytes = size
            .bytes
            .min(total / size.at_least.max(1))
            .max(total / size.at_most.max(1));

        // A merge is told where the keys of each piece begin: a unit is not reached before its own.
        let joins = runs.len() < 2 || self.units.len() as u64 > size.at_most;
        let mut pieces = vec![];
        for (run, atoms) in runs.iter().enumerate() {
            pieces.extend(self.pieces_of(Pieces::new(run, bytes, joins), atoms)?);
        }
        if pieces.len() <= self.slices.len() && !self.is_merged() {
            return Ok(None);
        }
        if runs.len() > 1 {
            pieces = self.in_order_of_first_keys(pieces);
        }
        let mut units = vec![];
        let mut slices = vec![];
        let mut of_run = vec![vec![]; runs.len()];
        for piece in pieces {
            of_run[piece.run].push(slices.len());
            let first = units.len();
            units.extend(piece.units);
            let run = (first..units.len()).collect();
            slices.push(Slice { runs: vec![run] });
        }
        Ok(Some(InPieces {
            scan: self.with_slices(units, slices),
            runs: of_run,
        }))
    }

    fn pieces_of(&self, mut pieces: Pieces, atoms: &[Atom]) -> Result<Vec<Piece>> {
        for of_unit in atoms.chunk_by(|a, b| a.unit == b.unit) {
            let mut rest = of_unit;
            while !rest.is_empty() {
                let (part, left) = rest.split_at(pieces.take(rest));
                let whole = part.len() == of_unit.len();
                pieces.push(if whole {
                    self.unit(part[0].unit)
                } else {
                    self.row_groups(part)?
                });
                rest = left;
            }
            if !pieces.joins {
                pieces.room = 0;
            }
        }
        Ok(pieces.pieces)
    }

    /// Pieces of several runs in the order in which their keys begin. Those of a run stay in their order.
    fn in_order_of_first_keys(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut reached: Vec<Option<Bounds>> = vec![];
        let mut placed: Vec<(Option<Bounds>, Piece)> = vec![];
        for piece in pieces {
            reached.resize(reached.len().max(piece.run + 1), None);
            let first = piece
                .units
                .first()
                .and_then(|unit| unit.facts.bounds.clone());
            let later = self.compare_first(&reached[piece.run], &first).is_lt();
            if later {
                reached[piece.run] = first;
            }
            placed.push((reached[piece.run].clone(), piece));
        }
        // Stable: a piece of a run never goes before the one that it comes after.
        placed.sort_by(|(a, _), (b, _)| self.compare_first(a, b));
        placed.into_iter().map(|(_, piece)| piece).collect()
    }

    /// Which bounds begin first, in the order of reading. Unknown ones do.
    fn compare_first(&self, a: &Option<Bounds>, b: &Option<Bounds>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.reversed => b.upper().cmp(a.upper()),
            (Some(a), Some(b)) => a.lower().cmp(b.lower()),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }

    pub(super) fn unit(&self, unit: usize) -> Unit {
        Unit {
            file: self.file(unit).clone(),
            facts: self.units[unit].clone(),
        }
    }

    pub(super) fn file(&self, unit: usize) -> &PartitionedFile {
        // Every unit is a file group of its own.
        &self.file_scan.file_groups[unit].files()[0]
    }

    /// The row groups that are read of a unit, if it can be cut at each.
    pub(super) fn row_groups_of(&self, unit: usize) -> Option<Range<usize>> {
        let footer = self.units[unit].footer.as_ref()?;
        let all = footer.row_groups();
        are_ascending(all).then(|| groups_in(all, self.file(unit).range.as_ref()))
    }

    /// The row groups of a unit that can be cut, or the unit.
    fn atoms(&self, unit: usize) -> Vec<Atom> {
        let groups = self.units[unit]
            .footer
            .as_ref()
            .map_or(&[][..], |footer| footer.row_groups());
        let decoded = |group: usize| {
            let group: Option<&RowGroupMetaData> = groups.get(group);
            group.map_or(0, |group| {
                u64::try_from(group.total_byte_size()).unwrap_or(0)
            })
        };
        match self.row_groups_of(unit) {
            Some(range) if range.len() > 1 && !self.reversed => range
                .map(|group| Atom {
                    unit,
                    group: Some(group),
                    bytes: decoded(group),
                })
                .collect(),
            range => vec![Atom {
                unit,
                group: None,
                bytes: match range {
                    Some(range) => range.map(decoded).sum(),
                    None => self.file(unit).effective_size(),
                },
            }],
        }
    }

    /// Whether byte ranges of a file are in the order of its rows: if its row groups lie as its footer lists them.
    pub(super) fn ranges_are_runs(&self) -> bool {
        let mut footers = self.units.iter().filter_map(|unit| unit.footer.as_ref());
        footers.all(|footer| are_ascending(footer.row_groups()))
    }

    /// The units of byte ranges of files of this scan, in the order of its slices.
    pub(super) fn ranges_in_order(&self, ranges: Vec<PartitionedFile>) -> Result<Vec<Unit>> {
        // Of each file, the unit that a range begins in: a file may be several units.
        let mut order: HashMap<_, Vec<_>> = HashMap::new();
        let units = self
            .slices
            .iter()
            .flat_map(|slice| slice.runs.iter().flatten());
        for (place, &unit) in units.enumerate() {
            let file = self.file(unit);
            let end = file.range.as_ref().map_or(i64::MAX, |range| range.end);
            order
                .entry(file.path())
                .or_default()
                .push((end, place, unit));
        }
        let mut placed = ranges
            .into_iter()
            .map(|range| {
                let start = range.range.as_ref().map_or(0, |range| range.start);
                let units = order.get(range.path());
                let Some(&(_, place, unit)) =
                    units.and_then(|units| units.iter().find(|(end, _, _)| start < *end))
                else {
                    return internal_err!("'{}' is no file of this scan", range.path());
                };
                Ok(((place, start), unit, range))
            })
            .collect::<Result<Vec<_>>>()?;
        placed.sort_unstable_by_key(|(place, _, _)| *place);
        let units = placed.into_iter().map(|(_, unit, file)| {
            let mut facts = self.units[unit].clone();
            let groups = facts
                .footer
                .as_ref()
                .map(|footer| groups_in(footer.row_groups(), file.range.as_ref()))
                .unwrap_or_default();
            facts.bounds = facts.bounds_of(&groups);
            // The statistics are those of the whole file.
            let file = PartitionedFile {
                statistics: None,
                ..file
            };
            with_statistics_of(Unit { file, facts }, groups, &self.file_scan)
        });
        units.collect()
    }

    /// A unit cut down to the adjacent row groups of `part`.
    fn row_groups(&self, part: &[Atom]) -> Result<Unit> {
        let unit = self.unit(part[0].unit);
        let group = |atom: Option<&Atom>| atom.and_then(|atom| atom.group);
        match (group(part.first()), group(part.last())) {
            (Some(first), Some(last)) => cut_to(unit, first..last + 1, &self.file_scan),
            _ => Ok(unit),
        }
    }
}

/// Pieces of a run as they are filled.
struct Pieces {
    run: usize,
    bytes: u64,
    /// Whether a piece may be of several units.
    joins: bool,
    /// The bytes left in the last piece.
    room: u64,
    pieces: Vec<Piece>,
}

impl Pieces {
    fn new(run: usize, bytes: u64, joins: bool) -> Self {
        Self {
            run,
            bytes,
            joins,
            room: 0,
            pieces: vec![],
        }
    }

    /// How many of `atoms`, of one unit, go into the last piece, or into a new one if none does: at least one.
    fn take(&mut self, atoms: &[Atom]) -> usize {
        if self.pieces.is_empty() || self.room == 0 || atoms[0].bytes > self.room {
            self.pieces.push(Piece {
                run: self.run,
                units: vec![],
            });
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
        if let Some(piece) = self.pieces.last_mut() {
            piece.units.push(unit);
        }
    }
}
