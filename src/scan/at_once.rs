//! Row groups that take less memory once they are decoded than their reader does that has only begun.

use arrow::datatypes::{DataType, FieldRef};
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::SortedScan;
use crate::sizes;

/// Writers end pages at about so many bytes, or rows.
const PAGE: u64 = 1 << 20;
const PAGE_ROWS: u64 = 20_000;
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
        let read = projection.column_indices().into_iter();
        // The others are of the path.
        read.filter_map(|column| fields.get(column))
            .cloned()
            .collect()
    }
}

/// The bytes that all rows of `columns` of a row group take as arrays, if its reader holds no less when it has read the first
/// of them; 0 if it may hold less.
///
/// A reader holds what it has fetched, which is all of the row group, and of each column the dictionary and a page, both
/// uncompressed. Where many row groups are read at a time, to decode them at once saves memory, and dictionaries do not have
/// to be decoded again for each of the parts that they would be cut into.
pub(super) fn bytes_at_once(group: &RowGroupMetaData, columns: &[FieldRef]) -> u64 {
    let rows = sizes::rows(group);
    let mut held: u64 = 0;
    let mut decoded: u64 = 0;
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
        held += held_of(chunk, rows);
        decoded = decoded.saturating_add(bytes);
    }
    if decoded <= held { decoded } else { 0 }
}

/// The bytes that a reader holds of a column, or fewer: dictionaries are larger when they are uncompressed.
fn held_of(chunk: &ColumnChunkMetaData, rows: u64) -> u64 {
    let uncompressed = sizes::size(chunk.uncompressed_size());
    let of_rows = u128::from(uncompressed) * u128::from(PAGE_ROWS) / u128::from(rows.max(1));
    let page = uncompressed
        .min(PAGE)
        .min(u64::try_from(of_rows).unwrap_or(PAGE));
    sizes::size(chunk.compressed_size()) + sizes::dictionary(chunk) + page
}

/// The bytes of `rows` values of a column as an array of this type, or more; `None` if that is not known.
fn as_array(data_type: &DataType, chunk: &ColumnChunkMetaData, rows: u64) -> Option<u64> {
    let (values, buffers) = match data_type {
        DataType::Boolean => (rows.div_ceil(8), 0),
        DataType::FixedSizeBinary(width) => (rows.saturating_mul(sizes::size((*width).into())), 0),
        // Values of a dictionary are not copied.
        DataType::Utf8View | DataType::BinaryView => {
            (rows * VIEW, sizes::size(chunk.uncompressed_size()))
        }
        DataType::Dictionary(keys, _) => {
            (rows * width(keys)?, sizes::size(chunk.uncompressed_size()))
        }
        DataType::Utf8 | DataType::Binary => (rows * 4, text(chunk)?),
        DataType::LargeUtf8 | DataType::LargeBinary => (rows * 8, text(chunk)?),
        _ => (rows * width(data_type)?, 0),
    };
    Some(values.saturating_add(buffers))
}

fn width(data_type: &DataType) -> Option<u64> {
    Some(data_type.primitive_width()? as u64)
}

/// The bytes of all strings.
fn text(chunk: &ColumnChunkMetaData) -> Option<u64> {
    if let Some(bytes) = chunk.unencoded_byte_array_data_bytes() {
        return Some(sizes::size(bytes));
    }
    let mut encodings = chunk.encodings();
    let of_dictionary = [Encoding::PLAIN_DICTIONARY, Encoding::RLE_DICTIONARY];
    let has_dictionary = encodings.any(|encoding| of_dictionary.contains(&encoding));
    (!has_dictionary).then(|| sizes::size(chunk.uncompressed_size()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, FixedSizeBinaryArray, Int64Array, ListArray, RecordBatch, StringArray,
    };
    use arrow::datatypes::{Field, Int64Type};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ParquetMetaData;
    use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

    use super::*;

    const ROWS: i64 = 5000;

    fn footer(column: ArrayRef, properties: WriterPropertiesBuilder) -> Arc<ParquetMetaData> {
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut writer =
            ArrowWriter::try_new(vec![], batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        Arc::new(writer.finish().unwrap())
    }

    fn at_once(footer: &ParquetMetaData, data_type: DataType) -> u64 {
        let field = Arc::new(Field::new("a", data_type, true));
        bytes_at_once(footer.row_group(0), &[field])
    }

    #[test]
    fn values_that_are_not_packed_take_less_than_their_reader() {
        let distinct: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
        for dictionary in [true, false] {
            let properties = WriterProperties::builder().set_dictionary_enabled(dictionary);
            let bytes = at_once(&footer(Arc::clone(&distinct), properties), DataType::Int64);
            assert_eq!(bytes, 8 * ROWS as u64);
        }
    }

    #[test]
    fn values_that_are_packed_take_more_than_their_reader() {
        let same: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| 7)));
        let footer = footer(same, WriterProperties::builder());
        assert_eq!(at_once(&footer, DataType::Int64), 0);
    }

    #[test]
    fn strings_of_a_dictionary_are_copied_but_for_views() {
        let words = (0..ROWS).map(|row| format!("{:0100}", row % 10));
        let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
        let dictionary = footer(Arc::clone(&words), WriterProperties::builder());
        assert_eq!(at_once(&dictionary, DataType::Utf8), 0);
        let plain = WriterProperties::builder().set_dictionary_enabled(false);
        let plain = footer(words, plain);
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            assert!(
                at_once(&plain, data_type.clone()) > 100 * ROWS as u64,
                "{data_type}"
            );
        }
    }

    #[test]
    fn a_footer_may_claim_any_number() {
        let values = [[7; 4]; 3].into_iter();
        let values: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(values).unwrap());
        let footer = footer(values, WriterProperties::builder());
        let group = footer.row_group(0).clone().into_builder();
        let group = group.set_num_rows(i64::MAX).build().unwrap();
        for data_type in [DataType::FixedSizeBinary(i32::MAX), DataType::Utf8View] {
            let field = Arc::new(Field::new("a", data_type, true));
            assert_eq!(bytes_at_once(&group, &[field]), 0);
        }
    }

    #[test]
    fn what_is_not_known_is_not_decoded_at_once() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]);
        let data_type = arrow::array::Array::data_type(&list).clone();
        let list = footer(Arc::new(list), WriterProperties::builder());
        assert_eq!(at_once(&list, data_type), 0);
        // Of columns that the file lacks, nothing is held.
        let other = Arc::new(Field::new("b", DataType::Int64, true));
        assert_eq!(bytes_at_once(list.row_group(0), &[other]), 0);
    }
}
