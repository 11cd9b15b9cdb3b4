//! The sort keys of a scan, and what is proved of them.

use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use crate::layout::Bounds;
use crate::proof::KeyFacts;
use crate::scan::show;
use crate::scan_files::{ListedFile, ScanFiles};
use crate::why_not::WhyNot;

/// A sort key that files are sorted by, and what is proved of it.
pub(crate) struct Sorted {
    pub(crate) ordering: LexOrdering,
    pub(crate) facts: Vec<KeyFacts>,
}

impl Sorted {
    /// The key of the first `columns` columns of this one.
    pub(crate) fn first_columns(&self, columns: usize, files: &ScanFiles) -> Option<Self> {
        let ordering = LexOrdering::new(self.ordering.get(..columns)?.to_vec())?;
        Some(Self {
            facts: files.key_facts(&ordering),
            ordering,
        })
    }

    /// The ordering as in `ORDER BY`.
    pub(crate) fn show(&self) -> String {
        show(&self.ordering)
    }
}

/// Whether the listing has seen an order in the footer of any file. It looks only if it collects statistics.
pub(crate) fn any_file_has_order(scan: &FileScanConfig) -> bool {
    let mut files = scan.file_groups.iter().flat_map(FileGroup::iter);
    files.any(|file| file.ordering.is_some())
}

/// The declared sort keys, or if there are none, the one that all footers share; or why there is no such key.
pub(crate) fn sort_keys(
    files: &ScanFiles,
    declared: Vec<LexOrdering>,
) -> Result<Vec<Sorted>, WhyNot> {
    if declared.is_empty() {
        return Ok(vec![footer_key(files)?]);
    }
    let sorted = |ordering| Sorted {
        facts: files.key_facts(&ordering),
        ordering,
    };
    Ok(declared.into_iter().map(sorted).collect())
}

/// The longest order that all footers share, and in which the row groups of each file are too.
///
/// `sorting_columns` speak of the inside of a row group only (parquet.thrift), so that the order of the row groups
/// of a file has to be proved. A declared order speaks of whole files.
fn footer_key(files: &ScanFiles) -> Result<Sorted, WhyNot> {
    let shared = files
        .footer_order()
        .map_err(|file| WhyNot::NoSharedOrder {
            file: file.file.path().to_string(),
        })?
        .ok_or(WhyNot::NoOrder)?;
    let mut disordered = None;
    for len in (1..=shared.len()).rev() {
        let Some(ordering) = LexOrdering::new(shared[..len].iter().cloned()) else {
            continue;
        };
        let facts = files.key_facts(&ordering);
        disordered = facts.iter().position(|facts| !facts.groups_in_order);
        if disordered.is_none() {
            return Ok(Sorted { ordering, facts });
        }
    }
    let file = disordered.map_or("", |file| files.files()[file].file.path().as_ref());
    Err(WhyNot::UnprovedFooterOrder { file: file.into() })
}

/// The ordering of `key` without the columns that have one value in all `files`, if there are any: rows that are in
/// order of `date, ts` are in order of `ts` where there is one `date` only. Such are Hive partition columns, and columns
/// at the beginning of the key whose bounds are one value.
///
/// DataFusion drops a filter on a partition column once the listing has applied it, and with it the knowledge.
pub(crate) fn without_constants(
    key: &Sorted,
    files: &[ListedFile],
    first_partition_column: usize,
) -> Option<LexOrdering> {
    let same_value = |sort: &PhysicalSortExpr| {
        let column = sort.expr.downcast_ref::<Column>()?.index();
        let partition = column.checked_sub(first_partition_column)?;
        let mut values = files
            .iter()
            .map(|file| file.file.partition_values.get(partition));
        let first = values.next()??;
        Some(values.all(|value| value == Some(first)))
    };
    let bounds: Option<Vec<_>> = key
        .facts
        .iter()
        .map(|facts| facts.bounds.as_ref().ok())
        .collect();
    let constant = bounds.map_or(0, |bounds| Bounds::constant_columns(&bounds));
    let varying: Vec<_> = key
        .ordering
        .iter()
        .enumerate()
        .filter(|&(index, sort)| index >= constant && same_value(sort) != Some(true))
        .map(|(_, sort)| sort.clone())
        .collect();
    (varying.len() < key.ordering.len())
        .then(|| LexOrdering::new(varying))
        .flatten()
}

/// The table columns among those of `keys` in which no file has a NULL.
pub(crate) fn null_free_columns(keys: &[Sorted]) -> Vec<usize> {
    let mut columns = vec![];
    for key in keys {
        for (index, sort) in key.ordering.iter().enumerate() {
            let null_free = |facts: &KeyFacts| facts.null_free.get(index) == Some(&true);
            if let Some(column) = sort.expr.downcast_ref::<Column>()
                && key.facts.iter().all(null_free)
            {
                columns.push(column.index());
            }
        }
    }
    columns
}
