//! The optimizer rules that put sorted scans to use.

mod chain;
mod merge_joins;
mod request_order;
mod sequence_slices;

pub use merge_joins::MergeJoins;
pub use request_order::RequestOrder;
pub use sequence_slices::SequenceSlices;
