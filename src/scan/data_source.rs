//! A [`SortedScan`] as DataFusion sees it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};

use super::grouping::Grouping;
use super::order_display::show;
use super::slice_stream::SliceStream;
use super::{SortedScan, UnorderedScan, as_file_scan, some_only_prune};
use crate::config::Verify;
use crate::layout::Slice;
use crate::why_not::WhyNot;

impl SortedScan {
    /// This scan, if it is in `order`, or is with NULL where `order` has it.
    pub(super) fn in_order(&self, order: &[PhysicalSortExpr]) -> Result<Option<Self>> {
        if self
            .eq_properties()
            .ordering_satisfy(order.iter().cloned())?
        {
            return Ok(Some(self.clone()));
        }
        let placed = self.with_null_placement_of(order)?;
        let satisfied = placed
            .eq_properties()
            .ordering_satisfy(order.iter().cloned())?;
        Ok(satisfied.then_some(placed))
    }

    /// The most runs of any slice, if some has several.
    fn runs_to_merge(&self) -> Option<usize> {
        let runs = self.slices.iter().map(|slice| slice.runs.len()).max();
        runs.filter(|&runs| runs > 1)
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
            self.clone(),
            partition,
            slice,
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
        let units = self.units.len();
        let order: Vec<_> = self.orderings().iter().map(|order| show(order)).collect();
        let order = order.join("], [");
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "SortedScan: slices={slices}, units={units}, order=[{order}], "
                )?;
                write!(f, "{}, ", self.grouping)?;
                if let Some(runs) = self.runs_to_merge() {
                    write!(f, "runs={runs}, ")?;
                }
                if let Some(finer) = &self.finer {
                    write!(f, "on_demand=[{}], ", show(&finer.orderings[0]))?;
                }
                if let Some(why) = self.why_not_in_ranges() {
                    write!(f, "no_ranges=[{why}], ")?;
                }
                if self.is_clipped() {
                    write!(f, "clipped={}, ", self.clipped_units())?;
                }
                if self.reversed {
                    f.write_str("reversed, ")?;
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "slices={slices}")?;
                writeln!(f, "units={units}")?;
                writeln!(f, "order=[{order}]")?;
                writeln!(f, "{}", self.grouping)?;
                if let Some(runs) = self.runs_to_merge() {
                    writeln!(f, "runs={runs}")?;
                }
                if let Some(finer) = &self.finer {
                    writeln!(f, "on_demand=[{}]", show(&finer.orderings[0]))?;
                }
                if let Some(why) = self.why_not_in_ranges() {
                    writeln!(f, "no_ranges=[{why}]")?;
                }
                if self.is_clipped() {
                    writeln!(f, "clipped={}", self.clipped_units())?;
                }
                if self.reversed {
                    writeln!(f, "reversed")?;
                }
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
        let joined = self
            .slices
            .iter()
            .any(|slice| slice.runs.concat().len() > 1);
        let owned = self.ranges.is_some();
        if declared || joined || owned || self.reversed || !self.ranges_are_runs() {
            return Ok(None);
        }
        let repartitioned = self.scan_of_each().repartitioned(
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
        let slices = (0..units.len())
            .map(|unit| Slice {
                runs: vec![vec![unit]],
            })
            .collect();
        Ok(Some(Arc::new(self.with_slices(units, slices))))
    }

    fn output_partitioning(&self) -> Partitioning {
        match self.partitioning() {
            // The file scan knows how to put a partitioning through its projection.
            Some(partitioning) => self
                .builder()
                .with_file_groups(vec![FileGroup::default(); self.slices.len()])
                .with_output_partitioning(Some(partitioning))
                .build()
                .output_partitioning(),
            None => Partitioning::UnknownPartitioning(self.slices.len()),
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
        let limited = Self {
            fetch: limit,
            ..self.clone()
        };
        Some(Arc::new(limited.with_limit_of_units()))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
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
        let swapped = self.with_file_scan(as_file_scan(&source)?);
        // A merge needs its key, and a clip the beginning of it.
        let columns = |scan: &Self| scan.merge_key().map_or(0, |key| key.ordering().len());
        // Nor can rows be checked by columns that are not read.
        let needs_key = self.is_merged() || self.options.verify == Verify::Rows;
        let loses_key = needs_key && columns(&swapped) != columns(self)
            || columns(&swapped) < self.clipped_columns();
        Ok((!loses_key).then(|| Arc::new(swapped) as _))
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
        let only_prune = some_only_prune(&pushed);
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
        if let Some(scan) = self.in_order(order)? {
            return Ok(SortOrderPushdownResult::Exact {
                inner: Arc::new(scan),
            });
        }
        // The rows within a limit are those that come first in this order, not in another.
        if self.fetch().is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        if let Some(scan) = self.put_in_order(order)? {
            return Ok(SortOrderPushdownResult::Exact {
                inner: Arc::new(scan),
            });
        }
        let properties = self.eq_properties();
        // A sort of rows that are in order of a prefix is cheap: leave it that prefix.
        for prefix in 1..order.len() {
            if properties.ordering_satisfy(order[..prefix].iter().cloned())? {
                return Ok(SortOrderPushdownResult::Unsupported);
            }
        }
        // What is above may count on the ranges of the slices, and DataFusion's scan cannot read them.
        if self.is_clipped() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        // Below a sort, the order of the slices is worth less than what DataFusion's scan does for the top rows.
        let why = Arc::new(WhyNot::OtherOrder { order: show(order) });
        UnorderedScan::new(self.as_unordered_file_scan(), why).try_pushdown_sort(order)
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
