//! What a worker does for one event of the workload, made ready ahead of its time.

use run::{Captured, SkipReason, StatementKind};
use sql::Fingerprint;
use sql::SessionEffect;
use workload::{Boundary, Sqlstate};

use crate::login::Login;
use crate::remap::Expected;
use crate::resume::Resumed;

/// One event, ready to be done.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) struct Job {
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    /// From the replay's start; without meaning under `--speed max`.
    pub(crate) due_ns: i64,
    /// When the capture has it, in microseconds from the workload's start.
    pub(crate) captured_us: i64,
    /// In a closed loop, how long behind the session's previous event this is due instead;
    /// `None` for what comes at its own time.
    pub(crate) think_ns: Option<i64>,
    pub(crate) kind: StatementKind,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) captured: Captured,
    /// How many commits it follows (`--order commit`); 0: it waits for none.
    pub(crate) after: u64,
    /// Its effect on the state and on the transaction of its session.
    pub(crate) session_effect: SessionEffect,
    /// It is sent when the session's previous event is done; if not, behind that one's messages.
    pub(crate) awaited: bool,
    /// What stands behind its messages; with anything but a Sync the answer may stay away until a
    /// later one has it.
    pub(crate) boundary: Boundary,
    /// What of its captured result may be made up anew (`--remap-generated`).
    pub(crate) expected: Option<Box<Expected>>,
    pub(crate) action: Action,
}

/// What is to be done.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub(crate) enum Action {
    Connect(Box<Login>),
    Send(Messages),
    /// Cancel what the session runs.
    Cancel,
    Skip(SkipReason),
    /// It cannot be put into messages; counted as failed with this code.
    Refuse(Sqlstate, String),
    Disconnect,
    /// The session goes on where another replay left it.
    Resume(Box<Resumed>),
}

/// The messages of one statement, encoded. For a named statement they are, in this order, Close
/// (where the name stands for other SQL), Parse (where the server does not have it), and Bind,
/// Describe, Execute, Sync: what is sent begins where the session's state asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Messages {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the Close at the front; 0 if there is none.
    pub(crate) close_bytes: u32,
    /// Bytes of the Parse behind it; 0 if there is none.
    pub(crate) parse_bytes: u32,
    /// Which named statement this is of, as hashes; `None` for simple and unnamed.
    pub(crate) named: Option<NamedStatement>,
    /// Whether it is of the extended protocol, and so ends in what [`Job::boundary`] says.
    pub(crate) extended: bool,
    /// What the server gets when it asks for COPY data, with the Sync behind it. Then the messages
    /// end in a Flush: a Sync there would be taken as part of the data, or not.
    pub(crate) copy: Option<Vec<u8>>,
}

/// A named statement: hashes of its name and of its SQL. 64 bits each: within one session a
/// collision is not to be feared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedStatement {
    pub(crate) name: u64,
    pub(crate) sql: u64,
}

#[cfg(test)]
pub(crate) mod test_jobs {
    use super::*;
    use crate::remap::Value;
    use workload::Unreplayable;

    pub(crate) fn some_of_each_kind() -> Vec<Job> {
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
                    place: run::Place::of(3, sequence),
                },
                after: 7,
                session_effect: SessionEffect {
                    changes_state: sequence % 2 == 0,
                    begins_transaction: sequence % 3 == 0,
                    ends_transaction: sequence % 5 == 0,
                },
                awaited: sequence % 2 == 1,
                boundary: Boundary::ALL[sequence as usize % 3],
                expected: (sequence % 2 == 0).then(|| {
                    let values = [Some(Value::Integer(-7)), None, Some(Value::Uuid([9; 16]))];
                    Box::new(Expected::new(Box::new(values)))
                }),
                action,
            })
            .collect()
    }
}
