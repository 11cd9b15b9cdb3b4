//! What the user says of how a table is read.

use std::sync::Arc;

use crate::config::Verify;

/// How the rows of a table are read.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// The table, as errors name it.
    pub(crate) table: Arc<str>,
    /// What a sequence of slices may buffer.
    pub(crate) read_ahead_bytes: usize,
    /// How much of the order is checked while rows are read.
    pub(crate) verify: Verify,
}

impl Default for ReadOptions {
    /// Nothing is buffered, and nothing checked.
    fn default() -> Self {
        Self {
            table: "".into(),
            read_ahead_bytes: 0,
            verify: Verify::Off,
        }
    }
}
