//! The operations that a user asks for, as library calls without options and terminals.
//!
//! - Workloads: [`capture_log`], [`slice_workload`], [`mask_workload`], [`rewrite_workload`].
//! - Replays: [`observed_replay`] replays and observes; [`baseline_run`] does so once before a change is measured.
//! - Servers: [`observe_server`], [`record_profile`].
//! - Plans without data: [`plan_export`], [`plan_check`].
//! - Upgrades: [`upgrade_inspect`], [`upgrade_rehearsal`], [`upgrade_remedies`], [`upgrade_verify`].
//! - Results: [`observation`], [`run_time`], [`statement_details`], [`compare_runs`], [`diagnosis_inputs`].
//! - Experiments: replays in an order that a design sets, at a server that is brought to a named state before each.
//!
//! ```text
//! Plan ─► next trial ─► Environment (data restored, settings set) ─► replay ─► numbers ─► Journal ─► next trial …
//! ```
//!
//! An [`Experiment`] is a design of trials; there are two, [`sweep`] and [`proof`]. The [`Engine`] performs the trials
//! that the journal lacks, in their order. An [`Environment`] is a server that is set up in a [`Condition`]: a sandbox
//! from snapshots, or any other, restored as its owner specifies. The [`Journal`] has each trial's numbers on disk, so
//! that a killed experiment can be resumed. [`Screening`] and [`rank_candidates()`] choose the index candidates that a
//! proof should measure. Screening runs in a sandbox that is changed and given back ([`SandboxLease`]).
//!
//! An operation receives an [`Interrupt`], reports what it does as notes ([`notes`]), and fails with a [`Failure`], which
//! has a sentence for the user. It does not know how results are shown.

pub mod baseline_run;
mod cache_warming;
pub mod calibration;
mod candidate_ranking;
pub mod capture_log;
pub mod captured_clock;
pub mod captured_server;
pub mod cause_experiments;
mod change_script;
mod common_stalls;
mod compare_contexts;
pub mod compare_runs;
mod connection_limit;
pub mod diagnosis;
pub mod diagnosis_inputs;
pub mod diagnosis_report;
mod differing_rows;
pub mod dump_snapshot;
mod earlier_replay;
pub mod encodings;
mod enrich_comparison;
mod environment;
mod error;
pub mod export_evidence;
mod failure;
pub mod host_check;
pub mod index_advice;
pub mod inspect_logs;
mod interrupt;
mod journal;
pub mod keys;
mod leftovers;
mod log_server;
mod machine_watch;
pub mod mask_text;
pub mod mask_workload;
pub mod notes;
pub mod observation;
pub mod observe_server;
pub mod observed_replay;
mod pair_directory;
pub mod paired_replay;
pub mod partial_replay;
mod pass_note;
pub mod plan_check;
pub mod plan_export;
pub mod preflight;
pub mod processor_time;
pub mod profile_samples;
pub mod proof;
pub mod prove_findings;
pub mod record_profile;
pub mod rewrite_workload;
pub mod run_numbers;
pub mod run_summary;
pub mod run_time;
mod runner;
mod running_commands;
mod screened_candidate;
mod screening;
pub mod series_replay;
pub mod shadow_comparison;
mod shard_agreement;
pub mod shard_resume;
pub mod shard_selection;
pub mod shard_start;
pub mod slice_workload;
mod stalled_share;
pub mod statement_details;
pub mod statement_senders;
pub mod suspect_replay;
pub mod sweep;
mod target_offset;
pub mod target_snapshot;
pub mod target_watch;
mod trial;
mod trial_loop;
mod trial_order;
pub mod upgrade_inspect;
pub mod upgrade_rehearsal;
pub mod upgrade_remedies;
pub mod upgrade_verify;
pub mod wait_samples;

pub use candidate_ranking::{expected_saving_ns, rank_candidates};
pub use change_script::ChangeScript;
pub use earlier_replay::{EarlierReplay, find_next_to};
pub use enrich_comparison::PlanTargets;
pub use environment::{
    AtEnd, Condition, DataSource, Environment, FindInstallation, LeasePurpose, NewServer,
    NewServerRequest, SandboxEnvironment, SandboxLease, TargetEnvironment, create_server,
    refuse_leased, restore_interrupted, run_stoppable_command,
};
pub use error::ExperimentError;
pub use failure::{Failure, FailureKind};
pub use interrupt::Interrupt;
pub use journal::{Journal, Manifest, Plan, refuse_existing};
pub use runner::{EndReason, Engine, Event, Experiment, Listener, Progress, Step};
pub use screened_candidate::{ExpectedCost, ScreenedCandidate};
pub use screening::{BUILT_MAX, CostEstimate, Screening, ScreeningResult};
pub use stalled_share::TrialStalls;
pub use trial::TrialContext;
pub use trial_loop::perform;
