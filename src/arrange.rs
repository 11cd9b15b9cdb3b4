//! Putting the files of a scan into slices.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;

use crate::keys::{Sorted, null_free_columns, without_constants};
use crate::layout::{
    self, Layout, NoLayout, Obstacle, Slice, Strategy, lay_out, run_order, slices_of_clusters,
};
use crate::planner::Planner;
use crate::proof::KeyFacts;
use crate::ranges::Ranges;
use crate::scan::{Grouping, Offer, SortedScan};
use crate::scan_files::{ListedFile, ScanFiles};
use crate::units::Parts;
use crate::why_not::{FilePart, WhyNot};

/// How a scan can be read.
pub(crate) enum Arranged {
    /// In order, at no cost.
    Ordered(SortedScan),
    /// In no order, for this reason; or by a merge, where a query asks for it.
    Unordered(WhyNot, Option<Offer>),
}

/// The files of one scan, to be put into slices.
pub(crate) struct Arrangement<'a> {
    pub(crate) planner: &'a Planner<'a>,
    pub(crate) scan: &'a FileScanConfig,
    pub(crate) scan_files: &'a ScanFiles,
}

/// Slices of parts of files, and how they came about.
pub(crate) struct InSlices {
    pub(crate) parts: Parts,
    pub(crate) slices: Vec<Slice>,
    /// How they own ranges of the key, or why they do not.
    pub(crate) ranges: Result<Ranges, String>,
    pub(crate) grouping: Grouping,
    /// The beginning of the key, if they are in order of that only.
    pub(crate) prefix: Option<Sorted>,
}

impl Arrangement<'_> {
    pub(crate) fn files(&self) -> &[ListedFile] {
        self.scan_files.files()
    }

    /// By the first of `keys`, declaring the others where they hold too.
    pub(crate) fn arrange(&self, mut keys: Vec<Sorted>) -> Result<Arranged> {
        if let Some(why) = keys.iter().find_map(|key| self.why_false(key)) {
            return Ok(Arranged::Unordered(why, None));
        }
        let reordered =
            |facts: &KeyFacts| matches!(&facts.bounds, Err(unknown) if unknown.may_be_reordered);
        if let Some(unit) = keys[0].facts.iter().position(reordered) {
            let why = self.unknown_bounds(unit, &keys[0].facts);
            return Ok(Arranged::Unordered(why, None));
        }
        keys.retain(|key| !key.facts.iter().any(reordered));
        let key = &keys[0];
        let in_slices = match self.planner.partitioning(self.scan) {
            Some(partitioning) => {
                let parts = Parts::files(self.files(), &key.facts);
                match self.declared_slices(&parts.units) {
                    Ok(slices) => InSlices {
                        parts,
                        slices,
                        ranges: Err("the partitioning is declared".into()),
                        grouping: Grouping::Declared(partitioning.clone()),
                        prefix: None,
                    },
                    Err(obstacle) => {
                        let why = self.why_not(obstacle, key, &parts);
                        return Ok(Arranged::Unordered(why, None));
                    }
                }
            }
            None => match self.by_strategy(key) {
                Ok(in_slices) => in_slices,
                Err(why) => return self.on_demand(keys, why),
            },
        };
        self.ordered(keys, in_slices).map(Arranged::Ordered)
    }

    /// What proves the order of `key` false, if something does.
    fn why_false(&self, key: &Sorted) -> Option<WhyNot> {
        let mut files = self.files().iter().zip(&key.facts);
        files.find_map(|(file, facts)| {
            let contradiction = facts.contradiction.as_ref()?;
            Some(WhyNot::FalseOrder {
                order: key.show(),
                file: file.file.path().to_string(),
                rows: contradiction.clone(),
            })
        })
    }

    /// Slices that are each one run; or why there are none.
    fn by_strategy(&self, key: &Sorted) -> Result<InSlices, WhyNot> {
        let facts = &key.facts;
        let target = self.planner.session.config().target_partitions();
        let strategy = self.planner.config.strategy;
        let (parts, layout) = self.best_layout(facts, target, strategy);
        if !matches!(&layout, Ok(layout) if layout.strategy == strategy)
            && let Some(in_slices) = self.by_prefix(key)
        {
            return Ok(in_slices);
        }
        let why_not = |obstacle| self.why_not(obstacle, key, &parts);
        let layout = layout.map_err(|none| WhyNot::TooManySlices {
            cause: Box::new(why_not(none.obstacle)),
            needed: none.slices_needed,
            limit: target,
        })?;
        let grouping = match &facts[0].bounds {
            Err(unknown) if facts.iter().all(|facts| facts.bounds.is_err()) => {
                Grouping::FilePerSlice(Arc::new(WhyNot::NoBounds {
                    reason: unknown.why.clone(),
                }))
            }
            _ => Grouping::Strategy {
                strategy: layout.strategy,
                stepped_down: layout
                    .stepped_down
                    .map(|obstacle| Arc::new(why_not(obstacle))),
            },
        };
        let mut why_no_ranges = "slices are not in order of the key".into();
        if grouping.is_in_key_order() {
            match self.in_ranges(key, &parts) {
                Ok((parts, slices, ranges)) => {
                    return Ok(InSlices {
                        parts,
                        slices,
                        ranges: Ok(ranges),
                        grouping,
                        prefix: None,
                    });
                }
                Err(why) => why_no_ranges = why,
            }
        }
        let slices = layout
            .slices
            .into_iter()
            .map(|run| Slice { runs: vec![run] });
        let (parts, slices) = parts.joined(slices.collect(), self.files(), facts);
        Ok(InSlices {
            parts,
            slices,
            ranges: Err(why_no_ranges),
            grouping,
            prefix: None,
        })
    }

    /// Parts of files that are a run of `key`, if there are such.
    pub(crate) fn run_of(&self, key: &Sorted) -> Option<Parts> {
        let (parts, layout) = self.best_layout(&key.facts, 1, Strategy::Contiguous);
        layout
            .is_ok_and(|layout| layout.strategy == Strategy::Contiguous)
            .then_some(parts)
    }

    /// Whole files, or if that is better, parts of them.
    ///
    /// To cut files may balance slices, and let one file lie between the row groups of another. But to spread the row
    /// groups of a file over slices that interleave gains nothing where whole files can be spread.
    fn best_layout(
        &self,
        facts: &[KeyFacts],
        target: usize,
        strategy: Strategy,
    ) -> (Parts, Result<Layout, NoLayout>) {
        let groups = Parts::row_groups(self.files(), facts);
        let of_groups = lay_out(&groups.units, target, strategy);
        let contiguous =
            matches!(&of_groups, Ok(layout) if layout.strategy == Strategy::Contiguous);
        if contiguous || !groups.any_cut() {
            return (groups, of_groups);
        }
        let files = Parts::files(self.files(), facts);
        let of_files = lay_out(&files.units, target, strategy);
        if of_files.is_ok() || of_groups.is_err() {
            (files, of_files)
        } else {
            (groups, of_groups)
        }
    }

    /// A scan of slices that are each one run.
    fn ordered(&self, mut keys: Vec<Sorted>, in_slices: InSlices) -> Result<SortedScan> {
        let (units, ranges) = self.units_in_ranges(&keys[0], &in_slices)?;
        let InSlices {
            parts,
            slices,
            grouping,
            prefix,
            ranges: owned,
        } = in_slices;
        // The first key holds by the making of the slices.
        let mut further = keys.split_off(1);
        let mut finer = None;
        let mut null_free = null_free_columns(&keys);
        if let Some(prefix) = prefix {
            let whole = ranges.as_ref().and_then(|ranges| ranges.whole.as_deref());
            finer = self.finer(&keys[0], &units, &slices, whole);
            keys = vec![prefix];
            further.clear();
        }
        // A merge by one order keeps the other only if no rows of several slices are equal in it. DataFusion believes that
        // it keeps all orders of its inputs.
        let in_order = grouping.is_in_key_order() && parts.separate(&slices, &keys[0].facts);
        let all: Vec<_> = slices
            .iter()
            .flat_map(|slice| slice.runs.concat())
            .collect();
        keys.extend(further.into_iter().filter(|key| {
            in_order && parts.is_run_of(&all, &key.facts) && parts.separate(&slices, &key.facts)
        }));
        null_free.extend(null_free_columns(&keys));
        let orderings = keys
            .into_iter()
            .flat_map(|key| {
                let shorter = self.without_constants(&key);
                std::iter::once(key.ordering).chain(shorter)
            })
            .collect();
        let mut sorted = SortedScan::new(self.scan, units, slices, orderings, null_free, grouping);
        match (ranges, owned) {
            (Some(ranges), _) => sorted = sorted.with_ranges(ranges),
            (None, Err(why)) => {
                let are_wanted = self.planner.split_points.is_some();
                sorted = sorted.without_ranges(why.into(), are_wanted);
            }
            (None, Ok(_)) => {}
        }
        if let Some(finer) = finer {
            sorted = sorted.with_finer(finer);
        }
        Ok(sorted.with_options(self.planner.read_options()))
    }

    /// What a merge can offer where there are no such slices, for the reason `why`.
    fn on_demand(&self, mut keys: Vec<Sorted>, why: WhyNot) -> Result<Arranged> {
        let mut key = keys.swap_remove(0);
        // To merge is to compare what the scan gives, which are columns.
        if !key.ordering.iter().all(|sort| sort.expr.is::<Column>()) {
            return Ok(Arranged::Unordered(why, None));
        }
        let mut further = vec![];
        // The bounds of the merge are those of what it compares: without constants, it can do without their columns.
        if let Some(shorter) = self.without_constants(&key) {
            further.push(key.ordering);
            key = Sorted {
                facts: self.scan_files.key_facts(&shorter),
                ordering: shorter,
            };
        }
        let parts = Parts::row_groups(self.files(), &key.facts);
        let slices = slices_of_clusters(&parts.units, 1);
        let fan_in = slices
            .iter()
            .map(|slice| slice.runs.len())
            .max()
            .unwrap_or(0);
        let most = self.planner.config.max_merge_fan_in;
        if fan_in > most {
            let why = WhyNot::TooManyRuns {
                cause: Box::new(why),
                needed: fan_in,
                limit: most,
            };
            return Ok(Arranged::Unordered(why, None));
        }
        let (parts, _) = parts.joined(slices, self.files(), &key.facts);
        let offer = Offer {
            units: parts
                .scan_units(self.files(), &key.facts, self.scan)?
                .into(),
            layout: parts.units,
            null_free: null_free_columns(std::slice::from_ref(&key)),
            ordering: key.ordering,
            further,
            why: Arc::new(why.clone()),
            options: self.planner.read_options(),
        };
        Ok(Arranged::Unordered(why, Some(offer)))
    }

    pub(crate) fn without_constants(&self, key: &Sorted) -> Option<LexOrdering> {
        let partition = self.scan.file_schema().fields().len();
        without_constants(key, self.files(), partition)
    }

    /// The files of each declared partition, in key order.
    fn declared_slices(&self, units: &[layout::Unit]) -> Result<Vec<Slice>, Obstacle> {
        let mut slices = vec![vec![]; self.scan.file_groups.len()];
        for (unit, file) in self.files().iter().enumerate() {
            slices[file.group].push(unit);
        }
        slices
            .into_iter()
            .map(|slice| {
                let members: Vec<_> = slice.iter().map(|&unit| units[unit].clone()).collect();
                let order =
                    run_order(&members).map_err(|obstacle| obstacle.map(|unit| slice[unit]))?;
                Ok(Slice {
                    runs: vec![order.into_iter().map(|member| slice[member]).collect()],
                })
            })
            .collect()
    }

    /// What stands in the way of `parts`, naming files.
    fn why_not(&self, obstacle: Obstacle, key: &Sorted, parts: &Parts) -> WhyNot {
        let part = |unit: usize| {
            let part = &parts.parts[unit];
            let bounds = parts.units[unit].bounds.as_ref();
            FilePart {
                file: self.files()[part.file].file.path().to_string(),
                row_groups: part.groups.clone(),
                bounds: bounds.and_then(|bounds| self.scan_files.values_of(&key.ordering, bounds)),
            }
        };
        match obstacle {
            Obstacle::UnknownBounds { unit } => {
                self.unknown_bounds(parts.parts[unit].file, &key.facts)
            }
            Obstacle::Overlap { earlier, later } => WhyNot::Overlap {
                earlier: Box::new(part(earlier)),
                later: Box::new(part(later)),
            },
        }
    }

    fn unknown_bounds(&self, file: usize, facts: &[KeyFacts]) -> WhyNot {
        let unknown = facts[file].bounds.as_ref().err();
        WhyNot::UnknownBounds {
            file: self.files()[file].file.path().to_string(),
            reason: unknown.map_or_else(String::new, |unknown| unknown.why.clone()),
        }
    }
}
