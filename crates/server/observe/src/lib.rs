//! What a target is, beside what it does: its settings, extensions, relations and indexes
//! ([`facts`]), how it would carry statements out ([`plans`]), and what it counts and waits for while it
//! works ([`Watch`]).
//!
//! Who drives: the program, before a replay's first statement, beside it, and behind its last one. Every
//! question is asked in a transaction that only reads, with limits of time for a statement
//! and for a lock; a role without privileges will do, and what it cannot see is noted. Nothing here
//! fails a replay: what could not be had is a note among the facts, a plan's reason, or a probe that is off.
//!
//! What its processors do meanwhile is recorded by [`profile`].
//!
//! Deliberately absent: carrying out any statement of a workload (`EXPLAIN` without `ANALYZE` only),
//! and judging what was found.

#![forbid(unsafe_code)]

mod asker;
mod catalogue;
mod evidence;
mod examples;
mod facts;
mod generic_plans;
mod ledger;
mod plans;
mod probe;
mod secrets;
mod watch;

pub use evidence::evidence;
pub use examples::{Example, examples};
pub use facts::{DATABASES_MAX, INDEXES_MAX, Limits, RELATIONS_MAX, facts, facts_within};
pub use generic_plans::generic_plans;
pub use ledger::{Latest, RunTime};
pub use plans::{Answers, PLANS_MAX, PLANS_TIME, plans};
pub use probe::locks::WEAK_MODES;
pub use secrets::may_be_secret;
pub use watch::{HZ, ProbeStatus, Watch, WatchOptions};
