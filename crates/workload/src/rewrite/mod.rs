//! Workloads made of workloads: today slices, of a stretch of time, of some sessions, of some
//! statements; what a replay that must not write may send ([`read_only`]); what a session holds
//! that a replay must bring back on a new connection ([`Held`]); and what clients would have done otherwise
//! ([`Rewriter`]).
//!
//! A [`Slicer`] is pushed events and sessions and pushes on what is in the slice. Each session's
//! events come in their order, sessions may interleave as they like: so a capture can push while
//! it reads a log, and a reader while it reads a workload in the order of time. What a session
//! needs from before its first kept statement is held as the statements that made it
//! (`session_state.rs`) and comes as a *prelude*, due at the slice's start.
//!
//! Who drives: `capture::SliceSink` between a log and its writer, and the program between a
//! [`crate::WorkloadReader`] and a [`crate::WorkloadWriter`]. A replay that slices as it reads
//! would push the reader's events in the same way; it must take the prelude of a session when it
//! comes, in the middle of the stream and due at the start.
//!
//! Memory: one state for each session that is open, of a bounded size. Deliberately absent: wire
//! messages, a grammar of SQL (words are enough, and what they cannot tell is documented in
//! `docs/slices.md`), and any knowledge of what functions do.

mod account;
mod counterfactual;
mod effects;
mod filter;
mod held;
mod items;
pub mod mask;
mod moment;
mod parts;
mod pattern;
mod read_only;
mod records;
mod secrets;
mod session_state;
mod slice;
mod two_phases;

pub use account::{LeftOut, SliceAccount};
pub use counterfactual::{RewriteAccount, RewriteNote, Rewriter, Rewriting};
pub use filter::{Choice, Filter, StatementKind};
pub use held::{Bearing, Held};
pub use moment::{Moment, MomentError};
pub use parts::statements_of;
pub use pattern::Pattern;
pub use read_only::{ReadOnly, ends_transaction, read_only};
pub use records::SessionRecords;
pub use secrets::{
    Harmless, WithoutSecrets, event_without_secrets, holds_login, names_a_secret, without_secrets,
};
pub use slice::{Slice, SliceError, Slicer};
pub use two_phases::TwoPhases;
