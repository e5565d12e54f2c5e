//! Runs the capture thread: it reads the mirrored traffic, tracks all conversations, and records on
//! request.
//!
//! Commands are ordered with the traffic: each source writes a mark at the time of the command,
//! and the command runs when all marks have arrived. So a statement sent before the stop of a
//! recording is in it, and later ones are not.

mod account;
mod failure;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::capture_event::CaptureEvent;
use super::capture_status::{CaptureStatus, FinishedRecording, RecordingState};
use super::mirror::{Chunk, MirrorState, Record, Totals, records};
use super::recording::{
    IncompleteRange, IncompleteRanges, OpenRecording, Recording, RecordingAccount, SessionGaps,
};
use super::wall_clock::WallClock;
use super::{MirrorSource, OnCaptureEvent, RecordingOrigin};
use capture_sink::{EventCounter, EventSink, SinkError};
use capture_wire::conversation::{DecoderAccount, DecoderOptions, ProtocolDecoder};

/// Interval between requests for unsent chunks of sources.
const TICK: Duration = Duration::from_millis(25);
const TICK_US: i64 = 25_000;
/// Interval between updates of the status.
const STATUS_INTERVAL_US: i64 = 200_000;
/// Interval between checkpoints of a recording, and the age up to which they write. Later events
/// may still belong together with statements in progress. A kill loses events of about the sum of
/// the two.
const CHECKPOINT_INTERVAL_US: i64 = 500_000;
const CHECKPOINT_AGE_US: i64 = 400_000;

/// Result of a command: the recording's name.
pub(super) type Reply = Result<String, String>;

/// Action to run when all marks have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    Stop,
    /// Closes the account of a failed recording.
    Account,
}

/// A command to the capture thread.
pub(super) struct Command {
    pub(super) number: u64,
    pub(super) action: Action,
    pub(super) reply: Sender<Reply>,
}

/// Resources of the capture thread.
pub(super) struct RecorderParts {
    pub(super) clock: Arc<WallClock>,
    pub(super) chunks: Receiver<Chunk>,
    /// Queues for returning processed chunks, by source.
    pub(super) free: Vec<Sender<Vec<u8>>>,
    pub(super) mirrors: Vec<Arc<MirrorState>>,
    pub(super) sources: Vec<Arc<dyn MirrorSource>>,
    pub(super) commands: Receiver<Command>,
    pub(super) status: Arc<Mutex<CaptureStatus>>,
    pub(super) on_event: OnCaptureEvent,
    pub(super) open: OpenRecording,
    pub(super) conversation: DecoderOptions,
    pub(super) origin: RecordingOrigin,
}

/// Runs until all sources have ended. A panic ends the capture only.
pub(super) fn run(parts: RecorderParts) {
    let (mirrors, status) = (parts.mirrors.clone(), parts.status.clone());
    let on_event = parts.on_event.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| RecorderThread::new(parts).run()));
    if let Err(panic) = ran {
        for mirror in &mirrors {
            mirror.off.store(true, Ordering::Relaxed);
        }
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason is known")
            .to_owned();
        let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
        status.recording = None;
        status.broken_down = Some(reason.clone());
        drop(status);
        on_event(CaptureEvent::CapturePanicked { reason });
    }
}

/// Mark of one source.
#[derive(Debug, Clone, Copy, Default)]
struct SourceMark {
    totals: Totals,
    read: u64,
    lost: u64,
}

/// A command whose marks have not all arrived.
struct PendingCommand {
    command: Command,
    marks: usize,
    at_us: i64,
    from: Vec<SourceMark>,
}

/// A failed recording whose account is not closed yet.
struct FailedRecording {
    current: CurrentRecording,
    at_us: i64,
    reason: String,
}

/// First number of the capture thread's own commands.
const OWN_COMMANDS: u64 = 1 << 63;

/// The current recording.
struct CurrentRecording {
    recording: Box<dyn Recording>,
    name: String,
    from_us: i64,
    from: Vec<SourceMark>,
    account: DecoderAccount,
    incomplete: IncompleteRanges,
    session_gaps: SessionGaps,
    secured_us: i64,
}

struct RecorderThread {
    parts: RecorderParts,
    conversations: ProtocolDecoder,
    /// Connections by source.
    open: Vec<HashSet<u64>>,
    from: Vec<SourceMark>,
    progress: Vec<u64>,
    waiting: HashMap<u64, PendingCommand>,
    current: Option<CurrentRecording>,
    failed: HashMap<u64, FailedRecording>,
    own_commands: u64,
    /// Minimum time of recorded events: earlier ones belong to another recording, or to none.
    not_before_us: i64,
    /// Time of the traffic that was read last.
    read_to_us: i64,
    number: u32,
    finishing: Vec<JoinHandle<()>>,
    ticked_us: i64,
    shown_us: i64,
}

impl RecorderThread {
    fn new(parts: RecorderParts) -> Self {
        let sources = parts.mirrors.len();
        RecorderThread {
            conversations: ProtocolDecoder::new(parts.conversation),
            open: vec![HashSet::new(); sources],
            from: vec![SourceMark::default(); sources],
            progress: vec![0; sources],
            waiting: HashMap::new(),
            current: None,
            failed: HashMap::new(),
            own_commands: OWN_COMMANDS,
            not_before_us: i64::MIN,
            read_to_us: 0,
            number: 0,
            finishing: Vec::new(),
            ticked_us: 0,
            shown_us: 0,
            parts,
        }
    }

    fn run(mut self) {
        loop {
            match self.parts.chunks.recv_timeout(TICK) {
                Ok(chunk) => {
                    self.read_chunk(&chunk);
                    let mut bytes = chunk.bytes;
                    bytes.clear();
                    let _ = self.parts.free[chunk.source].try_send(bytes);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now_us = self.parts.clock.now_us();
            if now_us - self.ticked_us >= TICK_US {
                self.ticked_us = now_us;
                self.tick(now_us);
            }
        }
        let from = self.from.clone();
        if self.current.is_some() {
            let now_us = self.parts.clock.now_us();
            self.stop_recording(now_us, from.clone(), None);
        }
        let failed: Vec<u64> = self.failed.keys().copied().collect();
        for number in failed {
            self.close_failed(number, &from);
        }
        for thread in self.finishing.drain(..) {
            let _ = thread.join();
        }
    }

    fn tick(&mut self, now_us: i64) {
        // A command waits in a source, and may not find room at once.
        let is_asked = !self.parts.commands.is_empty() || !self.waiting.is_empty();
        for (index, mirror) in self.parts.mirrors.iter().enumerate() {
            let progress = mirror.progress();
            let held = progress % 2 == 1;
            if held && (is_asked || progress == self.progress[index]) {
                self.parts.sources[index].request_flush();
            }
            self.progress[index] = progress;
        }
        if let Some(current) = &mut self.current
            && now_us - current.secured_us >= CHECKPOINT_INTERVAL_US
        {
            // With a long queue, the traffic read is older than the current time.
            let read_to_us = match self.parts.chunks.is_empty() {
                true => now_us,
                false => self.read_to_us,
            };
            let secured = current.recording.checkpoint(read_to_us - CHECKPOINT_AGE_US);
            // From now on, so that a slow disk is not used all the time.
            current.secured_us = self.parts.clock.now_us();
            if let Err(error) = secured {
                self.fail_recording(&error, now_us);
            }
        }
        if now_us - self.shown_us >= STATUS_INTERVAL_US {
            self.shown_us = now_us;
            self.publish_status();
            self.note_provenance(now_us);
        }
    }

    fn update_status(&self, change: impl FnOnce(&mut CaptureStatus)) {
        let status = &self.parts.status;
        change(&mut status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn read_chunk(&mut self, chunk: &Chunk) {
        for record in records(&chunk.bytes) {
            let result = self.handle_record(chunk.source, record);
            if let Err(error) = result {
                let now_us = self.parts.clock.now_us();
                self.fail_recording(&error, now_us);
            }
        }
    }

    fn handle_record(&mut self, source: usize, record: Record<'_>) -> Result<(), SinkError> {
        self.note_session_gap(record);
        let mut nobody = EventCounter::default();
        let sink: &mut dyn EventSink = match &mut self.current {
            Some(current) => &mut *current.recording,
            None => &mut nobody,
        };
        let not_before_us = self.not_before_us;
        let conversations = &mut self.conversations;
        match record {
            Record::Opened {
                connection,
                at_us,
                client,
                from_the_start,
            } => {
                self.open[source].insert(connection);
                let at_us = at_us.max(not_before_us);
                conversations.open_connection(connection, client, at_us, from_the_start);
                Ok(())
            }
            Record::Bytes {
                connection,
                side,
                at_us,
                bytes,
            } => {
                self.from[source].read += bytes.len() as u64;
                self.read_to_us = at_us;
                let at_us = at_us.max(not_before_us);
                conversations.handle_bytes(connection, side, at_us, 0, bytes, sink)
            }
            Record::Login { connection, login } => {
                conversations.set_login(connection, login);
                Ok(())
            }
            Record::Lost {
                connection,
                side,
                at_us,
                bytes,
                ..
            } => {
                let at_us = at_us.max(not_before_us);
                conversations.handle_loss(connection, side, at_us, Some(bytes), sink)
            }
            Record::Closed { connection, at_us } => {
                self.open[source].remove(&connection);
                conversations.close_connection(connection, at_us.max(not_before_us), sink)
            }
            Record::Gap(gap) => {
                self.from[source].lost += gap.bytes;
                if let Some(current) = &mut self.current {
                    if current.incomplete.is_empty() {
                        (self.parts.on_event)(CaptureEvent::CopiesDropped);
                    }
                    let stretch = IncompleteRange {
                        from_us: gap.from_us,
                        to_us: gap.to_us,
                        bytes: gap.bytes,
                    };
                    current.incomplete.add(stretch);
                }
                Ok(())
            }
            Record::Alive { at_us, connections } => {
                let alive: HashSet<u64> = connections.iter().collect();
                let open = std::mem::replace(&mut self.open[source], alive);
                let at_us = at_us.max(not_before_us);
                let mut result = Ok(());
                for connection in open.difference(&self.open[source]) {
                    let closed = conversations.close_connection(*connection, at_us, sink);
                    result = result.and(closed);
                }
                result
            }
            Record::Mark {
                command,
                at_us,
                totals,
            } => {
                self.from[source].totals = totals;
                self.handle_mark(source, command, at_us);
                Ok(())
            }
        }
    }

    fn handle_mark(&mut self, source: usize, command: u64, at_us: i64) {
        let sources = self.from.len();
        while let Ok(command) = self.parts.commands.try_recv() {
            let waiting = PendingCommand {
                marks: 0,
                at_us: i64::MIN,
                from: vec![SourceMark::default(); sources],
                command,
            };
            self.waiting.insert(waiting.command.number, waiting);
        }
        let Some(waiting) = self.waiting.get_mut(&command) else {
            return;
        };
        waiting.marks += 1;
        waiting.at_us = waiting.at_us.max(at_us);
        waiting.from[source] = self.from[source];
        if waiting.marks < sources {
            return;
        }
        let Some(waiting) = self.waiting.remove(&command) else {
            return;
        };
        let (at_us, from) = (waiting.at_us, waiting.from);
        let reply = waiting.command.reply;
        match waiting.command.action {
            Action::Start => {
                let started = self.start_recording(at_us, from);
                let _ = reply.send(started);
            }
            Action::Stop if self.current.is_none() => {
                let _ = reply.send(Err("nothing is being recorded".to_owned()));
            }
            Action::Stop => self.stop_recording(at_us, from, Some(reply)),
            Action::Account => self.close_failed(command, &from),
        }
    }

    fn start_recording(&mut self, at_us: i64, from: Vec<SourceMark>) -> Reply {
        if let Some(current) = &self.current {
            return Err(format!("{} is being recorded already", current.name));
        }
        self.number += 1;
        let mut recording = match (self.parts.open)(self.number, &self.parts.origin.servers) {
            Ok(recording) => recording,
            Err(error) => {
                self.number -= 1;
                return Err(error.to_string());
            }
        };
        let name = recording.name();
        self.not_before_us = self.not_before_us.max(at_us);
        let account = self.conversations.account().clone();
        let began = self.conversations.start_recording(at_us, &mut *recording);
        self.current = Some(CurrentRecording {
            recording,
            name: name.clone(),
            from_us: at_us,
            from,
            account,
            incomplete: IncompleteRanges::default(),
            session_gaps: SessionGaps::default(),
            secured_us: at_us,
        });
        if let Err(error) = began {
            self.fail_recording(&error, at_us);
            return Err(error.to_string());
        }
        let series = self
            .current
            .as_ref()
            .and_then(|current| current.recording.series());
        self.update_status(|status| status.series = series);
        self.publish_status();
        (self.parts.on_event)(CaptureEvent::RecordingStarted { name: name.clone() });
        Ok(name)
    }

    /// Ends the recording; a separate thread completes it, since that may take longer than copies
    /// can wait.
    fn stop_recording(&mut self, at_us: i64, from: Vec<SourceMark>, reply: Option<Sender<Reply>>) {
        let Some(mut current) = self.current.take() else {
            return;
        };
        let at_us = at_us.max(self.not_before_us);
        let stopped = self
            .conversations
            .stop_recording(at_us, &mut *current.recording);
        if let Err(error) = stopped {
            self.current = Some(current);
            self.fail_recording(&error, at_us);
            if let Some(reply) = reply {
                let _ = reply.send(Err(error.to_string()));
            }
            return;
        }
        self.publish_status();
        let account = self.account(&current, at_us, &from, None);
        let provenance = self.provenance(&account);
        let not_completed = FinishedRecording::new(
            current.name.clone(),
            RecordingState::Partial,
            account.clone(),
            provenance.clone(),
        );
        let (status, on_event) = (self.parts.status.clone(), self.parts.on_event.clone());
        let CurrentRecording {
            recording, name, ..
        } = current;
        let complete = move || {
            let reason = recording
                .finish(provenance.clone())
                .err()
                .map(|error| error.to_string());
            let state = match reason {
                None => RecordingState::Complete,
                Some(_) => RecordingState::Partial,
            };
            let account = RecordingAccount {
                failure: reason.clone(),
                ..account
            };
            let finished = FinishedRecording::new(name.clone(), state, account, provenance);
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            status.finished.push(finished.clone());
            drop(status);
            on_event(match &reason {
                None => CaptureEvent::RecordingFinished(Box::new(finished)),
                Some(reason) => CaptureEvent::RecordingFailed {
                    name: name.clone(),
                    reason: reason.clone(),
                },
            });
            if let Some(reply) = reply {
                let _ = reply.send(reason.map_or(Ok(name), Err));
            }
        };
        let thread = std::thread::Builder::new().name("finisher".to_owned());
        match thread.spawn(complete) {
            Ok(thread) => self.finishing.push(thread),
            Err(error) => self.report_not_completed(not_completed, &error),
        }
    }
}
