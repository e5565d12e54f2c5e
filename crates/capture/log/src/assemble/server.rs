//! What the server did goes to the sink beside the events of clients.
//!
//! A line of the server's own counts as one in an event. An error of a client's statement that
//! also tells of the server, such as a deadlock, is counted with its statement alone: every line
//! counts once.

use workload::ServerEventKind;

use super::super::entry::Entry;
use super::super::reconcile::SkipReason;
use super::super::server_event;
use super::super::severity::Severity;
use super::Assembler;
use capture_sink::SinkError;

/// The extended protocol's Sync drops a portal, and with it its temporary files, right behind the
/// line of its execution; by then the server knows no statement any more (*seen* on 13, 15 and 18).
/// A file that is told of within this time is the session's last statement's.
const FOLLOWS_US: i64 = 100_000;

impl Assembler<'_> {
    /// Takes an entry that is nothing a client did: one of the server's, or to be skipped.
    pub(super) fn server_line(
        &mut self,
        entry: &Entry<'_>,
        reason: SkipReason,
    ) -> Result<(), SinkError> {
        if let Some(live) = self.live.get(entry.pid) {
            live.spoke_aside = true;
        }
        if self.server_event(entry)? {
            self.output.account.lines_in_events += entry.lines;
        } else {
            self.output.skip(reason, entry);
        }
        Ok(())
    }

    /// Takes an error that may tell of the server; whether the entry is done with.
    pub(super) fn server_failure(&mut self, entry: &Entry<'_>) -> Result<bool, SinkError> {
        let of_autovacuum =
            entry.severity == Severity::Error && entry.message == "canceling autovacuum task";
        if self.server_event(entry)? && of_autovacuum {
            self.output.account.lines_in_events += entry.lines;
            return Ok(true);
        }
        Ok(false)
    }

    fn server_event(&mut self, entry: &Entry<'_>) -> Result<bool, SinkError> {
        let Some(mut event) = server_event::read(entry) else {
            return Ok(false);
        };
        let live = self.live.get(entry.pid);
        if let Some(live) = live.filter(|live| !live.is_other(entry)) {
            event.session = live.id();
            let follows = entry.wall_us - live.seen_us <= FOLLOWS_US;
            if event.kind == ServerEventKind::TemporaryFile && event.sql.is_none() && follows {
                event.sql = live.pending.as_ref().map(|pending| pending.sql().into());
            }
        }
        self.output.account.server_events += 1;
        self.output.sink.server_event(event)?;
        Ok(true)
    }
}
