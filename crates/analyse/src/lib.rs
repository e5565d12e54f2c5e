//! What workloads and runs say, in numbers.
//!
//! The entry points, one for each thing that can be asked:
//!
//! - [`Inspection::collect`]: what is in a workload;
//! - [`Summary::collect`]: how one run went, and [`DivergenceFinder`] beside it: where it did not do
//!   what the capture did;
//! - [`RunProfile::collect`] for each of two runs, then [`compare`]: what became slower, faster,
//!   or failed, and how sure that is.
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

mod arrivals;
mod bootstrap;
mod caution;
mod compare;
mod divergence;
mod error_change;
mod histogram;
mod inspect;
mod judgement;
mod landmarks;
mod profile;
pub mod quantile;
mod random;
mod rows_change;
mod series;
mod summary;
mod timeline;

pub use arrivals::{ARRIVAL_BUCKETS_MAX, Arrivals};
pub use bootstrap::{INTERVAL_LEVEL_PERCENT, Interval, RESAMPLES, Ratio};
pub use caution::{Caution, Side, TOOL_LAG_P99_HIGH_NS};
pub use compare::{
    CompareOptions, Comparison, NOTICEABLE_CALL_NS, NOTICEABLE_CALL_NS_MIN, NOTICEABLE_SHARE,
    RunFacts, StatementComparison, TimesComparison, Verdict, compare,
};
pub use divergence::{
    Difference, DifferenceKind, Divergence, DivergenceFinder, FirstSeen, RowsDifference,
};
pub use error_change::{ERROR_TEST_LEVEL, ErrorChange, ErrorDirection};
pub use histogram::Histogram;
pub use inspect::{
    Breakdown, CallExample, Checkpoints, DURATION_BOUNDS_US, DurationBin, Durations, ErrorCount,
    Inspection, Literal, LongestWait, MOMENTS_MAX, Moment, NOTABLE_MAX, Notable, OverTime,
    STATEMENT_STRETCHES, ServerActivity, SessionCounts, StatementStats, Stretch, TableUpkeep,
    Totals,
};
pub use judgement::{
    CALLS_MIN, CALLS_P99_MIN, Finding, Lack, MARGIN_DEFAULT, Measure, STRETCHES_MIN,
};
pub use landmarks::Landmarks;
pub use profile::RunProfile;
pub use rows_change::{RowsChange, RowsComparison};
pub use series::SAMPLES_MAX;
pub use summary::{ErrorExample, ErrorsVersusCapture, SESSION_LAG_NOTABLE_NS, Summary};
pub use timeline::STRETCHES_MAX;
