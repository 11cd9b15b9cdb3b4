//! From the plan of a `ListingTable` to that of a sorted table.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;

use crate::config::SortedListingConfig;
use crate::keys::{Sorted, any_file_has_order, null_free_columns, sort_keys, without_constants};
use crate::layout::{self, NoLayout, Obstacle, lay_out, run_order};
use crate::proof::KeyFacts;
use crate::scan::{Grouping, SortedScan, Unit, UnorderedScan};
use crate::snapshot::{ListedFile, Snapshot};
use crate::statistics::without_doubtful;

/// Plans the scans of one table in one session.
pub(crate) struct Planner<'a> {
    pub(crate) session: &'a dyn Session,
    pub(crate) table: &'a ListingTable,
    pub(crate) config: &'a SortedListingConfig,
}

/// The plan of a scan.
pub(crate) struct Planned {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Why the scan is unordered although an order is declared, if it is so.
    pub(crate) why_unordered: Option<Arc<str>>,
}

impl Planner<'_> {
    /// Puts a [`SortedScan`] in place of the file scan in `stock`, the table's own plan, if the declared order is
    /// proved, and an [`UnorderedScan`] if not.
    pub(crate) async fn plan(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Planned> {
        let as_it_is = Planned {
            plan: Arc::clone(&stock),
            why_unordered: None,
        };
        let Some(scan) = file_scan(&stock) else {
            return Ok(as_it_is);
        };
        let declared = self
            .table
            .try_create_output_ordering(self.session.execution_props(), &[])?;
        if declared.is_empty() && !any_file_has_order(scan) {
            return Ok(as_it_is);
        }
        let scan = without_doubtful(scan);
        let scan = scan.as_ref();
        let format = self.table.options().format.as_ref();
        let snapshot = Snapshot::read(self.session, format, scan).await?;
        if snapshot.files().is_empty() {
            return Ok(as_it_is);
        }
        let planned = match sort_keys(&snapshot, declared) {
            Ok(keys) => self.sorted_scan(scan, &snapshot, keys),
            Err(why) => Err(why),
        };
        Ok(match planned {
            Ok(sorted) => Planned {
                plan: DataSourceExec::from_data_source(sorted),
                why_unordered: None,
            },
            Err(why) => {
                let why: Arc<str> = why.into();
                let unordered = UnorderedScan::new(self.without_order(scan)?, Arc::clone(&why));
                Planned {
                    plan: DataSourceExec::from_data_source(unordered),
                    why_unordered: Some(why),
                }
            }
        })
    }

    /// The scan by the first of `keys`, declaring the others where they hold too; or why there is none.
    fn sorted_scan(
        &self,
        scan: &FileScanConfig,
        snapshot: &Snapshot,
        mut keys: Vec<Sorted>,
    ) -> Result<SortedScan, String> {
        let files = snapshot.files();
        let reordered =
            |facts: &KeyFacts| matches!(&facts.bounds, Err(unknown) if unknown.may_be_reordered);
        if let Some(unit) = keys[0].facts.iter().position(reordered) {
            return Err(show(
                Obstacle::UnknownBounds { unit },
                files,
                &keys[0].facts,
            ));
        }
        keys.retain(|key| !key.facts.iter().any(reordered));
        let first = units(files, &keys[0].facts);
        let (slices, grouping) = match self.partitioning(scan) {
            Some(partitioning) => {
                let slices = declared_slices(files, &first, scan.file_groups.len())
                    .map_err(|obstacle| show(obstacle, files, &keys[0].facts))?;
                (slices, Grouping::Declared(partitioning.clone()))
            }
            None => self.lay_out(files, &first, &keys[0].facts)?,
        };

        // The first holds by the making of the slices.
        let further = keys.split_off(1);
        let runs = if grouping.is_one_run() {
            vec![slices.concat()]
        } else {
            slices.clone()
        };
        keys.extend(
            further
                .into_iter()
                .filter(|key| holds_in(&runs, &units(files, &key.facts))),
        );
        let null_free = null_free_columns(&keys);
        let partition = scan.file_schema().fields().len();
        let orderings = keys
            .into_iter()
            .flat_map(|key| {
                let shorter = without_constants(&key.ordering, files, partition);
                std::iter::once(key.ordering).chain(shorter)
            })
            .collect();
        let units = files
            .iter()
            .map(|file| Unit {
                file: file.file.clone(),
                footer: file.footer(),
            })
            .collect();
        let sorted = SortedScan::new(scan, units, slices, orderings, null_free, grouping);
        Ok(sorted.with_read_ahead_bytes(self.config.read_ahead_bytes))
    }

    /// The partitioning that the table's plan has, if it is true.
    ///
    /// What the user declares is. With `preserve_file_partitions`, DataFusion groups files by the values of their
    /// partition columns; but with `split_file_groups_by_statistics` it then mixes the groups, and 55.2 declares the
    /// partitioning all the same.
    fn partitioning<'s>(&self, scan: &'s FileScanConfig) -> Option<&'s Partitioning> {
        let partitioning = scan.output_partitioning.as_ref()?;
        let mixed = self.table.options().output_partitioning.is_none()
            && self
                .session
                .config_options()
                .execution
                .split_file_groups_by_statistics;
        (!mixed).then_some(partitioning)
    }

    fn lay_out(
        &self,
        files: &[ListedFile],
        units: &[layout::Unit],
        facts: &[KeyFacts],
    ) -> Result<(Vec<Vec<usize>>, Grouping), String> {
        let target = self.session.config().target_partitions();
        let layout = lay_out(units, target, self.config.strategy).map_err(
            |NoLayout {
                 obstacle,
                 slices_needed,
             }| {
                format!(
                    "{}; to read each partition in order would take {slices_needed} partitions, \
                     more than target_partitions, which is {target}",
                    show(obstacle, files, facts)
                )
            },
        )?;
        let stepped_down = layout
            .stepped_down
            .map(|obstacle| show(obstacle, files, facts).into());
        let grouping = match &facts[0].bounds {
            Err(unknown) if units.iter().all(|unit| unit.bounds.is_none()) => {
                Grouping::FilePerSlice(unknown.why.as_str().into())
            }
            _ => Grouping::Strategy {
                strategy: layout.strategy,
                stepped_down,
            },
        };
        Ok((layout.slices, grouping))
    }

    /// `scan` as the table would plan it for the same files if it declared no order.
    fn without_order(&self, scan: &FileScanConfig) -> Result<FileScanConfig> {
        let mut groups = scan.file_groups.clone();
        let options = &self.session.config_options().execution;
        let partitioning = self.partitioning(scan).cloned();
        if options.split_file_groups_by_statistics && partitioning.is_none() {
            // They may have been put into order, and out of balance.
            let files = groups.into_iter().flat_map(FileGroup::into_inner).collect();
            groups = FileGroup::new(files)
                .split_files(self.session.config().target_partitions())
                .into_iter()
                .map(|group| self.with_statistics(group))
                .collect::<Result<_>>()?;
        }
        Ok(FileScanConfigBuilder::from(scan.clone())
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_output_partitioning(partitioning)
            .with_preserve_order(false)
            .build())
    }

    fn with_statistics(&self, group: FileGroup) -> Result<FileGroup> {
        let statistics: Option<Vec<_>> = group
            .iter()
            .map(|file| file.statistics.as_deref())
            .collect();
        Ok(match statistics {
            None => group,
            Some(files) => {
                let schema = datafusion::catalog::TableProvider::schema(self.table);
                let statistics = Statistics::try_merge_iter(files, &schema)?;
                group.with_statistics(Arc::new(statistics))
            }
        })
    }
}

/// The file scan that is all of a plan.
fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?
        .data_source()
        .downcast_ref::<FileScanConfig>()
}

fn units(files: &[ListedFile], facts: &[KeyFacts]) -> Vec<layout::Unit> {
    let unit = |(file, facts): (&ListedFile, &KeyFacts)| layout::Unit {
        bounds: facts.bounds.as_ref().ok().cloned(),
        bytes: file.file.effective_size(),
        follows: None,
    };
    files.iter().zip(facts).map(unit).collect()
}

/// The files of each declared partition, in key order.
fn declared_slices(
    files: &[ListedFile],
    units: &[layout::Unit],
    partitions: usize,
) -> Result<Vec<Vec<usize>>, Obstacle> {
    let mut slices = vec![vec![]; partitions];
    for (unit, file) in files.iter().enumerate() {
        slices[file.group].push(unit);
    }
    for slice in &mut slices {
        let members: Vec<_> = slice.iter().map(|&unit| units[unit].clone()).collect();
        let order = run_order(&members).map_err(|obstacle| match obstacle {
            Obstacle::UnknownBounds { unit } => Obstacle::UnknownBounds { unit: slice[unit] },
            Obstacle::Overlap { earlier, later } => Obstacle::Overlap {
                earlier: slice[earlier],
                later: slice[later],
            },
        })?;
        *slice = order.into_iter().map(|member| slice[member]).collect();
    }
    Ok(slices)
}

/// Whether every one of `slices`, in the order it has, is a run of `units`.
fn holds_in(slices: &[Vec<usize>], units: &[layout::Unit]) -> bool {
    slices
        .iter()
        .flat_map(|slice| slice.windows(2))
        .all(
            |pair| match (&units[pair[0]].bounds, &units[pair[1]].bounds) {
                (Some(before), Some(after)) => before.ends_before(after),
                _ => false,
            },
        )
}

/// What stands in the way, naming files.
fn show(obstacle: Obstacle, files: &[ListedFile], facts: &[KeyFacts]) -> String {
    let path = |file: usize| files[file].file.path();
    match obstacle {
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
