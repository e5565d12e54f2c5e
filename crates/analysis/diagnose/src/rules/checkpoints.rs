//! Checkpoints that come because the WAL is full, and not because it is time: each makes the next change of every page
//! write the whole page again.

use super::Rule;
use crate::evidence::{Evidence, Missing};
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
    look,
};

fn look(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Missing> {
    let (requested, timed, from) = match (&evidence.observed, &evidence.log) {
        (Ok(_), _) => {
            let of = |new: &str, old: &str| {
                evidence.gained("pg_stat_checkpointer", "", new)
                    + evidence.gained("pg_stat_bgwriter", "", old)
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
    let every_s = evidence.elapsed_s / (requested + timed).max(1.0);
    if requested < thresholds.of(&REQUESTED)
        || requested <= timed
        || every_s >= thresholds.of(&EVERY)
    {
        return Ok(Vec::new());
    }
    let wal = evidence.gained("pg_stat_wal", "", "wal_bytes");
    let pages = evidence.gained("pg_stat_wal", "", "wal_fpi");
    // What waits for the disk is what the writing of a checkpoint can cost.
    let waits: u64 = evidence.observed.as_ref().map_or(0, |observed| {
        let all = observed.waits.iter().filter(|wait| {
            let name = wait.wait.as_deref().unwrap_or_default();
            wait.kind.as_deref() == Some("IO")
                && (name.starts_with("DataFile")
                    || name.starts_with("WAL")
                    || name.starts_with("Wal"))
                || wait.kind.as_deref() == Some("LWLock") && name.starts_with("WALWrite")
        });
        all.map(|wait| wait.samples).sum()
    });
    let ns = evidence
        .sample_ns
        .as_ref()
        .map_or(0.0, |each_ns| each_ns * waits as f64);
    let share = evidence.share(ns);
    let now = evidence
        .setting("max_wal_size")
        .and_then(|mb| mb.parse::<f64>().ok());
    // So much that checkpoints come by time: what is written in their time, and a half more.
    let timeout_s = evidence
        .setting("checkpoint_timeout")
        .and_then(|s| s.parse::<f64>().ok())
        .unwrap_or(300.0);
    let needed_mib = 1.5 * wal / MIB / evidence.elapsed_s.max(1.0) * timeout_s;
    let wanted_mib = needed_mib.max(now.unwrap_or(1_024.0) * 2.0).min(65_536.0);
    let wanted_mib = (wanted_mib / 1_024.0).ceil() * 1_024.0;
    let mut facts = vec![
        Fact::new(
            "checkpoints that were not by time",
            requested,
            Unit::Count,
            from,
        )
        .check("SELECT * FROM pg_stat_bgwriter (from 17 on pg_stat_checkpointer)"),
        Fact::new("checkpoints by time", timed, Unit::Count, from),
        Fact::new("between them", every_s * 1e9, Unit::Nanoseconds, from),
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
            format!("{wanted_mib:.0}MB"),
        )],
        risk: "the WAL takes so much room on disk, and recovery after a crash takes longer; checkpoints that somebody asks for \
               (CHECKPOINT, a base backup) are counted among these"
            .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Form;
    use crate::made_up::{MadeUp, statement};

    fn with(requested: f64, timed: f64) -> MadeUp {
        MadeUp::new()
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
    fn checkpoints_for_want_of_wal_are_found() {
        let found = with(4.0, 0.0).find(&RULE);
        // 1 GiB a minute, five minutes, a half more.
        assert_eq!(
            found[0].changes[0].form,
            Form::Setting("max_wal_size".to_owned(), "8192MB".to_owned())
        );
        assert_eq!(found[0].max_gain, Some(0.2));
    }

    #[test]
    fn checkpoints_by_time_are_well() {
        assert_eq!(with(1.0, 0.0).find(&RULE), []);
        assert_eq!(with(2.0, 2.0).find(&RULE), []);
    }
}
