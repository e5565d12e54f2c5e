//! Entries become events.
//!
//! Who drives: the capture hands over every entry, in the order of the log; events go to the sink
//! as soon as nothing that may still come can change them. What is held is one [`session::Live`]
//! for each session that may go on.
//!
//! How connections are told from sessions: a connection is `received`, and a session once it is
//! `authorized` or does anything. One that never gets there (a cancel request, a health check, a
//! wrong password) is skipped. A session ends with its `disconnection`, where its process number
//! comes back as another's, where the server starts anew, or with the input; after FATAL nothing
//! more than its `disconnection` is waited for.

mod exchange;
mod failure;
mod lanes;
mod long_text;
mod prepared;
mod server;
mod session;
mod sessions;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::entry::{Backend, Entry, Place};
use super::message::{Message, classify};
use super::parameters::CutValues;
use super::reconcile::{Reconciliation, SkipReason};
use super::severity::{Severity, is_foreign_message};
use capture_sink::{EventSink, SinkError};
use exchange::Exchange;
use session::{Arriving, Live};
use sessions::Sessions;

/// How long after its last sign a connection that is no session, or a session that FATAL ended, is
/// still remembered: longer than the longest `authentication_timeout` (10 min).
const FADE_US: i64 = 11 * 60 * 1_000_000;

/// What all sessions share: where events go, and the account.
pub(super) struct Output<'s> {
    sink: &'s mut dyn EventSink,
    /// The sink has no use for texts.
    only_counts: bool,
    account: Reconciliation,
    /// Of lists in DETAIL, and of those in CONTEXT: each has a limit of its own.
    cuts: [CutValues; 2],
    sessions: u64,
    empty: Arc<str>,
    no_name: Rc<str>,
    /// To use again: at most as many as were open at once.
    #[expect(clippy::vec_box, reason = "they come and go in their boxes")]
    spare: Vec<Box<Exchange>>,
}

/// Assembles events. See the module's text.
pub(super) struct Assembler<'s> {
    output: Output<'s>,
    live: Sessions,
    /// What is forgotten at a time, unless it became something else.
    fading: VecDeque<(i64, u32, u64)>,
    serials: u64,
    lanes: lanes::Lanes,
}

impl<'s> Assembler<'s> {
    pub(super) fn new(sink: &'s mut dyn EventSink) -> Self {
        Assembler {
            output: Output {
                only_counts: sink.only_counts(),
                sink,
                account: Reconciliation::default(),
                cuts: [CutValues::default(); 2],
                sessions: 0,
                empty: "".into(),
                no_name: "".into(),
                spare: Vec::new(),
            },
            live: Sessions::default(),
            fading: VecDeque::new(),
            serials: 0,
            lanes: lanes::Lanes::default(),
        }
    }

    /// The account, for lines that never become an entry.
    pub(super) fn account(&mut self) -> &mut Reconciliation {
        &mut self.output.account
    }

    /// How many sessions were met so far.
    pub(super) fn sessions(&self) -> u64 {
        self.output.sessions
    }

    /// Takes the next entry.
    #[inline]
    pub(super) fn entry(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        self.fade(entry.wall_us)?;
        match entry.severity {
            Severity::Log => self.log(entry),
            Severity::Notice => {
                // "terminating connection because of crash of another server process"
                if entry.sqlstate.is_some_and(|code| code.as_str() == "57P02") {
                    self.ended(entry);
                }
                self.server_line(entry, SkipReason::Notice)
            }
            Severity::Error | Severity::Fatal | Severity::Panic => self.failure(entry),
        }
    }

    /// Takes a line that belongs to an earlier entry of `pid` but did not follow it. Where it
    /// shows that a RAISE wrote that entry, what the entry began is taken back.
    pub(super) fn detached(&mut self, pid: u32, betrays: bool, lines: u64, place: Place) {
        let forged = match self.live.get(pid) {
            Some(live) if betrays => live.take_back(),
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

    /// The input has ended: settles all that was open, and returns the account.
    pub(super) fn finish(mut self) -> Result<Reconciliation, SinkError> {
        self.end_all()?;
        while self.turn_to_any() {
            self.end_all()?;
        }
        Ok(self.output.account)
    }

    #[inline]
    fn log(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        let message = classify(entry.message);
        if matches!(message, Message::ServerStarts)
            && entry.statement.is_empty()
            && entry.context.is_empty()
        {
            self.server_line(entry, SkipReason::ServerMessage)?;
            return self.end_all();
        }
        match (message, entry.backend) {
            (Message::Other(SkipReason::ServerMessage), _) if is_foreign_message(entry.message) => {
                self.output.skip(SkipReason::Translated, entry);
                return Ok(());
            }
            (Message::Other(SkipReason::ServerMessage), Backend::Background) => {
                return self.server_line(entry, SkipReason::BackgroundProcess);
            }
            (Message::Other(reason), _) => return self.server_line(entry, reason),
            _ => (),
        }
        // What the server says of a statement's progress hides the statement and has no context.
        if !entry.statement.is_empty() || !entry.context.is_empty() {
            self.output.skip(SkipReason::Forged, entry);
            return Ok(());
        }
        if let Some(reason) = skipped_backend(entry.backend) {
            self.output.skip(reason, entry);
            return Ok(());
        }
        if let Message::Received { host, port } = message {
            return self.received(entry, host, port);
        }
        let ends = matches!(message, Message::Disconnected { .. });
        let (live, output) = self.find(entry, ends)?;
        if live.replication || matches!(message, Message::Replication) {
            live.replication = true;
            let lines = live.arriving.take().map_or(0, |arriving| arriving.lines);
            output.skip(SkipReason::Replication, entry);
            output
                .account
                .skip(SkipReason::Replication, lines, entry.place);
            return Ok(());
        }
        match message {
            Message::Simple { sql, duration_us } => live.simple(output, entry, sql, duration_us),
            Message::Extended {
                step,
                named,
                duration_us,
            } => live.extended(output, entry, step, named, duration_us),
            Message::Duration { duration_us } => {
                live.duration(output, entry, duration_us);
                Ok(())
            }
            Message::Arriving => {
                live.arriving(output, entry);
                Ok(())
            }
            Message::Authorized {
                user,
                database,
                application,
            } => live.authorized(output, entry, user, database, application),
            Message::Disconnected { user, database } => {
                let mut live = self.live.remove(entry.pid).expect("just found");
                live.disconnected(&mut self.output, entry, user, database)
            }
            Message::Received { .. }
            | Message::Replication
            | Message::ServerStarts
            | Message::Other(_) => {
                unreachable!("taken above")
            }
        }
    }

    fn failure(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        if self.server_failure(entry)? {
            return Ok(());
        }
        if let Some(reason) = skipped_backend(entry.backend) {
            self.output.skip(reason, entry);
            return Ok(());
        }
        let fatal = entry.severity != Severity::Error;
        if entry.statement.is_empty() && self.live.place(entry.pid).is_none() {
            // Where connections are not logged, a refused one leaves only this.
            let reason = match fatal {
                true => SkipReason::ConnectionWithoutSession,
                false => SkipReason::ErrorOutsideStatement,
            };
            self.output.skip(reason, entry);
            return Ok(());
        }
        let (live, output) = self.find(entry, false)?;
        if live.replication {
            output.skip(SkipReason::Replication, entry);
            return Ok(());
        }
        let refused = fatal && !live.is_open() && entry.statement.is_empty();
        if refused {
            output.skip(SkipReason::ConnectionWithoutSession, entry);
            return self.end(entry.pid);
        }
        live.failed(output, entry)?;
        if fatal {
            self.ended(entry);
        }
        Ok(())
    }

    fn received(&mut self, entry: &Entry<'_>, host: &str, port: &str) -> Result<(), SinkError> {
        self.end(entry.pid)?;
        let mut live = self.new_live(entry);
        live.client = session::client(host, port);
        live.arriving = Some(Arriving {
            wall_us: entry.wall_us,
            lines: entry.lines,
            place: entry.place,
        });
        self.fading
            .push_back((entry.wall_us + FADE_US, entry.pid, live.serial));
        self.live.insert(entry.pid, live);
        Ok(())
    }

    fn new_live(&mut self, entry: &Entry<'_>) -> Box<Live> {
        self.serials += 1;
        Box::new(Live::new(self.serials, entry, &self.output.empty))
    }

    /// The session that an entry is of; another one that had the same process number is ended. It
    /// `ends` the session where it is its disconnection, the only thing that may follow FATAL.
    #[inline]
    fn find(
        &mut self,
        entry: &Entry<'_>,
        ends: bool,
    ) -> Result<(&mut Live, &mut Output<'s>), SinkError> {
        self.serials += 1;
        let serial = self.serials;
        let empty = &self.output.empty;
        let place = match self.live.place(entry.pid) {
            Some(place) => place,
            None => {
                let live = Box::new(Live::new(serial, entry, empty));
                self.live.insert(entry.pid, live)
            }
        };
        let live = self.live.at(place);
        let is_over = live.ended.is_some() && !ends;
        if live.serial != serial && (is_over || live.is_other(entry)) {
            let new = Box::new(Live::new(serial, entry, empty));
            std::mem::replace(live, new).close(&mut self.output)?;
        }
        live.line_number = entry.line_number;
        live.started = live.started.max(entry.started);
        live.seen_us = live.seen_us.max(entry.wall_us);
        live.spoke_aside = false;
        Ok((live, &mut self.output))
    }

    /// FATAL: the server ended the session.
    fn ended(&mut self, entry: &Entry<'_>) {
        if let Some(live) = self.live.get(entry.pid) {
            live.ended = Some((entry.wall_us, entry.place));
            self.fading
                .push_back((entry.wall_us + FADE_US, entry.pid, live.serial));
        }
    }

    fn fade(&mut self, now_us: i64) -> Result<(), SinkError> {
        while let Some(&(until_us, pid, serial)) = self.fading.front() {
            if until_us > now_us {
                break;
            }
            self.fading.pop_front();
            let fades = self
                .live
                .get(pid)
                .is_some_and(|live| live.serial == serial && live.fades());
            if fades {
                self.end(pid)?;
            }
        }
        Ok(())
    }

    /// Nothing more comes of the session with that process number.
    fn end(&mut self, pid: u32) -> Result<(), SinkError> {
        match self.live.remove(pid) {
            Some(mut live) => live.close(&mut self.output),
            None => Ok(()),
        }
    }

    fn end_all(&mut self) -> Result<(), SinkError> {
        let mut all = self.live.drain();
        all.sort_by_key(|live| live.serial);
        self.fading.clear();
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
