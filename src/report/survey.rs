//! From the plan of a scan to the report of its layout.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning};
use datafusion::physical_plan::ExecutionPlan;

use super::nulls::NullCounter;
use super::{KeyColumn, LayoutReport, OrderingState, UnitReport};
use crate::keys::sort_keys;
use crate::layout::{Bounds, overlaps, slices_of_clusters};
use crate::planner::Planner;
use crate::proof::{KeyFacts, SortKey};
use crate::scan::{SortedScan, Unit, UnorderedScan, groups_in};
use crate::units::Parts;
use crate::why_not::WhyNot;

/// The layout of `plan`, which `planner` has made.
///
/// # Errors
/// If a footer cannot be read, which happens only to a table that is not in order.
pub(crate) async fn survey(
    planner: &Planner<'_>,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<LayoutReport> {
    let Some(exec) = plan.downcast_ref::<DataSourceExec>() else {
        return Ok(LayoutReport::without_units(WhyNot::NoRows));
    };
    let source = exec.data_source();
    if let Some(sorted) = source.downcast_ref::<SortedScan>() {
        return of_sorted(sorted, OrderingState::Declared);
    }
    if let Some(unordered) = source.downcast_ref::<UnorderedScan>() {
        return match unordered.offered()? {
            Some(sorted) => of_sorted(&sorted, OrderingState::OnDemand),
            None => {
                let why = unordered.why().clone();
                of_files(planner, &unordered.file_scan()?, why).await
            }
        };
    }
    match source.downcast_ref::<FileScanConfig>() {
        Some(files) if !planner.config.enabled => of_files(planner, files, WhyNot::Disabled).await,
        Some(files) => of_files(planner, files, WhyNot::NoOrder).await,
        None => Ok(LayoutReport::without_units(WhyNot::NoRows)),
    }
}

/// A unit, and where a scan has it.
struct Placed {
    slice: Option<usize>,
    run: usize,
    unit: Unit,
}

fn of_sorted(scan: &SortedScan, ordering: OrderingState) -> Result<LayoutReport> {
    let placed = scan.placed_units().map(|(slice, run, unit)| Placed {
        slice: Some(slice),
        run,
        unit,
    });
    let report = report(scan.file_scan(), scan.orderings().first(), placed.collect())?;
    let range_declared = matches!(scan.output_partitioning(), Partitioning::Range(_));
    Ok(LayoutReport {
        ordering,
        strategy: scan.grouping().name(),
        range_declared,
        on_demand: scan.finer_order(),
        why_no_ranges: scan.why_no_ranges().filter(|_| !range_declared),
        // The bounds of clipped units touch.
        strict_cuts: range_declared || report.strict_cuts,
        why_not: scan.grouping().why_not().map(|why| why.as_ref().clone()),
        ..report
    })
}

/// The report of files that are in no order, for the reason `why`.
async fn of_files(
    planner: &Planner<'_>,
    scan: &FileScanConfig,
    why: WhyNot,
) -> Result<LayoutReport> {
    let declared = planner
        .table
        .try_create_output_ordering(planner.session.execution_props(), &[])?;
    let known = planner.files_of(scan, &declared, false).await?;
    let files = known.files();
    if files.is_empty() {
        return Ok(LayoutReport::without_units(WhyNot::NoRows));
    }
    let key = sort_keys(&known, declared).ok();
    let key = key.and_then(|keys| keys.into_iter().next());
    let (ordering, facts) = match key {
        Some(key) => (Some(key.ordering), key.facts),
        None => {
            let unknown = || KeyFacts::unknown("there is no sort key");
            (None, files.iter().map(|_| unknown()).collect())
        }
    };
    let parts = Parts::row_groups(files, &facts);
    let mut run_of = vec![0; parts.units.len()];
    for slice in slices_of_clusters(&parts.units, 1) {
        for (run, units) in slice.runs.iter().enumerate() {
            units.iter().for_each(|&unit| run_of[unit] = run);
        }
    }
    let units = parts.scan_units(files, &facts, scan)?;
    let placed = units.into_iter().zip(run_of).map(|(unit, run)| Placed {
        slice: None,
        run,
        unit,
    });
    let report = report(scan, ordering.as_ref(), placed.collect())?;
    Ok(LayoutReport {
        why_not: Some(why),
        ..report
    })
}

/// What can be told of units by themselves.
fn report(
    scan: &FileScanConfig,
    ordering: Option<&LexOrdering>,
    mut placed: Vec<Placed>,
) -> Result<LayoutReport> {
    fn bounds(placed: &Placed) -> Option<&Bounds> {
        placed.unit.facts.bounds.as_ref()
    }
    placed.sort_by(|a, b| {
        let ends = |placed| bounds(placed).map(|bounds| (bounds.lower(), bounds.upper()));
        ends(a).cmp(&ends(b))
    });
    let overlaps = overlaps(&placed.iter().map(bounds).collect::<Vec<_>>());
    let of_slices = bounds_of_slices(&placed);
    let table = scan.file_source().table_schema();
    let key = ordering.and_then(|ordering| SortKey::try_new(ordering, table).ok());
    let nulls = NullCounter::new(ordering, scan);

    let mut units = Vec::with_capacity(placed.len());
    for (place, placed) in placed.iter().enumerate() {
        let row_groups = row_groups_of(&placed.unit);
        let bounds = match (&key, bounds(placed)) {
            (Some(key), Some(bounds)) => {
                let values = key.values_of(bounds);
                Some(values.map_err(DataFusionError::Internal)?)
            }
            _ => None,
        };
        units.push(UnitReport {
            slice: placed.slice,
            run: placed.run,
            cluster: overlaps.cluster_of[place],
            file: placed.unit.file.path().to_string(),
            rows: rows_of(&placed.unit, row_groups.as_ref()),
            bytes: bytes_of(&placed.unit, row_groups.as_ref()),
            null_count: nulls.count(&placed.unit, row_groups.as_ref()),
            row_groups,
            bounds,
            strict_gap: overlaps.strict_gap[place],
        });
    }
    Ok(LayoutReport {
        key: key_columns(ordering, scan),
        ordering: OrderingState::None,
        strategy: "unordered",
        range_declared: false,
        strict_cuts: are_apart(&of_slices),
        units,
        slices: of_slices.len(),
        clusters: overlaps.clusters,
        depth: overlaps.depth,
        on_demand: None,
        why_no_ranges: None,
        why_not: None,
    })
}

impl LayoutReport {
    fn without_units(why: WhyNot) -> Self {
        Self {
            key: vec![],
            ordering: OrderingState::None,
            strategy: "unordered",
            range_declared: false,
            strict_cuts: false,
            units: vec![],
            slices: 0,
            clusters: 0,
            depth: 0,
            on_demand: None,
            why_no_ranges: None,
            why_not: Some(why),
        }
    }
}

fn key_columns(ordering: Option<&LexOrdering>, scan: &FileScanConfig) -> Vec<KeyColumn> {
    let schema = scan.file_source().table_schema().table_schema();
    let column = |sort: &datafusion::physical_expr::PhysicalSortExpr| KeyColumn {
        name: match sort.expr.downcast_ref::<Column>() {
            Some(column) => column.name().to_owned(),
            None => sort.expr.to_string(),
        },
        data_type: sort.expr.data_type(schema).unwrap_or(DataType::Null),
        options: sort.options,
    };
    ordering.map_or_else(Vec::new, |ordering| ordering.iter().map(column).collect())
}

/// The bounds of each slice that has units, in the order of the slices.
fn bounds_of_slices(placed: &[Placed]) -> Vec<Option<Bounds>> {
    let mut slices: std::collections::BTreeMap<usize, Option<Bounds>> = Default::default();
    for placed in placed {
        let Some(slice) = placed.slice else { continue };
        let bounds = placed.unit.facts.bounds.clone();
        slices
            .entry(slice)
            .and_modify(|all| *all = all.take().zip(bounds.clone()).map(|(a, b)| a.union(b)))
            .or_insert(bounds);
    }
    slices.into_values().collect()
}

/// Whether there are slices, and each ends strictly before the next.
fn are_apart(slices: &[Option<Bounds>]) -> bool {
    let apart = |pair: &[Option<Bounds>]| match pair {
        [Some(a), Some(b)] => a.upper() < b.lower(),
        _ => false,
    };
    !slices.is_empty() && slices.windows(2).all(apart)
}

fn row_groups_of(unit: &Unit) -> Option<Range<usize>> {
    let footer = unit.facts.footer.as_ref()?;
    Some(groups_in(footer.row_groups(), unit.file.range.as_ref()))
}

fn rows_of(unit: &Unit, groups: Option<&Range<usize>>) -> Option<u64> {
    if unit.facts.clip.is_some() {
        return None;
    }
    let groups = unit
        .facts
        .footer
        .as_ref()?
        .row_groups()
        .get(groups?.clone())?;
    Some(groups.iter().map(|group| group.rows).sum())
}

fn bytes_of(unit: &Unit, groups: Option<&Range<usize>>) -> u64 {
    let whole = unit.file.effective_size();
    if unit.file.range.is_none() {
        return whole;
    }
    let groups = unit.facts.footer.as_ref().zip(groups);
    let groups = groups.and_then(|(footer, groups)| footer.row_groups().get(groups.clone()));
    groups.map_or(whole, |groups| {
        groups.iter().map(|group| group.compressed).sum()
    })
}
