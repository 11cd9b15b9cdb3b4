//! Keys as values of the table's columns, and back.

use arrow::row::Rows;
use datafusion::common::ScalarValue;

use super::sort_key::{KeyColumn, SortKey};
use crate::key_value::{KeyBounds, KeyValue};
use crate::layout::{Bounds, Key};

impl SortKey {
    /// The key of these values of its first columns.
    pub(crate) fn key(&self, values: &[ScalarValue]) -> Result<Key, String> {
        if values.len() > self.columns.len() {
            return Err(format!("the order has no {} columns", values.len()));
        }
        let rows = values.iter().zip(&self.columns);
        let rows = rows.map(|(value, column)| column.row(value));
        let rows = rows.collect::<Result<Vec<_>, String>>()?;
        Ok(Key::new(rows.iter().map(|rows| rows.row(0).data())))
    }

    /// The values of a key of the first columns of this one, in the types of the table's columns.
    pub(crate) fn values(&self, key: &Key) -> Result<Vec<ScalarValue>, String> {
        let columns = self.columns.iter().enumerate().take(key.columns());
        columns
            .map(|(index, column)| column.value(key.column(index)))
            .collect()
    }

    /// The values of both bounds.
    pub(crate) fn values_of(&self, bounds: &Bounds) -> Result<KeyBounds, String> {
        Ok(KeyBounds {
            lower: KeyValue::from(self.values(bounds.lower())?),
            upper: KeyValue::from(self.values(bounds.upper())?),
        })
    }
}

impl KeyColumn {
    fn row(&self, value: &ScalarValue) -> Result<Rows, String> {
        let cast = value
            .cast_to(&self.data_type)
            .map_err(|e| e.strip_backtrace())?;
        if cast.is_null() != value.is_null() {
            return Err(format!("{value} is no {}", self.data_type));
        }
        let array = cast.to_array().map_err(|e| e.strip_backtrace())?;
        self.converter
            .convert_columns(&[array])
            .map_err(|e| e.to_string())
    }

    fn value(&self, bytes: &[u8]) -> Result<ScalarValue, String> {
        let row = self.converter.parser();
        let columns = self
            .converter
            .convert_rows([row.parse(bytes)])
            .map_err(|e| e.to_string())?;
        let value = columns.first().ok_or("a key has no column")?;
        ScalarValue::try_from_array(value, 0)
            .and_then(|value| value.cast_to(&self.table_type))
            .map_err(|e| e.strip_backtrace())
    }
}
