//! `sorted_layout('t')` and `sorted_layout_summary('t')`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{
    MemTable, Session, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::common::{Result, ScalarValue, TableReference, plan_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::report::{LayoutReport, summary_batch, summary_schema, units_batch, units_schema};
use crate::table::SortedListingTable;
use crate::table_lookup::{find_table, full_name};

/// The table functions of sorted tables.
pub(crate) fn table_functions() -> [TableFunction; 2] {
    [Show::Units, Show::Summary]
        .map(|show| TableFunction::new(show.name().into(), Arc::new(LayoutFunction(show))))
}

/// What is shown of a layout.
#[derive(Debug, Clone, Copy)]
enum Show {
    Units,
    Summary,
}

impl Show {
    fn name(self) -> &'static str {
        match self {
            Self::Units => "sorted_layout",
            Self::Summary => "sorted_layout_summary",
        }
    }

    fn schema(self) -> SchemaRef {
        match self {
            Self::Units => units_schema(),
            Self::Summary => summary_schema(),
        }
    }

    fn batch(self, report: &LayoutReport) -> Result<RecordBatch> {
        Ok(match self {
            Self::Units => units_batch(report)?,
            Self::Summary => summary_batch(report)?,
        })
    }
}

#[derive(Debug)]
struct LayoutFunction(Show);

impl TableFunctionImpl for LayoutFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let [Expr::Literal(name, _)] = args.exprs() else {
            return self.wrong_arguments();
        };
        match name {
            ScalarValue::Utf8(Some(name))
            | ScalarValue::LargeUtf8(Some(name))
            | ScalarValue::Utf8View(Some(name)) => Ok(Arc::new(LayoutTable {
                table: TableReference::parse_str(name),
                show: self.0,
            })),
            _ => self.wrong_arguments(),
        }
    }
}

impl LayoutFunction {
    fn wrong_arguments(&self) -> Result<Arc<dyn TableProvider>> {
        let name = self.0.name();
        plan_err!("{name} takes the name of a table, as in {name}('events')")
    }
}

/// The layout of a table, looked at anew by each scan: only a scan may wait for footers to be read.
#[derive(Debug)]
struct LayoutTable {
    table: TableReference,
    show: Show,
}

#[async_trait]
impl TableProvider for LayoutTable {
    fn schema(&self) -> SchemaRef {
        self.show.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let name = full_name(session, self.table.clone());
        let Some(table) = find_table(session, &name).await? else {
            return plan_err!("table '{name}' not found");
        };
        let Some(sorted) = table.downcast_ref::<SortedListingTable>() else {
            return plan_err!(
                "{}: the table '{}' is no sorted listing table",
                self.show.name(),
                self.table
            );
        };
        let report = sorted.layout(session, &[]).await?;
        let batch = self.show.batch(&report)?;
        MemTable::try_new(self.schema(), vec![vec![batch]])?
            .scan(session, projection, filters, limit)
            .await
    }
}
