//! What a verification finds.

use std::fmt;
use std::sync::Arc;

/// How deep [`SortedListingTable::verify`](crate::SortedListingTable::verify) looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyDepth {
    /// At the statistics of row groups: they may contradict the order, and cannot prove all of it.
    Footers,
    /// At each row of the columns of the order. This is the whole truth about files as they are now.
    Rows,
}

/// How far [`SortedListingTable::verify_with_progress`](crate::SortedListingTable::verify_with_progress) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// The files that are done.
    pub files: usize,
    /// All files that have rows.
    pub of_files: usize,
    /// The rows that were compared.
    pub rows: u64,
}

/// What [`SortedListingTable::verify`](crate::SortedListingTable::verify) has found.
#[derive(Debug, Clone)]
pub struct VerifyReport {
    /// The table, by name or location.
    pub table: Arc<str>,
    /// How deep it looked.
    pub depth: VerifyDepth,
    /// The orders that were verified, as in `ORDER BY`: the declared ones, or the one that all footers share.
    pub orders: Vec<String>,
    /// How many files have rows.
    pub files: usize,
    /// How many rows were compared.
    pub rows: u64,
    /// What is wrong, in order of the files; of the rows of a file, the first thing only.
    pub problems: Vec<VerifyProblem>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyProblem {
    /// Its rows are not in order.
    FalseOrder {
        /// The path of the file in its store.
        file: String,
        /// Which rows, and how.
        rows: String,
    },
    /// It could not be read to the end.
    Unreadable {
        /// The path of the file in its store.
        file: String,
        /// What went wrong.
        error: String,
    },
}

impl VerifyProblem {
    /// The path of the file in its store.
    pub fn file(&self) -> &str {
        match self {
            Self::FalseOrder { file, .. } | Self::Unreadable { file, .. } => file,
        }
    }
}

impl fmt::Display for VerifyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FalseOrder { file, rows } => write!(f, "'{file}' is {rows}"),
            Self::Unreadable { file, error } => write!(f, "'{file}' cannot be read: {error}"),
        }
    }
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table, files, rows, ..
        } = self;
        let orders = self.orders.join("], [");
        match self.depth {
            VerifyDepth::Footers => write!(f, "the footers of {files} files of the table {table}")?,
            VerifyDepth::Rows => write!(f, "{rows} rows of {files} files of the table {table}")?,
        }
        if self.is_ok() {
            return write!(f, " do not contradict the order [{orders}]");
        }
        write!(f, " do not all follow the order [{orders}]:")?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}
