//! Checkpoints that are caused by WAL volume instead of time. After each checkpoint, the next
//! change of every page writes the whole page to the WAL again.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const REQUESTED: Threshold = Threshold {
    name: "checkpoints-requested",
    value: 2.0,
    unit: "checkpoints",
    decides: "fewer that were not by time are chance",
    source: "ours",
};

const EVERY: Threshold = Threshold {
    name: "checkpoints-every-s",
    value: 150.0,
    unit: "s",
    decides: "checkpoints that are further apart are no pressure",
    source: "ours: half of checkpoint_timeout's default of 300 s",
};

const MIB: f64 = 1_048_576.0;

pub(super) const RULE: Rule = Rule {
    name: "checkpoints",
    looks_at: "checkpoints by time and by WAL, and whole pages in the WAL",
    thresholds: &[REQUESTED, EVERY],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let Checkpoints {
        requested,
        timed,
        source,
    } = checkpoints(evidence)?;
    let every_s = evidence.elapsed_s / (requested + timed).max(1.0);
    if requested < thresholds.of(&REQUESTED)
        || requested <= timed
        || every_s >= thresholds.of(&EVERY)
    {
        return Ok(Vec::new());
    }
    let wal = evidence.increase("pg_stat_wal", "", "wal_bytes");
    let pages = evidence.increase("pg_stat_wal", "", "wal_fpi");
    let ns = evidence
        .sample_ns
        .as_ref()
        .map_or(0.0, |each_ns| each_ns * disk_wait_samples(evidence) as f64);
    let share = evidence.share(ns);
    let mut facts = vec![
        Fact::new(
            "checkpoints that were not by time",
            requested,
            Unit::Count,
            source,
        )
        .check("SELECT * FROM pg_stat_bgwriter (from 17 on pg_stat_checkpointer)"),
        Fact::new("checkpoints by time", timed, Unit::Count, source),
        Fact::new("between them", every_s * 1e9, Unit::Nanoseconds, source),
    ];
    if wal > 0.0 {
        facts.push(
            Fact::new("WAL", wal, Unit::Bytes, "pg_stat_wal")
                .check("SELECT wal_bytes, wal_fpi FROM pg_stat_wal"),
        );
        facts.push(Fact::new(
            "of it whole pages, at most",
            (pages * 8_192.0 / wal).min(1.0),
            Unit::Share,
            "pg_stat_wal",
        ));
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: match evidence.sample_ns.is_ok() {
            true => thresholds.severity(share),
            false => Severity::Warning,
        },
        subject: Subject::setting("max_wal_size".to_owned()),
        title: format!("checkpoints come every {every_s:.0} s, since the WAL is full"),
        evidence: facts,
        cost: evidence.sample_ns.is_ok().then(|| evidence.cost_of(ns)),
        max_gain: evidence.sample_ns.is_ok().then_some(share),
        changes: vec![Change::setting(
            "room for the WAL of a whole checkpoint_timeout",
            "max_wal_size",
            format!("{:.0}MB", wanted_wal_mib(evidence, wal)),
        )],
        risk: "the WAL takes so much room on disk, and recovery after a crash takes longer; checkpoints that somebody asks for \
               (CHECKPOINT, a base backup) are counted among these"
            .to_owned(),
    }])
}

/// Numbers of checkpoints by cause.
struct Checkpoints {
    requested: f64,
    timed: f64,
    source: &'static str,
}

/// Counts checkpoints from the server's counters, or else from its log.
fn checkpoints(evidence: &Evidence) -> Result<Checkpoints, Unavailable> {
    let (requested, timed, source) = match (&evidence.observed, &evidence.log) {
        (Ok(_), _) => {
            let of = |new: &str, old: &str| {
                evidence.increase("pg_stat_checkpointer", "", new)
                    + evidence.increase("pg_stat_bgwriter", "", old)
            };
            (
                of("num_requested", "checkpoints_req"),
                of("num_timed", "checkpoints_timed"),
                "pg_stat_bgwriter, from 17 on pg_stat_checkpointer",
            )
        }
        (Err(_), Ok(log)) => (
            log.checkpoints_by_wal as f64,
            log.checkpoints.saturating_sub(log.checkpoints_by_wal) as f64,
            "the server's log (log_checkpoints)",
        ),
        (Err(missing), Err(_)) => return Err(missing.clone()),
    };
    Ok(Checkpoints {
        requested,
        timed,
        source,
    })
}

/// Returns the samples that waited for the disk, which is the cost that checkpoint writes can cause.
fn disk_wait_samples(evidence: &Evidence) -> u64 {
    evidence.observed.as_ref().map_or(0, |observed| {
        let all = observed.waits.iter().filter(|wait| {
            let name = wait.wait.as_deref().unwrap_or_default();
            wait.kind.as_deref() == Some("IO")
                && (name.starts_with("DataFile")
                    || name.starts_with("WAL")
                    || name.starts_with("Wal"))
                || wait.kind.as_deref() == Some("LWLock") && name.starts_with("WALWrite")
        });
        all.map(|wait| wait.samples).sum()
    })
}

/// Returns the WAL size in MiB at which checkpoints are timed: the WAL of one checkpoint timeout, plus a
/// half. It is at least twice the current size, and a multiple of 1 GiB.
fn wanted_wal_mib(evidence: &Evidence, wal: f64) -> f64 {
    let now = evidence
        .setting("max_wal_size")
        .and_then(|mb| mb.parse::<f64>().ok());
    let timeout_s = evidence
        .setting("checkpoint_timeout")
        .and_then(|s| s.parse::<f64>().ok())
        .unwrap_or(300.0);
    let needed_mib = 1.5 * wal / MIB / evidence.elapsed_s.max(1.0) * timeout_s;
    let wanted_mib = needed_mib.max(now.unwrap_or(1_024.0) * 2.0).min(65_536.0);
    (wanted_mib / 1_024.0).ceil() * 1_024.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Form;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(requested: f64, timed: f64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(1, "insert into t values ($1)")
                    .took(100, 10.0)
                    .waiting("IO", "WALWrite", 40),
            )
            .setting("max_wal_size", "1024")
            .setting("checkpoint_timeout", "300")
            .counter(
                "pg_stat_bgwriter",
                "",
                "checkpoints_req",
                3.0,
                3.0 + requested,
            )
            .counter(
                "pg_stat_bgwriter",
                "",
                "checkpoints_timed",
                3.0,
                3.0 + timed,
            )
            .counter("pg_stat_wal", "", "wal_bytes", 0.0, 1_024.0 * MIB)
    }

    #[test]
    fn checkpoints_by_wal_volume_are_found() {
        let found = with(4.0, 0.0).findings(&RULE);
        // 1 GiB a minute, five minutes, plus a half.
        assert_eq!(
            found[0].changes[0].form,
            Form::Setting("max_wal_size".to_owned(), "8192MB".to_owned())
        );
        assert_eq!(found[0].max_gain, Some(0.2));
    }

    #[test]
    fn checkpoints_by_time_are_no_finding() {
        assert_eq!(with(1.0, 0.0).findings(&RULE), []);
        assert_eq!(with(2.0, 2.0).findings(&RULE), []);
    }
}
