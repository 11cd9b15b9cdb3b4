//! Units cut down to a range of keys.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::FileScanConfig;

use super::row_groups::{are_ascending, cut_to};
use super::row_ranges::{can_select_rows, select_rows};
use super::unit::Unit;
use crate::layout::KeyRange;
use crate::proof::{FileView, SortKey};

/// `unit` cut down to the rows whose keys are in `range`.
///
/// It is cut to row groups, and as far as the page index of its `file` tells, to pages. What is left outside of the range is clipped
/// when it is read.
pub(crate) fn narrow(
    mut unit: Unit,
    range: &KeyRange,
    key: &SortKey,
    file: Option<FileView<'_>>,
    scan: &FileScanConfig,
) -> Result<Unit> {
    let bounds = unit
        .facts
        .bounds
        .as_ref()
        .map(|bounds| range.narrow(bounds));
    unit.facts.clip = Some(range.clone());
    let inexact =
        |statistics: Arc<Statistics>| Arc::new(Statistics::clone(&statistics).to_inexact());
    unit.file.statistics = unit.file.statistics.map(inexact);
    if let Some(groups) = groups_in(&unit, range) {
        let rows = file.map_or_else(Vec::new, |file| rows_in(&groups, range, key, file));
        unit = cut_to(unit, groups, scan)?;
        if can_select_rows(&unit.file) && !rows.is_empty() {
            unit = select_rows(unit, &rows);
        }
    }
    unit.facts.bounds = bounds;
    Ok(unit)
}

/// The row groups of a unit that may have keys in `range`, if that is known.
fn groups_in(unit: &Unit, range: &KeyRange) -> Option<Range<usize>> {
    let all = unit.facts.footer.as_ref()?.row_groups();
    if !are_ascending(all) {
        return None;
    }
    let of_unit = super::row_groups::groups_in(all, unit.file.range.as_ref());
    let known = unit.facts.groups.iter();
    let mut groups = known
        .filter(|group| of_unit.contains(&group.group) && range.overlaps(&group.bounds))
        .map(|group| group.group);
    let first = groups.next()?;
    Some(first..groups.next_back().unwrap_or(first) + 1)
}

/// The rows of the first and of the last of `groups` that may have keys in `range`, if it is not all of them.
fn rows_in(
    groups: &Range<usize>,
    range: &KeyRange,
    key: &SortKey,
    file: FileView<'_>,
) -> Vec<(usize, Range<usize>)> {
    let last = groups.end - 1;
    let ends = std::iter::once(groups.start).chain((last > groups.start).then_some(last));
    ends.filter_map(|group| {
        let rows = key.rows_in(file, group, range)?;
        let all = usize::try_from(file.footer.row_group(group).num_rows()).ok()?;
        (!rows.is_empty() && rows != (0..all)).then_some((group, rows))
    })
    .collect()
}
