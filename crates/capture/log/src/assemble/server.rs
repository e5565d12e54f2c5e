//! Emits the server's own events, in addition to the events of clients.
//!
//! A line of the server counts as one in an event. An error of a client's statement that is also a
//! server event, such as a deadlock, is counted with its statement only: every line counts once.

use workload::{ServerEvent, ServerEventKind};

use super::super::entry::{Backend, Entry};
use super::super::reconcile::SkipReason;
use super::super::server_event;
use super::super::server_message::{message_event, session_end_event};
use super::super::severity::Severity;
use super::Assembler;
use super::error_phase::implied_code;
use capture_sink::SinkError;

/// Maximum time between a session's last statement and the message about its temporary file. The
/// extended protocol's Sync drops a portal, and with it its temporary files, directly after the
/// line of its execution; by then the server no longer knows the statement (*seen* on 13, 15 and
/// 18).
const FILE_DELAY_MAX_US: i64 = 100_000;

impl Assembler<'_> {
    /// Handles an entry without a client's action: a server event, or skipped.
    pub(super) fn handle_server_line(
        &mut self,
        entry: &Entry<'_>,
        reason: SkipReason,
    ) -> Result<(), SinkError> {
        if let Some(live) = self.live.get(entry.pid) {
            live.wrote_unrelated = true;
        }
        if self.emit_server_event(entry)? {
            self.output.account.lines_in_events += entry.lines;
        } else {
            self.output.skip(reason, entry);
        }
        Ok(())
    }

    /// Handles an error that may be a server event; returns whether the entry is finished.
    pub(super) fn handle_server_failure(&mut self, entry: &Entry<'_>) -> Result<bool, SinkError> {
        let of_autovacuum =
            entry.severity == Severity::Error && entry.message == "canceling autovacuum task";
        if self.emit_server_event(entry)? && of_autovacuum {
            self.output.account.lines_in_events += entry.lines;
            return Ok(true);
        }
        Ok(false)
    }

    /// Emits the message of an entry, if its severity is WARNING or more. Its lines are counted with its
    /// statement, or as skipped. A parallel worker's message is repeated by its leader.
    pub(super) fn emit_message(&mut self, entry: &Entry<'_>) -> Result<(), SinkError> {
        if entry.backend == Backend::ParallelWorker {
            return Ok(());
        }
        let Some(mut event) = message_event(entry, implied_code(entry.message)) else {
            return Ok(());
        };
        let live = self.live.get(entry.pid);
        event.session = live
            .filter(|live| !live.is_other(entry.started, 0))
            .and_then(|live| live.id());
        self.output.sink.server_event(event)
    }

    /// Emits the end of a session with the logged length.
    pub(super) fn emit_session_end(
        &mut self,
        entry: &Entry<'_>,
        session: Option<u64>,
    ) -> Result<(), SinkError> {
        match session_end_event(entry) {
            Some(event) => self
                .output
                .sink
                .server_event(ServerEvent { session, ..event }),
            None => Ok(()),
        }
    }

    fn emit_server_event(&mut self, entry: &Entry<'_>) -> Result<bool, SinkError> {
        let Some(mut event) = server_event::parse(entry) else {
            return Ok(false);
        };
        let live = self.live.get(entry.pid);
        if let Some(live) = live.filter(|live| !live.belongs_to_other(entry)) {
            event.session = live.id();
            let follows = entry.wall_us - live.seen_us <= FILE_DELAY_MAX_US;
            if event.kind == ServerEventKind::TemporaryFile {
                if event.sql.is_none() && follows {
                    event.sql = live.pending.as_ref().map(|pending| pending.sql().into());
                }
                event.sql = event.sql.and_then(|sql| live.file_cause(&sql));
            }
        }
        self.output.account.server_events += 1;
        self.output.sink.server_event(event)?;
        Ok(true)
    }
}
