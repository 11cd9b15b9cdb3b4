//! How a file is written, apart from its rows.

use parquet::basic::Compression;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::random::Random;
use crate::table::{Column, Declared};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) rows_per_group: usize,
    pub(crate) rows_per_page: usize,
    pub(crate) dictionary: bool,
    pub(crate) statistics: EnabledStatistics,
    /// The column without statistics.
    pub(crate) unknown: Option<usize>,
    pub(crate) truncate: Option<usize>,
    pub(crate) truncate_index: Option<usize>,
    /// The column that the file does not have.
    pub(crate) missing: Option<usize>,
    /// Whether columns have their other type, if they have one.
    pub(crate) other_types: bool,
    /// By how many places the columns are rotated.
    pub(crate) rotated: usize,
    pub(crate) extra_column: bool,
    /// Whether the footer says what the file is sorted by.
    pub(crate) claims_order: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            rows_per_group: 1_000_000,
            rows_per_page: 20_000,
            dictionary: true,
            statistics: EnabledStatistics::Page,
            unknown: None,
            truncate: Some(64),
            truncate_index: Some(64),
            missing: None,
            other_types: false,
            rotated: 0,
            extra_column: false,
            claims_order: false,
        }
    }
}

impl Shape {
    /// The shapes of the files of a table. What makes bounds unknown is rare, and then in few files.
    pub(crate) fn of_files(
        random: &mut Random,
        columns: &[Column],
        declared: Declared,
        files: usize,
    ) -> Vec<Self> {
        let table = Self {
            rows_per_group: *random.pick(&[1, 2, 3, 7, 20, 1_000_000, 1_000_000]),
            rows_per_page: *random.pick(&[1, 2, 5, 20_000]),
            dictionary: random.percent(50),
            statistics: random.weighted(&[
                (50, EnabledStatistics::Page),
                (40, EnabledStatistics::Chunk),
                (2, EnabledStatistics::None),
            ]),
            truncate: *random.pick(&[Some(64), Some(64), Some(1), Some(4), None]),
            truncate_index: *random.pick(&[Some(64), Some(64), Some(1), Some(4), None]),
            claims_order: declared == Declared::Footers || random.percent(10),
            ..Self::default()
        };
        let in_files: Vec<_> = (0..columns.len())
            .filter(|&column| !columns[column].hive)
            .collect();
        let varied = random.percent(40);
        let bad = random.percent(12);
        let missing = random.percent(15);
        let silent =
            (declared == Declared::Footers && random.percent(15)).then(|| random.below(files));
        (0..files)
            .map(|index| {
                let mut shape = table.clone();
                shape.other_types = random.percent(50);
                if varied {
                    shape.rows_per_group = *random.pick(&[1, 2, 3, 7, 20, 1_000_000]);
                    shape.rows_per_page = *random.pick(&[1, 2, 5, 20_000]);
                    shape.rotated = random.below(8);
                    shape.extra_column = random.percent(20);
                    if random.percent(30) {
                        shape.statistics =
                            *random.pick(&[EnabledStatistics::Page, EnabledStatistics::Chunk]);
                    }
                }
                if bad && random.percent(15) {
                    match random.percent(50) {
                        true => shape.statistics = EnabledStatistics::None,
                        false => shape.unknown = Some(*random.pick(&in_files)),
                    }
                }
                // The schema of a DDL statement comes from the files, so that one has to have all columns.
                if missing && index > 0 && random.percent(25) {
                    shape.missing = Some(*random.pick(&in_files));
                }
                if Some(index) == silent {
                    shape.claims_order = false;
                }
                shape
            })
            .collect()
    }

    /// The properties of a file with columns of these names, sorted by the first of a table's columns.
    pub(crate) fn properties(
        &self,
        names: &[String],
        columns: &[Column],
        key_len: usize,
    ) -> WriterProperties {
        let key = columns[..key_len].iter().filter(|column| !column.hive);
        let sorting = key.map_while(|column| {
            let index = names.iter().position(|name| name == &column.name)?;
            Some(SortingColumn {
                column_idx: index as i32,
                descending: column.options.descending,
                nulls_first: column.options.nulls_first,
            })
        });
        let sorting: Vec<_> = sorting.collect();
        let claim = self.claims_order && !sorting.is_empty();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::UNCOMPRESSED)
            .set_max_row_group_row_count(Some(self.rows_per_group))
            .set_data_page_row_count_limit(self.rows_per_page)
            .set_write_batch_size(self.rows_per_page.min(1024))
            .set_dictionary_enabled(self.dictionary)
            .set_statistics_enabled(self.statistics)
            .set_statistics_truncate_length(self.truncate)
            .set_column_index_truncate_length(self.truncate_index)
            .set_sorting_columns(claim.then_some(sorting));
        if let Some(column) = self.unknown {
            let path = ColumnPath::from(columns[column].name.as_str());
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
        properties.build()
    }
}
