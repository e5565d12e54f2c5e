//! Reads the pipe of a prober on a thread of its own.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::process::ChildStdout;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capture_recorder::{MirrorSource, WallClock};
use clock::monotonic_ns;
use crossbeam_channel::{Receiver, Sender, unbounded};
use event_loop::{Interest, Poller, Waker};

use crate::attach_status::{AttachCounters, AttachEvent};
use crate::record::RecordReader;
use crate::sessions::Sessions;

/// Tokens of the descriptors.
const WAKER: u64 = 0;
const PIPE: u64 = 1;

/// Maximum wait, so that the status is current.
const WAIT_NS: i64 = 250_000_000;
/// Maximum wait while the mark of a command is due.
const MARK_WAIT_NS: i64 = 10_000_000;
/// Time after which an idle pipe has everything that was sent before a command. The prober reads the ring buffer more often.
const IDLE_NS: i64 = 60_000_000;
/// Pause while the recorder does not keep up.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Number of attempts to pass on the last copies, and the pause between them.
const LAST_ATTEMPTS: usize = 200;
const LAST_PAUSE: Duration = Duration::from_millis(10);

/// Message to the reader.
pub(crate) enum ReaderMessage {
    /// Requests that copies be passed to the capture.
    Flush,
    /// Position of a command to the capture in the traffic.
    Mark(u64),
    /// Starts to read. Commands before it have the time of the attach.
    Read,
    /// Ends, although the prober has not.
    Abandon,
}

/// Message queue of the reader.
pub(crate) struct ReaderInbox {
    waker: Waker,
    messages: Sender<ReaderMessage>,
}

impl ReaderInbox {
    pub(crate) fn new() -> io::Result<(Arc<Self>, Receiver<ReaderMessage>)> {
        let (messages, received) = unbounded();
        let waker = Waker::new()?;
        Ok((Arc::new(ReaderInbox { waker, messages }), received))
    }

    pub(crate) fn send(&self, message: ReaderMessage) {
        // A reader that has ended needs no messages.
        let _ = self.messages.send(message);
        self.waker.wake();
    }
}

impl MirrorSource for ReaderInbox {
    fn request_flush(&self) {
        self.send(ReaderMessage::Flush);
    }

    fn request_mark(&self, command: u64) {
        self.send(ReaderMessage::Mark(command));
    }
}

/// State of a reader.
#[derive(Debug, PartialEq, Eq)]
enum ReaderState {
    /// It waits for [`ReaderMessage::Read`].
    Waiting {
        /// Time of the attach.
        attached_us: i64,
    },
    Reading,
    Ended,
}

/// Resources of a reader.
pub(crate) struct ReaderParts {
    pub(crate) clock: Arc<WallClock>,
    pub(crate) pipe: RawFd,
    pub(crate) records: RecordReader<ChildStdout>,
    pub(crate) inbox: Arc<ReaderInbox>,
    pub(crate) messages: Receiver<ReaderMessage>,
    pub(crate) sessions: Sessions,
    pub(crate) counters: Arc<Mutex<AttachCounters>>,
    pub(crate) on_event: Arc<dyn Fn(AttachEvent) + Send + Sync>,
    pub(crate) attached_us: i64,
}

/// Reads until the prober ends.
pub(crate) struct Reader {
    parts: ReaderParts,
    poller: Poller,
    state: ReaderState,
    /// Commands whose marks are due, with the times of their requests.
    marks: Vec<(u64, i64)>,
}

impl Reader {
    pub(crate) fn new(parts: ReaderParts) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(parts.inbox.waker.fd(), WAKER, Interest::Read)?;
        Ok(Reader {
            poller,
            state: ReaderState::Waiting {
                attached_us: parts.attached_us,
            },
            marks: Vec::new(),
            parts,
        })
    }

    /// Reads until the pipe ends. Returns why the prober ended, if it or the pipe failed.
    pub(crate) fn run(mut self) -> Option<String> {
        let failure = loop {
            match self.run_once() {
                Ok(()) if self.state == ReaderState::Ended => break None,
                Ok(()) => (),
                Err(error) => break Some(format!("its records cannot be read: {error}")),
            }
        };
        let now_us = self.parts.clock.now_us();
        let sessions = &mut self.parts.sessions;
        for (command, _) in self.marks.drain(..) {
            sessions.mark(command, now_us);
        }
        sessions.mark(0, now_us);
        for _ in 0..LAST_ATTEMPTS {
            if !sessions.has_unsent_reports() {
                break;
            }
            std::thread::sleep(LAST_PAUSE);
            sessions.flush();
        }
        let failure = failure.or(sessions.failure.take());
        self.publish();
        failure
    }

    fn run_once(&mut self) -> io::Result<()> {
        self.poller.wait(match self.marks.is_empty() {
            true => WAIT_NS,
            false => MARK_WAIT_NS,
        })?;
        let ready: Vec<u64> = (0..self.poller.ready_count())
            .map(|place| self.poller.ready(place).token)
            .collect();
        if ready.contains(&WAKER) {
            self.read_messages()?;
        }
        // What was read together with the first record is not in the pipe.
        let is_readable = ready.contains(&PIPE) || self.parts.records.has_buffered();
        if is_readable && self.state == ReaderState::Reading {
            self.read_records()?;
        }
        self.release_marks(!is_readable);
        self.publish();
        Ok(())
    }

    fn read_messages(&mut self) -> io::Result<()> {
        self.parts.inbox.waker.reset();
        while let Ok(message) = self.parts.messages.try_recv() {
            match (message, &self.state) {
                (ReaderMessage::Flush, _) => self.parts.sessions.flush(),
                (ReaderMessage::Mark(command), ReaderState::Waiting { attached_us }) => {
                    self.parts.sessions.mark(command, *attached_us);
                }
                (ReaderMessage::Mark(command), _) => self.marks.push((command, monotonic_ns())),
                (ReaderMessage::Read, ReaderState::Waiting { .. }) => {
                    self.poller.add(self.parts.pipe, PIPE, Interest::Read)?;
                    self.state = ReaderState::Reading;
                }
                (ReaderMessage::Read, _) => (),
                (ReaderMessage::Abandon, _) => self.state = ReaderState::Ended,
            }
        }
        Ok(())
    }

    /// Reads the records that one read of the pipe returns.
    fn read_records(&mut self) -> io::Result<()> {
        loop {
            while self.parts.sessions.must_wait() {
                self.read_messages()?;
                if self.state == ReaderState::Ended {
                    return Ok(());
                }
                std::thread::sleep(FULL_PAUSE);
            }
            match self.parts.records.next()? {
                Some(record) => self.parts.sessions.handle(&record),
                None => self.state = ReaderState::Ended,
            }
            if self.state == ReaderState::Ended || !self.parts.records.has_buffered() {
                return Ok(());
            }
        }
    }

    /// Writes the marks of commands before which everything was read.
    fn release_marks(&mut self, is_idle: bool) {
        let now_ns = monotonic_ns();
        let latest_ns = self.parts.sessions.latest_ns as i64;
        let (parts, mut kept) = (&mut self.parts, Vec::new());
        for (command, asked_ns) in self.marks.drain(..) {
            if latest_ns >= asked_ns || is_idle && now_ns - asked_ns >= IDLE_NS {
                let at_us = parts.clock.at_monotonic_ns(asked_ns);
                parts.sessions.mark(command, at_us);
            } else {
                kept.push((command, asked_ns));
            }
        }
        self.marks = kept;
    }

    fn publish(&mut self) {
        let parts = &mut self.parts;
        *parts
            .counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = parts.sessions.counters;
        for event in parts.sessions.events.drain(..) {
            (parts.on_event)(event);
        }
    }
}

/// Returns the descriptor of a prober's output, which the reader keeps open.
pub(crate) fn descriptor(output: &ChildStdout) -> RawFd {
    output.as_raw_fd()
}
