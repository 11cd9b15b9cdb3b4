//! What there is to draw, whatever it is drawn on.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_sorted_listing::{LayoutReport, UnitReport};

use crate::scale::Scale;

/// The layout of a table as bars over an axis from 0 to 1.
pub(crate) struct Picture<'a> {
    pub(crate) report: &'a LayoutReport,
    pub(crate) scale: Scale,
    /// In the order of the axis.
    pub(crate) bars: Vec<Bar>,
    /// The name of each lane. The runs in one lane do not overlap.
    pub(crate) lanes: Vec<String>,
    /// Where several units lie over one key.
    pub(crate) overlaps: Vec<Overlap>,
    /// In the order of the slices.
    pub(crate) slices: Vec<SliceTotal>,
}

/// A unit.
pub(crate) struct Bar {
    pub(crate) unit: usize,
    pub(crate) lane: usize,
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Whether it stands at an odd place in its lane, so that neighbours can be told apart.
    pub(crate) is_odd: bool,
}

/// A stretch of the axis that several units lie over.
pub(crate) struct Overlap {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) depth: usize,
}

#[derive(Default)]
pub(crate) struct SliceTotal {
    pub(crate) slice: usize,
    pub(crate) units: usize,
    pub(crate) rows: Option<u64>,
    pub(crate) bytes: u64,
}

impl<'a> Picture<'a> {
    pub(crate) fn new(report: &'a LayoutReport, by_rank: bool) -> Self {
        let scale = Scale::new(report, by_rank);
        let mut bars: Vec<_> = report
            .units
            .iter()
            .enumerate()
            .map(|(index, unit)| bar(index, unit, &scale))
            .collect();
        bars.sort_by(|a, b| a.from.total_cmp(&b.from).then(a.to.total_cmp(&b.to)));
        let lanes = put_into_lanes(&mut bars, report);
        Self {
            overlaps: overlaps(&bars),
            slices: slice_totals(report),
            bars,
            lanes,
            scale,
            report,
        }
    }

    /// Whether some lane has units of several slices.
    pub(crate) fn slices_share_lanes(&self) -> bool {
        self.slices.len() > 1 && self.lanes.iter().all(|name| name.starts_with("run"))
    }

    pub(crate) fn unit(&self, bar: &Bar) -> &UnitReport {
        &self.report.units[bar.unit]
    }

    /// The findings, a line each.
    pub(crate) fn facts(&self) -> Vec<String> {
        let report = self.report;
        let key = report.order().unwrap_or_else(|| "no sort key".into());
        let rows = report
            .rows()
            .map_or(String::new(), |rows| format!("{} rows, ", thousands(rows)));
        let mut facts = vec![
            format!("{key}: order {}", report.ordering.as_str()),
            format!(
                "{rows}{} in {}, {}, depth {}",
                bytes(report.bytes()),
                count(report.units.len(), "unit"),
                count(report.clusters, "cluster"),
                report.depth
            ),
        ];
        let mut slices = format!("strategy {}", report.strategy);
        if let Some(skew) = report.skew() {
            let gaps = if report.strict_cuts {
                "no key in two slices"
            } else {
                "slices may share keys"
            };
            slices += &format!(
                ", {}, skew {skew:.2}, {gaps}",
                count(report.slices, "slice")
            );
        }
        facts.push(slices);
        if let Some(why) = &report.why_not {
            facts.push(format!("why not better: {why:#}"));
        }
        facts
    }
}

fn bar(index: usize, unit: &UnitReport, scale: &Scale) -> Bar {
    let (from, to) = match &unit.bounds {
        Some(bounds) => (scale.at(&bounds.lower), scale.at(&bounds.upper)),
        None => (0.0, 1.0),
    };
    Bar {
        unit: index,
        lane: 0,
        from,
        to,
        is_odd: false,
    }
}

/// Gives each run a lane, and slices that lie one after another the same lanes; gives the names of the lanes.
fn put_into_lanes(bars: &mut [Bar], report: &LayoutReport) -> Vec<String> {
    let in_order = are_in_order(bars, report);
    let run_of = |bar: &Bar| {
        let unit = &report.units[bar.unit];
        (unit.slice.filter(|_| !in_order), unit.run)
    };
    let runs: BTreeSet<_> = bars.iter().map(run_of).collect();
    let lane_of: BTreeMap<_, _> = runs.iter().copied().zip(0..).collect();
    let mut units_in = vec![0; runs.len()];
    for bar in bars {
        bar.lane = lane_of[&run_of(bar)];
        bar.is_odd = units_in[bar.lane] % 2 == 1;
        units_in[bar.lane] += 1;
    }
    let name = |(slice, run): (Option<usize>, usize)| match slice {
        None => format!("run {run}"),
        Some(slice) if run == 0 => format!("slice {slice}"),
        Some(slice) => format!("slice {slice} run {run}"),
    };
    runs.into_iter().map(name).collect()
}

/// Whether each slice ends before the next begins, on the axis. `bars` are in order of their beginnings.
fn are_in_order(bars: &[Bar], report: &LayoutReport) -> bool {
    let mut current = None;
    let mut reach: f64 = 0.0;
    bars.iter().all(|bar| {
        let slice = report.units[bar.unit].slice;
        let is_next = slice == current || (slice > current && bar.from >= reach);
        current = slice;
        reach = reach.max(bar.to);
        is_next
    })
}

/// Where more than one bar lies. Those that only touch do not overlap.
fn overlaps(bars: &[Bar]) -> Vec<Overlap> {
    let mut edges: Vec<(f64, i64)> = bars
        .iter()
        .filter(|bar| bar.to > bar.from)
        .flat_map(|bar| [(bar.from, 1), (bar.to, -1)])
        .collect();
    // Ends before beginnings.
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut overlaps: Vec<Overlap> = vec![];
    let mut depth = 0;
    for pair in edges.windows(2) {
        depth += pair[0].1;
        let (from, to) = (pair[0].0, pair[1].0);
        if depth < 2 || to <= from {
            continue;
        }
        let depth = depth as usize;
        match overlaps.last_mut() {
            Some(last) if last.to == from && last.depth == depth => last.to = to,
            _ => overlaps.push(Overlap { from, to, depth }),
        }
    }
    overlaps
}

fn slice_totals(report: &LayoutReport) -> Vec<SliceTotal> {
    let mut totals: BTreeMap<usize, SliceTotal> = BTreeMap::new();
    for unit in &report.units {
        let Some(slice) = unit.slice else { continue };
        let total = totals.entry(slice).or_insert_with(|| SliceTotal {
            slice,
            rows: Some(0),
            ..SliceTotal::default()
        });
        total.units += 1;
        total.bytes += unit.bytes;
        total.rows = total.rows.zip(unit.rows).map(|(a, b)| a + b);
    }
    totals.into_values().collect()
}

/// `1 unit`, `1,234 units`.
pub(crate) fn count(number: usize, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", thousands(number as u64))
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `2.1 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            let digits = usize::from(unit != "B" && size < 100.0);
            return format!("{size:.digits$} {unit}");
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}
