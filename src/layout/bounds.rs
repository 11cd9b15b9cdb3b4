//! Keys and the bounds of units.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::key_prefix::key_prefix;

/// A sort key in arrow's row format, whose byte order is the declared sort order, with NULL and NaN in their places.
/// So comparing keys is comparing bytes.
///
/// A table may have hundreds of thousands, which are copied into each layout: so a key is one allocation, and shared.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The bytes, and behind them where each column ends, as a `u32` each.
    data: Arc<[u8]>,
    columns: u32,
}

/// A key with its first bytes at hand: among very many keys, most comparisons need not look for the key itself then, which
/// is somewhere else in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QuickKey<'a>(u128, &'a Key);

impl<'a> From<&'a Key> for QuickKey<'a> {
    fn from(key: &'a Key) -> Self {
        Self(key_prefix(key.bytes()), key)
    }
}

/// The bytes of a `u32`.
const END: usize = size_of::<u32>();

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl Key {
    /// The key whose columns are `columns`, each in row format. Those of a row follow upon one another.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut data = vec![];
        let mut ends = vec![];
        let mut count = 0;
        for column in columns {
            data.extend_from_slice(column);
            ends.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
            count += 1;
        }
        data.append(&mut ends);
        Self {
            data: data.into(),
            columns: count,
        }
    }

    /// The key as bytes, from which [`of_data`](Self::of_data) makes it again.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// The key of so many columns that has this [`data`](Self::data), if there is such.
    pub(crate) fn of_data(data: &[u8], columns: u32) -> Option<Self> {
        let bytes = data
            .len()
            .checked_sub((columns as usize).checked_mul(END)?)?;
        let key = Self {
            data: data.into(),
            columns,
        };
        let ends = (0..key.columns()).map(|column| key.end_of(column));
        let ends: Vec<_> = ends.collect::<Option<_>>()?;
        let is_sound = ends.is_sorted() && ends.last().copied().unwrap_or(0) == bytes;
        is_sound.then_some(key)
    }

    fn bytes(&self) -> &[u8] {
        let ends = self.columns() * END;
        self.data.get(..self.data.len() - ends).unwrap_or(&[])
    }

    /// Where a column ends, if there is such.
    fn end_of(&self, column: usize) -> Option<usize> {
        let start = self.bytes().len() + column * END;
        let end = self.data.get(start..start + END)?.try_into().ok()?;
        Some(u32::from_le_bytes(end) as usize)
    }

    /// About where the key lies among others of its order. An estimate: nothing may be concluded from it.
    pub(crate) fn as_number(&self) -> f64 {
        let digit = |(place, byte): (i32, &u8)| f64::from(*byte) * 256_f64.powi(-place);
        (0..).zip(self.bytes()).take(16).map(digit).sum()
    }

    /// How many columns the key has.
    pub(crate) fn columns(&self) -> usize {
        self.columns as usize
    }

    /// The first `columns` columns of the key. Of keys that begin with them, it is at or before the first.
    pub(crate) fn first(&self, columns: usize) -> Self {
        let columns = 0..columns.min(self.columns());
        Self::new(columns.map(|column| self.column(column)))
    }

    /// The `column`th column of the key, as bytes.
    pub(crate) fn column(&self, column: usize) -> &[u8] {
        let start = self.prefix(column).len();
        self.prefix(column + 1).get(start..).unwrap_or(&[])
    }

    /// The key of some of its columns.
    fn of_columns(&self, columns: &[usize]) -> Self {
        Self::new(columns.iter().map(|&column| self.column(column)))
    }

    /// The first `columns` columns of the key, as bytes.
    pub(crate) fn prefix(&self, columns: usize) -> &[u8] {
        let bytes = self.bytes();
        match columns.checked_sub(1).map(|last| self.end_of(last)) {
            None => &[],
            Some(Some(end)) => bytes.get(..end).unwrap_or(bytes),
            Some(None) => bytes,
        }
    }
}

/// An outer bound of the sort keys of a unit: every row's key lies in `[lower, upper]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(super) lower: Key,
    pub(super) upper: Key,
}

impl Bounds {
    /// The bounds `[lower, upper]`, or `None` if they contradict each other.
    pub(crate) fn try_new(lower: Key, upper: Key) -> Option<Self> {
        (lower <= upper).then_some(Self { lower, upper })
    }

    pub(crate) fn lower(&self) -> &Key {
        &self.lower
    }

    pub(crate) fn upper(&self) -> &Key {
        &self.upper
    }

    /// What units are sorted by: where they begin, and then where they end, so that a unit of one single key goes before a
    /// wider one that begins at that key.
    pub(super) fn ends(&self) -> (QuickKey<'_>, &Key) {
        (QuickKey::from(&self.lower), &self.upper)
    }

    /// The bounds of a key that is some of the columns, where these are bounds of each column by itself.
    pub(crate) fn of_columns(&self, columns: &[usize]) -> Option<Self> {
        Self::try_new(
            self.lower.of_columns(columns),
            self.upper.of_columns(columns),
        )
    }

    /// Whether reading `self` and then `other` is in order. Touching is enough for that.
    pub(crate) fn ends_before(&self, other: &Self) -> bool {
        self.upper <= other.lower
    }

    /// How many columns at the beginning of the key have one value within all of `bounds`.
    pub(crate) fn constant_columns(bounds: &[&Self]) -> usize {
        let Some(first) = bounds.first() else {
            return 0;
        };
        let is_constant = |columns: &usize| {
            let value = first.lower.prefix(*columns);
            let has_it = |key: &Key| key.prefix(*columns) == value;
            bounds
                .iter()
                .all(|bounds| has_it(&bounds.lower) && has_it(&bounds.upper))
        };
        (1..=first.lower.columns()).take_while(is_constant).count()
    }

    /// The smallest bounds around both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.max(other.upper),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_knows_its_columns() {
        let key = Key::new([&b"ab"[..], b"", b"c"]);
        assert_eq!(key.prefix(0), b"");
        assert_eq!(key.prefix(1), b"ab");
        assert_eq!(key.prefix(3), b"abc");
        assert_eq!(key.prefix(9), b"abc");
        assert_eq!(key.of_columns(&[0, 2]), Key::new([&b"ab"[..], b"c"]));
        assert_eq!(key.of_columns(&[2]).prefix(1), b"c");
    }

    #[test]
    fn a_key_is_made_again_of_its_data_and_of_nothing_else() {
        for columns in [&[][..], &[&b""[..]], &[b"ab", b"", b"c"]] {
            let key = Key::new(columns.iter().copied());
            let count = u32::try_from(columns.len()).unwrap();
            let again = Key::of_data(key.data(), count).unwrap();
            assert_eq!((&again, again.columns()), (&key, columns.len()));
            let of_columns = (0..columns.len()).map(|column| again.column(column));
            assert_eq!(of_columns.collect::<Vec<_>>(), columns);
        }
        let key = Key::new([&b"ab"[..], b"c"]);
        // Of as many columns as do not fit, or whose ends are not those of the bytes.
        for columns in [0, 1, 3, u32::MAX] {
            assert_eq!(Key::of_data(key.data(), columns), None, "{columns}");
        }
        for torn in 0..key.data().len() {
            assert_eq!(Key::of_data(&key.data()[..torn], 2), None, "{torn}");
        }
        // Ends that fall.
        assert_eq!(Key::of_data(b"abc\x03\0\0\0\x02\0\0\0", 2), None);
        assert_eq!(Key::of_data(b"abc\x04\0\0\0\x03\0\0\0", 2), None);
    }

    #[test]
    fn bounds_do_not_contradict_themselves() {
        let key = |bytes: &[u8]| Key::new([bytes]);
        assert_eq!(Bounds::try_new(key(b"b"), key(b"a")), None);
        assert!(Bounds::try_new(key(b"a"), key(b"a")).is_some());
    }

    #[test]
    fn a_column_is_constant_where_all_before_it_are() {
        let bounds = |lower: [&[u8]; 3], upper: [&[u8]; 3]| {
            Bounds::try_new(Key::new(lower), Key::new(upper)).unwrap()
        };
        let one = bounds([b"x", b"a", b"1"], [b"x", b"b", b"1"]);
        assert_eq!(Bounds::constant_columns(&[&one]), 1);
        let same = bounds([b"x", b"a", b"1"], [b"x", b"a", b"1"]);
        assert_eq!(Bounds::constant_columns(&[&same, &same]), 3);
        assert_eq!(Bounds::constant_columns(&[&one, &same]), 1);
        let other = bounds([b"y", b"a", b"1"], [b"y", b"a", b"1"]);
        assert_eq!(Bounds::constant_columns(&[&same, &other]), 0);
        assert_eq!(Bounds::constant_columns(&[]), 0);
    }
}
