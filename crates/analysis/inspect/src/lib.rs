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
    DURATION_BOUNDS_US, DurationBin, Durations, ErrorCount, HostTotals, Inspection,
    LOCK_EXAMPLES_MAX, Literal, LockExample, LockMode, LockWaits, LockedObject, LongestWait,
    MESSAGE_EXAMPLES_MAX, MESSAGE_PATTERNS_MAX, MessageExample, MessagePattern, NOTABLE_MAX,
    NameTotals, Notable, OverTime, ProtocolSteps, STATEMENT_STRETCHES, ServerActivity,
    ServerMessages, SessionCounts, SessionLengths, StatementOrder, StatementStats, Stretch,
    TEMPORARY_FILE_STATEMENTS_MAX, TIME_BUCKETS_MAX, TableUpkeep, TemporaryFiles, TimeBucket,
    Totals,
};
pub use summary::{ErrorExample, ErrorsVersusCapture, SESSION_LAG_NOTABLE_NS, Summary};
