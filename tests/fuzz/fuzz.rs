//! Tables, sessions and queries, one after another, each table from a seed of its own.

use std::sync::Arc;

use object_store::memory::InMemory;

use crate::case::{Failure, Outcome, Tables, check, right_answer};
use crate::known::{
    FOR_NAN, is_fault_of_merge, is_fault_of_merge_join, is_fault_of_topk, is_wrong_upstream,
};
use crate::queries::random_query;
use crate::query::Query;
use crate::random::Random;
use crate::register::Provider;
use crate::report::Report;
use crate::session::Session;
use crate::table::Table;
use crate::why::untruth;

const SESSIONS: usize = 2;
const QUERIES: usize = 10;

/// How many cases a table makes.
pub(crate) const CASES: usize = SESSIONS * QUERIES;

/// All that derives from a seed.
pub(crate) struct Batch {
    pub(crate) tables: Tables,
    pub(crate) sessions: Vec<Session>,
    pub(crate) queries: Vec<Query>,
}

impl Batch {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let t = Table::random(&mut random);
        let u = random.percent(30).then(|| t.sibling(&mut random));
        let sessions = (0..SESSIONS)
            .map(|_| {
                let mut session = Session::random(&mut random);
                if t.has_nan() {
                    session.options.extend(FOR_NAN);
                }
                session
            })
            .collect();
        let queries = (0..QUERIES)
            .map(|_| random_query(&mut random, &t, u.is_some()))
            .collect();
        Self {
            tables: Tables { t, u },
            sessions,
            queries,
        }
    }
}

/// A case that went wrong.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) tables: Tables,
    pub(crate) session: Session,
    pub(crate) query: Query,
    pub(crate) failure: Failure,
}

/// Runs the cases of a seed, up to the first that goes wrong.
pub(crate) async fn run(seed: u64, provider: Provider) -> (Report, Option<Found>) {
    let batch = Batch::new(seed);
    let store: Arc<InMemory> = batch.tables.write().await;
    let relation = batch.tables.t.relation;
    let mut report = Report::default();
    report.tables = 1;
    let mut answers = vec![];
    for session in &batch.sessions {
        let files = match batch.tables.of_files(session, provider, &store).await {
            Ok(files) => files,
            Err(e) => panic!("seed {seed}: {e}\n{:#?}", batch.tables.t),
        };
        if provider == Provider::Sorted
            && let Some(untrue) = untruth(&files, &batch.tables.t, session).await
        {
            panic!("seed {seed}: {untrue}\n{session:#?}");
        }
        if answers.is_empty() {
            let rows = batch.tables.of_rows(&files).await.unwrap();
            for query in &batch.queries {
                answers.push(right_answer(&rows, query).await);
            }
        }
        for (query, right) in batch.queries.iter().zip(&answers) {
            let right = match right {
                Ok(right) => right,
                Err(e) => {
                    report.refused(e);
                    continue;
                }
            };
            if is_wrong_upstream(&batch.tables.t, session, query) {
                continue;
            }
            match check(&files, query, right).await {
                Outcome::Right { plan } => report.right(relation, query, &plan),
                Outcome::OutOfMemory => report.out_of_memory += 1,
                Outcome::Refused(e) => report.refused(&e),
                Outcome::Wrong(failure)
                    if provider == Provider::Sorted
                        && (is_fault_of_merge(&failure.plan)
                            || is_fault_of_topk(&failure.plan)
                            || is_fault_of_merge_join(session, &failure.plan)) =>
                {
                    report.wrong_upstream += 1;
                }
                Outcome::Wrong(failure) => {
                    report.wrong(relation, query);
                    let found = Found {
                        tables: batch.tables.clone(),
                        session: session.clone(),
                        query: query.clone(),
                        failure,
                    };
                    return (report, Some(found));
                }
            }
        }
    }
    (report, None)
}
