//! Slices that each own a range of the key.

use std::sync::Arc;

use datafusion::common::{Result, SplitPoint, internal_err};
use datafusion::physical_expr::RangePartitioning;

use super::SortedScan;
use super::unit::Unit;
use crate::layout::Slice;

/// How the slices of a scan own ranges of its key.
#[derive(Debug, Clone)]
pub(crate) struct InRanges {
    /// The ranges, by columns of the table. Those of one value are left out.
    pub(crate) partitioning: Arc<RangePartitioning>,
    /// Where slices are cut, by the first columns of the key.
    pub(crate) points: Arc<[SplitPoint]>,
    /// What the slices are cut out of, if some units are in several and are clipped.
    pub(crate) whole: Option<Arc<Whole>>,
}

/// All units, uncut.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) units: Arc<[Unit]>,
    /// In the order of reading.
    pub(crate) slice: Slice,
}

/// Why slices own no ranges of the key.
#[derive(Debug, Clone)]
pub(super) struct NoRanges {
    pub(super) why: Arc<str>,
    /// Whether the user said where to cut.
    are_wanted: bool,
}

impl SortedScan {
    /// This scan, whose slices own ranges of the key.
    pub(crate) fn with_ranges(mut self, ranges: InRanges) -> Self {
        self.ranges = Some(ranges);
        self.with_limit_of_units()
    }

    /// This scan, whose slices own no ranges of the key, for the reason `why`. `EXPLAIN` shows it if the user said where
    /// to cut, and the layout report always.
    pub(crate) fn without_ranges(mut self, why: Arc<str>, are_wanted: bool) -> Self {
        self.no_ranges = Some(NoRanges { why, are_wanted });
        self
    }

    /// Why `EXPLAIN` says that slices own no ranges, if it says so.
    pub(super) fn why_not_in_ranges(&self) -> Option<&str> {
        let none = self.no_ranges.as_ref().filter(|none| none.are_wanted);
        none.map(|none| none.why.as_ref())
    }

    /// Whether some units are read by several slices, each of its own keys.
    pub(super) fn is_clipped(&self) -> bool {
        self.clipped_units() > 0
    }

    /// How many units have rows that are read by another slice.
    pub(super) fn clipped_units(&self) -> usize {
        let clips = self.units.iter().filter(|unit| unit.facts.clip.is_some());
        clips.count()
    }

    fn whole(&self) -> Option<&Arc<Whole>> {
        self.ranges.as_ref()?.whole.as_ref()
    }

    /// How many columns of the key the ranges are of, if rows have to be clipped.
    pub(super) fn clipped_columns(&self) -> usize {
        let clips = self
            .units
            .iter()
            .filter_map(|unit| unit.facts.clip.as_ref());
        clips.map(|clip| clip.columns).max().unwrap_or(0)
    }

    /// The same rows in one slice, each unit whole; or the scan as it is, if none is clipped.
    pub(super) fn unclipped(&self) -> Self {
        let Some(whole) = self.whole() else {
            return self.clone();
        };
        let scan = Self {
            ranges: None,
            ..self.with_slices(Arc::clone(&whole.units), vec![whole.slice.clone()])
        };
        scan.with_limit_of_units()
    }

    /// The reverse of `whole`, to go with the reverse of the slices.
    pub(super) fn reversed_ranges(&self) -> Result<Option<InRanges>> {
        let Some(ranges) = &self.ranges else {
            return Ok(None);
        };
        let whole = match &ranges.whole {
            None => None,
            Some(_) => {
                let Some(reversed) = self.unclipped().reversed()? else {
                    return internal_err!("a scan that can be reversed cannot be when it is whole");
                };
                Some(Arc::new(Whole {
                    units: Arc::clone(&reversed.units),
                    slice: reversed.slices[0].clone(),
                }))
            }
        };
        Ok(Some(InRanges {
            partitioning: Arc::clone(&ranges.partitioning),
            points: Arc::clone(&ranges.points),
            whole,
        }))
    }
}
