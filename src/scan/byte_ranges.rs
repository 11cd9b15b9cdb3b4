//! Files as DataFusion has cut them into byte ranges.

use std::collections::HashMap;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::listing::PartitionedFile;

use super::SortedScan;
use super::row_groups::{are_ascending, groups_in, with_statistics_of};
use super::unit::Unit;

impl SortedScan {
    /// Whether byte ranges of a file are in the order of its rows: if its row groups lie as its footer lists them.
    pub(super) fn ranges_are_runs(&self) -> bool {
        let mut footers = self
            .units
            .iter()
            .filter_map(|unit| unit.facts.footer.as_ref());
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
            let mut facts = self.units[unit].facts.clone();
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
}
