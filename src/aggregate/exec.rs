//! The plan node of a grouping of neighbouring rows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, InvariantLevel,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult, StatisticsArgs,
};

use super::groups::Groups;
use super::key_order::KeyOrder;
use super::qualifies::qualifies;
use super::stream::SortedAggregateStream;

/// Groups rows that come in the order of the group key, by comparing each with the one before.
///
/// It takes the place of an [`AggregateExec`] that says `ordering_mode=Sorted`, whose hash table of groups takes most of
/// its time. In all else it is that node: it needs, gives and prints the same. It holds about a batch of groups, which it
/// registers with the memory pool.
///
/// ```text
/// SortedAggregateExec: mode=SinglePartitioned, gby=[ts@0 as ts], aggr=[count(*)], ordering_mode=Sorted
///   DataSourceExec: SortedScan: slices=4, …
/// ```
///
/// Keys that come in another order are an error ([`FalseOrder`](crate::FalseOrder)), unless `sorted_listing.verify` is
/// `off`: then rows of a group that do not come together are several groups.
#[derive(Debug, Clone)]
pub struct SortedAggregateExec {
    inner: Arc<AggregateExec>,
    /// The order that keys have to come in, if that is checked.
    order: Option<KeyOrder>,
    metrics: ExecutionPlanMetricsSet,
}

impl SortedAggregateExec {
    /// In place of `aggregate`, if that is one whose groups come together, and can be told apart by a comparison.
    /// If there is an `order`, rows that come in another are an error.
    pub(crate) fn in_place_of(
        aggregate: &AggregateExec,
        order: Option<KeyOrder>,
    ) -> Result<Option<Self>> {
        Ok(qualifies(aggregate)?.then(|| Self {
            inner: Arc::new(aggregate.clone()),
            order,
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    /// The aggregation that it does.
    pub fn aggregate(&self) -> &AggregateExec {
        &self.inner
    }

    /// A new version of the inner node, in a node like this where that may take its place.
    fn wrapped(&self, inner: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = match inner.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Self::in_place_of(aggregate, self.order.clone())?,
            None => None,
        };
        Ok(match sorted {
            Some(sorted) => Arc::new(sorted),
            None => inner,
        })
    }
}

impl DisplayAs for SortedAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            // What follows begins with `AggregateExec`.
            DisplayFormatType::Default | DisplayFormatType::Verbose => f.write_str("Sorted")?,
            DisplayFormatType::TreeRender => {}
        }
        self.inner.fmt_as(t, f)
    }
}

#[deny(clippy::missing_trait_methods)]
impl ExecutionPlan for SortedAggregateExec {
    fn name(&self) -> &'static str {
        "SortedAggregateExec"
    }

    fn static_name() -> &'static str {
        "SortedAggregateExec"
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        None
    }

    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        self.inner.check_invariants(check)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.dynamic_expressions_produced()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.inner.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.inner.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.wrapped(Arc::clone(&self.inner).replace_children(children, options)?)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn with_new_children_and_same_properties(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        self.replace_children(children, options)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.wrapped(Arc::clone(&self.inner).reset_state()?)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let inner = self.inner.repartitioned(target_partitions, config)?;
        inner.map(|inner| self.wrapped(inner)).transpose()
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_size = context.session_config().batch_size();
        let consumer = MemoryConsumer::new(format!("SortedAggregateExec[{partition}]"));
        let reservation = consumer.register(context.memory_pool());
        Ok(Box::pin(SortedAggregateStream::new(
            self.inner.input().execute(partition, context)?,
            Groups::try_new(&self.inner, self.order.clone(), batch_size)?,
            self.schema(),
            batch_size,
            reservation,
            BaselineMetrics::new(&self.metrics, partition),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    #[expect(deprecated, reason = "all that the inner node answers")]
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.inner.partition_statistics(partition)
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(input_stats, args)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.inner.supports_limit_pushdown()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.inner.with_fetch(limit)
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.inner.cardinality_effect()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        self.inner.try_swapping_with_projection(projection)
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.inner
            .gather_filters_for_pushdown(phase, parent_filters, config)
    }

    // The inner node makes a new one of itself only for a dynamic filter, which it does not have.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        self.inner
            .handle_child_pushdown_result(phase, child_pushdown_result, config)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        self.inner.with_new_state(state)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        self.inner.try_pushdown_sort(order)
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn ExecutionPlan>> {
        self.inner.with_preserve_order(preserve_order)
    }
}
