//! Holds the first entries of a process that may be no client's, until a later entry decides.
//!
//! Without `%b` and without logged connections, two kinds of processes look like clients at first:
//! - A walsender of logical replication begins with the statements of libpqwalreceiver, which are
//!   plain SQL. Its first replication command decides.
//! - A parallel worker reports its leader's error, with the leader's statement. The postmaster's
//!   message about the worker's exit decides. It holds only for logs without names of users.
//!
//! Any other entry of the process, or the end of the input, releases what is held.

use workload::Sqlstate;
use workload::series::{HeldEvent, NO_SESSION, RunningEvent};

use super::super::entry::{Backend, Entry, SessionIdentity, SessionNames};
use super::super::message::Message;
use super::super::reconcile::{Location, SkipReason};
use super::super::severity::Severity;
use super::Assembler;
use super::exchange::start_time_us;
use super::session::process_identity;
use capture_sink::SinkError;

/// First statement of libpqwalreceiver (`ALWAYS_SECURE_SEARCH_PATH_SQL`).
const WALRECEIVER_START: &str = "SELECT pg_catalog.set_config('search_path', '', false);";

/// Texts in the statements that libpqwalreceiver sends before its first replication command.
const WALRECEIVER_TEXTS: [&str; 5] = [
    "pg_publication",
    "pg_is_in_recovery",
    "pg_replication_slots",
    "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
    "set_config('search_path', '', false)",
];

/// Commands of the replication protocol (`repl_gram.y` in the server).
const REPLICATION_COMMANDS: [&str; 10] = [
    "IDENTIFY_SYSTEM",
    "READ_REPLICATION_SLOT",
    "BASE_BACKUP",
    "START_REPLICATION",
    "CREATE_REPLICATION_SLOT",
    "DROP_REPLICATION_SLOT",
    "ALTER_REPLICATION_SLOT",
    "TIMELINE_HISTORY",
    "UPLOAD_MANIFEST",
    "START_REPLICATION_SLOT",
];

/// Maximum number of entries held for a process.
const HELD_MAX: usize = 32;

/// An entry that outlives its line.
#[derive(Debug)]
pub(super) struct OwnedEntry {
    wall_us: i64,
    pid: u32,
    started: u64,
    line_number: u64,
    backend: Backend,
    /// User, database, application, host and port.
    names: [String; 5],
    /// Ways to split them into user and database.
    splits: Vec<(String, String)>,
    severity: Severity,
    sqlstate: Option<Sqlstate>,
    /// Message, DETAIL, CONTEXT and STATEMENT.
    texts: [String; 4],
    transaction: u64,
    positioned: bool,
    cut: bool,
    place: Location,
    lines: u64,
}

impl OwnedEntry {
    fn new(entry: &Entry<'_>) -> Self {
        let names = entry.who.names();
        OwnedEntry {
            wall_us: entry.wall_us,
            pid: entry.pid,
            started: entry.started,
            line_number: entry.line_number,
            backend: entry.backend,
            names: [
                names.user,
                names.database,
                names.application,
                names.client.0,
                names.client.1,
            ]
            .map(str::to_owned),
            splits: entry
                .who
                .splits()
                .into_iter()
                .map(|(user, database)| (user.to_owned(), database.to_owned()))
                .collect(),
            severity: entry.severity,
            sqlstate: entry.sqlstate,
            texts: [entry.message, entry.detail, entry.context, entry.statement].map(str::to_owned),
            transaction: entry.transaction,
            positioned: entry.positioned,
            cut: entry.cut,
            place: entry.place,
            lines: entry.lines,
        }
    }

    fn entry(&self) -> Entry<'_> {
        let [user, database, application, host, port] = &self.names;
        let [message, detail, context, statement] = &self.texts;
        Entry {
            wall_us: self.wall_us,
            pid: self.pid,
            started: self.started,
            line_number: self.line_number,
            backend: self.backend,
            who: SessionIdentity::Kept(
                SessionNames {
                    user,
                    database,
                    application,
                    client: (host, port),
                },
                &self.splits,
            ),
            severity: self.severity,
            sqlstate: self.sqlstate,
            message,
            detail,
            context,
            statement,
            transaction: self.transaction,
            positioned: self.positioned,
            cut: self.cut,
            place: self.place,
            lines: self.lines,
        }
    }
}

/// Returns whether a message is the first of libpqwalreceiver, or of a tool that begins in the same
/// way.
#[inline]
pub(super) fn is_first_of_walreceiver(message: &Message<'_>) -> bool {
    matches!(message, Message::Simple { sql, .. } if *sql == WALRECEIVER_START)
}

/// Returns whether a message is the server's own about a replication command: its STATEMENT is the
/// command. RAISE would have another one.
pub(super) fn is_replication_command(entry: &Entry<'_>, message: &Message<'_>) -> bool {
    let Message::Replication {
        command: Some(command),
    } = message
    else {
        return false;
    };
    entry.context.is_empty() && entry.statement == *command
}

/// Returns whether a replication command failed. As SQL it would be a syntax error.
pub(super) fn is_replication_failure(entry: &Entry<'_>) -> bool {
    let word = entry.statement.split_ascii_whitespace().next();
    word.is_some_and(|word| REPLICATION_COMMANDS.contains(&word.trim_end_matches(';')))
        && !entry.message.starts_with("syntax error")
}

/// Returns why the end of a process is no client's, as its message says.
pub(super) fn ended_process(entry: &Entry<'_>) -> Option<SkipReason> {
    let rest = entry
        .message
        .strip_prefix("terminating ")
        .filter(|_| entry.severity == Severity::Fatal)?;
    if rest.starts_with("background worker \"parallel worker\"") {
        return Some(SkipReason::ParallelWorker);
    }
    let processes = [
        "background worker ",
        "autovacuum process ",
        "walreceiver process ",
        "logical replication worker ",
        "logical replication parallel worker ",
        "replication slot synchronization worker ",
    ];
    processes
        .iter()
        .any(|process| rest.starts_with(process))
        .then_some(SkipReason::BackgroundProcess)
}

/// Returns the process of a parallel worker that exited.
fn exited_worker(entry: &Entry<'_>) -> Option<u32> {
    let rest = entry
        .message
        .strip_prefix("background worker \"parallel worker\" (PID ")?;
    rest.split_once(')')?.0.parse().ok()
}

impl OwnedEntry {
    /// Returns the statement that the entry begins if its process is a client's.
    pub(super) fn held_event(&self) -> Option<HeldEvent> {
        let entry = self.entry();
        let (sql, duration_us) = match entry.severity {
            Severity::Log => match super::classify(entry.message) {
                Message::Simple { sql, duration_us } => (sql, duration_us),
                _ => return None,
            },
            _ => (entry.statement, None),
        };
        let due_us = start_time_us(&entry, duration_us);
        let event = RunningEvent::new(due_us, duration_us, Some(sql))
            .with_process(process_identity(entry.pid, entry.started));
        Some(HeldEvent::of_source(NO_SESSION, event))
    }
}

impl Assembler<'_> {
    /// Holds an entry of a process that may be no client's, or releases what is held. Returns
    /// whether the entry is held.
    #[cold]
    pub(super) fn hold_or_release(
        &mut self,
        entry: &Entry<'_>,
        message: &Message<'_>,
    ) -> Result<bool, SinkError> {
        if let Some(worker) = exited_worker(entry).filter(|_| entry.statement.is_empty()) {
            self.skip_held(worker, SkipReason::ParallelWorker);
            return Ok(false);
        }
        let pid = entry.pid;
        if is_replication_command(entry, message) {
            self.skip_held(pid, SkipReason::Replication);
            return Ok(false);
        }
        if matches!(message, Message::Other(_)) {
            return Ok(false);
        }
        let plain = entry.backend == Backend::Client
            && entry.statement.is_empty()
            && entry.context.is_empty();
        let is_start = is_first_of_walreceiver(message);
        let holds = match self.live.held.get(&pid) {
            None => is_start && plain && self.live.index_of(pid).is_none(),
            Some(held) => {
                let is_error = held[0].severity != Severity::Log;
                let may_be = match message {
                    Message::Simple { sql, .. } => {
                        WALRECEIVER_TEXTS.iter().any(|text| sql.contains(text))
                    }
                    Message::Duration { .. } => true,
                    _ => false,
                };
                plain && may_be && !is_error && held.len() < HELD_MAX
            }
        };
        if holds {
            let owned = OwnedEntry::new(entry);
            self.live.held.entry(pid).or_default().push(owned);
            return Ok(true);
        }
        self.release_held(pid)?;
        Ok(false)
    }

    /// Holds an error that may be a parallel worker's, or releases what is held. Returns whether
    /// the entry is held.
    pub(super) fn hold_or_release_failure(&mut self, entry: &Entry<'_>) -> Result<bool, SinkError> {
        let pid = entry.pid;
        if self.live.held.contains_key(&pid) {
            match is_replication_failure(entry) {
                true => self.skip_held(pid, SkipReason::Replication),
                false => self.release_held(pid)?,
            }
            return Ok(false);
        }
        let user = entry.who.names().user;
        let may_be_worker = entry.severity == Severity::Error
            && !entry.statement.is_empty()
            && matches!(user, "" | "[unknown]")
            && self.live.index_of(pid).is_none();
        if may_be_worker {
            self.live.held.insert(pid, vec![OwnedEntry::new(entry)]);
        }
        Ok(may_be_worker)
    }

    /// Handles the held entries of a process as a client's.
    fn release_held(&mut self, pid: u32) -> Result<(), SinkError> {
        let held = self.live.held.remove(&pid).unwrap_or_default();
        for owned in &held {
            let entry = owned.entry();
            match entry.severity {
                Severity::Log => {
                    let message = super::classify(entry.message);
                    self.handle_classified(&entry, message)?;
                }
                _ => self.handle_client_failure(&entry)?,
            }
        }
        Ok(())
    }

    /// Handles all held entries as clients', in the order of their lines.
    pub(super) fn release_all_held(&mut self) -> Result<(), SinkError> {
        let mut all: Vec<(Location, u32)> = self
            .live
            .held
            .iter()
            .map(|(pid, held)| (held[0].place, *pid))
            .collect();
        all.sort_by_key(|(place, _)| (place.source, place.line));
        all.into_iter()
            .try_for_each(|(_, pid)| self.release_held(pid))
    }

    /// Drops the held entries of a process, which is no client's.
    fn skip_held(&mut self, pid: u32, reason: SkipReason) {
        for owned in self.live.held.remove(&pid).unwrap_or_default() {
            self.output.account.skip(reason, owned.lines, owned.place);
        }
    }
}
