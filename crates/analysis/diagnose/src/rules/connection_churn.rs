//! Connections that are opened for few statements each: every one starts a process and fills its
//! caches.

use super::Rule;
use crate::evidence::{Basis, Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use cpu_profile::phases::Phase;
use statistics::Unit;

const RATE: Threshold = Threshold {
    name: "churn-connections-per-second",
    value: 2.0,
    unit: "connections a second",
    decides: "fewer are no churn",
    source: "ours",
};

const STATEMENTS: Threshold = Threshold {
    name: "churn-statements",
    value: 20.0,
    unit: "statements a connection",
    decides: "connections that are used for more are worth their opening",
    source: "ours",
};

/// Assumed cost of a connection for the server, if it was not measured.
const EACH_NS: f64 = 2e6;

pub(super) const RULE: Rule = Rule {
    name: "connection-churn",
    looks_at: "connections that are opened, and how many statements each is used for",
    thresholds: &[RATE, STATEMENTS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let (came, statements, measured_ns, from) = match (&evidence.sessions, &evidence.observed) {
        (Ok(sessions), _) => (
            sessions.connected as f64,
            sessions.statements as f64,
            (evidence.basis == Basis::Run).then_some(sessions.connecting_ns),
            "sessions of the run or workload",
        ),
        (Err(_), Ok(observed)) if evidence.server_major.is_none_or(|major| major >= 14) => {
            let all = observed.counters.iter();
            let came: f64 = all
                .filter(|one| one.source == "pg_stat_database" && one.name == "sessions")
                .map(|one| one.delta)
                .sum();
            let statements = evidence.statements.iter().map(|one| one.calls as f64).sum();
            (came, statements, None, "sessions of pg_stat_database")
        }
        (Err(_), Ok(_)) => {
            return Err(Unavailable::because(
                "servers before 14 do not count sessions",
            ));
        }
        (Err(missing), Err(_)) => return Err(missing.clone()),
    };
    if evidence.elapsed_s <= 0.0 {
        return Err(Unavailable::because("nobody knows how long it went on"));
    }
    let (rate, each) = (came / evidence.elapsed_s, statements / came.max(1.0));
    if rate < thresholds.of(&RATE) || each >= thresholds.of(&STATEMENTS) || statements < 1.0 {
        return Ok(Vec::new());
    }
    let ns = measured_ns.unwrap_or(came * EACH_NS);
    // Connecting is not part of the statements' time, so it is added to the whole.
    let share = ns / (ns + evidence.whole_ns).max(1.0);
    let mut facts = vec![
        Fact::new("connections a second", rate, Unit::PerSecond, from)
            .check("SELECT datname, sessions FROM pg_stat_database"),
        Fact::new("statements a connection", each, Unit::Mean, from),
        match measured_ns {
            Some(ns) => Fact::new(
                "to open one",
                ns / came.max(1.0),
                Unit::Nanoseconds,
                "clients' clocks",
            ),
            None => Fact::new(
                "to open one, taken to be",
                EACH_NS,
                Unit::Nanoseconds,
                "ours: a process, authentication, first catalogue reads",
            ),
        },
    ];
    if let Ok(stacks) = &evidence.stacks {
        let starting = stacks
            .all
            .iter()
            .find(|(phase, _)| *phase == Phase::Backend);
        let starting = starting.map_or(0, |(_, samples)| *samples);
        let share = starting as f64 / stacks.samples().max(1) as f64;
        facts.push(Fact::new(
            "processor time of starting and ending backends",
            share,
            Unit::Share,
            "stacks (perf)",
        ));
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::server(),
        title: format!("{rate:.1} connections a second are opened, for {each:.1} statements each"),
        evidence: facts,
        cost: Some(evidence.cost_of(ns)),
        max_gain: Some(share),
        changes: vec![
            Change::rewrite("let sessions share connections", "pool=20"),
            Change::manual("a pool in the application, or a pooler (PgBouncer) before the server"),
        ],
        risk: "what a session sets or prepares does not outlive its transaction in a pool that shares by transaction".to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::history::SessionAccount;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(came: u64, statements: u64) -> EvidenceBuilder {
        let mut made_up =
            EvidenceBuilder::new().statement(statement(1, "select $1").took(statements, 1.0));
        made_up.evidence.sessions = Ok(SessionAccount {
            connected: came,
            connecting_ns: came as f64 * 5e6,
            statements,
            max_concurrent: 10,
        });
        made_up
    }

    #[test]
    fn connections_for_single_statements_are_found() {
        let found = with(600, 600).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].max_gain, Some(0.75));
    }

    #[test]
    fn long_connections_are_no_finding() {
        assert_eq!(with(600, 60_000).findings(&RULE), []);
        assert_eq!(with(10, 10).findings(&RULE), []);
    }
}
