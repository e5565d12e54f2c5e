//! What a log is good for, in sentences: each has its number, what it means, and what to set.

use capture::log::{Extent, Finding, Fitness, Use};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::amount::{count, counted, duration, percent};

/// What a log is good for.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FitnessView {
    /// `yes`, `partly` or `no` for each use, with the numbers.
    pub uses: Vec<FitnessUseView>,
    /// What is missing, what matters most first.
    pub findings: Vec<FindingView>,
    /// Statements in the log.
    pub statements: u64,
    /// Those that can be replayed as they were.
    pub replayable: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those whose duration is known.
    pub timed: u64,
    /// Sessions in the log.
    pub sessions: u64,
    /// Those whose beginning and end are in it.
    pub whole_sessions: u64,
    /// Those that began before it.
    pub sessions_before: u64,
    /// Values of parameters in it.
    pub values: u64,
    /// Those of them that were cut.
    pub values_cut: u64,
}

/// How far a log is good for something.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FitnessUseView {
    /// `replay`, `latencies`, `pacing`, `sessions` or `failures`.
    #[serde(rename = "use")]
    pub name: String,
    /// `yes`, `partly` or `no`.
    pub extent: String,
    /// The numbers, in words.
    pub says: String,
}

/// Something that a log does not show.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FindingView {
    /// A name that stays: `slow_only`, `values_cut`.
    pub finding: String,
    /// The use that suffers.
    pub about: String,
    /// A sentence.
    pub says: String,
    /// What to set before the next log is written.
    pub settings: Vec<AdviceView>,
}

/// A setting and the value to give it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AdviceView {
    /// Its name.
    pub name: String,
    /// The value, not quoted.
    pub value: String,
}

impl From<&Fitness> for FitnessView {
    fn from(fitness: &Fitness) -> Self {
        let tallies = &fitness.tallies;
        let uses = &fitness.uses;
        let all = [
            (Use::Replay, uses.replay),
            (Use::Latencies, uses.latencies),
            (Use::Pacing, uses.pacing),
            (Use::Sessions, uses.sessions),
            (Use::Failures, uses.failures),
        ];
        FitnessView {
            uses: all
                .into_iter()
                .map(|(of, extent)| FitnessUseView {
                    name: use_name(of).to_owned(),
                    extent: extent_name(extent).to_owned(),
                    says: numbers(of, fitness),
                })
                .collect(),
            findings: fitness.findings.iter().map(finding).collect(),
            statements: tallies.statements,
            replayable: tallies.replayable(),
            failed: tallies.failed,
            timed: tallies.timed,
            sessions: tallies.sessions,
            whole_sessions: tallies.whole,
            sessions_before: tallies.sessions - tallies.begun,
            values: tallies.values,
            values_cut: tallies.values_cut,
        }
    }
}

fn use_name(of: Use) -> &'static str {
    match of {
        Use::Replay => "replay",
        Use::Latencies => "latencies",
        Use::Pacing => "pacing",
        Use::Sessions => "sessions",
        Use::Failures => "failures",
    }
}

fn extent_name(extent: Extent) -> &'static str {
    match extent {
        Extent::Yes => "yes",
        Extent::Partly => "partly",
        Extent::No => "no",
    }
}

/// `17 of 20 (85.0 %)`
fn share(part: u64, of: u64) -> String {
    format!(
        "{} of {} ({})",
        count(part),
        count(of),
        percent(part as f64, of as f64)
    )
}

fn numbers(of: Use, fitness: &Fitness) -> String {
    let tallies = &fitness.tallies;
    match of {
        Use::Replay if tallies.statements == 0 => "it holds no statement".to_owned(),
        Use::Replay => format!(
            "{} statements in it can be sent again as they were{}",
            share(tallies.replayable(), tallies.statements),
            match fitness.findings.iter().any(Finding::hides_statements) {
                true => "; others are missing",
                false => "",
            }
        ),
        Use::Latencies if tallies.succeeded() == 0 => "no statement succeeded".to_owned(),
        Use::Latencies => format!(
            "durations are known for {} that succeeded{}",
            share(tallies.timed, tallies.succeeded()),
            match fitness.uses.latencies {
                Extent::Partly if tallies.timed == tallies.succeeded() => "; others are missing",
                _ => "",
            }
        ),
        Use::Pacing => match fitness.uses.pacing {
            Extent::Yes => "times to the millisecond".to_owned(),
            Extent::Partly => "times to the second".to_owned(),
            Extent::No => "it holds no statement".to_owned(),
        },
        Use::Sessions if tallies.sessions == 0 => "it holds no session".to_owned(),
        Use::Sessions => format!(
            "{} begin and end in it",
            share(tallies.whole, tallies.sessions)
        ),
        Use::Failures if tallies.statements == 0 => "it holds no statement".to_owned(),
        Use::Failures if tallies.failed == 0 => "no statement in it failed".to_owned(),
        Use::Failures => format!(
            "{} failures have their error code",
            share(tallies.failed - tallies.uncoded, tallies.failed)
        ),
    }
}

fn finding(finding: &Finding) -> FindingView {
    let (name, says) = says(finding);
    FindingView {
        finding: name.to_owned(),
        about: use_name(finding.about()).to_owned(),
        says,
        settings: finding
            .settings()
            .iter()
            .map(|(name, value)| AdviceView {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
    }
}

fn lines_of(lines: u64) -> String {
    counted(lines, "line")
}

fn says(finding: &Finding) -> (&'static str, String) {
    match *finding {
        Finding::NoStatements => (
            "no_statements",
            "The log holds no statement, so there is nothing to replay; statements were not logged while it was written".to_owned(),
        ),
        Finding::OnlyFailures { failed } => (
            "only_failures",
            format!(
                "The log holds only {}; those that succeeded were not logged, so that a replay would only fail",
                counted(failed, "failed statement")
            ),
        ),
        Finding::DurationsWithoutStatement { lines } => (
            "durations_without_statement",
            format!(
                "{} a duration and no statement (log_duration writes such), up to three for one statement; what was executed there is not known",
                match lines {
                    1 => "1 line has".to_owned(),
                    lines => format!("{} lines have", count(lines)),
                }
            ),
        ),
        Finding::SlowOnly {
            shortest_us,
            statements,
        } => (
            "slow_only",
            format!(
                "None of {} took less than {}, so the log probably holds slow statements alone: a replay leaves the short ones out, and with them most of the load and often the BEGIN or SET that the others need",
                counted(statements, "timed statement"),
                duration(shortest_us as f64)
            ),
        ),
        Finding::WritesOnly { statements } => (
            "writes_only",
            format!(
                "None of {} logged at their start reads, so log_statement is probably ddl or mod: a replay leaves all reads out",
                counted(statements, "statement")
            ),
        ),
        Finding::Gaps {
            unmatched,
            boundaries,
        } => (
            "gaps",
            format!(
                "{} transaction beginnings and ends do not match, so statements are missing between them: a sample was logged, or some roles or databases log less",
                share(unmatched, boundaries)
            ),
        ),
        Finding::ValuesMissing { statements, of } => (
            "values_missing",
            format!(
                "{} executions with parameters have no values, and a replay skips them",
                share(statements, of)
            ),
        ),
        Finding::ValuesMissingOnFailure { statements } => (
            "values_missing_on_failure",
            format!(
                "{} parameters without values, and a replay skips them",
                match statements {
                    1 => "1 failed statement has".to_owned(),
                    statements => format!("{} failed statements have", count(statements)),
                }
            ),
        ),
        Finding::ValuesCut {
            statements,
            of,
            values,
            of_values,
        } => (
            "values_cut",
            format!(
                "{} values of parameters are cut, in {} executions; a replay skips these",
                share(values, of_values),
                share(statements, of)
            ),
        ),
        Finding::CopyData { statements } => (
            "copy_data",
            format!(
                "The data of {} is in no log, and a replay skips them: rows that they loaded are missing, unless the target has them already",
                counted(statements, "COPY … FROM STDIN command")
            ),
        ),
        Finding::FastPath { lines } => (
            "fast_path",
            format!(
                "{} fast-path function calls, whose arguments are in no log; a replay leaves them out",
                match lines {
                    1 => "1 line is of".to_owned(),
                    lines => format!("{} lines are of", count(lines)),
                }
            ),
        ),
        Finding::Fetches { statements } => (
            "fetches",
            format!(
                "{} left out: a replay fetches all rows of a portal at the first",
                match statements {
                    1 => "1 further fetch is".to_owned(),
                    statements => format!("{} further fetches are", count(statements)),
                }
            ),
        ),
        Finding::Refused { statements } => (
            "refused",
            format!(
                "{} refused because their transaction had failed before, and no setting brings their parameters into a log; a replay skips them",
                match statements {
                    1 => "1 statement was".to_owned(),
                    statements => format!("{} statements were", count(statements)),
                }
            ),
        ),
        Finding::ErrorsWithoutStatement { errors } => (
            "errors_without_statement",
            format!(
                "{} without a statement, so that what failed is not known and not replayed",
                match errors {
                    1 => "1 error stands".to_owned(),
                    errors => format!("{} errors stand", count(errors)),
                }
            ),
        ),
        Finding::Translated { lines } => (
            "translated",
            format!(
                "{} in another language and could not be read; their statements are missing",
                are(lines)
            ),
        ),
        Finding::OtherEncoding { lines } => (
            "other_encoding",
            format!(
                "{} not in UTF-8 and could not be read; the statements of databases with another encoding are missing",
                are(lines)
            ),
        ),
        Finding::Interleaved { lines } => (
            "interleaved",
            format!(
                "{} torn from the message that they belong to, as where several processes write one file: parameters and statements may be missing",
                are(lines)
            ),
        ),
        Finding::RateLimited { lines } => (
            "rate_limited",
            format!(
                "{} of the log daemon's say that it dropped messages; let the server write its own files, or lift the daemon's limit (RateLimitBurst=0 of systemd-journald, imuxsock's rate limit of rsyslog)",
                lines_of(lines)
            ),
        ),
        Finding::Unreadable { lines, of } => (
            "unreadable",
            format!(
                "{} lines could not be read; if statements stand there, a replay lacks them (where the log_line_prefix was changed within a file, capture its parts apart)",
                share(lines, of)
            ),
        ),
        Finding::DurationsUnknown { statements, of } => (
            "durations_unknown",
            format!(
                "{} statements that succeeded have no duration: they are replayed, but cannot be compared with the capture",
                share(statements, of)
            ),
        ),
        Finding::WholeSeconds => (
            "whole_seconds",
            "Times have whole seconds: statements of different sessions within a second are replayed in an order and with pauses that are not theirs".to_owned(),
        ),
        Finding::NoBeginnings { sessions } => (
            "no_beginnings",
            format!(
                "None of its sessions ({}) begins in the log: each starts at its first statement, and what it had set or prepared before is not known",
                count(sessions)
            ),
        ),
        Finding::BeganBefore { sessions, of } => (
            "began_before",
            format!(
                "{} sessions began before the log: what they had set or prepared is not known; a longer log, or one from a restart of the clients on, has more of them whole",
                share(sessions, of)
            ),
        ),
        Finding::NoEnds { sessions } => (
            "no_ends",
            format!(
                "None of its sessions ({}) ends in the log: a replay keeps each open until everything is done",
                count(sessions)
            ),
        ),
        Finding::StillOpen { sessions, of } => (
            "still_open",
            format!(
                "{} sessions have no end in the log: they were still open when it ended; a replay closes them when everything is done",
                share(sessions, of)
            ),
        ),
        Finding::Nameless { sessions, of } => (
            "nameless",
            format!(
                "{} sessions have neither role nor database: a replay connects them as the target's URL says, and no filter can choose them",
                share(sessions, of)
            ),
        ),
        Finding::SessionsByProcess => (
            "sessions_by_process",
            "Sessions can be told apart by process number alone: two that had the same number one after the other may count as one".to_owned(),
        ),
        Finding::Uncoded { failures, of } => (
            "uncoded",
            format!(
                "{} failures have no error code: a comparison sees that they failed, but not whether a replay fails in the same way",
                share(failures, of)
            ),
        ),
    }
}

fn are(lines: u64) -> String {
    match lines {
        1 => "1 line is".to_owned(),
        lines => format!("{} lines are", count(lines)),
    }
}
