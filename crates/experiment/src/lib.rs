//! Replays under a plan: what is varied, in which order, from which state, for how long, and what
//! is measured of each. A sweep is one such plan; proofs and the lab make others of the same parts.
//!
//! ```text
//! Design (factors × repetitions) ─► order (seeded, in blocks) ─► for each trial, while the Budget lasts:
//!     Ground (state restored, settings set) ─► Load (who does what) ─► replay ─► Numbers ─► Journal
//! ```
//!
//! - [`Design`]: clients × pace × protocol mode × settings × repetitions, and the order of trials;
//! - [`Ground`]: a server that is brought to the same state before each trial: a sandbox by a
//!   snapshot, any other by a command of its owner's;
//! - [`Load`]: what clients do: pgbench's built-in scripts made up as they are needed, a workload
//!   dealt to clients, or a workload at its own times;
//! - [`Journal`]: every trial's numbers, on disk when it is done: what was done is not done again;
//! - [`run()`]: does what is left of the plan;
//! - [`proof`]: a change beside what is unchanged, in mirrored blocks, until the verdict is clear;
//! - [`Screening`], [`promising()`]: which of many indexes the planner would take, and which of these are worth a proof,
//!   in a sandbox that is changed for a while and given back ([`LentSandbox`]).
//!
//! Who drives: the program (`rehearse sweep`, `rehearse prove`) builds these from what was typed and is told of each
//! trial. Deliberately absent: judgement (`analyse::sweep` has the knee), words for people, and
//! printing.

mod budget;
mod dealt;
mod design;
mod error;
mod ground;
mod journal;
mod lent;
mod load;
mod machine;
mod measure;
mod order;
mod promising;
pub mod proof;
mod runner;
mod screening;
mod script;
mod statements;
mod trial;

pub use budget::Budget;
pub use dealt::{Dealt, STATEMENTS_MAX};
pub use design::{Cell, Design, Mode, Pace, Setting, Trial, Variant};
pub use error::ExperimentError;
pub use ground::{Foreign, Ground, Sandboxed, command_at};
pub use journal::{Journal, MANIFEST, Manifest, Record};
pub use lent::LentSandbox;
pub use load::{Length, Load, Work};
pub use measure::{Numbers, Times};
pub use order::{in_blocks, pairs};
pub use promising::{promising, saved_ns};
pub use runner::{Ended, Experiment, Told, run};
pub use screening::{BUILT_MAX, Expected, Screened, Screening, Way};
pub use script::Script;
pub use statements::Counted;
