//! The bounded merge.

use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::cursor::{Cursor, Limit};
use super::keys::{KeyBuf, Keys, MergeKey};
use super::output::Output;
use super::rank::{QuickRank, Rank, is_before};
use super::stretch::Stretch;
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
/// overlap, the merge looks only for stretches that no other row comes in between, which are then put in order by
/// [tasks of their own](super::stretch::merge). Of rows with equal keys, those of the part that comes first come first.
/// A single run passes without any comparison.
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

/// How a merge puts its rows out.
#[derive(Debug)]
pub(crate) struct MergeOptions {
    pub(crate) batch_size: usize,
    /// How many rows are asked for, if not all.
    pub(crate) fetch: Option<usize>,
    /// How many tasks may put rows in order at a time. If none, the merge does it itself.
    pub(crate) tasks: usize,
    pub(crate) reservation: MemoryReservation,
}

impl<R: Runs> BoundedMerge<R> {
    /// A merge of `runs` by `key`, which may be `None` if there is only one.
    pub(crate) fn try_new(
        runs: R,
        key: Option<MergeKey>,
        schema: &Schema,
        options: MergeOptions,
    ) -> Result<Self> {
        let keys = match key.filter(|_| runs.count() > 1) {
            Some(key) => Some(Keys::try_new(key, schema)?),
            None => None,
        };
        let heads = (0..runs.count()).map(|run| next_head(&runs, &keys, run, None));
        let MergeOptions {
            batch_size,
            fetch,
            tasks,
            reservation,
        } = options;
        let mut merge = Self {
            heads: heads.collect(),
            ranks: vec![],
            tournament: Tournament::new(0, |_, _| false),
            output: Output::new(batch_size, fetch, tasks, reservation),
            runs,
            keys,
        };
        merge.rank_all();
        Ok(merge)
    }

    pub(crate) fn runs_mut(&mut self) -> &mut R {
        &mut self.runs
    }

    /// Lets go of everything.
    pub(crate) fn end(&mut self) {
        self.runs.end();
        self.heads.clear();
        self.output.end();
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
            let is_over = self.output.is_full() || self.has_ended();
            if is_over {
                self.output.flush()?;
            }
            match self.output.poll_pop(cx) {
                Poll::Ready(Some(batch)) => return Poll::Ready(batch.map(Some)),
                Poll::Ready(None) if is_over => return Poll::Ready(Ok(None)),
                Poll::Pending if is_over || !self.output.has_room() => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => ready!(self.advance(cx))?,
            }
        }
    }

    fn has_ended(&self) -> bool {
        let next = self.heads.get(self.tournament.winner());
        next.is_none_or(|head| matches!(head, Head::End))
    }

    /// Goes on with the run that comes next.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let run = self.tournament.winner();
        match &self.heads[run] {
            Head::End => {}
            Head::Bound { .. } => {
                ready!(self.poll_run(run, cx))?;
                self.rank_winner();
            }
            Head::Batch(cursor) => {
                let next = self.tournament.runner_up(|a, b| self.is_before(a, b));
                let next = next.map_or(Rank::End, |other| self.heads[other].rank());
                if cursor.last().is_before(next) {
                    self.pass(run)?;
                    self.rank_winner();
                } else {
                    self.put_in_order(run)?;
                    self.rank_all();
                }
            }
        }
        Poll::Ready(Ok(()))
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
                    self.output.push_whole(&batch)?;
                    return Poll::Ready(Ok(()));
                };
                let Some(Part { place, .. }) = self.runs.part(run) else {
                    return Poll::Ready(Ok(()));
                };
                let cursor = Cursor::try_new(keys, batch, place)?;
                self.output.hold(cursor.bytes());
                self.heads[run] = Head::Batch(cursor);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Emits all rows left of the batch that `run` is at.
    fn pass(&mut self, run: usize) -> Result<()> {
        let Head::Batch(cursor) = &mut self.heads[run] else {
            return Ok(());
        };
        let rows = cursor.take_all();
        self.end_batch(run);
        self.output.push_rows(rows)
    }

    /// Emits rows of `run`, which comes next, and all that come in between.
    fn put_in_order(&mut self, run: usize) -> Result<()> {
        let (Some(limit), Some(keys)) = (self.limit(run)?, &self.keys) else {
            return Ok(());
        };
        let mut sources = vec![];
        let mut ended = vec![];
        for (run, head) in self.heads.iter_mut().enumerate() {
            if let Head::Batch(cursor) = head {
                sources.extend(cursor.take(keys, &limit)?);
                if cursor.is_at_end() {
                    ended.push(run);
                }
            }
        }
        ended.into_iter().for_each(|run| self.end_batch(run));
        match <[_; 1]>::try_from(sources) {
            Ok([source]) => self.output.push_rows(source),
            // The next row comes before all that is at hand, unless rows that come after it in its batch come before it.
            Err(sources) if sources.is_empty() => exec_err!(
                "the rows of a file are not in the order that is declared, by which they are merged. Write the file \
                 anew in that order, or declare another one"
            ),
            Err(sources) => self.output.push(Stretch { sources }),
        }
    }

    /// Where the rows that are at hand end, or earlier, if they are more than a batch, as far as can be seen from `run`,
    /// which comes next.
    fn limit(&mut self, run: usize) -> Result<Option<Limit>> {
        let is_batch = |head: &&Head| matches!(head, Head::Batch(_));
        let at_hand = self.heads.iter().filter(is_batch).count().max(1);
        let rows = self.output.batch_rows().div_ceil(at_hand);
        let (Head::Batch(cursor), Some(keys)) = (&mut self.heads[run], &self.keys) else {
            return Ok(None);
        };
        let mut limit = cursor.limit_after(keys, rows)?;
        for head in &self.heads {
            match head {
                Head::Bound {
                    first: Some(key),
                    place,
                } => limit.lower_to_before(key, *place),
                Head::Batch(cursor) => limit.lower_to(cursor),
                // Nothing comes before a bound that is not known, so that another run would be next.
                Head::Bound { first: None, .. } | Head::End => {}
            }
        }
        Ok(Some(limit))
    }

    /// The batch that `run` is at has been emitted.
    fn end_batch(&mut self, run: usize) {
        if let Head::Batch(cursor) = &self.heads[run] {
            self.output.let_go(cursor.bytes());
            self.heads[run] = Head::Bound {
                first: Some(cursor.last_key().to_owned()),
                place: cursor.place(),
            };
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        is_before(&self.ranks, a, b, |run| self.heads[run].rank())
    }

    /// Finds what comes next when the run that came next has changed.
    fn rank_winner(&mut self) {
        let run = self.tournament.winner();
        let (ranks, heads) = (&mut self.ranks, &self.heads);
        ranks[run] = heads[run].rank().quick();
        self.tournament
            .replay(|a, b| is_before(ranks, a, b, |run| heads[run].rank()));
    }

    /// Finds what comes next when all runs may have changed.
    fn rank_all(&mut self) {
        self.ranks = self.heads.iter().map(|head| head.rank().quick()).collect();
        self.tournament = Tournament::new(self.heads.len(), |a, b| self.is_before(a, b));
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

impl Head {
    fn rank(&self) -> Rank<'_> {
        match self {
            Self::Bound { first: None, place } => Rank::Start(*place),
            Self::Bound {
                first: Some(key),
                place,
            } => Rank::At(key.as_ref(), *place),
            Self::Batch(cursor) => cursor.first(),
            Self::End => Rank::End,
        }
    }
}
