//! Workloads made from workloads: slices by time, session and statement ([`Slicer`]), masked values ([`mask`]), secrets
//! redacted ([`SecretRedactor`]), and changes of the application ([`Rewriter`]).
//!
//! A [`Slicer`] is pushed events and sessions and pushes on what is in the slice. Each session's
//! events come in their order, sessions may interleave as they like: so a capture can push while
//! it reads a log, and a reader while it reads a workload in the order of time. What a session
//! needs from before its first kept statement is held as the statements that made it
//! ([`workload::session_state`]) and comes as a *prelude*, due at the slice's start.
//!
//! Who drives: `capture_sink::SliceSink` between a log and its writer, and the program between a
//! [`workload::WorkloadReader`] and a [`workload::WorkloadWriter`]. A replay that slices as it reads
//! would push the reader's events in the same way; it must take the prelude of a session when it
//! comes, in the middle of the stream and due at the start.
//!
//! Memory: one state for each session that is open, of a bounded size. Deliberately absent: wire
//! messages, a grammar of SQL (words are enough, and what they cannot tell is documented in
//! `docs/slices.md`), and any knowledge of what functions do.

mod filter;
pub mod mask;
mod moment;
mod records;
mod rewrite;
mod secret_redactor;
mod slice;

pub use filter::{Choice, Filter, StatementKind};
pub use moment::{Moment, MomentError};
pub use records::SessionRecords;
pub use rewrite::{Rewriter, Rewriting};
pub use secret_redactor::SecretRedactor;
pub use slice::{Slice, SliceError, Slicer};
