//! How units came into slices.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_expr::Partitioning;

use crate::layout::Strategy;
use crate::why_not::WhyNot;

/// How the units of a [`SortedScan`](super::SortedScan) came into its slices.
#[derive(Debug, Clone)]
pub(crate) enum Grouping {
    /// By a strategy; with the reason, if it is not the one that was asked for.
    Strategy {
        strategy: Strategy,
        stepped_down: Option<Arc<WhyNot>>,
    },
    /// Slices are cut between clusters, and their runs are merged; with the reason why there is no other way.
    Clusters(Arc<WhyNot>),
    /// They are the partitions that the table declares, and the scan has that partitioning.
    Declared(Partitioning),
    /// Each file has a slice of its own, since no bounds are known, for this reason.
    FilePerSlice(Arc<WhyNot>),
}

impl Grouping {
    /// Whether each slice lies wholly at or before the next.
    pub(crate) fn is_in_key_order(&self) -> bool {
        match self {
            Self::Strategy { strategy, .. } => *strategy == Strategy::Contiguous,
            Self::Clusters(_) => true,
            Self::Declared(_) | Self::FilePerSlice(_) => false,
        }
    }

    /// The name of the way.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Strategy { strategy, .. } => strategy.as_str(),
            Self::Clusters(_) => "clusters",
            Self::Declared(_) => "declared_partitioning",
            Self::FilePerSlice(_) => "file_per_slice",
        }
    }

    /// Why it is not the one that was asked for, if it is not.
    pub(crate) fn why_not(&self) -> Option<&Arc<WhyNot>> {
        match self {
            Self::Strategy { stepped_down, .. } => stepped_down.as_ref(),
            Self::Clusters(why) | Self::FilePerSlice(why) => Some(why),
            Self::Declared(_) => None,
        }
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strategy={}", self.name())?;
        match self.why_not() {
            Some(why) => write!(f, ", stepped_down=[{why}]"),
            None => Ok(()),
        }
    }
}
