//! The scan of a sorted table: slices of units, each read in key order.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};

use super::slice_stream::SliceStream;
use super::{UnorderedScan, as_file_scan};
use crate::layout::Strategy;

/// How the units of a [`SortedScan`] came into its slices.
#[derive(Debug, Clone)]
pub(crate) enum Grouping {
    /// By a strategy; with the reason, if it is not the one that was asked for.
    Strategy {
        strategy: Strategy,
        stepped_down: Option<Arc<str>>,
    },
    /// They are the partitions that the table declares, and the scan has that partitioning.
    Declared(Partitioning),
    /// Each file has a slice of its own, since no bounds are known, for this reason.
    FilePerSlice(Arc<str>),
}

/// A [`DataSource`] whose output partitions are *slices*: sequences of units that are each read in key order.
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
#[derive(Debug, Clone)]
pub struct SortedScan {
    /// Every unit a file group of its own, and the proved orderings declared.
    units: Arc<FileScanConfig>,
    /// The units of each slice, as indices of file groups.
    slices: Arc<[Vec<usize>]>,
    grouping: Grouping,
    /// The indices of table columns of which it is proved that no row is NULL.
    null_free: Arc<[usize]>,
}

/// `scan` with the given units, each a file group of its own, and with no ordering declared.
///
/// One file a group is what makes the orderings that are declared later hold in the eyes of [`FileScanConfig`],
/// which would check them by file statistics that know nothing of NULL and NaN.
pub(crate) fn one_group_per_unit(
    scan: &FileScanConfig,
    units: impl IntoIterator<Item = PartitionedFile>,
) -> FileScanConfig {
    let groups = units
        .into_iter()
        .map(|unit| file_group(vec![unit]))
        .collect();
    FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(groups)
        .with_output_ordering(vec![])
        .with_output_partitioning(None)
        .with_preserve_order(true)
        .build()
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
    /// A scan of `slices` of the file groups of `units`, see [`one_group_per_unit`].
    ///
    /// In each slice, every one of `orderings` must hold within and across its units, and the table columns
    /// `null_free` must have no NULL in any unit.
    pub(crate) fn new(
        units: FileScanConfig,
        slices: Vec<Vec<usize>>,
        orderings: Vec<LexOrdering>,
        null_free: Vec<usize>,
        grouping: Grouping,
    ) -> Self {
        let units = FileScanConfigBuilder::from(units)
            .with_output_ordering(orderings)
            .build();
        Self {
            units: Arc::new(units),
            slices: slices.into(),
            grouping,
            null_free: null_free.into(),
        }
    }

    /// The number of slices, which are the output partitions.
    pub fn slice_count(&self) -> usize {
        self.slices.len()
    }

    /// The files of each slice, in the order they are read.
    pub fn slices(&self) -> impl Iterator<Item = impl Iterator<Item = &PartitionedFile>> {
        let files = |unit: &usize| self.units.file_groups[*unit].iter();
        self.slices
            .iter()
            .map(move |slice| slice.iter().flat_map(files))
    }

    /// The orderings that are declared, in terms of the table's columns.
    pub fn orderings(&self) -> &[LexOrdering] {
        &self.units.output_ordering
    }

    fn builder(&self) -> FileScanConfigBuilder {
        FileScanConfigBuilder::from(self.units.as_ref().clone())
    }

    fn with_units(&self, units: FileScanConfig) -> Self {
        Self {
            units: Arc::new(units),
            ..self.clone()
        }
    }

    /// The same slices as a scan of DataFusion's, one file group each, with no ordering declared.
    fn as_unordered_file_scan(&self) -> FileScanConfig {
        let groups = self
            .slices()
            .map(|files| file_group(files.cloned().collect()))
            .collect();
        self.builder()
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_preserve_order(false)
            .build()
    }

    /// This scan, declaring its orderings with NULL where `order` asks for it.
    ///
    /// A column without NULL is sorted both NULLS FIRST and NULLS LAST, but DataFusion keeps one ordering for each
    /// expression: so one is declared, and the other when it is asked for.
    fn with_null_placement_of(&self, order: &[PhysicalSortExpr]) -> Result<Self> {
        let mut nulls_first = vec![
            None;
            self.units
                .file_source()
                .table_schema()
                .table_schema()
                .fields()
                .len()
        ];
        for sort in order {
            let expr = match self.units.file_source().projection() {
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
        let units = self.builder().with_output_ordering(orderings).build();
        Ok(self.with_units(units))
    }
}

#[deny(clippy::missing_trait_methods)]
impl DataSource for SortedScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(slice) = self.slices.get(partition) else {
            return internal_err!("slice {partition} of {}", self.slices.len());
        };
        Ok(Box::pin(SliceStream::try_new(
            Arc::clone(&self.units),
            slice.clone(),
            context,
        )?))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        self.open(args.partition, args.context)
    }

    /// Nothing is shared between partitions: the state of a file scan is a queue to steal files from.
    fn create_sibling_state(&self, _config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slices = self.slices.len();
        let units = self.slices.iter().map(Vec::len).sum::<usize>();
        let order: Vec<_> = self.orderings().iter().map(|order| show(order)).collect();
        let order = order.join("], [");
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "SortedScan: slices={slices}, units={units}, order=[{order}], "
                )?;
                write!(f, "{}, ", self.grouping)?;
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "slices={slices}")?;
                writeln!(f, "units={units}")?;
                writeln!(f, "order=[{order}]")?;
                writeln!(f, "{}", self.grouping)?;
            }
        }
        DataSource::fmt_as(&self.as_unordered_file_scan(), t, f)
    }

    /// Slices are not cut or joined: that would break their order.
    ///
    /// Files that have no bounds are an exception: byte ranges of one file, each a slice, are in order as the file
    /// is, and nothing is known across them anyway.
    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        if !matches!(self.grouping, Grouping::FilePerSlice(_)) {
            return Ok(None);
        }
        let repartitioned = self.units.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
        )?;
        let Some(source) = repartitioned else {
            return Ok(None);
        };
        let units = as_file_scan(&source)?;
        if units.file_groups.iter().any(|group| group.len() > 1) {
            return Ok(None);
        }
        let slices = (0..units.file_groups.len())
            .map(|unit| vec![unit])
            .collect();
        Ok(Some(Arc::new(Self {
            slices,
            ..self.with_units(units)
        })))
    }

    fn output_partitioning(&self) -> Partitioning {
        match &self.grouping {
            // The file scan knows how to put a partitioning through its projection.
            Grouping::Declared(partitioning) => self
                .builder()
                .with_file_groups(vec![FileGroup::default(); self.slices.len()])
                .with_output_partitioning(Some(partitioning.clone()))
                .build()
                .output_partitioning(),
            Grouping::Strategy { .. } | Grouping::FilePerSlice(_) => {
                Partitioning::UnknownPartitioning(self.slices.len())
            }
        }
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.units.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.units.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let (statistics, partitions) = match partition {
            None => (self.units.partition_statistics(None)?, self.slices.len()),
            Some(slice) => {
                let Some(units) = self.slices.get(slice) else {
                    return internal_err!("slice {slice} of {}", self.slices.len());
                };
                let units = units
                    .iter()
                    .map(|&unit| self.units.partition_statistics(Some(unit)))
                    .collect::<Result<Vec<_>>>()?;
                let schema = self.units.projected_schema()?;
                let statistics =
                    Statistics::try_merge_iter(units.iter().map(Arc::as_ref), &schema)?;
                // A file scan says this of all its partitions, but not of each.
                let filtered = self.units.file_source().filter().is_some();
                let statistics = if filtered {
                    statistics.to_inexact()
                } else {
                    statistics
                };
                (Arc::new(statistics), 1)
            }
        };
        match self.fetch() {
            None => Ok(statistics),
            fetch => Ok(Arc::new(
                Arc::unwrap_or_clone(statistics).with_fetch(fetch, 0, partitions)?,
            )),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let units = self.builder().with_limit(limit).build();
        Some(Arc::new(self.with_units(units)))
    }

    fn fetch(&self) -> Option<usize> {
        self.units.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.units.metrics()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let Some(source) = self.units.try_swapping_with_projection(projection)? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(self.with_units(as_file_scan(&source)?))))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let pushed = self.units.try_pushdown_filters(filters, config)?;
        let updated_node = match &pushed.updated_node {
            None => None,
            Some(source) => Some(Arc::new(self.with_units(as_file_scan(source)?)) as _),
        };
        Ok(FilterPushdownPropagation {
            filters: pushed.filters,
            updated_node,
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        let properties = self.eq_properties();
        if properties.ordering_satisfy(order.iter().cloned())? {
            return Ok(SortOrderPushdownResult::Exact {
                inner: Arc::new(self.clone()),
            });
        }
        let placed = self.with_null_placement_of(order)?;
        if placed
            .eq_properties()
            .ordering_satisfy(order.iter().cloned())?
        {
            return Ok(SortOrderPushdownResult::Exact {
                inner: Arc::new(placed),
            });
        }
        // A sort of rows that are in order of a prefix is cheap: leave it that prefix.
        for prefix in 1..order.len() {
            if properties.ordering_satisfy(order[..prefix].iter().cloned())? {
                return Ok(SortOrderPushdownResult::Unsupported);
            }
        }
        // Below a sort, the order of the slices is worth less than what DataFusion's scan does for the top rows.
        let why = format!("the query asks for the order [{}]", show(order));
        UnorderedScan::new(self.as_unordered_file_scan(), why.into()).try_pushdown_sort(order)
    }

    /// The order of the units is always kept.
    fn with_preserve_order(&self, _preserve_order: bool) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(self.clone()))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.units.apply_expressions(f)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn DataSource>> {
        let source = self.units.with_new_state(state)?;
        let units = as_file_scan(&source).ok()?;
        Some(Arc::new(self.with_units(units)))
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strategy {
                strategy,
                stepped_down: None,
            } => write!(f, "strategy={strategy}"),
            Self::Strategy {
                strategy,
                stepped_down: Some(why),
            } => write!(f, "strategy={strategy}, stepped_down=[{why}]"),
            Self::Declared(_) => f.write_str("strategy=declared_partitioning"),
            Self::FilePerSlice(why) => write!(f, "strategy=file_per_slice, stepped_down=[{why}]"),
        }
    }
}

/// An ordering as SQL has it: the names of columns without their indices.
fn show(ordering: &[PhysicalSortExpr]) -> String {
    let sorts: Vec<_> = ordering.iter().map(show_sort).collect();
    sorts.join(", ")
}

fn show_sort(sort: &PhysicalSortExpr) -> String {
    let options = match (sort.options.descending, sort.options.nulls_first) {
        (false, true) => "ASC",
        (false, false) => "ASC NULLS LAST",
        (true, true) => "DESC",
        (true, false) => "DESC NULLS LAST",
    };
    match sort.expr.downcast_ref::<Column>() {
        Some(column) => format!("{} {options}", column.name()),
        None => format!("{} {options}", sort.expr),
    }
}
