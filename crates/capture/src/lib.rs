//! Sources of real traffic become a workload.
//!
//! Who drives: the program gives a source and an [`EventSink`]; the source pushes every
//! [`workload::Event`] and [`workload::Session`] into it in the order in which it meets them, and
//! hands back an account of all that it read. The sink is a [`workload::WorkloadWriter`], or
//! something that only counts.
//!
//! Today's one source is [`log`]: the server's own log; [`settings`] says how to have a server write
//! the best one. Deliberately absent: sorting by time (the
//! writer's), and any knowledge of what a replay will do with an event.

pub mod conversation;
pub mod log;
mod mask;
pub mod pcap;
pub mod proxy;
pub mod settings;
mod sink;
mod slice;

pub use mask::MaskSink;
pub use sink::{Collected, Counted, EventSink, SinkError};
pub use slice::SliceSink;
