//! Compares two sides of runs: statements that became slower, faster or failed, with confidence
//! levels.
//!
//! - Build [`RunStats::collect`] for each run of both sides, then call [`compare()`].
//! - [`targets::compare_targets`] finds other differences between the servers of two runs.
//! - [`condition`] evaluates conditions on a comparison, which decide an exit code.
//! - [`proof`] decides whether a change wins, from replays in blocks, and schedules the interim
//!   looks.
//! - [`shadow`] compares the captured and the replayed executions of a run that is being written.
//! - [`sweep`] estimates the results of an experiment at several levels of load, and its knee.
//!
//! Each run is read once, from its start to its end. Memory is bounded by the number of
//! fingerprints (times a maximum number of samples), not by the number of executions. Randomness is
//! seeded, so that equal runs give equal results.

mod anomaly;
mod cause;
mod compare;
pub mod condition;
mod contexts;
mod created_object;
mod details;
mod differing_columns;
mod differing_executions;
mod error_change;
mod error_count;
mod error_key;
mod error_origin;
mod example_row;
mod judgement;
mod missing_object;
mod observation_unit;
mod over_time;
pub mod proof;
mod read_only_refusals;
mod root_error;
mod row_checksums;
mod rows_change;
mod rows_reason;
mod run_stats;
mod server_dependence;
pub mod shadow;
mod side;
mod slowest;
mod statement_role;
mod statement_stats;
pub mod sweep;
pub mod targets;
mod warning;
mod work;

pub use anomaly::{Anomaly, BURST_SHARE, HEAVY_TAIL_SHARE, TREND_FACTOR, WARM_UP_FACTOR};
pub use cause::{
    COMMON_NOTICEABLE, CommonChange, Direction, Evidence, NOTICEABLE_CALL_NS,
    NOTICEABLE_CALL_NS_MIN, NOTICEABLE_SHARE, StatementChange, TIME_FACTOR,
};
pub use compare::{
    CompareOptions, Comparison, ContextComparison, ContextStatement, ContextsComparison,
    InconclusiveReason, Noise, NoiseSource, Pairing, RunFacts, Runs, SideFacts,
    StatementComparison, TimesComparison, Verdict, compare,
};
pub use contexts::{ContextGrouper, compare_contexts};
pub use details::{BINS_PER_DECADE, DETAILED_MAX, Details};
pub use differing_columns::{ColumnChange, ColumnPairs};
pub use differing_executions::{CountBound, DifferingExecutions, ExecutionPairs, ExecutionPlace};
pub use error_change::{ERROR_TEST_LEVEL, ErrorChange};
pub use error_count::ErrorDirection;
pub use error_origin::ErrorOrigin;
pub use example_row::{RowExample, ValueChange, ValueDifference};
pub use judgement::{
    CALLS_MIN, CALLS_P99_MIN, Finding, InsufficientData, MARGIN_DEFAULT, STRETCHES_MIN,
};
pub use observation_unit::ObservationUnit;
pub use over_time::{ComparedOverTime, SideStretch, StretchTimes};
pub use rows_change::{IgnoredColumn, RowsChange, RowsComparison};
pub use rows_reason::RowsReason;
pub use run_stats::{RunStats, StatementNumbers};
pub use server_dependence::{ServerDependence, server_dependence};
pub use side::Side;
pub use slowest::{SLOWEST_MAX, SlowExecution};
pub use statement_role::StatementRole;
pub use warning::{MachineLoadPercent, TOOL_LAG_P99_HIGH_NS, Warning, WhichRun};
pub use work::{TypicalRuns, WORK_FACTOR, WorkChange, WorkComparison, WorkCounter, WorkPerCall};
