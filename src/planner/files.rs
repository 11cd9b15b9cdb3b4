//! What the planner knows of the files of its table.

use std::sync::Arc;

use datafusion::catalog::ScanArgs;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::physical_expr::LexOrdering;
use object_store::ObjectStore;

use super::Planner;
use crate::as_listed::Listing;
use crate::config::Verify;
use crate::footers::FooterReader;
use crate::listed_scan::table_schema;
use crate::scan_files::ScanFiles;
use crate::snapshot::{Indexer, Listed, ManifestUrl, Snapshot, SnapshotError};

impl Planner<'_> {
    pub(super) fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        let path = self.table.table_paths().first();
        let path = path.ok_or_else(|| internal_datafusion_err!("a table without paths"))?;
        self.session.runtime_env().object_store(path)
    }

    /// The listing that files are to be as in.
    pub(super) fn listing(&self) -> Listing {
        let checks = self.config.verify != Verify::Off;
        Listing::new(self.table, self.snapshots, self.session, checks)
    }

    /// `scan`, which reads files as they were listed.
    pub(crate) fn as_listed(&self, scan: FileScanConfig) -> Result<FileScanConfig> {
        // Other formats may have readers of their own.
        match self.table.options().format.is::<ParquetFormat>() {
            true => self.listing().scan(scan, self.session.runtime_env()),
            false => Ok(scan),
        }
    }

    pub(super) fn held(&self) -> Result<Option<Arc<Snapshot>>> {
        Ok(self.snapshots.of_store(&self.store()?))
    }

    fn indexer(&self, declared: &[LexOrdering]) -> Result<Result<Indexer, String>> {
        let format = self.table.options().format.as_ref();
        let schema = table_schema(self.table);
        let reader =
            FooterReader::try_new(self.session, format, self.store()?, Some(self.listing()));
        let reader = match reader {
            Ok(reader) => reader,
            Err(why) => return Ok(Err(why)),
        };
        // What an adapter of the user's makes of files may be another thing in the next session.
        let url = self
            .config
            .manifest
            .as_ref()
            .filter(|_| !self.custom_adapter);
        let manifest = url.map(|url| ManifestUrl::new(url, self.session));
        Ok(Ok(Indexer::new(
            reader,
            self.table,
            schema,
            declared.to_vec(),
            self.custom_adapter,
            manifest,
        )))
    }

    /// The files of the table now, and what is known of them.
    async fn snapshot(&self, declared: &[LexOrdering]) -> Result<Arc<Snapshot>, SnapshotError> {
        let indexer = self.indexer(declared)?.map_err(DataFusionError::Plan)?;
        let ttl = self.config.snapshot_ttl;
        self.snapshots
            .current(self.session, &self.store()?, self.table, &indexer, ttl)
            .await
    }

    /// The files of the table now; `None` if some cannot be looked at, which filters on partitions or a limit may rule out.
    /// Then the table itself looks only at the files that are left.
    pub(super) async fn snapshot_for(
        &self,
        args: &ScanArgs<'_>,
        declared: &[LexOrdering],
    ) -> Result<Option<Arc<Snapshot>>> {
        let are_all = args.limit().is_none() && self.partition_filters(args).is_empty();
        match self.snapshot(declared).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(SnapshotError::File(e)) if !are_all => {
                log::warn!(
                    "of the table {}, only the files that are asked for are looked at, each time anew: {}",
                    self.name,
                    e.strip_backtrace()
                );
                Ok(None)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The files of `scan`, a scan of the table's own, and what is known of them.
    ///
    /// # Errors
    /// If one of them cannot be looked at, and they are all of the table. Of some, the query may come to its end before.
    pub(crate) async fn files_of(
        &self,
        scan: &FileScanConfig,
        declared: &[LexOrdering],
        is_whole: bool,
    ) -> Result<ScanFiles> {
        let indexer = match self.indexer(declared)? {
            Ok(indexer) => indexer,
            Err(why) => return Ok(ScanFiles::unknown(scan, &why.into())),
        };
        let files = scan.file_groups.iter().flat_map(FileGroup::iter);
        let listing = files.map(|file| Listed::of(file, self.table)).collect();
        let store = self.store()?;
        let looked_at = self
            .snapshots
            .of_listing(&store, listing, &indexer, is_whole);
        match looked_at.await {
            Ok(snapshot) => Ok(ScanFiles::of_listed(scan, &snapshot)),
            Err(SnapshotError::File(e)) if !is_whole => {
                let why = e.strip_backtrace();
                Ok(ScanFiles::unknown(scan, &why.into()))
            }
            Err(e) => Err(e.into()),
        }
    }
}
