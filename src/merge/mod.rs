//! Sorted output of runs that may overlap: rows are compared only where they do.

mod bounded;
mod keys;
mod output;
mod tournament;

pub(crate) use bounded::{BoundedMerge, Part, Polled, Runs};
pub(crate) use keys::{MergeKey, reverse};

#[cfg(test)]
mod tests;
