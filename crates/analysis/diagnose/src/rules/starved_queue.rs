//! Queues whose workers starve: due work grows while nothing is claimed, so the claim is slow, not
//! the work. Also stuck work, claimed by a worker that is gone.
//!
//! The rule depends on the names of the `--custom-query` series. `stalled` (or due, waiting, ready,
//! pending) is due and not claimed. `queued` (or claimed, running, in_progress) is claimed and not
//! done. `stuck` is stuck work. A series with `oldest` or `age` in its name is in seconds.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;
use time_breakdown::observed::QueueSeries;

const ZERO: Threshold = Threshold {
    name: "queue-idle-share",
    value: 0.2,
    unit: "share of looks",
    decides: "workers that had nothing claimed so often starve, if there was work",
    source: "ours",
};

const GROWTH: Threshold = Threshold {
    name: "queue-growth",
    value: 0.1,
    unit: "share of its length",
    decides: "a backlog that grew by so much, and by ten at least, grows",
    source: "ours",
};

const AGE: Threshold = Threshold {
    name: "queue-age-slope",
    value: 0.9,
    unit: "seconds a second",
    decides: "an age that grows so fast is that of something that nobody works on",
    source: "ours: what is left alone ages by a second each second",
};

const WAITING: [&str; 6] = ["stalled", "due", "waiting", "ready", "pending", "backlog"];
const CLAIMED: [&str; 5] = ["queued", "claimed", "running", "in_progress", "active"];

pub(super) const RULE: Rule = Rule {
    name: "starved-queue",
    looks_at: "the user's queue (--custom-query): due work compared with claimed work, and the age of the oldest",
    thresholds: &[ZERO, GROWTH, AGE],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    if observed.queue.is_empty() {
        return Err(Unavailable::because(
            "no query of the queue was given (--custom-query \"SELECT count(*) FILTER (WHERE …) AS stalled, … AS queued FROM …\")",
        ));
    }
    let called =
        |one: &QueueSeries, names: &[&str]| names.contains(&one.name.to_lowercase().as_str());
    let mut findings = Vec::new();
    for one in &observed.queue {
        let name = match one.object.is_empty() {
            true => one.name.clone(),
            false => format!("{} {}", one.object, one.name),
        };
        let growth = one.last - one.first;
        let grows = growth >= 10.0 && growth >= thresholds.of(&GROWTH) * one.mean;
        let claimed = observed
            .queue
            .iter()
            .find(|other| other.object == one.object && called(other, &CLAIMED));
        if called(one, &WAITING) && grows {
            let Some(claimed) = claimed else { continue };
            let idle = claimed.zeros as f64 / claimed.values.max(1) as f64;
            if idle < thresholds.of(&ZERO) {
                continue;
            }
            findings.push(starved(evidence, thresholds, (&name, one), (claimed, idle)));
        }
        let lower = one.name.to_lowercase();
        let slope = growth / evidence.elapsed_s.max(1.0);
        let ages = lower.contains("oldest") || lower.split('_').any(|word| word == "age");
        let stuck = lower.contains("stuck") && one.min > 0.0;
        if stuck || ages && evidence.elapsed_s >= 5.0 && slope >= thresholds.of(&AGE) {
            findings.push(stuck_work(&name, one, ages.then_some(slope)));
        }
    }
    Ok(findings)
}

fn starved(
    evidence: &Evidence,
    thresholds: &Thresholds,
    (name, waiting): (&str, &QueueSeries),
    (claimed, idle): (&QueueSeries, f64),
) -> Finding {
    // The claim is what the workers wait for.
    let claim = evidence
        .statements
        .iter()
        .find(|one| super::claims::is_claim(&one.sql));
    let share = claim.map(|claim| evidence.share(claim.ns));
    let mut facts = vec![
        Fact::new(
            format!("{name} at first"),
            waiting.first,
            Unit::Count,
            "the query of --custom-query",
        ),
        Fact::new(
            format!("{name} at last"),
            waiting.last,
            Unit::Count,
            "the query of --custom-query",
        ),
        Fact::new(
            format!("looks at which {} was 0", claimed.name),
            idle,
            Unit::Share,
            "the query of --custom-query",
        ),
    ];
    if let Some(claim) = claim {
        facts.push(Fact::new(
            "time of a claim",
            claim.ns_per_call(),
            Unit::Nanoseconds,
            "the statement's own times",
        ));
    }
    Finding {
        rule: "",
        status: Default::default(),
        severity: match share {
            Some(share) => thresholds.severity(share).min(Severity::Warning),
            None => Severity::Problem,
        },
        subject: Subject::queue(name.to_owned()),
        title: format!("workers starve: {name} grows while {} is 0", claimed.name),
        evidence: facts,
        cost: claim.map(|claim| evidence.cost(claim, claim.ns)),
        max_gain: share,
        changes: vec![Change::manual(
            "make the claim cheap (see missing-index and claims), and only then add workers",
        )],
        risk: "none of looking; with a claim that is fast the work itself becomes the limit"
            .to_owned(),
    }
}

fn stuck_work(name: &str, one: &QueueSeries, slope: Option<f64>) -> Finding {
    let mut facts = vec![
        Fact::new(
            "at first",
            one.first,
            Unit::Mean,
            "the query of --custom-query",
        ),
        Fact::new(
            "at last",
            one.last,
            Unit::Mean,
            "the query of --custom-query",
        ),
    ];
    if let Some(slope) = slope {
        facts.push(Fact::new(
            "seconds that it ages in a second",
            slope,
            Unit::Mean,
            "the query of --custom-query",
        ));
    }
    Finding {
        rule: "",
        status: Default::default(),
        severity: Severity::Warning,
        subject: Subject::queue(name.to_owned()),
        title: format!("work is stuck: {name} shows something that nobody works on"),
        evidence: facts,
        cost: None,
        max_gain: None,
        changes: vec![Change::manual(
            "take back what was claimed longer ago than any work takes (UPDATE … SET queued_at = NULL WHERE queued_at < now() - interval '…')",
        )],
        risk: "what is still being worked on is then done twice".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn series(name: &str, first: f64, last: f64, zeros: u64) -> QueueSeries {
        QueueSeries {
            name: name.to_owned(),
            values: 60,
            zeros,
            first,
            last,
            min: first.min(last),
            max: first.max(last),
            mean: (first + last) / 2.0,
            ..QueueSeries::default()
        }
    }

    #[test]
    fn starving_workers_and_stuck_work_are_found() {
        let claim = "update jobs set queued_at = now() where id in (select id from jobs limit $1 for update skip locked)";
        let starving = EvidenceBuilder::new()
            .statement(statement(1, claim).took(60, 55.0))
            .queue(series("stalled", 100.0, 5_000.0, 0))
            .queue(series("queued", 0.0, 10.0, 40));
        let found = starving.findings(&RULE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].max_gain, Some(1.0));
        let stuck = EvidenceBuilder::new().queue(series("oldest_queued_s", 3_600.0, 3_660.0, 0));
        assert!(stuck.findings(&RULE)[0].title.contains("stuck"));
    }

    #[test]
    fn backlog_with_busy_workers_and_falling_age_is_no_finding() {
        let busy = EvidenceBuilder::new()
            .queue(series("stalled", 100.0, 5_000.0, 0))
            .queue(series("queued", 64.0, 64.0, 0));
        assert_eq!(busy.findings(&RULE), []);
        let drained = EvidenceBuilder::new()
            .queue(series("stalled", 5_000.0, 100.0, 0))
            .queue(series("queued", 0.0, 64.0, 40));
        assert_eq!(drained.findings(&RULE), []);
        let moving = EvidenceBuilder::new().queue(series("oldest_queued_s", 30.0, 32.0, 0));
        assert_eq!(moving.findings(&RULE), []);
        assert!((RULE.evaluate)(&EvidenceBuilder::new().evidence, &Thresholds::default()).is_err());
    }
}
