//! Random queries over a table `t`, and perhaps another table `u` with the same columns.

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;

use crate::combined::{join, limited, union};
use crate::grouped::{aggregate, grouped, window};
use crate::query::{Kind, Query, Term, list};
use crate::random::Random;
use crate::table::{Column, Table};
use crate::values::value_type;

pub(crate) const UP: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

pub(crate) fn random_query(random: &mut Random, t: &Table, has_u: bool) -> Query {
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
        Kind::Union => union(random, t, has_u),
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
                Kind::OtherOrder => match random.percent(60) {
                    true => random_order(random, t),
                    false => order_of_expression(random, t),
                },
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

pub(crate) fn names(columns: &[Column]) -> impl Iterator<Item = &str> {
    columns.iter().map(|column| column.name.as_str())
}

pub(crate) fn terms(columns: &[Column]) -> Vec<Term> {
    columns.iter().map(Term::of).collect()
}

fn random_options(random: &mut Random) -> SortOptions {
    SortOptions {
        descending: random.percent(50),
        nulls_first: random.percent(50),
    }
}

/// The key, or the beginning of it, the other way round; perhaps with NULL at the end where it was.
pub(crate) fn reversed(random: &mut Random, t: &Table) -> Vec<Term> {
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
pub(crate) fn random_order(random: &mut Random, t: &Table) -> Vec<Term> {
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

/// An expression of the first column, which may keep its order or not; and perhaps the rest of the key.
fn order_of_expression(random: &mut Random, t: &Table) -> Vec<Term> {
    let column = &t.columns[0];
    let forms: &[&str] = match value_type(&column.data_type) {
        DataType::Timestamp(_, _) => &[
            "date_trunc('day', {})",
            "CAST({} AS DATE)",
            "CAST({} AS TIME)",
        ],
        DataType::Date32 | DataType::Date64 => {
            &["date_trunc('month', {})", "CAST({} AS TIMESTAMP)"]
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            &["substr({}, 1, 3)", "length({})", "upper({})"]
        }
        data_type if data_type.is_numeric() => &[
            "CAST({} AS DOUBLE)",
            "{} % 5",
            "floor({})",
            "-{}",
            "CAST({} AS BIGINT)",
        ],
        _ => &["CAST({} AS VARCHAR)"],
    };
    let form = match random.percent(20) {
        true => *random.pick(&["{} IS NULL", "CAST({} AS VARCHAR)"]),
        false => *random.pick(forms),
    };
    let expr = form.replace("{}", &column.name);
    let mut order = terms(t.key());
    order[0] = Term::new(expr, column.options);
    order.truncate(random.within(1..=order.len()));
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
