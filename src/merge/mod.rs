//! Sorted output of runs that may overlap: rows are compared only where they do.

mod bounded;
mod cursor;
mod gather;
mod integer_keys;
mod keys;
mod order;
mod output;
mod rank;
mod seams;
mod stretch;
mod tournament;

pub(crate) use bounded::{BoundedMerge, MergeOptions, Part, Polled, Runs};
pub(crate) use keys::{KeyBuf, Keys, MergeKey, reverse};
pub(crate) use seams::{Seam, Seams};

#[cfg(test)]
mod tests;
