//! Row groups that prove a declared order false.

use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;

use super::sort_key::BoundedColumn;

/// What proves that the rows of a file are not in order of `columns`, if something does: a row of one group that is
/// known to come after a row of a later group.
///
/// Bounds that are merely outer prove nothing of the kind. Of several columns, one is looked at only if those before it
/// have one value in the whole file. `groups` are the indices of the row groups. O(row groups × columns).
pub(super) fn contradiction(columns: &[BoundedColumn<'_>], groups: &[usize]) -> Option<String> {
    for column in columns {
        let (lower, upper) = (&column.lower, &column.upper);
        // The place of the highest key that a row is known to have so far.
        let mut highest: Option<usize> = None;
        for place in 0..groups.len() {
            if let Some(before) = highest
                && column.bounds.attained.lower[place]
                && upper.row(before) > lower.row(place)
            {
                return Some(format!(
                    "row group {} has a row with \"{name}\" = {}, and row group {}, which comes later, \
                     one with \"{name}\" = {}",
                    groups[before],
                    show(&column.bounds.upper, before),
                    groups[place],
                    show(&column.bounds.lower, place),
                    name = column.column.name,
                ));
            }
            if column.bounds.attained.upper[place]
                && highest.is_none_or(|highest| upper.row(place) > upper.row(highest))
            {
                highest = Some(place);
            }
        }
        let constant =
            |place: usize| lower.row(place) == upper.row(place) && lower.row(place) == lower.row(0);
        if !(0..groups.len()).all(constant) {
            return None;
        }
    }
    None
}

fn show(values: &ArrayRef, place: usize) -> String {
    ScalarValue::try_from_array(values, place)
        .map_or_else(|e| e.to_string(), |value| value.to_string())
}
