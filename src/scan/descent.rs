//! The first row of a batch that is out of order.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::array::{ArrowNativeTypeOp, downcast_primitive_array};
use arrow::compute::SortOptions;
use datafusion::common::Result;

use crate::merge::Keys;

/// The first row of a batch whose key is less than that of the row before it. `options` are those of the first column.
///
/// A key of one column of numbers is compared as it is, without rows.
pub(super) fn first_descent(
    keys: &Keys,
    columns: &[ArrayRef],
    options: SortOptions,
) -> Result<Option<usize>> {
    if let [column] = columns
        && is_sorted(column.as_ref(), options)
    {
        return Ok(None);
    }
    keys.first_descent(columns)
}

/// Whether an array is known to be sorted.
fn is_sorted(array: &dyn Array, options: SortOptions) -> bool {
    downcast_primitive_array!(
        array => numbers_are_sorted(array, options),
        _ => false
    )
}

fn numbers_are_sorted<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    options: SortOptions,
) -> bool {
    let (rows, null_count) = (array.len(), array.null_count());
    let (nulls, values) = if options.nulls_first {
        (0..null_count, null_count..rows)
    } else {
        (rows - null_count..rows, 0..rows - null_count)
    };
    let are_together = |all: &arrow::buffer::NullBuffer| {
        all.slice(nulls.start, null_count).null_count() == null_count
    };
    let values = &array.values()[values];
    array.nulls().is_none_or(are_together)
        && if options.descending {
            all_pairs(values, |a, b| a.is_ge(b))
        } else {
            all_pairs(values, |a, b| a.is_le(b))
        }
}

/// Whether `in_order` holds for each value and the next.
fn all_pairs<N: Copy>(values: &[N], in_order: impl Fn(N, N) -> bool) -> bool {
    /// Within a block there is no early end, so that it can be compared by SIMD.
    const BLOCK: usize = 512;
    let Some((_, next)) = values.split_first() else {
        return true;
    };
    let mut blocks = values.chunks(BLOCK).zip(next.chunks(BLOCK));
    blocks.all(|(values, next)| {
        let pairs = values.iter().zip(next);
        pairs.fold(true, |all, (&a, &b)| all & in_order(a, b))
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array};

    use super::*;

    fn options(text: &str) -> SortOptions {
        SortOptions::new(text.starts_with("DESC"), text.ends_with("FIRST"))
    }

    #[test]
    fn nulls_belong_to_one_end() {
        let sorted = |values: &[Option<i32>], order| {
            is_sorted(&Int32Array::from(values.to_vec()), options(order))
        };
        assert!(sorted(&[], "ASC NULLS FIRST"));
        assert!(sorted(&[None, None], "ASC NULLS LAST"));
        assert!(sorted(
            &[None, Some(1), Some(1), Some(2)],
            "ASC NULLS FIRST"
        ));
        assert!(!sorted(&[None, Some(1), Some(2)], "ASC NULLS LAST"));
        assert!(sorted(&[Some(2), Some(1), None], "DESC NULLS LAST"));
        assert!(!sorted(&[Some(2), None, Some(1)], "DESC NULLS LAST"));
        assert!(!sorted(&[Some(1), Some(2)], "DESC NULLS LAST"));
    }

    #[test]
    fn floats_are_in_total_order() {
        let sorted =
            |values: &[f64]| is_sorted(&Float64Array::from(values.to_vec()), options("ASC LAST"));
        assert!(sorted(&[
            f64::NEG_INFINITY,
            -0.0,
            0.0,
            1.0,
            f64::NAN,
            f64::NAN
        ]));
        assert!(!sorted(&[0.0, -0.0]));
        assert!(!sorted(&[f64::NAN, 1.0]));
    }

    #[test]
    fn every_pair_is_looked_at() {
        for rows in [1, 2, 511, 512, 513, 1024, 1025, 2000] {
            for place in 1..rows {
                let mut values: Vec<_> = (0..rows).collect();
                assert!(all_pairs(&values, |a, b| a <= b));
                values[place] = 0;
                assert_eq!(all_pairs(&values, |a, b| a <= b), place == 1);
                assert!(!all_pairs(&values, |a, b| a < b));
            }
        }
    }
}
