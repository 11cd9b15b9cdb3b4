//! What was covered, and how plans came out.

use std::collections::BTreeMap;
use std::fmt;

use crate::query::{Kind, Query};
use crate::relation::Relation;

#[derive(Default)]
pub(crate) struct Report {
    cells: BTreeMap<(Relation, Kind), Cell>,
    /// Why the rows of ordered queries were sorted.
    reasons: BTreeMap<String, usize>,
    pub(crate) tables: usize,
    pub(crate) out_of_memory: usize,
    /// Queries that have no right answer, such as the minimum of a type that has none.
    pub(crate) refused: usize,
}

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

    pub(crate) fn wrong(&mut self, relation: Relation, query: &Query) {
        let cell = self.cells.entry((relation, query.kind)).or_default();
        cell.cases += 1;
        cell.wrong += 1;
    }

    pub(crate) fn right(&mut self, relation: Relation, query: &Query, plan: &str) {
        let cell = self.cells.entry((relation, query.kind)).or_default();
        cell.cases += 1;
        cell.sequences += usize::from(plan.contains("SequenceExec"));
        if !query.order.is_empty() {
            cell.ordered += 1;
            if plan.contains("SortExec") {
                cell.sorted += 1;
                *self.reasons.entry(reason(query, plan)).or_default() += 1;
            }
        }
    }
}

/// Why a plan sorts: what its scan says, without names and numbers.
fn reason(query: &Query, plan: &str) -> String {
    let said = ["why=[", "stepped_down=["].iter().find_map(|label| {
        let from = plan.find(label)?;
        let text = &plan[from..];
        Some(text.split(']').next().unwrap_or(text).to_owned())
    });
    let Some(said) = said else {
        return match query.kind {
            Kind::WholeKey | Kind::Prefix => "no reason given, ORDER BY of the key".into(),
            kind => format!("no reason given, {kind:?}"),
        };
    };
    let first = said.split(';').next().unwrap_or(&said);
    // Quoted names and numbers differ in every table.
    let mut kind = String::new();
    for (place, part) in first.split(['\'', '"']).enumerate() {
        match place % 2 {
            0 => kind += part,
            _ => kind += "…",
        }
    }
    kind.retain(|c| !c.is_ascii_digit());
    kind
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cases in {} tables, {} out of memory, {} queries refused",
            self.cases(),
            self.tables,
            self.out_of_memory,
            self.refused
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
        writeln!(f, "why ordered queries sort:")?;
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            writeln!(f, "{count:6}  {reason}")?;
        }
        Ok(())
    }
}
