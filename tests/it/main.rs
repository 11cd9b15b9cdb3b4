//! The tests of whole queries, by theme.

mod aggregate;
mod answers;
mod casts;
mod contradictions;
mod faults;
mod faulty_store;
mod freshness;
mod layout;
mod manifest;
mod many_files;
mod overlap;
mod plans;
mod ranges;
mod reverse;
mod row_ranges;
mod sequence;
mod sql;
mod support;
mod untrusted;
mod verification;
mod verify;
mod watched_store;
