//! A pool of sessions that any number of clients share: each client performs one session after the other, as fast as the
//! server answers, and takes the next one from the pool.
//!
//! Sessions keep their order and their connections; captured times do not count. So the load is a closed loop whose number
//! of clients does not depend on the capture. The workload is kept in memory, up to [`STATEMENTS_MAX`] statements.

use std::sync::{Arc, Mutex, PoisonError};

use replay::{ClientEvents, LoadSource};
use sql::Fingerprint;
use workload::{Event, EventKind, Outcome, WorkloadReader};

use super::design::Mode;
use crate::error::ExperimentError;

/// Limit of statements that are kept in memory.
pub const STATEMENTS_MAX: u64 = 2_000_000;

type SessionEvents = Arc<[(Event, Option<Fingerprint>)]>;

/// The sessions of a workload, in memory.
#[derive(Debug, Clone)]
pub struct SessionPool {
    sessions: Arc<[SessionEvents]>,
    /// Number of executions that the mode changed.
    pub changed: u64,
    /// Number of statements that stay as they were captured.
    pub unchanged: u64,
}

impl SessionPool {
    /// Reads a workload, with its executions in a mode.
    ///
    /// # Errors
    /// If it cannot be read, or is too large.
    pub fn read(reader: &WorkloadReader, mode: Mode) -> Result<Self, ExperimentError> {
        let statements = reader.info().statements;
        if statements > STATEMENTS_MAX {
            return Err(ExperimentError::Usage(format!(
                "{} has {statements} statements, and up to {STATEMENTS_MAX} can be dealt to clients, since they are held in memory; take a part of it with `rehearse slice`, or leave --clients out",
                reader.path().display()
            )));
        }
        let mut order: Vec<u64> = Vec::new();
        let mut by_session: std::collections::HashMap<u64, Vec<(Event, Option<Fingerprint>)>> =
            Default::default();
        let (mut changed, mut unchanged) = (0, 0);
        for item in reader.events()? {
            let (mut event, fingerprint) = item?;
            if event.kind.is_statement() {
                match convert_mode(&mut event.kind, mode) {
                    true => changed += 1,
                    false => unchanged += 1,
                }
            }
            let session = event.session;
            let events = by_session.entry(session).or_insert_with(|| {
                order.push(session);
                Vec::new()
            });
            events.push((event, fingerprint));
        }
        let sessions: Vec<SessionEvents> = order
            .into_iter()
            .filter_map(|session| by_session.remove(&session))
            .map(add_disconnect)
            .collect();
        if sessions.is_empty() {
            return Err(ExperimentError::Usage(format!(
                "{} has no session; give a workload with statements",
                reader.path().display()
            )));
        }
        Ok(SessionPool {
            sessions: sessions.into(),
            changed,
            unchanged,
        })
    }

    /// Returns the events of clients. The first session follows the last, without end or for a number of rounds.
    pub(super) fn feed(&self, clients: u32, rounds: Option<u64>) -> LoadSource {
        let next = Arc::new(Mutex::new(0u64));
        let sessions = self.sessions.clone();
        let most = rounds.map(|rounds| rounds.saturating_mul(sessions.len() as u64));
        LoadSource::new(clients, move |client| -> ClientEvents {
            Box::new(Client {
                sessions: sessions.clone(),
                next: next.clone(),
                most,
                client: u64::from(client),
                clients: u64::from(clients),
                taken: 0,
                now: None,
            })
        })
    }
}

/// Adds the disconnect to a session that the workload leaves open, since the client performs another one next.
fn add_disconnect(mut events: Vec<(Event, Option<Fingerprint>)>) -> SessionEvents {
    if let Some((last, _)) = events.last()
        && last.kind != EventKind::Disconnect
    {
        let end = Event {
            sequence: last.sequence + 1,
            kind: EventKind::Disconnect,
            outcome: Outcome::default(),
            unreplayable: None,
            wire_details: None,
            ..last.clone()
        };
        events.push((end, None));
    }
    events.into()
}

/// Changes an execution to a mode. Returns false if it stays as it was captured.
fn convert_mode(kind: &mut EventKind, mode: Mode) -> bool {
    let EventKind::Execute {
        statement,
        portal,
        sql,
        ..
    } = kind
    else {
        return false;
    };
    // A named portal may be fetched from later by its name, so its statement stays unchanged.
    match mode {
        Mode::Extended if portal.is_empty() && !statement.is_empty() => *statement = "".into(),
        Mode::Prepared if statement.is_empty() => {
            let name = Fingerprint(hash_name(sql));
            *statement = format!("rehearse_{name}").into();
        }
        _ => return false,
    }
    true
}

/// Hashes a text to a name (FNV-1a of Fowler, Noll and Vo).
fn hash_name(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Generates the events of one client, session by session.
struct Client {
    sessions: Arc<[SessionEvents]>,
    next: Arc<Mutex<u64>>,
    most: Option<u64>,
    client: u64,
    clients: u64,
    /// Number of sessions that it has taken.
    taken: u64,
    /// The present session, its number, and the position in it.
    now: Option<(SessionEvents, u64, usize)>,
}

impl Client {
    fn take_next(&mut self) -> Option<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if self.most.is_some_and(|most| *next >= most) {
            return None;
        }
        let place = (*next % self.sessions.len() as u64) as usize;
        *next += 1;
        // The feed requires that the remainder by the number of clients is the client.
        let number = self.taken * self.clients + self.client;
        self.taken += 1;
        self.now = Some((self.sessions[place].clone(), number, 0));
        Some(())
    }
}

impl Iterator for Client {
    type Item = (Event, Option<Fingerprint>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((whole, number, place)) = &mut self.now
                && let Some((event, fingerprint)) = whole.get(*place)
            {
                *place += 1;
                let event = Event {
                    session: *number,
                    ..event.clone()
                };
                return Some((event, *fingerprint));
            }
            self.take_next()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use workload::Parameter;

    fn dealt(sessions: u64, statements: u64) -> SessionPool {
        let whole = |session: u64| {
            let event = |sequence, kind| Event {
                session,
                sequence,
                due_us: 0,
                kind,
                outcome: Outcome::default(),
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            };
            let connect = EventKind::Connect {
                database: "d".into(),
                user: "u".into(),
                application: "".into(),
            };
            let mut events = vec![(event(0, connect), None)];
            for sequence in 1..=statements {
                let sql = format!("SELECT {session}").into();
                events.push((event(sequence, EventKind::Simple { sql }), None));
            }
            add_disconnect(events)
        };
        SessionPool {
            sessions: (0..sessions).map(whole).collect(),
            changed: 0,
            unchanged: 0,
        }
    }

    /// Collects the events of all clients, which advance in turn.
    fn all(feed: &SessionPool, clients: u32, rounds: Option<u64>) -> Vec<Vec<Event>> {
        let sessions = feed.sessions.clone();
        let next = Arc::new(Mutex::new(0));
        let most = rounds.map(|rounds| rounds * sessions.len() as u64);
        let mut streams: Vec<Client> = (0..u64::from(clients))
            .map(|client| Client {
                sessions: sessions.clone(),
                next: next.clone(),
                most,
                client,
                clients: clients.into(),
                taken: 0,
                now: None,
            })
            .collect();
        let mut done = vec![Vec::new(); clients as usize];
        for _ in 0..1_000 {
            for (stream, done) in streams.iter_mut().zip(&mut done) {
                done.extend(stream.next().map(|(event, _)| event));
            }
        }
        done
    }

    #[test]
    fn feed_gives_each_session_whole_to_one_client_once_a_round() {
        let clients = all(&dealt(10, 3), 4, Some(2));
        let mut by_text: BTreeMap<String, usize> = BTreeMap::new();
        for (client, events) in (0u64..).zip(&clients) {
            let mut next = BTreeMap::new();
            for event in events {
                assert_eq!(event.session % 4, client);
                let expected = next.entry(event.session).or_insert(0);
                assert_eq!(event.sequence, *expected);
                *expected += 1;
                if let Some(sql) = event.kind.sql() {
                    *by_text.entry(sql.to_string()).or_default() += 1;
                }
            }
            // Connect, three statements, and an end that the workload did not have.
            assert!(next.values().all(|events| *events == 5), "{next:?}");
        }
        assert_eq!(by_text.len(), 10);
        assert!(by_text.values().all(|count| *count == 6), "{by_text:?}");
    }

    #[test]
    fn feed_without_limit_repeats_the_sessions() {
        let clients = all(&dealt(2, 1), 3, None);
        assert!(clients.iter().all(|events| events.len() == 1_000));
    }

    #[test]
    fn convert_mode_changes_only_the_protocol_form() {
        let execute = |statement: &str, portal: &str| EventKind::Execute {
            statement: statement.into(),
            portal: portal.into(),
            sql: "SELECT $1".into(),
            parameters: vec![Some(Parameter::from("1"))],
        };
        let changed = |mut kind: EventKind, mode| {
            let done = convert_mode(&mut kind, mode);
            (kind, done)
        };
        assert_eq!(
            changed(execute("a", ""), Mode::Extended),
            (execute("", ""), true)
        );
        let (named, done) = changed(execute("", ""), Mode::Prepared);
        assert!(done);
        assert_eq!(changed(execute("", ""), Mode::Prepared).0, named);
        assert_eq!(
            changed(execute("a", ""), Mode::Prepared),
            (execute("a", ""), false)
        );
        assert_eq!(
            changed(execute("a", "p"), Mode::Extended),
            (execute("a", "p"), false)
        );
        assert_eq!(
            changed(execute("a", ""), Mode::Captured),
            (execute("a", ""), false)
        );
    }
}
