//! The errors of rows that are not in the declared order.

use datafusion::common::DataFusionError;

use super::SortedScan;
use super::order_display::show;
use crate::key_value::KeyValue;
use crate::merge::Seam;

/// A row of a unit that is out of order.
pub(super) struct Violation {
    /// Its number among the rows that are read of the unit.
    pub(super) row: usize,
    pub(super) key: KeyValue,
    pub(super) found: Found,
    pub(super) other: KeyValue,
}

/// What a row contradicts.
pub(super) enum Found {
    /// The row of this number, which was read before it.
    After(usize),
    LowerBound,
    UpperBound,
}

const WHAT_TO_DO: &str = "Write the files anew in that order, or declare the order that they are in, or none \
    (WITH ORDER). With sorted_listing.verify = off, the query takes their rows for sorted, and may give wrong results";

impl SortedScan {
    /// The error of a row that is out of order within a unit.
    pub(super) fn false_order(&self, unit: usize, violation: &Violation) -> DataFusionError {
        let Violation {
            row, key, other, ..
        } = violation;
        let what = match violation.found {
            Found::After(before) => {
                format!("row {row} has the key {key}, and row {before}, before it, {other}")
            }
            Found::LowerBound => {
                format!(
                    "row {row} has the key {key}, before {other}, which is the first by the statistics in the footer"
                )
            }
            Found::UpperBound => {
                format!(
                    "row {row} has the key {key}, after {other}, which is the last by the statistics in the footer"
                )
            }
        };
        DataFusionError::Execution(format!(
            "{} is not in the declared order [{}]: {what}. Rows are counted from 0, as far as pruning and filters let \
             them be read. {WHAT_TO_DO}",
            self.name_of(unit),
            self.stored_order()
        ))
    }

    /// The error of a unit that begins before another one ends, which is read before it.
    pub(super) fn false_order_of_units(&self, unit: usize, seam: &Seam) -> DataFusionError {
        self.false_seam(&self.name_of(unit), &self.name_of(seam.before), seam)
    }

    /// The error of a slice that begins before another one ends, which is read before it.
    pub(crate) fn false_order_of_slices(&self, slice: usize, seam: &Seam) -> DataFusionError {
        let names = |slice: usize| {
            let units = self.slices.get(slice).into_iter();
            let units = units.flat_map(|slice| slice.runs.iter().flatten());
            let names: Vec<_> = units.map(|&unit| self.name_of(unit)).collect();
            names.join(", ")
        };
        self.false_seam(&names(slice), &names(seam.before), seam)
    }

    fn false_seam(&self, later: &str, earlier: &str, seam: &Seam) -> DataFusionError {
        let Seam { first, last, .. } = seam;
        DataFusionError::Execution(format!(
            "the declared order [{}] does not hold: {earlier} ends with the key {last}, and {later}, which is read \
             after it, begins with {first}{}. {WHAT_TO_DO}",
            self.stored_order(),
            if self.reversed { " (in reverse)" } else { "" },
        ))
    }

    fn stored_order(&self) -> String {
        let sorts = self.orderings().iter().take(1).flatten().cloned();
        let sorts: Vec<_> = sorts.map(|sort| self.as_stored(sort)).collect();
        show(&sorts)
    }

    /// A unit as errors name it: the file, and the row groups that are read of it, if they are known.
    fn name_of(&self, unit: usize) -> String {
        let file = self.file(unit).path();
        match self.row_groups_of(unit) {
            Some(groups) if groups.len() == 1 => format!("'{file}' (row group {})", groups.start),
            Some(groups) if !groups.is_empty() => {
                format!(
                    "'{file}' (row groups {} to {})",
                    groups.start,
                    groups.end - 1
                )
            }
            _ => format!("'{file}'"),
        }
    }
}
