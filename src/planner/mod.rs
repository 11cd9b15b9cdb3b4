//! From the files of a table to the plan of a scan.

mod files;

use std::sync::Arc;

use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{DataFusionError, Result, project_schema};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{LexOrdering, Partitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use crate::arrange::{Arranged, Arrangement};
use crate::config::{SortedListingConfig, Verify};
use crate::diagnosis::name_broken_file;
use crate::footers::{FooterReader, readable};
use crate::kept_layouts::{Kept, KeptLayout, LayoutKey};
use crate::key_columns::{with_columns, with_key_columns};
use crate::keys::{any_file_has_order, sort_keys};
use crate::listed_scan::{ListedScan, file_groups, file_scan, with_groups};
use crate::scan::{Offer, ReadOptions, SortedScan, UnorderedScan};
use crate::scan_files::ScanFiles;
use crate::select::{Selection, split};
use crate::snapshot::{KnownFile, Snapshot, Snapshots};
use crate::split_points::GivenPoints;
use crate::statistics::without_doubtful;
use crate::why_not::WhyNot;

/// Plans the scans of one table in one session.
pub(crate) struct Planner<'a> {
    pub(crate) session: &'a dyn Session,
    pub(crate) table: &'a ListingTable,
    /// What errors call it.
    pub(crate) name: Arc<str>,
    pub(crate) config: &'a SortedListingConfig,
    /// Where slices are to be cut, if the user has a say.
    pub(crate) split_points: Option<GivenPoints>,
    pub(crate) snapshots: &'a Arc<Snapshots>,
    /// Whether an expression adapter of the user's decides what the columns of a file become.
    pub(crate) custom_adapter: bool,
}

/// The plan of a scan.
pub(crate) struct Planned {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Why the scan is unordered although an order is declared, if it is so.
    pub(crate) why_unordered: Option<Arc<WhyNot>>,
}

impl From<Arc<dyn ExecutionPlan>> for Planned {
    fn from(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            plan,
            why_unordered: None,
        }
    }
}

impl Planner<'_> {
    /// A [`SortedScan`](crate::SortedScan), if the declared order is proved, and an [`UnorderedScan`] if not. Where no
    /// order is declared or claimed, the plan is the table's own.
    pub(crate) async fn plan(&self, args: ScanArgs<'_>) -> Result<Planned> {
        let declared = self
            .table
            .try_create_output_ordering(self.session.execution_props(), &[])?;
        let mut plans_itself = self.plans_itself(&args);
        let Some(projection) = args
            .projection()
            .filter(|_| self.config.verify == Verify::Rows)
        else {
            return self.plan_reading(args, declared, plans_itself).await;
        };
        // Each row is checked by its whole key, whatever the query reads of it.
        let mut orderings = declared.clone();
        if orderings.is_empty() && plans_itself {
            let snapshot = self.snapshot_for(&args, &declared).await?;
            plans_itself = snapshot.is_some();
            let files = snapshot.iter().flat_map(|snapshot| snapshot.files());
            let mut claimed = files.map(|file| LexOrdering::new(file.claimed().to_vec()));
            orderings.extend(claimed.find_map(|order| order));
        }
        let with_key = with_key_columns(projection, &orderings);
        let args = args.clone().with_projection(Some(&with_key));
        let planned = self.plan_reading(args, declared, plans_itself).await?;
        if with_key.len() == projection.len() {
            return Ok(planned);
        }
        Ok(Planned {
            plan: with_columns(planned.plan, 0..projection.len())?,
            ..planned
        })
    }

    /// The plan of a scan that reads the columns of `args`.
    async fn plan_reading(
        &self,
        args: ScanArgs<'_>,
        declared: Vec<LexOrdering>,
        plans_itself: bool,
    ) -> Result<Planned> {
        // Without a declared order, a snapshot is there if footers claimed one before, or is to be had without them.
        let has_snapshot = || {
            let held = self.held()?;
            Ok::<_, DataFusionError>(held.is_some() || self.config.manifest.is_some())
        };
        let mut plans_itself = plans_itself;
        if plans_itself && (!declared.is_empty() || has_snapshot()?) {
            let claims = |file: &Arc<KnownFile>| !file.claimed().is_empty();
            match self.snapshot_for(&args, &declared).await? {
                Some(snapshot) if !declared.is_empty() || snapshot.files().iter().any(claims) => {
                    return self.plan_of(&snapshot, declared, &args).await;
                }
                found => plans_itself = found.is_some(),
            }
        }
        let stock = self.stock_plan(args.clone()).await?;
        let Some(scan) = file_scan(&stock) else {
            return Ok(stock.into());
        };
        if declared.is_empty() && !any_file_has_order(scan) {
            return Ok(stock.into());
        }
        if plans_itself && let Some(snapshot) = self.snapshot_for(&args, &declared).await? {
            return self.plan_of(&snapshot, declared, &args).await;
        }
        let scan = self.as_listed(without_doubtful(scan).into_owned())?;
        let scan = &scan;
        let is_whole = args.limit().is_none() && self.partition_filters(&args).is_empty();
        let files = self.files_of(scan, &declared, is_whole).await?;
        if files.files().is_empty() {
            return Ok(stock.into());
        }
        let arranged = match self.arranged(&files, declared, scan)? {
            Arranged::Ordered(sorted) => sorted.into(),
            Arranged::Unordered(why, offer) => unordered(
                self.without_order(scan)?,
                &Arc::new(why),
                offer.map(Arc::new),
            ),
        };
        Ok(arranged)
    }

    /// Whether scans are planned from a snapshot, and not out of the plan that the table itself makes.
    ///
    /// The table knows better how to group files by a declared partitioning or by partition columns, and how to list
    /// only the folders of some partitions.
    fn plans_itself(&self, args: &ScanArgs<'_>) -> bool {
        let options = self.table.options();
        let config = self.session.config_options();
        let grouped = config.optimizer.preserve_file_partitions > 0
            && !options.table_partition_cols.is_empty();
        let caches = &self.session.runtime_env().cache_manager;
        let lists_folders =
            caches.get_list_files_cache().is_none() && !self.partition_filters(args).is_empty();
        readable(options.format.as_ref()).is_ok()
            && options.output_partitioning.is_none()
            && !self.custom_adapter
            && !grouped
            && !lists_folders
            && !self.table.table_paths().is_empty()
            && config.execution.target_partitions > 0
    }

    fn partition_filters(&self, args: &ScanArgs<'_>) -> Vec<Expr> {
        split(self.table, args.filters().unwrap_or_default()).0
    }

    /// The plan of the table itself. An error of a footer names its file.
    pub(crate) async fn stock_plan(&self, args: ScanArgs<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let options = self.table.options();
        match self.table.scan_with_args(self.session, args).await {
            Ok(plan) => Ok(plan.into_inner()),
            Err(e) => Err(name_broken_file(
                self.session,
                options.format.as_ref(),
                self.table.table_paths(),
                &options.file_extension,
                e,
            )
            .await),
        }
    }

    /// How rows are read.
    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            table: Arc::clone(&self.name),
            read_ahead_bytes: self.config.read_ahead_bytes,
            verify: self.config.verify,
        }
    }

    /// The plan of a scan of `snapshot`.
    async fn plan_of(
        &self,
        snapshot: &Snapshot,
        declared: Vec<LexOrdering>,
        args: &ScanArgs<'_>,
    ) -> Result<Planned> {
        let filters = args.filters().unwrap_or_default();
        let selection = Selection::new(self.session, self.table, snapshot, filters, args.limit())?;
        if selection.files().is_empty() {
            let schema = self.table.schema();
            let projection = args.projection().map(<[usize]>::to_vec);
            let schema = project_schema(&schema, projection.as_ref())?;
            let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema));
            return Ok(plan.into());
        }
        let footers = FooterReader::try_new(
            self.session,
            self.table.options().format.as_ref(),
            self.store()?,
            Some(self.listing()),
        )
        .map_err(DataFusionError::Plan)?;
        let listed = ListedScan {
            session: self.session,
            table: self.table,
            snapshot,
            selection: &selection,
        };
        let key = selection
            .is_whole()
            .then(|| self.layout_key(snapshot, args));
        if let Some(kept) = key.as_ref().and_then(|key| snapshot.layouts().get(key)) {
            let scan = listed.file_scan(kept.statistics.clone(), args).await?;
            return Ok(planned(&kept.arranged, &self.as_listed(scan)?));
        }
        let files = listed.files(&footers).await?;
        let statistics = listed.statistics(&files)?;
        let scan = listed.file_scan(statistics.clone(), args).await?;
        let scan = self.as_listed(scan)?;
        if files.files().is_empty() {
            let unordered = with_groups(&scan, listed.file_groups(&files)?);
            let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(unordered);
            return Ok(plan.into());
        }
        let arranged = match self.arranged(&files, declared, &scan)? {
            Arranged::Ordered(sorted) => Kept::Ordered(Box::new(sorted)),
            Arranged::Unordered(why, offer) => Kept::Unordered {
                why: Arc::new(why),
                offer: offer.map(Arc::new),
                groups: listed.file_groups(&files)?,
            },
        };
        let planned = planned(&arranged, &scan);
        if let Some(key) = key {
            let layout = KeptLayout {
                arranged,
                statistics,
                files: snapshot.files().len(),
            };
            snapshot.layouts().keep(key, Arc::new(layout));
        }
        Ok(planned)
    }

    /// What the layout of all files of `snapshot` depends on.
    fn layout_key(&self, snapshot: &Snapshot, args: &ScanArgs<'_>) -> LayoutKey {
        let table = snapshot.table();
        let of_files = table.file_schema().fields().len();
        let all: Vec<_> = (0..table.table_schema().fields().len()).collect();
        let columns = args.projection().unwrap_or(&all).iter().copied();
        let may_be_of_key =
            |column: &usize| *column >= of_files || snapshot.ranges().of_column(*column).is_some();
        let mut key_columns: Vec<_> = columns.filter(may_be_of_key).collect();
        key_columns.sort_unstable();
        LayoutKey {
            config: self.config.clone(),
            split_points: self.split_points.clone(),
            target_partitions: self.session.config().target_partitions(),
            collects_statistics: self.session.config().collect_statistics(),
            key_columns,
        }
    }

    /// How `scan` can read `files`.
    fn arranged(
        &self,
        files: &ScanFiles,
        declared: Vec<LexOrdering>,
        scan: &FileScanConfig,
    ) -> Result<Arranged> {
        match sort_keys(files, declared) {
            Ok(keys) => Arrangement {
                planner: self,
                scan,
                scan_files: files,
            }
            .arrange(keys),
            Err(why) => Ok(Arranged::Unordered(why, None)),
        }
    }

    /// The partitioning that the table's plan has, if it is true.
    ///
    /// What the user declares is. With `preserve_file_partitions`, DataFusion groups files by the values of their
    /// partition columns; but with `split_file_groups_by_statistics` it then mixes the groups, and 55.2 declares the
    /// partitioning all the same.
    pub(crate) fn partitioning<'s>(&self, scan: &'s FileScanConfig) -> Option<&'s Partitioning> {
        let partitioning = scan.output_partitioning.as_ref()?;
        let mixed = self.table.options().output_partitioning.is_none()
            && self
                .session
                .config_options()
                .execution
                .split_file_groups_by_statistics;
        (!mixed).then_some(partitioning)
    }

    /// `scan` as the table would plan it for the same files if it declared no order.
    fn without_order(&self, scan: &FileScanConfig) -> Result<FileScanConfig> {
        let mut groups = scan.file_groups.clone();
        let options = &self.session.config_options().execution;
        let partitioning = self.partitioning(scan).cloned();
        if options.split_file_groups_by_statistics && partitioning.is_none() {
            // They may have been put into order, and out of balance.
            let files = groups.into_iter().flat_map(FileGroup::into_inner).collect();
            groups = file_groups(files, self.session, &self.table.schema())?;
        }
        Ok(FileScanConfigBuilder::from(scan.clone())
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_output_partitioning(partitioning)
            .with_preserve_order(false)
            .build())
    }
}

impl From<SortedScan> for Planned {
    fn from(sorted: SortedScan) -> Self {
        let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(sorted);
        plan.into()
    }
}

/// The plan of `scan`, arranged like that.
fn planned(arranged: &Kept, scan: &FileScanConfig) -> Planned {
    match arranged {
        Kept::Ordered(sorted) => sorted.read_as(scan).into(),
        Kept::Unordered { why, offer, groups } => {
            unordered(with_groups(scan, groups.clone()), why, offer.clone())
        }
    }
}

fn unordered(scan: FileScanConfig, why: &Arc<WhyNot>, offer: Option<Arc<Offer>>) -> Planned {
    let mut unordered = UnorderedScan::new(scan, Arc::clone(why));
    if let Some(offer) = offer {
        unordered = unordered.with_offer(offer);
    }
    Planned {
        plan: DataSourceExec::from_data_source(unordered),
        why_unordered: Some(Arc::clone(why)),
    }
}
