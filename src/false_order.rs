//! The error of rows that are not in the declared order.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use datafusion::common::DataFusionError;

/// Rows that are not in the order that their table declares: what a query ends with that reads them
/// (`sorted_listing.verify`), as [`DataFusionError::External`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FalseOrder {
    /// The table, by the name it was made with in SQL, or else by its location.
    pub table: Arc<str>,
    /// The declared order, as in `ORDER BY`.
    pub order: String,
    /// Which rows of which files contradict it, and how.
    pub rows: String,
}

impl FalseOrder {
    /// The false order that `error` is about, if it is.
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        match error.find_root() {
            DataFusionError::External(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for FalseOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, order, rows } = self;
        write!(
            f,
            "the table {table} is not in its declared order [{order}]: {rows}. Write the files anew in that order, or \
             declare the order that they are in, or none (WITH ORDER). With sorted_listing.verify = off, the query \
             takes their rows for sorted, and may give wrong results"
        )
    }
}

impl Error for FalseOrder {}
