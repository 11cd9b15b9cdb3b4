//! The files of one scan.

use std::sync::Arc;

use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::{ListingTable, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexOrdering;
use parquet::file::metadata::ParquetMetaData;

use crate::footers::arrow_schema;
use crate::key_value::KeyBounds;
use crate::layout::Bounds;
use crate::proof::{FileView, KeyFacts, SortKey, shared_order};
use crate::scan::Footer;
use crate::snapshot::{KnownFile, Snapshot};
use crate::statistics::{file_without_doubtful, without_partition_values};

/// The files of one scan, sorted by path, each with what is known of it.
#[derive(Debug)]
pub(crate) struct ScanFiles {
    table: TableSchema,
    /// Whether an expression adapter of the user's decides what the columns of a file become.
    custom_adapter: bool,
    files: Vec<ListedFile>,
    /// Those of exactly zero rows: they belong to no slice and say nothing of the order.
    empty: Vec<PartitionedFile>,
}

#[derive(Debug)]
pub(crate) struct ListedFile {
    pub(crate) file: PartitionedFile,
    /// The file group that the listing put it into.
    pub(crate) group: usize,
    /// What its footer proves; or why that was not looked at.
    known: Result<Arc<KnownFile>, Arc<str>>,
    footer: Option<Footer>,
}

impl ScanFiles {
    /// The files of `scan`, a scan of DataFusion's, of whose footers nothing is known for the reason `why`.
    pub(crate) fn unknown(scan: &FileScanConfig, why: &Arc<str>) -> Self {
        Self::of_scan(scan, |_| Err(Arc::clone(why)))
    }

    /// The files of `scan`, a scan of DataFusion's, which are those of `snapshot`.
    pub(crate) fn of_listed(scan: &FileScanConfig, snapshot: &Snapshot) -> Self {
        Self::of_scan(scan, |file| {
            let files = snapshot.files();
            let place = files
                .binary_search_by(|known| known.meta.location.cmp(&file.object_meta.location))
                .ok()
                .filter(|&place| *files[place].partition_values == *file.partition_values);
            place
                .map(|place| (Arc::clone(&files[place]), snapshot.footer(place)))
                .ok_or_else(|| "its path says different things of its partition".into())
        })
    }

    fn of_scan<'s>(
        scan: &FileScanConfig,
        known: impl Fn(&PartitionedFile) -> Result<Known<'s>, Arc<str>>,
    ) -> Self {
        let groups = scan.file_groups.iter().map(FileGroup::iter).enumerate();
        let files = groups.flat_map(|(group, files)| files.map(move |file| (group, file)));
        let mut files: Vec<_> = files
            .map(|(group, file)| ListedFile::new(file.clone(), group, known(file)))
            .collect();
        // The listing comes in no particular order.
        files.sort_unstable_by(|a, b| a.file.path().cmp(b.file.path()));
        Self::new(
            scan.file_source().table_schema(),
            scan.expr_adapter_factory.is_some(),
            files,
        )
    }

    fn new(table: &TableSchema, custom_adapter: bool, files: Vec<ListedFile>) -> Self {
        let (empty, files): (Vec<_>, _) = files.into_iter().partition(ListedFile::is_empty);
        Self {
            table: table.clone(),
            custom_adapter,
            files,
            empty: empty.into_iter().map(|file| file.file).collect(),
        }
    }

    /// Some `files` of `snapshot` by their indices, as DataFusion would list them. Of each, `footer` gives its footer, if
    /// it is at hand.
    pub(crate) fn of_snapshot(
        snapshot: &Snapshot,
        files: &[usize],
        table: &ListingTable,
        collect_statistics: bool,
        footer: impl Fn(usize) -> Option<Arc<ParquetMetaData>>,
    ) -> Result<Self> {
        let schema = snapshot.table();
        let of_files = schema.file_schema().fields().len();
        let partition_columns = of_files..schema.table_schema().fields().len();
        let unknown = Arc::new(Statistics::new_unknown(schema.file_schema()));
        let listed = |&index: &usize| {
            let known = &snapshot.files()[index];
            let statistics = match collect_statistics {
                true => Arc::new(snapshot.statistics(index)?),
                false => Arc::clone(&unknown),
            };
            let mut file = PartitionedFile::from(known.meta.clone());
            file.partition_values = known.partition_values.to_vec();
            if let Some(path) = table.table_paths().get(known.path) {
                file.table_reference.clone_from(path.get_table_ref());
            }
            let file = file.with_statistics(statistics);
            // Partition columns may be of floats.
            let file = match schema.table_partition_cols().is_empty() {
                true => file,
                false => file_without_doubtful(file, schema.table_schema()),
            };
            let file = match known.rows() {
                0 => without_partition_values(file, partition_columns.clone()),
                _ => file,
            };
            Ok(ListedFile {
                file,
                group: 0,
                footer: Some(Footer::new(Arc::clone(&known.row_groups), footer(index))),
                known: Ok(Arc::clone(known)),
            })
        };
        let files = files.iter().map(listed).collect::<Result<_>>()?;
        // A table with an adapter plans no scans of snapshots.
        Ok(Self::new(schema, false, files))
    }

    pub(crate) fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// The files as DataFusion lists them, those without rows too.
    pub(crate) fn as_listed(&self) -> impl Iterator<Item = &PartitionedFile> {
        let files = self.files.iter().map(|file| &file.file);
        files.chain(&self.empty)
    }

    /// The key of `ordering`, or why nothing can be proved of it.
    pub(crate) fn sort_key(&self, ordering: &LexOrdering) -> Result<SortKey, String> {
        SortKey::try_new(ordering, &self.table)
    }

    /// The values of `bounds` of the key of `ordering`, if it is one that has bounds.
    pub(crate) fn values_of(&self, ordering: &LexOrdering, bounds: &Bounds) -> Option<KeyBounds> {
        self.sort_key(ordering).ok()?.values_of(bounds).ok()
    }

    /// What `look` makes of what proofs look at of a file, if its footer is at hand.
    pub(crate) fn view<T>(&self, file: usize, look: impl FnOnce(Option<FileView<'_>>) -> T) -> T {
        let file = &self.files[file];
        let footer = file.footer.as_ref().and_then(Footer::whole);
        let Some((footer, schema)) =
            footer.and_then(|footer| Some((footer, arrow_schema(footer).ok()?)))
        else {
            return look(None);
        };
        look(Some(FileView {
            footer,
            schema: &schema,
            partition_values: &file.file.partition_values,
            custom_adapter: self.custom_adapter,
        }))
    }

    /// What each file proves of the key of `ordering`.
    pub(crate) fn key_facts(&self, ordering: &LexOrdering) -> Vec<KeyFacts> {
        let key = self.sort_key(ordering);
        let facts = |file: &ListedFile| match (&key, &file.known) {
            (Err(why), _) => KeyFacts::unknown(why.as_str()),
            (_, Err(why)) => KeyFacts::unknown(why.as_ref()),
            (Ok(_), Ok(known)) => known.facts(ordering),
        };
        self.files.iter().map(facts).collect()
    }

    /// The order that all footers share; `Err` names a file whose footer does not share it.
    pub(crate) fn footer_order(&self) -> Result<Option<LexOrdering>, &ListedFile> {
        let known = self.files.iter().filter_map(|file| {
            let known = file.known.as_ref().ok()?;
            Some((file, known.claimed()))
        });
        shared_order(known)
    }
}

type Known<'a> = (Arc<KnownFile>, Option<&'a Arc<ParquetMetaData>>);

impl ListedFile {
    fn new(file: PartitionedFile, group: usize, known: Result<Known<'_>, Arc<str>>) -> Self {
        let footer = known
            .as_ref()
            .ok()
            .map(|(known, footer)| Footer::new(Arc::clone(&known.row_groups), footer.cloned()));
        Self {
            file,
            group,
            known: known.map(|(known, _)| known),
            footer,
        }
    }

    /// What is known of the footer of the file, if it is Parquet.
    pub(crate) fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref()
    }

    fn is_empty(&self) -> bool {
        self.known.as_ref().is_ok_and(|known| known.rows() == 0)
    }
}
