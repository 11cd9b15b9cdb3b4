//! Sorted tables in a session.

use std::sync::Arc;

use datafusion::catalog::TableProviderFactory;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

use crate::config::SortedListingConfig;
use crate::factory::SortedListingTableFactory;
use crate::rules::{DistrustCasts, GroupNeighbours, MergeJoins, RequestOrder, SequenceSlices};
use crate::table_functions::table_functions;

/// Makes plain DDL make sorted tables.
///
/// ```
/// use datafusion::execution::session_state::SessionStateBuilder;
/// use datafusion::prelude::*;
/// use datafusion_sorted_listing::SessionStateBuilderExt;
///
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_sorted_listing()
///     .build();
/// let ctx = SessionContext::new_with_state(state);
/// ```
pub trait SessionStateBuilderExt {
    /// Registers the options under `sorted_listing`, if the session does not have them yet, a
    /// [`SortedListingTableFactory`] over every table factory that the session has, the rules [`DistrustCasts`],
    /// [`RequestOrder`], [`MergeJoins`], [`SequenceSlices`] and [`GroupNeighbours`], and the table functions `sorted_layout` and `sorted_layout_summary`,
    /// which show the [`LayoutReport`](crate::LayoutReport) of a table: `SELECT * FROM sorted_layout('events')`.
    ///
    /// Call it after `with_default_features` and after other table factories are set: those set later replace
    /// ours. A session that has no table factory gets one for each of its file formats.
    fn with_sorted_listing(self) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_sorted_listing(mut self) -> Self {
        let options = self
            .config()
            .get_or_insert_with(SessionConfig::new)
            .options_mut();
        if options.extensions.get::<SortedListingConfig>().is_none() {
            options.extensions.insert(SortedListingConfig::default());
        }

        let functions = self.table_functions().get_or_insert_default();
        for function in table_functions() {
            functions.insert(function.name().to_owned(), Arc::new(function));
        }

        let formats: Vec<_> = self
            .file_formats()
            .iter()
            .flatten()
            .map(|format| format.get_ext().to_uppercase())
            .collect();
        let factories = self.table_factories().get_or_insert_default();
        if factories.is_empty() {
            for format in formats {
                factories.insert(format, Arc::new(SortedListingTableFactory::new()));
            }
        } else {
            for factory in factories.values_mut() {
                let inner: Arc<dyn TableProviderFactory> = Arc::clone(factory);
                *factory = Arc::new(SortedListingTableFactory::wrapping(inner));
            }
        }
        self.with_optimizer_rule(Arc::new(DistrustCasts::new()))
            .with_physical_optimizer_rule(Arc::new(RequestOrder::new()))
            .with_physical_optimizer_rule(Arc::new(MergeJoins::new()))
            .with_physical_optimizer_rule(Arc::new(SequenceSlices::new()))
            .with_physical_optimizer_rule(Arc::new(GroupNeighbours::new()))
    }
}
