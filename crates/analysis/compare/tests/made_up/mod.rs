//! Synthetic executions for tests.

#![allow(dead_code)] // each test file uses a part of it

use std::collections::BTreeMap;

use run::{
    Captured, Execution, Outcome, RunInfo, RunStatus, SkipReason, SourceLocation, StatementKind,
    StatementStatistics, TargetInfo, WorkloadRef,
};
use sql::{Fingerprint, StatementClass};
use workload::{Sqlstate, StatementText};

/// Deterministic pseudo-random numbers (Knuth's linear congruential generator).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        let mut chance = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635);
        chance.uniform();
        chance
    }

    /// Returns a number from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number around 1 with a tail to the right: about log-normal with sigma 0.3.
    pub fn skewed(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (0.3 * normal).exp()
    }
}

pub fn info() -> RunInfo {
    RunInfo {
        status: RunStatus::Complete,
        workload: WorkloadRef {
            name: "shop.workload".to_owned(),
            id: "w1".to_owned(),
            statements: 6_000,
            sources: vec!["shop.log".to_owned()],
            failures_named: true,
        },
        target: TargetInfo {
            address: "localhost:5432".to_owned(),
            server_version: "17.2".to_owned(),
            ..TargetInfo::default()
        },
        options: BTreeMap::from([("speed".to_owned(), "1".to_owned())]),
        started_wall_us: 0,
        elapsed_ns: 60_000_000_000,
        span_due_ns: 60_000_000_000,
        span_sent_ns: 60_000_000_000,
        statements: 6_000,
        done: 6_000,
        failed: BTreeMap::new(),
        skipped: BTreeMap::new(),
        connections_failed: BTreeMap::new(),
        connections_lost: BTreeMap::new(),
        connections_reopened: 0,
        given_up: None,
        tool_stalls: Vec::new(),
        series_gaps: Vec::new(),
        machine: None,
    }
}

/// Creates a statement that was sent 50 µs after it was due.
pub fn done(fingerprint: u64, sequence: u64, due_ns: i64, service_ns: f64) -> Execution {
    let sent_ns = due_ns + 50_000;
    Execution {
        session: sequence % 20,
        sequence,
        fingerprint: Some(Fingerprint(fingerprint)),
        kind: StatementKind::Execute,
        outcome: Outcome::Done,
        due_ns,
        sent_ns: Some(sent_ns),
        first_byte_ns: Some(sent_ns + service_ns as i64),
        done_ns: Some(sent_ns + service_ns as i64),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 1,
        bytes: 100,
        digest: None,
        message: None,
        captured: Captured {
            duration_us: Some(700),
            rows: None,
            sqlstate: None,
            digest: None,
            context: None,
            trace: None,
            location: SourceLocation::of(0, 10 + sequence),
        },
    }
}

/// Returns the server's statistics of these executions: a block takes 10 µs.
pub fn counted(executions: &[Execution]) -> Vec<Result<StatementStatistics, ()>> {
    let mut by_statement: BTreeMap<Fingerprint, StatementStatistics> = BTreeMap::new();
    for one in executions {
        if let (Some(fingerprint), Outcome::Done, Some(service_ns)) =
            (one.fingerprint, one.outcome, one.service_ns())
        {
            let row = by_statement.entry(fingerprint).or_default();
            row.fingerprint = Some(fingerprint);
            row.calls += 1;
            row.exec_ns += service_ns as u64;
            row.shared_hit += service_ns as u64 / 10_000;
        }
    }
    by_statement.into_values().map(Ok).collect()
}

pub fn failed(of: &Execution, code: &str, service_ns: f64) -> Execution {
    Execution {
        outcome: Outcome::Failed(Sqlstate::parse(code).unwrap()),
        done_ns: of.sent_ns.map(|sent_ns| sent_ns + service_ns as i64),
        rows: 0,
        message: Some(format!("it failed with {code}")),
        ..of.clone()
    }
}

pub fn skipped(of: &Execution, reason: SkipReason) -> Execution {
    Execution {
        outcome: Outcome::Skipped(reason),
        sent_ns: None,
        first_byte_ns: None,
        done_ns: None,
        rows: 0,
        bytes: 0,
        ..of.clone()
    }
}

pub fn connect(session: u64, due_ns: i64) -> Execution {
    Execution {
        session,
        fingerprint: None,
        kind: StatementKind::Connect,
        captured: Captured::default(),
        ..done(0, 0, due_ns, 2e6)
    }
}

pub fn text(fingerprint: u64, sql: &str) -> StatementText {
    StatementText {
        fingerprint: Fingerprint(fingerprint),
        sql: sql.to_owned(),
        class: StatementClass::Select,
    }
}
