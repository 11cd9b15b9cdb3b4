//! Queries, and the random choice of their parts.

use std::fmt;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::random::Random;
use crate::table::{Column, Table};

/// What a query is about, for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    WholeKey,
    Prefix,
    KeyThenPayload,
    Reversed,
    OtherOrder,
    NoKey,
    GroupByKey,
    GroupByOther,
    Distinct,
    Aggregate,
    Window,
    Join,
    Union,
    Limited,
    Unordered,
}

/// `SELECT select FROM from WHERE filter rest ORDER BY order limit`.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) kind: Kind,
    pub(crate) select: String,
    pub(crate) from: String,
    pub(crate) filter: Option<String>,
    /// What follows the filter.
    pub(crate) rest: String,
    /// Expressions of what is selected from, which the selected columns of a row determine.
    pub(crate) order: Vec<Term>,
    pub(crate) skip: usize,
    pub(crate) fetch: Option<usize>,
    /// The values of `$1`, `$2` and so on.
    pub(crate) params: Vec<ScalarValue>,
}

/// An expression of an `ORDER BY`.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    pub(crate) expr: String,
    pub(crate) options: SortOptions,
}

impl Term {
    pub(crate) fn new(expr: impl Into<String>, options: SortOptions) -> Self {
        Self {
            expr: expr.into(),
            options,
        }
    }

    pub(crate) fn of(column: &Column) -> Self {
        Self::new(&column.name, column.options)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.options.descending {
            "DESC"
        } else {
            "ASC"
        };
        let nulls = if self.options.nulls_first {
            "FIRST"
        } else {
            "LAST"
        };
        write!(f, "{} {direction} NULLS {nulls}", self.expr)
    }
}

pub(crate) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

impl Query {
    pub(crate) fn new(kind: Kind, select: impl Into<String>, from: impl Into<String>) -> Self {
        Self {
            kind,
            select: select.into(),
            from: from.into(),
            filter: None,
            rest: String::new(),
            order: vec![],
            skip: 0,
            fetch: None,
            params: vec![],
        }
    }

    pub(crate) fn ordered(mut self, order: impl IntoIterator<Item = Term>) -> Self {
        self.order = order.into_iter().collect();
        self
    }

    pub(crate) fn then(mut self, rest: impl Into<String>) -> Self {
        self.rest = rest.into();
        self
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.skip > 0 || self.fetch.is_some()
    }

    /// The query.
    pub(crate) fn sql(&self) -> String {
        let mut sql = self.with_select(&self.select);
        if let Some(fetch) = self.fetch {
            sql += &format!(" LIMIT {fetch}");
        }
        if self.skip > 0 {
            sql += &format!(" OFFSET {}", self.skip);
        }
        sql
    }

    /// The query without its limit, and with the expressions of its order as last columns.
    pub(crate) fn wide_sql(&self) -> String {
        let order = self.order.iter().enumerate();
        let order = order.map(|(index, term)| format!("{} AS o{index}", term.expr));
        self.with_select(&list(std::iter::once(self.select.clone()).chain(order)))
    }

    fn with_select(&self, select: &str) -> String {
        let mut sql = format!("SELECT {select} FROM {}", self.from);
        if let Some(filter) = &self.filter {
            sql += &format!(" WHERE {filter}");
        }
        if !self.rest.is_empty() {
            sql += &format!(" {}", self.rest);
        }
        if !self.order.is_empty() {
            sql += &format!(" ORDER BY {}", list(&self.order));
        }
        sql
    }

    /// Perhaps a limit; some are longer than the table.
    pub(crate) fn maybe_limited(mut self, random: &mut Random, rows: usize) -> Self {
        if random.percent(45) {
            self.fetch = Some(match random.below(8) {
                0 => 0,
                1 => rows + 5,
                2 => random.below(rows + 1),
                _ => random.within(1..=10),
            });
        }
        if random.percent(20) {
            self.skip = match random.below(5) {
                0 => rows + 1,
                1 => random.below(rows + 1),
                _ => random.within(1..=10),
            };
        }
        self
    }

    /// Perhaps a filter on the columns of `table`, which must all be there.
    pub(crate) fn maybe_filtered(mut self, random: &mut Random, table: &Table) -> Self {
        if random.percent(50) {
            self.filter = Some(filter(random, table, &mut self.params));
        }
        self
    }
}

fn filter(random: &mut Random, table: &Table, params: &mut Vec<ScalarValue>) -> String {
    let one = match random.below(10) {
        0 => "tag = 'b'".into(),
        1 => "f > 0".into(),
        2 => "id % 3 = 1".into(),
        3 => "tag IN ('a', 'c')".into(),
        _ => {
            let column = random_column(random, table);
            on_column(random, column, params)
        }
    };
    match random.below(8) {
        0 => format!("{one} AND {}", filter(random, table, params)),
        1 => format!("({one} OR {})", filter(random, table, params)),
        _ => one,
    }
}

/// Mostly the first one.
fn random_column<'t>(random: &mut Random, table: &'t Table) -> &'t Column {
    match random.percent(60) {
        true => &table.columns[0],
        false => random.pick(&table.columns),
    }
}

fn on_column(random: &mut Random, column: &Column, params: &mut Vec<ScalarValue>) -> String {
    let mut value = |random: &mut Random| {
        let place = random.below(column.pool.len());
        params.push(ScalarValue::try_from_array(&column.pool, place).unwrap());
        format!("${}", params.len())
    };
    let name = &column.name;
    match random.below(10) {
        0 => format!("{name} IS NULL"),
        1 => format!("{name} IS NOT NULL"),
        2 => format!(
            "{name} IN ({}, {}, {})",
            value(random),
            value(random),
            value(random)
        ),
        3 if matches!(column.data_type, DataType::Timestamp(..)) => {
            format!("CAST({name} AS TIME) < TIME '12:00:00'")
        }
        3 => format!("{name} BETWEEN {} AND {}", value(random), value(random)),
        _ => {
            let comparison = *random.pick(&["=", "<", "<=", ">", ">=", "<>"]);
            format!("{name} {comparison} {}", value(random))
        }
    }
}
