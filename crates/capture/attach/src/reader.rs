//! Reads the pipe of a prober on a thread of its own.

use std::io;
use std::os::fd::AsRawFd;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capture_recorder::{MirrorSource, WallClock};
use clock::monotonic_ns;
use crossbeam_channel::{Receiver, Sender, unbounded};
use event_loop::{Interest, Poller, Waker};

use crate::attach_status::{AttachCounters, AttachEvent};
use crate::record::{PipeState, RecordKind, RecordReader};
use crate::sessions::{SessionIdentities, Sessions};

/// Tokens of the descriptors.
const WAKER: u64 = 0;
const PIPE: u64 = 1;

/// Maximum wait, so that the status is current.
const WAIT_NS: i64 = 250_000_000;
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
    /// Starts to handle records, with the logins of sessions that existed before. Commands before it have the time of the
    /// attach.
    Read(SessionIdentities),
    /// Ends, although the prober has not.
    Abandon,
}

/// Message queue of the reader.
pub(crate) struct ReaderInbox {
    waker: Waker,
    messages: Sender<ReaderMessage>,
    records: AtomicU64,
}

impl ReaderInbox {
    pub(crate) fn new() -> io::Result<(Arc<Self>, Receiver<ReaderMessage>)> {
        let (messages, received) = unbounded();
        let waker = Waker::new()?;
        let inbox = ReaderInbox {
            waker,
            messages,
            records: AtomicU64::new(0),
        };
        Ok((Arc::new(inbox), received))
    }

    /// Returns the number of records that the reader has handled.
    pub(crate) fn handled_records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
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
    /// It waits for [`ReaderMessage::Read`], and keeps what the pipe has in memory.
    Waiting {
        /// Time of the attach.
        attached_us: i64,
    },
    Reading,
    /// The prober has closed the pipe.
    PipeEnded,
    /// It is to end, although the prober has not.
    Abandoned,
}

/// Result of reading all records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReaderEnd {
    /// The prober's last record was read.
    Complete,
    /// The pipe ended without the last record, so an unknown number of records is missing.
    Truncated,
    /// The user of the reader has abandoned the prober.
    Abandoned,
    /// The prober or the pipe failed, for this reason.
    Failed(String),
}

/// Resources of a reader.
pub(crate) struct ReaderParts {
    pub(crate) clock: Arc<WallClock>,
    pub(crate) records: RecordReader<ChildStdout>,
    pub(crate) inbox: Arc<ReaderInbox>,
    pub(crate) messages: Receiver<ReaderMessage>,
    pub(crate) sessions: Sessions,
    pub(crate) counters: Arc<Mutex<AttachCounters>>,
    pub(crate) on_event: Arc<dyn Fn(AttachEvent) + Send + Sync>,
    pub(crate) attached_us: i64,
    /// Bytes that are kept in memory before [`ReaderMessage::Read`].
    pub(crate) held_bytes_max: usize,
}

/// Reads until the prober ends.
pub(crate) struct Reader {
    parts: ReaderParts,
    poller: Poller,
    state: ReaderState,
    /// Whether the poller watches the pipe.
    watches_pipe: bool,
    /// Commands whose marks are due, with the times of their requests.
    marks: Vec<(u64, i64)>,
}

impl Reader {
    pub(crate) fn new(parts: ReaderParts) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(parts.inbox.waker.fd(), WAKER, Interest::Read)?;
        let mut reader = Reader {
            poller,
            state: ReaderState::Waiting {
                attached_us: parts.attached_us,
            },
            watches_pipe: false,
            marks: Vec::new(),
            parts,
        };
        reader.watch_pipe(true)?;
        Ok(reader)
    }

    fn watch_pipe(&mut self, watches: bool) -> io::Result<()> {
        if watches != self.watches_pipe {
            self.watches_pipe = watches;
            let pipe = self.parts.records.input().as_raw_fd();
            match watches {
                true => self.poller.add(pipe, PIPE, Interest::Read)?,
                false => self.poller.remove(pipe)?,
            }
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, ReaderState::PipeEnded | ReaderState::Abandoned)
    }

    /// Reads until the pipe ends.
    pub(crate) fn run(mut self) -> ReaderEnd {
        let failure = loop {
            match self.run_once() {
                Ok(()) if self.has_ended() => break None,
                Ok(()) => (),
                Err(error) => break Some(format!("its records cannot be read: {error}")),
            }
        };
        let now_us = self.parts.clock.now_us();
        let unread = match self.parts.records.has_record() {
            true => self.parts.records.unread_bytes(),
            false => 0,
        };
        let sessions = &mut self.parts.sessions;
        sessions.open_starting();
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
        let mut failure = failure.or(sessions.failure.take());
        if sessions.has_unsent_reports() || unread > 0 {
            failure.get_or_insert_with(|| {
                format!(
                    "the recorder did not take the last bytes in time, {unread} of the prober's among them; they are not recorded"
                )
            });
        }
        let is_complete = sessions.is_complete;
        self.publish();
        match failure {
            Some(reason) => ReaderEnd::Failed(reason),
            None if is_complete => ReaderEnd::Complete,
            None if self.state == ReaderState::Abandoned => ReaderEnd::Abandoned,
            None => ReaderEnd::Truncated,
        }
    }

    fn run_once(&mut self) -> io::Result<()> {
        self.poller.wait(WAIT_NS)?;
        let ready: Vec<u64> = (0..self.poller.ready_count())
            .map(|index| self.poller.ready(index).token)
            .collect();
        if ready.contains(&WAKER) {
            self.read_messages()?;
        }
        match &self.state {
            ReaderState::Waiting { .. } if ready.contains(&PIPE) => self.hold_records()?,
            ReaderState::Reading => self.read_records(ready.contains(&PIPE))?,
            _ => (),
        }
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
                (ReaderMessage::Read(identities), ReaderState::Waiting { .. }) => {
                    self.parts.sessions.set_identities(identities);
                    self.watch_pipe(true)?;
                    self.state = ReaderState::Reading;
                }
                (ReaderMessage::Read(_), _) => (),
                (ReaderMessage::Abandon, _) => self.state = ReaderState::Abandoned,
            }
        }
        Ok(())
    }

    /// Keeps in memory what the pipe has. Beyond the limit, the pipe fills, then the ring buffer, and the kernel counts what it
    /// drops.
    fn hold_records(&mut self) -> io::Result<()> {
        match self.parts.records.fill(self.parts.held_bytes_max)? {
            PipeState::Open => Ok(()),
            PipeState::BufferFull | PipeState::Ended => self.watch_pipe(false),
        }
    }

    /// Reads the pipe once, and handles all complete records.
    fn read_records(&mut self, is_ready: bool) -> io::Result<()> {
        // What was read before the recording began is older than what the pipe has.
        self.handle_records()?;
        if !is_ready || self.has_ended() {
            return Ok(());
        }
        let pipe = self.parts.records.fill(0)?;
        self.handle_records()?;
        if pipe == PipeState::Ended && !self.has_ended() {
            self.state = ReaderState::PipeEnded;
            self.parts.records.check_end()?;
        }
        Ok(())
    }

    fn handle_records(&mut self) -> io::Result<()> {
        loop {
            while self.parts.sessions.must_wait() {
                self.read_messages()?;
                if self.has_ended() {
                    return Ok(());
                }
                std::thread::sleep(FULL_PAUSE);
            }
            let Some(record) = self.parts.records.next_buffered()? else {
                return Ok(());
            };
            self.parts.sessions.handle(&record);
            self.parts.inbox.records.fetch_add(1, Ordering::Relaxed);
            if record.kind == RecordKind::Progress {
                let complete_to_ns = record.time_ns;
                self.release_marks(complete_to_ns as i64);
            }
        }
    }

    /// Places the marks of commands that were requested before a time up to which everything was read. They have that time:
    /// what comes after it is all that the recording of a command is certain to have.
    fn release_marks(&mut self, complete_to_ns: i64) {
        let parts = &mut self.parts;
        let at_us = parts.clock.at_monotonic_ns(complete_to_ns);
        self.marks.retain(|(command, requested_ns)| {
            let is_due = complete_to_ns >= *requested_ns;
            if is_due {
                parts.sessions.mark(*command, at_us);
            }
            !is_due
        });
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
