//! The scan of a sorted table: slices of units, each read in key order.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSource;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use parquet::file::metadata::ParquetMetaData;

use super::grouping::Grouping;

/// A unit of a scan.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// The file, or the part of it that is read.
    pub(crate) file: PartitionedFile,
    /// The footer of the file, if it is Parquet.
    pub(crate) footer: Footer,
}

type Footer = Option<Arc<ParquetMetaData>>;

/// A [`DataSource`] whose output partitions are *slices*: sequences of units that are each read in key order.
///
/// It declares the orderings that are proved, and keeps them whatever the optimizer asks for: units are never
/// stolen by other partitions, split or skipped. File formats, predicate pruning, projection and filter pushdown,
/// metrics and schema adaptation are those of the [`FileScanConfig`] inside, in which every unit is a file group
/// of its own.
///
/// ```text
/// DataSourceExec: SortedScan: slices=2, units=4, order=[ts ASC NULLS LAST], strategy=contiguous, file_groups=…
///
///   slice 0            slice 1
///   ┌──────┬──────┐    ┌──────┬──────┐
///   │ 0..9 │10..19│    │20..29│30..39│    ts
///   └──────┴──────┘    └──────┴──────┘
/// ```
#[derive(Debug, Clone)]
pub struct SortedScan {
    /// Every unit a file group of its own, and the proved orderings declared.
    pub(super) file_scan: Arc<FileScanConfig>,
    /// The footer of each unit.
    pub(super) footers: Arc<[Footer]>,
    /// The units of each slice, as indices of file groups.
    pub(super) slices: Arc<[Vec<usize>]>,
    pub(super) grouping: Grouping,
    /// The indices of table columns of which it is proved that no row is NULL.
    pub(super) null_free: Arc<[usize]>,
    pub(super) read_ahead_bytes: usize,
    /// Whether some filter of the file scan only prunes, and lets rows through that do not match.
    pub(super) filters_only_prune: bool,
}

/// `scan` with each of `units` a file group of its own, and with `orderings` declared.
///
/// One file a group is what makes the orderings hold in the eyes of [`FileScanConfig`], which would check them by
/// file statistics that know nothing of NULL and NaN.
fn one_group_per_unit(
    scan: &FileScanConfig,
    units: Vec<Unit>,
    orderings: Vec<LexOrdering>,
) -> (FileScanConfig, Vec<Footer>) {
    let (groups, footers) = units
        .into_iter()
        .map(|unit| (file_group(vec![unit.file]), unit.footer))
        .unzip();
    let scan = FileScanConfigBuilder::from(scan.clone())
        .with_file_groups(groups)
        .with_output_ordering(orderings)
        .with_output_partitioning(None)
        .with_preserve_order(true)
        .build();
    (scan, footers)
}

/// A file group with the statistics of its files, if they have any.
pub(super) fn file_group(files: Vec<PartitionedFile>) -> FileGroup {
    let statistics = match files.as_slice() {
        [file] => file.statistics.clone(),
        _ => None,
    };
    let group = FileGroup::new(files);
    match statistics {
        Some(statistics) => group.with_statistics(statistics),
        None => group,
    }
}

impl SortedScan {
    /// A scan of `slices` of `units`, which reads files as `scan` does.
    ///
    /// In each slice, every one of `orderings` must hold within and across its units, and the table columns
    /// `null_free` must have no NULL in any unit. In slices by [`Strategy::Contiguous`](crate::Strategy::Contiguous), the orderings must hold
    /// across slices too.
    pub(crate) fn new(
        scan: &FileScanConfig,
        units: Vec<Unit>,
        slices: Vec<Vec<usize>>,
        orderings: Vec<LexOrdering>,
        null_free: Vec<usize>,
        grouping: Grouping,
    ) -> Self {
        let (file_scan, footers) = one_group_per_unit(scan, units, orderings);
        Self {
            file_scan: Arc::new(file_scan),
            footers: footers.into(),
            slices: slices.into(),
            grouping,
            null_free: null_free.into(),
            filters_only_prune: false,
            read_ahead_bytes: 0,
        }
    }

    /// This scan, with what a sequence of its slices may buffer.
    pub(crate) fn with_read_ahead_bytes(mut self, bytes: usize) -> Self {
        self.read_ahead_bytes = bytes;
        self
    }

    pub(crate) fn read_ahead_bytes(&self) -> usize {
        self.read_ahead_bytes
    }

    /// The same scan of other units in other slices.
    pub(super) fn with_slices(&self, units: Vec<Unit>, slices: Vec<Vec<usize>>) -> Self {
        let orderings = self.orderings().to_vec();
        let (file_scan, footers) = one_group_per_unit(&self.file_scan, units, orderings);
        Self {
            footers: footers.into(),
            slices: slices.into(),
            ..self.with_file_scan(file_scan)
        }
    }

    /// Whether slice after slice is in each of the declared orderings, as a whole.
    pub(crate) fn is_one_run(&self) -> bool {
        self.grouping.is_one_run()
    }

    /// The number of slices, which are the output partitions.
    pub fn slice_count(&self) -> usize {
        self.slices.len()
    }

    /// The files of each slice, in the order they are read.
    pub fn slices(&self) -> impl Iterator<Item = impl Iterator<Item = &PartitionedFile>> {
        let files = |unit: &usize| self.file_scan.file_groups[*unit].iter();
        self.slices
            .iter()
            .map(move |slice| slice.iter().flat_map(files))
    }

    /// The orderings that are declared, in terms of the table's columns.
    pub fn orderings(&self) -> &[LexOrdering] {
        &self.file_scan.output_ordering
    }

    pub(super) fn builder(&self) -> FileScanConfigBuilder {
        FileScanConfigBuilder::from(self.file_scan.as_ref().clone())
    }

    pub(super) fn with_file_scan(&self, file_scan: FileScanConfig) -> Self {
        Self {
            file_scan: Arc::new(file_scan),
            ..self.clone()
        }
    }

    /// The same slices as a scan of DataFusion's, one file group each, with no ordering declared.
    pub(super) fn as_unordered_file_scan(&self) -> FileScanConfig {
        let groups = self
            .slices()
            .map(|files| file_group(files.cloned().collect()))
            .collect();
        let partitioning = match &self.grouping {
            Grouping::Declared(partitioning) => Some(partitioning.clone()),
            Grouping::Strategy { .. } | Grouping::FilePerSlice(_) => None,
        };
        self.builder()
            .with_file_groups(groups)
            .with_output_ordering(vec![])
            .with_output_partitioning(partitioning)
            .with_preserve_order(false)
            .build()
    }

    /// What is known of the order and the equality of columns without regard to filters.
    pub(super) fn unfiltered_properties(&self) -> Result<EquivalenceProperties> {
        let schema = self.file_scan.file_source().table_schema().table_schema();
        let properties = EquivalenceProperties::new_with_orderings(
            Arc::clone(schema),
            self.orderings().iter().cloned(),
        )
        .with_constraints(self.file_scan.constraints.clone());
        let Some(projection) = self.file_scan.file_source().projection() else {
            return Ok(properties);
        };
        let mapping = projection.projection_mapping(schema)?;
        Ok(properties.project(&mapping, self.file_scan.projected_schema()?))
    }

    /// The statistics of the units of a slice, if there were no limit.
    pub(super) fn slice_statistics(&self, slice: usize) -> Result<Statistics> {
        let Some(units) = self.slices.get(slice) else {
            return internal_err!("slice {slice} of {}", self.slices.len());
        };
        let units = units
            .iter()
            .map(|&unit| self.file_scan.partition_statistics(Some(unit)))
            .collect::<Result<Vec<_>>>()?;
        let schema = self.file_scan.projected_schema()?;
        let statistics = Statistics::try_merge_iter(units.iter().map(Arc::as_ref), &schema)?;
        // A file scan says this of all its partitions, but not of each.
        let filtered = self.file_scan.file_source().filter().is_some();
        Ok(if filtered {
            statistics.to_inexact()
        } else {
            statistics
        })
    }

    /// This scan, declaring its orderings with NULL where `order` asks for it.
    ///
    /// A column without NULL is sorted both NULLS FIRST and NULLS LAST, but DataFusion keeps one ordering for each
    /// expression: so one is declared, and the other when it is asked for.
    pub(super) fn with_null_placement_of(&self, order: &[PhysicalSortExpr]) -> Result<Self> {
        let mut nulls_first = vec![
            None;
            self.file_scan
                .file_source()
                .table_schema()
                .table_schema()
                .fields()
                .len()
        ];
        for sort in order {
            let expr = match self.file_scan.file_source().projection() {
                Some(projection) => projection.unproject_expr(&sort.expr)?,
                None => Arc::clone(&sort.expr),
            };
            if let Some(column) = expr.downcast_ref::<Column>()
                && self.null_free.contains(&column.index())
            {
                nulls_first[column.index()] = Some(sort.options.nulls_first);
            }
        }
        let placed = |sort: &PhysicalSortExpr| {
            let column = sort.expr.downcast_ref::<Column>();
            let nulls_first = column.and_then(|column| nulls_first[column.index()]);
            PhysicalSortExpr {
                expr: Arc::clone(&sort.expr),
                options: SortOptions {
                    nulls_first: nulls_first.unwrap_or(sort.options.nulls_first),
                    ..sort.options
                },
            }
        };
        let orderings = self
            .orderings()
            .iter()
            .filter_map(|ordering| LexOrdering::new(ordering.iter().map(placed)))
            .collect();
        let placed = self.builder().with_output_ordering(orderings).build();
        Ok(self.with_file_scan(placed))
    }
}
