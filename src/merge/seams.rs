//! Where one part of a run ends and the next begins.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use datafusion::common::Result;

use super::keys::{Keys, MergeKey};
use crate::key_value::KeyValue;

/// Checks that no part of a run begins before the one in front of it ends, where bounds do not tell.
#[derive(Debug)]
pub(crate) struct Seams {
    keys: Keys,
    /// For each run, the part that it is at, and the last row that it gave.
    reached: Vec<Option<(usize, LastRow)>>,
}

/// The key columns of the last batch of a part. They are not looked at until the next part comes, which is seldom. Until
/// the next batch comes, their buffers are held.
#[derive(Debug, Clone)]
struct LastRow {
    columns: Vec<ArrayRef>,
    row: usize,
}

/// Two parts of a run that are not in order.
#[derive(Debug)]
pub(crate) struct Seam {
    /// The part that comes first.
    pub(crate) before: usize,
    pub(crate) last: KeyValue,
    /// The first key of the part that comes next.
    pub(crate) first: KeyValue,
}

impl Seams {
    /// The seams of `runs` runs, which are in order of `key`; `None` if there is nothing to compare.
    pub(crate) fn try_new(key: &MergeKey, runs: usize, schema: &Schema) -> Result<Option<Self>> {
        let Some(key) = key.checkable(schema) else {
            return Ok(None);
        };
        Ok(Some(Self {
            keys: Keys::try_new(key, schema)?,
            reached: vec![None; runs],
        }))
    }

    /// `run` gives `batch`, which is of `part`. What is in order inside of the part is left to others.
    pub(crate) fn check(
        &mut self,
        run: usize,
        part: usize,
        batch: &RecordBatch,
    ) -> Result<Option<Seam>> {
        let (Some(last_row), Some(reached)) =
            (batch.num_rows().checked_sub(1), self.reached.get_mut(run))
        else {
            return Ok(None);
        };
        let columns = self.keys.columns(batch)?;
        if let Some((before, last)) = reached
            && *before != part
        {
            let first = self.keys.of_row(&columns, 0)?;
            let last = self.keys.of_row(&last.columns, last.row)?;
            if first.is_before(&last) {
                return Ok(Some(Seam {
                    before: *before,
                    last: self.keys.values(last.bytes())?,
                    first: self.keys.values(first.bytes())?,
                }));
            }
        }
        let row = last_row;
        *reached = Some((part, LastRow { columns, row }));
        Ok(None)
    }
}
