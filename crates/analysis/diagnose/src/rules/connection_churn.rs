//! Connections that are opened for a few statements each: a process is made, and fills its caches, for nothing.

use super::Rule;
use crate::evidence::{Basis, Evidence, Missing};
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

/// What a connection costs the server where nobody measured it.
const EACH_NS: f64 = 2e6;

pub(super) const RULE: Rule = Rule {
    name: "connection-churn",
    looks_at: "connections that are opened, and how many statements each is used for",
    thresholds: &[RATE, STATEMENTS],
    look,
};

fn look(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Missing> {
    let (came, statements, measured_ns, from) = match (&evidence.sessions, &evidence.observed) {
        (Ok(sessions), _) => (
            sessions.came as f64,
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
            return Err(Missing::because("servers before 14 do not count sessions"));
        }
        (Err(missing), Err(_)) => return Err(missing.clone()),
    };
    if evidence.elapsed_s <= 0.0 {
        return Err(Missing::because("nobody knows how long it went on"));
    }
    let (rate, each) = (came / evidence.elapsed_s, statements / came.max(1.0));
    if rate < thresholds.of(&RATE) || each >= thresholds.of(&STATEMENTS) || statements < 1.0 {
        return Ok(Vec::new());
    }
    let ns = measured_ns.unwrap_or(came * EACH_NS);
    // Not a part of the statements' time, but beside it.
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
        severity: thresholds.severity(share),
        subject: Subject::server(),
        title: format!("{rate:.1} connections a second are opened, for {each:.1} statements each"),
        evidence: facts,
        cost: Some(evidence.cost_of(ns)),
        max_gain: Some(share),
        changes: vec![
            Change::rewrite("let sessions share connections", "pool=20"),
            Change::by_hand("a pool in the application, or a pooler (PgBouncer) before the server"),
        ],
        risk: "what a session sets or prepares does not outlive its transaction in a pool that shares by transaction".to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::history::SessionAccount;
    use crate::made_up::{MadeUp, statement};

    fn with(came: u64, statements: u64) -> MadeUp {
        let mut made_up = MadeUp::new().statement(statement(1, "select $1").took(statements, 1.0));
        made_up.evidence.sessions = Ok(SessionAccount {
            came,
            connecting_ns: came as f64 * 5e6,
            statements,
            most: 10,
        });
        made_up
    }

    #[test]
    fn connections_for_a_statement_each_are_found() {
        let found = with(600, 600).find(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].max_gain, Some(0.75));
    }

    #[test]
    fn connections_that_stay_are_well() {
        assert_eq!(with(600, 60_000).find(&RULE), []);
        assert_eq!(with(10, 10).find(&RULE), []);
    }
}
