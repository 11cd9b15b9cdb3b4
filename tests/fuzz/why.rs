//! Whether the reasons that layouts give are true, by what is known of the files that were written.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::prelude::SessionContext;
use datafusion_sorted_listing::{
    FilePart, KeyValue, LayoutReport, OrderingState, SortedListingTable, WhyNot,
};
use parquet::file::properties::EnabledStatistics;

use crate::session::Session;
use crate::table::{Column, DataFile, Declared, Row, Table};
use crate::values::value_type;

/// What is not true of the reason that the layout of the table `t` gives, if something is not.
pub(crate) async fn untruth(
    files: &SessionContext,
    table: &Table,
    session: &Session,
) -> Option<String> {
    let provider = files.table_provider("t").await.unwrap();
    let sorted = provider.downcast_ref::<SortedListingTable>().unwrap();
    let report = match sorted.layout(&files.state(), &[]).await {
        Ok(report) => report,
        Err(e) => return Some(format!("there is no layout: {e}")),
    };
    let truth = Truth {
        table,
        session,
        report: &report,
    };
    let untrue = match &report.why_not {
        Some(why) => truth.untruth_of(why),
        None => None,
    };
    let untrue = untrue.or_else(|| truth.needless(&report));
    untrue.map(|what| format!("{what}: {:#?}", report.why_not))
}

struct Truth<'a> {
    table: &'a Table,
    session: &'a Session,
    report: &'a LayoutReport,
}

impl<'a> Truth<'a> {
    fn untruth_of(&self, why: &WhyNot) -> Option<String> {
        let untrue = |what: &str| Some(what.to_owned());
        match why {
            WhyNot::NoRows if self.table.row_count() > 0 => untrue("there are rows"),
            WhyNot::NoOrder if self.table.declared != Declared::Footers => {
                untrue("an order is declared")
            }
            WhyNot::NoSharedOrder { file } => {
                let first = |file: &DataFile| self.claim(file).into_iter().next();
                let named = first(self.file(file));
                let mut others = self.table.files.iter();
                let shared = named.is_some() && others.all(|other| first(other) == named);
                shared.then(|| "all footers share an order".into())
            }
            WhyNot::UnprovedFooterOrder { file } => {
                let file = self.file(file);
                let one_group = file.rows.len() <= file.shape.rows_per_group;
                one_group.then(|| "the file has one row group".into())
            }
            WhyNot::UnknownBounds { file, .. } if self.is_plain(self.file(file)) => {
                untrue("the bounds of the file are known")
            }
            WhyNot::NoBounds { .. } if self.with_rows().any(|file| self.is_plain(file)) => {
                untrue("the bounds of a file are known")
            }
            WhyNot::Overlap { earlier, later } => self.no_overlap(earlier, later),
            WhyNot::TooManySlices {
                cause,
                needed,
                limit,
            } => {
                let partitions = self.option("datafusion.execution.target_partitions", 0);
                if *limit != partitions || needed <= limit {
                    return Some(format!(
                        "{needed} of {limit} slices, {partitions} partitions"
                    ));
                }
                self.untruth_of(cause)
            }
            WhyNot::TooManyRuns {
                cause,
                needed,
                limit,
            } => {
                let fan_in = self.option("sorted_listing.max_merge_fan_in", 64);
                if *limit != fan_in || needed <= limit || *needed > self.table.row_count() {
                    return Some(format!("{needed} of {limit} runs, a fan-in of {fan_in}"));
                }
                self.untruth_of(cause)
            }
            WhyNot::FalseOrder { .. } => untrue("the order is true"),
            WhyNot::Disabled => untrue("it is enabled"),
            WhyNot::OtherOrder { .. } => untrue("no query asks for an order"),
            _ => None,
        }
    }

    /// Whether a table whose order is plain to see is not in order.
    fn needless(&self, report: &LayoutReport) -> Option<String> {
        let plain = self.table.declared != Declared::Footers
            && self.table.hive_column().is_none()
            && self.table.key_len == 1
            && self.with_rows().all(|file| self.is_exact(file));
        if !plain || report.ordering == OrderingState::Declared || self.table.row_count() == 0 {
            return None;
        }
        let key = self.key_of(1);
        let mut ends: Vec<_> = self
            .with_rows()
            .map(|file| ends(&key, &file.rows))
            .collect();
        ends.sort();
        let follow = ends.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        follow.then(|| "files follow one another, and are not in order".into())
    }

    /// Why two parts do not overlap as is said of them.
    fn no_overlap(&self, earlier: &FilePart, later: &FilePart) -> Option<String> {
        let (Some(a), Some(b)) = (&earlier.bounds, &later.bounds) else {
            return Some("there are no bounds".into());
        };
        let key = self.key_of(a.lower.columns().len());
        let row = |value: &KeyValue| row_of_values(&key, value);
        let (a, b) = (
            (row(&a.lower), row(&a.upper)),
            (row(&b.lower), row(&b.upper)),
        );
        if a.0 > b.0 || b.0 >= a.1 {
            return Some("the bounds do not overlap in this order".into());
        }
        for (part, (lower, upper)) in [(earlier, a), (later, b)] {
            let file = self.file(&part.file);
            let rows = match &part.row_groups {
                None => &file.rows[..],
                Some(groups) => {
                    let of_group = file.shape.rows_per_group;
                    let end = groups.end.saturating_mul(of_group).min(file.rows.len());
                    &file.rows[(groups.start * of_group).min(end)..end]
                }
            };
            let (first, last) = ends(&key, rows);
            if first < lower || last > upper {
                return Some(format!("rows of {part:?} lie outside"));
            }
            // Of compound keys, bounds are those of each column, put together.
            let exact = key.len() == 1 && self.is_exact(file);
            if exact && (first != lower || last != upper) {
                return Some(format!("the bounds of {part:?} are too wide"));
            }
        }
        None
    }

    fn with_rows(&self) -> impl Iterator<Item = &DataFile> {
        self.table.files.iter().filter(|file| !file.rows.is_empty())
    }

    /// The file with this path, which may be in the folder of a partition.
    fn file(&self, path: &str) -> &DataFile {
        let name = path.rsplit('/').next();
        let mut files = self.table.files.iter();
        let file = files.find(|file| Some(file.name.as_str()) == name);
        file.unwrap_or_else(|| panic!("there is no file {path}"))
    }

    fn option(&self, name: &str, default: usize) -> usize {
        let mut options = self.session.options.iter().rev();
        let set = options.find(|(option, _)| *option == name);
        set.map_or(default, |(_, value)| value.parse().unwrap())
    }

    /// The names of the columns that the footer of a file says that it is sorted by.
    fn claim(&self, file: &DataFile) -> Vec<&str> {
        if !file.shape.claims_order {
            return vec![];
        }
        let key = self.table.key().iter().enumerate();
        let key = key.filter(|(_, column)| !column.hive);
        key.map_while(|(index, column)| {
            (file.shape.missing != Some(index)).then_some(column.name.as_str())
        })
        .collect()
    }

    /// Whether nothing about a file could make its bounds unknown.
    fn is_plain(&self, file: &DataFile) -> bool {
        let key = self.table.key().iter().enumerate();
        file.shape.statistics != EnabledStatistics::None
            && key.into_iter().all(|(index, column)| {
                let type_is_kept = column.other.is_none() || !file.shape.other_types;
                let is_written = file.shape.missing.is_none() && file.shape.unknown != Some(index);
                type_is_kept && is_written && has_bounds(value_type(&column.data_type))
            })
    }

    /// Whether the bounds of a file are those of its rows.
    fn is_exact(&self, file: &DataFile) -> bool {
        let is_number = |column: &Column| {
            let data_type = value_type(&column.data_type);
            data_type.is_integer() || data_type.is_temporal()
        };
        self.is_plain(file) && self.table.key().iter().all(is_number)
    }

    /// The columns that bounds of so many columns are of, each with its place in the table: those of the key, of the order
    /// that footers claim, or of the layout.
    fn key_of(&self, columns: usize) -> Vec<(usize, &'a Column)> {
        let all: Vec<_> = self.table.key().iter().enumerate().collect();
        if columns == all.len() {
            return all;
        }
        let of_layout = self.report.key.iter();
        let by_name = |name: &str| all.iter().find(|(_, column)| column.name == name).copied();
        let of_layout: Vec<_> = of_layout.filter_map(|sort| by_name(&sort.name)).collect();
        if columns == of_layout.len() {
            return of_layout;
        }
        let in_files = all.into_iter().filter(|(_, column)| !column.hive);
        in_files.take(columns).collect()
    }
}

/// The first and the last of the keys of rows.
fn ends(key: &[(usize, &Column)], rows: &[Row]) -> (OwnedRow, OwnedRow) {
    let value = |row: &Row, (place, column): &(usize, &Column)| {
        take(
            &column.pool,
            &UInt32Array::from(vec![row.ranks[*place]]),
            None,
        )
        .unwrap()
    };
    let keys = rows.iter().map(|row| {
        let values: Vec<_> = key.iter().map(|column| value(row, column)).collect();
        converted(key, &values)
    });
    let mut keys: Vec<_> = keys.collect();
    keys.sort();
    (keys[0].clone(), keys[keys.len() - 1].clone())
}

fn row_of_values(key: &[(usize, &Column)], value: &KeyValue) -> OwnedRow {
    let columns = value.columns().iter().zip(key);
    let values = columns.map(|(value, (_, column))| {
        let value = value.to_array().unwrap();
        cast(&value, value_type(&column.data_type)).unwrap()
    });
    converted(key, &values.collect::<Vec<_>>())
}

/// A key, as it compares in the declared order.
fn converted(key: &[(usize, &Column)], values: &[ArrayRef]) -> OwnedRow {
    let fields = key.iter().map(|(_, column)| {
        let data_type = value_type(&column.data_type).clone();
        SortField::new_with_options(data_type, column.options)
    });
    let converter = RowConverter::new(fields.collect()).unwrap();
    converter.convert_columns(values).unwrap().row(0).owned()
}

/// Whether the statistics of any file tell bounds of this type.
fn has_bounds(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Date32
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Decimal128(..)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Boolean
        )
}
