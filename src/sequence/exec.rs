//! The plan node of a sequence.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, EvaluationType, SchedulingType,
};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child, update_ordering};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions, StatisticsArgs, apply_expression_roots,
};

use super::Overlap;
use super::inputs::Inputs;
use super::read_ahead::ReadAhead;
use super::scan::sorted_scan_below;
use super::stream::SequenceStream;
use crate::config::Verify;
use crate::merge::{BoundedMerge, MergeKey, MergeOptions, Seams};

/// Emits the partitions of its input one after another, in order, without a comparison of rows.
///
/// It takes the place of a `SortPreservingMergeExec` over partitions that each lie wholly at or before the next. Where
/// they overlap, they are in several runs, and rows are compared in the stretches in which runs overlap. The
/// partitions that come next are read ahead by tasks of their own, up to `target_partitions` of them at a time, and
/// their batches are buffered under one budget of bytes (`sorted_listing.read_ahead_bytes`), which is registered with
/// the memory pool. Where that refuses, less is read ahead, down to none. The partition being emitted always makes
/// progress. What is not counted is one batch of each partition that is being read, and the buffers of its reader.
///
/// Where many partitions overlap, their readers hold more than the budget: a row group each, with its dictionaries. If the
/// rows take no more than that, they are decoded at once, beyond the budget, and the reader lets go of the rest. That is
/// counted too, and done only as long as half of the memory pool is left, and where all rows are asked for.
///
/// ```text
/// SequenceExec: [ts@0 ASC NULLS LAST], inputs=64
///   DataSourceExec: SortedScan: slices=64, …
/// ```
///
/// Metrics: `inputs_total`, `inputs_opened`, `read_ahead_peak_bytes`, and `rows_merged`, which are the rows that were
/// copied where runs overlap, besides rows and time.
#[derive(Debug, Clone)]
pub struct SequenceExec {
    input: Arc<dyn ExecutionPlan>,
    /// The order of the output, as far as its columns show it.
    ordering: Option<LexOrdering>,
    /// How partitions overlap, if they do.
    overlap: Option<Overlap>,
    fetch: Option<usize>,
    read_ahead_bytes: usize,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl SequenceExec {
    /// A sequence of the partitions of `input`, each of which is in `ordering`, and lies wholly at or before the next,
    /// or if there is an `overlap`, at or before the next of its run.
    ///
    /// This is not checked; [`SequenceSlices`](crate::SequenceSlices) proves it.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        ordering: Option<LexOrdering>,
        overlap: Option<Overlap>,
        fetch: Option<usize>,
        read_ahead_bytes: usize,
    ) -> Self {
        let properties = Arc::new(Self::compute_properties(&input, overlap.as_ref()));
        Self {
            input,
            ordering,
            overlap,
            fetch,
            read_ahead_bytes,
            metrics: ExecutionPlanMetricsSet::new(),
            properties,
        }
    }

    /// The input, whose partitions are emitted one after another.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn compute_properties(
        input: &Arc<dyn ExecutionPlan>,
        overlap: Option<&Overlap>,
    ) -> PlanProperties {
        let mut equivalences = input.equivalence_properties().clone();
        equivalences.clear_per_partition_constants();
        if let Some(overlap) = overlap {
            // A merge keeps the order that it compares by, and no other that its inputs may have.
            equivalences.clear_orderings();
            equivalences.add_ordering(overlap.key.ordering().clone());
        }
        PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        )
        .with_evaluation_type(EvaluationType::Eager)
        .with_scheduling_type(SchedulingType::Cooperative)
    }

    /// What is checked where inputs meet, if the scan below is checked.
    fn seams(&self) -> Result<Option<Seams>> {
        let verify =
            sorted_scan_below(&self.input).map_or(Verify::Off, |scan| scan.options().verify);
        let key = match (&self.overlap, &self.ordering) {
            (Some(overlap), _) => Some(overlap.key.clone()),
            (None, Some(ordering)) => Some(MergeKey::new(ordering.clone(), false)),
            (None, None) => None,
        };
        let runs = self.overlap.as_ref().map_or(1, |it| it.runs.len());
        match key.filter(|_| verify != Verify::Off) {
            Some(key) => Seams::try_new(&key, runs, &self.schema()),
            None => Ok(None),
        }
    }

    /// For each input, how many bytes may be decoded at once, if all rows are asked for: a quarter more than they are
    /// thought to take, since arrays have spare room.
    fn at_once(&self) -> Vec<usize> {
        let overlap = self.overlap.as_ref().filter(|_| self.fetch.is_none());
        let bytes = |input: usize| {
            let bytes = overlap.and_then(|overlap| overlap.at_once.get(input));
            let bytes = bytes.map_or(0, |bytes| bytes.saturating_add(bytes / 4));
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        (0..self.inputs()).map(bytes).collect()
    }

    fn inputs(&self) -> usize {
        self.input.output_partitioning().partition_count()
    }
}

impl DisplayAs for SequenceExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = self.inputs();
        let ordering = self
            .ordering
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "SequenceExec: [{ordering}], inputs={inputs}")?;
                if let Some(overlap) = &self.overlap {
                    write!(f, ", runs={}", overlap.runs.len())?;
                }
                if let Some(fetch) = self.fetch {
                    write!(f, ", fetch={fetch}")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "order=[{ordering}]")?;
                writeln!(f, "inputs={inputs}")?;
                if let Some(overlap) = &self.overlap {
                    writeln!(f, "runs={}", overlap.runs.len())?;
                }
                if let Some(fetch) = self.fetch {
                    writeln!(f, "limit={fetch}")?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for SequenceExec {
    fn name(&self) -> &'static str {
        "SequenceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.ordering.clone().map(OrderingRequirements::from)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.ordering.iter().flatten().map(|sort| &sort.expr), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("SequenceExec has one child");
        };
        let mut new = Self::clone(&self);
        new.metrics = ExecutionPlanMetricsSet::new();
        if matches!(
            options.children_properties,
            ChildrenPropertiesMode::Recompute
        ) {
            new.properties = Arc::new(Self::compute_properties(&input, new.overlap.as_ref()));
        }
        new.input = input;
        Ok(Arc::new(new))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("SequenceExec has one partition, not a partition {partition}");
        }
        let inputs = self.inputs();
        let metrics = MetricBuilder::new(&self.metrics);
        metrics.counter("inputs_total", partition).add(inputs);
        let peak =
            MetricBuilder::new(&self.metrics).peak_memory_usage("read_ahead_peak_bytes", partition);
        let read_ahead = ReadAhead::new(
            self.read_ahead_bytes,
            self.at_once(),
            context.memory_pool(),
            peak,
        );
        let options = MergeOptions {
            batch_size: context.session_config().batch_size(),
            fetch: self.fetch,
            // As many again wait for a core, so that it has the next at hand: the merge goes on only when the first ends.
            tasks: 2 * context.session_config().target_partitions(),
            reservation: MemoryConsumer::new("SequenceExec merge").register(context.memory_pool()),
        };
        let seams = self.seams()?;
        let inputs = Inputs::new(
            Arc::clone(&self.input),
            context,
            self.overlap.as_ref(),
            read_ahead,
            self.fetch,
            MetricBuilder::new(&self.metrics).counter("inputs_opened", partition),
            seams,
        );
        let key = self.overlap.as_ref().map(|overlap| overlap.key.clone());
        let schema = self.schema();
        Ok(Box::pin(cooperative(SequenceStream {
            merge: BoundedMerge::try_new(inputs, key, &schema, options)?,
            schema,
            rows_merged: MetricBuilder::new(&self.metrics).counter("rows_merged", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        })))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let statistics = Statistics::clone(&input_stats[0]);
        Ok(Arc::new(statistics.with_fetch(self.fetch, 0, 1)?))
    }

    // A limit below would be one for each input. Not `supports_limit_pushdown`, which would move it there.
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut new = self.clone();
        new.fetch = limit;
        new.metrics = ExecutionPlanMetricsSet::new();
        Some(Arc::new(new))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        match self.fetch {
            None => CardinalityEffect::Equal,
            Some(_) => CardinalityEffect::LowerEqual,
        }
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if projection.expr().len() >= self.schema().fields().len() {
            return Ok(None);
        }
        let projected = |ordering: &LexOrdering| {
            let updated = update_ordering(ordering.clone(), projection.expr())?;
            Ok::<_, DataFusionError>(updated.filter(|updated| updated.len() == ordering.len()))
        };
        let ordering = match &self.ordering {
            None => None,
            Some(ordering) => match projected(ordering)? {
                None => return Ok(None),
                ordering => ordering,
            },
        };
        let overlap = match &self.overlap {
            None => None,
            Some(overlap) => match projected(overlap.key.ordering())? {
                None => return Ok(None),
                Some(ordering) => Some(overlap.with_ordering(ordering)),
            },
        };
        let input = make_with_child(projection, &self.input)?;
        Ok(Some(Arc::new(Self::new(
            input,
            ordering,
            overlap,
            self.fetch,
            self.read_ahead_bytes,
        ))))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // Filters may not pass a limit.
        if self.fetch.is_some() {
            return Ok(FilterDescription::all_unsupported(
                &parent_filters,
                &self.children(),
            ));
        }
        FilterDescription::from_children(parent_filters, &self.children())
    }
}
