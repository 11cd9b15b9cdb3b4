//! The scan of a sorted table: slices of units, each read in key order.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
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
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use parquet::file::metadata::ParquetMetaData;

use super::grouping::Grouping;
use super::order_display::show;
use super::slice_stream::SliceStream;
use super::{UnorderedScan, as_file_scan};

/// A unit of a scan.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// The file, or the part of it that is read.
    pub(crate) file: PartitionedFile,
    /// The footer of the file, if it is Parquet.
    pub(crate) footer: Footer,
}

type Footer = Option<Arc<ParquetMetaData>>;

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
    pub(super) file_scan: Arc<FileScanConfig>,
    /// The footer of each unit.
    pub(super) footers: Arc<[Footer]>,
    /// The units of each slice, as indices of file groups.
    pub(super) slices: Arc<[Vec<usize>]>,
    grouping: Grouping,
    /// The indices of table columns of which it is proved that no row is NULL.
    null_free: Arc<[usize]>,
    /// Whether some filter of the file scan only prunes, and lets rows through that do not match.
    filters_only_prune: bool,
}

/// `scan` with each of `units` a file group of its own, and with `orderings` declared.
///
/// One file a group is what makes the orderings hold in the eyes of [`FileScanConfig`], which would check them by
/// file statistics that know nothing of NULL and NaN.
fn one_group_per_unit(
    scan: &FileScanConfig,
    units: Vec<Unit>,
    orderings: Vec<LexOrdering>,
) -> (FileScanConfig, Vec<Footer>) {
    let (groups, footers) = units
        .into_iter()
        .map(|unit| (file_group(vec![unit.file]), unit.footer))
        .unzip();
    let scan = FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(groups)
        .with_output_ordering(orderings)
        .with_output_partitioning(None)
        .with_preserve_order(true)
        .build();
    (scan, footers)
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
    /// In each slice, every one of `orderings` must hold within and across its units, and the table columns
    /// `null_free` must have no NULL in any unit. In slices by [`Strategy::Contiguous`](crate::Strategy::Contiguous), the orderings must hold
    /// across slices too.
    pub(crate) fn new(
        scan: &FileScanConfig,
        units: Vec<Unit>,
        slices: Vec<Vec<usize>>,
        orderings: Vec<LexOrdering>,
        null_free: Vec<usize>,
        grouping: Grouping,
    ) -> Self {
        let (file_scan, footers) = one_group_per_unit(scan, units, orderings);
        Self {
            file_scan: Arc::new(file_scan),
            footers: footers.into(),
            slices: slices.into(),
            grouping,
            null_free: null_free.into(),
            filters_only_prune: false,
        }
    }

    /// The same scan of other units in other slices.
    pub(super) fn with_slices(&self, units: Vec<Unit>, slices: Vec<Vec<usize>>) -> Self {
        let orderings = self.orderings().to_vec();
        let (file_scan, footers) = one_group_per_unit(&self.file_scan, units, orderings);
        Self {
            footers: footers.into(),
            slices: slices.into(),
            ..self.with_file_scan(file_scan)
        }
    }

    /// Whether slice after slice is in each of the declared orderings, as a whole.
    pub(crate) fn is_one_run(&self) -> bool {
        self.grouping.is_one_run()
    }

    /// The number of slices, which are the output partitions.
    pub fn slice_count(&self) -> usize {
        self.slices.len()
    }

    /// The files of each slice, in the order they are read.
    pub fn slices(&self) -> impl Iterator<Item = impl Iterator<Item = &PartitionedFile>> {
        let files = |unit: &usize| self.file_scan.file_groups[*unit].iter();
        self.slices
            .iter()
            .map(move |slice| slice.iter().flat_map(files))
    }

    /// The orderings that are declared, in terms of the table's columns.
    pub fn orderings(&self) -> &[LexOrdering] {
        &self.file_scan.output_ordering
    }

    fn builder(&self) -> FileScanConfigBuilder {
        FileScanConfigBuilder::from(self.file_scan.as_ref().clone())
    }

    fn with_file_scan(&self, file_scan: FileScanConfig) -> Self {
        Self {
            file_scan: Arc::new(file_scan),
            ..self.clone()
        }
    }

    /// The same slices as a scan of DataFusion's, one file group each, with no ordering declared.
    fn as_unordered_file_scan(&self) -> FileScanConfig {
        let groups = self
            .slices()
            .map(|files| file_group(files.cloned().collect()))
            .collect();
        let partitioning = match &self.grouping {
            Grouping::Declared(partitioning) => Some(partitioning.clone()),
            Grouping::Strategy { .. } | Grouping::FilePerSlice(_) => None,
        };
        self.builder()
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_output_partitioning(partitioning)
            .with_preserve_order(false)
            .build()
    }

    /// What is known of the order and the equality of columns without regard to filters.
    fn unfiltered_properties(&self) -> Result<EquivalenceProperties> {
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

    /// The statistics of the units of a slice, if there were no limit.
    fn slice_statistics(&self, slice: usize) -> Result<Statistics> {
        let Some(units) = self.slices.get(slice) else {
            return internal_err!("slice {slice} of {}", self.slices.len());
        };
        let units = units
            .iter()
            .map(|&unit| self.file_scan.partition_statistics(Some(unit)))
            .collect::<Result<Vec<_>>>()?;
        let schema = self.file_scan.projected_schema()?;
        let statistics = Statistics::try_merge_iter(units.iter().map(Arc::as_ref), &schema)?;
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
    fn with_null_placement_of(&self, order: &[PhysicalSortExpr]) -> Result<Self> {
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
        let placed = self.builder().with_output_ordering(orderings).build();
        Ok(self.with_file_scan(placed))
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
            Arc::clone(&self.file_scan),
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

    /// Slices of several units are not cut or joined: that would break their order.
    ///
    /// Where there are fewer units than partitions, they are cut into byte ranges as DataFusion does it, each a slice:
    /// these are in order as their files are, and stay in the order of the slices.
    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let declared = matches!(self.grouping, Grouping::Declared(_));
        if declared || self.slices.iter().any(|slice| slice.len() > 1) {
            return Ok(None);
        }
        let repartitioned = self.file_scan.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
        )?;
        let Some(source) = repartitioned else {
            return Ok(None);
        };
        let groups = as_file_scan(&source)?.file_groups;
        if groups.iter().any(|group| group.len() > 1) {
            return Ok(None);
        }
        let ranges = groups.into_iter().flat_map(FileGroup::into_inner).collect();
        let units = self.ranges_in_order(ranges)?;
        let slices = (0..units.len()).map(|unit| vec![unit]).collect();
        Ok(Some(Arc::new(self.with_slices(units, slices))))
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
        if self.filters_only_prune {
            // A file scan takes its filter for true of all its rows.
            self.unfiltered_properties().unwrap_or_else(|_| {
                let schema = self.file_scan.projected_schema();
                EquivalenceProperties::new(schema.unwrap_or_else(|_| Arc::new(Schema::empty())))
            })
        } else {
            self.file_scan.eq_properties()
        }
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.file_scan.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let statistics = match partition {
            None => self.file_scan.partition_statistics(None)?,
            Some(slice) => Arc::new(self.slice_statistics(slice)?),
        };
        let Some(fetch) = self.fetch() else {
            return Ok(statistics);
        };
        let partitions = if partition.is_some() {
            1
        } else {
            self.slices.len()
        };
        let limited = Arc::unwrap_or_clone(statistics).with_fetch(Some(fetch), 0, partitions)?;
        // A slice may have fewer rows than the limit, and the others no more for that.
        Ok(Arc::new(if partitions == 1 {
            limited
        } else {
            limited.to_inexact()
        }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let limited = self.builder().with_limit(limit).build();
        Some(Arc::new(self.with_file_scan(limited)))
    }

    fn fetch(&self) -> Option<usize> {
        self.file_scan.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.file_scan.metrics()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let Some(source) = self.file_scan.try_swapping_with_projection(projection)? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(self.with_file_scan(as_file_scan(&source)?))))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        // A filter above a limit may not see other rows than the limit lets through.
        if self.fetch().is_some() {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(
                vec![PushedDown::No; filters.len()],
            ));
        }
        let pushed = self.file_scan.try_pushdown_filters(filters, config)?;
        let only_prune = pushed
            .filters
            .iter()
            .any(|pushed| matches!(pushed, PushedDown::No));
        let updated_node = match &pushed.updated_node {
            None => None,
            Some(source) => Some(Arc::new(Self {
                filters_only_prune: self.filters_only_prune || only_prune,
                ..self.with_file_scan(as_file_scan(source)?)
            }) as _),
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
        // The rows within a limit are those that come first in this order, not in another.
        if self.fetch().is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
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
        self.file_scan.apply_expressions(f)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn DataSource>> {
        let source = self.file_scan.with_new_state(state)?;
        let file_scan = as_file_scan(&source).ok()?;
        Some(Arc::new(self.with_file_scan(file_scan)))
    }
}
