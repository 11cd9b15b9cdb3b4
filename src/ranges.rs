//! Slices that each own a range of the key.

use std::sync::Arc;

use datafusion::common::{Result, SplitPoint};
use datafusion::physical_expr::{LexOrdering, RangePartitioning};

use crate::arrange::{Arrangement, InSlices};
use crate::config::RangeOption;
use crate::keys::Sorted;
use crate::layout::{Bounds, Cuts, Slice, run_order};
use crate::proof::SortKey;
use crate::scan::{self, InRanges, Whole, projected_columns};
use crate::units::Parts;

/// How slices come to own ranges.
pub(crate) struct Ranges {
    cuts: Cuts,
    /// The same by columns and values of the table.
    partitioning: RangePartitioning,
    /// The same by all columns that they are cut by.
    points: Vec<SplitPoint>,
    key: SortKey,
    /// All units uncut, if some are in several slices.
    whole: Option<(Parts, Slice)>,
}

impl Arrangement<'_> {
    /// The parts of files in slices that own ranges of `key`, by the user's split points or balanced; or why slices
    /// cannot own ranges.
    pub(crate) fn in_ranges(
        &self,
        key: &Sorted,
        parts: &Parts,
    ) -> Result<(Parts, Vec<Slice>, Ranges), String> {
        let config = self.planner.config;
        if config.range_partitioning == RangeOption::Off {
            return Err("sorted_listing.range_partitioning is off".into());
        }
        let run = run_order(&parts.units).map_err(|_| "units overlap, or have no bounds")?;
        let sort_key = self.scan_files.sort_key(&key.ordering)?;
        let cuts = match &self.planner.split_points {
            Some(Ok(points)) => cuts_at(points, &sort_key)?,
            Some(Err(why)) => return Err(why.to_string()),
            None => self.balanced_cuts(key, parts, &run)?,
        };
        let points = split_points(&cuts, &sort_key)?;
        let partitioning = self.partitioning_of(key, parts, cuts.columns(), &points)?;
        let slices = cuts
            .slices(&parts.units)
            .ok_or("not all bounds are known")?;
        let (cut, slices) = parts.clone().joined(slices, self.files(), &key.facts);
        let is_clipped = cut.count_across(&slices, &cuts) > 0;
        if is_clipped && cuts.columns() > projected_columns(self.scan, &key.ordering) {
            return Err("rows have to be clipped by columns that the query does not read".into());
        }
        let whole = is_clipped.then(|| {
            let (whole, slices) =
                parts
                    .clone()
                    .joined(vec![Slice { runs: vec![run] }], self.files(), &key.facts);
            (whole, slices.into_iter().next().unwrap_or_default())
        });
        let ranges = Ranges {
            cuts,
            partitioning,
            points,
            key: sort_key,
            whole,
        };
        Ok((cut, slices, ranges))
    }

    fn balanced_cuts(&self, key: &Sorted, parts: &Parts, run: &[usize]) -> Result<Cuts, String> {
        let target = self.planner.session.config().target_partitions();
        // Columns of one value need not be read to tell slices apart.
        let constant = constant_columns(parts).min(key.ordering.len() - 1);
        let varying = LexOrdering::new(key.ordering[constant..].to_vec());
        let projected = varying.map_or(0, |varying| projected_columns(self.scan, &varying));
        if projected == 0 {
            return Err("the query does not read the first column of the order".into());
        }
        let columns = constant + projected;
        Cuts::of_run(&parts.units, run, columns, target).ok_or_else(|| {
            format!(
                "there are no {target} slices of about the same size of which none shares a value with the next, \
                 or too much would have to be read twice for it"
            )
        })
    }

    /// What `points` of the first `columns` columns are to DataFusion. Columns that have one value in the whole scan are left out.
    fn partitioning_of(
        &self,
        key: &Sorted,
        parts: &Parts,
        columns: usize,
        points: &[SplitPoint],
    ) -> Result<RangePartitioning, String> {
        let constant = match &self.planner.split_points {
            Some(_) => 0,
            None => constant_columns(parts).min(columns - 1),
        };
        let ordering = LexOrdering::new(key.ordering[constant..columns].to_vec())
            .ok_or("slices are not cut by any column")?;
        let varying = |point: &SplitPoint| SplitPoint::new(point.values()[constant..].to_vec());
        let points = points.iter().map(varying).collect();
        RangePartitioning::try_new(ordering, points).map_err(|e| e.strip_backtrace())
    }

    /// The units of a scan, each cut down to what its slice owns, and how the slices own it.
    pub(crate) fn units_in_ranges(
        &self,
        key: &Sorted,
        in_slices: &InSlices,
    ) -> Result<(Vec<scan::Unit>, Option<InRanges>)> {
        let units = in_slices
            .parts
            .scan_units(self.files(), &key.facts, self.scan)?;
        let Ok(ranges) = &in_slices.ranges else {
            return Ok((units, None));
        };
        let (parts, slices) = (&in_slices.parts, &in_slices.slices);
        let units = parts.narrow(
            units,
            slices,
            &ranges.cuts,
            &ranges.key,
            self.scan_files,
            self.scan,
        )?;
        let whole = match &ranges.whole {
            None => None,
            Some((parts, slice)) => Some(Arc::new(Whole {
                units: parts
                    .scan_units(self.files(), &key.facts, self.scan)?
                    .into(),
                slice: slice.clone(),
            })),
        };
        let in_ranges = InRanges {
            partitioning: Arc::new(ranges.partitioning.clone()),
            points: ranges.points.as_slice().into(),
            whole,
        };
        Ok((units, Some(in_ranges)))
    }
}

/// The columns at the beginning of the key that have one value in all of `parts`.
fn constant_columns(parts: &Parts) -> usize {
    let bounds = parts.units.iter().filter_map(|unit| unit.bounds.as_ref());
    Bounds::constant_columns(&bounds.collect::<Vec<_>>())
}

/// `cuts` by values of the table.
fn split_points(cuts: &Cuts, key: &SortKey) -> Result<Vec<SplitPoint>, String> {
    let points = cuts.keys().iter();
    points
        .map(|cut| Ok(SplitPoint::new(key.values(cut)?)))
        .collect()
}

/// Cuts at the split points that a user gave.
fn cuts_at(points: &[SplitPoint], key: &SortKey) -> Result<Cuts, String> {
    let columns = points.first().map_or(0, |point| point.values().len());
    if columns == 0 {
        return Err("there are no split points, or they have no values".into());
    }
    if key.has_float(columns) {
        // In the order of the key `-0.0` comes before `0.0`, but DataFusion groups and joins them as equal.
        return Err("split points are of floats".into());
    }
    let keys = points.iter().map(|point| {
        if point.values().len() != columns {
            return Err(format!(
                "split points have {columns} values, but {point} has not"
            ));
        }
        key.key(point.values())
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    match keys.windows(2).position(|pair| pair[0] >= pair[1]) {
        None => Ok(Cuts::new(columns, keys)),
        Some(place) => Err(format!(
            "the split points {} and {} are not in the order of the table",
            points[place],
            points[place + 1]
        )),
    }
}
