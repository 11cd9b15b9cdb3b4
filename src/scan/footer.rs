//! What a scan knows of the footer of a file.

use std::sync::Arc;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::sizes;

/// The row groups of a file, and the whole of its footer where that is at hand.
///
/// Row groups are enough to cut a file. The whole footer tells the statistics of its parts, and where pages begin.
#[derive(Debug, Clone)]
pub(crate) struct Footer {
    row_groups: Arc<[RowGroup]>,
    whole: Option<Arc<ParquetMetaData>>,
}

/// Where a row group lies in its file, and how large it is.
#[derive(Debug)]
pub(crate) struct RowGroup {
    /// The byte that a range must hold for DataFusion to read the row group: that of its first page.
    pub(crate) start: i64,
    /// Its bytes in the file.
    pub(crate) compressed: u64,
    /// Its bytes, uncompressed.
    pub(crate) decoded: u64,
    pub(crate) rows: u64,
    /// The pages of the column that has most, as far as that is known.
    pub(crate) most_pages: u32,
}

impl Footer {
    pub(crate) fn new(row_groups: Arc<[RowGroup]>, whole: Option<Arc<ParquetMetaData>>) -> Self {
        Self { row_groups, whole }
    }

    pub(crate) fn row_groups(&self) -> &[RowGroup] {
        &self.row_groups
    }

    pub(crate) fn whole(&self) -> Option<&ParquetMetaData> {
        self.whole.as_deref()
    }
}

impl RowGroup {
    /// The row groups of a file.
    pub(crate) fn all(footer: &ParquetMetaData) -> Arc<[Self]> {
        let groups = footer.row_groups().iter().enumerate();
        groups
            .map(|(index, group)| {
                let columns = footer.offset_index().and_then(|pages| pages.get(index));
                let pages = columns.into_iter().flatten();
                let most = pages.map(|column| column.page_locations().len()).max();
                Self::new(group, most.unwrap_or(0))
            })
            .collect()
    }

    fn new(group: &RowGroupMetaData, most_pages: usize) -> Self {
        let start = group.columns().first().map_or(0, |column| {
            column
                .dictionary_page_offset()
                .unwrap_or_else(|| column.data_page_offset())
        });
        Self {
            start,
            compressed: sizes::compressed(group),
            decoded: sizes::decoded(group),
            rows: sizes::rows(group),
            most_pages: u32::try_from(most_pages).unwrap_or(u32::MAX),
        }
    }
}
