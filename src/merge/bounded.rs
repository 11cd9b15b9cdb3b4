//! The bounded merge.

use std::cmp::Ordering;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::memory_pool::MemoryReservation;

use super::keys::{BatchKeys, KeyBuf, KeyRef, Keys, MergeKey};
use super::output::Output;
use super::tournament::Tournament;

/// The inputs of a merge: runs, each of which is parts one after another, each of which is sorted.
pub(crate) trait Runs {
    fn count(&self) -> usize;

    /// The part that a run is at, or that it begins next; `None` if it has ended.
    fn part(&self, run: usize) -> Option<Part<'_>>;

    /// Reads on in a run that has not ended.
    fn poll(&mut self, run: usize, cx: &mut Context<'_>) -> Poll<Result<Polled>>;

    /// `run`, which comes next, has to be waited for. What overlaps with the part that it is at may be opened meanwhile.
    fn wait(&mut self, run: usize, cx: &mut Context<'_>);

    /// Nothing is read any more.
    fn end(&mut self);
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Its place in the order of the parts of all runs. Of rows with equal keys, those of the first part come first.
    pub(crate) place: usize,
    /// The key that none of its rows comes before, see [`MergeKey::first`]; `None` if that is not known.
    pub(crate) first: Option<&'a [u8]>,
}

/// What a run gives.
#[derive(Debug)]
pub(crate) enum Polled {
    Batch(RecordBatch),
    /// The part has ended, and the run is at the next one, which need not be open yet.
    PartEnd,
}

/// Merges runs whose parts have bounds.
///
/// A part takes part only from the moment that the last key emitted can reach its bound. Until then it is not polled,
/// and costs a comparison of bounds. A batch that ends before any other row or bound passes untouched. Where runs do
/// overlap, rows move in stretches found by galloping. Of rows with equal keys, those of the part that comes first come
/// first. A single run passes without any comparison.
#[derive(Debug)]
pub(crate) struct BoundedMerge<R> {
    runs: R,
    /// What each run comes with next.
    heads: Vec<Head>,
    /// Where each head is in the order of the output, as far as that is quickly compared.
    ranks: Vec<QuickRank>,
    tournament: Tournament,
    /// `None` if there is one run only.
    keys: Option<Keys>,
    output: Output,
    /// The run that rows came from last, and how many times in a row.
    streak: (usize, usize),
    reservation: MemoryReservation,
}

#[derive(Debug)]
enum Head {
    /// Nothing is read yet of what comes next. It does not come before this key.
    Bound {
        first: Option<KeyBuf>,
        place: usize,
    },
    Batch(Cursor),
    End,
}

/// A batch, as far as its rows are not emitted yet.
#[derive(Debug)]
struct Cursor {
    batch: RecordBatch,
    columns: Vec<ArrayRef>,
    keys: CursorKeys,
    at: usize,
    place: usize,
    bytes: usize,
}

#[derive(Debug)]
enum CursorKeys {
    /// Those of the first and the last row.
    Ends {
        first: KeyBuf,
        last: KeyBuf,
    },
    All(BatchKeys),
}

/// So many times in a row a run has to come first before it is worth a search how far it goes.
const GALLOP: usize = 3;

impl<R: Runs> BoundedMerge<R> {
    /// A merge of `runs` by `key`, which may be `None` if there is only one: its first `fetch` rows.
    pub(crate) fn try_new(
        runs: R,
        key: Option<MergeKey>,
        schema: &Schema,
        batch_size: usize,
        fetch: Option<usize>,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let keys = match key.filter(|_| runs.count() > 1) {
            Some(key) => Some(Keys::try_new(key, schema)?),
            None => None,
        };
        let heads: Vec<_> = (0..runs.count())
            .map(|run| next_head(&runs, &keys, run, None))
            .collect();
        let ranks: Vec<_> = heads.iter().map(|head| head.rank().quick()).collect();
        Ok(Self {
            tournament: Tournament::new(heads.len(), |a, b| is_before(&ranks, &heads, a, b)),
            ranks,
            output: Output::new(runs.count(), batch_size, fetch),
            runs,
            heads,
            keys,
            streak: (0, 0),
            reservation,
        })
    }

    pub(crate) fn runs_mut(&mut self) -> &mut R {
        &mut self.runs
    }

    /// Lets go of everything.
    pub(crate) fn end(&mut self) {
        self.runs.end();
        self.heads.clear();
        self.output.clear();
        self.reservation.free();
    }

    /// Whether all rows that were asked for have been emitted.
    pub(crate) fn is_full(&self) -> bool {
        self.output.is_full() && self.output.is_empty()
    }

    /// The rows that were copied since the last call, because runs overlapped there.
    pub(crate) fn take_gathered(&mut self) -> usize {
        self.output.take_gathered()
    }

    pub(crate) fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            if let Some(batch) = self.output.pop() {
                return Poll::Ready(Ok(Some(batch)));
            }
            if self.heads.is_empty() || self.output.is_full() {
                return Poll::Ready(Ok(None));
            }
            let run = self.tournament.winner();
            match &self.heads[run] {
                Head::End => {
                    self.output.flush()?;
                    return Poll::Ready(Ok(self.output.pop()));
                }
                Head::Bound { .. } => ready!(self.poll_run(run, cx))?,
                Head::Batch(_) => self.emit(run)?,
            }
            self.ranks[run] = self.heads[run].rank().quick();
            let (ranks, heads) = (&self.ranks, &self.heads);
            self.tournament.replay(|a, b| is_before(ranks, heads, a, b));
        }
    }

    /// Reads on in `run`. If there is no other, its batches pass.
    fn poll_run(&mut self, run: usize, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Poll::Ready(polled) = self.runs.poll(run, cx) else {
            self.runs.wait(run, cx);
            return Poll::Pending;
        };
        match polled? {
            Polled::PartEnd => {
                let Head::Bound { first, .. } = &mut self.heads[run] else {
                    return Poll::Ready(Ok(()));
                };
                let floor = first.take();
                self.heads[run] = next_head(&self.runs, &self.keys, run, floor);
            }
            Polled::Batch(batch) if batch.num_rows() == 0 => {}
            Polled::Batch(batch) => {
                let Some(keys) = &self.keys else {
                    self.output.push_whole(&batch);
                    return Poll::Ready(Ok(()));
                };
                let Some(Part { place, .. }) = self.runs.part(run) else {
                    return Poll::Ready(Ok(()));
                };
                let cursor = Cursor::try_new(keys, batch, place)?;
                // Counted, and not refused: the batch is there, and the merge cannot go on without it.
                self.reservation.grow(cursor.bytes);
                self.heads[run] = Head::Batch(cursor);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Emits rows of `run`, which comes first.
    fn emit(&mut self, run: usize) -> Result<()> {
        self.streak = match self.streak {
            (same, times) if same == run => (run, times + 1),
            _ => (run, 0),
        };
        let heads = &self.heads;
        let limit = || {
            let less = |a, b| is_before(&self.ranks, heads, a, b);
            let runner_up = self.tournament.runner_up(less);
            runner_up.map_or(Rank::End, |other| heads[other].rank())
        };
        let Head::Batch(cursor) = &heads[run] else {
            return Ok(());
        };
        let rows = match &cursor.keys {
            CursorKeys::Ends { last, .. } if cursor.rank_of(last.as_ref()).is_before(limit()) => {
                cursor.rows_left()
            }
            CursorKeys::Ends { .. } => 0,
            CursorKeys::All(_) if self.streak.1 < GALLOP => 1,
            CursorKeys::All(keys) => cursor.rows_before(keys, limit()),
        };
        let Head::Batch(cursor) = &mut self.heads[run] else {
            return Ok(());
        };
        if rows == 0 {
            if let Some(keys) = &self.keys {
                cursor.keys = CursorKeys::All(keys.of_batch(&cursor.columns)?);
            }
            // Mostly, the batch reaches into another with its end only.
            self.streak = (run, GALLOP);
            return Ok(());
        }
        self.output.push(run, &cursor.batch, cursor.at, rows)?;
        cursor.at += rows;
        if cursor.rows_left() == 0 {
            self.output.end_batch(run);
            self.reservation.shrink(cursor.bytes);
            self.heads[run] = Head::Bound {
                first: Some(cursor.last_key()),
                place: cursor.place,
            };
        }
        Ok(())
    }
}

/// What a run comes with that begins a part after having given rows up to `floor`.
fn next_head<R: Runs>(runs: &R, keys: &Option<Keys>, run: usize, floor: Option<KeyBuf>) -> Head {
    let Some(Part { place, first }) = runs.part(run) else {
        return Head::End;
    };
    let bound = keys.as_ref().and_then(|keys| Some(keys.of_bound(first?)));
    let first = match (bound, floor) {
        (Some(bound), Some(floor)) if bound.as_ref().cmp(floor.as_ref()).is_lt() => Some(floor),
        (bound, floor) => bound.or(floor),
    };
    Head::Bound { first, place }
}

/// Where a head is in the order of the output.
#[derive(Debug, Clone, Copy)]
enum Rank<'a> {
    /// Before all keys, for all that is known, with the place of its part.
    Start(usize),
    /// At a key, with the place of its part.
    At(KeyRef<'a>, usize),
    End,
}

/// What comes first in the comparison of ranks: whether they are at a key, and the beginning of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QuickRank(u8, u128);

/// Whether the head of run `a` comes before that of run `b`.
fn is_before(ranks: &[QuickRank], heads: &[Head], a: usize, b: usize) -> bool {
    match ranks[a].cmp(&ranks[b]) {
        Ordering::Equal => heads[a].rank().is_before(heads[b].rank()),
        order => order.is_lt(),
    }
}

impl Rank<'_> {
    fn quick(self) -> QuickRank {
        match self {
            Self::Start(_) => QuickRank(0, 0),
            Self::At(key, _) => QuickRank(1, key.prefix()),
            Self::End => QuickRank(2, 0),
        }
    }

    fn is_before(self, other: Rank<'_>) -> bool {
        match (self, other) {
            (Self::At(a, a_place), Rank::At(b, b_place)) => match a.cmp(b) {
                Ordering::Equal => a_place < b_place,
                order => order.is_lt(),
            },
            (Self::Start(a), Rank::Start(b)) => a < b,
            (Self::Start(_), _) | (Self::At(..), Rank::End) => true,
            (Self::At(..), Rank::Start(_)) | (Self::End, _) => false,
        }
    }
}

impl Head {
    fn rank(&self) -> Rank<'_> {
        match self {
            Self::Bound { first: None, place } => Rank::Start(*place),
            Self::Bound {
                first: Some(key),
                place,
            } => Rank::At(key.as_ref(), *place),
            Self::Batch(cursor) => cursor.rank_of(match &cursor.keys {
                CursorKeys::Ends { first, .. } => first.as_ref(),
                CursorKeys::All(keys) => keys.get(cursor.at),
            }),
            Self::End => Rank::End,
        }
    }
}

impl Cursor {
    /// A cursor at the first row of `batch`, which has one.
    fn try_new(keys: &Keys, batch: RecordBatch, place: usize) -> Result<Self> {
        let columns = keys.columns(&batch)?;
        Ok(Self {
            keys: CursorKeys::Ends {
                first: keys.of_row(&columns, 0)?,
                last: keys.of_row(&columns, batch.num_rows() - 1)?,
            },
            bytes: get_record_batch_memory_size(&batch),
            columns,
            batch,
            at: 0,
            place,
        })
    }

    fn rank_of<'a>(&self, key: KeyRef<'a>) -> Rank<'a> {
        Rank::At(key, self.place)
    }

    fn rows_left(&self) -> usize {
        self.batch.num_rows() - self.at
    }

    fn last_key(&self) -> KeyBuf {
        match &self.keys {
            CursorKeys::Ends { last, .. } => last.clone(),
            CursorKeys::All(keys) => keys.get(self.batch.num_rows() - 1).to_owned(),
        }
    }

    /// How many rows from here on come before `limit`: one at least. O(log of that).
    fn rows_before(&self, keys: &BatchKeys, limit: Rank<'_>) -> usize {
        let is_before = |row: usize| self.rank_of(keys.get(self.at + row)).is_before(limit);
        let left = self.rows_left();
        let mut step = 1;
        while step < left && is_before(step) {
            step *= 2;
        }
        // The row at half the step comes before, and that at the step does not.
        let (mut low, mut high) = (step / 2 + 1, step.min(left));
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
