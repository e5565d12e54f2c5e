//! What a target is, beside what it does: its settings, extensions, relations and indexes
//! ([`facts`]), and how it would carry statements out ([`plans`]).
//!
//! Who drives: the program, before a replay's first statement and behind its last one. Every question
//! is asked in a transaction that only reads and is rolled back, with limits of time for a statement
//! and for a lock; a role without privileges will do, and what it cannot see is noted. Nothing here
//! fails a replay: what could not be had is a note among the facts, or a plan's reason.
//!
//! What its processors do meanwhile is recorded by [`profile`].
//!
//! Deliberately absent: carrying out any statement of a workload (`EXPLAIN` without `ANALYZE` only),
//! and judging what was found.

#![forbid(unsafe_code)]

mod catalogue;
mod examples;
mod facts;
mod plans;
pub mod profile;
mod secrets;

pub use examples::{Example, examples};
pub use facts::{DATABASES_MAX, INDEXES_MAX, Limits, RELATIONS_MAX, facts, facts_within};
pub use plans::{Answers, PLANS_MAX, PLANS_TIME, plans};
pub use secrets::may_be_secret;
