//! How units came into slices.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_expr::Partitioning;

use crate::layout::Strategy;

/// How the units of a [`SortedScan`](super::SortedScan) came into its slices.
#[derive(Debug, Clone)]
pub(crate) enum Grouping {
    /// By a strategy; with the reason, if it is not the one that was asked for.
    Strategy {
        strategy: Strategy,
        stepped_down: Option<Arc<str>>,
    },
    /// Slices are cut between clusters, and their runs are merged; with the reason why there is no other way.
    Clusters(Arc<str>),
    /// They are the partitions that the table declares, and the scan has that partitioning.
    Declared(Partitioning),
    /// Each file has a slice of its own, since no bounds are known, for this reason.
    FilePerSlice(Arc<str>),
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
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strategy {
                strategy,
                stepped_down: None,
            } => write!(f, "strategy={strategy}"),
            Self::Strategy {
                strategy,
                stepped_down: Some(why),
            } => write!(f, "strategy={strategy}, stepped_down=[{why}]"),
            Self::Clusters(why) => write!(f, "strategy=clusters, stepped_down=[{why}]"),
            Self::Declared(_) => f.write_str("strategy=declared_partitioning"),
            Self::FilePerSlice(why) => write!(f, "strategy=file_per_slice, stepped_down=[{why}]"),
        }
    }
}
