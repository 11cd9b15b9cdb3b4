//! The byte budget that the inputs of a sequence share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::physical_plan::metrics::Gauge;
use tokio::sync::Notify;

/// How much may be buffered, and what is.
///
/// Batches of inputs that are needed to go on are always let in one at a time, whatever the budget, so that they make
/// progress, and up to the bytes that their readers would hold otherwise, as long as half of the memory pool is left to
/// others. All others wait for room, in the budget and in the memory pool.
#[derive(Debug)]
pub(super) struct ReadAhead {
    budget: usize,
    /// For each input, how many bytes may be buffered beyond the budget, once it is needed.
    at_once: Vec<usize>,
    pool: Arc<dyn MemoryPool>,
    state: Mutex<State>,
    /// For each input, that it may try again.
    try_again: Vec<Notify>,
}

#[derive(Debug)]
struct State {
    /// Whether each input is needed to go on.
    needed: Vec<bool>,
    /// Those that wait for room, the first to wait first.
    waiting: VecDeque<usize>,
    /// How many inputs were opened and have not been needed yet.
    unneeded: usize,
    /// The batches that are buffered of each input.
    batches: Vec<usize>,
    /// What is buffered within the budget.
    bytes: usize,
    /// What is buffered of each input beyond the budget.
    beyond: Vec<usize>,
    reservation: MemoryReservation,
    /// Whether the memory pool had no room the last time that some was asked for.
    refused: bool,
    /// Whether nothing is emitted any more.
    closed: bool,
    peak: Gauge,
}

/// What a buffered batch was charged. Give it back with [`ReadAhead::release`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    bytes: usize,
    beyond_budget: bool,
}

impl ReadAhead {
    pub(super) fn new(
        budget: usize,
        at_once: Vec<usize>,
        pool: &Arc<dyn MemoryPool>,
        peak: Gauge,
    ) -> Self {
        let inputs = at_once.len();
        Self {
            budget,
            at_once,
            pool: Arc::clone(pool),
            state: Mutex::new(State {
                needed: vec![false; inputs],
                waiting: VecDeque::new(),
                unneeded: 0,
                batches: vec![0; inputs],
                bytes: 0,
                beyond: vec![0; inputs],
                reservation: MemoryConsumer::new("SequenceExec").register(pool),
                refused: false,
                closed: false,
                peak,
            }),
            try_again: (0..inputs).map(|_| Notify::new()).collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a batch of `bytes` of `input` may be buffered.
    pub(super) async fn admit(&self, input: usize, bytes: usize) -> Charge {
        loop {
            if let Some(charge) = self.try_admit(input, bytes) {
                return charge;
            }
            // A notice that comes before this is kept.
            self.try_again[input].notified().await;
        }
    }

    fn try_admit(&self, input: usize, bytes: usize) -> Option<Charge> {
        let mut state = self.state();
        let charge = state.try_admit(input, bytes, self);
        match charge {
            None => {
                if !state.waiting.contains(&input) {
                    state.waiting.push_back(input);
                }
            }
            // There may be room for more than one.
            Some(_) => {
                state.waiting.retain(|&waiting| waiting != input);
                self.wake_next(&mut state);
            }
        }
        charge
    }

    /// Whether half of the memory pool is left when `bytes` are taken. Others may have no way to do with less.
    fn has_half_left(&self, bytes: usize) -> bool {
        match self.pool.memory_limit() {
            MemoryLimit::Infinite => true,
            MemoryLimit::Finite(limit) => self.pool.reserved().saturating_add(bytes) <= limit / 2,
            MemoryLimit::Unknown => false,
        }
    }

    /// Lets the input try that has waited for the longest.
    fn wake_next(&self, state: &mut State) {
        if let Some(input) = state.waiting.pop_front() {
            self.try_again[input].notify_one();
        }
    }

    /// Whether it makes sense to read one more input: if three quarters of the budget are left.
    ///
    /// A reader begins by fetching a whole row group. That should not come on top of what is about to be emitted. What is
    /// buffered beyond the budget does not count: it takes the place of what readers would hold.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state();
        !state.refused && state.bytes < self.budget.div_ceil(4)
    }

    /// Gives everything back. What is released later was given back already.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.bytes = 0;
        state.beyond.fill(0);
        state.reservation.free();
    }

    /// A batch of `input` was taken out.
    pub(super) fn release(&self, input: usize, charge: Charge) {
        let mut state = self.state();
        state.batches[input] -= 1;
        if !state.closed {
            if charge.beyond_budget {
                state.beyond[input] -= charge.bytes;
            } else {
                state.bytes -= charge.bytes;
            }
            state.reservation.shrink(charge.bytes);
        }
        // It may be needed, and have room by that.
        self.try_again[input].notify_one();
        self.wake_next(&mut state);
    }

    /// Nothing can be emitted without `input` from here on.
    pub(super) fn need(&self, input: usize) {
        let mut state = self.state();
        if !state.needed[input] {
            state.needed[input] = true;
            state.unneeded -= 1;
            self.try_again[input].notify_one();
        }
    }

    /// An input is open from here on.
    pub(super) fn open(&self) {
        self.state().unneeded += 1;
    }

    /// How many inputs are open that nothing waits for yet.
    pub(super) fn unneeded(&self) -> usize {
        self.state().unneeded
    }

    /// An input has ended. The memory pool may have room again.
    pub(super) fn advance(&self) {
        let mut state = self.state();
        state.refused = false;
        self.wake_next(&mut state);
    }
}

impl State {
    fn try_admit(&mut self, input: usize, bytes: usize, limits: &ReadAhead) -> Option<Charge> {
        let mut charge = Charge {
            bytes,
            beyond_budget: false,
        };
        if self.closed || self.needed[input] && self.batches[input] == 0 {
            charge.bytes = 0;
        } else if self.bytes + bytes <= limits.budget {
            self.refused = self.reservation.try_grow(bytes).is_err();
            if self.refused {
                return None;
            }
            self.bytes += bytes;
        } else if self.needed[input]
            && self.beyond[input] + bytes <= limits.at_once[input]
            && limits.has_half_left(bytes)
        {
            self.reservation.try_grow(bytes).ok()?;
            self.beyond[input] += bytes;
            charge.beyond_budget = true;
        } else {
            return None;
        }
        self.peak.set_max(self.reservation.size());
        self.batches[input] += 1;
        Some(charge)
    }
}
