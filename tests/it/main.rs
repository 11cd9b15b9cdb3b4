//! The tests of whole queries, by theme.

mod answers;
mod plans;
mod sql;
mod support;
