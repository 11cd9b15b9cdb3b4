//! A tree of losers, as in Knuth's replacement selection.

/// Which of several runs comes next. O(log runs) for each change.
#[derive(Debug)]
pub(super) struct Tournament {
    /// The winner, and at each node from 1 on the run that lost there. The children of node `n` are `2n` and `2n + 1`,
    /// and the leaf of run `r` is node `runs + r`.
    nodes: Vec<usize>,
}

impl Tournament {
    /// Of `runs` runs; `less(a, b)` is whether `a` comes before `b`.
    pub(super) fn new(runs: usize, less: impl Fn(usize, usize) -> bool) -> Self {
        let mut winners = vec![0; runs];
        winners.extend(0..runs);
        let mut nodes = vec![0; runs.max(1)];
        for node in (1..runs).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], nodes[node]) = if less(right, left) {
                (right, left)
            } else {
                (left, right)
            };
        }
        if let Some(&winner) = winners.get(1) {
            nodes[0] = winner;
        }
        Self { nodes }
    }

    /// The run that comes next; 0 if there is none.
    pub(super) fn winner(&self) -> usize {
        self.nodes[0]
    }

    /// Puts the winner, which has changed, into its new place.
    pub(super) fn replay(&mut self, less: impl Fn(usize, usize) -> bool) {
        let mut winner = self.nodes[0];
        let mut node = (self.nodes.len() + winner) / 2;
        while node != 0 {
            if less(self.nodes[node], winner) {
                std::mem::swap(&mut self.nodes[node], &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }

    /// The run that comes after the winner, if there are two.
    pub(super) fn runner_up(&self, less: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let mut best = None;
        let mut node = (self.nodes.len() + self.nodes[0]) / 2;
        while node != 0 {
            let loser = self.nodes[node];
            if best.is_none_or(|best| less(loser, best)) {
                best = Some(loser);
            }
            node /= 2;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    #[test]
    fn gives_the_least_and_the_one_after_it() {
        let mut random = Random::new(3);
        for runs in 1..20 {
            let mut values: Vec<_> = (0..runs).map(|_| random.below(30)).collect();
            let less = |values: &[u64], a: usize, b: usize| (values[a], a) < (values[b], b);
            let mut tournament = Tournament::new(runs, |a, b| less(&values, a, b));
            for _ in 0..100 {
                let mut order: Vec<_> = (0..runs).collect();
                order.sort_by_key(|&run| (values[run], run));
                assert_eq!(tournament.winner(), order[0]);
                let runner_up = tournament.runner_up(|a, b| less(&values, a, b));
                assert_eq!(runner_up, order.get(1).copied());
                values[order[0]] += random.below(10);
                tournament.replay(|a, b| less(&values, a, b));
            }
        }
    }
}
