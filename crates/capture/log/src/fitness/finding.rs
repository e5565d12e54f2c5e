//! Defines the deficiencies of a log: the affected use, and the settings that help. The parent
//! module has the rules that find them, the report has the sentences.

use schemars::JsonSchema;
use serde::Serialize;

use super::LogUse;
use crate::settings::LINE_PREFIX;

/// A deficiency of the log. Counts are of statements, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// The log has no statement.
    NoStatements,
    /// Statements that succeeded were not logged.
    OnlyFailures {
        /// Number of failed statements.
        failed: u64,
    },
    /// `log_duration` without the statements.
    DurationsWithoutStatement {
        /// Number of lines with a bare duration; up to three a statement.
        lines: u64,
    },
    /// No statement is short: `log_min_duration_statement` is probably above 0.
    SlowOnly {
        /// The shortest duration, in microseconds.
        shortest_us: u64,
        /// Number of statements.
        statements: u64,
    },
    /// No statement logged at its start reads: `log_statement` is `ddl` or `mod`.
    WritesOnly {
        /// Number of statements.
        statements: u64,
    },
    /// Transactions end without a beginning, or begin within another: statements are missing.
    Gaps {
        /// Number of unmatched ends and beginnings.
        unmatched: u64,
        /// Number of all ends and beginnings.
        boundaries: u64,
    },
    /// Parameters without values, in statements that succeeded.
    ValuesMissing {
        /// Number of statements.
        statements: u64,
        /// Number of all executions with parameters.
        of: u64,
    },
    /// Parameters without values, in statements that failed.
    ValuesMissingOnFailure {
        /// Number of statements.
        statements: u64,
    },
    /// Values that were truncated.
    ValuesCut {
        /// Number of statements with such a value.
        statements: u64,
        /// Number of all executions with logged values.
        of: u64,
        /// Number of truncated values.
        values: u64,
        /// Number of all values.
        of_values: u64,
    },
    /// Statements of which the log holds only a part.
    StatementsCut {
        /// Number of such statements.
        statements: u64,
        /// Number of all statements.
        of: u64,
    },
    /// `COPY … FROM STDIN`, whose data no log has.
    CopyData {
        /// Number of statements.
        statements: u64,
    },
    /// Calls of functions by the old protocol, whose arguments no log has.
    FastPath {
        /// Number of lines.
        lines: u64,
    },
    /// Further fetches from a portal: a replay fetches all rows at the first one.
    Fetches {
        /// Number of statements.
        statements: u64,
    },
    /// Statements that were refused because their transaction had failed. No setting logs their
    /// values.
    Refused {
        /// Number of statements.
        statements: u64,
    },
    /// Statements that failed in Bind, whose values no setting logs.
    BindFailed {
        /// Number of statements.
        statements: u64,
    },
    /// Statements that an error in their pipeline undid.
    RolledBack {
        /// Number of statements.
        statements: u64,
    },
    /// Statements that an error directly after them may have undone.
    FateUnknown {
        /// Number of statements.
        statements: u64,
    },
    /// Statements of failed pipelines that were too long; a replay commits them.
    FateLost {
        /// Number of statements.
        statements: u64,
    },
    /// Statements that pgAudit numbered and did not log.
    AuditGaps {
        /// Number of such statements.
        statements: u64,
        /// Number of all that it numbered.
        of: u64,
    },
    /// Errors of sessions whose statements were not logged.
    ErrorsWithoutStatement {
        /// Number of errors.
        errors: u64,
    },
    /// Lines in another language.
    Translated {
        /// Number of lines.
        lines: u64,
    },
    /// Lines in an encoding other than UTF-8.
    OtherEncoding {
        /// Number of lines.
        lines: u64,
    },
    /// Lines with two readings, since a name that a client chose contains text like the log's own.
    Ambiguous {
        /// Number of lines.
        lines: u64,
    },
    /// Lines separated from their message, for example because processes write into one file at
    /// once.
    Interleaved {
        /// Number of lines.
        lines: u64,
    },
    /// A log daemon reports that it dropped lines.
    RateLimited {
        /// Number of such reports.
        lines: u64,
    },
    /// Other lines that could not be read.
    Unreadable {
        /// Number of lines.
        lines: u64,
        /// Number of all lines.
        of: u64,
    },
    /// Statements that succeeded with an unknown duration.
    DurationsUnknown {
        /// Number of statements.
        statements: u64,
        /// Number of all statements that succeeded.
        of: u64,
    },
    /// Times without milliseconds.
    WholeSeconds,
    /// The log has no session's beginning.
    NoBeginnings {
        /// Number of sessions.
        sessions: u64,
    },
    /// Some sessions' beginning is missing.
    BeganBefore {
        /// Number of such sessions.
        sessions: u64,
        /// Number of all sessions.
        of: u64,
    },
    /// The log has no session's end.
    NoEnds {
        /// Number of sessions.
        sessions: u64,
    },
    /// Some sessions' end is missing.
    StillOpen {
        /// Number of such sessions.
        sessions: u64,
        /// Number of all sessions.
        of: u64,
    },
    /// Sessions with unknown role and database.
    Nameless {
        /// Number of such sessions.
        sessions: u64,
        /// Number of all sessions.
        of: u64,
    },
    /// Sessions are identified by process numbers only, which are reused.
    SessionsByProcess,
    /// Failures without SQLSTATE.
    Uncoded {
        /// Number of such failures.
        failures: u64,
        /// Number of all failures.
        of: u64,
    },
}

/// A setting and its recommended value.
pub type Advice = (&'static str, &'static str);

const PREFIX: Advice = ("log_line_prefix", LINE_PREFIX);
const CSVLOG: Advice = ("log_destination", "csvlog");
const EVERY_STATEMENT: Advice = ("log_min_duration_statement", "0");

impl Finding {
    /// Returns the affected use.
    pub fn about(&self) -> LogUse {
        match self {
            Finding::DurationsUnknown { .. } => LogUse::Latencies,
            Finding::WholeSeconds => LogUse::Pacing,
            Finding::NoBeginnings { .. }
            | Finding::BeganBefore { .. }
            | Finding::NoEnds { .. }
            | Finding::StillOpen { .. }
            | Finding::Nameless { .. }
            | Finding::SessionsByProcess => LogUse::Sessions,
            Finding::Uncoded { .. } | Finding::ErrorsWithoutStatement { .. } => LogUse::Failures,
            _ => LogUse::Replay,
        }
    }

    /// Returns whether it concerns statements that need not be replayed.
    pub fn is_harmless(&self) -> bool {
        matches!(
            self,
            Finding::Fetches { .. }
                | Finding::Refused { .. }
                | Finding::BindFailed { .. }
                | Finding::RolledBack { .. }
        )
    }

    /// Returns whether statements were executed that the log does not have.
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
                | AuditGaps { .. }
                | ErrorsWithoutStatement { .. }
                | Translated { .. }
                | OtherEncoding { .. }
                | RateLimited { .. }
                | Interleaved { .. }
                | Ambiguous { .. }
                | Unreadable { .. }
        )
    }

    /// Settings with which the next log shows it; empty if no setting helps.
    pub fn settings(&self) -> &'static [Advice] {
        match self {
            Finding::NoStatements
            | Finding::OnlyFailures { .. }
            | Finding::SlowOnly { .. }
            | Finding::WritesOnly { .. }
            | Finding::Gaps { .. }
            | Finding::AuditGaps { .. } => &[EVERY_STATEMENT],
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
            Finding::FateUnknown { .. } => {
                &[("logging_collector", "on"), ("log_destination", "csvlog")]
            }
            Finding::Translated { .. } => &[("lc_messages", "C")],
            Finding::Interleaved { .. } | Finding::RateLimited { .. } => {
                &[("logging_collector", "on")]
            }
            Finding::WholeSeconds | Finding::SessionsByProcess | Finding::Uncoded { .. } => {
                &[PREFIX]
            }
            Finding::Ambiguous { .. } => &[CSVLOG, ("log_connections", "on")],
            Finding::NoBeginnings { .. } => &[("log_connections", "on")],
            Finding::NoEnds { .. } => &[("log_disconnections", "on")],
            Finding::Nameless { .. } => &[CSVLOG, ("log_connections", "on")],
            Finding::StatementsCut { .. }
            | Finding::CopyData { .. }
            | Finding::FastPath { .. }
            | Finding::Fetches { .. }
            | Finding::Refused { .. }
            | Finding::BindFailed { .. }
            | Finding::RolledBack { .. }
            | Finding::FateLost { .. }
            | Finding::OtherEncoding { .. }
            | Finding::Unreadable { .. }
            | Finding::BeganBefore { .. }
            | Finding::StillOpen { .. } => &[],
        }
    }
}
