//! Makes workloads from workloads: slices by time, session and statement ([`Slicer`]), masked
//! values ([`mask`]), redacted secrets ([`SecretRedactor`]), and simulated changes of the
//! application ([`Rewriter`]).
//!
//! A [`Slicer`] receives events and sessions and passes on those in the slice. Each session's
//! events come in order; sessions may interleave in any way. So a capture can push while it reads a
//! log, and a reader while it reads a workload in time order. If a session needs state from before
//! its first kept statement, the slicer holds the statements that created it
//! ([`workload::session_state`]). They are passed on as a *prelude*, due at the slice's start.
//!
//! `capture_sink::SliceSink` runs a slicer between a log and its writer, and the program runs one
//! between a [`workload::WorkloadReader`] and a [`workload::WorkloadWriter`]. A replay that slices
//! while reading would push the reader's events in the same way; it must accept the prelude of a
//! session in the middle of the stream, due at the start.
//!
//! Memory holds one state of bounded size for each open session. The crate knows no wire messages,
//! no grammar of SQL and no semantics of functions: it decides by keywords, with the limits that
//! `docs/reference/slices.md` lists.

mod filter;
pub mod mask;
mod rewrite;
mod secret_redactor;
mod session_records;
mod slice;
mod time_bound;

pub use filter::{ContextFilter, ContextPattern, Filter, PatternFilter, StatementKind};
pub use rewrite::{Rewrite, Rewriter};
pub use secret_redactor::SecretRedactor;
pub use session_records::SessionRecords;
pub use slice::{Slice, SliceError, Slicer};
pub use time_bound::{InvalidTimeBound, TimeBound};
