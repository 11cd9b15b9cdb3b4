//! Smaller cases that go wrong in the same way.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::case::{Failure, Outcome, check, right_answer};
use crate::fuzz::Found;
use crate::register::Provider;
use crate::shape::Shape;
use crate::table::Table;

/// A case as small as was found, and what else is known of it.
pub(crate) struct Shrunk {
    pub(crate) found: Found,
    /// How many of some runs of the first case went wrong.
    pub(crate) wrong: (usize, usize),
    /// What goes wrong in tables without a part of this crate.
    pub(crate) without_us: Vec<(&'static str, Option<Failure>)>,
}

const RUNS: usize = 5;
const TRIES: usize = 600;
const PATIENCE: Duration = Duration::from_secs(100);

pub(crate) async fn shrink(found: Found) -> Shrunk {
    let mut wrong = 0;
    for _ in 0..RUNS {
        wrong += usize::from(rerun(&found, Provider::Sorted).await.is_some());
    }
    let mut shrinker = Shrinker {
        best: found,
        repeats: if wrong == RUNS { 1 } else { 2 * RUNS },
        tries: TRIES,
        end: Instant::now() + PATIENCE,
    };
    if wrong > 0 {
        shrinker.run().await;
    }
    let found = shrinker.best;
    let mut disabled = found.clone();
    disabled
        .session
        .options
        .push(("sorted_listing.enabled", "false"));
    let mut without_us = vec![];
    for (name, found, provider) in [
        ("sorted_listing.enabled=false", &disabled, Provider::Sorted),
        ("ListingTable", &found, Provider::Stock),
        ("ListingTable without an order", &found, Provider::Unordered),
    ] {
        let mut also = None;
        for _ in 0..shrinker.repeats {
            also = also.or(rerun(found, provider).await);
        }
        without_us.push((name, also));
    }
    Shrunk {
        found,
        wrong: (wrong, RUNS),
        without_us,
    }
}

/// Runs a case again; nothing if it is right, or is no case any more.
async fn rerun(found: &Found, provider: Provider) -> Option<Failure> {
    let store = found.tables.write().await;
    let files = found.tables.of_files(&found.session, provider, &store);
    let files = files.await.ok()?;
    let rows = found.tables.of_rows(&files).await.ok()?;
    let right = right_answer(&rows, &found.query).await.ok()?;
    match check(&files, &found.query, &right).await {
        Outcome::Wrong(failure) => Some(failure),
        Outcome::Right { .. } | Outcome::OutOfMemory | Outcome::Refused(_) => None,
    }
}

struct Shrinker {
    best: Found,
    /// How often a case is run before it counts as right.
    repeats: usize,
    tries: usize,
    end: Instant,
}

impl Shrinker {
    async fn run(&mut self) {
        loop {
            let tries = self.tries;
            let mut progress = false;
            for change in CHANGES {
                let mut smaller = self.best.clone();
                if change(&mut smaller) {
                    progress |= self.try_it(smaller).await;
                }
            }
            progress |= self
                .without_parts(
                    |found| found.tables.t.files.len(),
                    |found, files| drop(found.tables.t.files.drain(files)),
                )
                .await;
            progress |= self
                .without_parts(
                    |found| found.session.options.len(),
                    |found, options| drop(found.session.options.drain(options)),
                )
                .await;
            progress |= self
                .without_parts(
                    |found| found.tables.t.row_count(),
                    |found, rows| drop_rows(&mut found.tables.t, rows),
                )
                .await;
            progress |= self
                .without_parts(
                    |found| found.tables.u.as_ref().map_or(0, Table::row_count),
                    |found, rows| drop_rows(found.tables.u.as_mut().unwrap(), rows),
                )
                .await;
            if !progress || tries == self.tries || self.is_over() {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.tries == 0 || Instant::now() > self.end
    }

    /// Leaves out halves, quarters and so on to single parts.
    async fn without_parts(
        &mut self,
        len: impl Fn(&Found) -> usize,
        without: impl Fn(&mut Found, Range<usize>),
    ) -> bool {
        let mut progress = false;
        let mut size = len(&self.best).div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < len(&self.best) {
                let mut smaller = self.best.clone();
                let to = (from + size).min(len(&smaller));
                without(&mut smaller, from..to);
                match self.try_it(smaller).await {
                    true => progress = true,
                    false => from += size,
                }
            }
            size /= 2;
        }
        progress
    }

    async fn try_it(&mut self, smaller: Found) -> bool {
        if self.is_over() {
            return false;
        }
        self.tries -= 1;
        for _ in 0..self.repeats {
            if let Some(failure) = rerun(&smaller, Provider::Sorted).await
                && failure.kind == self.best.failure.kind
            {
                self.best = Found { failure, ..smaller };
                return true;
            }
        }
        false
    }
}

fn drop_rows(table: &mut Table, rows: Range<usize>) {
    let mut row = 0;
    for file in &mut table.files {
        file.rows.retain(|_| {
            row += 1;
            !rows.contains(&(row - 1))
        });
    }
}

/// Changes that make a case simpler; false if it has been as simple.
const CHANGES: [fn(&mut Found) -> bool; 15] = [
    |found| found.tables.u.take().is_some(),
    |found| found.session.memory.take().is_some(),
    |found| std::mem::take(&mut found.session.manifests),
    |found| found.query.filter.take().is_some(),
    |found| std::mem::take(&mut found.query.skip) > 0,
    |found| found.query.fetch.take().is_some(),
    |found| {
        found.query.order.len() > 1 && {
            found.query.order.pop();
            true
        }
    },
    |found| {
        let rows = found.tables.t.row_count();
        let smaller = found.query.fetch.filter(|&fetch| fetch > rows);
        smaller.is_some() && {
            found.query.fetch = Some(rows);
            true
        }
    },
    |found| each_shape(found, |shape| *shape = Shape::default()),
    |found| each_shape(found, |shape| shape.rows_per_group = 1_000_000),
    |found| each_shape(found, |shape| shape.rows_per_page = 20_000),
    |found| each_shape(found, |shape| shape.claims_order = false),
    |found| {
        each_shape(found, |shape| {
            shape.dictionary = true;
            shape.rotated = 0;
            shape.extra_column = false;
        })
    },
    |found| {
        each_shape(found, |shape| {
            shape.truncate = Some(64);
            shape.truncate_index = Some(64);
        })
    },
    |found| each_shape(found, |shape| shape.other_types = false),
];

fn each_shape(found: &mut Found, change: impl Fn(&mut Shape)) -> bool {
    let mut changed = false;
    for file in &mut found.tables.t.files {
        let before = file.shape.clone();
        change(&mut file.shape);
        changed |= file.shape != before;
    }
    changed
}
