//! The options under `sorted_listing`.

use std::any::Any;
use std::collections::BTreeMap;

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
    /// `read_ahead_bytes`, default 64 MiB: how many bytes of decoded batches a [`SequenceExec`] may buffer.
    ///
    /// [`SequenceExec`]: crate::SequenceExec
    pub read_ahead_bytes: usize,
    /// `max_merge_fan_in`, default 64: how many overlapping runs a query may merge that asks for the order. Where more
    /// overlap, DataFusion sorts.
    pub max_merge_fan_in: usize,
}

impl Default for SortedListingConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            strategy: Strategy::default(),
            read_ahead_bytes: 64 << 20,
            max_merge_fan_in: 64,
        }
    }
}

const ENABLED: &str = "enabled";
const STRATEGY: &str = "strategy";
const READ_AHEAD_BYTES: &str = "read_ahead_bytes";
const MAX_MERGE_FAN_IN: &str = "max_merge_fan_in";

impl SortedListingConfig {
    /// This configuration with `overrides` on top: option names without the prefix, and their values.
    pub(crate) fn with_overrides(mut self, overrides: &BTreeMap<String, String>) -> Result<Self> {
        for (key, value) in overrides {
            self.set(key, value)?;
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
            ENABLED => match value.trim().to_ascii_lowercase().parse() {
                Ok(enabled) => self.enabled = enabled,
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
        assert_eq!(
            config,
            SortedListingConfig {
                enabled: false,
                strategy: Strategy::BestFit,
                read_ahead_bytes: 1000,
                max_merge_fan_in: 7,
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
                ("sorted_listing.max_merge_fan_in".into(), "7".into())
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
             'sorted_listing.read_ahead_bytes', 'sorted_listing.max_merge_fan_in'"
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
    }
}
