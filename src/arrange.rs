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

/// How a scan can be read.
pub(crate) enum Arranged {
    /// In order, at no cost.
    Ordered(SortedScan),
    /// In no order, for this reason; or by a merge, where a query asks for it.
    Unordered(Why, Option<Offer>),
}

/// Why a scan is in no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) text: Arc<str>,
    /// Whether the declared order is proved to be false.
    pub(crate) is_false: bool,
}

impl<S: Into<Arc<str>>> From<S> for Why {
    fn from(text: S) -> Self {
        Self {
            text: text.into(),
            is_false: false,
        }
    }
}

/// The files of one scan, to be put into slices.
pub(crate) struct Arrangement<'a> {
    pub(crate) planner: &'a Planner<'a>,
    pub(crate) scan: &'a FileScanConfig,
    pub(crate) files: &'a [ListedFile],
    pub(crate) scan_files: &'a ScanFiles,
}

/// Slices of parts of files, and how they came about.
pub(crate) struct InSlices {
    pub(crate) parts: Parts,
    pub(crate) slices: Vec<Slice>,
    pub(crate) ranges: Option<Ranges>,
    pub(crate) grouping: Grouping,
    /// How many columns of the key they are in order of.
    pub(crate) columns: usize,
}

impl Arrangement<'_> {
    /// By the first of `keys`, declaring the others where they hold too.
    pub(crate) fn arrange(&self, mut keys: Vec<Sorted>) -> Result<Arranged> {
        if let Some(why) = keys.iter().find_map(|key| self.why_false(key)) {
            return Ok(Arranged::Unordered(why, None));
        }
        let reordered =
            |facts: &KeyFacts| matches!(&facts.bounds, Err(unknown) if unknown.may_be_reordered);
        if let Some(unit) = keys[0].facts.iter().position(reordered) {
            let obstacle = Obstacle::UnknownBounds { unit };
            return Ok(Arranged::Unordered(
                self.show(obstacle, &keys[0].facts, &|unit| unit).into(),
                None,
            ));
        }
        keys.retain(|key| !key.facts.iter().any(reordered));
        let facts = &keys[0].facts;
        let in_slices = match self.planner.partitioning(self.scan) {
            Some(partitioning) => {
                let parts = Parts::files(self.files, facts);
                match self.declared_slices(&parts.units) {
                    Ok(slices) => InSlices {
                        parts,
                        slices,
                        ranges: None,
                        grouping: Grouping::Declared(partitioning.clone()),
                        columns: keys[0].ordering.len(),
                    },
                    Err(obstacle) => {
                        let why = self.show(obstacle, facts, &|unit| unit);
                        return Ok(Arranged::Unordered(why.into(), None));
                    }
                }
            }
            None => match self.by_strategy(&keys[0]) {
                Ok(in_slices) => in_slices,
                Err(why) => return self.on_demand(keys, why),
            },
        };
        self.ordered(keys, in_slices).map(Arranged::Ordered)
    }

    /// What proves the order of `key` false, if something does.
    fn why_false(&self, key: &Sorted) -> Option<Why> {
        let mut files = self.files.iter().zip(&key.facts);
        files.find_map(|(file, facts)| {
            let contradiction = facts.contradiction.as_ref()?;
            Some(Why {
                text: format!(
                    "the order is declared as [{}], but '{}' is not in it: {contradiction}",
                    key.show(),
                    file.file.path()
                )
                .into(),
                is_false: true,
            })
        })
    }

    /// Slices that are each one run; or why there are none.
    fn by_strategy(&self, key: &Sorted) -> Result<InSlices, String> {
        let facts = &key.facts;
        let target = self.planner.session.config().target_partitions();
        let strategy = self.planner.config.strategy;
        let (parts, layout) = self.best_layout(facts, target, strategy);
        if !matches!(&layout, Ok(layout) if layout.strategy == strategy)
            && let Some(in_slices) = self.by_prefix(key)
        {
            return Ok(in_slices);
        }
        let show = |obstacle| self.show(obstacle, facts, &|unit| parts.parts[unit].file);
        let layout = layout.map_err(|none| {
            format!(
                "{}; to read each partition in order would take {} partitions, \
                 more than target_partitions, which is {target}",
                show(none.obstacle),
                none.slices_needed
            )
        })?;
        let grouping = match &facts[0].bounds {
            Err(unknown) if facts.iter().all(|facts| facts.bounds.is_err()) => {
                Grouping::FilePerSlice(unknown.why.as_str().into())
            }
            _ => Grouping::Strategy {
                strategy: layout.strategy,
                stepped_down: layout.stepped_down.map(|obstacle| show(obstacle).into()),
            },
        };
        if grouping.is_in_key_order()
            && let Ok((parts, slices, ranges)) = self.in_ranges(key, &parts)
        {
            return Ok(InSlices {
                parts,
                slices,
                ranges: Some(ranges),
                grouping,
                columns: key.ordering.len(),
            });
        }
        let slices = layout
            .slices
            .into_iter()
            .map(|run| Slice { runs: vec![run] });
        let (parts, slices) = parts.joined(slices.collect(), self.files, facts);
        Ok(InSlices {
            parts,
            slices,
            ranges: None,
            grouping,
            columns: key.ordering.len(),
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
        let groups = Parts::row_groups(self.files, facts);
        let of_groups = lay_out(&groups.units, target, strategy);
        let contiguous =
            matches!(&of_groups, Ok(layout) if layout.strategy == Strategy::Contiguous);
        if contiguous || !groups.any_cut() {
            return (groups, of_groups);
        }
        let files = Parts::files(self.files, facts);
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
            columns,
            ..
        } = in_slices;
        // The first key holds by the making of the slices.
        let mut further = keys.split_off(1);
        let mut finer = None;
        let mut null_free = null_free_columns(&keys);
        if columns < keys[0].ordering.len()
            && let Some(prefix) = keys[0].first_columns(columns, self.scan_files)
        {
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
        if let Some(ranges) = ranges {
            sorted = sorted.with_ranges(ranges);
        }
        if let Some(finer) = finer {
            sorted = sorted.with_finer(finer);
        }
        Ok(sorted.with_read_ahead_bytes(self.planner.config.read_ahead_bytes))
    }

    /// What a merge can offer where there are no such slices, for the reason `why`.
    fn on_demand(&self, mut keys: Vec<Sorted>, why: String) -> Result<Arranged> {
        let mut key = keys.swap_remove(0);
        // To merge is to compare what the scan gives, which are columns.
        if !key.ordering.iter().all(|sort| sort.expr.is::<Column>()) {
            return Ok(Arranged::Unordered(why.into(), None));
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
        let parts = Parts::row_groups(self.files, &key.facts);
        let slices = slices_of_clusters(&parts.units, 1);
        let fan_in = slices
            .iter()
            .map(|slice| slice.runs.len())
            .max()
            .unwrap_or(0);
        let most = self.planner.config.max_merge_fan_in;
        if fan_in > most {
            let why = format!(
                "{why}; to merge them would take {fan_in} runs at a time, more than \
                 sorted_listing.max_merge_fan_in, which is {most}"
            );
            return Ok(Arranged::Unordered(why.into(), None));
        }
        let (parts, _) = parts.joined(slices, self.files, &key.facts);
        let offer = Offer {
            units: parts.scan_units(self.files, &key.facts, self.scan)?.into(),
            layout: parts.units,
            null_free: null_free_columns(std::slice::from_ref(&key)),
            ordering: key.ordering,
            further,
            why: why.as_str().into(),
            read_ahead_bytes: self.planner.config.read_ahead_bytes,
        };
        Ok(Arranged::Unordered(why.into(), Some(offer)))
    }

    pub(crate) fn without_constants(&self, key: &Sorted) -> Option<LexOrdering> {
        let partition = self.scan.file_schema().fields().len();
        without_constants(key, self.files, partition)
    }

    /// The files of each declared partition, in key order.
    fn declared_slices(&self, units: &[layout::Unit]) -> Result<Vec<Slice>, Obstacle> {
        let mut slices = vec![vec![]; self.scan.file_groups.len()];
        for (unit, file) in self.files.iter().enumerate() {
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

    /// What stands in the way, naming files; `file` gives that of a unit.
    fn show(
        &self,
        obstacle: Obstacle,
        facts: &[KeyFacts],
        file: &dyn Fn(usize) -> usize,
    ) -> String {
        let path = |file: usize| self.files[file].file.path();
        match obstacle.map(file) {
            Obstacle::UnknownBounds { unit } => {
                let unknown = facts[unit].bounds.as_ref().err();
                let why = unknown.map_or("", |unknown| unknown.why.as_str());
                format!("bounds of '{}' are unknown: {why}", path(unit))
            }
            Obstacle::Overlap { earlier, later } => format!(
                "the bounds of '{}' and '{}' overlap",
                path(earlier),
                path(later)
            ),
        }
    }
}
