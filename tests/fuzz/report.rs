//! What was covered, and how plans came out.

use std::collections::BTreeMap;
use std::fmt;

use datafusion::error::DataFusionError;

use crate::query::{Kind, Query};
use crate::relation::Relation;

#[derive(Default)]
pub(crate) struct Report {
    cells: BTreeMap<(Relation, Kind), Cell>,
    /// In how many plans these stand.
    features: [usize; FEATURES.len()],
    /// Why the rows of ordered queries were sorted.
    reasons: BTreeMap<String, usize>,
    pub(crate) tables: usize,
    pub(crate) out_of_memory: usize,
    /// Wrong answers of plans in which all nodes are DataFusion's.
    pub(crate) wrong_upstream: usize,
    /// Queries that have no right answer, such as the minimum of a type that has none, by the error.
    refused: BTreeMap<String, usize>,
}

const FEATURES: [&str; 14] = [
    "strategy=contiguous",
    "strategy=best_fit",
    "strategy=clusters",
    "strategy=file_per_slice",
    "strategy=declared",
    "runs=",
    "reversed",
    "SequenceExec",
    "UnorderedScan",
    "=Range(",
    "clipped=",
    "mode=SinglePartitioned",
    "SortedAggregateExec",
    "SortMergeJoinExec",
];

#[derive(Default)]
struct Cell {
    cases: usize,
    ordered: usize,
    sorted: usize,
    sequences: usize,
    wrong: usize,
}

impl Report {
    pub(crate) fn cases(&self) -> usize {
        self.cells.values().map(|cell| cell.cases).sum()
    }

    pub(crate) fn refused(&mut self, error: &DataFusionError) {
        let error = error.strip_backtrace();
        let line = error.lines().next().unwrap_or_default();
        let short = line.chars().take(100).collect();
        *self.refused.entry(short).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.tables += other.tables;
        self.out_of_memory += other.out_of_memory;
        self.wrong_upstream += other.wrong_upstream;
        for (sum, count) in self.features.iter_mut().zip(other.features) {
            *sum += count;
        }
        for (place, cell) in other.cells {
            let sum = self.cells.entry(place).or_default();
            sum.cases += cell.cases;
            sum.ordered += cell.ordered;
            sum.sorted += cell.sorted;
            sum.sequences += cell.sequences;
            sum.wrong += cell.wrong;
        }
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        for (error, count) in other.refused {
            *self.refused.entry(error).or_default() += count;
        }
    }

    pub(crate) fn wrong(&mut self, relation: Relation, query: &Query) {
        let cell = self.cells.entry((relation, query.kind)).or_default();
        cell.cases += 1;
        cell.wrong += 1;
    }

    pub(crate) fn right(&mut self, relation: Relation, query: &Query, plan: &str) {
        let cell = self.cells.entry((relation, query.kind)).or_default();
        cell.cases += 1;
        for (count, feature) in self.features.iter_mut().zip(FEATURES) {
            *count += usize::from(plan.contains(feature));
        }
        cell.sequences += usize::from(plan.contains("SequenceExec"));
        if !query.order.is_empty() {
            cell.ordered += 1;
            if plan.contains("SortExec") {
                cell.sorted += 1;
                let reason = reason(query, plan);
                if let Ok(wanted) = std::env::var("FUZZ_PLANS")
                    && reason.contains(&wanted)
                {
                    println!("{reason}\n{}\n{plan}", query.sql());
                }
                *self.reasons.entry(reason).or_default() += 1;
            }
        }
    }
}

/// Why a plan sorts: what its scan says, without names and numbers.
fn reason(query: &Query, plan: &str) -> String {
    let said = ["why=[", "stepped_down=["].iter().find_map(|label| {
        let from = plan.find(label)?;
        let text = &plan[from + label.len()..];
        Some(text.split(']').next().unwrap_or(text).to_owned())
    });
    let by = match query.kind {
        Kind::WholeKey | Kind::Prefix => "ORDER BY the key",
        Kind::Reversed => "reversed",
        _ => "other",
    };
    let Some(said) = said else {
        return format!("{by}: no reason given");
    };
    let said = said.split([';', '[']).next().unwrap_or(&said);
    // Names, types and numbers differ in every table.
    let said = match said.split_once(" is of type ") {
        Some((before, _)) => format!("{before} is of another type"),
        None => said.into(),
    };
    let parts = said.split(['\'', '"']).enumerate();
    let parts = parts.map(|(place, part)| if place % 2 == 0 { part } else { "…" });
    format!("{by}: {}", parts.collect::<String>())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cases in {} tables, and {} out of memory, {} wrong in plans of DataFusion's nodes alone",
            self.cases(),
            self.tables,
            self.out_of_memory,
            self.wrong_upstream
        )?;
        writeln!(
            f,
            "files      query           cases  ordered  with sort  with sequence  wrong"
        )?;
        for ((relation, kind), cell) in &self.cells {
            writeln!(
                f,
                "{:10} {:15} {:5} {:8} {:10} {:14} {:6}",
                format!("{relation:?}"),
                format!("{kind:?}"),
                cell.cases,
                cell.ordered,
                cell.sorted,
                cell.sequences,
                cell.wrong
            )?;
        }
        writeln!(f, "plans with:")?;
        for (feature, count) in FEATURES.iter().zip(self.features) {
            writeln!(f, "{count:6}  {feature}")?;
        }
        writeln!(f, "why ordered queries sort:")?;
        most_frequent_first(f, &self.reasons)?;
        writeln!(f, "queries without a right answer:")?;
        most_frequent_first(f, &self.refused)
    }
}

fn most_frequent_first(
    f: &mut fmt::Formatter<'_>,
    counts: &BTreeMap<String, usize>,
) -> fmt::Result {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    counts
        .into_iter()
        .try_for_each(|(what, count)| writeln!(f, "{count:6}  {what}"))
}
