//! Waits for the flush of the write-ahead log at commit.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{COMMIT_FLUSH, Change, Fact, Finding, Severity, Subject};
use crate::statement_text::shorten;
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;
use time_breakdown::observed::{CounterChange, Observed, Wait};

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
    unit: "ms a flush",
    decides: "flushes that take less are usual; the finding is a note then",
    source: "ours: a disk that spins takes about as long",
};

const SAMPLES_MIN: u64 = 5;
/// Length of a series of writes by one session that could be one transaction.
const SERIES_MIN: u64 = 50;
/// Share of the time from which such a series matters.
const BATCHED_SHARE: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: COMMIT_FLUSH,
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

/// Returns the time that a statement waited for flushes, in nanoseconds; 0 if unknown.
pub(crate) fn flush_ns(evidence: &Evidence, one: &StatementEvidence) -> f64 {
    let each_ns = evidence.sample_ns.as_ref().copied().unwrap_or(0.0);
    let waits = one.waits.iter().filter(|wait| is_flush(wait));
    each_ns * waits.map(|wait| wait.samples).sum::<u64>() as f64
}

/// Number of flushes, from the best source.
enum Flushes {
    /// Flushes that the server counted: `pg_stat_wal` (14 to 17) or `pg_stat_io` (from 18 on).
    Counted(f64),
    /// Commits that may have written. Reading ones end without a flush.
    Commits(f64),
}

impl Flushes {
    fn of(evidence: &Evidence, observed: &Observed) -> Self {
        let sum = |is_counter: &dyn Fn(&CounterChange) -> bool| -> f64 {
            let all = observed.counters.iter().filter(|one| is_counter(one));
            all.map(|one| one.delta).sum()
        };
        let counted = sum(&|one| match one.source.as_str() {
            "pg_stat_wal" => one.name == "wal_sync",
            "pg_stat_io" => one.name == "fsyncs" && one.object.contains(", wal, "),
            _ => false,
        });
        if counted > 0.0 {
            return Flushes::Counted(counted);
        }
        // Both are upper limits: a transaction may write with several statements, and end without having written.
        let writers = evidence.statements.iter();
        let writers = writers.filter(|one| one.sql == "commit" || one.class.may_write());
        let called = writers.map(|one| one.calls).sum::<u64>() as f64;
        let ended = sum(&|one| one.source == "pg_stat_database" && one.name == "xact_commit");
        let known = [called, ended].into_iter().filter(|count| *count > 0.0);
        Flushes::Commits(known.reduce(f64::min).unwrap_or(0.0))
    }

    fn count(&self) -> f64 {
        match self {
            Flushes::Counted(count) | Flushes::Commits(count) => *count,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Flushes::Counted(_) => "flushes of the write-ahead log",
            Flushes::Commits(_) => "commits that may have written",
        }
    }

    fn source(&self) -> &'static str {
        match self {
            Flushes::Counted(_) => "pg_stat_wal or pg_stat_io",
            Flushes::Commits(_) => "statements and pg_stat_database",
        }
    }

    /// Returns the time of a flush, in nanoseconds; `None` if their number is unknown. Several sessions wait for one
    /// flush, and there is one flush at a time, so that counted ones took no more than the observed time.
    fn ns_each(&self, waited_ns: f64, elapsed_ns: f64) -> Option<f64> {
        let ns = match self {
            Flushes::Counted(_) => waited_ns.min(elapsed_ns),
            Flushes::Commits(_) => waited_ns,
        };
        (self.count() > 0.0).then(|| ns / self.count())
    }
}

/// Returns the statement that takes most of the time of flushes, if a session sends it in long series, each call in a
/// transaction of its own: these could be one transaction.
fn repeated_write(evidence: &Evidence) -> Option<&StatementEvidence> {
    let all = evidence.statements.iter();
    let most = all.max_by(|a, b| flush_ns(evidence, a).total_cmp(&flush_ns(evidence, b)))?;
    let is_series = most.class.may_write()
        && most.is_work()
        && most.repetition.longest >= SERIES_MIN
        && most.repetition.calls * 2 > most.calls;
    is_series.then_some(most)
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
    let flushes = Flushes::of(evidence, observed);
    let flush_ns = flushes.ns_each(ns, evidence.elapsed_s * 1e9);
    let is_slow = flush_ns.is_some_and(|each| each >= thresholds.of(&FLUSH_MS) * 1e6);
    let repeated = repeated_write(evidence).filter(|_| share >= BATCHED_SHARE);
    let mut changes = vec![
        Change::manual(
            "write more in each transaction, so that fewer are flushed; a faster disk for pg_wal",
        ),
        Change::setting(
            "do not wait for the flush, if losing the last moments in a crash is allowed",
            "synchronous_commit",
            "off",
        ),
    ];
    if let Some(one) = repeated {
        changes.insert(
            0,
            Change::manual(format!(
                "send many of these in one transaction, or many rows in one statement: {}",
                shorten(&one.sql)
            )),
        );
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: match is_slow || repeated.is_some() {
            true => thresholds.severity(share),
            false => Severity::Note,
        },
        subject: Subject::server(),
        title: format!(
            "commits wait for the write-ahead log to reach the disk, {:.0} % of the time{}",
            share * 100.0,
            match repeated {
                Some(_) => ", and a session commits each of many rows separately",
                None => "",
            }
        ),
        evidence: vec![
            Fact::new(
                "time in WALSync, WALWrite and their lock",
                ns,
                Unit::Nanoseconds,
                "samples of pg_stat_activity",
            )
            .check("SELECT wait_event, count(*) FROM pg_stat_activity WHERE wait_event ~* '^wal(sync|write)' GROUP BY 1"),
            Fact::new(flushes.name(), flushes.count(), Unit::Count, flushes.source()),
            Fact::new("time a flush, at most", flush_ns.unwrap_or(0.0), Unit::Nanoseconds, "both"),
        ],
        cost: Some(evidence.cost_of(ns)),
        max_gain: Some(share),
        changes,
        risk: "with synchronous_commit = off, a crash loses the transactions of the last half second or so, though nothing \
               becomes inconsistent"
            .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(samples: u64, commits: u64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(1, "commit")
                    .took(commits, 30.0)
                    .waiting("IO", "WalSync", samples),
            )
            .counter("pg_stat_database", "shop", "xact_commit", 0.0, 1e6)
    }

    #[test]
    fn slow_flushes_are_a_problem_and_usual_ones_a_note() {
        // A million transactions that only read are no flushes.
        let found = with(400, 1_000).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert!((found[0].max_gain.unwrap() - 20.0 / 30.0).abs() < 1e-9);
        let usual = with(400, 10_000).findings(&RULE);
        assert_eq!(usual[0].severity, Severity::Note);
    }

    #[test]
    fn counted_flushes_decide() {
        for (source, object, name) in [
            ("pg_stat_wal", "", "wal_sync"),
            ("pg_stat_io", "client backend, wal, normal", "fsyncs"),
        ] {
            let counted = |flushes| with(400, 10_000).counter(source, object, name, 0.0, flushes);
            let slow = counted(1_000.0).findings(&RULE);
            assert_eq!(slow[0].severity, Severity::Problem, "{source}");
            // Twenty sessions that wait for each flush are no slow flush: 60 s for 10,000 flushes.
            let mut shared = counted(10_000.0);
            shared.observed().waits[0].samples = 24_000;
            assert_eq!(
                shared.findings(&RULE)[0].severity,
                Severity::Note,
                "{source}"
            );
        }
    }

    #[test]
    fn few_flushes_are_no_finding() {
        assert_eq!(with(4, 1_000).findings(&RULE), []);
        assert_eq!(with(20, 1_000).findings(&RULE), []);
    }

    #[test]
    fn series_of_commits_by_one_session_is_a_problem() {
        let with = |longest| {
            let mut import = statement(1, "insert into crate values ($1)")
                .took(5_000, 30.0)
                .waiting("IO", "WalSync", 400);
            import.class = sql::StatementClass::Insert;
            import.repetition.calls = 5_000;
            import.repetition.longest = longest;
            let made = EvidenceBuilder::new().statement(import).counter(
                "pg_stat_wal",
                "",
                "wal_sync",
                0.0,
                5_000.0,
            );
            made.findings(&RULE).remove(0)
        };
        let found = with(5_000);
        assert_eq!(found.severity, Severity::Problem);
        assert!(found.changes[0].words.contains("one transaction"));
        assert_eq!(with(3).severity, Severity::Note);
    }
}
