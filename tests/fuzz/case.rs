//! Running one case.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;

use crate::compare::{Answer, difference};
use crate::known::is_refused_upstream;
use crate::query::Query;
use crate::register::{Provider, register, register_rows};
use crate::session::Session;
use crate::store::write_table;
use crate::table::Table;

/// The tables `t` and perhaps `u`.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) t: Table,
    pub(crate) u: Option<Table>,
}

impl Tables {
    fn named(&self) -> impl Iterator<Item = (&'static str, &Table)> {
        std::iter::once(("t", &self.t)).chain(self.u.as_ref().map(|u| ("u", u)))
    }

    pub(crate) async fn write(&self) -> Arc<InMemory> {
        let store = InMemory::new();
        for (name, table) in self.named() {
            write_table(&store, name, table).await;
        }
        Arc::new(store)
    }

    /// A session with the tables as files.
    pub(crate) async fn of_files(
        &self,
        session: &Session,
        provider: Provider,
        store: &Arc<InMemory>,
    ) -> Result<SessionContext> {
        let ctx = session.context(provider, store);
        for (name, table) in self.named() {
            let with_manifest = session.manifests;
            register(&ctx, name, table, provider, with_manifest).await?;
        }
        Ok(ctx)
    }

    /// A plain session with the rows of the tables, in the types that they have in `files`.
    pub(crate) async fn of_rows(&self, files: &SessionContext) -> Result<SessionContext> {
        let ctx = Session::plain().context(Provider::Stock, &Arc::new(InMemory::new()));
        for (name, table) in self.named() {
            let provider: Arc<dyn TableProvider> = files.table_provider(name).await?;
            let schema: SchemaRef = provider.schema();
            register_rows(&ctx, name, table, &schema)?;
        }
        Ok(ctx)
    }
}

/// How a case ended.
pub(crate) enum Outcome {
    Right {
        plan: String,
    },
    /// For want of memory, where there is little.
    OutOfMemory,
    /// DataFusion cannot do it.
    Refused(DataFusionError),
    Wrong(Failure),
}

#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) what: String,
    pub(crate) plan: String,
    pub(crate) found: String,
    pub(crate) right: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Answer,
    Error,
    Panic,
    Hang,
}

const PATIENCE: Duration = Duration::from_secs(30);

/// The right answer to a query, from rows in memory.
pub(crate) async fn right_answer(rows: &SessionContext, query: &Query) -> Result<Answer> {
    let (rows, query) = (rows.clone(), query.clone());
    let task = tokio::spawn(async move {
        let frame = rows.sql(&query.wide_sql()).await?;
        let frame = frame.with_param_values(query.params)?;
        let schema = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await?;
        Ok(Answer::new(schema, &batches, query.order.len()))
    });
    // Some functions panic at the ends of a type, such as `date_trunc`.
    task.await
        .map_err(|panic| DataFusionError::Execution(panic.to_string()))?
}

/// Runs a query over files, and compares its answer.
pub(crate) async fn check(files: &SessionContext, query: &Query, right: &Answer) -> Outcome {
    let plan = Arc::new(std::sync::Mutex::new(String::new()));
    let task = tokio::spawn(answer(files.clone(), query.clone(), Arc::clone(&plan)));
    let abort = task.abort_handle();
    let ended = tokio::time::timeout(PATIENCE, task).await;
    let plan = plan.lock().unwrap().clone();
    let failure = |kind, what, found| {
        Outcome::Wrong(Failure {
            kind,
            what,
            found,
            right: right.to_text(),
            plan: plan.clone(),
        })
    };
    match ended {
        Err(_) => {
            abort.abort();
            failure(
                FailureKind::Hang,
                format!("no end after {PATIENCE:?}"),
                String::new(),
            )
        }
        Ok(Err(panic)) => failure(FailureKind::Panic, panic.to_string(), String::new()),
        Ok(Ok(Err(e))) if is_out_of_memory(&e) => Outcome::OutOfMemory,
        Ok(Ok(Err(e))) if is_refused_upstream(&e) => Outcome::Refused(e),
        Ok(Ok(Err(e))) => failure(FailureKind::Error, e.to_string(), String::new()),
        Ok(Ok(Ok(found))) => match difference(query, &found, right) {
            Some(what) => failure(FailureKind::Answer, what, found.to_text()),
            None => Outcome::Right { plan },
        },
    }
}

async fn answer(
    ctx: SessionContext,
    query: Query,
    shown: Arc<std::sync::Mutex<String>>,
) -> Result<Answer> {
    let frame = ctx.sql(&query.sql()).await?;
    let frame = frame.with_param_values(query.params)?;
    let schema = Arc::clone(frame.schema().inner());
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    *shown.lock().unwrap() = displayable(plan.as_ref()).indent(false).to_string();
    let batches = datafusion::physical_plan::collect(plan, task).await?;
    Ok(Answer::new(schema, &batches, 0))
}

fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}
