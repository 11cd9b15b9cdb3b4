//! A table of many sorted Parquet files, read as one sorted table by Apache DataFusion.
//!
//! [`SortedListingTable`] stands in for DataFusion's [`ListingTable`]: same files, same SQL, same options. Say that
//! `/data/events` holds 64 files, each sorted by `ts`:
//!
//! ```sql
//! CREATE EXTERNAL TABLE events STORED AS PARQUET LOCATION '/data/events/' WITH ORDER (ts)
//! ```
//!
//! DataFusion puts files into file groups as they are listed. A group is in order only if its files happen to be,
//! and where they are not, the rows are sorted:
//!
//! ```text
//! SortPreservingMergeExec: [ts@0 ASC NULLS LAST]
//!   SortExec: expr=[ts@0 ASC NULLS LAST], preserve_partitioning=[true]
//!     DataSourceExec: file_groups={4 groups: [[part-00.parquet, part-01.parquet, …
//! ```
//!
//! A sorted table looks at the bounds of `ts` in each footer, and cuts the files into *slices* in order of the key. A
//! slice is a partition of the scan. Sorted output is slice after slice, with no comparison of rows:
//!
//! ```text
//! SequenceExec: [ts@0 ASC NULLS LAST], inputs=16
//!   DataSourceExec: SortedScan: slices=16, units=64, order=[ts ASC NULLS LAST], strategy=contiguous, …
//! ```
//!
//! # A session with sorted tables
//!
//! ```
//! use datafusion::execution::session_state::SessionStateBuilder;
//! use datafusion::prelude::*;
//! use datafusion_sorted_listing::SessionStateBuilderExt;
//!
//! # #[tokio::main]
//! # async fn main() -> datafusion::error::Result<()> {
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_sorted_listing()
//!     .build();
//! let ctx = SessionContext::new_with_state(state);
//!
//! // Two files whose names are in the other order than their rows.
//! # let folder = tempfile::tempdir()?;
//! # let location = folder.path().display();
//! for (name, values) in [("b", "(1), (2)"), ("a", "(3), (4)")] {
//!     let copy = format!("COPY (SELECT column1 AS ts FROM VALUES {values}) TO '{location}/{name}.parquet'");
//!     ctx.sql(&copy).await?.collect().await?;
//! }
//! let ddl = format!("CREATE EXTERNAL TABLE events STORED AS PARQUET LOCATION '{location}/' WITH ORDER (ts)");
//! ctx.sql(&ddl).await?;
//!
//! let plan = ctx.sql("SELECT * FROM events ORDER BY ts").await?.create_physical_plan().await?;
//! let plan = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
//! assert!(plan.contains("order=[ts ASC NULLS LAST], strategy=contiguous"));
//! assert!(!plan.contains("SortExec"));
//! # Ok(())
//! # }
//! ```
//!
//! # What is proved
//!
//! Between files, an order is declared only if their footers prove it. What is inside a file is the claim of whoever
//! declared the order. It is checked while rows are read, as far as [`Verify`] says, and a false one ends the query with
//! an error. The rules, in short:
//!
//! * Bounds come from the statistics of row groups. If one has none for a key column, its file is unknown.
//! * Where the null count is not known to be zero, the bounds reach to the end at which NULL is sorted. A key without
//!   NULL is in order both `NULLS FIRST` and `NULLS LAST`.
//! * Statistics of floats leave NaN out. The bounds of a float column reach from NaN to NaN.
//! * Truncated statistics are outer bounds. There are no bounds from INT96 columns, from deprecated statistics of
//!   undefined order, or through a cast that may change the order.
//! * A key column that a file does not have is NULL in all its rows. A Hive partition column has one value in a file.
//! * Compound keys are compared row-wise: from `(lower a, lower b)` to `(upper a, upper b)`. So a file of `(x, 1)` to
//!   `(x, 9)` overlaps one of `(x, 10)` to `(y, 20)` if the statistics of the second column begin at 5.
//! * Touching is enough: a file may begin with the key that the one before ends with. Files of no rows say nothing.
//!
//! * Where row groups contradict the declared order, nothing is declared: a warning and `EXPLAIN` name them.
//!
//! Where files overlap, the scan declares no order, so that a query that wants none pays for none. One that asks for it
//! has it by a merge that compares rows only where they overlap, and in the same way the reverse of the order: row groups
//! from the last to the first. Where that cannot be, `EXPLAIN` shows an `UnorderedScan` with the reason, and DataFusion
//! sorts.
//!
//! # Ranges
//!
//! No value of the key, or of the shortest beginning of it that will do, is in two slices, and the scan declares
//! [`Partitioning::Range`]. So grouping, windows and joins on it need no repartitioning:
//!
//! ```text
//! AggregateExec: mode=FinalPartitioned, gby=[ts]          SortedAggregateExec: mode=SinglePartitioned, gby=[ts], ordering_mode=Sorted
//!   RepartitionExec: partitioning=Hash([ts], 4)      →      DataSourceExec: SortedScan: slices=4, …,
//!     AggregateExec: mode=Partial, gby=[ts]                   output_partitioning=Range([ts ASC], [(20), (40), (60)], 4)
//!       DataSourceExec: file_groups={4 groups: …
//! ```
//!
//! A range begins with a lower bound of what is in it, and everything before ends before that. Where units touch, or share
//! a value, what reaches across is read by both slices and clipped.
//!
//! [`Partitioning::Range`]: datafusion::physical_expr::Partitioning::Range
//!
//! # Types
//!
//! | key column | bounds |
//! |---|---|
//! | integers, decimals, dates, times, timestamps, booleans | exact |
//! | strings and binary, plain, large, view or dictionary | outer where truncated |
//! | fixed size binary | if not truncated |
//! | floats | NaN to NaN: files are known to overlap, and are merged |
//! | INT96, durations | unknown: as if the file overlapped all others |
//! | intervals, nested types, expressions | unknown, and in no order |
//! | wider in the table than in the file: integers, floats, decimals, finer timestamps and times, `Date32` to `Date64`, text and binary among each other | those of the file |
//! | any other difference of type, another time zone included | unknown |
//!
//! # The pieces
//!
//! * [`SessionStateBuilderExt::with_sorted_listing`] makes `CREATE EXTERNAL TABLE` make sorted tables, by way of
//!   [`SortedListingTableFactory`].
//! * [`SortedListingTable`] wraps a [`ListingTable`], which lists, inserts and knows partitions as always.
//! * [`SortedListingConfig`] holds the options.
//! * [`SortedListingTable::layout`] and the table functions `sorted_layout` and `sorted_layout_summary` show where files lie
//!   along the key, and [`WhyNot`] why there is no better layout.
//! * [`SortedScan`] is the data source in the plan, and [`SequenceExec`] reads its slices one after another, where the
//!   rule [`SequenceSlices`] has put it. [`RequestOrder`] asks scans for the orders that they give on demand, and
//!   [`MergeJoins`] joins tables that are cut at the same points.
//! * [`SortedAggregateExec`] groups rows by comparing neighbours, where [`GroupNeighbours`] has put it.
//! * [`DistrustCasts`] keeps DataFusion from believing that `CAST(ts AS TIME)` is in the order of `ts`.
//!
//! [`ListingTable`]: datafusion::datasource::listing::ListingTable
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod aggregate;
mod arrange;
mod as_listed;
mod config;
mod diagnosis;
mod factory;
mod false_order;
mod footers;
mod invalidating_sink;
mod kept_layouts;
mod key_columns;
mod key_prefix;
mod key_value;
mod keys;
mod layout;
mod listed_scan;
mod merge;
mod planner;
mod prefix;
mod proof;
mod prune;
mod ranges;
mod report;
mod rules;
mod scan;
mod scan_files;
mod select;
mod sequence;
mod session;
mod sizes;
mod snapshot;
mod split_points;
mod statistics;
mod table;
mod table_functions;
mod table_lookup;
#[cfg(test)]
mod test_random;
mod units;
mod verification;
mod why_not;

pub use aggregate::SortedAggregateExec;
pub use config::{RangeOption, SortedListingConfig, Verify};
pub use factory::SortedListingTableFactory;
pub use false_order::FalseOrder;
pub use key_value::{KeyBounds, KeyValue};
pub use layout::Strategy;
pub use report::{KeyColumn, LayoutReport, OrderingState, UnitReport};
pub use rules::{DistrustCasts, GroupNeighbours, MergeJoins, RequestOrder, SequenceSlices};
pub use scan::SortedScan;
pub use sequence::SequenceExec;
pub use session::SessionStateBuilderExt;
pub use table::SortedListingTable;
pub use verification::{VerifyDepth, VerifyProblem, VerifyProgress, VerifyReport};
pub use why_not::{FilePart, WhyNot};

/// The examples in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
