//! Tables on disk, sessions over them, and queries.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_sorted_listing::{SequenceExec, SessionStateBuilderExt, SortedListingTable};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

/// A folder of Parquet files, gone when dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with one file for each of `files`, named in an order that is not theirs.
    pub(crate) fn of_keys(files: impl IntoIterator<Item = ArrayRef>) -> Self {
        let folder = Self::new();
        for (index, keys) in files.into_iter().enumerate() {
            folder.write(&shuffled_name(index), &batch([("k", keys)]));
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn location(&self) -> String {
        format!("{}/", self.path().display())
    }

    pub(crate) fn write(&self, name: &str, batch: &RecordBatch) {
        self.write_with(name, batch, WriterProperties::builder().build());
    }

    pub(crate) fn write_with(&self, name: &str, batch: &RecordBatch, properties: WriterProperties) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, parquet_bytes(batch, properties)).unwrap();
    }

    /// The statement that makes the table `t` of this folder.
    pub(crate) fn ddl(&self, order: &str) -> String {
        let location = self.location();
        format!(
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}' WITH ORDER ({order})"
        )
    }
}

/// The name of the `index`th file, whose place in a listing says nothing.
pub(crate) fn shuffled_name(index: usize) -> String {
    format!("{:02}-{index}.parquet", (index * 37 + 11) % 64)
}

/// A Parquet file of `batch`.
pub(crate) fn parquet_bytes(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Makes the table `t`, which is sorted, list its files anew.
pub(crate) async fn refresh(ctx: &SessionContext) {
    let table = ctx.table_provider("t").await.unwrap();
    let table = table.downcast_ref::<SortedListingTable>().unwrap();
    table.refresh(&ctx.state());
}

/// The [names](shuffled_name) of these files, sorted.
pub(crate) fn shuffled_names(files: impl IntoIterator<Item = usize>) -> Vec<String> {
    let mut names: Vec<_> = files.into_iter().map(shuffled_name).collect();
    names.sort_unstable();
    names
}

pub(crate) fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// Properties for files with `rows` rows in each row group.
pub(crate) fn row_groups_of(rows: usize) -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows))
        .build()
}

/// What differs between sessions.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) partitions: usize,
    pub(crate) options: Vec<(&'static str, String)>,
    /// The bytes of the memory pool, if it has a limit.
    memory: Option<usize>,
}

impl Session {
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            partitions,
            options: vec![],
            memory: None,
        }
    }

    pub(crate) fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    pub(crate) fn set(
        mut self,
        option: &'static str,
        value: impl std::fmt::Display + Copy,
    ) -> Self {
        self.options.push((option, value.to_string()));
        self
    }

    /// With caches that hold nothing, so that what is not read again is what the table knows.
    pub(crate) fn without_caches(self) -> Self {
        [
            "datafusion.runtime.metadata_cache_limit",
            "datafusion.runtime.list_files_cache_limit",
            "datafusion.runtime.file_statistics_cache_limit",
        ]
        .into_iter()
        .fold(self, |session, cache| session.set(cache, "0K"))
    }

    fn builder(&self) -> SessionStateBuilder {
        // Small files would be read by one partition otherwise, and small batches hide less.
        let config = SessionConfig::new()
            .with_target_partitions(self.partitions)
            .with_batch_size(64);
        let mut runtime = RuntimeEnvBuilder::new();
        if let Some(bytes) = self.memory {
            runtime = runtime.with_memory_limit(bytes, 1.0);
        }
        SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.build_arc().unwrap())
            .with_default_features()
    }

    /// A session that makes sorted tables.
    pub(crate) async fn sorted(&self) -> SessionContext {
        self.with_options(self.builder().with_sorted_listing())
            .await
    }

    /// A session of DataFusion's own, without our options.
    pub(crate) async fn stock(&self) -> SessionContext {
        self.with_options(self.builder()).await
    }

    async fn with_options(&self, builder: SessionStateBuilder) -> SessionContext {
        let ctx = SessionContext::new_with_state(builder.build());
        let known = ctx
            .state()
            .config_options()
            .extensions
            .get::<datafusion_sorted_listing::SortedListingConfig>()
            .is_some();
        for (option, value) in &self.options {
            if known || option.starts_with("datafusion.") {
                run(&ctx, &format!("SET {option} = '{value}'")).await;
            }
        }
        ctx
    }
}

pub(crate) async fn try_run(
    ctx: &SessionContext,
    sql: &str,
) -> datafusion::error::Result<Vec<RecordBatch>> {
    ctx.sql(sql).await?.collect().await
}

pub(crate) async fn run(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    try_run(ctx, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The rows of a query, each as its values joined by a space.
pub(crate) async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let format = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in run(ctx, sql).await {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &format).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values: Vec<_> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            values.join(" ")
        }));
    }
    rows
}

/// The error of a statement.
pub(crate) async fn error(ctx: &SessionContext, sql: &str) -> String {
    match try_run(ctx, sql).await {
        Ok(batches) => panic!("{sql} gave {batches:?}"),
        Err(e) => e.to_string(),
    }
}

pub(crate) async fn physical_plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let query = ctx.sql(sql).await.unwrap();
    query.create_physical_plan().await.unwrap()
}

/// The physical plan of a query, with folders left out of paths.
pub(crate) async fn plan(ctx: &SessionContext, folder: &Folder, sql: &str) -> String {
    let plan = physical_plan(ctx, sql).await;
    let plan = datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string();
    let folder = folder.location();
    plan.replace(folder.trim_start_matches('/'), "")
}

pub(crate) fn int64(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(arrow::array::Int64Array::from_iter_values(values))
}

/// The sequence in a plan, if it has one.
pub(crate) fn sequence_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.is::<SequenceExec>() {
        return Some(plan);
    }
    plan.children().into_iter().find_map(sequence_of)
}

/// A metric of the sequence in a plan.
pub(crate) fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let metrics = sequence_of(plan).unwrap().metrics().unwrap();
    metrics
        .sum_by_name(name)
        .unwrap_or_else(|| panic!("{name} in {metrics}"))
        .as_usize()
}
