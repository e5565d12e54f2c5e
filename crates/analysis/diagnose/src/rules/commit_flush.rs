//! Waits for the flush of the write-ahead log at commit.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;
use time_breakdown::observed::Wait;

const SHARE: Threshold = Threshold {
    name: "commit-flush-share",
    value: 0.05,
    unit: "share of time",
    decides: "waits that are less of the time are not told",
    source: "ours",
};

const FLUSH_MS: Threshold = Threshold {
    name: "commit-flush-ms",
    value: 10.0,
    unit: "ms a commit",
    decides: "flushes that take less are usual; the finding is a note then",
    source: "ours: a disk that spins takes about as long",
};

const SAMPLES_MIN: u64 = 5;

pub(super) const RULE: Rule = Rule {
    name: "commit-flush",
    looks_at: "waits for the write-ahead log to reach the disk at commit",
    thresholds: &[SHARE, FLUSH_MS],
    evaluate,
};

/// Whether a wait is for the flush of the write-ahead log, by the names of all versions.
fn is_flush(wait: &Wait) -> bool {
    let name = wait
        .wait
        .as_deref()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match wait.kind.as_deref() {
        Some("IO") => matches!(name.as_str(), "walsync" | "walwrite"),
        Some("LWLock") => matches!(name.as_str(), "walwrite" | "walwritelock"),
        _ => false,
    }
}

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let each_ns = *evidence.sample_ns.as_ref().map_err(Clone::clone)?;
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    let waits = observed.waits.iter().filter(|wait| is_flush(wait));
    let samples: u64 = waits.map(|wait| wait.samples).sum();
    let ns = samples as f64 * each_ns;
    let share = evidence.share(ns);
    if samples < SAMPLES_MIN || share < thresholds.of(&SHARE) {
        return Ok(Vec::new());
    }
    let databases = observed.counters.iter();
    let commits: f64 = databases
        .filter(|one| one.source == "pg_stat_database" && one.name == "xact_commit")
        .map(|one| one.delta)
        .sum();
    let each_commit_ns = ns / commits.max(1.0);
    let is_slow = commits > 0.0 && each_commit_ns >= thresholds.of(&FLUSH_MS) * 1e6;
    Ok(vec![Finding {
        rule: "",
        severity: match is_slow {
            true => thresholds.severity(share),
            false => Severity::Note,
        },
        subject: Subject::server(),
        title: format!(
            "commits wait for the write-ahead log to reach the disk, {:.0} % of the time",
            share * 100.0
        ),
        evidence: vec![
            Fact::new(
                "time in WALSync, WALWrite and their lock",
                ns,
                Unit::Nanoseconds,
                "samples of pg_stat_activity",
            )
            .check("SELECT wait_event, count(*) FROM pg_stat_activity WHERE wait_event ~* '^wal(sync|write)' GROUP BY 1"),
            Fact::new("commits", commits, Unit::Count, "pg_stat_database"),
            Fact::new("time a commit", each_commit_ns, Unit::Nanoseconds, "both"),
        ],
        cost: Some(evidence.cost_of(ns)),
        max_gain: Some(share),
        changes: vec![
            Change::manual(
                "write more in each transaction, so that fewer are flushed; a faster disk for pg_wal",
            ),
            Change::setting(
                "do not wait for the flush, if losing the last moments in a crash is allowed",
                "synchronous_commit",
                "off",
            ),
        ],
        risk: "with synchronous_commit = off, a crash loses the transactions of the last half second or so, though nothing \
               becomes inconsistent"
            .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(samples: u64, commits: f64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(1, "commit")
                    .took(1_000, 30.0)
                    .waiting("IO", "WalSync", samples),
            )
            .counter("pg_stat_database", "shop", "xact_commit", 0.0, commits)
    }

    #[test]
    fn slow_flushes_are_a_problem_and_usual_ones_a_note() {
        let found = with(400, 1_000.0).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert!((found[0].max_gain.unwrap() - 20.0 / 30.0).abs() < 1e-9);
        let usual = with(400, 10_000.0).findings(&RULE);
        assert_eq!(usual[0].severity, Severity::Note);
    }

    #[test]
    fn few_flushes_are_no_finding() {
        assert_eq!(with(4, 1_000.0).findings(&RULE), []);
        assert_eq!(with(20, 1_000.0).findings(&RULE), []);
    }
}
