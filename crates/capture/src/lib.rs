//! Sources of real traffic become a workload.
//!
//! Who drives: the program gives a source and an [`EventSink`]; the source pushes every
//! [`workload::Event`] and [`workload::Session`] into it in the order in which it meets them, and
//! hands back an account of all that it read. The sink is a [`workload::WorkloadWriter`], or
//! something that only counts.
//!
//! Sources are the server's own [`log`] ([`settings`] says how to have it write the best one), a
//! [`proxy`], and packets ([`pcap`]); the last two share one reader of what connections say
//! ([`conversation`]). Deliberately absent: sorting by time (the writer's), and any knowledge of what a
//! replay will do with an event.

pub mod conversation;
pub mod log;
mod mask;
pub mod pcap;
pub mod proxy;
pub mod settings;
mod sink;
mod slice;
mod watched;

pub use mask::MaskSink;
pub use sink::{Collected, Counted, EventSink, SinkError};
pub use slice::SliceSink;
