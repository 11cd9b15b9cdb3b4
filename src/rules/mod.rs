//! The optimizer rules that put sorted scans to use.

mod chain;
mod distrust_casts;
mod group_neighbours;
mod merge_joins;
mod request_order;
mod scan_column;
mod sequence_slices;

pub use distrust_casts::DistrustCasts;
pub use group_neighbours::GroupNeighbours;
pub use merge_joins::MergeJoins;
pub use request_order::RequestOrder;
pub use sequence_slices::SequenceSlices;
