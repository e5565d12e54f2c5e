//! Judges the quality of a log: whether it can be replayed, whether latencies are known, whether
//! sessions are whole, and which settings would improve it.
//!
//! It is a pure function of the account, so it also works on the account stored in a workload. The
//! caller runs it once the account is complete; the sentences for people are in the report. It does
//! not guess settings from typical servers. An inference from many statements (a threshold,
//! sampling) requires a minimum number of them.

mod finding;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::prefix::Prefix;
use super::quality_counters::QualityCounters;
use super::reconcile::{Reconciliation, SkipReason, UnreadableReason};

pub use finding::{Advice, Finding};

/// A purpose for which a log can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogUse {
    /// Sending the same statements again.
    Replay,
    /// Comparing a replay's latencies with those of the capture.
    Latencies,
    /// Sending statements with the original timing.
    Pacing,
    /// Connecting as the clients did, at the same times.
    Sessions,
    /// Comparing the failures of a replay with those of the capture.
    Failures,
}

/// Extent to which a log is suitable for a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// Wholly.
    Yes,
    /// Partly; a finding states what is missing.
    Partly,
    /// Not at all.
    No,
}

/// Extent for each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogUses {
    /// Sending the same statements again.
    pub replay: Extent,
    /// Comparing a replay's latencies with those of the capture.
    pub latencies: Extent,
    /// Sending statements with the original timing.
    pub pacing: Extent,
    /// Connecting as the clients did, at the same times.
    pub sessions: Extent,
    /// Comparing the failures of a replay with those of the capture.
    pub failures: Extent,
}

/// Pairs of a minimum number of statements and a minimum duration in microseconds: if none of that
/// number is shorter, a threshold is inferred. A session's BEGIN, SET or COMMIT and a look-up by
/// key take well under a millisecond, and one in ten statements is such a statement.
const SLOW_ONLY: [(u64, u64); 2] = [(100, 1_000), (10, 50_000)];

/// Minimum number of statements logged at their start, none of which reads, from which
/// `log_statement = mod` is inferred.
const WRITES_ONLY_MIN: u64 = 20;

/// Minimum number of transaction beginnings and ends, and percentage of them that must not match,
/// from which a gap is inferred. Unusual client behaviour (an extra COMMIT, several statements in
/// one message) stays below both.
const BOUNDARIES_MIN: u64 = 20;
const UNMATCHED_PERCENT: u64 = 10;

/// Percentage of statements whose duration must be known, so that missing durations do not decide
/// the 99th percentile.
const TIMED_PERCENT: u64 = 99;

/// Suitability of a log for a replay and other uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogQuality {
    /// Extent for each use.
    pub uses: LogUses,
    /// Statements that can be replayed as they were.
    pub replayable: u64,
    /// Deficiencies of the log, the most important first.
    #[serde(serialize_with = "serialize_with_settings")]
    #[schemars(with = "Vec<FindingWithSettings<'static>>")]
    pub findings: Vec<Finding>,
    /// Counts on which the judgement is based.
    #[serde(skip)]
    pub tallies: QualityCounters,
}

/// A finding as it is serialised.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
struct FindingWithSettings<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    /// The affected use.
    affects: LogUse,
    /// Settings, by name, with which the next log shows it.
    settings: BTreeMap<&'static str, &'static str>,
}

fn serialize_with_settings<S: Serializer>(findings: &[Finding], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(findings.iter().map(|finding| FindingWithSettings {
        finding,
        affects: finding.about(),
        settings: finding.settings().iter().copied().collect(),
    }))
}

impl LogQuality {
    /// Judges a log by the account of its capture.
    pub fn judge(account: &Reconciliation) -> Self {
        let tallies = account.tallies.clone();
        let mut findings = Vec::new();
        check_completeness(account, &mut findings);
        check_values(account, &mut findings);
        check_lines(account, &mut findings);
        check_times(&tallies, &mut findings);
        check_sessions(&tallies, &mut findings);
        let uses = rate_uses(&tallies, &findings);
        LogQuality {
            uses,
            replayable: tallies.replayable(),
            findings,
            tallies,
        }
    }
}

fn skipped(account: &Reconciliation, reason: SkipReason) -> u64 {
    account
        .skipped
        .get(&reason)
        .map_or(0, |skipped| skipped.lines)
}

fn unreadable(account: &Reconciliation, reason: UnreadableReason) -> u64 {
    let reasons = &account.unreadable.reasons;
    reasons.get(&reason).copied().unwrap_or(0)
}

/// Checks whether all statements are in the log.
fn check_completeness(account: &Reconciliation, findings: &mut Vec<Finding>) {
    let tallies = &account.tallies;
    let (statements, succeeded, timed) = (tallies.statements, tallies.succeeded(), tallies.timed);
    let bare = skipped(account, SkipReason::DurationWithoutStatement);
    // With log_statement = all, a bare duration belongs to a statement that is in the log.
    if bare > 0 && !tallies.reads_at_start {
        findings.push(Finding::DurationsWithoutStatement { lines: bare });
    } else if statements == 0 {
        findings.push(Finding::NoStatements);
    }
    if statements > 0 && succeeded == 0 {
        findings.push(Finding::OnlyFailures {
            failed: tallies.failed,
        });
    }
    if tallies.unaudited > 0 && tallies.audited > 0 {
        findings.push(Finding::AuditGaps {
            statements: tallies.unaudited,
            of: tallies.audited + tallies.unaudited,
        });
    }
    if tallies.reads_at_start {
        return;
    }
    let untimed = succeeded - timed;
    let shortest_us = tallies.shortest_us.unwrap_or(0);
    let slow = SLOW_ONLY
        .iter()
        .any(|(count, us)| timed >= *count && shortest_us >= *us);
    if slow && bare == 0 {
        findings.push(Finding::SlowOnly {
            shortest_us,
            statements: timed,
        });
    }
    let untimed = untimed.saturating_sub(tallies.audited);
    if untimed >= WRITES_ONLY_MIN && untimed > timed {
        findings.push(Finding::WritesOnly {
            statements: untimed,
        });
    }
    let (unmatched, boundaries) = (tallies.boundaries_unmatched, tallies.boundaries);
    let gaps = boundaries >= BOUNDARIES_MIN && unmatched * 100 >= boundaries * UNMATCHED_PERCENT;
    if gaps && findings.is_empty() {
        findings.push(Finding::Gaps {
            unmatched,
            boundaries,
        });
    }
}

/// Checks whether the statements have all their values.
fn check_values(account: &Reconciliation, findings: &mut Vec<Finding>) {
    let tallies = &account.tallies;
    if tallies.valueless > 0 {
        findings.push(Finding::ValuesMissing {
            statements: tallies.valueless,
            of: tallies.valueless + tallies.with_values,
        });
    }
    if tallies.valueless_failed > 0 {
        findings.push(Finding::ValuesMissingOnFailure {
            statements: tallies.valueless_failed,
        });
    }
    if tallies.cut > 0 {
        findings.push(Finding::ValuesCut {
            statements: tallies.cut,
            of: tallies.with_values,
            values: tallies.values_cut,
            of_values: tallies.values,
        });
    }
    if tallies.statements_cut > 0 {
        findings.push(Finding::StatementsCut {
            statements: tallies.statements_cut,
            of: tallies.statements,
        });
    }
    if tallies.copies > 0 {
        findings.push(Finding::CopyData {
            statements: tallies.copies,
        });
    }
    let lines = skipped(account, SkipReason::FastPath);
    if lines > 0 {
        findings.push(Finding::FastPath { lines });
    }
    if tallies.fetches > 0 {
        findings.push(Finding::Fetches {
            statements: tallies.fetches,
        });
    }
    check_fates(tallies, findings);
    if tallies.valueless_refused > 0 {
        findings.push(Finding::Refused {
            statements: tallies.valueless_refused,
        });
    }
}

/// Checks whether it is known which statements were committed.
fn check_fates(tallies: &QualityCounters, findings: &mut Vec<Finding>) {
    let &QualityCounters {
        fate_unknown,
        fate_lost,
        rolled_back,
        bind_failed,
        ..
    } = tallies;
    let all = [
        (
            Finding::FateUnknown {
                statements: fate_unknown,
            },
            fate_unknown,
        ),
        (
            Finding::FateLost {
                statements: fate_lost,
            },
            fate_lost,
        ),
        (
            Finding::RolledBack {
                statements: rolled_back,
            },
            rolled_back,
        ),
        (
            Finding::BindFailed {
                statements: bind_failed,
            },
            bind_failed,
        ),
    ];
    findings.extend(all.into_iter().filter(|(_, n)| *n > 0).map(|(f, _)| f));
}

/// Checks whether every line is present and in order.
fn check_lines(account: &Reconciliation, findings: &mut Vec<Finding>) {
    use UnreadableReason as Why;
    let dropped = account.unreadable.rate_limited;
    let torn = skipped(account, SkipReason::Detached) + unreadable(account, Why::LooseContinuation);
    let unread = unreadable(account, Why::Translated);
    let translated = unread + skipped(account, SkipReason::Translated);
    let encoding = unreadable(account, Why::Encoding);
    let ambiguous = skipped(account, SkipReason::Ambiguous);
    let known = unreadable(account, Why::LooseContinuation)
        + unreadable(account, Why::CutAtEnd)
        + unread
        + encoding
        + dropped;
    let other = account.unreadable.lines.saturating_sub(known);
    let all = [
        (Finding::RateLimited { lines: dropped }, dropped),
        (Finding::Interleaved { lines: torn }, torn),
        (Finding::Translated { lines: translated }, translated),
        (Finding::OtherEncoding { lines: encoding }, encoding),
        (Finding::Ambiguous { lines: ambiguous }, ambiguous),
        (
            Finding::Unreadable {
                lines: other,
                of: account.lines,
            },
            other,
        ),
    ];
    findings.extend(all.into_iter().filter(|(_, n)| *n > 0).map(|(f, _)| f));
    let errors = account.tallies.textless;
    if errors > 0 {
        findings.push(Finding::ErrorsWithoutStatement { errors });
    }
}

/// Checks times and durations.
fn check_times(tallies: &QualityCounters, findings: &mut Vec<Finding>) {
    let (timed, of) = (tallies.timed, tallies.succeeded());
    if timed < of {
        findings.push(Finding::DurationsUnknown {
            statements: of - timed,
            of,
        });
    }
    if prefixes(tallies).any(|prefix| prefix.has_whole_seconds_only()) {
        findings.push(Finding::WholeSeconds);
    }
    if tallies.uncoded > 0 {
        findings.push(Finding::Uncoded {
            failures: tallies.uncoded,
            of: tallies.failed,
        });
    }
}

fn check_sessions(tallies: &QualityCounters, findings: &mut Vec<Finding>) {
    let of = tallies.sessions;
    if of == 0 {
        return;
    }
    let mut push = |missing: u64, some: Finding, all: Finding| match missing {
        0 => (),
        missing if missing == of => findings.push(all),
        _ => findings.push(some),
    };
    let unbegun = of - tallies.begun;
    push(
        unbegun,
        Finding::BeganBefore {
            sessions: unbegun,
            of,
        },
        Finding::NoBeginnings { sessions: of },
    );
    let open = of - tallies.ended;
    push(
        open,
        Finding::StillOpen { sessions: open, of },
        Finding::NoEnds { sessions: of },
    );
    if tallies.nameless > 0 {
        findings.push(Finding::Nameless {
            sessions: tallies.nameless,
            of,
        });
    }
    // If every session's beginning is logged, reuse of a process number is visible.
    if unbegun > 0 && prefixes(tallies).any(|prefix| !prefix.tells_sessions_apart()) {
        findings.push(Finding::SessionsByProcess);
    }
}

fn prefixes(tallies: &QualityCounters) -> impl Iterator<Item = Prefix> {
    tallies.prefixes.iter().map(|text| Prefix::compile(text))
}

fn rate_uses(tallies: &QualityCounters, findings: &[Finding]) -> LogUses {
    let missing = |about: LogUse| {
        let mut missing = findings.iter().filter(|finding| !finding.is_harmless());
        missing.any(|finding| finding.about() == about)
    };
    let slow = findings
        .iter()
        .any(|finding| matches!(finding, Finding::SlowOnly { .. } | Finding::Gaps { .. }));
    let succeeded = tallies.succeeded();
    let replay = if succeeded == 0 || tallies.replayable() == 0 {
        Extent::No
    } else if missing(LogUse::Replay) {
        Extent::Partly
    } else {
        Extent::Yes
    };
    let latencies = if tallies.timed == 0 {
        Extent::No
    } else if tallies.timed * 100 < succeeded * TIMED_PERCENT || slow {
        Extent::Partly
    } else {
        Extent::Yes
    };
    let whole_seconds = findings.contains(&Finding::WholeSeconds);
    let pacing = match (tallies.statements, whole_seconds) {
        (0, _) => Extent::No,
        (_, true) => Extent::Partly,
        (_, false) => Extent::Yes,
    };
    let sessions = match (tallies.whole, missing(LogUse::Sessions)) {
        (0, _) => Extent::No,
        (_, true) => Extent::Partly,
        (_, false) => Extent::Yes,
    };
    let failures =
        if tallies.statements == 0 || tallies.failed > 0 && tallies.uncoded == tallies.failed {
            Extent::No
        } else if missing(LogUse::Failures) {
            Extent::Partly
        } else {
            Extent::Yes
        };
    LogUses {
        replay,
        latencies,
        pacing,
        sessions,
        failures,
    }
}

#[cfg(test)]
mod tests;
