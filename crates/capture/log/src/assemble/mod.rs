//! Assembles entries into events.
//!
//! The capture passes every entry in the order of the log. Events go to the sink as soon as no
//! later entry can change them. One [`session::LiveSession`] is held for each session that may continue.
//!
//! Connections and sessions: a connection is `received`, and becomes a session once it is
//! `authorized` or does anything. A connection that never gets there (a cancel request, a health
//! check, a wrong password) is skipped. A session ends with its `disconnection`, when its process
//! number is reused, when the server restarts, or with the input. After FATAL only its
//! `disconnection` may follow.

mod ambiguity;
mod audit;
mod cursors;
mod error_phase;
mod exchange;
mod failure;
mod held_entries;
mod long_text;
mod names;
mod pipelines;
mod prepared;
mod server;
mod server_streams;
mod session;
mod sessions;
mod steps;
mod uncommitted;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::entry::{Backend, Entry};
use super::message::{Message, classify};
use super::parameters::TruncationDetector;
use super::reconcile::{Reconciliation, SkipReason};
use super::severity::{Severity, is_foreign_message};
use crate::reconcile::Location;
use capture_sink::{EventSink, SinkError};
use exchange::Exchange;
use held_entries::{
    OwnedEntry, ended_process, is_first_of_walreceiver, is_replication_command,
    is_replication_failure,
};
use session::{LiveSession, PendingConnection};
use sessions::Sessions;
use workload::series::PossibleGap;

/// Duration after its last entry for which a connection without a session, or a session that FATAL
/// ended, is kept: longer than the longest `authentication_timeout` (10 min).
const EXPIRY_US: i64 = 11 * 60 * 1_000_000;

/// State that all sessions share: the sink and the account.
pub(super) struct Output<'s> {
    sink: &'s mut dyn EventSink,
    /// The sink ignores texts.
    only_counts: bool,
    account: Reconciliation,
    /// Truncation detectors of lists in DETAIL and of those in CONTEXT: each has its own limit.
    truncation: [TruncationDetector; 2],
    sessions: u64,
    names: names::SplitNames,
    empty: Arc<str>,
    no_name: Rc<str>,
    /// An error named its statement, so `log_min_error_statement` hides none.
    names_statements: bool,
    /// The duration of a quick statement came with its text, so `log_min_duration_statement` hides
    /// none that ends.
    logs_quick_statements: bool,
    /// Boxes for reuse: at most as many as were open at once.
    #[expect(clippy::vec_box, reason = "they come and go in their boxes")]
    spare: Vec<Box<Exchange>>,
}

/// Assembles events; see the module documentation.
pub(super) struct Assembler<'s> {
    output: Output<'s>,
    live: Sessions,
    /// Sessions to drop at a given time, unless they changed.
    expiring: VecDeque<(i64, u32, u64)>,
    serials: u64,
    streams: server_streams::ServerStreams,
}

impl<'s> Assembler<'s> {
    pub(super) fn new(sink: &'s mut dyn EventSink) -> Self {
        Assembler {
            output: Output {
                only_counts: sink.only_counts(),
                sink,
                account: Reconciliation::default(),
                truncation: [TruncationDetector::default(); 2],
                sessions: 0,
                names: names::SplitNames::default(),
                empty: "".into(),
                no_name: "".into(),
                names_statements: false,
                logs_quick_statements: false,
                spare: Vec::new(),
            },
            live: Sessions::default(),
            expiring: VecDeque::new(),
            serials: 0,
            streams: server_streams::ServerStreams::default(),
        }
    }

    /// The account, for lines that never become an entry.
    pub(super) fn account(&mut self) -> &mut Reconciliation {
        &mut self.output.account
    }

    /// Reports the events that later entries may change, if the sink needs them.
    pub(super) fn report_held(&mut self) {
        if self.output.sink.needs_held() {
            let exchanges = self.live.iter().flat_map(LiveSession::held_events);
            let entries = self.live.held.values().flatten();
            let entries = entries.filter_map(OwnedEntry::held_event);
            self.output.sink.held(&mut exchanges.chain(entries));
        }
    }

    /// Notes that the logs are of several servers.
    pub(super) fn note_several_servers(&mut self) -> Result<(), SinkError> {
        self.output.sink.note_several_servers()
    }

    /// Notes the times for which a file of the log may be missing, instead of those noted before.
    pub(super) fn note_possible_gaps(&mut self, gaps: &[PossibleGap]) -> Result<(), SinkError> {
        self.output.sink.note_possible_gaps(gaps)
    }

    /// Handles the next entry.
    #[inline]
    pub(super) fn handle_entry(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        self.drop_expired(entry.wall_us)?;
        match entry.severity {
            Severity::Log => return self.handle_log(entry),
            Severity::Warning | Severity::Notice => {
                // "terminating connection because of crash of another server process"
                if entry.sqlstate.is_some_and(|code| code.as_str() == "57P02") {
                    self.mark_ended(entry);
                }
                self.handle_server_line(entry, SkipReason::Notice)?;
            }
            Severity::Error | Severity::Fatal | Severity::Panic => self.handle_failure(entry)?,
        }
        self.emit_message(entry)
    }

    /// Handles a line that belongs to an earlier entry of `pid` but did not follow it. If it shows
    /// that RAISE wrote that entry, the exchange that the entry began is taken back.
    pub(super) fn handle_detached(&mut self, pid: u32, betrays: bool, lines: u64, place: Location) {
        let forged = match self.live.get(pid) {
            Some(live) if betrays => live.retract_pending(),
            _ => None,
        };
        match forged {
            Some((lines_before, place_before)) => {
                self.output
                    .account
                    .skip(SkipReason::Forged, lines_before, place_before);
                self.output.account.skip(SkipReason::Forged, lines, place);
            }
            None => self.output.account.skip(SkipReason::Detached, lines, place),
        }
    }

    /// Settles everything at the end of the input, and returns the account.
    pub(super) fn finish(mut self) -> Result<(Reconciliation, Option<String>), SinkError> {
        self.end_all_sessions()?;
        while self.activate_any_stream() {
            self.end_all_sessions()?;
        }
        Ok((self.output.account, self.output.names.note()))
    }

    #[inline]
    fn handle_log(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        let message = classify(entry.message);
        if (self.live.has_held() || is_first_of_walreceiver(&message))
            && self.hold_or_release(entry, &message)?
        {
            return Ok(());
        }
        self.handle_classified(entry, message)
    }

    #[inline]
    fn handle_classified(
        &mut self,
        entry: &Entry<'_>,
        message: Message<'_>,
    ) -> Result<(), SinkError> {
        if matches!(message, Message::ServerStarts)
            && entry.statement.is_empty()
            && entry.context.is_empty()
        {
            self.handle_server_line(entry, SkipReason::ServerMessage)?;
            return self.end_all_sessions();
        }
        match (message, entry.backend) {
            (Message::Other(SkipReason::ServerMessage), _) if is_foreign_message(entry.message) => {
                self.output.skip(SkipReason::Translated, entry);
                return Ok(());
            }
            (Message::Other(SkipReason::ServerMessage), Backend::Background) => {
                return self.handle_server_line(entry, SkipReason::BackgroundProcess);
            }
            (Message::Other(reason), _) => return self.handle_server_line(entry, reason),
            _ => (),
        }
        // The server's messages about a statement's progress hide the statement and have no
        // context.
        if (!entry.statement.is_empty() || !entry.context.is_empty())
            && !is_replication_command(entry, &message)
        {
            self.output.skip(SkipReason::Forged, entry);
            return Ok(());
        }
        if let Some(reason) = skipped_backend(entry.backend) {
            self.output.skip(reason, entry);
            return Ok(());
        }
        if let Message::Received { host, port } = message {
            return self.handle_received(entry, host, port);
        }
        let ends = matches!(message, Message::Disconnected { .. });
        let (live, output) = self.find_session(entry, ends)?;
        if live.replication || matches!(message, Message::Replication { .. }) {
            live.replication = true;
            let lines = live
                .connection
                .take()
                .map_or(0, |connection| connection.lines);
            output.skip(SkipReason::Replication, entry);
            output
                .account
                .skip(SkipReason::Replication, lines, entry.place);
            return Ok(());
        }
        match message {
            Message::Simple { sql, duration_us } => {
                live.handle_simple(output, entry, sql, duration_us)
            }
            Message::Extended {
                step,
                named,
                duration_us,
            } => live.handle_step(output, entry, step, named, duration_us),
            Message::Audit { record } => live.handle_audit(output, entry, record),
            Message::Duration { duration_us } => {
                live.handle_duration(output, entry, duration_us);
                Ok(())
            }
            Message::ConnectionProgress => {
                live.handle_connection_progress(output, entry);
                Ok(())
            }
            Message::Authorized {
                user,
                database,
                application,
            } => live.handle_authorized(output, entry, user, database, application),
            Message::Disconnected { user, database } => {
                let mut live = self.live.remove(entry.pid).expect("just found");
                live.handle_disconnected(&mut self.output, entry, user, database)?;
                self.emit_session_end(entry, live.id())
            }
            Message::Received { .. }
            | Message::Replication { .. }
            | Message::ServerStarts
            | Message::Other(_) => {
                unreachable!("taken above")
            }
        }
    }

    fn handle_failure(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        if self.handle_server_failure(entry)? {
            return Ok(());
        }
        if let Some(reason) = skipped_backend(entry.backend).or_else(|| ended_process(entry)) {
            self.output.skip(reason, entry);
            return Ok(());
        }
        if self.hold_or_release_failure(entry)? {
            return Ok(());
        }
        self.handle_client_failure(entry)
    }

    /// Handles an error of a client's backend.
    fn handle_client_failure(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        let fatal = entry.severity != Severity::Error;
        if entry.statement.is_empty() && self.live.index_of(entry.pid).is_none() {
            // If connections are not logged, a refused one leaves only this line.
            let reason = match fatal {
                true => SkipReason::ConnectionWithoutSession,
                false => SkipReason::ErrorOutsideStatement,
            };
            self.output.skip(reason, entry);
            return Ok(());
        }
        let (live, output) = self.find_session(entry, false)?;
        if live.replication || is_replication_failure(entry) {
            live.replication = true;
            output.skip(SkipReason::Replication, entry);
            return Ok(());
        }
        let refused = fatal && !live.is_open() && entry.statement.is_empty();
        if refused {
            output.skip(SkipReason::ConnectionWithoutSession, entry);
            return self.end_session(entry.pid);
        }
        live.handle_failure(output, entry)?;
        if fatal {
            self.mark_ended(entry);
        }
        Ok(())
    }

    fn handle_received(
        &mut self,
        entry: &Entry<'_>,
        host: &str,
        port: &str,
    ) -> Result<(), SinkError> {
        self.end_session(entry.pid)?;
        let mut live = self.new_live(entry);
        live.client = session::client(host, port);
        live.connection = Some(PendingConnection {
            wall_us: entry.wall_us,
            lines: entry.lines,
            place: entry.place,
        });
        self.expiring
            .push_back((entry.wall_us + EXPIRY_US, entry.pid, live.serial));
        self.live.insert(entry.pid, live);
        Ok(())
    }

    fn new_live(&mut self, entry: &Entry<'_>) -> Box<LiveSession> {
        self.serials += 1;
        Box::new(LiveSession::new(self.serials, entry, &self.output.empty))
    }

    /// Finds the session of an entry, and ends another one with the same process number. `ends` is
    /// set if the entry is the session's disconnection, the only entry that may follow FATAL.
    #[inline]
    fn find_session(
        &mut self,
        entry: &Entry<'_>,
        ends: bool,
    ) -> Result<(&mut LiveSession, &mut Output<'s>), SinkError> {
        self.serials += 1;
        let serial = self.serials;
        let empty = &self.output.empty;
        let place = match self.live.index_of(entry.pid) {
            Some(place) => place,
            None => {
                let live = Box::new(LiveSession::new(serial, entry, empty));
                self.live.insert(entry.pid, live)
            }
        };
        let live = self.live.at(place);
        let is_over = live.ended.is_some() && !ends;
        if live.serial != serial && (is_over || live.belongs_to_other(entry)) {
            let new = Box::new(LiveSession::new(serial, entry, empty));
            std::mem::replace(live, new).close(&mut self.output)?;
        }
        live.line_number = entry.line_number;
        live.started = live.started.max(entry.started);
        live.seen_us = live.seen_us.max(entry.wall_us);
        live.wrote_unrelated = false;
        Ok((live, &mut self.output))
    }

    /// Records that FATAL ended the session.
    fn mark_ended(&mut self, entry: &Entry<'_>) {
        if let Some(live) = self.live.get(entry.pid) {
            live.ended = Some((entry.wall_us, entry.place));
            self.expiring
                .push_back((entry.wall_us + EXPIRY_US, entry.pid, live.serial));
        }
    }

    fn drop_expired(&mut self, now_us: i64) -> Result<(), SinkError> {
        while let Some(&(until_us, pid, serial)) = self.expiring.front() {
            if until_us > now_us {
                break;
            }
            self.expiring.pop_front();
            let fades = self
                .live
                .get(pid)
                .is_some_and(|live| live.serial == serial && live.may_expire());
            if fades {
                self.end_session(pid)?;
            }
        }
        Ok(())
    }

    /// Ends the session with that process number.
    fn end_session(&mut self, pid: u32) -> Result<(), SinkError> {
        match self.live.remove(pid) {
            Some(mut live) => live.close(&mut self.output),
            None => Ok(()),
        }
    }

    fn end_all_sessions(&mut self) -> Result<(), SinkError> {
        self.release_all_held()?;
        let mut all = self.live.drain();
        all.sort_by_key(|live| live.serial);
        self.expiring.clear();
        all.iter_mut()
            .try_for_each(|live| live.close(&mut self.output))
    }
}

fn skipped_backend(backend: Backend) -> Option<SkipReason> {
    match backend {
        Backend::Client => None,
        Backend::Walsender => Some(SkipReason::Replication),
        Backend::ParallelWorker => Some(SkipReason::ParallelWorker),
        Backend::Background => Some(SkipReason::BackgroundProcess),
    }
}

impl Output<'_> {
    fn skip(&mut self, reason: SkipReason, entry: &Entry<'_>) {
        self.account.skip(reason, entry.lines, entry.place);
    }
}

#[cfg(test)]
mod tests;
