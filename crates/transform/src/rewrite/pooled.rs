//! Sessions through a pool of connections, each for the length of a transaction, as a pooler does it in
//! transaction mode.
//!
//! Sessions of one database and user that begin with the same settings share a pool. A transaction, or a statement
//! outside of one, takes the next connection that is free; where none is, it waits for one, first come,
//! first served. Sessions that leave something behind in their connection (settings that they change later,
//! temporary tables, LISTEN, cursors WITH HOLD, advisory locks of a session, PREPARE in SQL) keep a connection of
//! their own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::connection_state::{is_only_set, reason_to_keep};
use super::insert::Why;
use super::session_context::SessionContexts;
use workload::{
    Boundary, Event, EventKind, Outcome, Particulars, RewriteAccount, Session, Setting,
};

type Give<'g, E> = &'g mut dyn FnMut(Event) -> Result<(), E>;

/// Which sessions share a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct PoolKey {
    database: Arc<str>,
    user: Arc<str>,
    settings: Vec<Setting>,
    /// What they set before they do anything else.
    opening: Vec<Arc<str>>,
}

/// What the first pass knows of a session.
#[derive(Debug, Default)]
struct Seen {
    key: PoolKey,
    /// It did something else than to set.
    is_open: bool,
    keeps: Option<Why>,
}

#[derive(Debug, Default)]
struct Pool {
    /// The sessions whose numbers the connections have.
    connections: Vec<u64>,
    /// Its connections were opened.
    is_open: bool,
    opening: Vec<Arc<str>>,
    /// Where to look for the next that is free.
    next: usize,
    /// By place among the connections.
    busy: Vec<bool>,
    waiting: VecDeque<u64>,
    start_us: i64,
}

/// A session of the workload's.
#[derive(Debug, Default)]
struct Client {
    pool: usize,
    /// Opening settings that are still to come.
    opening_left: usize,
    holds: Option<usize>,
    last: Option<usize>,
    waiting: VecDeque<Event>,
    /// The last statement's group of messages goes on.
    in_group: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Pooling {
    size: usize,
    sticky: bool,
    seen: BTreeMap<u64, Seen>,
    pools: Vec<Pool>,
    clients: HashMap<u64, Client>,
    contexts: SessionContexts,
    /// The sessions that keep a connection of their own.
    kept: HashMap<u64, Why>,
    now_us: i64,
    is_surveyed: bool,
}

impl Pooling {
    pub(super) fn new(size: u32, sticky: bool) -> Self {
        Pooling {
            size: size as usize,
            sticky,
            seen: BTreeMap::new(),
            pools: Vec::new(),
            clients: HashMap::new(),
            contexts: SessionContexts::default(),
            kept: HashMap::new(),
            now_us: 0,
            is_surveyed: false,
        }
    }

    /// Takes note of an event of the first pass.
    pub(super) fn survey(&mut self, event: &Event) {
        let seen = self.seen.entry(event.session).or_default();
        match &event.kind {
            EventKind::Connect { database, user, .. } => {
                seen.key.database = database.clone();
                seen.key.user = user.clone();
                if let Some(particulars) = &event.particulars {
                    seen.key.settings = particulars.settings.clone();
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
            EventKind::Prepare { .. } | EventKind::Fetch { .. } => seen.is_open = true,
            EventKind::Cancel | EventKind::Disconnect => {}
        }
    }

    /// Deals sessions out to pools, with what the first pass knows.
    fn deal(&mut self) {
        let mut by_key: HashMap<PoolKey, usize> = HashMap::new();
        for (session, seen) in std::mem::take(&mut self.seen) {
            if let Some(why) = seen.keeps {
                self.kept.insert(session, why);
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

    pub(super) fn event<E>(
        &mut self,
        event: Event,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
    ) -> Result<(), E> {
        if !self.is_surveyed {
            self.deal();
        }
        self.now_us = self.now_us.max(event.due_us);
        let Some(client) = self.clients.get_mut(&event.session) else {
            if event.kind.is_statement() {
                account.unchanged += 1;
                let why = self.kept.get(&event.session);
                let why = why.copied().unwrap_or("its session was not seen before");
                *account.left_alone.entry(why.to_owned()).or_default() += 1;
            }
            return give(event);
        };
        let pool = client.pool;
        if let EventKind::Connect { .. } = &event.kind {
            return self.open(pool, &event, account, give);
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
        match self.take(event, account, give)? {
            None => self.serve(pool, account, give),
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
    fn open<E>(
        &mut self,
        pool: usize,
        event: &Event,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
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
                give(made(session, event, EventKind::Simple { sql: sql.clone() }))?;
            }
        }
        Ok(())
    }

    /// Gives an event to its connection; back where none is free.
    fn take<E>(
        &mut self,
        event: Event,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
    ) -> Result<Option<Event>, E> {
        let session = event.session;
        let client = self.clients.get_mut(&session).expect("it has a pool");
        let pool = &mut self.pools[client.pool];
        match &event.kind {
            EventKind::Disconnect => {
                if let Some(at) = client.holds.take() {
                    // A pooler would roll back what its client left open.
                    if self.contexts.get(session).in_transaction {
                        account.added += 1;
                        let sql = "ROLLBACK".into();
                        give(made(
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
                // Of what its session did last.
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
            None => match pool.free(sticky) {
                Some(at) => at,
                None => return Ok(Some(event)),
            },
        };
        pool.busy[at] = true;
        client.last = Some(at);
        client.in_group = event
            .particulars
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
            kind: renamed(event.kind),
            ..event
        })?;
        Ok(None)
    }

    /// Connections that became free go to those who wait.
    fn serve<E>(
        &mut self,
        pool: usize,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
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
            if let Some(event) = self.take(event, account, give)? {
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
        give: Give<'_, E>,
    ) -> Result<(), E> {
        if !self.is_surveyed {
            self.deal();
        }
        // Who still waits waits for a transaction that never ended: its session would not have either.
        while let Some(session) = self.first_that_holds() {
            let end = disconnect(session, self.now_us);
            let pool = self.clients[&session].pool;
            self.take(end, account, give)?;
            self.serve(pool, account, give)?;
        }
        for pool in &self.pools {
            for &session in pool.connections.iter().filter(|_| pool.is_open) {
                give(disconnect(session, self.now_us))?;
            }
        }
        Ok(())
    }

    fn first_that_holds(&self) -> Option<u64> {
        let all = self.clients.iter();
        let holding = all.filter(|(_, client)| client.holds.is_some());
        holding.map(|(&session, _)| session).min()
    }

    /// What becomes of a session's record: as it was, that of a connection, or none. Its times are by the clock of the
    /// events.
    pub(super) fn session(&self, record: Session) -> Option<Session> {
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
    /// The next connection that is free, or this one, if it is.
    fn free(&mut self, sticky: Option<usize>) -> Option<usize> {
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

/// The end of a connection.
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
        particulars: None,
    }
}

/// Something that no client sent.
fn made(session: u64, at: &Event, kind: EventKind) -> Event {
    Event {
        session,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        particulars: at
            .particulars
            .as_ref()
            .map(|_| Arc::new(Particulars::default())),
        ..at.clone()
    }
}

/// With the name of a prepared statement made one of its text: clients give one name to different
/// statements, and poolers rename them.
fn renamed(kind: EventKind) -> EventKind {
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
