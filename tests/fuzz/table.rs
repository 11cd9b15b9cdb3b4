//! Random tables of sorted files.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Int64Type};

use crate::random::Random;
use crate::relation::{Relation, keys_of_files};
use crate::shape::Shape;
use crate::types::{hive_type, other_type, random_type};
use crate::values::{has_both_zeros, has_nan, has_negative_zero, pool, that_survive, value_type};

/// A table, as plain data: everything that is written to files comes from here.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) relation: Relation,
    pub(crate) declared: Declared,
    /// The columns of the sort key, in its order, and perhaps a Hive partition column that is not in it.
    pub(crate) columns: Vec<Column>,
    pub(crate) key_len: usize,
    pub(crate) files: Vec<DataFile>,
}

/// How the table comes to know its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declared {
    /// By `CREATE EXTERNAL TABLE`, with the schema of the files.
    Ddl,
    /// By `ListingOptions`, with a schema that files may differ from.
    Options,
    /// By the `sorting_columns` of the footers.
    Footers,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// The type in those files whose shape says so.
    pub(crate) other: Option<DataType>,
    /// The values, ascending and without dictionary. Rows have their places.
    pub(crate) pool: ArrayRef,
    pub(crate) options: SortOptions,
    pub(crate) hive: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct DataFile {
    /// The name without the folder of the Hive partition.
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) shape: Shape,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// For each column of the table the place of the value in the pool, or none for NULL.
    pub(crate) ranks: Ranks,
    /// Tells rows apart; the payload columns are made of it.
    pub(crate) id: i64,
}

pub(crate) type Ranks = Vec<Option<u32>>;

impl Table {
    pub(crate) fn random(random: &mut Random) -> Self {
        let declared = random.weighted(&[
            (40, Declared::Ddl),
            (45, Declared::Options),
            (15, Declared::Footers),
        ]);
        let key_len = random.weighted(&[(50, 1), (35, 2), (15, 3)]);
        let mut columns: Vec<_> = (0..key_len)
            .map(|index| Column::random(random, format!("k{index}"), declared))
            .collect();
        let mut key_len = key_len;
        if declared != Declared::Ddl && random.percent(25) {
            let place = random.below(key_len + 1);
            columns.insert(place, Column::hive(random));
            // Behind the key it may be part of it, or not.
            let outside = place == key_len && random.percent(50);
            key_len += usize::from(!outside);
        }
        Self::with_columns(random, declared, columns, key_len, 0)
    }

    /// A table of other rows with the same columns.
    pub(crate) fn sibling(&self, random: &mut Random) -> Self {
        Self::with_columns(
            random,
            self.declared,
            self.columns.clone(),
            self.key_len,
            100_000,
        )
    }

    fn with_columns(
        random: &mut Random,
        declared: Declared,
        columns: Vec<Column>,
        key_len: usize,
        first_id: i64,
    ) -> Self {
        let relation = *random.pick(&Relation::ALL);
        let mut keys = keys_of_files(random, relation, &columns, key_len);
        let files = keys.len();
        let mut shapes = Shape::of_files(random, &columns, declared, files);
        let ascending = random.percent(60);
        for (index, keys) in keys.iter_mut().enumerate() {
            for (column, missing) in columns.iter().enumerate() {
                // A partition column has one value in a file.
                let fixed = if missing.hive {
                    let values = missing.pool.len();
                    let rank = match ascending {
                        true => index * values / files,
                        false => random.below(values),
                    };
                    Some(Some(rank as u32))
                } else {
                    (shapes[index].missing == Some(column)).then_some(None)
                };
                if let Some(fixed) = fixed {
                    keys.iter_mut().for_each(|ranks| ranks[column] = fixed);
                }
            }
            keys.sort_by(|a, b| compare(&columns[..key_len], a, b));
        }
        // Names come in an order that says nothing.
        let mut names: Vec<_> = (0..files).collect();
        random.shuffle(&mut names);
        let mut ids = first_id..;
        let files = keys
            .into_iter()
            .zip(names)
            .zip(shapes.drain(..))
            .map(|((keys, name), shape)| DataFile {
                name: format!("{name:02}.parquet"),
                rows: keys
                    .into_iter()
                    .zip(&mut ids)
                    .map(|(ranks, id)| Row { ranks, id })
                    .collect(),
                shape,
            })
            .collect();
        Self {
            relation,
            declared,
            columns,
            key_len,
            files,
        }
    }

    pub(crate) fn key(&self) -> &[Column] {
        &self.columns[..self.key_len]
    }

    pub(crate) fn has_nan(&self) -> bool {
        self.columns.iter().any(|column| has_nan(&column.pool))
    }

    pub(crate) fn has_both_zeros(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| has_both_zeros(&column.pool))
    }

    pub(crate) fn has_negative_zero(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| has_negative_zero(&column.pool))
    }

    pub(crate) fn has_binary(&self) -> bool {
        use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
        let mut types = self.columns.iter().map(|column| column.pool.data_type());
        types.any(|data_type| {
            matches!(
                data_type,
                Binary | BinaryView | LargeBinary | FixedSizeBinary(_)
            )
        })
    }

    /// Whether there are moments near to the first or the last one that a timestamp can be.
    pub(crate) fn has_extreme_timestamps(&self) -> bool {
        let is_extreme = |column: &Column| {
            matches!(column.pool.data_type(), DataType::Timestamp(..))
                && cast(&column.pool, &DataType::Int64).is_ok_and(|numbers| {
                    let mut numbers = numbers.as_primitive::<Int64Type>().iter().flatten();
                    numbers.any(|number| number.unsigned_abs() > i64::MAX as u64 / 2)
                })
        };
        self.columns.iter().any(is_extreme)
    }

    pub(crate) fn row_count(&self) -> usize {
        self.files.iter().map(|file| file.rows.len()).sum()
    }

    /// The columns that stand in files, each with its index.
    pub(crate) fn file_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, c)| !c.hive)
    }

    pub(crate) fn hive_column(&self) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| c.hive)
    }
}

impl Column {
    fn random(random: &mut Random, name: String, declared: Declared) -> Self {
        let data_type = random_type(random);
        let len = random.weighted(&[(20, 2), (50, 20), (30, 300)]);
        let mut pool = pool(random, value_type(&data_type), len);
        let mut other = None;
        // The columns of a DDL statement without types are those of the files; and footers tell of the order that is
        // stored, which a cast may change.
        if declared == Declared::Options && random.percent(30) {
            let candidate = other_type(random, &data_type);
            if candidate != data_type
                && let Some(survivors) = that_survive(&pool, &candidate)
                && !survivors.is_empty()
            {
                pool = survivors;
                other = Some(candidate);
            }
        }
        Self {
            name,
            data_type,
            other,
            pool,
            options: SortOptions {
                descending: random.percent(35),
                nulls_first: random.percent(40),
            },
            hive: false,
        }
    }

    fn hive(random: &mut Random) -> Self {
        let (data_type, texts) = hive_type(random);
        let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        Self {
            name: "h".into(),
            pool: cast(&texts, &data_type).unwrap(),
            data_type,
            other: None,
            options: SortOptions {
                descending: random.percent(35),
                nulls_first: random.percent(40),
            },
            hive: true,
        }
    }
}

/// Compares keys in their declared order, by the first ranks of each.
pub(crate) fn compare(key: &[Column], a: &Ranks, b: &Ranks) -> Ordering {
    let by_column = key.iter().zip(a.iter().zip(b)).map(|(column, (a, b))| {
        let SortOptions {
            descending,
            nulls_first,
        } = column.options;
        match (a, b) {
            (Some(a), Some(b)) if descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            (None, None) => Ordering::Equal,
            (None, Some(_)) if nulls_first => Ordering::Less,
            (Some(_), None) if !nulls_first => Ordering::Less,
            _ => Ordering::Greater,
        }
    });
    by_column.fold(Ordering::Equal, Ordering::then)
}
