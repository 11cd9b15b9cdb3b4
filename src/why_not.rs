//! Why an order is not declared, or not in the way that was asked for.

use std::fmt;
use std::ops::Range;

use crate::key_value::KeyBounds;

/// Why a scan declares no order, or is not put into slices by the strategy that was asked for.
///
/// Its text is the reason that `EXPLAIN` shows. The alternate form (`{:#}`) adds the bounds of the files.
///
/// ```
/// # use datafusion_sorted_listing::WhyNot;
/// fn advice(why: &WhyNot) -> Option<String> {
///     match why.cause() {
///         WhyNot::UnknownBounds { file, .. } => Some(format!("write {file} anew, with statistics")),
///         WhyNot::Overlap { earlier, later } => Some(format!("compact {} with {}", earlier.file, later.file)),
///         _ => None,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum WhyNot {
    /// `sorted_listing.enabled` is false.
    Disabled,
    /// No file has rows.
    NoRows,
    /// No order is declared, and no footer claims one.
    NoOrder,
    /// No order is declared, and the footer of a file claims none that the others share.
    NoSharedOrder {
        /// The path of the file.
        file: String,
    },
    /// No order is declared, and the order that footers claim is not proved across the row groups of a file.
    UnprovedFooterOrder {
        /// The path of the file.
        file: String,
    },
    /// The statistics of a file prove that its rows are not in the declared order.
    FalseOrder {
        /// The declared order, as in `ORDER BY`.
        order: String,
        /// The path of the file.
        file: String,
        /// The row groups, and the values that are in the wrong order.
        rows: String,
    },
    /// The bounds of a file are not known.
    UnknownBounds {
        /// The path of the file.
        file: String,
        /// What its footer lacks.
        reason: String,
    },
    /// The bounds of no file are known.
    NoBounds {
        /// What the footers lack.
        reason: String,
    },
    /// A file begins before another one ends. There may be more such pairs: these are the first in order of the key.
    Overlap {
        /// The one that begins first.
        earlier: Box<FilePart>,
        /// The one that begins before `earlier` ends.
        later: Box<FilePart>,
    },
    /// To give each partition an order of its own would take more partitions than there may be.
    TooManySlices {
        /// What stands in the way of fewer.
        cause: Box<WhyNot>,
        /// How many it would take.
        needed: usize,
        /// `target_partitions`.
        limit: usize,
    },
    /// To merge what overlaps would take more inputs at a time than there may be.
    TooManyRuns {
        /// What stands in the way of an order without a merge.
        cause: Box<WhyNot>,
        /// How many it would take.
        needed: usize,
        /// `sorted_listing.max_merge_fan_in`.
        limit: usize,
    },
    /// The query asks for an order that the table does not have.
    OtherOrder {
        /// The order that it asks for, as in `ORDER BY`.
        order: String,
    },
}

/// A file, or some row groups of one, and where its sort keys lie.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilePart {
    /// The path of the file in its store.
    pub file: String,
    /// The row groups, if it is not the whole file.
    pub row_groups: Option<Range<usize>>,
    /// Where the keys of its rows lie, if that is known.
    pub bounds: Option<KeyBounds>,
}

impl WhyNot {
    /// What is at the bottom of it: never one of [`TooManySlices`](Self::TooManySlices) and
    /// [`TooManyRuns`](Self::TooManyRuns), which have causes of their own.
    pub fn cause(&self) -> &Self {
        match self {
            Self::TooManySlices { cause, .. } | Self::TooManyRuns { cause, .. } => cause.cause(),
            _ => self,
        }
    }

    /// The name of the [`cause`](Self::cause), as in the column `why_not_kind` of `sorted_layout_summary`.
    pub fn kind(&self) -> &'static str {
        match self.cause() {
            Self::Disabled => "disabled",
            Self::NoRows => "no_rows",
            Self::NoOrder => "no_order",
            Self::NoSharedOrder { .. } => "no_shared_order",
            Self::UnprovedFooterOrder { .. } => "unproved_footer_order",
            Self::FalseOrder { .. } => "false_order",
            Self::UnknownBounds { .. } => "unknown_bounds",
            Self::NoBounds { .. } => "no_bounds",
            Self::Overlap { .. } => "overlap",
            Self::OtherOrder { .. } => "other_order",
            Self::TooManySlices { .. } | Self::TooManyRuns { .. } => "too_many",
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("sorted_listing.enabled is false"),
            Self::NoRows => f.write_str("no file has rows"),
            Self::NoOrder => f.write_str("no order is declared, and no footer claims one"),
            Self::NoSharedOrder { file } => write!(
                f,
                "no order is declared, and '{file}' claims no order that the others share"
            ),
            Self::UnprovedFooterOrder { file } => write!(
                f,
                "no order is declared, and the order that footers claim is not proved across the row groups of '{file}'"
            ),
            Self::FalseOrder { order, file, rows } => write!(
                f,
                "the order is declared as [{order}], but '{file}' is not in it: {rows}"
            ),
            Self::UnknownBounds { file, reason } => {
                write!(f, "bounds of '{file}' are unknown: {reason}")
            }
            Self::NoBounds { reason } => f.write_str(reason),
            Self::Overlap { earlier, later } => {
                f.write_str("the bounds of ")?;
                fmt::Display::fmt(earlier, f)?;
                f.write_str(" and ")?;
                fmt::Display::fmt(later, f)?;
                f.write_str(" overlap")
            }
            Self::TooManySlices {
                cause,
                needed,
                limit,
            } => {
                fmt::Display::fmt(cause, f)?;
                write!(
                    f,
                    "; to read each partition in order would take {needed} partitions, \
                     more than target_partitions, which is {limit}"
                )
            }
            Self::TooManyRuns {
                cause,
                needed,
                limit,
            } => {
                fmt::Display::fmt(cause, f)?;
                write!(
                    f,
                    "; to merge them would take {needed} runs at a time, more than \
                     sorted_listing.max_merge_fan_in, which is {limit}"
                )
            }
            Self::OtherOrder { order } => write!(f, "the query asks for the order [{order}]"),
        }
    }
}

impl fmt::Display for FilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.file)?;
        if !f.alternate() {
            return Ok(());
        }
        if let Some(groups) = &self.row_groups {
            write!(f, " (row groups {} to {})", groups.start, groups.end - 1)?;
        }
        match &self.bounds {
            Some(bounds) => write!(f, " {bounds}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_value::KeyValue;
    use datafusion::common::ScalarValue;

    fn part(file: &str, lower: i32, upper: i32) -> FilePart {
        let key = |value| KeyValue::from(vec![ScalarValue::Int32(Some(value))]);
        FilePart {
            file: file.into(),
            row_groups: None,
            bounds: Some(KeyBounds {
                lower: key(lower),
                upper: key(upper),
            }),
        }
    }

    #[test]
    fn the_short_form_names_files_and_the_long_one_their_bounds() {
        let overlap = WhyNot::Overlap {
            earlier: Box::new(part("a", 0, 5)),
            later: Box::new(FilePart {
                row_groups: Some(2..4),
                ..part("b", 3, 9)
            }),
        };
        assert_eq!(overlap.to_string(), "the bounds of 'a' and 'b' overlap");
        let why = WhyNot::TooManyRuns {
            cause: Box::new(WhyNot::TooManySlices {
                cause: Box::new(overlap.clone()),
                needed: 5,
                limit: 4,
            }),
            needed: 3,
            limit: 2,
        };
        assert_eq!(
            format!("{why:#}"),
            "the bounds of 'a' [0, 5] and 'b' (row groups 2 to 3) [3, 9] overlap; to read each partition in order \
             would take 5 partitions, more than target_partitions, which is 4; to merge them would take 3 runs at a \
             time, more than sorted_listing.max_merge_fan_in, which is 2"
        );
        assert_eq!(why.cause(), &overlap);
        assert_eq!(why.kind(), "overlap");
    }
}
