//! The tests of whole queries, by theme.

mod answers;
mod plans;
mod sequence;
mod sql;
mod support;
mod watched_store;
