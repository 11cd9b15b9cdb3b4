//! The options under `sorted_listing`.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, config_err};

use crate::layout::Strategy;

/// The options of sorted tables, in a session (`SET sorted_listing.strategy = 'best_fit'`) or for one table
/// (`OPTIONS ('sorted_listing.strategy' 'best_fit')`, [`SortedListingTable::with_config`]).
///
/// A session without them uses the defaults.
///
/// ```
/// use datafusion::prelude::SessionConfig;
/// use datafusion_sorted_listing::{SortedListingConfig, Strategy};
///
/// let mut sorted = SortedListingConfig::default();
/// sorted.strategy = Strategy::BestFit;
/// let config = SessionConfig::new().with_option_extension(sorted);
/// ```
///
/// [`SortedListingTable::with_config`]: crate::SortedListingTable::with_config
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SortedListingConfig {
    /// `enabled`, default true. If false, a table gives the plan of DataFusion's `ListingTable`, exactly.
    pub enabled: bool,
    /// `strategy`, default `contiguous`: how files are put into slices.
    pub strategy: Strategy,
    /// `read_ahead_bytes`, default 64 MiB: how many bytes of decoded batches a [`SequenceExec`] may buffer, but for what it
    /// decodes at once where many files overlap.
    ///
    /// [`SequenceExec`]: crate::SequenceExec
    pub read_ahead_bytes: usize,
    /// `max_merge_fan_in`, default 64: how many overlapping runs a query may merge that asks for the order. Where more
    /// overlap, DataFusion sorts.
    pub max_merge_fan_in: usize,
    /// `range_partitioning`, default `auto`: whether slices own ranges of the key, and scans declare it.
    pub range_partitioning: RangeOption,
    /// `split_points_from`, default none: the name of another sorted table, at whose split points this one is cut, so
    /// that the two can be joined slice by slice.
    pub split_points_from: Option<String>,
    /// `merge_joins`, default true: whether [`MergeJoins`](crate::MergeJoins) joins co-partitioned sorted tables as they
    /// stream. Of the session only.
    pub merge_joins: bool,
    /// `snapshot_ttl`, default `none`: for how long a listing of the files is believed, like `10s`. Without it, files are
    /// listed for each query, as `ListingTable` does. With it, new, rewritten and deleted files may not be seen for so
    /// long, unless they are inserted through the table or [`SortedListingTable::refresh`] is called.
    ///
    /// [`SortedListingTable::refresh`]: crate::SortedListingTable::refresh
    pub snapshot_ttl: Option<Duration>,
    /// `manifest`, default none: a path or URL where what is known of the files is kept, so that the next session reads the
    /// footers only of files that are new or have changed. Of a table only, never of the session: each table has its own.
    ///
    /// It is a cache: it may be deleted, and where anything is wrong with it, it is ignored with a warning in the log, and
    /// written anew. A file there that does not begin as a manifest stays as it is, with a warning. It holds the minima and maxima of
    /// columns, and queries believe what it says of a file, so keep it as safe as the files are.
    pub manifest: Option<String>,
    /// `verify`, default `boundaries`: how much of the declared order is checked while rows are read.
    pub verify: Verify,
}

/// How much of the declared order is checked while rows are read (`sorted_listing.verify`). A row out of order ends the
/// query with the error [`FalseOrder`](crate::FalseOrder).
///
/// Unless it is `off`, Parquet files are also checked to be the versions that were listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Verify {
    /// Nothing: what is declared is believed.
    Off,
    /// The first and the last row of each batch: with one another, with the batch before, and with the bounds that
    /// footers prove. By the columns of the order that the query reads, up to the first that it does not read.
    #[default]
    Boundaries,
    /// Each row with the one before it, by all columns of the order: those that the query does not read are read for it.
    Rows,
}

impl Verify {
    /// The value of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Boundaries => "boundaries",
            Self::Rows => "rows",
        }
    }
}

/// Whether slices own ranges of the key (`sorted_listing.range_partitioning`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RangeOption {
    /// Where the key can be cut into slices of about the same size, so that no value is in two of them.
    #[default]
    Auto,
    /// Never.
    Off,
}

impl RangeOption {
    /// The value of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

impl Default for SortedListingConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            strategy: Strategy::default(),
            read_ahead_bytes: 64 << 20,
            max_merge_fan_in: 64,
            range_partitioning: RangeOption::default(),
            split_points_from: None,
            merge_joins: true,
            snapshot_ttl: None,
            manifest: None,
            verify: Verify::default(),
        }
    }
}

const ENABLED: &str = "enabled";
const STRATEGY: &str = "strategy";
const READ_AHEAD_BYTES: &str = "read_ahead_bytes";
const MAX_MERGE_FAN_IN: &str = "max_merge_fan_in";
const RANGE_PARTITIONING: &str = "range_partitioning";
const SPLIT_POINTS_FROM: &str = "split_points_from";
const MERGE_JOINS: &str = "merge_joins";
const SNAPSHOT_TTL: &str = "snapshot_ttl";
const MANIFEST: &str = "manifest";
const VERIFY: &str = "verify";

const UNITS_OF_TIME: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

/// A time like `10s`, or `none`.
fn parse_ttl(text: &str) -> Option<Option<Duration>> {
    let text = text.trim().to_ascii_lowercase();
    if text == "none" {
        return Some(None);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS_OF_TIME
        .iter()
        .find(|(name, _)| *name == unit.trim())?;
    let millis = number.parse::<u64>().ok()?.checked_mul(*millis)?;
    Some(Some(Duration::from_millis(millis)))
}

fn show_ttl(ttl: Option<Duration>) -> String {
    let Some(ttl) = ttl else {
        return "none".into();
    };
    let millis = ttl.as_millis();
    let mut units = UNITS_OF_TIME.iter().rev();
    let unit = units.find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)));
    let (name, unit) = unit.unwrap_or(&UNITS_OF_TIME[0]);
    format!("{}{name}", millis / u128::from(*unit))
}

/// `value`, if it is anything.
fn given(value: &str) -> Option<String> {
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// The one of `all` that `value` names; `name` gives that of each.
fn named<T: Copy>(key: &str, value: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T> {
    let is_it = |option: &&T| name(**option).eq_ignore_ascii_case(value.trim());
    match all.iter().find(is_it) {
        Some(option) => Ok(*option),
        None => {
            let prefix = SortedListingConfig::PREFIX;
            let valid: Vec<_> = all.iter().map(|option| name(*option)).collect();
            let valid = valid.join("', '");
            config_err!("Invalid value for {prefix}.{key}: '{value}'; valid ones are '{valid}'")
        }
    }
}

impl SortedListingConfig {
    /// This configuration with `overrides` on top: option names without the prefix, and their values.
    pub(crate) fn with_overrides(mut self, overrides: &BTreeMap<String, String>) -> Result<Self> {
        for (key, value) in overrides {
            match key.as_str() {
                MANIFEST => self.manifest = given(value),
                MERGE_JOINS => {
                    let name = format!("{}.{MERGE_JOINS}", Self::PREFIX);
                    return config_err!(
                        "{name} is an option of the session, and not of a table: SET {name} = {value}"
                    );
                }
                _ => self.set(key, value)?,
            }
        }
        Ok(self)
    }
}

impl ConfigExtension for SortedListingConfig {
    const PREFIX: &'static str = "sorted_listing";
}

// Written out rather than by `extensions_options!`, whose error for an unknown key does not list the valid ones.
impl ExtensionOptions for SortedListingConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let prefix = Self::PREFIX;
        match key {
            ENABLED | MERGE_JOINS => match value.trim().to_ascii_lowercase().parse() {
                Ok(on) if key == ENABLED => self.enabled = on,
                Ok(on) => self.merge_joins = on,
                Err(_) => {
                    return config_err!(
                        "Invalid value for {prefix}.{key}: '{value}'; valid ones are 'true', 'false'"
                    );
                }
            },
            STRATEGY => match value.parse() {
                Ok(strategy) => self.strategy = strategy,
                Err(e) => return config_err!("Invalid value for {prefix}.{key}: {e}"),
            },
            READ_AHEAD_BYTES => match value.trim().parse() {
                Ok(bytes) => self.read_ahead_bytes = bytes,
                Err(_) => {
                    return config_err!(
                        "Invalid value for {prefix}.{key}: '{value}'; it is a number of bytes"
                    );
                }
            },
            MAX_MERGE_FAN_IN => match value.trim().parse() {
                Ok(runs) => self.max_merge_fan_in = runs,
                Err(_) => {
                    return config_err!(
                        "Invalid value for {prefix}.{key}: '{value}'; it is a number of runs"
                    );
                }
            },
            RANGE_PARTITIONING => {
                let all = [RangeOption::Auto, RangeOption::Off];
                self.range_partitioning = named(key, value, &all, RangeOption::as_str)?;
            }
            VERIFY => {
                let all = [Verify::Off, Verify::Boundaries, Verify::Rows];
                self.verify = named(key, value, &all, Verify::as_str)?;
            }
            SPLIT_POINTS_FROM => self.split_points_from = given(value),
            // Tables would write over each other's.
            MANIFEST => {
                if given(value).is_some() {
                    return config_err!(
                        "{prefix}.{key} is an option of one table: give it in the OPTIONS of CREATE EXTERNAL TABLE"
                    );
                }
            }
            SNAPSHOT_TTL => match parse_ttl(value) {
                Some(ttl) => self.snapshot_ttl = ttl,
                None => {
                    return config_err!(
                        "Invalid value for {prefix}.{key}: '{value}'; it is 'none' or a time like '500ms', '10s', '5m', '1h'"
                    );
                }
            },
            _ => {
                let valid: Vec<_> = self.entries().into_iter().map(|entry| entry.key).collect();
                return config_err!(
                    "Unknown option '{prefix}.{key}'; valid ones are '{}'",
                    valid.join("', '")
                );
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key, value: &dyn ToString, description| ConfigEntry {
            key: format!("{}.{key}", Self::PREFIX),
            value: Some(value.to_string()),
            description,
        };
        vec![
            entry(
                ENABLED,
                &self.enabled,
                "If false, sorted tables give the plan of DataFusion's ListingTable, exactly",
            ),
            entry(
                STRATEGY,
                &self.strategy,
                "How files are put into slices: 'contiguous' (in key order, balanced by bytes) or 'best_fit' \
                 (each into the emptiest slice that ends before it)",
            ),
            entry(
                READ_AHEAD_BYTES,
                &self.read_ahead_bytes,
                "How many bytes of decoded batches a SequenceExec may buffer",
            ),
            entry(
                MAX_MERGE_FAN_IN,
                &self.max_merge_fan_in,
                "How many overlapping runs a query may merge that asks for the order",
            ),
            entry(
                RANGE_PARTITIONING,
                &self.range_partitioning.as_str(),
                "Whether slices own ranges of the key, so that grouping, windows and joins on it need no \
                 repartitioning: 'auto' or 'off'",
            ),
            entry(
                SPLIT_POINTS_FROM,
                &self.split_points_from.as_deref().unwrap_or_default(),
                "Another sorted table, at whose split points this one is cut, to join the two slice by slice",
            ),
            entry(
                MERGE_JOINS,
                &self.merge_joins,
                "Whether sorted tables that are cut at the same points are joined by merging, and not by hashing",
            ),
            entry(
                SNAPSHOT_TTL,
                &show_ttl(self.snapshot_ttl),
                "For how long a listing of the files is believed, like '10s'; 'none' to list them for each query",
            ),
            entry(
                MANIFEST,
                &self.manifest.as_deref().unwrap_or_default(),
                "A path or URL where what is known of the files is kept for the next session",
            ),
            entry(
                VERIFY,
                &self.verify.as_str(),
                "How much of the declared order is checked while rows are read: 'off', 'boundaries' (the first and the \
                 last row of each batch) or 'rows' (each row)",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_lists_its_options() {
        let mut config = SortedListingConfig::default();
        config.set("enabled", "False").unwrap();
        config.set("strategy", "BEST_FIT").unwrap();
        config.set("read_ahead_bytes", "1000").unwrap();
        config.set("max_merge_fan_in", "7").unwrap();
        config.set("range_partitioning", "OFF").unwrap();
        config.set("split_points_from", "other").unwrap();
        config.set("merge_joins", "false").unwrap();
        config.set("snapshot_ttl", "90 S").unwrap();
        config.set("verify", "Rows").unwrap();
        let of_table = BTreeMap::from([("manifest".into(), " /tmp/t.manifest ".into())]);
        let config = config.with_overrides(&of_table).unwrap();
        assert_eq!(
            config,
            SortedListingConfig {
                enabled: false,
                strategy: Strategy::BestFit,
                read_ahead_bytes: 1000,
                max_merge_fan_in: 7,
                range_partitioning: RangeOption::Off,
                split_points_from: Some("other".into()),
                merge_joins: false,
                snapshot_ttl: Some(Duration::from_secs(90)),
                manifest: Some("/tmp/t.manifest".into()),
                verify: Verify::Rows,
            }
        );
        let entries: Vec<_> = config
            .entries()
            .into_iter()
            .map(|entry| (entry.key, entry.value.unwrap()))
            .collect();
        assert_eq!(
            entries,
            [
                ("sorted_listing.enabled".into(), "false".into()),
                ("sorted_listing.strategy".into(), "best_fit".into()),
                ("sorted_listing.read_ahead_bytes".into(), "1000".into()),
                ("sorted_listing.max_merge_fan_in".into(), "7".into()),
                ("sorted_listing.range_partitioning".into(), "off".into()),
                ("sorted_listing.split_points_from".into(), "other".into()),
                ("sorted_listing.merge_joins".into(), "false".into()),
                ("sorted_listing.snapshot_ttl".into(), "90s".into()),
                ("sorted_listing.manifest".into(), "/tmp/t.manifest".into()),
                ("sorted_listing.verify".into(), "rows".into())
            ]
        );
    }

    #[test]
    fn errors_list_what_is_valid() {
        let mut config = SortedListingConfig::default();
        let error = |result: Result<()>| result.unwrap_err().strip_backtrace();
        assert_eq!(
            error(config.set("strategi", "x")),
            "Invalid or Unsupported Configuration: Unknown option 'sorted_listing.strategi'; \
             valid ones are 'sorted_listing.enabled', 'sorted_listing.strategy', \
             'sorted_listing.read_ahead_bytes', 'sorted_listing.max_merge_fan_in', \
             'sorted_listing.range_partitioning', 'sorted_listing.split_points_from', \
             'sorted_listing.merge_joins', 'sorted_listing.snapshot_ttl', \
             'sorted_listing.manifest', 'sorted_listing.verify'"
        );
        assert_eq!(
            error(config.set("strategy", "fast")),
            "Invalid or Unsupported Configuration: Invalid value for sorted_listing.strategy: \
             'fast' is not a strategy; valid ones are 'contiguous', 'best_fit'"
        );
        assert_eq!(
            error(config.set("enabled", "maybe")),
            "Invalid or Unsupported Configuration: Invalid value for sorted_listing.enabled: \
             'maybe'; valid ones are 'true', 'false'"
        );
        assert_eq!(
            error(config.set("manifest", "/tmp/t.manifest")),
            "Invalid or Unsupported Configuration: sorted_listing.manifest is an option of one table: give it in the \
             OPTIONS of CREATE EXTERNAL TABLE"
        );
        config.set("manifest", "").unwrap();
        let of_table = BTreeMap::from([("merge_joins".into(), "false".into())]);
        assert_eq!(
            error(config.clone().with_overrides(&of_table).map(drop)),
            "Invalid or Unsupported Configuration: sorted_listing.merge_joins is an option of the session, and not of a \
             table: SET sorted_listing.merge_joins = false"
        );
        assert_eq!(
            error(config.set("verify", "all")),
            "Invalid or Unsupported Configuration: Invalid value for sorted_listing.verify: \
             'all'; valid ones are 'off', 'boundaries', 'rows'"
        );
    }

    #[test]
    fn times_are_shown_as_they_are_given() {
        for text in ["none", "0h", "1500ms", "10s", "5m", "2h"] {
            assert_eq!(show_ttl(parse_ttl(text).unwrap()), text);
        }
        assert_eq!(show_ttl(parse_ttl(" 120000 MS ").unwrap()), "2m");
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "1.5s",
            "10 days",
            "99999999999999999h",
        ] {
            assert_eq!(parse_ttl(text), None, "{text}");
        }
    }
}
