//! A scan of files that were listed here, as DataFusion's table would plan it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::{TableSchema, TableSchemaBuilder};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use parquet::file::metadata::ParquetMetaData;

use crate::footers::FooterReader;
use crate::scan_files::ScanFiles;
use crate::select::Selection;
use crate::snapshot::Snapshot;

/// Some files of a snapshot, to be scanned.
pub(crate) struct ListedScan<'a> {
    pub(crate) session: &'a dyn Session,
    pub(crate) table: &'a ListingTable,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) selection: &'a Selection,
}

impl ListedScan<'_> {
    /// The files, as DataFusion would list them.
    pub(crate) async fn files(&self, reader: &FooterReader) -> Result<ScanFiles> {
        let footers = self.footers(reader).await?;
        ScanFiles::of_snapshot(
            self.snapshot,
            self.selection.files(),
            self.table,
            self.session.config().collect_statistics(),
            |file| match self.snapshot.footer(file) {
                Some(footer) => Some(Arc::clone(footer)),
                None => footers.get(&file).cloned(),
            },
        )
    }

    /// The footers that the snapshot does not hold, as far as they are in the session's cache, or so few that reading them
    /// here, for the query to find them there, costs it nothing.
    async fn footers(&self, reader: &FooterReader) -> Result<HashMap<usize, Arc<ParquetMetaData>>> {
        let meta = |file: usize| &self.snapshot.files()[file].meta;
        let mut footers = HashMap::new();
        let mut missing = vec![];
        for &file in self.selection.files() {
            if self.snapshot.footer(file).is_none() {
                match reader.cached(meta(file)) {
                    Some(footer) => {
                        footers.insert(file, footer);
                    }
                    None => missing.push(file),
                }
            }
        }
        if missing.len() <= reader.concurrency() {
            let read: Vec<_> = missing
                .iter()
                .map(|&file| reader.read(meta(file).clone()))
                .collect();
            let read: Vec<_> = stream::iter(read)
                .buffered(reader.concurrency())
                .try_collect()
                .await?;
            footers.extend(missing.into_iter().zip(read));
        }
        Ok(footers)
    }

    /// The scan of files that have these statistics together, without the files.
    pub(crate) async fn file_scan(
        &self,
        statistics: Statistics,
        args: &ScanArgs<'_>,
    ) -> Result<FileScanConfig> {
        let format = &self.table.options().format;
        let source = format.file_source(self.snapshot.table().clone());
        let constraints = self.table.constraints().cloned().unwrap_or_default();
        let scan = FileScanConfigBuilder::new(self.store_url(), source)
            .with_constraints(constraints)
            .with_statistics(statistics)
            .with_projection_indices(args.projection().map(<[usize]>::to_vec))?
            .with_limit(args.limit())
            .build();
        // The format has things to add.
        let plan = format.create_physical_plan(self.session, scan).await?;
        match file_scan(&plan) {
            Some(scan) => Ok(scan.clone()),
            None => internal_err!("the plan of a scan is {plan:?}"),
        }
    }

    fn store_url(&self) -> ObjectStoreUrl {
        let path = self.table.table_paths().first();
        path.map_or_else(
            ObjectStoreUrl::local_filesystem,
            ListingTableUrl::object_store,
        )
    }

    /// The statistics of `files` together.
    pub(crate) fn statistics(&self, files: &ScanFiles) -> Result<Statistics> {
        let schema = self.table.schema();
        if !self.session.config().collect_statistics() {
            return Ok(Statistics::new_unknown(&schema));
        }
        let merged = || {
            let files = files.as_listed();
            let statistics = files.filter_map(|file| file.statistics.as_deref());
            Statistics::try_merge_iter(statistics, &schema)
        };
        if self.selection.is_whole() {
            return self.snapshot.whole_statistics(merged);
        }
        let statistics = merged()?;
        Ok(match self.selection.is_limited() {
            true => statistics.to_inexact(),
            false => statistics,
        })
    }

    /// The file groups that the table would put `files` into if it declared no order.
    pub(crate) fn file_groups(&self, files: &ScanFiles) -> Result<Vec<FileGroup>> {
        let files = files.as_listed().cloned().collect();
        file_groups(files, self.session, &self.table.schema())
    }
}

/// `scan` with these file groups.
pub(crate) fn with_groups(scan: &FileScanConfig, groups: Vec<FileGroup>) -> FileScanConfig {
    FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(groups)
        .build()
}

/// File groups of `files`, as many as there are partitions.
pub(crate) fn file_groups(
    files: Vec<PartitionedFile>,
    session: &dyn Session,
    schema: &Schema,
) -> Result<Vec<FileGroup>> {
    let groups = FileGroup::new(files).split_files(session.config().target_partitions());
    if !session.config().collect_statistics() {
        return Ok(groups);
    }
    let with_statistics = |group: FileGroup| {
        let files = group.iter().filter_map(|file| file.statistics.as_deref());
        let statistics = Statistics::try_merge_iter(files, schema)?;
        Ok(group.with_statistics(Arc::new(statistics)))
    };
    groups.into_iter().map(with_statistics).collect()
}

/// The file scan that is all of a plan.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?
        .data_source()
        .downcast_ref::<FileScanConfig>()
}

/// The columns of a table: those of its files, and those of its partitions.
pub(crate) fn table_schema(table: &ListingTable) -> TableSchema {
    let schema = table.schema();
    let partition_columns = &table.options().table_partition_cols;
    let of_files = schema.fields().len() - partition_columns.len();
    let fields = schema.fields()[..of_files].to_vec();
    let files = Schema::new_with_metadata(fields, schema.metadata().clone());
    let partition_fields = partition_columns
        .iter()
        .map(|(name, data_type)| Arc::new(Field::new(name, data_type.clone(), false)));
    TableSchemaBuilder::new(Arc::new(files))
        .with_table_partition_cols(partition_fields.collect::<Vec<_>>())
        .build()
}
