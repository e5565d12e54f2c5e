//! Leads from a source to a workload.
//!
//! Each source (server logs, packets, the proxy) pushes events and sessions into an [`EventSink`]
//! in the order in which it finds them. The sink is a [`WorkloadOutput`], whose writer sorts by time,
//! a [`series`] of
//! workloads, or a filter in front of one: [`SliceSink`] keeps a part, [`MaskSink`] masks values.

pub mod compression;
mod counting_reader;
mod input_file;
mod mask;
pub mod series;
mod sink;
mod slice;
mod workload_output;

pub use counting_reader::{CountingReader, StreamState};
pub use input_file::{is_stream, open_input_file};
pub use mask::MaskSink;
pub use sink::{EventCollector, EventCounter, EventSink, SessionStart, SinkError};
pub use slice::SliceSink;
pub use workload_output::WorkloadOutput;
