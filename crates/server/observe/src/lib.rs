//! Observes a target: its settings, extensions, relations and indexes ([`facts()`]), its plans for statements
//! ([`plans()`]), and its statistics and waits during a replay ([`Monitor`]).
//!
//! The program calls it before a replay's first statement, during the replay, and after its last statement.
//! Every query runs in a read-only transaction, with timeouts for statements and locks. A role without
//! privileges suffices; hidden values are noted. A failure here does not fail a replay: it becomes a note
//! among the facts, the reason of a missing plan, or a disabled probe.
//!
//! CPU profiles are left to the crate `cpu-profile`. No statement of a workload is executed (`EXPLAIN`
//! without `ANALYZE` only), and results are not judged.

#![forbid(unsafe_code)]

mod catalogue;
mod code_facts;
mod evidence;
mod example_sets;
mod examples;
mod explain_session;
mod facts;
mod generic_plans;
mod monitor;
mod observation_log;
mod plans;
mod probe;
mod probe_connection;
mod secrets;
mod starting_point;

pub use evidence::evidence;
pub use example_sets::{StatementExamples, example_sets};
pub use examples::{Example, examples};
pub use explain_session::ExplainSession;
pub use facts::{DATABASES_MAX, INDEXES_MAX, Limits, RELATIONS_MAX, facts, facts_with_limits};
pub use generic_plans::{generic_plans, prepared_call};
pub use monitor::{DEFAULT_SAMPLE_RATE_HZ, Monitor, MonitorOptions, MonitorScope, ProbeStatus};
pub use observation_log::{LatestActivity, RunTime};
pub use plans::{PLANS_MAX, PLANS_TIME, PlanResults, plans};
pub use probe::locks::WEAK_MODES;
pub use secrets::may_be_secret;
pub use starting_point::{SnapshotHold, database_state, starting_point};
