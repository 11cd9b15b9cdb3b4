//! From footers to bounds, by the rules of proof: unknown is never zero, and a missing bound is never NULL.

mod column;
mod contradiction;
mod footer_order;
mod lossless;
mod pages;
mod range;
mod sort_key;
mod values;

pub(crate) use footer_order::{claimed_order, shared_order};
pub(crate) use lossless::{has_total_order, is_lossless, value_type};
pub(crate) use range::ColumnRange;
pub(crate) use sort_key::{FileView, GroupBounds, KeyFacts, SortKey, Unknown};

#[cfg(test)]
mod tests;
