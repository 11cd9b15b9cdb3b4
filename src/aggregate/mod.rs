//! Grouping of rows that come in the order of their group key: each is compared with the one before.

mod beginnings;
mod exec;
mod groups;
mod key_order;
mod pending_keys;
mod qualifies;
mod stream;
#[cfg(test)]
mod tests;

pub use exec::SortedAggregateExec;
pub(crate) use key_order::KeyOrder;
