//! Where keys lie on an axis from 0 to 1.

use std::cmp::Ordering;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion_sorted_listing::{KeyColumn, KeyValue, LayoutReport};

/// An axis in the type of the key.
pub(crate) enum Scale {
    Linear(Linear),
    Ranks(Ranks),
}

/// A label, and where it stands.
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Numbers and times in proportion. NULL has a place of its own at its end.
pub(crate) struct Linear {
    column: KeyColumn,
    first: f64,
    last: f64,
    has_null: bool,
}

/// Keys in order, evenly: for text, and for keys of several columns.
pub(crate) struct Ranks {
    key: Vec<KeyColumn>,
    keys: Vec<KeyValue>,
    at: Vec<f64>,
}

/// How much of the axis is for NULL.
const NULL_ZONE: f64 = 0.04;

impl Scale {
    /// In proportion if that makes each unit of several keys visible, and `by_rank` is not asked for.
    pub(crate) fn new(report: &LayoutReport, by_rank: bool) -> Self {
        match Linear::new(report).filter(|_| !by_rank) {
            Some(linear) => Self::Linear(linear),
            None => Self::Ranks(Ranks::new(report)),
        }
    }

    pub(crate) fn at(&self, key: &KeyValue) -> f64 {
        match self {
            Self::Linear(linear) => linear.at(&key.columns()[0]),
            Self::Ranks(ranks) => ranks.at[ranks.rank(key)],
        }
    }

    /// About `count` labels between two places.
    pub(crate) fn ticks(&self, from: f64, to: f64, count: usize) -> Vec<Tick> {
        match self {
            Self::Linear(linear) => linear.ticks(from, to, count),
            Self::Ranks(ranks) => ranks.ticks(from, to, count),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "in proportion",
            Self::Ranks(_) => "evenly spaced",
        }
    }
}

impl Linear {
    fn new(report: &LayoutReport) -> Option<Self> {
        let column = report.key.first()?.clone();
        let known = || report.units.iter().filter_map(|unit| unit.bounds.as_ref());
        let ends = known().flat_map(|bounds| [&bounds.lower, &bounds.upper]);
        let values: Vec<_> = ends.map(|key| &key.columns()[0]).collect();
        let has_null = values.iter().any(|value| value.is_null());
        let numbers = values.iter().filter(|value| !value.is_null());
        let numbers = numbers
            .map(|value| number(value))
            .collect::<Option<Vec<_>>>()?;
        let lowest = numbers.iter().copied().reduce(f64::min)?;
        let highest = numbers.iter().copied().reduce(f64::max)?;
        if !(lowest.is_finite() && highest > lowest) {
            return None;
        }
        let hidden = known().any(|bounds| {
            bounds.lower != bounds.upper && bounds.lower.columns()[0] == bounds.upper.columns()[0]
        });
        let (first, last) = match column.options.descending {
            true => (highest, lowest),
            false => (lowest, highest),
        };
        (!hidden).then_some(Self {
            column,
            first,
            last,
            has_null,
        })
    }

    /// Where values other than NULL lie.
    fn zone(&self) -> (f64, f64) {
        match (self.has_null, self.column.options.nulls_first) {
            (false, _) => (0.0, 1.0),
            (true, true) => (NULL_ZONE, 1.0),
            (true, false) => (0.0, 1.0 - NULL_ZONE),
        }
    }

    fn at(&self, value: &ScalarValue) -> f64 {
        let (start, end) = self.zone();
        match number(value).filter(|_| !value.is_null()) {
            Some(number) => {
                start + (number - self.first) / (self.last - self.first) * (end - start)
            }
            None if self.column.options.nulls_first => 0.0,
            None => 1.0,
        }
    }

    fn ticks(&self, from: f64, to: f64, count: usize) -> Vec<Tick> {
        let (start, end) = self.zone();
        let number_at =
            |at: f64| self.first + (at - start) / (end - start) * (self.last - self.first);
        let (a, b) = (number_at(from.max(start)), number_at(to.min(end)));
        let step = nice_step((b - a).abs() / count.max(1) as f64, &self.column.data_type);
        let mut ticks = vec![];
        let mut number = (a.min(b) / step).ceil() * step;
        while number <= a.max(b) + step * 1e-6 {
            let at = start + (number - self.first) / (self.last - self.first) * (end - start);
            if let Some(label) = label(number, &self.column.data_type) {
                ticks.push(Tick { at, label });
            }
            number += step;
        }
        shorten(&mut ticks);
        let null_at = if self.column.options.nulls_first {
            0.0
        } else {
            1.0
        };
        if self.has_null && (from..=to).contains(&null_at) {
            ticks.retain(|tick| (tick.at - null_at).abs() > (to - from) / (2 * count) as f64);
            ticks.push(Tick {
                at: null_at,
                label: "NULL".into(),
            });
        }
        ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
        ticks
    }
}

/// The value as a number, if it is of a type that has one.
fn number(value: &ScalarValue) -> Option<f64> {
    let data_type = value.data_type();
    let through = match &data_type {
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => DataType::Int64,
        other if other.is_numeric() => other.clone(),
        _ => return None,
    };
    let value = value
        .cast_to(&through)
        .ok()?
        .cast_to(&DataType::Float64)
        .ok()?;
    match value {
        ScalarValue::Float64(number) => Some(number.unwrap_or(0.0)),
        _ => None,
    }
}

/// The text of the value that is this number.
fn label(number: f64, data_type: &DataType) -> Option<String> {
    if data_type.is_floating() || matches!(data_type, DataType::Decimal128(..)) {
        return Some(format!("{}", (number * 1e9).round() / 1e9));
    }
    let number = ScalarValue::Float64(Some(number.round()));
    let number = number.cast_to(&DataType::Int64).ok()?;
    let value = match data_type {
        DataType::Date32 | DataType::Time32(_) => number.cast_to(&DataType::Int32).ok()?,
        _ => number,
    };
    Some(KeyValue::from(vec![value.cast_to(data_type).ok()?]).to_string())
}

/// A step that is easy to read, not smaller than `least`.
fn nice_step(least: f64, data_type: &DataType) -> f64 {
    const DAY: f64 = 86_400.0;
    const SECONDS: [f64; 19] = [
        1.0,
        5.0,
        15.0,
        60.0,
        300.0,
        900.0,
        3600.0,
        3.0 * 3600.0,
        6.0 * 3600.0,
        12.0 * 3600.0,
        DAY,
        2.0 * DAY,
        7.0 * DAY,
        14.0 * DAY,
        28.0 * DAY,
        91.0 * DAY,
        182.0 * DAY,
        365.0 * DAY,
        3652.0 * DAY,
    ];
    let second = match data_type {
        DataType::Date32 => Some(1.0 / DAY),
        DataType::Date64 => Some(1e3),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            Some(match unit {
                TimeUnit::Second => 1.0,
                TimeUnit::Millisecond => 1e3,
                TimeUnit::Microsecond => 1e6,
                TimeUnit::Nanosecond => 1e9,
            })
        }
        _ => None,
    };
    if let Some(second) = second {
        let whole = |step: &f64| step * second >= least && step * second >= 1.0;
        if least >= second
            && let Some(step) = SECONDS.into_iter().find(whole)
        {
            return step * second;
        }
    }
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = steps.into_iter().find(|step| *step >= least * 0.999);
    let step = step.unwrap_or(least);
    let is_whole = !(data_type.is_floating() || matches!(data_type, DataType::Decimal128(..)));
    if is_whole { step.max(1.0) } else { step }
}

/// Leaves out the time of day where all labels are of midnight, or the seconds where all are of whole minutes.
fn shorten(ticks: &mut [Tick]) {
    for (ending, kept) in [
        ("T00:00:00Z", ""),
        ("T00:00:00", ""),
        (":00Z", "Z"),
        (":00", ""),
    ] {
        let is_time = |tick: &Tick| tick.label.contains('T') && tick.label.ends_with(ending);
        if !ticks.is_empty() && ticks.iter().all(is_time) {
            for tick in ticks {
                let stem = tick.label.strip_suffix(ending).unwrap_or_default();
                tick.label = format!("{stem}{kept}");
            }
            return;
        }
    }
}

impl Ranks {
    fn new(report: &LayoutReport) -> Self {
        let key = report.key.clone();
        let known = || report.units.iter().filter_map(|unit| unit.bounds.as_ref());
        let mut keys: Vec<_> = known()
            .flat_map(|bounds| [bounds.lower.clone(), bounds.upper.clone()])
            .collect();
        keys.sort_by(|a, b| compare(a, b, &key));
        keys.dedup_by(|a, b| compare(a, b, &key).is_eq());
        let mut ranks = Self {
            key,
            at: vec![0.0; keys.len()],
            keys,
        };
        // Where no unit lies, the axis is short.
        let mut covers = vec![0i64; ranks.keys.len() + 1];
        for bounds in known() {
            covers[ranks.rank(&bounds.lower)] += 1;
            covers[ranks.rank(&bounds.upper)] -= 1;
        }
        let (mut at, mut open) = (0.0, 0);
        for (rank, covers) in covers.iter().take(ranks.keys.len()).enumerate() {
            ranks.at[rank] = at;
            open += covers;
            at += if open > 0 { 1.0 } else { 0.12 };
        }
        let last = ranks.at.last().copied().unwrap_or(0.0);
        ranks.at.iter_mut().for_each(|at| *at /= last.max(1e-9));
        ranks
    }

    fn rank(&self, key: &KeyValue) -> usize {
        self.keys
            .partition_point(|other| compare(other, key, &self.key).is_lt())
    }

    fn ticks(&self, from: f64, to: f64, count: usize) -> Vec<Tick> {
        let step = (to - from) / count.max(1) as f64;
        let mut ticks: Vec<Tick> = vec![];
        for (key, &at) in self.keys.iter().zip(&self.at) {
            let is_far = ticks.last().is_none_or(|last| at - last.at >= step * 0.99);
            if (from..=to + 1e-9).contains(&at) && is_far {
                let label = ellipsis(&key.to_string(), 22);
                ticks.push(Tick { at, label });
            }
        }
        ticks
    }
}

/// `text`, cut in the middle if it is longer than `most` characters.
pub(crate) fn ellipsis(text: &str, most: usize) -> String {
    let characters: Vec<_> = text.chars().collect();
    if characters.len() <= most {
        return text.to_owned();
    }
    let tail = most / 3;
    let head: String = characters[..most - tail - 1].iter().collect();
    let tail: String = characters[characters.len() - tail..].iter().collect();
    format!("{head}…{tail}")
}

fn compare(a: &KeyValue, b: &KeyValue, key: &[KeyColumn]) -> Ordering {
    let columns = a.columns().iter().zip(b.columns()).zip(key);
    columns
        .map(|((a, b), column)| {
            let nulls_first = column.options.nulls_first;
            match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) if nulls_first => Ordering::Less,
                (true, false) => Ordering::Greater,
                (false, true) if nulls_first => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    let ordering = a.partial_cmp(b).unwrap_or(Ordering::Equal);
                    match column.options.descending {
                        true => ordering.reverse(),
                        false => ordering,
                    }
                }
            }
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}
