//! Tables in sessions.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::Result;
use datafusion::logical_expr::SortExpr;
use datafusion::prelude::{SessionContext, col};
use datafusion_sorted_listing::{SortedListingConfig, SortedListingTable};

use crate::store::{STORE_URL, batches, file_schema};
use crate::table::{Column, Declared, Table};

/// Whose table it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Sorted,
    /// DataFusion's, with the same declared order.
    Stock,
    /// DataFusion's, with no declared order.
    Unordered,
}

pub(crate) fn url(url: &str) -> ListingTableUrl {
    ListingTableUrl::parse(url).unwrap()
}

/// Registers the files in the folder `name` as the table `name`.
pub(crate) async fn register(
    ctx: &SessionContext,
    name: &str,
    table: &Table,
    provider: Provider,
    with_manifest: bool,
) -> Result<()> {
    let manifest = with_manifest.then(|| format!("{STORE_URL}manifest/{name}"));
    let manifest = manifest.filter(|_| provider == Provider::Sorted);
    if table.declared == Declared::Ddl && provider != Provider::Unordered {
        let options = manifest.map(|url| format!(" OPTIONS ('sorted_listing.manifest' '{url}')"));
        let ddl = ddl(name, table) + &options.unwrap_or_default();
        ctx.sql(&ddl).await?.collect().await?;
        return Ok(());
    }
    let parquet = ctx.state().default_table_options().parquet;
    let format = ParquetFormat::default().with_options(parquet);
    let mut options = ListingOptions::new(Arc::new(format)).with_file_extension(".parquet");
    if let Some((_, column)) = table.hive_column() {
        let partition = (column.name.clone(), column.data_type.clone());
        options = options.with_table_partition_cols(vec![partition]);
    }
    if table.declared != Declared::Footers && provider != Provider::Unordered {
        let order = table.key().iter().map(sort_expr).collect();
        options = options.with_file_sort_order(vec![order]);
    }
    let config =
        ListingTableConfig::new(url(&format!("{STORE_URL}{name}/"))).with_listing_options(options);
    let config = match table.declared {
        Declared::Ddl => config.infer_schema(&ctx.state()).await?,
        _ => config.with_schema(Arc::new(file_schema(table))),
    };
    let provider: Arc<dyn TableProvider> = match provider {
        Provider::Sorted => {
            let extensions = ctx.copied_config().options().extensions.clone();
            let mut options = extensions.get::<SortedListingConfig>().unwrap().clone();
            options.manifest = manifest;
            Arc::new(SortedListingTable::try_new(config)?.with_config(options))
        }
        Provider::Stock | Provider::Unordered => {
            let cache = ctx.runtime_env().cache_manager.get_file_statistic_cache();
            Arc::new(ListingTable::try_new(config)?.with_cache(cache))
        }
    };
    ctx.register_table(name, provider)?;
    Ok(())
}

fn sort_expr(column: &Column) -> SortExpr {
    col(&column.name).sort(!column.options.descending, column.options.nulls_first)
}

pub(crate) fn ddl(name: &str, table: &Table) -> String {
    let order: Vec<_> = table.key().iter().map(order_text).collect();
    format!(
        "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{STORE_URL}{name}/' \
         WITH ORDER ({})",
        order.join(", ")
    )
}

pub(crate) fn order_text(column: &Column) -> String {
    let direction = if column.options.descending {
        "DESC"
    } else {
        "ASC"
    };
    let nulls = if column.options.nulls_first {
        "FIRST"
    } else {
        "LAST"
    };
    format!("{} {direction} NULLS {nulls}", column.name)
}

/// Registers the rows of a table, from memory.
pub(crate) fn register_rows(
    ctx: &SessionContext,
    name: &str,
    table: &Table,
    schema: &SchemaRef,
) -> Result<()> {
    let rows = MemTable::try_new(Arc::clone(schema), vec![batches(table, schema)])?;
    ctx.register_table(name, Arc::new(rows))?;
    Ok(())
}
