//! What is in a workload, and how one run went.
//!
//! [`Inspection::collect`] reads a workload, [`Summary::collect`] a run, and [`DivergenceFinder`] finds where a run did
//! not do what the capture did. Each input is read once, from its start to its end; memory is bounded by the number of
//! fingerprints.

mod divergence;
mod explanation;
mod inspect;
mod summary;

pub use divergence::{
    Difference, DifferenceKind, Divergence, DivergenceFinder, DivergenceVerdict, ErrorExplanation,
    FirstSeen, RowsDifference,
};
pub use inspect::{
    Breakdown, CallExample, Checkpoints, CodeCount, DURATION_BOUNDS_US, DurationBin, Durations,
    ErrorCount, Inspection, Literal, LongestWait, MOMENTS_MAX, Moment, NOTABLE_MAX, NameTotals,
    Notable, OverTime, STATEMENT_STRETCHES, ServerActivity, SessionCounts, StatementOrder,
    StatementStats, Stretch, TableUpkeep, Totals,
};
pub use summary::{ErrorExample, ErrorsVersusCapture, SESSION_LAG_NOTABLE_NS, Summary};
