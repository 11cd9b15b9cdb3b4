//! A table of sorted files.

mod provider;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::{ScanArgs, Session, TableProvider};
use datafusion::common::{Constraints, Result, SplitPoint, plan_err};
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::cache::cache_manager::FileStatisticsCache;
use datafusion::logical_expr::Expr;

use crate::as_listed::Listing;
use crate::config::SortedListingConfig;
use crate::planner::Planner;
use crate::report::{LayoutReport, survey};
use crate::snapshot::Snapshots;
use crate::split_points::{GivenPoints, split_points_from, split_points_of};
use crate::verification::{VerifyDepth, VerifyProgress, VerifyReport, verify};
use crate::why_not::WhyNot;

/// A table of files that behaves like one sorted table: DataFusion's [`ListingTable`] with its order proved.
///
/// Same files, same SQL, same options. If an order is declared ([`ListingOptions::file_sort_order`], in SQL
/// `WITH ORDER`), or all footers share one, the scan cuts the files into slices along the sort key, one for each
/// partition, and declares the order, so that no sort is needed. Where the order cannot be proved from the footers,
/// the plan is the listing table's for files in no order, and `EXPLAIN` says why.
///
/// Most users have their tables made by SQL, see [`SessionStateBuilderExt`]. In Rust:
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::datasource::file_format::parquet::ParquetFormat;
/// # use datafusion::datasource::listing::{ListingOptions, ListingTableConfig, ListingTableUrl};
/// # use datafusion::error::Result;
/// # use datafusion::prelude::*;
/// use datafusion_sorted_listing::SortedListingTable;
///
/// # async fn register(ctx: &SessionContext) -> Result<()> {
/// let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
///     .with_file_sort_order(vec![vec![col("ts").sort(true, false)]]);
/// let config = ListingTableConfig::new(ListingTableUrl::parse("/data/events/")?)
///     .with_listing_options(options)
///     .infer_schema(&ctx.state())
///     .await?;
/// ctx.register_table("events", Arc::new(SortedListingTable::try_new(config)?))?;
/// # Ok(())
/// # }
/// # use datafusion::datasource::listing::ListingTableConfigExt;
/// ```
///
/// [`SessionStateBuilderExt`]: crate::SessionStateBuilderExt
#[derive(Debug)]
pub struct SortedListingTable {
    listing: ListingTable,
    /// The name that it was made with.
    name: Option<Arc<str>>,
    /// Whether the user chose the statistics cache of `listing`, or that it has none.
    own_cache: bool,
    /// The options to begin with, in place of the session's.
    config: Option<SortedListingConfig>,
    /// Single options on top, by name without prefix.
    overrides: BTreeMap<String, String>,
    /// Where slices are to be cut.
    split_points: Option<Arc<[SplitPoint]>>,
    /// Why the last scan was unordered, so that the log says it once.
    logged: Mutex<Option<Arc<WhyNot>>>,
    snapshots: Arc<Snapshots>,
    /// Whether an expression adapter of the user's decides what the columns of a file become.
    custom_adapter: bool,
}

/// Wraps a table as it is. The statistics cache of the session that scans it takes the place of its own, since
/// whether it has one cannot be seen; [`SortedListingTable::with_cache`] sets another.
impl From<ListingTable> for SortedListingTable {
    fn from(listing: ListingTable) -> Self {
        Self {
            custom_adapter: may_have_adapter(&listing),
            listing,
            name: None,
            own_cache: false,
            config: None,
            overrides: BTreeMap::new(),
            split_points: None,
            logged: Mutex::new(None),
            snapshots: Arc::default(),
        }
    }
}

impl SortedListingTable {
    /// The table of `config`, which needs a schema and options, as [`ListingTable::try_new`] does.
    ///
    /// # Errors
    /// If schema or options are missing, or the declared order names a column that the table does not have.
    pub fn try_new(config: ListingTableConfig) -> Result<Self> {
        let table = Self::from(ListingTable::try_new(config)?);
        table.check_order()?;
        Ok(table)
    }

    /// See [`ListingTable::with_cache`]. Without a call of this, the cache of the session is used.
    pub fn with_cache(mut self, cache: Option<Arc<FileStatisticsCache>>) -> Self {
        self.listing = self.listing.with_cache(cache);
        self.own_cache = true;
        self
    }

    /// See [`ListingTable::with_constraints`].
    pub fn with_constraints(mut self, constraints: Constraints) -> Self {
        self.listing = self.listing.with_constraints(constraints);
        self
    }

    /// See [`ListingTable::with_column_defaults`].
    pub fn with_column_defaults(mut self, column_defaults: HashMap<String, Expr>) -> Self {
        self.listing = self.listing.with_column_defaults(column_defaults);
        self
    }

    /// See [`ListingTable::with_definition`].
    pub fn with_definition(mut self, definition: Option<String>) -> Self {
        self.listing = self.listing.with_definition(definition);
        self
    }

    /// Sets the options of this table, whatever those of the session are.
    pub fn with_config(mut self, config: SortedListingConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Cuts the table into slices at these points, whatever is in its files: slice `i` has the keys from point `i - 1`
    /// on, and before point `i`. Points have values of the first columns of the order, and come in its order.
    ///
    /// Two tables with the same points are co-partitioned: to join them by the key, neither is repartitioned. Rows are
    /// clipped where a file reaches across a point. Where the order or the bounds of files are not proved, or the
    /// points do not suit the order, slices are not cut by them.
    pub fn with_split_points(mut self, points: Vec<SplitPoint>) -> Self {
        self.split_points = Some(points.into());
        self
    }

    /// The points at which the slices of the whole table are cut, to be shared with other tables; `None` if slices do
    /// not own ranges of the key, or there is one only.
    ///
    /// Those are the points given to [`with_split_points`](Self::with_split_points), or those of the table that it takes
    /// them from, if slices can be cut there, or else the ones that the files and the session's `target_partitions` lead
    /// to.
    ///
    /// # Errors
    /// If the files cannot be listed, or a footer cannot be read.
    pub async fn split_points(&self, session: &dyn Session) -> Result<Option<Vec<SplitPoint>>> {
        let config = self.config(session)?;
        let given = self.given_points(session, &config).await;
        self.split_points_given(session, &config, given).await
    }

    /// The same, whatever other table the points are to be taken from.
    pub(crate) async fn own_split_points(
        &self,
        session: &dyn Session,
    ) -> Result<Option<Vec<SplitPoint>>> {
        let config = self.config(session)?;
        let given = self.split_points.clone().map(Ok);
        self.split_points_given(session, &config, given).await
    }

    async fn split_points_given(
        &self,
        session: &dyn Session,
        config: &SortedListingConfig,
        split_points: Option<GivenPoints>,
    ) -> Result<Option<Vec<SplitPoint>>> {
        let listing = self.listing_for(session);
        let planner = Planner {
            split_points,
            ..self.planner(session, &listing, config)
        };
        split_points_of(planner).await
    }

    /// The table to take split points from, if there are none of its own.
    pub(crate) fn takes_points_from(&self, session: &dyn Session) -> Option<String> {
        let config = self.config(session).ok()?;
        config
            .split_points_from
            .filter(|_| self.split_points.is_none())
    }

    async fn given_points(
        &self,
        session: &dyn Session,
        config: &SortedListingConfig,
    ) -> Option<GivenPoints> {
        match (&self.split_points, &config.split_points_from) {
            (Some(points), _) => Some(Ok(Arc::clone(points))),
            (None, Some(table)) => Some(split_points_from(session, table).await),
            (None, None) => None,
        }
    }

    /// A planner that cuts slices where it likes.
    fn planner<'a>(
        &'a self,
        session: &'a dyn Session,
        table: &'a ListingTable,
        config: &'a SortedListingConfig,
    ) -> Planner<'a> {
        Planner {
            session,
            table,
            name: self.name(),
            config,
            split_points: None,
            snapshots: &self.snapshots,
            custom_adapter: self.custom_adapter,
        }
    }

    /// The table that is wrapped, with the statistics cache of the session if it has none of its own.
    fn listing_for(&self, session: &dyn Session) -> Cow<'_, ListingTable> {
        if self.own_cache {
            return Cow::Borrowed(&self.listing);
        }
        let cache = session
            .runtime_env()
            .cache_manager
            .get_file_statistic_cache();
        Cow::Owned(self.listing.clone().with_cache(cache))
    }

    /// Sets single options of this table, by name without prefix; the others stay those of the session.
    pub(crate) fn with_overrides(mut self, overrides: BTreeMap<String, String>) -> Result<Self> {
        SortedListingConfig::default().with_overrides(&overrides)?;
        self.overrides = overrides;
        Ok(self)
    }

    /// The name that errors call the table by, in place of its location.
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// See [`ListingTable::table_paths`].
    pub fn table_paths(&self) -> &[ListingTableUrl] {
        self.listing.table_paths()
    }

    /// See [`ListingTable::options`].
    pub fn options(&self) -> &ListingOptions {
        self.listing.options()
    }

    /// The table that is wrapped.
    pub fn listing_table(&self) -> &ListingTable {
        &self.listing
    }

    /// How the files lie along the sort key, and what a scan with `filters` makes of them: its slices and units, and why
    /// there is no better layout.
    ///
    /// It plans such a scan, so it costs what planning costs: a listing, and the footers that are in no cache.
    ///
    /// ```
    /// # use datafusion::error::Result;
    /// # use datafusion::prelude::*;
    /// # use datafusion_sorted_listing::SortedListingTable;
    /// # async fn show(ctx: &SessionContext, table: &SortedListingTable) -> Result<()> {
    /// let layout = table.layout(&ctx.state(), &[]).await?;
    /// for unit in &layout.units {
    ///     if let Some(bounds) = &unit.bounds {
    ///         println!("{} lies in {bounds}", unit.file);
    ///     }
    /// }
    /// if let Some(why) = &layout.why_not {
    ///     println!("it could be better: {why:#}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As those of planning a scan: where files cannot be listed, or a footer cannot be read.
    pub async fn layout(&self, session: &dyn Session, filters: &[Expr]) -> Result<LayoutReport> {
        let args = ScanArgs::default().with_filters(Some(filters));
        let plan = self.scan_with_args(session, args).await?.into_inner();
        let config = self.config(session)?;
        let listing = self.listing_for(session);
        survey(&self.planner(session, &listing, &config), &plan).await
    }

    /// Whether the files are in the declared order, or if none is declared, in the one that their footers share: for use
    /// before trusting a table. The report names each file that is not.
    ///
    /// ```
    /// # use datafusion::error::Result;
    /// # use datafusion::prelude::*;
    /// # use datafusion_sorted_listing::{SortedListingTable, VerifyDepth};
    /// # async fn show(ctx: &SessionContext, table: &SortedListingTable) -> Result<()> {
    /// let report = table.verify(&ctx.state(), VerifyDepth::Rows).await?;
    /// assert!(report.is_ok(), "{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the files cannot be listed, a footer cannot be read, or there is no order to verify. What goes wrong while rows
    /// are read is in the report.
    pub async fn verify(&self, session: &dyn Session, depth: VerifyDepth) -> Result<VerifyReport> {
        self.verify_with_progress(session, depth, |_| {}).await
    }

    /// As [`verify`](Self::verify), telling `on_progress` of each file whose rows have been read.
    ///
    /// # Errors
    /// As those of [`verify`](Self::verify).
    pub async fn verify_with_progress(
        &self,
        session: &dyn Session,
        depth: VerifyDepth,
        on_progress: impl Fn(VerifyProgress) + Send + Sync,
    ) -> Result<VerifyReport> {
        self.check_order()?;
        let config = self.config(session)?;
        let listing = self.listing_for(session);
        verify(
            &self.planner(session, &listing, &config),
            depth,
            &on_progress,
        )
        .await
    }

    /// Makes the next query list the files, whatever `sorted_listing.snapshot_ttl` and the session's cache of listings
    /// say. What is known of files that have not changed stays known.
    pub fn refresh(&self, session: &dyn Session) {
        Listing::new(&self.listing, &self.snapshots, session, true).forget();
    }

    fn config(&self, session: &dyn Session) -> Result<SortedListingConfig> {
        let of_session = || {
            let extensions = &session.config_options().extensions;
            let mut config = extensions.get::<SortedListingConfig>()?.clone();
            config.manifest = None;
            Some(config)
        };
        let config = self.config.clone().or_else(of_session);
        config.unwrap_or_default().with_overrides(&self.overrides)
    }

    /// A declared order on a missing column is a mistake. [`ListingTable`] would drop it without a word.
    pub(crate) fn check_order(&self) -> Result<()> {
        let schema = self.listing.schema();
        for sort in self.options().file_sort_order.iter().flatten() {
            for column in sort.expr.column_refs() {
                if schema.column_with_name(&column.name).is_none() {
                    let names: Vec<_> = schema
                        .fields()
                        .iter()
                        .map(|field| field.name().as_str())
                        .collect();
                    return plan_err!(
                        "The declared order of the table at {} names the column '{}', which it does not have; \
                         its columns are '{}'",
                        self.location(),
                        column.name,
                        names.join("', '")
                    );
                }
            }
        }
        Ok(())
    }

    /// What errors call the table.
    fn name(&self) -> Arc<str> {
        self.name.clone().unwrap_or_else(|| self.location().into())
    }

    fn location(&self) -> String {
        let paths: Vec<_> = self
            .table_paths()
            .iter()
            .map(|path| path.as_str())
            .collect();
        format!("'{}'", paths.join("', '"))
    }

    /// Says why a scan is unordered, once until that changes: at `warn` if the declared order is false, else at `info`.
    fn log(&self, why_unordered: Option<Arc<WhyNot>>) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &why_unordered
            && why_unordered != *logged
        {
            let level = if matches!(why.as_ref(), WhyNot::FalseOrder { .. }) {
                log::Level::Warn
            } else {
                log::Level::Info
            };
            let location = self.location();
            log::log!(level, "the table at {location} is read unordered: {why}");
        }
        *logged = why_unordered;
    }
}

/// Whether `listing` may have an expression adapter of the user's. It has no other way to tell.
fn may_have_adapter(listing: &ListingTable) -> bool {
    // Its cache may be large, and a text in it has no line breaks.
    let shown = format!("{:#?}", listing.clone().with_cache(None));
    let mut lines = shown.lines();
    !lines.any(|line| line == "    expr_adapter_factory: None,")
}
