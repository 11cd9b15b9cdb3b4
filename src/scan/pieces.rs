//! Cutting a scan into small pieces, each in order, to be read at the same time.

use datafusion::common::Result;

use super::SortedScan;
use super::atoms::{Atom, Chunk, PER_DICTIONARY};
use super::unit::Unit;
use crate::layout::Slice;

/// How small pieces should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceSize {
    /// The bytes of a piece, decoded, if its row groups are no larger.
    pub(crate) bytes: u64,
    /// The pieces that there should be at least, so that all cores have some, if there are as many row groups.
    pub(crate) at_least: u64,
    /// The pieces that there may be at most.
    pub(crate) at_most: u64,
    /// The bytes below which a row group is not cut: a piece costs the opening of a file.
    pub(crate) row_group: u64,
    /// Whether all rows are asked for. Then row groups may be decoded at once.
    pub(crate) all_rows: bool,
}

/// A scan whose slices are pieces of runs.
pub(crate) struct InPieces {
    pub(crate) scan: SortedScan,
    /// The slices of each run, in order.
    pub(crate) runs: Vec<Vec<usize>>,
    /// For each slice, the unit that it is of: of rows with equal keys, those of the first unit come first.
    pub(crate) places: Vec<usize>,
    /// For each slice, how many bytes may be decoded at once that its reader would hold otherwise.
    pub(crate) at_once: Vec<u64>,
}

/// Units that are read one after another by one reader.
struct Piece {
    run: usize,
    /// The first of the scan's units that it is of.
    place: usize,
    /// How far into that unit it begins, of 1.
    offset: f64,
    units: Vec<Unit>,
    /// How many of its bytes may be decoded at once.
    at_once: u64,
}

impl SortedScan {
    /// The numbers of the slices, which are in key order, as they are read one after another.
    fn slices_in_order(&self) -> Vec<usize> {
        let slices = 0..self.slices.len();
        if self.reversed {
            slices.rev().collect()
        } else {
            slices.collect()
        }
    }

    /// The runs that all slices together are.
    fn runs(&self) -> Vec<Vec<usize>> {
        if !self.is_in_key_order() {
            let runs = self.slices.iter().flat_map(|slice| slice.runs.clone());
            return runs.filter(|run| !run.is_empty()).collect();
        }
        // Slice after slice is in order, whichever run of the one meets which of the next.
        let count = self.slices.iter().map(|slice| slice.runs.len()).max();
        let mut runs = vec![vec![]; count.unwrap_or(0)];
        for slice in self.slices_in_order() {
            for (run, units) in runs.iter_mut().zip(&self.slices[slice].runs) {
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
        if self.is_clipped() {
            return self.unclipped().in_pieces(size);
        }
        let runs = self.runs();
        let total: u64 = runs
            .iter()
            .flatten()
            .map(|&unit| self.decoded_bytes(unit))
            .sum();
        let bytes = size
            .bytes
            .min(total / size.at_least.max(1))
            .max(total / size.at_most.max(1));
        // Each run that is merged holds a piece.
        let budget = size.bytes * size.at_least;
        let merged = runs.len().max(1) as u64;
        // What fits into the budget is read ahead. In reverse, row groups are decoded at once as it is.
        let at_once = merged * bytes > budget && size.all_rows && !self.reversed;
        let columns = at_once.then(|| self.read_columns());
        let chunk = Chunk {
            at_once: columns.as_deref(),
            bytes: bytes.min(budget / merged).max(size.row_group),
            // The more there are open at a time, the more it is worth to hold less of each.
            per_dictionary: (PER_DICTIONARY / merged).max(1),
        };
        let runs: Vec<Vec<Atom>> = runs
            .iter()
            .map(|run| {
                run.iter()
                    .flat_map(|&unit| self.atoms(unit, chunk))
                    .collect()
            })
            .collect();

        // A merge is told where the keys of each piece begin: a unit is not reached before its own.
        let joins = runs.len() < 2 || self.units.len() as u64 > size.at_most;
        let mut pieces = vec![];
        for (run, atoms) in runs.iter().enumerate() {
            pieces.extend(self.pieces_of(Pieces::new(run, bytes, joins), atoms)?);
        }
        let filled = |slice: &&Slice| slice.runs.iter().any(|run| !run.is_empty());
        let slices = self.slices.iter().filter(filled).count();
        if pieces.len() <= slices && !self.is_merged() {
            return Ok(None);
        }
        if runs.len() > 1 {
            pieces = self.in_order_of_first_keys(pieces);
        }
        let mut units = vec![];
        let mut slices = vec![];
        let mut of_run = vec![vec![]; runs.len()];
        let mut places = vec![];
        let mut at_once = vec![];
        for piece in pieces {
            of_run[piece.run].push(slices.len());
            places.push(piece.place);
            at_once.push(piece.at_once);
            let first = units.len();
            units.extend(piece.units);
            let run = (first..units.len()).collect();
            slices.push(Slice { runs: vec![run] });
        }
        Ok(Some(InPieces {
            scan: self.with_slices(units, slices),
            runs: of_run,
            places,
            at_once,
        }))
    }

    /// The slices as they are, numbered in the order in which they are read.
    pub(crate) fn uncut(&self) -> InPieces {
        let slices = 0..self.slices.len();
        if !self.is_in_key_order() {
            return InPieces {
                scan: self.clone(),
                runs: slices.clone().map(|slice| vec![slice]).collect(),
                places: slices.clone().collect(),
                at_once: vec![0; slices.len()],
            };
        }
        let in_order = self.slices_in_order().into_iter();
        let in_order = in_order.map(|slice| self.slices[slice].clone());
        InPieces {
            scan: Self {
                slices: in_order.collect(),
                ranges: None,
                ..self.clone()
            },
            runs: vec![slices.clone().collect()],
            places: slices.clone().collect(),
            at_once: vec![0; slices.len()],
        }
    }

    fn pieces_of(&self, mut pieces: Pieces, atoms: &[Atom]) -> Result<Vec<Piece>> {
        for of_unit in atoms.chunk_by(|a, b| a.unit == b.unit) {
            let mut rest = of_unit;
            while !rest.is_empty() {
                let (taken, left) = rest.split_at(pieces.take(rest, of_unit.len()));
                if taken.len() == of_unit.len() {
                    pieces.push(self.unit(taken[0].unit));
                } else {
                    // Rows of a group are a unit, and so are adjacent whole groups.
                    let together = |a: &Atom, b: &Atom| a.group_if_cut() == b.group_if_cut();
                    for part in taken.chunk_by(together) {
                        pieces.push(self.part_of_unit(part)?);
                    }
                }
                rest = left;
            }
            if !pieces.joins {
                pieces.room = 0;
            }
        }
        Ok(pieces.pieces)
    }

    /// Pieces of several runs in the order in which their keys begin, as far as that is known or likely. Those of a run
    /// stay in their order.
    fn in_order_of_first_keys(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut reached: Vec<f64> = vec![];
        let mut placed: Vec<(f64, Piece)> = vec![];
        for piece in pieces {
            reached.resize(reached.len().max(piece.run + 1), f64::NEG_INFINITY);
            let bounds = piece
                .units
                .first()
                .and_then(|unit| unit.facts.bounds.as_ref());
            let begins = bounds.map_or(f64::NEG_INFINITY, |bounds| {
                let (lower, upper) = (bounds.lower().as_number(), bounds.upper().as_number());
                let (first, last) = if self.reversed {
                    (-upper, -lower)
                } else {
                    (lower, upper)
                };
                first + (last - first) * piece.offset
            });
            let reached = &mut reached[piece.run];
            *reached = reached.max(begins);
            placed.push((*reached, piece));
        }
        // Stable: a piece of a run never goes before the one that it comes after.
        placed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        placed.into_iter().map(|(_, piece)| piece).collect()
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

    /// How many of `atoms`, the rest of one unit, go into the last piece, or into a new one if none does: at least one.
    /// The unit is of `of_unit` atoms.
    fn take(&mut self, atoms: &[Atom], of_unit: usize) -> usize {
        if self.pieces.is_empty() || self.room == 0 || atoms[0].bytes > self.room {
            self.pieces.push(Piece {
                run: self.run,
                place: atoms[0].unit,
                offset: 1.0 - atoms.len() as f64 / of_unit as f64,
                units: vec![],
                at_once: 0,
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
        let taken = taken.max(1);
        if let Some(piece) = self.pieces.last_mut() {
            // The reader of several would hold the next one besides.
            piece.at_once = match (&atoms[..taken], piece.units.is_empty()) {
                ([atom], true) => atom.at_once,
                _ => 0,
            };
        }
        taken
    }

    fn push(&mut self, unit: Unit) {
        if let Some(piece) = self.pieces.last_mut() {
            piece.units.push(unit);
        }
    }
}
