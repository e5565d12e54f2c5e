//! Job: one event of the workload, encoded for a worker ahead of its due time.

use run::{Captured, SkipReason, StatementKind};
use sql::Fingerprint;
use sql::SessionEffect;
use workload::{Boundary, SessionState, Sqlstate};

use crate::event_id::EventId;
use crate::generated::{ExpectedRows, UsedValue};
use crate::login::Login;

/// Encoded event.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Job {
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    /// Due time in nanoseconds from the replay's start; without meaning under `--speed max`.
    pub(crate) due_ns: i64,
    /// Captured time, in microseconds from the workload's start.
    pub(crate) captured_us: i64,
    /// Think time in a closed loop: the job is due this long after the session's previous event ends. `None`: it
    /// is due at `due_ns`.
    pub(crate) think_ns: Option<i64>,
    pub(crate) kind: StatementKind,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) captured: Captured,
    /// Number of commits that must finish first (`--order commit`); 0: it waits for none.
    pub(crate) commits_before: u64,
    /// Executions of other sessions that must be done first (`--order dependencies`).
    pub(crate) dependencies: Box<[EventId]>,
    /// Whether its transaction had failed in the capture, so that it was refused or rolled back.
    pub(crate) transaction_failed: bool,
    /// Effect on the state and the transaction of its session.
    pub(crate) session_effect: SessionEffect,
    /// Whether it waits for the answer to the session's previous event. If not, it is pipelined.
    pub(crate) awaited: bool,
    /// Message that ends it. Without a Sync, the server may delay the answer until a later Sync or Flush.
    pub(crate) boundary: Boundary,
    /// Captured values that the server may generate again, and that later statements use.
    pub(crate) expected: Option<Box<ExpectedRows>>,
    /// Generated values that it uses.
    pub(crate) used: Box<[UsedValue]>,
    pub(crate) action: Action,
}

/// Action of a job.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) enum Action {
    Connect(Box<Login>),
    Send(Messages),
    /// Cancel the session's running statement.
    Cancel,
    Skip(SkipReason),
    /// The event cannot be encoded; it counts as failed with this code.
    Refuse(Sqlstate, String),
    Disconnect,
    /// Resume the session at the position where another replay stopped.
    Resume(Box<ResumedSession>),
}

/// Encoded messages of one statement.
///
/// For a named statement they are Close (needed if the name stands for other SQL), Parse (needed if the server
/// does not have the statement), Bind, Describe, Execute and Sync. A session skips the first ones that its state
/// does not need.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Messages {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the Close at the front; 0 if there is none.
    pub(crate) close_bytes: u32,
    /// Bytes of the Parse after it; 0 if there is none.
    pub(crate) parse_bytes: u32,
    /// The named statement; `None` for simple and unnamed statements.
    pub(crate) named: Option<NamedStatement>,
    /// Whether the statement is prepared again if the server has it: the client did so.
    pub(crate) reparses: bool,
    /// Whether they are of the extended protocol, and so end as [`Job::boundary`] says.
    pub(crate) extended: bool,
    /// COPY data for when the server asks for them, with the Sync after them. The messages then end in a Flush,
    /// since the server may or may not take a Sync there as part of the data.
    pub(crate) copy: Option<Vec<u8>>,
}

/// Named statement: hashes of its name and of its SQL. With 64 bits each, collisions within one session are
/// negligible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedStatement {
    pub(crate) name: u64,
    pub(crate) sql: u64,
}

/// Session to resume.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct ResumedSession {
    pub(crate) login: Login,
    pub(crate) state: SessionState,
    /// Whether it was in a transaction, which ended with the previous replay.
    pub(crate) transaction_lost: bool,
}

#[cfg(test)]
impl PartialEq for ResumedSession {
    /// Ignores the session state, which has no equality.
    fn eq(&self, other: &Self) -> bool {
        self.login == other.login && self.transaction_lost == other.transaction_lost
    }
}

#[cfg(test)]
pub(crate) mod test_jobs {
    use super::*;
    use crate::generated::Value;
    use workload::Unreplayable;

    pub(crate) fn jobs_of_each_kind() -> Vec<Job> {
        let actions = [
            Action::Connect(Box::new(Login {
                user: "app".into(),
                database: "shop".into(),
                application: "".into(),
                role: None,
                settings: Default::default(),
            })),
            Action::Connect(Box::new(Login {
                user: "login".into(),
                database: "shop".into(),
                application: "x".into(),
                role: Some("app".into()),
                settings: [("TimeZone".into(), "UTC".into())].into(),
            })),
            Action::Send(Messages {
                bytes: b"Q\0\0\0\x05;\0".to_vec(),
                ..Messages::default()
            }),
            Action::Send(Messages {
                bytes: vec![7; 100],
                close_bytes: 10,
                parse_bytes: 20,
                named: Some(NamedStatement { name: 1, sql: 2 }),
                reparses: true,
                extended: true,
                copy: Some(b"c\0\0\0\x04".to_vec()),
            }),
            Action::Skip(SkipReason::Unreplayable(Unreplayable::ParametersCut)),
            Action::Refuse(Sqlstate(*b"22021"), "a NUL".to_owned()),
            Action::Cancel,
            Action::Disconnect,
        ];
        (0..)
            .zip(actions)
            .map(|(sequence, action)| Job {
                session: 9,
                sequence,
                due_ns: -5,
                captured_us: 6,
                think_ns: (sequence % 2 == 1).then_some(8),
                kind: StatementKind::Simple,
                fingerprint: (sequence % 2 == 0).then_some(Fingerprint(sequence)),
                captured: Captured {
                    duration_us: Some(3),
                    rows: None,
                    sqlstate: (sequence % 2 == 1).then_some(Sqlstate(*b"42P01")),
                    digest: Some(9),
                    context: (sequence % 3 == 0).then_some(workload::ContextId(sequence)),
                    trace: (sequence % 3 == 1).then_some(workload::TraceParent {
                        trace_id: 1 << 100,
                        span_id: 1 << 50,
                        flags: 1,
                    }),
                    location: run::SourceLocation::of(3, sequence),
                },
                commits_before: 7,
                dependencies: (0..sequence).map(|number| (number, 2 * number)).collect(),
                transaction_failed: sequence % 2 == 0,
                session_effect: SessionEffect {
                    changes_state: sequence % 2 == 0,
                    begins_transaction: sequence % 3 == 0,
                    ends_transaction: sequence % 5 == 0,
                },
                awaited: sequence % 2 == 1,
                boundary: Boundary::ALL[sequence as usize % 3],
                expected: (sequence % 2 == 0).then(|| {
                    let values = [
                        Some((Value::Integer(-7), 3)),
                        None,
                        Some((Value::Uuid([9; 16]), 4)),
                        Some((Value::Snapshot([3, 27, 1]), 5)),
                    ];
                    Box::new(ExpectedRows::new(2, Box::new(values)))
                }),
                used: [
                    (sql::ValueToken::Parameter(2), None),
                    (sql::ValueToken::Parameter(3), Some(1..4)),
                    (sql::ValueToken::Literal(5..7), None),
                ]
                .map(|(token, part)| UsedValue {
                    token,
                    part,
                    captured: Value::Integer(sequence as i64),
                    number: sequence,
                })
                .into(),
                action,
            })
            .collect()
    }
}
