//! The errors of rows that are not in the declared order.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::DataFusionError;

use super::SortedScan;
use super::order_display::show;
use crate::false_order::FalseOrder;
use crate::key_value::KeyValue;
use crate::merge::Seam;

/// A row of a unit that is out of order.
pub(super) struct Violation {
    /// The number of the ordering.
    pub(super) ordering: usize,
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

impl SortedScan {
    /// The error of a row that is out of order within a unit.
    pub(super) fn false_order(&self, unit: usize, violation: &Violation) -> DataFusionError {
        let Violation {
            ordering,
            row,
            key,
            other,
            ..
        } = violation;
        let file = match self.reads_all_of(unit) {
            true => format!("'{}'", self.file(unit).path()),
            false => format!(
                "{}, of the rows that pruning and filters leave",
                self.name_of(unit)
            ),
        };
        let row = self.name_of_row(unit, *row);
        let other = match violation.found {
            Found::After(before) => {
                format!("and {}, before it, {other}", self.name_of_row(unit, before))
            }
            Found::LowerBound => {
                format!("before {other}, which is the first by the statistics in the footer")
            }
            Found::UpperBound => {
                format!("after {other}, which is the last by the statistics in the footer")
            }
        };
        self.false_order_of(
            *ordering,
            format!("in {file}, {row}, counted from 0, has the key {key}, {other}"),
        )
    }

    /// The error of a unit that begins before another one ends, which is read before it.
    pub(super) fn false_order_of_units(
        &self,
        ordering: usize,
        unit: usize,
        seam: &Seam,
    ) -> DataFusionError {
        let (later, earlier) = (self.name_of(unit), self.name_of(seam.before));
        self.false_seam(ordering, &later, &earlier, seam)
    }

    /// The error of a slice that begins before another one ends, which is read before it.
    pub(crate) fn false_order_of_slices(&self, slice: usize, seam: &Seam) -> DataFusionError {
        let names = |slice: usize| {
            let units = self.slices.get(slice).into_iter();
            let units = units.flat_map(|slice| slice.runs.iter().flatten());
            let names: Vec<_> = units.map(|&unit| self.name_of(unit)).collect();
            names.join(", ")
        };
        // A sequence is in the first ordering.
        self.false_seam(0, &names(slice), &names(seam.before), seam)
    }

    fn false_seam(
        &self,
        ordering: usize,
        later: &str,
        earlier: &str,
        seam: &Seam,
    ) -> DataFusionError {
        let Seam { first, last, .. } = seam;
        let reversed = if self.reversed { " (in reverse)" } else { "" };
        let rows = format!(
            "{earlier} ends with the key {last}, and {later}, which is read after it, begins with {first}{reversed}"
        );
        self.false_order_of(ordering, rows)
    }

    fn false_order_of(&self, ordering: usize, rows: String) -> DataFusionError {
        let sorts = self
            .orderings()
            .get(ordering)
            .into_iter()
            .flatten()
            .cloned();
        let sorts: Vec<_> = sorts.map(|sort| self.as_stored(sort)).collect();
        DataFusionError::External(Box::new(FalseOrder {
            table: Arc::clone(&self.options.table),
            order: show(&sorts),
            rows,
        }))
    }

    /// Whether all rows of the file of a unit are read.
    fn reads_all_of(&self, unit: usize) -> bool {
        let file = self.file(unit);
        let filter = self.file_scan.file_source().filter();
        filter.is_none() && file.range.is_none() && file.extensions.is_empty()
    }

    /// The `row`th row that is read of a unit, as errors name it.
    fn name_of_row(&self, unit: usize, row: usize) -> String {
        if !self.reads_all_of(unit) {
            return format!("row {row}");
        }
        let footer = self.units[unit].facts.footer.as_ref();
        let groups = footer.map_or(&[][..], |footer| footer.row_groups());
        let mut rest = row as u64;
        for (index, group) in groups.iter().enumerate() {
            match rest.checked_sub(group.rows) {
                Some(after) => rest = after,
                None => return format!("row {rest} of row group {index}"),
            }
        }
        format!("row {row}")
    }

    /// A unit as errors name it: the file, and the row groups that are read of it, if they are known.
    fn name_of(&self, unit: usize) -> String {
        let file = self.file(unit).path();
        match self.row_groups_of(unit) {
            Some(Range { start, end }) if end == start + 1 => {
                format!("'{file}' (row group {start})")
            }
            Some(Range { start, end }) if end > start => {
                format!("'{file}' (row groups {start} to {})", end - 1)
            }
            _ => format!("'{file}'"),
        }
    }
}
