//! Two sides of runs compared: what became slower, faster, or failed, and how sure that is.
//!
//! - [`RunProfile::collect`] for each run of two sides, then [`compare()`];
//! - [`targets::compare_targets`]: what else is different between the servers of two runs;
//! - [`condition`]: conditions on a comparison that decide an exit code;
//! - [`proof`]: whether a change wins, from replays in blocks, and when that may be judged;
//! - [`sweep`]: what an experiment with several levels of load says, and where its knee is.
//!
//! Each run is read once, from its start to its end. Memory is bounded by the number of fingerprints (times a cap on
//! samples), never by the number of executions. Randomness is seeded, so that the same runs always give the same answer.

mod anomaly;
mod compare;
pub mod condition;
mod details;
mod error_change;
mod judgement;
mod over_time;
mod profile;
pub mod proof;
mod rows_change;
mod slowest;
pub mod sweep;
pub mod targets;
mod tracked;
mod warning;

pub use anomaly::{Anomaly, BURST_SHARE, HEAVY_TAIL_SHARE, TREND_FACTOR, WARM_UP_FACTOR};
pub use compare::{
    CompareOptions, Comparison, NOTICEABLE_CALL_NS, NOTICEABLE_CALL_NS_MIN, NOTICEABLE_SHARE,
    Noise, NoiseSource, RunFacts, Runs, SideFacts, StatementComparison, TimesComparison, Verdict,
    compare,
};
pub use details::{BINS_PER_DECADE, DETAILED_MAX, Details};
pub use error_change::{ERROR_TEST_LEVEL, ErrorChange, ErrorDirection};
pub use judgement::{
    CALLS_MIN, CALLS_P99_MIN, Finding, InsufficientData, MARGIN_DEFAULT, STRETCHES_MIN,
};
pub use over_time::{ComparedOverTime, SideStretch, StretchTimes};
pub use profile::RunProfile;
pub use rows_change::{RowsChange, RowsComparison};
pub use slowest::{SLOWEST_MAX, SlowExecution};
pub use warning::{Side, TOOL_LAG_P99_HIGH_NS, Warning, WhichRun};
