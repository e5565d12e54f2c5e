//! What workloads and runs say, in numbers.
//!
//! The entry points, one for each thing that can be asked:
//!
//! - [`Inspection::collect`]: what is in a workload;
//! - [`Summary::collect`]: how one run went, and [`DivergenceFinder`] beside it: where it did not do
//!   what the capture did;
//! - [`RunProfile::collect`] for each run of two sides, then [`compare()`]: what became slower,
//!   faster, or failed, and how sure that is;
//! - [`targets::compare_targets`] and [`plan::compare_plans`]: what else is different between the
//!   servers of two runs, and in how they carry a statement out;
//! - [`diagnose`]: what is wrong, what fixing it can win at most, and what would fix it;
//! - [`phases`]: what the processor time of a profile was for;
//! - [`observed::ObservedSum`]: what was seen of a server while it was watched;
//! - [`proof`]: whether a change wins, from replays in blocks, and when that may be judged;
//! - [`sweep`]: what an experiment with several levels of load says, and where its knee is;
//! - [`time_model::time_model`]: where the time of a run went, from what was observed;
//! - [`waiting::Waiting`]: what sessions waited for, and in which statements.
//!
//! Who drives: the program opens the artefacts and hands their iterators in; each is read once,
//! from its start to its end, and an error of the iterator ends the reading and is handed back as
//! it is. Memory is bounded by the number of fingerprints (times a cap on samples), never by the
//! number of executions.
//!
//! All times are nanoseconds unless a name says otherwise. All quantiles are nearest rank
//! (see [`quantile`]). Randomness is seeded, so that the same runs always give the same answer.
//!
//! Deliberately absent: reading and writing, clocks, printing, and words for people (the crate
//! `report` has them).

mod anomaly;
mod arrivals;
mod between_runs;
mod blocks;
mod bootstrap;
mod compare;
pub mod condition;
mod details;
pub mod diagnose;
mod discovery;
mod divergence;
mod error_change;
mod exchange;
mod explanation;
mod histogram;
mod inspect;
mod judgement;
mod latency_summary;
pub mod observed;
mod over_time;
pub mod phases;
pub mod plan;
mod profile;
pub mod proof;
pub mod quantile;
mod random;
mod redaction;
mod rows_change;
mod sampling;
mod series;
mod slowest;
mod summary;
pub mod sweep;
pub mod targets;
pub mod time_model;
mod timeline;
mod tracked;
mod trend;
pub mod waiting;
mod warning;

pub use anomaly::{Anomaly, BURST_SHARE, HEAVY_TAIL_SHARE, TREND_FACTOR, WARM_UP_FACTOR};
pub use arrivals::{ARRIVAL_BUCKETS_MAX, Arrivals};
pub use bootstrap::{INTERVAL_LEVEL_PERCENT, Interval, RESAMPLES, Ratio};
pub use compare::{
    CompareOptions, Comparison, NOTICEABLE_CALL_NS, NOTICEABLE_CALL_NS_MIN, NOTICEABLE_SHARE,
    Noise, NoiseSource, RunFacts, Runs, SideFacts, StatementComparison, TimesComparison, Verdict,
    compare,
};
pub use details::{BINS_PER_DECADE, DETAILED_MAX, Details};
pub use discovery::FALSE_DISCOVERY_RATE;
pub use divergence::{
    Difference, DifferenceKind, Divergence, DivergenceFinder, DivergenceVerdict, ErrorExplanation,
    FirstSeen, RowsDifference,
};
pub use error_change::{ERROR_TEST_LEVEL, ErrorChange, ErrorDirection};
pub use histogram::Histogram;
pub use inspect::{
    Breakdown, CallExample, Checkpoints, CodeCount, DURATION_BOUNDS_US, DurationBin, Durations,
    ErrorCount, Inspection, Literal, LongestWait, MOMENTS_MAX, Moment, NOTABLE_MAX, NameTotals,
    Notable, OverTime, STATEMENT_STRETCHES, ServerActivity, SessionCounts, StatementOrder,
    StatementStats, Stretch, TableUpkeep, Totals,
};
pub use judgement::{
    CALLS_MIN, CALLS_P99_MIN, Finding, InsufficientData, MARGIN_DEFAULT, Measure, STRETCHES_MIN,
};
pub use latency_summary::LatencySummary;
pub use over_time::{ComparedOverTime, SideStretch, StretchTimes};
pub use profile::RunProfile;
pub use random::SplitMix64;
pub use redaction::{Literals, redact_message};
pub use rows_change::{RowsChange, RowsComparison};
pub use series::SAMPLES_MAX;
pub use slowest::{SLOWEST_MAX, SlowExecution};
pub use summary::{ErrorExample, ErrorsVersusCapture, SESSION_LAG_NOTABLE_NS, Summary};
pub use timeline::STRETCHES_MAX;
pub use warning::{Side, TOOL_LAG_P99_HIGH_NS, Warning, WhichRun};
