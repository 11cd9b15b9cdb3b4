//! Units of a scan.

use std::ops::Range;
use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;

use super::footer::Footer;
use crate::layout::{Bounds, KeyRange};
use crate::proof::GroupBounds;

/// A file, or a byte range of one, and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) file: PartitionedFile,
    pub(crate) facts: UnitFacts,
}

/// What is known of a unit.
#[derive(Debug, Clone)]
pub(crate) struct UnitFacts {
    /// The footer of the file, if it is Parquet.
    pub(crate) footer: Option<Footer>,
    /// Where the keys of its rows lie, in the first ordering of the scan.
    pub(crate) bounds: Option<Bounds>,
    /// The same for each row group of the file that has rows, as far as that is known.
    pub(crate) groups: Arc<[GroupBounds]>,
    /// The keys that are read of it, if it has others, which are read with another slice.
    pub(crate) clip: Option<KeyRange>,
}

impl UnitFacts {
    /// Where the keys of some of the unit's row groups lie.
    pub(crate) fn bounds_of(&self, groups: &Range<usize>) -> Option<Bounds> {
        bounds_of(&self.groups, groups).or_else(|| self.bounds.clone())
    }
}

/// The bounds around those of the row groups in `range`; `None` if none of them has known bounds.
pub(crate) fn bounds_of(groups: &[GroupBounds], range: &Range<usize>) -> Option<Bounds> {
    let first = groups.partition_point(|group| group.group < range.start);
    let end = groups.partition_point(|group| group.group < range.end);
    let bounds = groups[first..end].iter().map(|group| group.bounds.clone());
    bounds.reduce(Bounds::union)
}
