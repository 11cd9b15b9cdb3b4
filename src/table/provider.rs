//! The table as DataFusion sees it.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{Constraints, DFSchemaRef, Result, Statistics};
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::SortedListingTable;
use crate::invalidating_sink::invalidating;
use crate::planner::Planner;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableProvider for SortedListingTable {
    fn schema(&self) -> SchemaRef {
        self.listing.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.listing.constraints()
    }

    fn table_type(&self) -> TableType {
        self.listing.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.listing.get_table_definition()
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        self.listing.get_logical_plan()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.listing.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let args = ScanArgs::default()
            .with_projection(projection.map(Vec::as_slice))
            .with_filters(Some(filters))
            .with_limit(limit);
        Ok(self.scan_with_args(state, args).await?.into_inner())
    }

    async fn scan_with_args<'a>(
        &self,
        state: &dyn Session,
        args: ScanArgs<'a>,
    ) -> Result<ScanResult> {
        let config = self.config(state)?;
        let listing = self.listing_for(state);
        let planner = self.planner(state, &listing, &config);
        if !config.enabled {
            return Ok(ScanResult::new(planner.stock_plan(args).await?));
        }
        self.check_order()?;
        let planner = Planner {
            split_points: self.given_points(state, &config).await,
            ..planner
        };
        let planned = planner.plan(args).await?;
        self.log(planned.why_unordered);
        Ok(ScanResult::new(planned.plan))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.listing.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.listing.statistics()
    }

    // The futures of the listing table are passed on as they are. To wrap them in futures of our own, as `async fn`
    // does, would make the compiler prove for each that `Expr` is `Send`, which takes it many seconds.

    fn insert_into<'s, 'c, 't>(
        &'s self,
        state: &'c dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> BoxFuture<'t, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 't,
        's: 't,
        'c: 't,
    {
        let plan = self.listing.insert_into(state, input, insert_op);
        async move {
            let believes_listings = self.config(state)?.snapshot_ttl.is_some();
            let plan = plan.await?;
            self.snapshots.invalidate();
            Ok(match believes_listings {
                true => invalidating(plan, Arc::clone(&self.snapshots)),
                false => plan,
            })
        }
        .boxed()
    }

    fn delete_from<'s, 'c, 't>(
        &'s self,
        state: &'c dyn Session,
        filters: Vec<Expr>,
    ) -> BoxFuture<'t, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 't,
        's: 't,
        'c: 't,
    {
        self.listing.delete_from(state, filters)
    }

    fn update<'s, 'c, 't>(
        &'s self,
        state: &'c dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> BoxFuture<'t, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 't,
        's: 't,
        'c: 't,
    {
        self.listing.update(state, assignments, filters)
    }

    fn truncate<'s, 'c, 't>(
        &'s self,
        state: &'c dyn Session,
    ) -> BoxFuture<'t, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 't,
        's: 't,
        'c: 't,
    {
        self.listing.truncate(state)
    }

    fn merge_into<'s, 'c, 't>(
        &'s self,
        state: &'c dyn Session,
        source: Arc<dyn ExecutionPlan>,
        merge_schema: DFSchemaRef,
        on: Expr,
        clauses: Vec<MergeIntoClause>,
    ) -> BoxFuture<'t, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 't,
        's: 't,
        'c: 't,
    {
        self.listing
            .merge_into(state, source, merge_schema, on, clauses)
    }
}
