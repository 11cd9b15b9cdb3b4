//! From the plan of a `ListingTable` to that of a sorted table.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, SplitPoint, Statistics};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;

use crate::arrange::{Arranged, Arrangement};
use crate::config::SortedListingConfig;
use crate::keys::{any_file_has_order, sort_keys};
use crate::scan::UnorderedScan;
use crate::snapshot::Snapshot;
use crate::statistics::without_doubtful;
use crate::why_not::WhyNot;

/// Plans the scans of one table in one session.
pub(crate) struct Planner<'a> {
    pub(crate) session: &'a dyn Session,
    pub(crate) table: &'a ListingTable,
    pub(crate) config: &'a SortedListingConfig,
    /// Where slices are to be cut, if the user has a say.
    pub(crate) split_points: Option<&'a [SplitPoint]>,
}

/// The plan of a scan.
pub(crate) struct Planned {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Why the scan is unordered although an order is declared, if it is so.
    pub(crate) why_unordered: Option<Arc<WhyNot>>,
}

impl Planner<'_> {
    /// Puts a [`SortedScan`] in place of the file scan in `stock`, the table's own plan, if the declared order is
    /// proved, and an [`UnorderedScan`] if not.
    pub(crate) async fn plan(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Planned> {
        let as_it_is = Planned {
            plan: Arc::clone(&stock),
            why_unordered: None,
        };
        let Some(scan) = file_scan(&stock) else {
            return Ok(as_it_is);
        };
        let declared = self
            .table
            .try_create_output_ordering(self.session.execution_props(), &[])?;
        if declared.is_empty() && !any_file_has_order(scan) {
            return Ok(as_it_is);
        }
        let scan = without_doubtful(scan);
        let scan = scan.as_ref();
        let format = self.table.options().format.as_ref();
        let snapshot = Snapshot::read(self.session, format, scan).await?;
        if snapshot.files().is_empty() {
            return Ok(as_it_is);
        }
        let planned = match sort_keys(&snapshot, declared) {
            Ok(keys) => Arrangement {
                planner: self,
                scan,
                files: snapshot.files(),
                snapshot: &snapshot,
            }
            .arrange(keys)?,
            Err(why) => Arranged::Unordered(why, None),
        };
        Ok(match planned {
            Arranged::Ordered(sorted) => Planned {
                plan: DataSourceExec::from_data_source(sorted),
                why_unordered: None,
            },
            Arranged::Unordered(why, offer) => {
                let why = Arc::new(why);
                let mut unordered = UnorderedScan::new(self.without_order(scan)?, Arc::clone(&why));
                if let Some(offer) = offer {
                    unordered = unordered.with_offer(Arc::new(offer));
                }
                Planned {
                    plan: DataSourceExec::from_data_source(unordered),
                    why_unordered: Some(why),
                }
            }
        })
    }

    /// The partitioning that the table's plan has, if it is true.
    ///
    /// What the user declares is. With `preserve_file_partitions`, DataFusion groups files by the values of their
    /// partition columns; but with `split_file_groups_by_statistics` it then mixes the groups, and 55.2 declares the
    /// partitioning all the same.
    pub(crate) fn partitioning<'s>(&self, scan: &'s FileScanConfig) -> Option<&'s Partitioning> {
        let partitioning = scan.output_partitioning.as_ref()?;
        let mixed = self.table.options().output_partitioning.is_none()
            && self
                .session
                .config_options()
                .execution
                .split_file_groups_by_statistics;
        (!mixed).then_some(partitioning)
    }

    /// `scan` as the table would plan it for the same files if it declared no order.
    fn without_order(&self, scan: &FileScanConfig) -> Result<FileScanConfig> {
        let mut groups = scan.file_groups.clone();
        let options = &self.session.config_options().execution;
        let partitioning = self.partitioning(scan).cloned();
        if options.split_file_groups_by_statistics && partitioning.is_none() {
            // They may have been put into order, and out of balance.
            let files = groups.into_iter().flat_map(FileGroup::into_inner).collect();
            groups = FileGroup::new(files)
                .split_files(self.session.config().target_partitions())
                .into_iter()
                .map(|group| self.with_statistics(group))
                .collect::<Result<_>>()?;
        }
        Ok(FileScanConfigBuilder::from(scan.clone())
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_output_partitioning(partitioning)
            .with_preserve_order(false)
            .build())
    }

    fn with_statistics(&self, group: FileGroup) -> Result<FileGroup> {
        let statistics: Option<Vec<_>> = group
            .iter()
            .map(|file| file.statistics.as_deref())
            .collect();
        Ok(match statistics {
            None => group,
            Some(files) => {
                let schema = datafusion::catalog::TableProvider::schema(self.table);
                let statistics = Statistics::try_merge_iter(files, &schema)?;
                group.with_statistics(Arc::new(statistics))
            }
        })
    }
}

/// The file scan that is all of a plan.
fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?
        .data_source()
        .downcast_ref::<FileScanConfig>()
}
