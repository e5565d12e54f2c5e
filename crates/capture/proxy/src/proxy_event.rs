//! Defines the events of a running proxy, for its caller.

use capture_recorder::CaptureEvent;
use crossbeam_channel::{Receiver, Sender, bounded};

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
    /// An event of the capture. Forwarding continues after each of them.
    Capture(CaptureEvent),
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
