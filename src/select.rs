//! The files that a scan has to look at.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, utils::conjunction};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use crate::prune::may_match;
use crate::snapshot::Snapshot;

/// How many partitions are held against a filter at a time.
const PARTITIONS: usize = 8192;

/// Some files of a snapshot.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Their indices, ascending.
    files: Vec<usize>,
    /// Whether they are all.
    is_whole: bool,
    /// Whether there are more that a limit makes needless.
    is_limited: bool,
}

impl Selection {
    /// The files whose rows may pass all `filters`, or as many of them as have more than `limit` rows.
    ///
    /// As [`ListingTable`] does it, filters on partition columns are exact, and a limit counts files only if there are no
    /// other filters.
    pub(crate) fn new(
        session: &dyn Session,
        table: &ListingTable,
        snapshot: &Snapshot,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Self> {
        let (of_partitions, others) = split(table, filters);
        let mut files: Vec<_> = match conjunction(of_partitions) {
            None => (0..snapshot.files().len()).collect(),
            Some(filter) => matching(session, table, snapshot, &filter)?,
        };
        let mut is_limited = false;
        if !others.is_empty() {
            if let Some(may_match) = may_match(session, snapshot, filters) {
                files.retain(|&file| may_match[file]);
            }
        } else if let Some(limit) = limit
            && session.config().collect_statistics()
        {
            let enough = enough_for(limit, &files, snapshot);
            is_limited = enough < files.len();
            files.truncate(enough);
        }
        Ok(Self {
            is_whole: files.len() == snapshot.files().len(),
            files,
            is_limited,
        })
    }

    pub(crate) fn files(&self) -> &[usize] {
        &self.files
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }
}

/// The filters that are on partition columns only, and the others.
pub(crate) fn split(table: &ListingTable, filters: &[Expr]) -> (Vec<Expr>, Vec<Expr>) {
    let columns = table.options().table_partition_cols.iter();
    let names: Vec<_> = columns.map(|(name, _)| name.as_str()).collect();
    filters
        .iter()
        .cloned()
        .partition(|filter| !names.is_empty() && expr_applicable_for_cols(&names, filter))
}

/// How many of `files` it takes to have more than `limit` rows, all of them if that is not known.
fn enough_for(limit: usize, files: &[usize], snapshot: &Snapshot) -> usize {
    let mut rows = Precision::Exact(0);
    for (count, &file) in files.iter().enumerate() {
        rows = rows.add(&snapshot.rows(file));
        if matches!(rows, Precision::Exact(rows) if rows > limit) {
            return count + 1;
        }
    }
    files.len()
}

/// The files whose partition columns pass `filter`.
fn matching(
    session: &dyn Session,
    table: &ListingTable,
    snapshot: &Snapshot,
    filter: &Expr,
) -> Result<Vec<usize>> {
    let columns = table.options().table_partition_cols.iter();
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let filter = create_physical_expr(
        filter,
        &DFSchema::try_from(Arc::clone(&schema))?,
        session.execution_props(),
        &PhysicalPlanningContext::default(),
    )?;
    // Files of a partition mostly follow one another.
    let files: Vec<_> = (0..snapshot.files().len()).collect();
    let values = |file: usize| &snapshot.files()[file].partition_values;
    let partitions: Vec<_> = files.chunk_by(|&a, &b| values(a) == values(b)).collect();
    let mut matching = vec![];
    for partitions in partitions.chunks(PARTITIONS) {
        let of_each: Vec<_> = partitions.iter().map(|files| &**values(files[0])).collect();
        let matches = matches(&filter, &schema, &of_each)?;
        for (partition, files) in partitions.iter().enumerate() {
            if matches.is_valid(partition) && matches.value(partition) {
                matching.extend_from_slice(files);
            }
        }
    }
    Ok(matching)
}

/// Whether each of `partitions`, by the values of its columns, passes `filter`.
fn matches(
    filter: &Arc<dyn PhysicalExpr>,
    schema: &Arc<Schema>,
    partitions: &[&[ScalarValue]],
) -> Result<BooleanArray> {
    let array = |column: usize| {
        let values = partitions.iter().filter_map(|values| values.get(column));
        ScalarValue::iter_to_array(values.cloned())
    };
    let arrays = (0..schema.fields().len()).map(array);
    let batch = RecordBatch::try_new(Arc::clone(schema), arrays.collect::<Result<_>>()?)?;
    let matches = filter.evaluate(&batch)?.into_array(partitions.len())?;
    Ok(matches.as_boolean().clone())
}
