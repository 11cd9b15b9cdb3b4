//! Sorted tables by `CREATE EXTERNAL TABLE`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::config::ConfigExtension;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::listing_table_factory::ListingTableFactory;
use datafusion::logical_expr::CreateExternalTable;

use crate::config::SortedListingConfig;
use crate::diagnosis::name_broken_file;
use crate::table::SortedListingTable;

/// A [`TableProviderFactory`] that makes [`SortedListingTable`]s, of what another factory makes [`ListingTable`]s.
///
/// [`SessionStateBuilderExt::with_sorted_listing`] registers it for every format that a session has.
///
/// Options with the prefix `sorted_listing.` are options of the sorted table, see [`SortedListingConfig`]:
///
/// ```sql
/// CREATE EXTERNAL TABLE events STORED AS PARQUET LOCATION '/data/events/' WITH ORDER (ts)
/// OPTIONS ('sorted_listing.strategy' 'best_fit')
/// ```
///
/// [`SessionStateBuilderExt::with_sorted_listing`]: crate::SessionStateBuilderExt::with_sorted_listing
#[derive(Debug)]
pub struct SortedListingTableFactory {
    inner: Arc<dyn TableProviderFactory>,
}

impl SortedListingTableFactory {
    /// A factory over DataFusion's [`ListingTableFactory`].
    pub fn new() -> Self {
        Self::wrapping(Arc::new(ListingTableFactory::new()))
    }

    /// A factory over `inner`. What it makes is passed on as it is, unless it is a [`ListingTable`].
    pub fn wrapping(inner: Arc<dyn TableProviderFactory>) -> Self {
        Self { inner }
    }
}

impl Default for SortedListingTableFactory {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl TableProviderFactory for SortedListingTableFactory {
    async fn create(
        &self,
        state: &dyn Session,
        cmd: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let prefix = format!("{}.", SortedListingConfig::PREFIX);
        let mut cmd = cmd.clone();
        let mut overrides = BTreeMap::new();
        cmd.options
            .retain(|key, value| match key.strip_prefix(&prefix) {
                Some(key) => {
                    overrides.insert(key.to_owned(), std::mem::take(value));
                    false
                }
                None => true,
            });
        // Before any file is looked at.
        SortedListingConfig::default().with_overrides(&overrides)?;

        let table = match self.inner.create(state, &cmd).await {
            Ok(table) => table,
            Err(e) => return Err(name_broken_file_of(state, &cmd, e).await),
        };
        let listing = match table.downcast_ref::<SortedListingTable>() {
            // A factory over another of these.
            Some(sorted) => Some(sorted.listing_table()),
            None => table.downcast_ref::<ListingTable>(),
        };
        match listing {
            Some(listing) => {
                let table = SortedListingTable::from(listing.clone());
                table.check_order()?;
                let table = table.with_name(cmd.name.to_string());
                Ok(Arc::new(table.with_overrides(overrides)?))
            }
            None if overrides.is_empty() => Ok(table),
            None => plan_err!(
                "The table {} is no listing table, and has no options '{prefix}…'",
                cmd.name
            ),
        }
    }
}

async fn name_broken_file_of(
    state: &dyn Session,
    cmd: &CreateExternalTable,
    error: DataFusionError,
) -> DataFusionError {
    let locations: Vec<_> = cmd
        .locations
        .iter()
        .filter_map(|location| ListingTableUrl::parse(location).ok())
        .collect();
    // Only Parquet files have footers to look at, and the error is Parquet's.
    let format = ParquetFormat::default();
    let extension = if cmd.locations.iter().any(|location| location.ends_with('/')) {
        ".parquet"
    } else {
        ""
    };
    name_broken_file(state, &format, &locations, extension, error).await
}
