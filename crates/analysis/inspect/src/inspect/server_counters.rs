//! Counts of everything that a workload has apart from events: server events and sessions.

use sql::Fingerprint;
use workload::{Literals, ServerEvent, ServerEventKind};

use super::Inspection;
use super::clients::ClientCounter;
use super::lock_waits::{LockWaitCounter, hide_key};
use super::messages::MessageCounter;
use super::server::ServerActivity;
use super::temporary_files::TemporaryFileCounter;

/// Counters of server events and sessions.
#[derive(Debug)]
pub(super) struct ServerCounters {
    literals: Literals,
    activity: ServerActivity,
    messages: MessageCounter,
    lock_waits: LockWaitCounter,
    temporary_files: TemporaryFileCounter,
    pub(super) clients: ClientCounter,
}

impl ServerCounters {
    pub(super) fn new(literals: Literals) -> Self {
        ServerCounters {
            literals,
            activity: ServerActivity::default(),
            messages: MessageCounter::new(literals),
            lock_waits: LockWaitCounter::default(),
            temporary_files: TemporaryFileCounter::default(),
            clients: ClientCounter::default(),
        }
    }

    /// Adds a server event, with the fingerprint of its statement.
    pub(super) fn add(&mut self, event: &ServerEvent, fingerprint: Option<Fingerprint>) {
        match event.kind {
            ServerEventKind::Message => self.messages.add(event, fingerprint),
            ServerEventKind::SessionEnd => self.clients.add_end(event),
            kind => {
                self.activity.add(event, fingerprint, self.literals);
                self.lock_waits.add(event, fingerprint);
                if kind == ServerEventKind::TemporaryFile {
                    self.temporary_files.add(event, fingerprint);
                }
            }
        }
    }

    /// Writes the results into an inspection.
    pub(super) fn finish(self, inspection: &mut Inspection) {
        inspection.server = self.activity;
        if let Some(longest) = &mut inspection.server.lock_longest {
            hide_key(&mut longest.subject, self.literals);
        }
        inspection.messages = self.messages.finish();
        inspection.lock_waits = self.lock_waits.finish(self.literals);
        inspection.temporary_files = self.temporary_files.finish();
        (inspection.hosts, inspection.session_lengths) = self.clients.finish();
    }
}
