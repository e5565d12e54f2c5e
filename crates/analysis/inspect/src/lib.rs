//! Summaries of workloads and of single runs.
//!
//! [`Inspection::collect`] reads a workload, [`Summary::collect`] reads a run, and
//! [`DivergenceFinder`] finds where a run diverged from its capture. Each input is read once, from
//! its start to its end. Memory is bounded by the number of fingerprints.

mod divergence;
mod divergence_roots;
mod explanation;
mod inspect;
mod summary;

pub use divergence::{
    Difference, DifferenceKind, Divergence, DivergenceFinder, DivergenceVerdict, ErrorExplanation,
    FirstDifference, RowsDifference,
};
pub use divergence_roots::DivergenceRoot;
pub use inspect::{
    Breakdown, CallExample, Checkpoints, CodeCount, ContextBreakdown, ContextExample, ContextStats,
    DURATION_BOUNDS_US, DurationBin, Durations, ErrorCount, Inspection, Literal, LongestWait,
    NOTABLE_MAX, NameTotals, Notable, OverTime, STATEMENT_STRETCHES, ServerActivity, SessionCounts,
    StatementOrder, StatementStats, Stretch, TIME_BUCKETS_MAX, TableUpkeep, TimeBucket, Totals,
};
pub use summary::{ErrorExample, ErrorsVersusCapture, SESSION_LAG_NOTABLE_NS, Summary};
