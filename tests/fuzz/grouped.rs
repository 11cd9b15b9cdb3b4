//! Random queries that put rows into groups and windows.

use crate::queries::{UP, reversed, terms};
use crate::query::{Kind, Query, Term, list};
use crate::random::Random;
use crate::table::Table;

pub(crate) fn grouped(random: &mut Random, t: &Table, kind: Kind) -> Query {
    let by: Vec<_> = match kind {
        Kind::GroupByOther => match random.percent(50) || t.columns.len() < 2 {
            true => vec![Term::new("tag", UP)],
            false => vec![Term::of(&t.columns[t.columns.len() - 1])],
        },
        _ => terms(&t.key()[..random.within(1..=t.key_len)]),
    };
    let columns = list(by.iter().map(|term| &term.expr));
    let query = match kind {
        Kind::Distinct => match random.percent(70) {
            true => Query::new(kind, format!("DISTINCT {columns}"), "t"),
            false => return first_of_each(random, t, by),
        },
        _ => {
            let last = &t.columns[t.columns.len() - 1].name;
            let values = match random.percent(70) {
                true => "count(*) AS n, sum(id) AS s, min(id) AS least, max(tag) AS most".into(),
                false => {
                    let mut order = terms(t.key());
                    order.push(Term::new("id", UP));
                    let order = list(&order);
                    format!(
                        "first_value(id ORDER BY {order}) AS first, \
                         last_value(id ORDER BY {order}) AS last"
                    )
                }
            };
            let select = format!("{columns}, {values}, count({last}) AS m");
            Query::new(kind, select, "t").then(format!("GROUP BY {columns}"))
        }
    };
    let query = query.maybe_filtered(random, t);
    match random.below(4) {
        0 => query,
        1 => query.ordered(by.into_iter().map(|mut term| {
            term.options.descending ^= true;
            term.options.nulls_first ^= true;
            term
        })),
        _ => query.ordered(by),
    }
}

/// The row with the lowest id for each of the values of `by`.
fn first_of_each(random: &mut Random, t: &Table, by: Vec<Term>) -> Query {
    let columns = list(by.iter().map(|term| &term.expr));
    let select = format!("DISTINCT ON ({columns}) {columns}, id");
    let order = by.into_iter().chain([Term::new("id", UP)]);
    Query::new(Kind::Distinct, select, "t")
        .ordered(order)
        .maybe_filtered(random, t)
}

pub(crate) fn aggregate(random: &mut Random, t: &Table) -> Query {
    let column = &random.pick(&t.columns).name;
    let select = match random.below(4) {
        0 => "count(*) AS n".into(),
        // Of two minima of different columns, DataFusion 55.2 sometimes gets one wrong by its dynamic filter.
        1 => (*random.pick(&["min(f) AS least", "max(tag) AS most", "min(id) AS least"])).into(),
        _ => format!("count(*) AS n, count({column}) AS m, min({column}) AS l, max({column}) AS u"),
    };
    let query = Query::new(Kind::Aggregate, select, "t");
    match random.percent(50) {
        true => query,
        false => query.maybe_filtered(random, t),
    }
}

pub(crate) fn window(random: &mut Random, t: &Table) -> Query {
    let mut order = terms(t.key());
    if random.percent(25) {
        order = reversed(random, t);
    }
    // The id makes the numbers certain.
    let mut certain = order.clone();
    certain.push(Term::new("id", UP));
    let first = &t.columns[0].name;
    let windows = match random.below(7) {
        5 => format!("count(*) OVER (ORDER BY {}) AS w", list(&order)),
        6 => format!(
            "lead(id, 2) OVER (PARTITION BY tag ORDER BY {}) AS w",
            list(&certain)
        ),
        0 => format!("row_number() OVER (ORDER BY {}) AS w", list(&certain)),
        1 => format!("lag(id) OVER (ORDER BY {}) AS w", list(&certain)),
        2 => format!("rank() OVER (ORDER BY {}) AS w", list(&order)),
        3 => format!(
            "row_number() OVER (PARTITION BY {first} ORDER BY {}) AS w",
            list(&certain[1..])
        ),
        _ => format!(
            "sum(id) OVER (PARTITION BY {first} ORDER BY {} \
             ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS w",
            list(&certain[1..])
        ),
    };
    let query = Query::new(Kind::Window, format!("id, {windows}"), "t");
    match random.below(3) {
        0 => query.ordered(terms(t.key())),
        1 => query.ordered(order),
        _ => query,
    }
}
