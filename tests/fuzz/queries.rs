//! Random queries over a table `t`, and perhaps another table `u` with the same columns.

use arrow::compute::SortOptions;

use crate::query::{Kind, Query, Term, list};
use crate::random::Random;
use crate::table::{Column, Table};

const UP: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

pub(crate) fn random_query(random: &mut Random, t: &Table, has_u: bool) -> Query {
    loop {
        let query = query(random, t, has_u);
        // DataFusion 55.2 sorts `-0.0` before `0.0`, and compares them as equal: a TopK whose worst row has the key
        // `0.0` leaves out those with `-0.0`.
        let limited = query.fetch.is_some() || query.kind == Kind::Limited;
        if !(limited && t.has_both_zeros()) {
            return query;
        }
    }
}

fn query(random: &mut Random, t: &Table, has_u: bool) -> Query {
    let kind = random.weighted(&[
        (20, Kind::WholeKey),
        (8, Kind::Prefix),
        (8, Kind::KeyThenPayload),
        (12, Kind::Reversed),
        (6, Kind::OtherOrder),
        (4, Kind::NoKey),
        (8, Kind::GroupByKey),
        (4, Kind::GroupByOther),
        (4, Kind::Distinct),
        (3, Kind::Aggregate),
        (8, Kind::Window),
        (8, Kind::Join),
        (4, Kind::Union),
        (7, Kind::Limited),
        (4, Kind::Unordered),
    ]);
    let rows = t.row_count();
    match kind {
        Kind::Aggregate => aggregate(random, t),
        Kind::Join => join(random, t, has_u),
        Kind::Limited => limited(random, t, rows),
        Kind::Window => window(random, t).maybe_filtered(random, t),
        Kind::Union => {
            let order = random_order(random, t);
            let name = if has_u { "u" } else { "t" };
            let columns = list(names(&t.columns));
            let from =
                format!("(SELECT {columns}, id FROM t UNION ALL SELECT {columns}, id FROM {name})");
            Query::new(kind, "*", from)
                .ordered(order)
                .maybe_limited(random, rows * 2)
        }
        Kind::GroupByKey | Kind::GroupByOther | Kind::Distinct => {
            grouped(random, t, kind).maybe_limited(random, rows)
        }
        _ => {
            let order = match kind {
                Kind::WholeKey => terms(t.key()),
                Kind::Prefix => terms(&t.key()[..random.within(1..=t.key_len)]),
                Kind::KeyThenPayload => {
                    let mut order = terms(t.key());
                    let payload = *random.pick(&["id", "tag", "f"]);
                    order.push(Term::new(payload, random_options(random)));
                    order
                }
                Kind::Reversed => reversed(random, t),
                Kind::OtherOrder => random_order(random, t),
                Kind::NoKey => vec![Term::new(*random.pick(&["tag", "f", "id"]), UP)],
                _ => vec![],
            };
            Query::new(kind, selected(random, t), "t")
                .ordered(order)
                .maybe_filtered(random, t)
                .maybe_limited(random, rows)
        }
    }
}

fn names(columns: &[Column]) -> impl Iterator<Item = &str> {
    columns.iter().map(|column| column.name.as_str())
}

fn terms(columns: &[Column]) -> Vec<Term> {
    columns.iter().map(Term::of).collect()
}

fn random_options(random: &mut Random) -> SortOptions {
    SortOptions {
        descending: random.percent(50),
        nulls_first: random.percent(50),
    }
}

/// The key, or the beginning of it, the other way round; perhaps with NULL at the end where it was.
fn reversed(random: &mut Random, t: &Table) -> Vec<Term> {
    let len = if random.percent(70) {
        t.key_len
    } else {
        random.within(1..=t.key_len)
    };
    let mut order = terms(&t.key()[..len]);
    let nulls_too = random.percent(70);
    for term in &mut order {
        term.options.descending ^= true;
        term.options.nulls_first ^= nulls_too;
    }
    order
}

/// Some of the columns in some order, mostly nearly the key.
fn random_order(random: &mut Random, t: &Table) -> Vec<Term> {
    let mut order = terms(t.key());
    match random.below(5) {
        0 => {}
        1 => random.shuffle(&mut order),
        2 => order
            .iter_mut()
            .for_each(|term| term.options.nulls_first ^= true),
        3 => {
            order.remove(0);
        }
        _ => order
            .iter_mut()
            .for_each(|term| term.options = random_options(random)),
    }
    if order.is_empty() {
        order.push(Term::new("id", random_options(random)));
    }
    order
}

/// Columns that determine the row: all, or the id with some.
fn selected(random: &mut Random, t: &Table) -> String {
    let first = &t.columns[0].name;
    match random.below(6) {
        0 => "id".into(),
        1 => format!("id, {first} AS renamed"),
        2 => format!("{first} IS NULL AS nothing, id + 1 AS next, tag"),
        3 => format!("{}, id", list(names(&t.columns))),
        _ => "*".into(),
    }
}

fn grouped(random: &mut Random, t: &Table, kind: Kind) -> Query {
    let by: Vec<_> = match kind {
        Kind::GroupByOther => match random.percent(50) || t.columns.len() < 2 {
            true => vec![Term::new("tag", UP)],
            false => vec![Term::of(&t.columns[t.columns.len() - 1])],
        },
        _ => terms(&t.key()[..random.within(1..=t.key_len)]),
    };
    let columns = list(by.iter().map(|term| &term.expr));
    let query = match kind {
        Kind::Distinct => Query::new(kind, format!("DISTINCT {columns}"), "t"),
        _ => {
            let last = &t.columns[t.columns.len() - 1].name;
            let values = "count(*) AS n, sum(id) AS s, min(id) AS least, max(tag) AS most";
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

fn aggregate(random: &mut Random, t: &Table) -> Query {
    let column = &random.pick(&t.columns).name;
    let select = match random.below(4) {
        0 => "count(*) AS n".into(),
        1 => "min(f) AS least, max(f) AS most, min(tag) AS least_tag".into(),
        _ => format!("count(*) AS n, count({column}) AS m, min({column}) AS l, max({column}) AS u"),
    };
    let query = Query::new(Kind::Aggregate, select, "t");
    match random.percent(50) {
        true => query,
        false => query.maybe_filtered(random, t),
    }
}

fn window(random: &mut Random, t: &Table) -> Query {
    let mut order = terms(t.key());
    if random.percent(25) {
        order = reversed(random, t);
    }
    // The id makes the numbers certain.
    let mut certain = order.clone();
    certain.push(Term::new("id", UP));
    let first = &t.columns[0].name;
    let windows = match random.below(5) {
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

fn join(random: &mut Random, t: &Table, has_u: bool) -> Query {
    let other = if has_u { "u" } else { "t" };
    let len = random.within(1..=t.key_len);
    let on: Vec<_> = names(&t.key()[..len])
        .map(|name| format!("a.{name} = b.{name}"))
        .collect();
    let kind = *random.pick(&["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"]);
    // Of few rows, since keys may have many.
    let some = |modulus: usize| format!("(SELECT * FROM {{}} WHERE id % {modulus} = 1)");
    let (left, right) = match t.row_count() {
        0..60 => ("t".into(), other.into()),
        rows => (
            some(rows / 30).replace("{}", "t"),
            some(rows / 20).replace("{}", other),
        ),
    };
    let from = format!("{left} a {kind} {right} b ON {}", on.join(" AND "));
    let query = Query::new(Kind::Join, "a.id AS left_id, b.id AS right_id", from);
    match random.below(3) {
        0 => query.ordered(terms(&t.key()[..len]).into_iter().map(|term| Term {
            expr: format!("a.{}", term.expr),
            ..term
        })),
        _ => query,
    }
}

/// A query of a limited subquery, whose rows are certain.
fn limited(random: &mut Random, t: &Table, rows: usize) -> Query {
    let order = match random.percent(70) {
        true => terms(t.key()),
        false => reversed(random, t),
    };
    let mut certain = order.clone();
    certain.push(Term::new("id", UP));
    let inner = |order: &[Term], fetch: usize| {
        format!("(SELECT * FROM t ORDER BY {} LIMIT {fetch}) s", list(order))
    };
    let fetch = random.within(1..=10).min(rows + 1);
    match random.below(4) {
        0 => Query::new(Kind::Limited, "count(*) AS n", inner(&order, fetch)),
        1 => {
            let columns = list(order.iter().map(|term| &term.expr));
            Query::new(Kind::Limited, columns, inner(&order, fetch)).ordered(order)
        }
        2 => Query::new(Kind::Limited, "*", inner(&certain, fetch))
            .ordered(terms(t.key()))
            .maybe_filtered(random, t)
            .maybe_limited(random, fetch),
        _ => Query::new(Kind::Limited, "id, tag", inner(&certain, fetch))
            .ordered([Term::new("id", UP)])
            .maybe_filtered(random, t),
    }
}
