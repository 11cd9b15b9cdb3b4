//! The batch that a run is at.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;
use datafusion::common::utils::memory::get_record_batch_memory_size;

use super::keys::{BatchKeys, KeyBuf, KeyRef, Keys};
use super::rank::Rank;
use super::stretch::Source;

/// A batch, as far as its rows have not been taken yet. It has rows.
#[derive(Debug)]
pub(super) struct Cursor {
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
    All(Arc<BatchKeys>),
}

/// A moment in the order of the output, right before or right after some row.
#[derive(Debug)]
pub(super) struct Limit {
    key: KeyBuf,
    place: usize,
    /// Whether rows that are right there come before it.
    is_after: bool,
}

impl Cursor {
    /// A cursor at the first row of `batch`, which is of the part with this place.
    pub(super) fn try_new(keys: &Keys, batch: RecordBatch, place: usize) -> Result<Self> {
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

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn place(&self) -> usize {
        self.place
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.batch.num_rows()
    }

    /// Where the next row is.
    pub(super) fn first(&self) -> Rank<'_> {
        let key = match &self.keys {
            CursorKeys::Ends { first, .. } => first.as_ref(),
            CursorKeys::All(keys) => keys.get(self.at),
        };
        Rank::At(key, self.place)
    }

    /// Where the last row is.
    pub(super) fn last(&self) -> Rank<'_> {
        Rank::At(self.last_key(), self.place)
    }

    pub(super) fn last_key(&self) -> KeyRef<'_> {
        match &self.keys {
            CursorKeys::Ends { last, .. } => last.as_ref(),
            CursorKeys::All(keys) => keys.get(self.batch.num_rows() - 1),
        }
    }

    /// The keys of all rows.
    fn all_keys(&mut self, keys: &Keys) -> Result<Arc<BatchKeys>> {
        if let CursorKeys::All(keys) = &self.keys {
            return Ok(Arc::clone(keys));
        }
        let all = Arc::new(keys.of_batch(&self.columns)?);
        self.keys = CursorKeys::All(Arc::clone(&all));
        Ok(all)
    }

    /// The moment after so many of the rows that are left.
    pub(super) fn limit_after(&mut self, keys: &Keys, rows: usize) -> Result<Limit> {
        let last = self.batch.num_rows() - 1;
        let row = last.min(self.at.saturating_add(rows.saturating_sub(1)));
        Ok(Limit {
            key: self.all_keys(keys)?.get(row).to_owned(),
            place: self.place,
            is_after: true,
        })
    }

    /// Takes all rows that are left.
    pub(super) fn take_all(&mut self) -> Source {
        let rows = self.at..self.batch.num_rows();
        self.at = rows.end;
        Source {
            batch: self.batch.clone(),
            keys: None,
            rows,
            place: self.place,
        }
    }

    /// Takes the rows before `limit`, if there are any. O(log rows).
    pub(super) fn take(&mut self, keys: &Keys, limit: &Limit) -> Result<Option<Source>> {
        if !limit.comes_after(self.first()) {
            return Ok(None);
        }
        let keys = self.all_keys(keys)?;
        let (mut low, mut high) = (self.at + 1, self.batch.num_rows());
        while low < high {
            let middle = low + (high - low) / 2;
            if limit.comes_after(Rank::At(keys.get(middle), self.place)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let rows = self.at..low;
        self.at = low;
        Ok(Some(Source {
            batch: self.batch.clone(),
            keys: Some(keys),
            rows,
            place: self.place,
        }))
    }
}

impl Limit {
    /// Whether a row at `rank` comes before this moment.
    fn comes_after(&self, rank: Rank<'_>) -> bool {
        if self.is_after {
            !self.rank().is_before(rank)
        } else {
            rank.is_before(self.rank())
        }
    }

    fn rank(&self) -> Rank<'_> {
        Rank::At(self.key.as_ref(), self.place)
    }

    /// Not later than the last row of `cursor`.
    pub(super) fn lower_to(&mut self, cursor: &Cursor) {
        if cursor.last().is_before(self.rank()) {
            *self = Self {
                key: cursor.last_key().to_owned(),
                place: cursor.place,
                is_after: true,
            };
        }
    }

    /// Before `key` in the part with this place.
    pub(super) fn lower_to_before(&mut self, key: &KeyBuf, place: usize) {
        if !self.rank().is_before(Rank::At(key.as_ref(), place)) {
            *self = Self {
                key: key.clone(),
                place,
                is_after: false,
            };
        }
    }
}
