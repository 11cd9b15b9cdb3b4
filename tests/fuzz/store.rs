//! Tables as Parquet files in an object store in memory, and as batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array, new_null_array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;

use crate::table::{Column, DataFile, Table};

/// Where the store is registered.
pub(crate) const STORE_URL: &str = "mem://fuzz/";

/// The columns that are no part of the key.
pub(crate) const PAYLOAD: [(&str, DataType); 3] = [
    ("id", DataType::Int64),
    ("tag", DataType::Utf8),
    ("f", DataType::Float64),
];

/// Writes the files of a table into the folder `name`.
pub(crate) async fn write_table(store: &InMemory, name: &str, table: &Table) {
    for file in &table.files {
        let path = Path::from(path_of(name, table, file));
        store.put(&path, parquet(table, file).into()).await.unwrap();
    }
}

pub(crate) fn path_of(name: &str, table: &Table, file: &DataFile) -> String {
    match (table.hive_column(), file.rows.first()) {
        (Some((index, column)), row) => {
            let rank = row.and_then(|row| row.ranks[index]).unwrap_or(0);
            let value = text(&column.pool, Some(rank));
            format!("{name}/{}={value}/{}", column.name, file.name)
        }
        _ => format!("{name}/{}", file.name),
    }
}

/// The value of a pool as text.
pub(crate) fn text(pool: &ArrayRef, rank: Option<u32>) -> String {
    let Some(rank) = rank else {
        return "NULL".into();
    };
    let format = FormatOptions::default().with_display_error(true);
    let formatter = ArrayFormatter::try_new(pool.as_ref(), &format).unwrap();
    formatter.value(rank as usize).to_string()
}

/// The schema of the files, as the table declares it where it does.
pub(crate) fn file_schema(table: &Table) -> Schema {
    let key = table
        .file_columns()
        .map(|(_, column)| Field::new(&column.name, column.data_type.clone(), true));
    let payload = PAYLOAD.map(|(name, data_type)| Field::new(name, data_type, true));
    Schema::new(key.chain(payload).collect::<Vec<_>>())
}

fn parquet(table: &Table, file: &DataFile) -> Vec<u8> {
    let shape = &file.shape;
    let mut columns: Vec<(String, ArrayRef)> = vec![];
    for (index, column) in table.file_columns() {
        if shape.missing == Some(index) {
            continue;
        }
        let data_type = match &column.other {
            Some(other) if shape.other_types => other,
            _ => &column.data_type,
        };
        let array = values(file, index, column, data_type);
        columns.push((column.name.clone(), array));
    }
    for (name, array) in payload(file.rows.iter().map(|row| row.id)) {
        columns.push((name.into(), array));
    }
    if shape.extra_column {
        let nulls = new_null_array(&DataType::Int32, file.rows.len());
        columns.push(("extra".into(), nulls));
    }
    let places = columns.len();
    columns.rotate_left(shape.rotated % places);

    let names: Vec<_> = columns.iter().map(|(name, _)| name.clone()).collect();
    let properties = shape.properties(&names, &table.columns, table.key_len);
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = ArrowWriter::try_new(vec![], batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn values(file: &DataFile, index: usize, column: &Column, data_type: &DataType) -> ArrayRef {
    let ranks: UInt32Array = file.rows.iter().map(|row| row.ranks[index]).collect();
    let values = take(&column.pool, &ranks, None).unwrap();
    cast(&values, data_type).unwrap()
}

/// The columns that are no part of the key, as the ids of the rows have it.
fn payload(ids: impl Iterator<Item = i64> + Clone) -> [(&'static str, ArrayRef); 3] {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
    let tags = ["a", "b", "c", "d", "e"];
    let tag = ids.clone().map(|id| match id * 7 % 11 {
        10 => None,
        place => Some(tags[place as usize % tags.len()]),
    });
    let f = ids.map(|id| match id * 5 % 13 {
        0 => 0.0,
        place => place as f64 / 2.0 - 3.0,
    });
    [
        ("id", id),
        ("tag", Arc::new(tag.collect::<StringArray>())),
        ("f", Arc::new(Float64Array::from_iter_values(f))),
    ]
}

/// The rows of each file, as columns of `schema`: what a right table has.
pub(crate) fn batches(table: &Table, schema: &SchemaRef) -> Vec<RecordBatch> {
    let of_file = |file: &DataFile| {
        let payload = payload(file.rows.iter().map(|row| row.id));
        let columns = schema.fields().iter().map(|field| {
            let name = field.name();
            let data_type = field.data_type();
            let mut key = table.columns.iter().enumerate();
            if let Some((index, column)) = key.find(|(_, column)| &column.name == name) {
                return values(file, index, column, data_type);
            }
            match payload.iter().find(|(payload, _)| payload == name) {
                Some((_, array)) => cast(array, data_type).unwrap(),
                None => new_null_array(data_type, file.rows.len()),
            }
        });
        RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
    };
    table.files.iter().map(of_file).collect()
}
