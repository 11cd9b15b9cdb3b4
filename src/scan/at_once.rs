//! Row groups that take less memory once they are decoded than their reader does that has only begun.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_expr::utils::collect_columns;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::SortedScan;
use crate::sizes;

/// Writers end pages at about so many bytes.
const PAGE: u64 = 1 << 20;
/// A string of a view array, besides its buffers.
const VIEW: u64 = 16;

impl SortedScan {
    /// The columns of the files that are read, as the table has them.
    pub(super) fn read_columns(&self) -> Vec<FieldRef> {
        let source = self.file_scan.file_source();
        let fields = source.table_schema().file_schema().fields();
        let Some(projection) = source.projection() else {
            return fields.to_vec();
        };
        let projected = projection.iter().map(|projected| &projected.expr);
        let mut read: Vec<_> = projected
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        read.sort_unstable();
        read.dedup();
        // The others are of the path.
        let read = read.into_iter().filter_map(|index| fields.get(index));
        read.cloned().collect()
    }
}

/// The bytes that a reader holds of `columns` of a row group when it has read the first of its rows, if all rows take no more
/// than that as arrays; 0 if they may take more.
///
/// A reader holds what it has fetched, which is all of the row group, and of each column the dictionary and a page, both
/// uncompressed. Where many row groups are read at a time, to decode them at once saves memory, and dictionaries do not have
/// to be decoded again for each of the parts that they would be cut into.
pub(super) fn bytes_at_once(group: &RowGroupMetaData, columns: &[FieldRef]) -> u64 {
    let rows = sizes::rows(group);
    let mut held = 0;
    let mut decoded = 0;
    for field in columns {
        let mut chunks = group.columns().iter().filter(|chunk| {
            let root = chunk.column_path().parts().first();
            root == Some(field.name())
        });
        // A file may lack the column.
        let Some(chunk) = chunks.next() else {
            continue;
        };
        let Some(bytes) = as_array(field.data_type(), chunk, rows) else {
            return 0;
        };
        let uncompressed = sizes::size(chunk.uncompressed_size());
        held += sizes::size(chunk.compressed_size()) + sizes::dictionary(chunk);
        held += uncompressed.min(PAGE);
        decoded += bytes;
    }
    if decoded <= held { held } else { 0 }
}

/// The bytes of `rows` values of a column as an array of this type, or more; `None` if that is not known.
fn as_array(data_type: &DataType, chunk: &ColumnChunkMetaData, rows: u64) -> Option<u64> {
    let uncompressed = sizes::size(chunk.uncompressed_size());
    Some(match data_type {
        DataType::Boolean => rows.div_ceil(8),
        DataType::FixedSizeBinary(width) => rows * sizes::size(i64::from(*width)),
        // Values of a dictionary are not copied.
        DataType::Utf8View | DataType::BinaryView => rows * VIEW + uncompressed,
        DataType::Dictionary(keys, _) => rows * width(keys)? + uncompressed,
        DataType::Utf8 | DataType::Binary => rows * 4 + text(chunk)?,
        DataType::LargeUtf8 | DataType::LargeBinary => rows * 8 + text(chunk)?,
        _ => rows * width(data_type)?,
    })
}

fn width(data_type: &DataType) -> Option<u64> {
    Some(data_type.primitive_width()? as u64)
}

/// The bytes of all strings.
fn text(chunk: &ColumnChunkMetaData) -> Option<u64> {
    match (
        chunk.unencoded_byte_array_data_bytes(),
        sizes::dictionary(chunk),
    ) {
        (Some(bytes), _) => Some(sizes::size(bytes)),
        (None, 0) => Some(sizes::size(chunk.uncompressed_size())),
        (None, _) => None,
    }
}
