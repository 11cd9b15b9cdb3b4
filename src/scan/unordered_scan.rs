//! DataFusion's file scan, with the reason why it is not a sorted one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};

use super::offer::Offer;
use super::order_display::show;
use super::{SortedScan, some_only_prune};
use crate::why_not::WhyNot;

/// A [`FileScanConfig`] that `EXPLAIN` shows with the reason why its files are in no order.
///
/// All else is the file scan's own, but that a query may take up the order that is offered.
#[derive(Debug, Clone)]
pub(crate) struct UnorderedScan {
    pub(super) files: Arc<dyn DataSource>,
    pub(super) why: Arc<WhyNot>,
    /// The order that it can be put into when a query asks for it.
    pub(super) offer: Option<Arc<Offer>>,
    /// See [`SortedScan`](super::SortedScan).
    filters_only_prune: bool,
}

impl UnorderedScan {
    pub(crate) fn new(files: FileScanConfig, why: Arc<WhyNot>) -> Self {
        Self {
            files: Arc::new(files),
            why,
            offer: None,
            filters_only_prune: false,
        }
    }

    pub(crate) fn with_offer(mut self, offer: Arc<Offer>) -> Self {
        self.offer = Some(offer);
        self
    }

    /// The scan that it becomes where a query asks for the order that it has on demand, if it has one.
    pub(crate) fn offered(&self) -> Result<Option<SortedScan>> {
        // The rows within a limit are not those that come first in this order.
        let Some(offer) = self.offer.as_ref().filter(|_| self.fetch().is_none()) else {
            return Ok(None);
        };
        let sorted = offer.take_up(&self.file_scan()?);
        Ok(sorted.map(|sorted| sorted.with_filters_only_prune(self.filters_only_prune)))
    }

    fn with_files(&self, files: Arc<dyn DataSource>) -> Arc<dyn DataSource> {
        Arc::new(Self {
            files,
            ..self.clone()
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl DataSource for UnorderedScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.files.open(partition, context)
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        self.files.open_with_args(args)
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        self.files.create_sibling_state(config)
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "UnorderedScan: why=[{}], ", self.why)?;
                if let Some(offer) = &self.offer {
                    write!(f, "on_demand=[{}], ", show(&offer.ordering))?;
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "unordered={}", self.why)?;
                if let Some(offer) = &self.offer {
                    writeln!(f, "on_demand=[{}]", show(&offer.ordering))?;
                }
            }
        }
        self.files.fmt_as(t, f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let files = self.files.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
        )?;
        Ok(files.map(|files| self.with_files(files)))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.files.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.files.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.files.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.files.partition_statistics(partition)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.files
            .with_fetch(limit)
            .map(|files| self.with_files(files))
    }

    fn fetch(&self) -> Option<usize> {
        self.files.fetch()
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.files.metrics()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let files = self.files.try_swapping_with_projection(projection)?;
        Ok(files.map(|files| self.with_files(files)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let pushed = self.files.try_pushdown_filters(filters, config)?;
        let only_prune = some_only_prune(&pushed);
        Ok(FilterPushdownPropagation {
            filters: pushed.filters,
            updated_node: pushed.updated_node.map(|files| {
                Arc::new(Self {
                    files,
                    filters_only_prune: self.filters_only_prune || only_prune,
                    ..self.clone()
                }) as _
            }),
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        if let Some(sorted) = self.offered()? {
            let pushed = sorted.try_pushdown_sort(order)?;
            if matches!(pushed, SortOrderPushdownResult::Exact { .. }) {
                return Ok(pushed);
            }
        }
        // What reads files in an order of its own cannot be put into that of the offer any more.
        let without_offer = |files| {
            Arc::new(Self {
                files,
                offer: None,
                ..self.clone()
            }) as _
        };
        Ok(self.files.try_pushdown_sort(order)?.map(without_offer))
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn DataSource>> {
        self.files
            .with_preserve_order(preserve_order)
            .map(|files| self.with_files(files))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.files.apply_expressions(f)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn DataSource>> {
        self.files
            .with_new_state(state)
            .map(|files| self.with_files(files))
    }
}
