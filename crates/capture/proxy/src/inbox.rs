//! Defines the message queue of a forwarder.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use capture_recorder::MirrorSource;
use crossbeam_channel::{Receiver, Sender, unbounded};
use event_loop::Waker;

use super::opener::DialResult;

/// Message to a forwarder.
pub(super) enum ForwarderMessage {
    /// A client has connected.
    Accepted(OwnedFd, String),
    /// The upstream connection, or its failure.
    Dialed(DialResult),
    /// Position of a command to the capture in the traffic.
    Mark(u64),
    /// Requests that copies be passed to the capture.
    Flush,
    /// Stops accepting; existing connections end when they are idle.
    Drain,
    /// Ends all connections.
    End,
}

/// Message queue of a forwarder.
pub(super) struct Inbox {
    pub(super) bell: Waker,
    messages: Sender<ForwarderMessage>,
}

impl Inbox {
    pub(super) fn new() -> io::Result<(Arc<Self>, Receiver<ForwarderMessage>)> {
        let (messages, received) = unbounded();
        let bell = Waker::new()?;
        Ok((Arc::new(Inbox { bell, messages }), received))
    }

    pub(super) fn send(&self, message: ForwarderMessage) {
        // A forwarder that has ended needs no messages.
        let _ = self.messages.send(message);
        self.bell.wake();
    }
}

impl MirrorSource for Inbox {
    fn request_flush(&self) {
        self.send(ForwarderMessage::Flush);
    }

    fn request_mark(&self, command: u64) {
        self.send(ForwarderMessage::Mark(command));
    }
}
