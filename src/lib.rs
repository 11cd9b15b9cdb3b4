//! Sorted tables for Apache DataFusion. To be written.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod config;
mod diagnosis;
mod factory;
mod layout;
mod planner;
mod proof;
mod scan;
mod session;
mod snapshot;
mod table;
#[cfg(test)]
mod test_random;

pub use config::SortedListingConfig;
pub use factory::SortedListingTableFactory;
pub use layout::Strategy;
pub use scan::SortedScan;
pub use session::SessionStateBuilderExt;
pub use table::SortedListingTable;
