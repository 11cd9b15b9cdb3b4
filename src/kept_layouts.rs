//! Layouts of whole tables, which queries share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Statistics;
use datafusion::datasource::physical_plan::FileGroup;

use crate::config::SortedListingConfig;
use crate::scan::{Offer, SortedScan};
use crate::split_points::GivenPoints;
use crate::why_not::WhyNot;

/// How many files the layouts have together that a snapshot keeps, but that it keeps the newest one in any case.
const MOST_FILES: usize = 65_536;

/// What the layout of all files of a snapshot depends on.
#[derive(Debug, PartialEq)]
pub(crate) struct LayoutKey {
    pub(crate) config: SortedListingConfig,
    pub(crate) split_points: Option<GivenPoints>,
    pub(crate) target_partitions: usize,
    pub(crate) collects_statistics: bool,
    /// Those of the columns that may be of a key which the query reads.
    pub(crate) key_columns: Vec<usize>,
}

/// How all files of a snapshot are read.
#[derive(Debug)]
pub(crate) struct KeptLayout {
    pub(crate) arranged: Kept,
    pub(crate) statistics: Statistics,
    /// How many files it has.
    pub(crate) files: usize,
}

#[derive(Debug)]
pub(crate) enum Kept {
    Ordered(Box<SortedScan>),
    Unordered {
        why: Arc<WhyNot>,
        offer: Option<Arc<Offer>>,
        groups: Vec<FileGroup>,
    },
}

/// The layouts that were asked for last.
#[derive(Debug, Default)]
pub(crate) struct KeptLayouts(Mutex<VecDeque<(LayoutKey, Arc<KeptLayout>)>>);

impl KeptLayouts {
    pub(crate) fn get(&self, key: &LayoutKey) -> Option<Arc<KeptLayout>> {
        let mut kept = self.lock();
        let place = kept.iter().position(|(other, _)| other == key)?;
        let newest = kept.remove(place)?;
        let layout = Arc::clone(&newest.1);
        kept.push_back(newest);
        Some(layout)
    }

    pub(crate) fn keep(&self, key: LayoutKey, layout: Arc<KeptLayout>) {
        let mut kept = self.lock();
        kept.retain(|(other, _)| *other != key);
        kept.push_back((key, layout));
        let mut files: usize = kept.iter().map(|(_, layout)| layout.files).sum();
        while files > MOST_FILES
            && kept.len() > 1
            && let Some((_, oldest)) = kept.pop_front()
        {
            files -= oldest.files;
        }
    }

    // Nothing that could panic happens while it is locked.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(LayoutKey, Arc<KeptLayout>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(target_partitions: usize) -> LayoutKey {
        LayoutKey {
            config: SortedListingConfig::default(),
            split_points: None,
            target_partitions,
            collects_statistics: true,
            key_columns: vec![],
        }
    }

    fn layout(files: usize) -> Arc<KeptLayout> {
        Arc::new(KeptLayout {
            arranged: Kept::Unordered {
                why: Arc::new(WhyNot::NoRows),
                offer: None,
                groups: vec![],
            },
            statistics: Statistics::default(),
            files,
        })
    }

    #[test]
    fn the_oldest_go_first() {
        let layouts = KeptLayouts::default();
        for partitions in 1..=4 {
            layouts.keep(key(partitions), layout(MOST_FILES / 4));
        }
        assert!(layouts.get(&key(1)).is_some());
        layouts.keep(key(5), layout(1));
        assert!(layouts.get(&key(2)).is_none());
        for partitions in [1, 3, 4, 5] {
            assert!(layouts.get(&key(partitions)).is_some(), "{partitions}");
        }
        layouts.keep(key(6), layout(MOST_FILES + 1));
        assert!(layouts.get(&key(6)).is_some());
        for partitions in 1..=5 {
            assert!(layouts.get(&key(partitions)).is_none(), "{partitions}");
        }
    }
}
