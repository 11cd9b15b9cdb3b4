//! The scan of a sorted table: slices of units, each read in key order.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::{Result, SplitPoint, Statistics, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};

use super::finer::Finer;
use super::grouping::Grouping;
use super::range::{InRanges, NoRanges};
use super::read_options::ReadOptions;
use super::row_groups::{are_ascending, groups_in};
use super::unit::Unit;
use crate::layout::{Bounds, Slice};
use crate::merge::MergeKey;
use crate::proof::value_type;

/// A [`DataSource`](datafusion::datasource::source::DataSource) whose output partitions are *slices*: sequences of units that are each read in key order.
///
/// It declares the orderings that are proved, and keeps them whatever the optimizer asks for: units are never
/// stolen by other partitions, split or skipped. File formats, predicate pruning, projection and filter pushdown,
/// metrics and schema adaptation are those of the [`FileScanConfig`] inside, in which every unit is a file group
/// of its own.
///
/// ```text
/// DataSourceExec: SortedScan: slices=2, units=4, order=[ts ASC NULLS LAST], strategy=contiguous, file_groups=…
///
///   slice 0            slice 1
///   ┌──────┬──────┐    ┌──────┬──────┐
///   │ 0..9 │10..19│    │20..29│30..39│    ts
///   └──────┴──────┘    └──────┴──────┘
/// ```
///
/// Where units overlap, a slice has several runs, and is read in order by merging them. That is so only where a query
/// has asked for the order: see [`SortOrderPushdownResult::Exact`].
///
/// [`SortOrderPushdownResult::Exact`]: datafusion::physical_plan::SortOrderPushdownResult::Exact
#[derive(Debug, Clone)]
pub struct SortedScan {
    /// How files are read, with the proved orderings declared. It has no files, so that units are shared and not copied
    /// whenever something of the scan changes.
    pub(super) file_scan: Arc<FileScanConfig>,
    /// The units, numbered in key order.
    pub(super) units: Arc<[Unit]>,
    /// The units of each slice.
    pub(super) slices: Arc<[Slice]>,
    pub(super) grouping: Grouping,
    /// The indices of table columns of which it is proved that no row is NULL.
    pub(super) null_free: Arc<[usize]>,
    pub(super) options: ReadOptions,
    /// Whether some filter of the file scan only prunes, and lets rows through that do not match.
    pub(super) filters_only_prune: bool,
    /// Whether the rows of each unit are read from the last to the first, and units are numbered likewise.
    pub(super) reversed: bool,
    /// How many rows of each slice are asked for at most.
    pub(super) fetch: Option<usize>,
    /// Which ranges of the key the slices own, if that is known.
    pub(super) ranges: Option<InRanges>,
    /// Why they own none, if that is known.
    pub(super) no_ranges: Option<NoRanges>,
    /// The order that the slices can be put into besides.
    pub(super) finer: Option<Arc<Finer>>,
}

/// `scan` without its files, and with `orderings` declared.
///
/// With one file a group or none, the orderings hold in the eyes of [`FileScanConfig`], which would check them by file
/// statistics that know nothing of NULL and NaN.
fn without_files(scan: &FileScanConfig, orderings: Vec<LexOrdering>) -> FileScanConfig {
    FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(vec![])
        .with_output_ordering(orderings)
        .with_output_partitioning(None)
        .with_preserve_order(true)
        .build()
}

/// How many columns at the beginning of `ordering` a scan gives.
pub(crate) fn projected_columns(scan: &FileScanConfig, ordering: &LexOrdering) -> usize {
    projected(scan, ordering).len()
}

/// The beginning of `ordering`, which is of columns of the table, by those of the output, as far as it has them.
pub(super) fn projected(scan: &FileScanConfig, ordering: &LexOrdering) -> Vec<PhysicalSortExpr> {
    let projection = scan.file_source().projection();
    let projected = |sort: &PhysicalSortExpr| {
        let Some(projection) = projection else {
            return Some(sort.clone());
        };
        let column = sort.expr.downcast_ref::<Column>()?.index();
        let same = |expr: &Arc<dyn PhysicalExpr>| {
            expr.downcast_ref::<Column>()
                .is_some_and(|other| other.index() == column)
        };
        let index = projection
            .iter()
            .position(|projected| same(&projected.expr))?;
        let name = &projection.as_ref()[index].alias;
        Some(PhysicalSortExpr::new(
            Arc::new(Column::new(name, index)),
            sort.options,
        ))
    };
    ordering.iter().map_while(projected).collect()
}

/// A file group with the statistics of its files, if they have any.
pub(super) fn file_group(files: Vec<PartitionedFile>) -> FileGroup {
    let statistics = match files.as_slice() {
        [file] => file.statistics.clone(),
        _ => None,
    };
    let group = FileGroup::new(files);
    match statistics {
        Some(statistics) => group.with_statistics(statistics),
        None => group,
    }
}

impl SortedScan {
    /// A scan of `slices` of `units`, which reads files as `scan` does.
    ///
    /// In each slice, every one of `orderings` must hold within and across the units of a run, and the table columns
    /// `null_free` must have no NULL in any unit. Where `grouping` is in key order, the orderings must hold across
    /// slices too. Where a slice has several runs, the first ordering is of columns that `scan` projects, and the others
    /// follow from it.
    pub(crate) fn new(
        scan: &FileScanConfig,
        units: impl Into<Arc<[Unit]>>,
        slices: Vec<Slice>,
        orderings: Vec<LexOrdering>,
        null_free: Vec<usize>,
        grouping: Grouping,
    ) -> Self {
        let file_scan = without_files(scan, orderings);
        Self {
            fetch: file_scan.limit,
            file_scan: Arc::new(file_scan),
            units: units.into(),
            slices: slices.into(),
            grouping,
            null_free: null_free.into(),
            filters_only_prune: false,
            options: ReadOptions::default(),
            reversed: false,
            ranges: None,
            no_ranges: None,
            finer: None,
        }
    }

    /// The same slices of the same units, read as `scan` does.
    pub(crate) fn read_as(&self, scan: &FileScanConfig) -> Self {
        let file_scan = without_files(scan, self.orderings().to_vec());
        let scan = Self {
            fetch: file_scan.limit,
            ..self.with_file_scan(file_scan)
        };
        scan.with_limit_of_units()
    }

    /// This scan, read as the user says.
    pub(crate) fn with_options(mut self, options: ReadOptions) -> Self {
        self.options = options;
        self
    }

    /// Whether the column with this `index` is one of the key, unchanged, and before any of floats.
    ///
    /// DataFusion takes a column for constant that a filter compares with zero, and the columns after it for sorted. But
    /// that finds `-0.0` and `0.0`, which are one after the other in the order.
    pub(crate) fn is_key_before_floats(&self, index: usize) -> bool {
        let column = match self.file_scan.file_source().projection() {
            None => Some(index),
            Some(projection) => projection
                .as_ref()
                .get(index)
                .and_then(|projected| projected.expr.downcast_ref::<Column>())
                .map(Column::index),
        };
        let schema = self.file_scan.file_source().table_schema().table_schema();
        let is_float = |column: usize| {
            let field = schema.fields().get(column);
            field.is_none_or(|field| value_type(field.data_type()).is_floating())
        };
        let Some(column) = column.filter(|&column| !is_float(column)) else {
            return false;
        };
        // Of each ordering that the column is of.
        let is_before_floats = |ordering: &LexOrdering| {
            let mut is_behind = false;
            for sort in ordering {
                let of = sort.expr.downcast_ref::<Column>().map(Column::index);
                if of == Some(column) {
                    return Some(!is_behind);
                }
                is_behind |= of.is_none_or(is_float);
            }
            None
        };
        let mut places = self
            .orderings()
            .iter()
            .filter_map(is_before_floats)
            .peekable();
        places.peek().is_some() && places.all(|is_before| is_before)
    }

    pub(crate) fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// This scan, whose filters may only prune.
    pub(crate) fn with_filters_only_prune(mut self, only_prune: bool) -> Self {
        self.filters_only_prune = only_prune;
        self
    }

    /// The same scan of other units in other slices, of which nothing is known but that they are in order.
    pub(super) fn with_slices(&self, units: impl Into<Arc<[Unit]>>, slices: Vec<Slice>) -> Self {
        Self {
            units: units.into(),
            slices: slices.into(),
            ranges: None,
            finer: None,
            ..self.clone()
        }
    }

    /// Whether each slice lies wholly at or before the next.
    pub(crate) fn is_in_key_order(&self) -> bool {
        self.grouping.is_in_key_order()
    }

    /// Whether some slice has several runs.
    pub(super) fn is_merged(&self) -> bool {
        self.slices.iter().any(|slice| slice.runs.len() > 1)
    }

    /// The first of the orderings as far as its columns are projected, to merge units or slices by.
    pub(crate) fn merge_key(&self) -> Option<MergeKey> {
        let ordering = projected(&self.file_scan, self.orderings().first()?);
        Some(MergeKey::new(LexOrdering::new(ordering)?, self.reversed))
    }

    /// Where the keys of the first unit of a slice of one run lie: none of its rows comes before, in the order of reading.
    pub(crate) fn first_bounds(&self, slice: usize) -> Option<Bounds> {
        let first = *self.slices.get(slice)?.runs.first()?.first()?;
        self.units[first].facts.bounds.clone()
    }

    /// Where one slice ends and the next begins, if each owns a range of the key: values of its first columns.
    pub fn split_points(&self) -> Option<Vec<SplitPoint>> {
        let ranges = self.ranges.as_ref()?;
        Some(ranges.points.to_vec())
    }

    /// The number of slices, which are the output partitions.
    pub fn slice_count(&self) -> usize {
        self.slices.len()
    }

    /// The files of each slice, in the order they are read, or if it has several runs, run after run.
    pub fn slices(&self) -> impl Iterator<Item = impl Iterator<Item = &PartitionedFile>> {
        let file = |unit: &usize| self.file(*unit);
        self.slices
            .iter()
            .map(move |slice| slice.runs.iter().flatten().map(file))
    }

    pub(super) fn unit(&self, unit: usize) -> Unit {
        self.units[unit].clone()
    }

    pub(super) fn file(&self, unit: usize) -> &PartitionedFile {
        &self.units[unit].file
    }

    /// The scan of one unit, which is its only partition.
    pub(super) fn scan_of(&self, unit: usize) -> FileScanConfig {
        let file = self.file(unit).clone();
        self.builder()
            .with_file_groups(vec![file_group(vec![file])])
            .build()
    }

    /// The scan of each unit by itself, which are its partitions.
    pub(super) fn scan_of_each(&self) -> FileScanConfig {
        let files = self.units.iter().map(|unit| unit.file.clone());
        let groups = files.map(|file| file_group(vec![file]));
        self.builder().with_file_groups(groups.collect()).build()
    }

    /// The row groups that are read of a unit, if it can be cut at each.
    pub(super) fn row_groups_of(&self, unit: usize) -> Option<Range<usize>> {
        let footer = self.units[unit].facts.footer.as_ref()?;
        let all = footer.row_groups();
        are_ascending(all).then(|| groups_in(all, self.file(unit).range.as_ref()))
    }

    /// The orderings that are declared, in terms of the table's columns.
    pub fn orderings(&self) -> &[LexOrdering] {
        &self.file_scan.output_ordering
    }

    pub(super) fn builder(&self) -> FileScanConfigBuilder {
        FileScanConfigBuilder::from(self.file_scan.as_ref().clone())
    }

    /// The same scan, declaring these orderings.
    pub(super) fn with_orderings(&self, orderings: Vec<LexOrdering>) -> Self {
        let file_scan = self.builder().with_output_ordering(orderings).build();
        self.with_file_scan(file_scan)
    }

    pub(super) fn with_file_scan(&self, file_scan: FileScanConfig) -> Self {
        Self {
            file_scan: Arc::new(file_scan),
            ..self.clone()
        }
    }

    /// This scan, with the limit of its slices put to units where that can be.
    pub(super) fn with_limit_of_units(&self) -> Self {
        // The last rows of a unit are not among its first, nor are those that a clip leaves.
        let can_limit = !self.reversed && !self.is_clipped();
        let limit = self.fetch.filter(|_| can_limit);
        self.with_file_scan(self.builder().with_limit(limit).build())
    }

    /// The partitioning of the slices by columns of the table, if there is one.
    pub(super) fn partitioning(&self) -> Option<Partitioning> {
        match (&self.grouping, &self.ranges) {
            (Grouping::Declared(partitioning), _) => Some(partitioning.clone()),
            (_, Some(ranges)) => Some(Partitioning::Range(ranges.partitioning.as_ref().clone())),
            (_, None) => None,
        }
    }

    /// The same slices as a scan of DataFusion's, one file group each, with no ordering declared.
    pub(super) fn as_unordered_file_scan(&self) -> FileScanConfig {
        let groups = self
            .slices()
            .map(|files| file_group(files.cloned().collect()))
            .collect();
        let partitioning = self.partitioning();
        self.builder()
            .with_limit(self.fetch)
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_output_partitioning(partitioning)
            .with_preserve_order(false)
            .build()
    }

    /// What is known of the order and the equality of columns without regard to filters.
    pub(super) fn unfiltered_properties(&self) -> Result<EquivalenceProperties> {
        let schema = self.file_scan.file_source().table_schema().table_schema();
        let properties = EquivalenceProperties::new_with_orderings(
            Arc::clone(schema),
            self.orderings().iter().cloned(),
        )
        .with_constraints(self.file_scan.constraints.clone());
        let Some(projection) = self.file_scan.file_source().projection() else {
            return Ok(properties);
        };
        let mapping = projection.projection_mapping(schema)?;
        Ok(properties.project(&mapping, self.file_scan.projected_schema()?))
    }

    /// The statistics of a unit, of the columns that are projected.
    fn unit_statistics(&self, unit: usize) -> Result<Statistics> {
        let schema = self.file_scan.projected_schema()?;
        let projection = self.file_scan.file_source().projection();
        match (&self.file(unit).statistics, projection) {
            (None, _) => Ok(Statistics::new_unknown(&schema)),
            (Some(statistics), None) => Ok(statistics.as_ref().clone()),
            (Some(statistics), Some(projection)) => {
                projection.project_statistics(statistics.as_ref().clone(), &schema)
            }
        }
    }

    /// The statistics of the units of a slice, if there were no limit.
    pub(super) fn slice_statistics(&self, slice: usize) -> Result<Statistics> {
        let Some(units) = self.slices.get(slice) else {
            return internal_err!("slice {slice} of {}", self.slices.len());
        };
        let units = units.runs.iter().flatten();
        let units = units
            .map(|&unit| self.unit_statistics(unit))
            .collect::<Result<Vec<_>>>()?;
        let schema = self.file_scan.projected_schema()?;
        let statistics = Statistics::try_merge_iter(&units, &schema)?;
        // A file scan says this of all its partitions, but not of each.
        let filtered = self.file_scan.file_source().filter().is_some();
        Ok(if filtered {
            statistics.to_inexact()
        } else {
            statistics
        })
    }

    /// This scan, declaring its orderings with NULL where `order` asks for it.
    ///
    /// A column without NULL is sorted both NULLS FIRST and NULLS LAST, but DataFusion keeps one ordering for each
    /// expression: so one is declared, and the other when it is asked for.
    pub(super) fn with_null_placement_of(&self, order: &[PhysicalSortExpr]) -> Result<Self> {
        let mut nulls_first = vec![
            None;
            self.file_scan
                .file_source()
                .table_schema()
                .table_schema()
                .fields()
                .len()
        ];
        for sort in order {
            let expr = match self.file_scan.file_source().projection() {
                Some(projection) => projection.unproject_expr(&sort.expr)?,
                None => Arc::clone(&sort.expr),
            };
            if let Some(column) = expr.downcast_ref::<Column>()
                && self.null_free.contains(&column.index())
            {
                nulls_first[column.index()] = Some(sort.options.nulls_first);
            }
        }
        let placed = |sort: &PhysicalSortExpr| {
            let column = sort.expr.downcast_ref::<Column>();
            let nulls_first = column.and_then(|column| nulls_first[column.index()]);
            PhysicalSortExpr {
                expr: Arc::clone(&sort.expr),
                options: SortOptions {
                    nulls_first: nulls_first.unwrap_or(sort.options.nulls_first),
                    ..sort.options
                },
            }
        };
        let orderings = self
            .orderings()
            .iter()
            .filter_map(|ordering| LexOrdering::new(ordering.iter().map(placed)))
            .collect();
        Ok(self.with_orderings(orderings))
    }
}
