//! The files of a scan and what their footers prove, at one moment.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexOrdering;
use parquet::file::metadata::ParquetMetaData;

use crate::footers::{Footer, FooterReader};
use crate::key_value::KeyBounds;
use crate::layout::Bounds;
use crate::proof::{FileView, KeyFacts, SortKey, footer_order};

/// The files of one scan that may have rows, sorted by path, each with its footer.
///
/// Proof and execution use the same snapshot: what is read are the files that were listed. That they have not been
/// overwritten since is not checked.
#[derive(Debug)]
pub(crate) struct Snapshot {
    table: TableSchema,
    custom_adapter: bool,
    files: Vec<ListedFile>,
}

#[derive(Debug)]
pub(crate) struct ListedFile {
    pub(crate) file: PartitionedFile,
    /// The file group that the listing put it into.
    pub(crate) group: usize,
    footer: Footer,
}

impl Snapshot {
    /// Reads the footers of the files of `scan`, concurrently and through the session's `FileMetadataCache`.
    ///
    /// Files of exactly zero rows are set aside: they belong to no slice and say nothing of the order.
    ///
    /// # Errors
    /// If a footer cannot be read, naming its file.
    pub(crate) async fn read(
        session: &dyn Session,
        format: &dyn FileFormat,
        scan: &FileScanConfig,
    ) -> Result<Self> {
        let store = session.runtime_env().object_store(&scan.object_store_url)?;
        let listed: Vec<_> = scan
            .file_groups
            .iter()
            .enumerate()
            .flat_map(|(group, files)| files.iter().map(move |file| (group, file)))
            .collect();
        let metas = listed
            .iter()
            .map(|(_, file)| file.object_meta.clone())
            .collect();
        let footers = FooterReader::new(session, format, store)
            .read(metas)
            .await?;
        let mut files: Vec<_> = listed
            .into_iter()
            .zip(footers)
            .map(|((group, file), footer)| ListedFile {
                file: file.clone(),
                group,
                footer,
            })
            .filter(|file| !file.is_empty())
            .collect();
        // The listing comes in no particular order.
        files.sort_unstable_by(|a, b| a.file.path().cmp(b.file.path()));

        Ok(Self {
            table: scan.file_source().table_schema().clone(),
            custom_adapter: scan.expr_adapter_factory.is_some(),
            files,
        })
    }

    pub(crate) fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// The key of `ordering`, or why nothing can be proved of it.
    pub(crate) fn sort_key(&self, ordering: &LexOrdering) -> Result<SortKey, String> {
        SortKey::try_new(ordering, &self.table)
    }

    /// What each file proves of the key of `ordering`.
    pub(crate) fn key_facts(&self, ordering: &LexOrdering) -> Vec<KeyFacts> {
        let key = self.sort_key(ordering);
        let facts = |file: &ListedFile| match (&key, &file.footer) {
            (Err(why), _) => KeyFacts::unknown(why),
            (_, Footer::Unreadable(why)) => KeyFacts::unknown(why.as_ref()),
            (Ok(key), Footer::Parquet { metadata, schema }) => {
                key.facts(self.view_of(file, metadata, schema))
            }
        };
        self.files.iter().map(facts).collect()
    }

    /// What proofs look at of a file, if it is Parquet.
    pub(crate) fn view(&self, file: usize) -> Option<FileView<'_>> {
        let file = self.files.get(file)?;
        match &file.footer {
            Footer::Parquet { metadata, schema } => Some(self.view_of(file, metadata, schema)),
            Footer::Unreadable(_) => None,
        }
    }

    fn view_of<'a>(
        &'a self,
        file: &'a ListedFile,
        footer: &'a ParquetMetaData,
        schema: &'a Schema,
    ) -> FileView<'a> {
        FileView {
            footer,
            schema,
            partition_values: &file.file.partition_values,
            custom_adapter: self.custom_adapter,
        }
    }

    /// The values of `bounds` of the key of `ordering`, if it is one that has bounds.
    pub(crate) fn values_of(&self, ordering: &LexOrdering, bounds: &Bounds) -> Option<KeyBounds> {
        self.sort_key(ordering).ok()?.values_of(bounds).ok()
    }

    /// The order that all footers share; `Err` names a file whose footer does not share it.
    pub(crate) fn footer_order(&self) -> Result<Option<LexOrdering>, &ListedFile> {
        // An adapter of the user's decides what the columns of a file become.
        if self.custom_adapter {
            return Ok(None);
        }
        let footers = self.files.iter().filter_map(|file| match &file.footer {
            Footer::Parquet { metadata, schema } => {
                Some((file, metadata.as_ref(), schema.as_ref()))
            }
            Footer::Unreadable(_) => None,
        });
        footer_order(footers, &self.table)
    }
}

impl ListedFile {
    /// The footer of the file, if it is Parquet.
    pub(crate) fn footer(&self) -> Option<Arc<ParquetMetaData>> {
        match &self.footer {
            Footer::Parquet { metadata, .. } => Some(Arc::clone(metadata)),
            Footer::Unreadable(_) => None,
        }
    }

    fn is_empty(&self) -> bool {
        match &self.footer {
            Footer::Parquet { metadata, .. } => metadata
                .row_groups()
                .iter()
                .all(|group| group.num_rows() == 0),
            Footer::Unreadable(_) => false,
        }
    }
}
