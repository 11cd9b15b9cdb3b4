//! The keys of rows, as they are compared.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use super::integer_keys::integer_keys;
use crate::key_prefix::key_prefix;
use crate::key_value::KeyValue;
use crate::layout::Bounds;
use crate::proof::has_total_order;

/// How rows of a merge are compared: by the first columns of a sort key, in its order or in the reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergeKey {
    /// The order of the output, by columns of its batches.
    ordering: LexOrdering,
    /// Whether that is the reverse of the order that bounds are in.
    reversed: bool,
}

impl MergeKey {
    pub(crate) fn new(ordering: LexOrdering, reversed: bool) -> Self {
        Self { ordering, reversed }
    }

    /// The same key by other columns.
    pub(crate) fn with_ordering(&self, ordering: LexOrdering) -> Self {
        Self {
            ordering,
            reversed: self.reversed,
        }
    }

    /// The first `columns` columns of the key, if it has as many.
    pub(crate) fn first_columns(&self, columns: usize) -> Option<Self> {
        let ordering = self.ordering.get(..columns)?.to_vec();
        Some(self.with_ordering(LexOrdering::new(ordering)?))
    }

    /// The beginning of the key that rows can be checked by, if there is one: columns whose order is known.
    pub(crate) fn checkable(&self, schema: &Schema) -> Option<Self> {
        let is_ordered = |sort: &&PhysicalSortExpr| {
            let data_type = sort.expr.data_type(schema);
            sort.expr.is::<Column>() && data_type.is_ok_and(|it| has_total_order(&it))
        };
        self.first_columns(self.ordering.iter().take_while(is_ordered).count())
    }

    pub(crate) fn ordering(&self) -> &LexOrdering {
        &self.ordering
    }

    /// The key that no row within `bounds` comes before, as far as it goes.
    pub(crate) fn first<'a>(&self, bounds: &'a Bounds) -> &'a [u8] {
        let key = if self.reversed {
            bounds.upper()
        } else {
            bounds.lower()
        };
        key.prefix(self.ordering.len())
    }

    /// Whether `later`, whose keys do not begin before those of `earlier`, may begin before those end.
    pub(crate) fn overlap(&self, earlier: &Bounds, later: &Bounds) -> bool {
        let (end, begin) = if self.reversed {
            (later.upper(), earlier.lower())
        } else {
            (earlier.upper(), later.lower())
        };
        begin.prefix(self.ordering.len()) < end.prefix(self.ordering.len())
    }
}

/// Gives the keys of rows, in the format of bounds.
#[derive(Debug)]
pub(crate) struct Keys {
    key: MergeKey,
    converter: RowConverter,
    /// How the one column is compared, if there is only one.
    only: Option<SortOptions>,
}

/// A key with its first bytes at hand, which are mostly enough to compare it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyRef<'a> {
    prefix: u128,
    /// What comes after its prefix.
    rest: &'a [u8],
    /// How many bytes it has.
    len: usize,
    reversed: bool,
}

/// A [`KeyRef`] of its own.
#[derive(Debug, Clone)]
pub(crate) struct KeyBuf {
    prefix: u128,
    bytes: Box<[u8]>,
    reversed: bool,
}

/// The keys of all rows of a batch.
#[derive(Debug)]
pub(super) struct BatchKeys {
    prefixes: Vec<u128>,
    whole: Whole,
    reversed: bool,
}

/// The keys of a batch, beyond their prefixes.
#[derive(Debug)]
enum Whole {
    /// All have as many bytes, which are no more than a prefix has.
    Prefixes { bytes: usize },
    Rows {
        rows: Rows,
        /// Whether no key is longer than its prefix.
        are_short: bool,
    },
}

impl Keys {
    pub(crate) fn try_new(key: MergeKey, schema: &Schema) -> Result<Self> {
        // Bounds are in the order that was declared.
        let options = |sort: &PhysicalSortExpr| match key.reversed {
            true => reverse(sort.options),
            false => sort.options,
        };
        let field = |sort: &PhysicalSortExpr| {
            let data_type = sort.expr.data_type(schema)?;
            Ok(SortField::new_with_options(data_type, options(sort)))
        };
        let fields = key.ordering.iter().map(field).collect::<Result<_>>()?;
        Ok(Self {
            converter: RowConverter::new(fields)?,
            only: match &key.ordering[..] {
                [sort] => Some(options(sort)),
                _ => None,
            },
            key,
        })
    }

    /// The key of a bound.
    pub(super) fn of_bound(&self, bytes: &[u8]) -> KeyBuf {
        KeyRef::new(bytes, self.key.reversed).to_owned()
    }

    /// The columns of the keys of `batch`.
    pub(crate) fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let sorts = self.key.ordering.iter();
        sorts
            .map(|sort| sort.expr.evaluate(batch)?.into_array(batch.num_rows()))
            .collect()
    }

    /// The key of one row.
    pub(crate) fn of_row(&self, columns: &[ArrayRef], row: usize) -> Result<KeyBuf> {
        let columns: Vec<_> = columns.iter().map(|column| column.slice(row, 1)).collect();
        let rows = self.converter.convert_columns(&columns)?;
        Ok(self.of_bound(rows.row(0).data()))
    }

    /// The first row whose key, in the format of bounds, is less than that of the row before it.
    pub(crate) fn first_descent(&self, columns: &[ArrayRef]) -> Result<Option<usize>> {
        let rows = self.converter.convert_columns(columns)?;
        Ok((1..rows.num_rows()).find(|&row| rows.row(row) < rows.row(row - 1)))
    }

    /// The values of a key in the format of bounds, to be shown.
    pub(crate) fn values(&self, key: &[u8]) -> Result<KeyValue> {
        let row = self.converter.parser();
        let columns = self.converter.convert_rows([row.parse(key)])?;
        let values = columns
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0));
        Ok(KeyValue::from(values.collect::<Result<Vec<_>>>()?))
    }

    /// The keys of all rows.
    pub(super) fn of_batch(&self, columns: &[ArrayRef]) -> Result<BatchKeys> {
        let reversed = self.key.reversed;
        let integers = |options| integer_keys(columns.first()?, options);
        if let Some((mut prefixes, bytes)) = self.only.and_then(integers) {
            if reversed {
                prefixes.iter_mut().for_each(|prefix| *prefix = !*prefix);
            }
            return Ok(BatchKeys {
                prefixes,
                whole: Whole::Prefixes { bytes },
                reversed,
            });
        }
        let rows = self.converter.convert_columns(columns)?;
        let mut longest = 0;
        let prefix = |row: Row<'_>| {
            longest = longest.max(row.data().len());
            prefix(row.data(), reversed)
        };
        let prefixes = rows.iter().map(prefix).collect();
        Ok(BatchKeys {
            prefixes,
            whole: Whole::Rows {
                rows,
                are_short: longest <= size_of::<u128>(),
            },
            reversed,
        })
    }
}

/// The full reversal of a column's order.
pub(crate) fn reverse(options: SortOptions) -> SortOptions {
    SortOptions::new(!options.descending, !options.nulls_first)
}

/// The first 16 bytes as a number in key order. No key is the beginning of another, so that zeros may fill it up.
fn prefix(bytes: &[u8], reversed: bool) -> u128 {
    let prefix = key_prefix(bytes);
    if reversed { !prefix } else { prefix }
}

/// The bytes that are not in the prefix of a key.
fn after_prefix(bytes: &[u8]) -> &[u8] {
    bytes.get(size_of::<u128>()..).unwrap_or_default()
}

impl<'a> KeyRef<'a> {
    fn new(bytes: &'a [u8], reversed: bool) -> Self {
        Self {
            prefix: prefix(bytes, reversed),
            rest: after_prefix(bytes),
            len: bytes.len(),
            reversed,
        }
    }

    pub(super) fn to_owned(self) -> KeyBuf {
        let prefix = match self.reversed {
            true => !self.prefix,
            false => self.prefix,
        };
        let mut bytes = prefix.to_be_bytes().to_vec();
        bytes.extend(self.rest);
        bytes.truncate(self.len);
        KeyBuf {
            prefix: self.prefix,
            bytes: bytes.into(),
            reversed: self.reversed,
        }
    }

    /// The beginning of the key, whose order is that of keys that differ in it.
    pub(super) fn prefix(self) -> u128 {
        self.prefix
    }

    /// Which of two keys of one merge comes first.
    pub(super) fn cmp(self, other: KeyRef<'_>) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| {
            let order = self.rest.cmp(other.rest);
            if self.reversed {
                order.reverse()
            } else {
                order
            }
        })
    }
}

impl KeyBuf {
    /// The key in the format of bounds.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether this key of one merge comes before another.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.as_ref().cmp(other.as_ref()).is_lt()
    }

    pub(super) fn as_ref(&self) -> KeyRef<'_> {
        KeyRef {
            prefix: self.prefix,
            rest: after_prefix(&self.bytes),
            len: self.bytes.len(),
            reversed: self.reversed,
        }
    }
}

impl BatchKeys {
    /// The beginnings of the keys of these rows, see [`KeyRef::prefix`].
    pub(super) fn prefixes(&self, rows: Range<usize>) -> &[u128] {
        &self.prefixes[rows]
    }

    /// Whether keys are equal if their beginnings are.
    pub(super) fn are_short(&self) -> bool {
        match self.whole {
            Whole::Prefixes { .. } => true,
            Whole::Rows { are_short, .. } => are_short,
        }
    }

    pub(super) fn get(&self, row: usize) -> KeyRef<'_> {
        let (rest, len): (&[u8], _) = match &self.whole {
            Whole::Prefixes { bytes } => (&[], *bytes),
            Whole::Rows { rows, .. } => {
                let bytes = rows.row(row).data();
                (after_prefix(bytes), bytes.len())
            }
        };
        KeyRef {
            prefix: self.prefixes[row],
            rest,
            len,
            reversed: self.reversed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_filled_up_with_zeros() {
        for len in 0..20 {
            let bytes: Vec<_> = (1..=len).collect();
            let mut filled = [0; 16];
            let first = bytes.len().min(16);
            filled[..first].copy_from_slice(&bytes[..first]);
            assert_eq!(prefix(&bytes, false), u128::from_be_bytes(filled), "{len}");
            assert_eq!(prefix(&bytes, true), !u128::from_be_bytes(filled), "{len}");
        }
    }
}
