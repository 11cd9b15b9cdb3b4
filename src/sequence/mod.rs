//! Sorted output without a comparison of rows: input partitions one after another, read ahead.

mod exec;
mod read_ahead;
mod stream;

pub use exec::SequenceExec;
