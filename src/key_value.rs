//! Values of the sort key, to be shown.

use std::fmt;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};

/// A value of the sort key: one value for each of its columns, in the types of the table's columns.
///
/// Its text is that of the value, `NULL` included, and for a key of several columns `(a, b)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyValue(Vec<ScalarValue>);

/// Where the sort keys of some rows lie: none comes before `lower` or after `upper` in the order of the key.
///
/// Outer bounds: there need not be such rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyBounds {
    /// The first key that there may be. Of a descending column, that is the greatest value.
    pub lower: KeyValue,
    /// The last key that there may be.
    pub upper: KeyValue,
}

impl KeyValue {
    /// The values of the columns of the key.
    pub fn columns(&self) -> &[ScalarValue] {
        &self.0
    }
}

impl From<Vec<ScalarValue>> for KeyValue {
    fn from(columns: Vec<ScalarValue>) -> Self {
        Self(columns)
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [column] => write_value(column, f),
            columns => {
                f.write_str("(")?;
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write_value(column, f)?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for KeyBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.lower, self.upper)
    }
}

/// As query results are shown; what is no moment that a calendar has, as a number. The text of a `ScalarValue` is that of a
/// literal, with times as numbers, and DataFusion 55.2 panics where it is of a date that no calendar has.
fn write_value(value: &ScalarValue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = value.to_array().and_then(|array| {
        let number = || text_of(&cast(&array, &DataType::Int64)?);
        text_of(&array).or_else(|_| number())
    });
    match text {
        Ok(text) => f.write_str(&text),
        Err(_) => write!(f, "some {}", value.data_type()),
    }
}

/// The text of the first value.
fn text_of(array: &ArrayRef) -> Result<String> {
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
    Ok(formatter.value(0).try_to_string()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_calendar_has_is_a_number() {
        let text = |value: ScalarValue| KeyValue::from(vec![value]).to_string();
        let most = Some(i64::MAX);
        assert_eq!(text(ScalarValue::Date64(most)), "9223372036854775807");
        assert_eq!(text(ScalarValue::Date32(Some(i32::MIN))), "-2147483648");
        for value in [
            ScalarValue::TimestampSecond(most, None),
            ScalarValue::TimestampSecond(most, Some("+01:00".into())),
            ScalarValue::Time64Microsecond(most),
        ] {
            assert_eq!(text(value), "9223372036854775807");
        }
    }

    #[test]
    fn keys_are_shown_as_results_are() {
        let key = |columns: Vec<ScalarValue>| KeyValue::from(columns).to_string();
        let moment = ScalarValue::TimestampMillisecond(Some(1_704_067_200_500), None);
        assert_eq!(key(vec![moment.clone()]), "2024-01-01T00:00:00.500");
        assert_eq!(key(vec![ScalarValue::Utf8(None)]), "NULL");
        assert_eq!(key(vec![ScalarValue::Float64(Some(f64::NAN))]), "NaN");
        assert_eq!(
            key(vec![
                ScalarValue::from("x"),
                ScalarValue::Int8(None),
                moment
            ]),
            "(x, NULL, 2024-01-01T00:00:00.500)"
        );
        let decimal = ScalarValue::Decimal128(Some(-1250), 10, 2);
        assert_eq!(key(vec![decimal]), "-12.50");
    }
}
