//! Experiments: replays in an order that a design sets, at a server that is brought to a named state before each.
//!
//! ```text
//! Plan ─► next trial ─► Environment (data restored, settings set) ─► replay ─► numbers ─► Journal ─► next trial …
//! ```
//!
//! - [`Experiment`]: a design of trials; there are two, [`sweep`] and [`proof`];
//! - [`Engine`]: performs the trials that the journal lacks, in their order;
//! - [`Environment`]: a server that is set up in a [`Condition`]: a sandbox from snapshots, any other as its owner says;
//! - [`Journal`]: each trial's numbers, on disk when it is over, so that a killed experiment is resumed;
//! - [`Screening`], [`rank_candidates()`]: which of many indexes the planner would use, and which of these a proof should
//!   measure, in a sandbox that is changed and given back ([`SandboxLease`]).
//!
//! The program (`rehearse sweep`, `rehearse prove`) builds these from its options and is told of each trial. Deliberately
//! absent: judgement (`compare::sweep`, `compare::proof`), texts for users, and printing.

mod candidate_ranking;
mod change_script;
mod environment;
mod error;
mod journal;
mod order;
pub mod proof;
mod runner;
mod screening;
pub mod sweep;
mod trial;

pub use candidate_ranking::{expected_saving_ns, rank_candidates};
pub use change_script::ChangeScript;
pub use environment::{
    AtEnd, Condition, DataSource, Environment, LeasePurpose, NewServer, SandboxEnvironment,
    SandboxLease, TargetEnvironment, create_server, refuse_leased, run_shell_command,
};
pub use error::ExperimentError;
pub use journal::{Journal, Manifest, Plan, refuse_taken};
pub use runner::{End, Engine, Event, Experiment, Listener, Progress, Step};
pub use screening::{BUILT_MAX, Expected, Screened, Screening};
pub use trial::TrialContext;
