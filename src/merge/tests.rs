//! Merges of random runs against a stable sort.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{Int64Type, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use super::*;
use crate::test_random::Random;

/// Key and payload of a row.
type Row = (Option<i64>, i64);

/// A part in memory.
struct Piece {
    place: usize,
    first: Option<Vec<u8>>,
    batches: VecDeque<RecordBatch>,
}

/// Runs in memory, which are not always ready.
struct InMemory {
    runs: Vec<VecDeque<Piece>>,
    random: Random,
    opened: Vec<usize>,
}

impl Runs for InMemory {
    fn count(&self) -> usize {
        self.runs.len()
    }

    fn part(&self, run: usize) -> Option<Part<'_>> {
        self.runs[run].front().map(|piece| Part {
            place: piece.place,
            first: piece.first.as_deref(),
        })
    }

    fn poll(&mut self, run: usize, _cx: &mut Context<'_>) -> Poll<Result<Polled>> {
        if self.random.below(3) == 0 {
            return Poll::Pending;
        }
        let piece = self.runs[run]
            .front_mut()
            .expect("a run that has not ended");
        if !self.opened.contains(&piece.place) {
            self.opened.push(piece.place);
        }
        Poll::Ready(Ok(match piece.batches.pop_front() {
            Some(batch) => Polled::Batch(batch),
            None => {
                self.runs[run].pop_front();
                Polled::PartEnd
            }
        }))
    }

    fn wait(&mut self, _run: usize, _cx: &mut Context<'_>) {}

    fn end(&mut self) {}
}

fn batch(rows: &[Row], text: bool) -> RecordBatch {
    let payload = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    // Longer than what is compared at once.
    let long = |key: i64| format!("a long and common beginning {key:09}");
    let keys: Arc<dyn Array> = if text {
        Arc::new(
            rows.iter()
                .map(|row| row.0.map(long))
                .collect::<StringArray>(),
        )
    } else {
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())
    };
    RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("p", payload as _, false)])
        .unwrap()
}

fn key_bytes(row: Row, text: bool, options: SortOptions) -> Vec<u8> {
    let batch = batch(&[row], text);
    let field = SortField::new_with_options(batch.column(0).data_type().clone(), options);
    let converter = RowConverter::new(vec![field]).unwrap();
    let rows = converter.convert_columns(&batch.columns()[..1]).unwrap();
    rows.row(0).data().to_vec()
}

fn merged(
    runs: InMemory,
    ordering: SortOptions,
    reversed: bool,
    fetch: Option<usize>,
    tasks: usize,
    schema: &Schema,
) -> (Vec<i64>, usize, Vec<usize>) {
    let sort = PhysicalSortExpr::new(Arc::new(Column::new("k", 0)), ordering);
    let key = MergeKey::new(LexOrdering::new([sort]).unwrap(), reversed);
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let reservation = MemoryConsumer::new("test").register(&pool);
    let options = MergeOptions {
        batch_size: 8,
        fetch,
        tasks,
        reservation,
    };
    let mut merge = BoundedMerge::try_new(runs, Some(key), schema, options).unwrap();
    let mut payloads = vec![];
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match merge.poll_batch(&mut cx) {
            Poll::Pending => std::thread::yield_now(),
            Poll::Ready(Ok(Some(batch))) => {
                payloads.extend_from_slice(batch.column(1).as_primitive::<Int64Type>().values());
            }
            Poll::Ready(Ok(None)) => break,
            Poll::Ready(Err(e)) => panic!("{e}"),
        }
    }
    merge.end();
    assert_eq!(pool.reserved(), 0);
    (
        payloads,
        merge.take_gathered(),
        merge.runs_mut().opened.clone(),
    )
}

/// The place of the NULLs and the direction of an order, and of its reversal.
fn forward(reversed: bool, options: SortOptions) -> SortOptions {
    if reversed { reverse(options) } else { options }
}

#[test]
fn is_a_stable_sort() {
    // Tasks run on its threads, while this one asks again and again.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let mut random = Random::new(29);
    let mut passed = 0;
    for case in 0..4000 {
        let options = SortOptions::new(case % 2 == 0, case % 4 < 2);
        let (text, reversed) = (case % 3 == 0, case % 5 == 0);
        let compare = |a: &Row, b: &Row| match (a.0, b.0) {
            (Some(a), Some(b)) if options.descending => b.cmp(&a),
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) if options.nulls_first => a.is_some().cmp(&b.is_some()),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        let spread = [3, 40, 400][random.below(3) as usize];
        let mut place = 0;
        let mut payload = 0;
        let mut all: Vec<(usize, Row)> = vec![];
        let runs = (0..random.below(6)).map(|_| {
            let len = random.below(60) as usize;
            let mut rows: Vec<Row> = (0..len)
                .map(|_| {
                    let key = random.below(spread);
                    (key.checked_sub(1).map(|key| key as i64), 0)
                })
                .collect();
            rows.sort_by(compare);
            let mut run = VecDeque::new();
            let mut rest = &mut rows[..];
            while !rest.is_empty() {
                let (part, left) = rest.split_at_mut(1 + random.below(rest.len() as u64) as usize);
                for row in part.iter_mut() {
                    payload += 1;
                    row.1 = payload;
                    all.push((place, *row));
                }
                let mut batches = VecDeque::new();
                let mut some = &part[..];
                while !some.is_empty() {
                    let (now, later) = some.split_at(1 + random.below(some.len() as u64) as usize);
                    batches.push_back(batch(now, text));
                    some = later;
                }
                // Bounds may be wider than the rows, and unknown.
                let first = match random.below(3) {
                    0 => None,
                    _ => Some(key_bytes(part[0], text, forward(reversed, options))),
                };
                run.push_back(Piece {
                    place,
                    first,
                    batches,
                });
                place += 1;
                rest = left;
            }
            run
        });
        let runs: Vec<_> = runs.collect();
        all.sort_by(|(a_place, a), (b_place, b)| compare(a, b).then(a_place.cmp(b_place)));
        let expected: Vec<_> = all.iter().map(|(_, row)| row.1).collect();

        let schema = batch(&[], text).schema();
        let runs = InMemory {
            runs,
            random: Random::new(case),
            opened: vec![],
        };
        let fetch = (case % 3 == 1).then(|| random.below(90) as usize);
        let expected = &expected[..fetch.unwrap_or(usize::MAX).min(expected.len())];
        let tasks = if case % 16 == 0 { 3 } else { 0 };
        let (found, gathered, _) = merged(runs, options, reversed, fetch, tasks, &schema);

        assert_eq!(found, expected, "case {case}");
        passed += found.len() - gathered;
    }
    assert!(passed > 1000, "some rows pass untouched: {passed}");
}

#[test]
fn runs_that_overlap_a_little_pass_nearly_untouched() {
    // Of 100 rows, each part shares 10 with the one before, which is in the other run.
    let parts = 20;
    let runs = (0..2).map(|run| {
        (0..parts)
            .filter(|part| part % 2 == run)
            .map(|part| {
                let rows: Vec<Row> = (0..100)
                    .map(|row| (Some(part as i64 * 90 + row), row))
                    .collect();
                Piece {
                    place: part,
                    first: Some(key_bytes(rows[0], false, SortOptions::default())),
                    batches: rows.chunks(5).map(|rows| batch(rows, false)).collect(),
                }
            })
            .collect()
    });
    let runs = InMemory {
        runs: runs.collect(),
        random: Random::new(1),
        opened: vec![],
    };
    let schema = batch(&[], false).schema();
    let (rows, gathered, opened) = merged(runs, SortOptions::default(), false, None, 0, &schema);
    assert_eq!(rows.len(), 2000);
    assert!(gathered <= (parts - 1) * 30, "{gathered} rows were copied");
    assert_eq!(
        opened,
        (0..parts).collect::<Vec<_>>(),
        "each is opened when it is reached"
    );
}

#[test]
fn rows_out_of_order_are_an_error_and_no_endless_loop() {
    let piece = |place, keys: &[i64]| {
        let rows: Vec<Row> = keys.iter().map(|&key| (Some(key), key)).collect();
        VecDeque::from([Piece {
            place,
            first: None,
            batches: VecDeque::from([batch(&rows, false)]),
        }])
    };
    let runs = InMemory {
        runs: vec![piece(0, &[5, 6, 1]), piece(1, &[3, 4, 9])],
        random: Random::new(1),
        opened: vec![],
    };
    let sort = PhysicalSortExpr::new(Arc::new(Column::new("k", 0)), SortOptions::default());
    let key = MergeKey::new(LexOrdering::new([sort]).unwrap(), false);
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let options = MergeOptions {
        batch_size: 8,
        fetch: None,
        tasks: 0,
        reservation: MemoryConsumer::new("test").register(&pool),
    };
    let schema = batch(&[], false).schema();
    let mut merge = BoundedMerge::try_new(runs, Some(key), &schema, options).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let error = (0..1000).find_map(|_| match merge.poll_batch(&mut cx) {
        Poll::Ready(Err(e)) => Some(e.strip_backtrace()),
        _ => None,
    });
    let error = error.expect("an error");
    assert!(
        error.contains("not in the order that is declared"),
        "{error}"
    );
}
