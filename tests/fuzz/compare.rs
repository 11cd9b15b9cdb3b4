//! What a query answered, against what is right.

use std::collections::HashMap;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::query::Query;

/// The rows of an answer.
pub(crate) struct Answer {
    schema: SchemaRef,
    rows: Vec<AnswerRow>,
}

struct AnswerRow {
    /// The selected values, bit for bit.
    row: Vec<u8>,
    /// The values of the `ORDER BY`, if the answer has them.
    order: Vec<u8>,
    text: String,
}

impl Answer {
    /// The last `order_columns` of `batches` are those of the order.
    pub(crate) fn new(schema: SchemaRef, batches: &[RecordBatch], order_columns: usize) -> Self {
        let selected = schema.fields().len() - order_columns;
        let mut rows = vec![];
        for batch in batches {
            let (row, order) = batch.columns().split_at(selected);
            let encoded = encode(row, batch.num_rows());
            let order = encode(order, batch.num_rows());
            for (place, (row, order)) in encoded.into_iter().zip(order).enumerate() {
                let text = show(batch, place);
                rows.push(AnswerRow { row, order, text });
            }
        }
        Self { schema, rows }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for row in self.rows.iter().take(60) {
            text += &format!("    {}\n", row.text);
        }
        if self.rows.len() > 60 {
            text += &format!("    … {} rows in all\n", self.rows.len());
        }
        text
    }
}

/// Each row as bytes that are equal only if all bits of its values are.
fn encode(columns: &[ArrayRef], rows: usize) -> Vec<Vec<u8>> {
    if columns.is_empty() {
        return vec![vec![]; rows];
    }
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = converter.convert_columns(columns).unwrap();
    rows.iter().map(|row| row.as_ref().to_vec()).collect()
}

fn show(batch: &RecordBatch, row: usize) -> String {
    let format = FormatOptions::default()
        .with_null("NULL")
        .with_display_error(true);
    let values = batch.columns().iter().map(|column| {
        let formatter = ArrayFormatter::try_new(column, &format).unwrap();
        formatter.value(row).to_string()
    });
    values.collect::<Vec<_>>().join(" | ")
}

/// What is wrong with the answer to `query`, if anything; `right` is that to its wide form.
///
/// Rows that are equal in the order may be in any order, and a limit may take any of them.
pub(crate) fn difference(query: &Query, found: &Answer, right: &Answer) -> Option<String> {
    for (found, right) in found.schema.fields().iter().zip(right.schema.fields()) {
        if found.data_type() != right.data_type() {
            return Some(format!("a column is {found} and not {right}"));
        }
    }
    let window = right.rows.iter().skip(query.skip);
    let window: Vec<_> = window.take(query.fetch.unwrap_or(usize::MAX)).collect();
    let mut stock: HashMap<&[u8], (usize, &[u8])> = HashMap::new();
    for row in &right.rows {
        let (count, order) = stock.entry(&row.row).or_insert((0, &row.order));
        assert_eq!(
            order,
            &row.order,
            "rows must determine the order: {}",
            query.sql()
        );
        *count += 1;
    }
    for (place, row) in found.rows.iter().enumerate() {
        let Some((count, order)) = stock.get_mut(row.row.as_slice()) else {
            return Some(format!(
                "there is no row '{}', the {}th",
                row.text,
                place + 1
            ));
        };
        if *count == 0 {
            return Some(format!("the row '{}' comes too often", row.text));
        }
        *count -= 1;
        if let Some(expected) = window.get(place)
            && *order != expected.order
        {
            return Some(format!(
                "the {}th row is '{}', but by the order it is '{}'",
                place + 1,
                row.text,
                expected.text
            ));
        }
    }
    (found.rows.len() != window.len()).then(|| {
        format!(
            "there are {} rows and not {}",
            found.rows.len(),
            window.len()
        )
    })
}
