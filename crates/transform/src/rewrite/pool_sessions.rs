//! Simulates a connection pool in transaction mode: sessions share connections, each for one
//! transaction.
//!
//! Sessions of one database and user that begin with the same settings share a pool. A transaction,
//! or a statement outside of one, takes the next free connection. If none is free, it waits in a
//! first-in first-out queue. Sessions that leave state in their connection (settings changed later,
//! temporary tables, LISTEN, cursors WITH HOLD, session advisory locks, PREPARE in SQL) keep their
//! own connection.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::connection_state::{is_only_set, reason_to_keep};
use super::insert::Reason;
use super::session_context::SessionContexts;
use workload::{
    Boundary, Event, EventKind, Outcome, REPORTED_PROCESS_ID, RewriteAccount, Session, Setting,
    WireDetails,
};

type Emit<'g, E> = &'g mut dyn FnMut(Event) -> Result<(), E>;

/// Key of sessions that share a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct PoolKey {
    database: Arc<str>,
    user: Arc<str>,
    settings: Vec<Setting>,
    /// The settings at the start of the session.
    opening: Vec<Arc<str>>,
}

/// Facts about a session from the first pass.
#[derive(Debug, Default)]
struct SessionSurvey {
    key: PoolKey,
    /// It has done something other than SET.
    is_open: bool,
    keeps: Option<Reason>,
}

#[derive(Debug, Default)]
struct Pool {
    /// Session numbers of the connections.
    connections: Vec<u64>,
    /// Whether its connections are open.
    is_open: bool,
    opening: Vec<Arc<str>>,
    /// Index at which the search for a free connection starts.
    next: usize,
    /// Whether each connection is in use.
    busy: Vec<bool>,
    waiting: VecDeque<u64>,
    start_us: i64,
}

/// A session of the workload.
#[derive(Debug, Default)]
struct Client {
    pool: usize,
    /// Number of opening settings that are still to come.
    opening_left: usize,
    holds: Option<usize>,
    last: Option<usize>,
    waiting: VecDeque<Event>,
    /// The last statement's group of messages continues.
    in_group: bool,
}

/// The pool simulation; see the module documentation.
#[derive(Debug)]
pub(super) struct SessionPooler {
    size: usize,
    sticky: bool,
    seen: BTreeMap<u64, SessionSurvey>,
    pools: Vec<Pool>,
    clients: HashMap<u64, Client>,
    contexts: SessionContexts,
    /// Sessions that keep their own connection, with the reason.
    exclusive: HashMap<u64, Reason>,
    now_us: i64,
    is_surveyed: bool,
}

impl SessionPooler {
    pub(super) fn new(size: u32, sticky: bool) -> Self {
        SessionPooler {
            size: size as usize,
            sticky,
            seen: BTreeMap::new(),
            pools: Vec::new(),
            clients: HashMap::new(),
            contexts: SessionContexts::default(),
            exclusive: HashMap::new(),
            now_us: 0,
            is_surveyed: false,
        }
    }

    /// Records an event of the first pass.
    pub(super) fn survey(&mut self, event: &Event) {
        let seen = self.seen.entry(event.session).or_default();
        match &event.kind {
            EventKind::Connect { database, user, .. } => {
                seen.key.database = database.clone();
                seen.key.user = user.clone();
                if let Some(particulars) = &event.wire_details {
                    // Each connection has a process of its own.
                    let settings = particulars.settings.iter();
                    let shared = settings.filter(|(name, _)| **name != *REPORTED_PROCESS_ID);
                    seen.key.settings = shared.cloned().collect();
                }
            }
            EventKind::Simple { sql } if !seen.is_open && is_only_set(sql) => {
                seen.key.opening.push(sql.clone());
            }
            EventKind::Simple { sql } | EventKind::Execute { sql, .. } => {
                seen.is_open = true;
                let parameters = match &event.kind {
                    EventKind::Execute { parameters, .. } => &parameters[..],
                    _ => &[],
                };
                if seen.keeps.is_none() {
                    seen.keeps = reason_to_keep(sql, parameters);
                }
            }
            EventKind::Prepare { .. }
            | EventKind::Fetch { .. }
            | EventKind::FunctionCall { .. } => seen.is_open = true,
            EventKind::Cancel | EventKind::Disconnect => {}
        }
    }

    /// Assigns sessions to pools, by the facts from the first pass.
    fn assign_pools(&mut self) {
        let mut by_key: HashMap<PoolKey, usize> = HashMap::new();
        for (session, seen) in std::mem::take(&mut self.seen) {
            if let Some(why) = seen.keeps {
                self.exclusive.insert(session, why);
                continue;
            }
            let opening_left = seen.key.opening.len();
            let pools = &mut self.pools;
            let pool = *by_key.entry(seen.key).or_insert_with_key(|key| {
                pools.push(Pool {
                    opening: key.opening.clone(),
                    ..Pool::default()
                });
                pools.len() - 1
            });
            let connections = &mut self.pools[pool];
            if connections.connections.len() < self.size {
                connections.connections.push(session);
                connections.busy.push(false);
            }
            let client = Client {
                pool,
                opening_left,
                ..Client::default()
            };
            self.clients.insert(session, client);
        }
        self.is_surveyed = true;
    }

    pub(super) fn handle_event<E>(
        &mut self,
        event: Event,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        if !self.is_surveyed {
            self.assign_pools();
        }
        self.now_us = self.now_us.max(event.due_us);
        let Some(client) = self.clients.get_mut(&event.session) else {
            if event.kind.is_statement() {
                account.unchanged += 1;
                let why = self.exclusive.get(&event.session);
                let why = why.copied().unwrap_or("its session was not seen before");
                *account.left_alone.entry(why.to_owned()).or_default() += 1;
            }
            return give(event);
        };
        let pool = client.pool;
        if let EventKind::Connect { .. } = &event.kind {
            return self.open_pool(pool, &event, account, give);
        }
        if client.opening_left > 0 && event.kind.is_statement() {
            client.opening_left -= 1;
            account.opened += 1;
            return Ok(());
        }
        if !client.waiting.is_empty() {
            client.waiting.push_back(event);
            return Ok(());
        }
        match self.send(event, account, give)? {
            None => self.serve_waiting(pool, account, give),
            Some(event) => {
                let session = event.session;
                let client = self.clients.entry(session).or_default();
                client.waiting.push_back(event);
                self.pools[pool].waiting.push_back(session);
                Ok(())
            }
        }
    }

    /// Opens a pool's connections when the first of its sessions connects.
    fn open_pool<E>(
        &mut self,
        pool: usize,
        event: &Event,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        let pool = &mut self.pools[pool];
        if std::mem::replace(&mut pool.is_open, true) {
            return Ok(());
        }
        pool.start_us = event.due_us;
        for &session in &pool.connections {
            give(Event {
                session,
                ..event.clone()
            })?;
            for sql in &pool.opening {
                account.added += 1;
                give(build_event(
                    session,
                    event,
                    EventKind::Simple { sql: sql.clone() },
                ))?;
            }
        }
        Ok(())
    }

    /// Sends an event on its session's connection; returns it if none is free.
    fn send<E>(
        &mut self,
        event: Event,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<Option<Event>, E> {
        let session = event.session;
        let client = self.clients.get_mut(&session).expect("it has a pool");
        let pool = &mut self.pools[client.pool];
        match &event.kind {
            EventKind::Disconnect => {
                if let Some(at) = client.holds.take() {
                    // A pooler would roll back the transaction that its client left open.
                    if self.contexts.get(session).in_transaction {
                        account.added += 1;
                        let sql = "ROLLBACK".into();
                        give(build_event(
                            pool.connections[at],
                            &event,
                            EventKind::Simple { sql },
                        ))?;
                    }
                    pool.busy[at] = false;
                }
                self.contexts.follow(&event);
                return Ok(None);
            }
            EventKind::Cancel => {
                // The end of the session follows its last statement.
                if let Some(at) = client.holds.or(client.last) {
                    give(Event {
                        session: pool.connections[at],
                        ..event
                    })?;
                }
                return Ok(None);
            }
            _ => {}
        }
        let sticky = client.last.filter(|_| self.sticky);
        let at = match client.holds {
            Some(at) => at,
            None => match pool.find_free(sticky) {
                Some(at) => at,
                None => return Ok(Some(event)),
            },
        };
        pool.busy[at] = true;
        client.last = Some(at);
        client.in_group = event
            .wire_details
            .as_ref()
            .is_some_and(|one| one.boundary != Boundary::Sync);
        self.contexts.follow(&event);
        let goes_on = client.in_group || self.contexts.get(session).in_transaction;
        client.holds = goes_on.then_some(at);
        pool.busy[at] = goes_on;
        let is_statement = event.kind.is_statement();
        account.moved += u64::from(is_statement);
        give(Event {
            session: pool.connections[at],
            kind: rename_statement(event.kind),
            ..event
        })?;
        Ok(None)
    }

    /// Assigns free connections to waiting sessions.
    fn serve_waiting<E>(
        &mut self,
        pool: usize,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        while let Some(&session) = self.pools[pool].waiting.front() {
            let Some(event) = self
                .clients
                .get_mut(&session)
                .and_then(|client| client.waiting.pop_front())
            else {
                self.pools[pool].waiting.pop_front();
                continue;
            };
            let event = Event {
                due_us: event.due_us.max(self.now_us),
                ..event
            };
            if let Some(event) = self.send(event, account, give)? {
                let client = self.clients.get_mut(&session).expect("it waits");
                client.waiting.push_front(event);
                return Ok(());
            }
        }
        Ok(())
    }

    pub(super) fn finish<E>(
        &mut self,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        if !self.is_surveyed {
            self.assign_pools();
        }
        // The remaining sessions wait for a transaction that never ended; without the pool, it
        // would not have ended either.
        while let Some(session) = self.first_busy_session() {
            let end = disconnect(session, self.now_us);
            let pool = self.clients[&session].pool;
            self.send(end, account, give)?;
            self.serve_waiting(pool, account, give)?;
        }
        for pool in &self.pools {
            for &session in pool.connections.iter().filter(|_| pool.is_open) {
                give(disconnect(session, self.now_us))?;
            }
        }
        Ok(())
    }

    fn first_busy_session(&self) -> Option<u64> {
        let all = self.clients.iter();
        let holding = all.filter(|(_, client)| client.holds.is_some());
        holding.map(|(&session, _)| session).min()
    }

    /// Returns a session's record: unchanged, that of a connection, or none. Its times are by the
    /// clock of the events.
    pub(super) fn rewrite_session(&self, record: Session) -> Option<Session> {
        if !self.clients.contains_key(&record.id) {
            return Some(record);
        }
        let pool = self
            .pools
            .iter()
            .find(|pool| pool.connections.contains(&record.id))?;
        Some(Session {
            start_us: pool.start_us,
            end_us: self.now_us,
            start_seen: true,
            end_seen: true,
            ..record
        })
    }
}

impl Pool {
    /// Returns the next free connection, or the `sticky` one, if it is free.
    fn find_free(&mut self, sticky: Option<usize>) -> Option<usize> {
        if let Some(at) = sticky.filter(|&at| !self.busy[at]) {
            return Some(at);
        }
        let count = self.busy.len();
        let at = (0..count)
            .map(|ahead| (self.next + ahead) % count)
            .find(|&at| !self.busy[at])?;
        self.next = (at + 1) % count;
        Some(at)
    }
}

/// Builds the end of a connection.
fn disconnect(session: u64, due_us: i64) -> Event {
    Event {
        session,
        sequence: 0,
        due_us,
        kind: EventKind::Disconnect,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    }
}

/// Builds an event that no client sent.
fn build_event(session: u64, at: &Event, kind: EventKind) -> Event {
    Event {
        session,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        wire_details: at
            .wire_details
            .as_ref()
            .map(|_| Arc::new(WireDetails::default())),
        ..at.clone()
    }
}

/// Derives the name of a prepared statement from its text: clients give one name to different
/// statements, and poolers rename them.
fn rename_statement(kind: EventKind) -> EventKind {
    let name = |statement: Arc<str>, sql: &str| -> Arc<str> {
        if statement.is_empty() {
            return statement;
        }
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        format!("pooled_{:016x}", hasher.finish()).into()
    };
    match kind {
        EventKind::Execute {
            statement,
            portal,
            sql,
            parameters,
        } => EventKind::Execute {
            statement: name(statement, &sql),
            portal,
            sql,
            parameters,
        },
        EventKind::Prepare { statement, sql } => EventKind::Prepare {
            statement: name(statement, &sql),
            sql,
        },
        EventKind::Fetch {
            statement,
            portal,
            sql,
        } => EventKind::Fetch {
            statement: name(statement, &sql),
            portal,
            sql,
        },
        other => other,
    }
}
