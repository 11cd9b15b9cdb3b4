//! The layout of a table, to be looked at.

mod batches;
mod nulls;
mod survey;

use std::ops::Range;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;

pub(crate) use batches::{summary_batch, summary_schema, units_batch, units_schema};
pub(crate) use survey::survey;

use crate::key_value::KeyBounds;
use crate::why_not::WhyNot;

/// How the files of a table lie along its sort key, and what a scan makes of them.
///
/// From [`SortedListingTable::layout`], and in SQL from the table functions `sorted_layout` and
/// `sorted_layout_summary`. The example `layout` draws it.
///
/// It says what a scan is planned as. A query may still cut its units finer, or give their order up for another.
///
/// [`SortedListingTable::layout`]: crate::SortedListingTable::layout
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayoutReport {
    /// The columns of the sort key, empty if there is none.
    pub key: Vec<KeyColumn>,
    /// Whether a scan is in order of the key.
    pub ordering: OrderingState,
    /// How units are put into slices: `contiguous`, `best_fit`, `clusters`, `file_per_slice`,
    /// `declared_partitioning`, or `unordered` where there are no slices.
    pub strategy: &'static str,
    /// Whether the scan declares that it is partitioned by ranges of the key.
    pub range_declared: bool,
    /// Whether each slice lies strictly before the next: no key is in two of them.
    pub strict_cuts: bool,
    /// The units in order of their bounds, those of unknown bounds first.
    pub units: Vec<UnitReport>,
    /// How many slices have units.
    pub slices: usize,
    /// How many clusters the units form. Unknown bounds overlap all others.
    pub clusters: usize,
    /// The most units over one key: to read all in order, so many are merged at a time.
    pub depth: usize,
    /// The longer order that a query gets that asks for it, by a merge, where a scan is in order of the beginning of the
    /// declared one only.
    pub on_demand: Option<String>,
    /// Why the scan declares no partitioning by ranges, although it is in order.
    pub why_no_ranges: Option<String>,
    /// Why there is no better layout, if something stands in its way.
    pub why_not: Option<WhyNot>,
}

/// A column of a sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyColumn {
    /// Its name, or the text of an expression.
    pub name: String,
    /// Its type in the table.
    pub data_type: DataType,
    /// How it is sorted.
    pub options: SortOptions,
}

/// Whether a scan is in order of the sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderingState {
    /// Each partition is, and declares it.
    Declared,
    /// It is where a query asks for it, by a merge.
    OnDemand,
    /// It is not.
    None,
}

/// A unit: a file, or some row groups of one, that is read as a whole.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UnitReport {
    /// The slice that it is in: the partition of the scan. `None` where there are no slices.
    pub slice: Option<usize>,
    /// Its run in the slice, or where there are no slices, among all units. The units of a run do not overlap.
    pub run: usize,
    /// Its cluster. Units of different clusters do not overlap. Clusters are numbered in order of the key.
    pub cluster: usize,
    /// The path of its file in the store.
    pub file: String,
    /// Its row groups, if the file is Parquet.
    pub row_groups: Option<Range<usize>>,
    /// How many rows it has. `None` if the file is not Parquet, or if another slice reads some rows of its row groups.
    pub rows: Option<u64>,
    /// How many bytes its row groups have in the file, or the whole file.
    pub bytes: u64,
    /// Where the keys of its rows lie, if that is known.
    pub bounds: Option<KeyBounds>,
    /// How many values of the key columns are NULL in its row groups, if that is known.
    pub null_count: Option<u64>,
    /// Whether its keys are all known to be greater than those of the units that come before it.
    pub strict_gap: bool,
}

impl OrderingState {
    /// `declared`, `on demand` or `none`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::OnDemand => "on demand",
            Self::None => "none",
        }
    }
}

impl LayoutReport {
    /// The sort key as in `ORDER BY`, if there is one.
    pub fn order(&self) -> Option<String> {
        let sort = |column: &KeyColumn| crate::scan::show_column(&column.name, column.options);
        let sorts: Vec<_> = self.key.iter().map(sort).collect();
        (!sorts.is_empty()).then(|| sorts.join(", "))
    }

    /// The bytes of all units.
    pub fn bytes(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// The rows of all units, if they are known of each.
    pub fn rows(&self) -> Option<u64> {
        self.units.iter().map(|unit| unit.rows).sum()
    }

    /// The bytes of the largest slice over those of the mean one: 1 is even. `None` where there are no slices.
    pub fn skew(&self) -> Option<f64> {
        let mut of_slice = std::collections::BTreeMap::new();
        for unit in &self.units {
            *of_slice.entry(unit.slice?).or_insert(0) += unit.bytes;
        }
        let largest = *of_slice.values().max()?;
        let mean = self.bytes() as f64 / of_slice.len() as f64;
        Some(if mean > 0.0 {
            largest as f64 / mean
        } else {
            1.0
        })
    }
}
