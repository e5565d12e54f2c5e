//! Inbox of a worker: the messages that other threads send to it, and the waker for its event loop.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::connect::{ConnectError, Connection};
use crate::epoll::Waker;
use crate::job::Job;

/// Message to a worker.
pub(crate) enum WorkerMessage {
    Jobs(Vec<Job>),
    Opened(OpenResult),
    /// The server has taken a cancel request of this slot and generation.
    Cancelled(usize, u32),
    /// The waiting statement of this slot and generation is released before its turn.
    Release(usize, u32),
    /// The wait of this slot and generation is over.
    Continue(usize, u32),
    /// No more jobs follow.
    End,
    /// Send no more statements.
    Stop,
}

/// Result of a request for a connection.
pub(crate) struct OpenResult {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
    pub(crate) sent_ns: i64,
    pub(crate) result: Result<Connection, ConnectError>,
}

/// Sending side of a worker's messages.
pub(crate) struct Inbox {
    sender: Sender<WorkerMessage>,
    waker: Waker,
}

impl Inbox {
    /// Creates an inbox and the receiver of its messages.
    ///
    /// # Errors
    /// If the system has no descriptor for the waker.
    pub(crate) fn new() -> io::Result<(Arc<Inbox>, Receiver<WorkerMessage>)> {
        let (sender, receiver) = unbounded();
        let waker = Waker::new()?;
        Ok((Arc::new(Inbox { sender, waker }), receiver))
    }

    /// Wakes the worker, so that it checks for changes.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Sends a message and wakes the worker. A worker that has ended needs no messages.
    pub(crate) fn send(&self, message: WorkerMessage) {
        if self.sender.send(message).is_ok() {
            self.waker.wake();
        }
    }

    /// Returns the descriptor that becomes readable when the worker is woken.
    pub(crate) fn waker_fd(&self) -> RawFd {
        self.waker.fd()
    }

    /// Resets the waker before the messages are read.
    pub(crate) fn reset_waker(&self) {
        self.waker.reset();
    }
}
