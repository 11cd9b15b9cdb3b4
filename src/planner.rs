//! From the plan of a `ListingTable` to that of a sorted table.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;

use crate::config::SortedListingConfig;
use crate::layout::{self, NoLayout, Obstacle, lay_out, run_order};
use crate::proof::KeyFacts;
use crate::scan::{Grouping, SortedScan, Unit, UnorderedScan};
use crate::snapshot::{ListedFile, Snapshot};

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

/// A sort key that files are sorted by, and what is proved of it.
struct Sorted {
    ordering: LexOrdering,
    facts: Vec<KeyFacts>,
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
        let snapshot =
            Snapshot::read(self.session, self.table.options().format.as_ref(), scan).await?;
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
        let (slices, grouping) = match &scan.output_partitioning {
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
        Ok(SortedScan::new(
            scan, units, slices, orderings, null_free, grouping,
        ))
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
        if options.split_file_groups_by_statistics && scan.output_partitioning.is_none() {
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

/// Whether the listing has seen an order in the footer of any file. It looks only if it collects statistics.
fn any_file_has_order(scan: &FileScanConfig) -> bool {
    let mut files = scan.file_groups.iter().flat_map(FileGroup::iter);
    files.any(|file| file.ordering.is_some())
}

/// The declared sort keys, or if there are none, the one that all footers share; or why there is no such key.
fn sort_keys(snapshot: &Snapshot, declared: Vec<LexOrdering>) -> Result<Vec<Sorted>, String> {
    if declared.is_empty() {
        return Ok(vec![footer_key(snapshot)?]);
    }
    let sorted = |ordering| Sorted {
        facts: snapshot.key_facts(&ordering),
        ordering,
    };
    Ok(declared.into_iter().map(sorted).collect())
}

/// The longest order that all footers share, and in which the row groups of each file are too.
///
/// `sorting_columns` speak of the inside of a row group only (parquet.thrift), so that the order of the row groups
/// of a file has to be proved. A declared order speaks of whole files.
fn footer_key(snapshot: &Snapshot) -> Result<Sorted, String> {
    let shared = snapshot
        .footer_order()
        .map_err(|file| {
            format!(
                "no order is declared, and '{}' claims no order that the others share",
                file.file.path()
            )
        })?
        .ok_or("no order is declared, and no footer claims one")?;
    let mut disordered = None;
    for len in (1..=shared.len()).rev() {
        let Some(ordering) = LexOrdering::new(shared[..len].iter().cloned()) else {
            continue;
        };
        let facts = snapshot.key_facts(&ordering);
        disordered = facts.iter().position(|facts| !facts.groups_in_order);
        if disordered.is_none() {
            return Ok(Sorted { ordering, facts });
        }
    }
    let file = disordered.map_or("", |file| snapshot.files()[file].file.path().as_ref());
    Err(format!(
        "no order is declared, and the order that footers claim is not proved across the row groups of '{file}'"
    ))
}

fn units(files: &[ListedFile], facts: &[KeyFacts]) -> Vec<layout::Unit> {
    let unit = |(file, facts): (&ListedFile, &KeyFacts)| layout::Unit {
        bounds: facts.bounds.as_ref().ok().cloned(),
        bytes: file.file.effective_size(),
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

/// `ordering` without the Hive partition columns that have one value in all `files`, if it has any: rows that are
/// in order of `date, ts` are in order of `ts` where there is one `date` only.
///
/// DataFusion drops a filter on a partition column once the listing has applied it, and with it the knowledge.
fn without_constants(
    ordering: &LexOrdering,
    files: &[ListedFile],
    first_partition_column: usize,
) -> Option<LexOrdering> {
    let is_constant = |sort: &PhysicalSortExpr| {
        let column = sort.expr.downcast_ref::<Column>()?.index();
        let partition = column.checked_sub(first_partition_column)?;
        let mut values = files
            .iter()
            .map(|file| file.file.partition_values.get(partition));
        let first = values.next()??;
        Some(values.all(|value| value == Some(first)))
    };
    let varying: Vec<_> = ordering
        .iter()
        .filter(|sort| is_constant(sort) != Some(true))
        .cloned()
        .collect();
    (varying.len() < ordering.len())
        .then(|| LexOrdering::new(varying))
        .flatten()
}

/// The table columns among those of `keys` in which no file has a NULL.
fn null_free_columns(keys: &[Sorted]) -> Vec<usize> {
    let mut columns = vec![];
    for key in keys {
        for (index, sort) in key.ordering.iter().enumerate() {
            let null_free = |facts: &KeyFacts| facts.null_free.get(index) == Some(&true);
            if let Some(column) = sort.expr.downcast_ref::<Column>()
                && key.facts.iter().all(null_free)
            {
                columns.push(column.index());
            }
        }
    }
    columns
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
