//! The smallest parts that a scan is cut into.

use std::ops::Range;

use arrow::datatypes::FieldRef;
use datafusion::common::Result;

use super::SortedScan;
use super::at_once::bytes_at_once;
use super::footer::Footer;
use super::row_groups::cut_to;
use super::row_ranges::{can_select_rows, row_ranges, select_rows};
use super::unit::Unit;

/// What is read as a whole: a row group or some rows of one, or a file that is not cut.
pub(super) struct Atom {
    pub(super) unit: usize,
    /// What it is of the file, if the file is cut.
    part: Option<AtomPart>,
    pub(super) bytes: u64,
    /// How many bytes of it may be decoded at once, see [`bytes_at_once`]; 0 if it is more than a row group, or takes more memory so.
    pub(super) at_once: u64,
}

struct AtomPart {
    group: usize,
    /// The rows of the group, if it is cut.
    rows: Option<Range<usize>>,
}

/// How many times the bytes of its dictionaries a part of a row group should have, that is read by itself.
pub(super) const PER_DICTIONARY: u64 = 4;

/// How small parts of a row group should be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) bytes: u64,
    /// How many times the bytes of its dictionaries each has at least.
    pub(super) per_dictionary: u64,
    /// The columns that are read, if what takes less memory so is to be decoded at once.
    pub(super) at_once: Option<&'a [FieldRef]>,
}

impl Chunk<'_> {
    /// How many bytes of a row group may be decoded at once.
    fn at_once(&self, footer: &Footer, group: usize) -> u64 {
        match (self.at_once, footer.whole()) {
            (Some(columns), Some(footer)) => bytes_at_once(&footer.row_groups()[group], columns),
            _ => 0,
        }
    }

    /// How many times the bytes of its dictionaries a part has at least, of which so many bytes may be decoded at once.
    fn per_dictionary(&self, at_once: u64) -> u64 {
        if at_once > 0 {
            PER_DICTIONARY
        } else {
            self.per_dictionary
        }
    }
}

impl Atom {
    /// The row group that it is some rows of.
    pub(super) fn group_if_cut(&self) -> Option<usize> {
        let part = self.part.as_ref()?;
        part.rows.as_ref().map(|_| part.group)
    }
}

impl SortedScan {
    /// The bytes of a unit, decoded if that is known.
    pub(super) fn decoded_bytes(&self, unit: usize) -> u64 {
        match (&self.units[unit].facts.footer, self.row_groups_of(unit)) {
            (Some(footer), Some(groups)) => {
                groups.map(|group| footer.row_groups()[group].decoded).sum()
            }
            _ => self.file(unit).effective_size(),
        }
    }

    /// The row groups of a unit that can be cut, those much larger than a `chunk` cut further; or the unit.
    pub(super) fn atoms(&self, unit: usize, chunk: Chunk<'_>) -> Vec<Atom> {
        let whole = |at_once| {
            vec![Atom {
                unit,
                part: None,
                bytes: self.decoded_bytes(unit),
                at_once,
            }]
        };
        let (Some(footer), Some(groups)) =
            (&self.units[unit].facts.footer, self.row_groups_of(unit))
        else {
            return whole(0);
        };
        let mut atoms = vec![];
        for group in groups {
            let bytes = footer.row_groups()[group].decoded;
            let at_once = chunk.at_once(footer, group);
            let rows = match footer.whole() {
                Some(footer) if can_select_rows(self.file(unit)) => {
                    row_ranges(footer, group, chunk.bytes, chunk.per_dictionary(at_once))
                }
                _ => vec![],
            };
            let count = rows.len().max(1) as u64;
            let rows: Vec<_> = match rows.is_empty() {
                true => vec![None],
                false => rows.into_iter().map(Some).collect(),
            };
            atoms.extend(rows.into_iter().map(|rows| Atom {
                unit,
                part: Some(AtomPart { group, rows }),
                bytes: bytes / count,
                at_once: at_once / count,
            }));
        }
        if atoms.len() < 2 {
            return whole(atoms.first().map_or(0, |atom| atom.at_once));
        }
        if self.reversed {
            atoms.reverse();
        }
        atoms
    }

    /// A unit cut down to adjacent atoms: row groups, or rows of one.
    pub(super) fn part_of_unit(&self, atoms: &[Atom]) -> Result<Unit> {
        let unit = self.unit(atoms[0].unit);
        let (Some(a), Some(b)) = (&atoms[0].part, &atoms[atoms.len() - 1].part) else {
            return Ok(unit);
        };
        // In reverse, the last come first.
        let (first, last) = if self.reversed { (b, a) } else { (a, b) };
        let groups = cut_to(unit, first.group..last.group + 1, &self.file_scan)?;
        Ok(match (&first.rows, &last.rows) {
            (Some(first_rows), Some(last_rows)) => {
                select_rows(groups, &[(first.group, first_rows.start..last_rows.end)])
            }
            _ => groups,
        })
    }
}
