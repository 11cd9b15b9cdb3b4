//! The optimizer rules that put sorted scans to use.

mod chain;
mod request_order;
mod sequence_slices;

pub use request_order::RequestOrder;
pub use sequence_slices::SequenceSlices;
