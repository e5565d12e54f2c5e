//! The way from a source to a workload.
//!
//! Each source (server logs, packets, the proxy) pushes events and sessions into an [`EventSink`] in the order in which
//! it meets them. The sink is a [`workload::WorkloadWriter`], which sorts by time, or a filter on the way to one:
//! [`SliceSink`] keeps a part, [`MaskSink`] masks values.

pub mod compression;
mod mask;
mod sink;
mod slice;
mod watched;

pub use mask::MaskSink;
pub use sink::{Collected, Counted, EventSink, SinkError};
pub use slice::SliceSink;
pub use watched::{Raw, Watched};
