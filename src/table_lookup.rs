//! Finding tables by name.

use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{ResolvedTableReference, Result, TableReference};

/// `name` with the default catalog and schema of a session, where it has none.
pub(crate) fn full_name(session: &dyn Session, name: TableReference) -> ResolvedTableReference {
    let defaults = &session.config_options().catalog;
    name.resolve(&defaults.default_catalog, &defaults.default_schema)
}

/// The table of this name, if there is one.
pub(crate) async fn find_table(
    session: &dyn Session,
    name: &ResolvedTableReference,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let schema = session
        .catalog_list()
        .catalog(&name.catalog)
        .and_then(|catalog| catalog.schema(&name.schema));
    match schema {
        Some(schema) => schema.table(&name.table).await,
        None => Ok(None),
    }
}
