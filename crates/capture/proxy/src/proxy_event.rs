//! Defines the events of a running proxy, for its caller.

use crossbeam_channel::{Receiver, Sender, bounded};

use super::capture_status::FinishedRecording;

/// Maximum number of unread events. Further ones are dropped; the important ones are in the status
/// as well.
const UNREAD_MAX: usize = 1024;

/// An event of a running proxy.
#[derive(Debug)]
pub enum ProxyEvent {
    /// A client was refused, since the upstream could not be reached.
    ClientRefused {
        /// Reason, as sent to the client.
        reason: String,
    },
    /// Clients cannot be accepted for a moment.
    AcceptingPaused {
        /// Error of the operating system.
        reason: String,
    },
    /// The server's offer of channel binding was removed; reported once.
    BindingRemoved,
    /// A recording has begun.
    RecordingStarted {
        /// Path of the workload.
        name: String,
    },
    /// A recording is complete.
    RecordingFinished(Box<FinishedRecording>),
    /// Copies are dropped, since the capture or its disk is too slow. Reported at the beginning of
    /// each gap.
    CopiesDropped,
    /// A recording failed. Forwarding continues.
    RecordingFailed {
        /// Intended path of the workload.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The capture has panicked. Forwarding continues; nothing is recorded any more.
    CapturePanicked {
        /// Message of the panic.
        reason: String,
    },
}

/// Sends events without blocking.
#[derive(Debug, Clone)]
pub(super) struct ProxyEventSender(Sender<ProxyEvent>);

impl ProxyEventSender {
    pub(super) fn new() -> (Self, Receiver<ProxyEvent>) {
        let (sender, receiver) = bounded(UNREAD_MAX);
        (ProxyEventSender(sender), receiver)
    }

    pub(super) fn send(&self, happening: ProxyEvent) {
        let _ = self.0.try_send(happening);
    }
}
