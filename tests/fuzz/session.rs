//! Random sessions.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::{SessionStateBuilderExt, SortedListingConfig};
use object_store::memory::InMemory;

use crate::random::Random;
use crate::register::{Provider, url};
use crate::store::STORE_URL;

/// What differs from the defaults of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    pub(crate) options: Vec<(&'static str, &'static str)>,
    /// The bytes of the memory pool, if it has a limit.
    pub(crate) memory: Option<usize>,
    /// Whether tables have manifests. Each query has a session of its own, so that the later ones find what the first has
    /// written.
    pub(crate) manifests: bool,
}

const PARTITIONS: &str = "datafusion.execution.target_partitions";
const BATCH_SIZE: &str = "datafusion.execution.batch_size";

/// Options, each with its values and in how many of a hundred sessions it is set.
const OPTIONS: [(&str, &[&str], usize); 38] = [
    (BATCH_SIZE, &["1", "2", "3", "16", "64", "1000"], 85),
    (
        "datafusion.execution.parquet.pushdown_filters",
        &["true"],
        50,
    ),
    (
        "datafusion.execution.parquet.reorder_filters",
        &["true"],
        20,
    ),
    (
        "datafusion.execution.parquet.force_filter_selections",
        &["true"],
        10,
    ),
    (
        "datafusion.execution.parquet.enable_page_index",
        &["false"],
        25,
    ),
    ("datafusion.execution.parquet.pruning", &["false"], 10),
    (
        "datafusion.execution.parquet.max_predicate_cache_size",
        &["0", "100"],
        10,
    ),
    (
        "datafusion.execution.parquet.metadata_size_hint",
        &["8", "100"],
        10,
    ),
    ("datafusion.execution.collect_statistics", &["false"], 20),
    (
        "datafusion.execution.split_file_groups_by_statistics",
        &["true"],
        25,
    ),
    (
        "datafusion.execution.enable_file_stream_work_stealing",
        &["false"],
        10,
    ),
    ("datafusion.execution.coalesce_batches", &["false"], 10),
    (
        "datafusion.execution.enable_migration_aggregate",
        &["false"],
        10,
    ),
    (
        "datafusion.execution.sort_pushdown_buffer_capacity",
        &["0", "1000"],
        10,
    ),
    (
        "datafusion.execution.sort_spill_reservation_bytes",
        &["0", "1000"],
        30,
    ),
    (
        "datafusion.optimizer.enable_dynamic_filter_pushdown",
        &["false"],
        15,
    ),
    (
        "datafusion.optimizer.enable_topk_dynamic_filter_pushdown",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.enable_topk_aggregation",
        &["false"],
        15,
    ),
    ("datafusion.optimizer.enable_window_topn", &["true"], 10),
    (
        "datafusion.optimizer.enable_round_robin_repartition",
        &["false"],
        20,
    ),
    ("datafusion.optimizer.enable_sort_pushdown", &["false"], 10),
    ("datafusion.optimizer.prefer_existing_sort", &["true"], 30),
    ("datafusion.optimizer.prefer_existing_union", &["true"], 10),
    ("datafusion.optimizer.prefer_hash_join", &["false"], 35),
    ("datafusion.optimizer.repartition_file_min_size", &["0"], 50),
    (
        "datafusion.optimizer.repartition_file_scans",
        &["false"],
        20,
    ),
    ("datafusion.optimizer.repartition_sorts", &["false"], 15),
    (
        "datafusion.optimizer.subset_repartition_threshold",
        &["1"],
        15,
    ),
    (
        "datafusion.optimizer.preserve_file_partitions",
        &["1", "3"],
        10,
    ),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        &["0"],
        60,
    ),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold",
        &["0"],
        60,
    ),
    ("sorted_listing.range_partitioning", &["off"], 15),
    ("sorted_listing.merge_joins", &["false"], 30),
    ("sorted_listing.split_points_from", &["t"], 25),
    ("sorted_listing.max_merge_fan_in", &["0", "1", "2", "5"], 25),
    ("sorted_listing.strategy", &["best_fit"], 25),
    ("sorted_listing.verify", &["off", "rows", "rows"], 45),
    (
        "sorted_listing.read_ahead_bytes",
        &["0", "1", "2000", "100000"],
        55,
    ),
];

impl Session {
    pub(crate) fn random(random: &mut Random) -> Self {
        let partitions = *random.pick(&["1", "2", "2", "3", "4", "5", "8", "16"]);
        let mut options = vec![(PARTITIONS, partitions)];
        for (option, values, percent) in OPTIONS {
            if random.percent(percent) {
                options.push((option, *random.pick(values)));
            }
        }
        let memory = random.percent(8).then(|| 1 << random.within(12..=21));
        Self {
            options,
            memory,
            manifests: random.percent(25),
        }
    }

    /// Whether an option is set that has this name, without what is in front of it.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.options
            .iter()
            .any(|(option, _)| option.ends_with(name))
    }

    /// A session of DataFusion's own, in which nothing is read side by side.
    pub(crate) fn plain() -> Self {
        Self {
            options: vec![(PARTITIONS, "1")],
            memory: None,
            manifests: false,
        }
    }

    pub(crate) fn context(&self, provider: Provider, store: &Arc<InMemory>) -> SessionContext {
        let mut config = SessionConfig::new();
        let options = config.options_mut();
        options.extensions.insert(SortedListingConfig::default());
        for (option, value) in &self.options {
            options.set(option, value).unwrap();
        }
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(bytes) = self.memory {
            runtime = runtime.with_memory_limit(bytes, 1.0);
        }
        let mut builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.build_arc().unwrap())
            .with_default_features();
        if provider == Provider::Sorted {
            builder = builder.with_sorted_listing();
        }
        let ctx = SessionContext::new_with_state(builder.build());
        let url = url(STORE_URL).object_store();
        ctx.register_object_store(url.as_ref(), Arc::clone(store) as _);
        ctx
    }
}
