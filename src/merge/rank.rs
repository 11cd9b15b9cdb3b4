//! Where rows are in the order of the output.

use std::cmp::Ordering;

use super::keys::KeyRef;

/// Where the next row of a run is in the order of the output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rank<'a> {
    /// Before all keys, for all that is known, with the place of its part.
    Start(usize),
    /// At a key, with the place of its part.
    At(KeyRef<'a>, usize),
    End,
}

/// What comes first in the comparison of ranks: whether they are at a key, and the beginning of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QuickRank(u8, u128);

impl QuickRank {
    pub(super) const END: Self = Self(2, 0);
}

impl Rank<'_> {
    pub(super) fn quick(self) -> QuickRank {
        match self {
            Self::Start(_) => QuickRank(0, 0),
            Self::At(key, _) => QuickRank(1, key.prefix()),
            Self::End => QuickRank::END,
        }
    }

    pub(super) fn is_before(self, other: Rank<'_>) -> bool {
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

/// Whether run `a` comes before run `b`, whose quick ranks are in `ranks`; `rank` gives that of a run.
#[inline]
pub(super) fn is_before<'a>(
    ranks: &[QuickRank],
    a: usize,
    b: usize,
    rank: impl Fn(usize) -> Rank<'a>,
) -> bool {
    match ranks[a].cmp(&ranks[b]) {
        Ordering::Equal => rank(a).is_before(rank(b)),
        order => order.is_lt(),
    }
}
