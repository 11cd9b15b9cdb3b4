//! Random queries of several tables, and of subqueries.

use crate::queries::{UP, names, random_order, reversed, terms};
use crate::query::{Kind, Query, Term, list};
use crate::random::Random;
use crate::table::Table;

pub(crate) fn join(random: &mut Random, t: &Table, has_u: bool) -> Query {
    let other = if has_u { "u" } else { "t" };
    let len = random.within(1..=t.key_len);
    let mut on: Vec<_> = names(&t.key()[..len])
        .map(|name| format!("a.{name} = b.{name}"))
        .collect();
    if random.percent(25) {
        on.push("a.id < b.id".into());
    }
    let kind = *random.pick(&[
        "JOIN",
        "JOIN",
        "LEFT JOIN",
        "FULL JOIN",
        "RIGHT JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
    ]);
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
    let select = match kind.ends_with("SEMI JOIN") || kind.ends_with("ANTI JOIN") {
        true => "a.id AS left_id",
        false => "a.id AS left_id, b.id AS right_id",
    };
    let query = Query::new(Kind::Join, select, from);
    match random.below(3) {
        0 => query.ordered(terms(&t.key()[..len]).into_iter().map(|term| Term {
            expr: format!("a.{}", term.expr),
            ..term
        })),
        _ => query,
    }
}

pub(crate) fn union(random: &mut Random, t: &Table, has_u: bool) -> Query {
    let other = if has_u { "u" } else { "t" };
    let columns = list(names(&t.columns));
    if random.percent(30) {
        let between = *random.pick(&["INTERSECT", "EXCEPT", "UNION"]);
        let order = terms(t.key());
        let from = format!(
            "(SELECT {columns} FROM t WHERE id % 2 = 1 {between} SELECT {columns} FROM {other})"
        );
        return Query::new(Kind::Union, "*", from).ordered(order);
    }
    let order = random_order(random, t);
    let from = format!("(SELECT {columns}, id FROM t UNION ALL SELECT {columns}, id FROM {other})");
    Query::new(Kind::Union, "*", from)
        .ordered(order)
        .maybe_limited(random, t.row_count() * 2)
}

/// A query of a limited subquery, whose rows are certain.
pub(crate) fn limited(random: &mut Random, t: &Table, rows: usize) -> Query {
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
    match random.below(6) {
        0 => Query::new(Kind::Limited, "count(*) AS n", inner(&order, fetch)),
        1 => {
            let columns = list(order.iter().map(|term| &term.expr));
            Query::new(Kind::Limited, columns, inner(&order, fetch)).ordered(order)
        }
        // All rows, in one order and then in another that the first must not be taken for.
        2 => {
            let key = terms(t.key());
            let prefix = key[..random.within(1..=key.len())].to_vec();
            Query::new(Kind::Limited, "*", inner(&prefix, rows + 1)).ordered(key)
        }
        3 => {
            let other = random_order(random, t);
            Query::new(Kind::Limited, "*", inner(&other, rows + 1)).ordered(terms(t.key()))
        }
        4 => Query::new(Kind::Limited, "*", inner(&certain, fetch))
            .ordered(terms(t.key()))
            .maybe_filtered(random, t)
            .maybe_limited(random, fetch),
        _ => Query::new(Kind::Limited, "id, tag", inner(&certain, fetch))
            .ordered([Term::new("id", UP)])
            .maybe_filtered(random, t),
    }
}
