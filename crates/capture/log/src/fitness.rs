//! What a log is good for: can it be replayed, are latencies known, are its sessions whole, and
//! which settings would have told more. Pure: judged from the account alone, so also from the
//! account that a workload keeps.
//!
//! Who drives: the program, once the account is complete. Words for people are the report's.
//! Deliberately absent: any guess at settings from what servers usually have. What is inferred from
//! many statements (a threshold, sampling) has a limit below which nothing is claimed.

mod finding;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::prefix::Prefix;
use super::reconcile::{Reconciliation, SkipReason, UnreadableReason};
use super::tallies::Tallies;

pub use finding::{Advice, Finding};

/// What a log can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Sending the same statements again.
    Replay,
    /// Comparing a replay's latencies with those of the capture.
    Latencies,
    /// Sending them when they were sent.
    Pacing,
    /// Connecting as the clients did, when they did.
    Sessions,
    /// Telling whether a replay fails where the capture failed.
    Failures,
}

/// How far it is good for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// Wholly.
    Yes,
    /// In part; a finding says what is missing.
    Partly,
    /// Not at all.
    No,
}

/// An extent for each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Uses {
    /// For sending the same statements again.
    pub replay: Extent,
    /// For comparing a replay's latencies with those of the capture.
    pub latencies: Extent,
    /// For sending statements when they were sent.
    pub pacing: Extent,
    /// For connecting as the clients did, when they did.
    pub sessions: Extent,
    /// For telling whether a replay fails where the capture failed.
    pub failures: Extent,
}

/// So many statements, none shorter than so many microseconds, are no accident: a session's BEGIN,
/// SET or COMMIT and a look-up by a key take well under a millisecond, and of ten statements one is
/// such a thing.
const SLOW_ONLY: [(u64, u64); 2] = [(100, 1_000), (10, 50_000)];

/// So many statements logged at their start without one read are no accident.
const WRITES_ONLY_MIN: u64 = 20;

/// So many beginnings and ends of transactions are needed before any gap is claimed, and of a
/// hundred so many must not match: what a client may do oddly (a COMMIT too many, several
/// statements in one message) stays below.
const BOUNDARIES_MIN: u64 = 20;
const UNMATCHED_PERCENT: u64 = 10;

/// Of a hundred statements so many durations must be known, so that the 99th percentile is not
/// decided by those that are missing.
const TIMED_PERCENT: u64 = 99;

/// What a log is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fitness {
    /// How far, for each use.
    pub uses: Uses,
    /// Statements that can be replayed as they were.
    pub replayable: u64,
    /// What is missing, what matters most first.
    #[serde(serialize_with = "with_settings")]
    #[schemars(with = "Vec<FindingWithSettings<'static>>")]
    pub findings: Vec<Finding>,
    /// Counts that it was judged by.
    #[serde(skip)]
    pub tallies: Tallies,
}

/// A finding as it is serialised.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
struct FindingWithSettings<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    /// The use that suffers.
    affects: Use,
    /// Settings that make the next log show it, by name.
    settings: BTreeMap<&'static str, &'static str>,
}

fn with_settings<S: Serializer>(findings: &[Finding], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(findings.iter().map(|finding| FindingWithSettings {
        finding,
        affects: finding.about(),
        settings: finding.settings().iter().copied().collect(),
    }))
}

impl Fitness {
    /// Judges a log by the account of its capture.
    pub fn judge(account: &Reconciliation) -> Self {
        let tallies = account.tallies.clone();
        let mut findings = Vec::new();
        completeness(account, &mut findings);
        values(account, &mut findings);
        lost_lines(account, &mut findings);
        latencies(&tallies, &mut findings);
        sessions(&tallies, &mut findings);
        let uses = uses(&tallies, &findings);
        Fitness {
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

/// Are all statements there?
fn completeness(account: &Reconciliation, findings: &mut Vec<Finding>) {
    let tallies = &account.tallies;
    let (statements, succeeded, timed) = (tallies.statements, tallies.succeeded(), tallies.timed);
    let bare = skipped(account, SkipReason::DurationWithoutStatement);
    // With log_statement = all, a duration alone is of a statement that is there.
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

/// Are they whole?
fn values(account: &Reconciliation, findings: &mut Vec<Finding>) {
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
    if tallies.valueless_refused > 0 {
        findings.push(Finding::Refused {
            statements: tallies.valueless_refused,
        });
    }
}

/// Is every line there, and in order?
fn lost_lines(account: &Reconciliation, findings: &mut Vec<Finding>) {
    use UnreadableReason as Why;
    let dropped = account.unreadable.rate_limited;
    let torn = skipped(account, SkipReason::Detached) + unreadable(account, Why::LooseContinuation);
    let unread = unreadable(account, Why::Translated);
    let translated = unread + skipped(account, SkipReason::Translated);
    let encoding = unreadable(account, Why::Encoding);
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
        (
            Finding::Unreadable {
                lines: other,
                of: account.lines,
            },
            other,
        ),
    ];
    findings.extend(all.into_iter().filter(|(_, n)| *n > 0).map(|(f, _)| f));
    let errors = account.tallies.statementless;
    if errors > 0 {
        findings.push(Finding::ErrorsWithoutStatement { errors });
    }
}

/// When, and how long?
fn latencies(tallies: &Tallies, findings: &mut Vec<Finding>) {
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

fn sessions(tallies: &Tallies, findings: &mut Vec<Finding>) {
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
    // Where every session's beginning is there, a number that comes back is seen.
    if unbegun > 0 && prefixes(tallies).any(|prefix| !prefix.tells_sessions_apart()) {
        findings.push(Finding::SessionsByProcess);
    }
}

fn prefixes(tallies: &Tallies) -> impl Iterator<Item = Prefix> {
    tallies.prefixes.iter().map(|text| Prefix::compile(text))
}

fn uses(tallies: &Tallies, findings: &[Finding]) -> Uses {
    let missing = |about: Use| {
        let mut missing = findings.iter().filter(|finding| !finding.is_harmless());
        missing.any(|finding| finding.about() == about)
    };
    let slow = findings
        .iter()
        .any(|finding| matches!(finding, Finding::SlowOnly { .. } | Finding::Gaps { .. }));
    let succeeded = tallies.succeeded();
    let replay = if succeeded == 0 || tallies.replayable() == 0 {
        Extent::No
    } else if missing(Use::Replay) {
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
    let sessions = match (tallies.whole, missing(Use::Sessions)) {
        (0, _) => Extent::No,
        (_, true) => Extent::Partly,
        (_, false) => Extent::Yes,
    };
    let failures =
        if tallies.statements == 0 || tallies.failed > 0 && tallies.uncoded == tallies.failed {
            Extent::No
        } else if missing(Use::Failures) {
            Extent::Partly
        } else {
            Extent::Yes
        };
    Uses {
        replay,
        latencies,
        pacing,
        sessions,
        failures,
    }
}

#[cfg(test)]
mod tests;
