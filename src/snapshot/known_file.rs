//! What a snapshot knows of a file.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, Statistics, exec_err};
use datafusion::datasource::listing::helpers::parse_partitions_for_path;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use object_store::ObjectMeta;
use parquet::file::metadata::ParquetMetaData;

use super::HeldFooter;
use super::listing::Listed;
use super::manifest::{ManifestUrl, is_manifest};
use crate::footers::{FooterReader, arrow_schema, unreadable};
use crate::proof::{ColumnRange, FileView, KeyFacts, SortKey, claimed_order};
use crate::scan::RowGroup;

/// A version of a file, and what its footer proves. It is kept small: a table may have a hundred thousand.
#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) meta: ObjectMeta,
    /// Which of the paths of the table it is under.
    pub(crate) path: usize,
    pub(crate) partition_values: Arc<[ScalarValue]>,
    pub(crate) row_groups: Arc<[RowGroup]>,
    /// The order that its footer claims. Only looked at if the table declares none.
    pub(super) claimed: Arc<[PhysicalSortExpr]>,
    /// The orders of which something is known: those that the table declares, or that the footer claims.
    pub(super) orders: Arc<[LexOrdering]>,
    /// What is known of each of these.
    pub(super) facts: Box<[KeyFacts]>,
}

impl KnownFile {
    pub(crate) fn rows(&self) -> u64 {
        self.row_groups.iter().map(|group| group.rows).sum()
    }

    /// The order that the footer claims.
    pub(crate) fn claimed(&self) -> &[PhysicalSortExpr] {
        &self.claimed
    }

    /// What the footer proves of `ordering`, which is one that the table declares, the beginning of one that the footer
    /// claims, or some columns of one of these.
    pub(crate) fn facts(&self, ordering: &LexOrdering) -> KeyFacts {
        let known = || self.orders.iter().zip(&self.facts);
        if let Some((_, facts)) = known().find(|(order, _)| *order == ordering) {
            return facts.clone();
        }
        let of_columns: Vec<_> = known()
            .filter_map(|(order, facts)| Some(facts.of_columns(&places_in(ordering, order)?)))
            .collect();
        let known = of_columns.iter().position(|facts| facts.bounds.is_ok());
        of_columns
            .into_iter()
            .nth(known.unwrap_or(0))
            .unwrap_or_else(|| KeyFacts::unknown("its footer was not looked at for this order"))
    }

    /// Shares what files have in common.
    pub(super) fn share_with(&mut self, other: &Self) {
        if self.orders == other.orders {
            self.orders = Arc::clone(&other.orders);
        }
        if self.claimed == other.claimed {
            self.claimed = Arc::clone(&other.claimed);
        }
        if self.partition_values == other.partition_values {
            self.partition_values = Arc::clone(&other.partition_values);
        }
        for (facts, other) in self.facts.iter_mut().zip(&other.facts) {
            if facts.null_free == other.null_free {
                facts.null_free = Arc::clone(&other.null_free);
            }
        }
    }
}

/// The places of the columns of `ordering` in `order`, if they come in its order.
fn places_in(ordering: &LexOrdering, order: &LexOrdering) -> Option<Vec<usize>> {
    let mut sorts = order.iter().enumerate();
    ordering
        .iter()
        .map(|sort| sorts.find(|(_, other)| *other == sort).map(|(at, _)| at))
        .collect()
}

/// A file whose footer is to be read.
pub(super) struct Unread {
    pub(super) listed: Listed,
    pub(super) partition_values: Arc<[ScalarValue]>,
}

/// A file whose footer has been read.
pub(super) struct ReadFile {
    pub(super) known: KnownFile,
    /// Of the columns of files, as DataFusion sees them.
    pub(super) statistics: Statistics,
    pub(super) ranges: Vec<(usize, ColumnRange)>,
    pub(super) footer: HeldFooter,
}

/// Looks at the files of a table.
#[derive(Clone)]
pub(crate) struct Indexer {
    pub(super) reader: FooterReader,
    pub(super) table: TableSchema,
    pub(super) paths: Arc<[ListingTableUrl]>,
    partition_columns: Arc<[(String, DataType)]>,
    /// The orders that the table declares, if any.
    pub(super) declared: Arc<[LexOrdering]>,
    /// Their keys; or why nothing can be proved of them.
    keys: Arc<[Result<SortKey, String>]>,
    /// Whether an expression adapter of the user's decides what the columns of a file become.
    custom_adapter: bool,
    /// Where what is known of files is kept for the next session, if it is.
    pub(super) manifest: Option<Arc<ManifestUrl>>,
}

impl Indexer {
    pub(crate) fn new(
        reader: FooterReader,
        listing: &ListingTable,
        table: TableSchema,
        declared: Vec<LexOrdering>,
        custom_adapter: bool,
        manifest: Option<ManifestUrl>,
    ) -> Self {
        let keys = declared.iter().map(|order| SortKey::try_new(order, &table));
        Self {
            reader,
            keys: keys.collect(),
            table,
            paths: listing.table_paths().to_vec().into(),
            partition_columns: listing.options().table_partition_cols.clone().into(),
            declared: declared.into(),
            custom_adapter,
            manifest: manifest.map(Arc::new),
        }
    }

    /// # Errors
    /// As those of [`partition_values`](Self::partition_values).
    pub(super) fn unread(&self, listed: Listed) -> Result<Unread> {
        let partition_values = self.partition_values(&listed.meta, listed.path)?;
        Ok(Unread {
            listed,
            partition_values,
        })
    }

    /// # Errors
    /// If the footer cannot be read, naming the file.
    pub(super) async fn read(self, file: Unread) -> Result<ReadFile> {
        let Unread {
            listed: Listed { meta, path },
            partition_values,
        } = file;
        let footer = self.reader.read(meta.clone()).await?;
        match self.look_at(&footer, &partition_values) {
            Ok((row_groups, proved, statistics)) => Ok(ReadFile {
                known: KnownFile {
                    meta,
                    path,
                    partition_values,
                    row_groups,
                    claimed: proved.claimed.into(),
                    orders: proved.orders,
                    facts: proved.facts.into(),
                },
                statistics,
                ranges: proved.ranges,
                footer: HeldFooter {
                    bytes: footer.memory_size(),
                    footer,
                },
            }),
            Err(e) => Err(unreadable(&meta, e)),
        }
    }

    fn look_at(
        &self,
        footer: &ParquetMetaData,
        partition_values: &[ScalarValue],
    ) -> Result<(Arc<[RowGroup]>, Proved, Statistics)> {
        if is_manifest(footer) {
            return exec_err!(
                "it is a manifest (sorted_listing.manifest) and no data. Move it out of the table's folder"
            );
        }
        let schema = arrow_schema(footer)?;
        let file = FileView {
            footer,
            schema: &schema,
            partition_values,
            custom_adapter: self.custom_adapter,
        };
        let proved = if !self.declared.is_empty() {
            self.declared_orders(file)
        } else if self.custom_adapter {
            Proved::default()
        } else {
            self.claimed_orders(file)
        };
        let statistics =
            DFParquetMetadata::statistics_from_parquet_metadata(footer, self.table.file_schema())?;
        Ok((RowGroup::all(footer), proved, statistics))
    }

    fn declared_orders(&self, file: FileView<'_>) -> Proved {
        let mut proved = Proved {
            orders: Arc::clone(&self.declared),
            ..Default::default()
        };
        for key in self.keys.iter() {
            proved.look_at(key.as_ref(), file);
        }
        proved
    }

    /// The orders of which so many are known in a file whose footer claims `claimed`: those that the table declares, or as
    /// many beginnings of what is claimed, the longest first.
    pub(super) fn orders(&self, claimed: &[PhysicalSortExpr], known: usize) -> Arc<[LexOrdering]> {
        if !self.declared.is_empty() {
            return Arc::clone(&self.declared);
        }
        let lengths = (1..=claimed.len()).rev().take(known);
        lengths
            .filter_map(|len| LexOrdering::new(claimed[..len].to_vec()))
            .collect()
    }

    /// What the footer proves of the order that it claims, and if that is not known, of the beginnings of that order.
    fn claimed_orders(&self, file: FileView<'_>) -> Proved {
        let claimed = claimed_order(file.footer, file.schema, &self.table);
        let mut proved = Proved::default();
        for order in self.orders(&claimed, claimed.len()).iter() {
            proved.look_at(SortKey::try_new(order, &self.table).as_ref(), file);
            if proved
                .facts
                .last()
                .is_some_and(|facts| facts.bounds.is_ok())
            {
                break;
            }
        }
        proved.orders = self.orders(&claimed, proved.facts.len());
        proved.claimed = claimed;
        proved
    }

    /// The values of the partition columns, which the path of a file says.
    ///
    /// # Errors
    /// If one is no value of its column's type, as that of `__HIVE_DEFAULT_PARTITION__` may be, naming file and column.
    pub(super) fn partition_values(
        &self,
        file: &ObjectMeta,
        path: usize,
    ) -> Result<Arc<[ScalarValue]>> {
        if self.partition_columns.is_empty() {
            return Ok(Arc::new([]));
        }
        let names = self.partition_columns.iter().map(|(name, _)| name.as_str());
        let values = self
            .paths
            .get(path)
            .and_then(|path| parse_partitions_for_path(path, &file.location, names));
        values
            .into_iter()
            .flatten()
            .zip(self.partition_columns.iter())
            .map(|(text, (column, data_type))| {
                let value = ScalarValue::try_from_string(text.clone().into_owned(), data_type);
                value.map_err(|e| {
                    e.context(format!(
                        "the path of '{}' has '{text}' for the partition column '{column}', which is of type {data_type}",
                        file.location
                    ))
                })
            })
            .collect()
    }
}

/// What a footer proves of some orders.
#[derive(Default)]
struct Proved {
    claimed: Vec<PhysicalSortExpr>,
    orders: Arc<[LexOrdering]>,
    facts: Vec<KeyFacts>,
    ranges: Vec<(usize, ColumnRange)>,
}

impl Proved {
    fn look_at(&mut self, key: Result<&SortKey, &String>, file: FileView<'_>) {
        self.facts.push(match key {
            Ok(key) => {
                let of_key = key.ranges(file);
                self.ranges.extend(of_key);
                key.facts(file)
            }
            Err(why) => KeyFacts::unknown(why.as_str()),
        });
    }
}
