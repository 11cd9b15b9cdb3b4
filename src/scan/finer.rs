//! An order that goes on where the declared one ends, on demand.

use std::iter::once_with;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use super::SortedScan;
use super::range::{InRanges, Whole};
use crate::layout::Slice;

/// The order of all columns of a key, of which a scan declares the beginning only: units are a run of that, but of the
/// whole key they overlap, and are merged for it.
#[derive(Debug, Clone)]
pub(crate) struct Finer {
    /// The order of the whole key, and orders that follow from it.
    pub(crate) orderings: Vec<LexOrdering>,
    /// The units of the scan's slices, in runs of the whole key.
    pub(crate) slices: Vec<Slice>,
    /// The same of all units uncut, if some are clipped.
    pub(crate) whole: Option<Slice>,
}

impl SortedScan {
    /// This scan, which can be put into a finer order.
    pub(crate) fn with_finer(mut self, finer: Finer) -> Self {
        self.finer = Some(Arc::new(finer));
        self
    }

    /// This scan in its finer order, if it has one. That ends before the first column that is not projected.
    pub(super) fn finer(&self) -> Option<Self> {
        let Finer {
            orderings,
            slices,
            whole,
        } = self.finer.as_deref()?;
        let ranges = self.ranges.as_ref().map(|ranges| InRanges {
            partitioning: Arc::clone(&ranges.partitioning),
            points: Arc::clone(&ranges.points),
            whole: ranges.whole.as_ref().map(|unclipped| {
                Arc::new(Whole {
                    units: unclipped.units.clone(),
                    slice: whole.clone().unwrap_or_else(|| unclipped.slice.clone()),
                })
            }),
        });
        let scan = Self {
            slices: slices.clone().into(),
            ranges,
            finer: None,
            ..self.with_orderings(orderings.clone())
        };
        scan.up_to_projected()
    }

    /// This scan, whose first ordering ends before its first column that is not projected, and whose others follow from
    /// the whole of it; `None` if no column is projected.
    pub(super) fn up_to_projected(self) -> Option<Self> {
        let whole = self.orderings().first()?;
        let projected = self.merge_key()?.ordering().len();
        if projected == whole.len() {
            return Some(self);
        }
        let projected = LexOrdering::new(whole[..projected].to_vec())?;
        Some(self.with_orderings(vec![projected]))
    }

    /// This scan in each of the orders that it can be put into, but the one that it is in.
    pub(crate) fn on_demand(&self) -> impl Iterator<Item = Result<Self>> {
        let reversed = || self.reversed();
        let finer = || Ok(self.finer());
        let finer_reversed = || self.finer().map_or(Ok(None), |finer| finer.reversed());
        // One after another, as far as they are asked for.
        once_with(reversed)
            .chain(once_with(finer))
            .chain(once_with(finer_reversed))
            .filter_map(Result::transpose)
    }

    /// This scan, put into `order`, if it can be.
    pub(super) fn put_in_order(&self, order: &[PhysicalSortExpr]) -> Result<Option<Self>> {
        for scan in self.on_demand() {
            if let Some(scan) = scan?.in_order(order)? {
                return Ok(Some(scan));
            }
        }
        Ok(None)
    }
}
