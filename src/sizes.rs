//! Sizes that footers claim. A footer may claim any number: what is absurd is cut, so that sums do not overflow.

use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

/// More than a column of a row group has, in bytes or rows. Millions of them can be added.
const MOST: u64 = 1 << 40;

/// What is below zero is nothing.
pub(crate) fn size(claimed: i64) -> u64 {
    u64::try_from(claimed).unwrap_or(0).min(MOST)
}

/// The rows of a row group.
pub(crate) fn rows(group: &RowGroupMetaData) -> u64 {
    size(group.num_rows())
}

/// The bytes of a row group, uncompressed.
pub(crate) fn decoded(group: &RowGroupMetaData) -> u64 {
    size(group.total_byte_size())
}

/// The bytes of a row group in its file.
pub(crate) fn compressed(group: &RowGroupMetaData) -> u64 {
    let columns = group.columns().iter();
    columns.map(|column| size(column.compressed_size())).sum()
}

/// The bytes of the dictionary of a column in a row group, as they are in the file.
pub(crate) fn dictionary(column: &ColumnChunkMetaData) -> u64 {
    let start = column.dictionary_page_offset();
    let bytes = start.and_then(|start| column.data_page_offset().checked_sub(start));
    bytes.map_or(0, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_sizes_are_cut() {
        let sizes = [7, 0, -1, i64::MIN, i64::MAX].map(size);
        assert_eq!(sizes, [7, 0, 0, 0, MOST]);
    }
}
