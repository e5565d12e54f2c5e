//! What a log may lack: which use suffers by it, and what to set. The rules that find it are the
//! parent's, the sentences the report's.

use schemars::JsonSchema;
use serde::Serialize;

use super::Use;
use crate::settings::LINE_PREFIX;

/// Something that the log does not show. Counts are of statements, unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// It holds no statement at all.
    NoStatements,
    /// The statements that succeeded were not logged.
    OnlyFailures {
        /// Those that failed.
        failed: u64,
    },
    /// `log_duration` without the statements.
    DurationsWithoutStatement {
        /// Lines with a duration alone; up to three a statement.
        lines: u64,
    },
    /// None is short: `log_min_duration_statement` is probably above 0.
    SlowOnly {
        /// The shortest, in microseconds.
        shortest_us: u64,
        /// How many there are.
        statements: u64,
    },
    /// What was logged at its start holds no read: `log_statement` is `ddl` or `mod`.
    WritesOnly {
        /// How many there are.
        statements: u64,
    },
    /// Transactions end that did not begin, or begin within another: statements are missing.
    Gaps {
        /// Such ends and beginnings.
        unmatched: u64,
        /// All ends and beginnings.
        boundaries: u64,
    },
    /// Parameters without values, of statements that succeeded.
    ValuesMissing {
        /// How many.
        statements: u64,
        /// Of all executions with parameters.
        of: u64,
    },
    /// Parameters without values, of statements that failed.
    ValuesMissingOnFailure {
        /// How many.
        statements: u64,
    },
    /// Values that were cut short.
    ValuesCut {
        /// Statements with such a value.
        statements: u64,
        /// Of all executions whose values are there.
        of: u64,
        /// Such values.
        values: u64,
        /// Of all values.
        of_values: u64,
    },
    /// `COPY … FROM STDIN`, whose data no log holds.
    CopyData {
        /// How many.
        statements: u64,
    },
    /// Calls of functions by the old protocol, whose arguments no log holds.
    FastPath {
        /// Lines.
        lines: u64,
    },
    /// Further fetches from a portal: a replay fetches all rows at the first.
    Fetches {
        /// How many.
        statements: u64,
    },
    /// Statements that were refused because their transaction had failed, whose values no setting
    /// brings into the log.
    Refused {
        /// How many.
        statements: u64,
    },
    /// Errors of sessions whose statements were not logged.
    ErrorsWithoutStatement {
        /// How many.
        errors: u64,
    },
    /// Lines in another language.
    Translated {
        /// Lines.
        lines: u64,
    },
    /// Lines in another encoding than UTF-8.
    OtherEncoding {
        /// Lines.
        lines: u64,
    },
    /// Lines torn from what they belong to, as where processes write into one file at once.
    Interleaved {
        /// Lines.
        lines: u64,
    },
    /// A log daemon says that it dropped lines.
    RateLimited {
        /// Such lines.
        lines: u64,
    },
    /// Other lines that could not be read.
    Unreadable {
        /// Lines.
        lines: u64,
        /// Of all.
        of: u64,
    },
    /// Statements that succeeded and whose duration is not known.
    DurationsUnknown {
        /// How many.
        statements: u64,
        /// Of all that succeeded.
        of: u64,
    },
    /// Times without milliseconds.
    WholeSeconds,
    /// No session's beginning is in the log.
    NoBeginnings {
        /// Sessions.
        sessions: u64,
    },
    /// Some sessions' beginning is not in the log.
    BeganBefore {
        /// Such sessions.
        sessions: u64,
        /// Of all.
        of: u64,
    },
    /// No session's end is in the log.
    NoEnds {
        /// Sessions.
        sessions: u64,
    },
    /// Some sessions' end is not in the log.
    StillOpen {
        /// Such sessions.
        sessions: u64,
        /// Of all.
        of: u64,
    },
    /// Sessions whose role and database are not known.
    Nameless {
        /// Such sessions.
        sessions: u64,
        /// Of all.
        of: u64,
    },
    /// Sessions are told apart by process numbers, which come back.
    SessionsByProcess,
    /// Failures without SQLSTATE.
    Uncoded {
        /// Such failures.
        failures: u64,
        /// Of all.
        of: u64,
    },
}

/// A setting and the value to give it.
pub type Advice = (&'static str, &'static str);

const PREFIX: Advice = ("log_line_prefix", LINE_PREFIX);
const EVERY_STATEMENT: Advice = ("log_min_duration_statement", "0");

impl Finding {
    /// The use that suffers.
    pub fn about(&self) -> Use {
        match self {
            Finding::DurationsUnknown { .. } => Use::Latencies,
            Finding::WholeSeconds => Use::Pacing,
            Finding::NoBeginnings { .. }
            | Finding::BeganBefore { .. }
            | Finding::NoEnds { .. }
            | Finding::StillOpen { .. }
            | Finding::Nameless { .. }
            | Finding::SessionsByProcess => Use::Sessions,
            Finding::Uncoded { .. } | Finding::ErrorsWithoutStatement { .. } => Use::Failures,
            _ => Use::Replay,
        }
    }

    /// It is not replayed, and nothing is lost by that.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Finding::Fetches { .. } | Finding::Refused { .. })
    }

    /// Statements were executed that the log does not hold.
    pub fn hides_statements(&self) -> bool {
        use Finding::*;
        matches!(
            self,
            NoStatements
                | OnlyFailures { .. }
                | DurationsWithoutStatement { .. }
                | SlowOnly { .. }
                | WritesOnly { .. }
                | Gaps { .. }
                | ErrorsWithoutStatement { .. }
                | Translated { .. }
                | OtherEncoding { .. }
                | RateLimited { .. }
                | Interleaved { .. }
                | Unreadable { .. }
        )
    }

    /// What to set so that the next log shows it; empty where no setting helps.
    pub fn settings(&self) -> &'static [Advice] {
        match self {
            Finding::NoStatements
            | Finding::OnlyFailures { .. }
            | Finding::SlowOnly { .. }
            | Finding::WritesOnly { .. }
            | Finding::Gaps { .. } => &[EVERY_STATEMENT],
            Finding::DurationsWithoutStatement { .. } | Finding::DurationsUnknown { .. } => {
                &[EVERY_STATEMENT, ("log_statement", "none")]
            }
            Finding::ValuesMissing { .. } => &[
                ("log_parameter_max_length", "-1"),
                ("log_error_verbosity", "default"),
            ],
            Finding::ValuesMissingOnFailure { .. } => {
                &[("log_parameter_max_length_on_error", "-1")]
            }
            Finding::ValuesCut { .. } => &[
                ("log_parameter_max_length", "-1"),
                ("log_parameter_max_length_on_error", "-1"),
            ],
            Finding::ErrorsWithoutStatement { .. } => &[("log_min_error_statement", "error")],
            Finding::Translated { .. } => &[("lc_messages", "C")],
            Finding::Interleaved { .. } | Finding::RateLimited { .. } => {
                &[("logging_collector", "on")]
            }
            Finding::WholeSeconds | Finding::SessionsByProcess | Finding::Uncoded { .. } => {
                &[PREFIX]
            }
            Finding::NoBeginnings { .. } => &[("log_connections", "on")],
            Finding::NoEnds { .. } => &[("log_disconnections", "on")],
            Finding::Nameless { .. } => &[PREFIX, ("log_connections", "on")],
            Finding::CopyData { .. }
            | Finding::FastPath { .. }
            | Finding::Fetches { .. }
            | Finding::Refused { .. }
            | Finding::OtherEncoding { .. }
            | Finding::Unreadable { .. }
            | Finding::BeganBefore { .. }
            | Finding::StillOpen { .. } => &[],
        }
    }
}
