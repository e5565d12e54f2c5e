//! The capture thread: reads the copies that forwarders hand on, follows all conversations, and
//! records while it is told to.
//!
//! Commands come to it through what passes: each forwarder puts a mark where the command was given,
//! and it is done when all marks are there. So a statement that was sent before a recording was
//! stopped is in it, and none that was sent after.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use schemars::JsonSchema;
use serde::Serialize;
use workload::{Provenance, SourceFile, WorkloadInfo};

use super::forwarder::{Inbox, ToForwarder, WallClock};
use super::happening::{Happening, Happenings};
use super::recording::{
    Incomplete, OpenRecording, Recording, RecordingAccount, add_stretch, between,
};
use super::tap::{Chunk, Record, TapState, Totals, records};
use capture_sink::{Counted, EventSink, SinkError};
use capture_wire::conversation::{Account, ConversationOptions, Conversations};

/// How often copies are asked for that wait in a forwarder's hand.
const TICK: Duration = Duration::from_millis(25);
const TICK_US: i64 = 25_000;
/// How often others are shown how far it is.
const SHOW_EVERY_US: i64 = 200_000;
/// How often a recording is made safe, and up to what age. What is due later is not cut off from
/// statements that are still under way, and a kill costs about the sum of the two.
const SECURE_EVERY_US: i64 = 500_000;
const SECURE_OLDER_US: i64 = 400_000;

/// State of the workload of a recording that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// Everything that was read is in the workload.
    Complete,
    /// The recording ended early; what was written by then is in the workload.
    Recovered,
    /// The recording ended early; what was written by then lies at the workload's name with `.partial`
    /// appended.
    Partial,
    /// The directory was removed while it was written. The program that looks there finds out; the
    /// capture does not.
    Gone,
}

/// A recording that has ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Finished {
    /// Path of the workload.
    #[serde(rename = "workload")]
    pub name: String,
    /// State of the workload.
    pub state: RecordingState,
    /// Sessions in the workload; of a partial one, those that were read.
    pub sessions: u64,
    /// Statements in the workload; of a partial one, those that were read.
    pub statements: u64,
    /// Events in the workload; of a partial one, those that were read.
    pub events: u64,
    /// Account of all bytes that passed.
    #[serde(flatten)]
    pub account: RecordingAccount,
    /// Origin of the workload, as its manifest has it.
    #[serde(skip)]
    pub provenance: Provenance,
}

impl Finished {
    /// Makes one of a recording that was completed, or that ended early and was not.
    fn new(
        name: String,
        state: RecordingState,
        account: RecordingAccount,
        provenance: Provenance,
    ) -> Self {
        let Account {
            sessions,
            statements,
            events,
            ..
        } = account.conversation;
        Finished {
            name,
            state,
            sessions,
            statements,
            events,
            account,
            provenance,
        }
    }

    /// Notes that a workload was made of what a partial recording had written.
    pub fn set_recovered(&mut self, info: &WorkloadInfo) {
        self.state = RecordingState::Recovered;
        (self.sessions, self.statements, self.events) =
            (info.sessions, info.statements, info.events);
    }

    /// Notes that nothing of the recording is left.
    pub fn set_gone(&mut self) {
        self.state = RecordingState::Gone;
        (self.sessions, self.statements, self.events) = (0, 0, 0);
    }
}

/// State of the capture.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CaptureStatus {
    /// The recording in progress; `null` if nothing is being recorded.
    pub recording: Option<RecordingStatus>,
    /// Recordings that have ended, in order.
    #[serde(rename = "recordings")]
    pub finished: Vec<Finished>,
    /// The capture has broken down, by an error of ours: why.
    pub broken_down: Option<String>,
}

/// A recording that is being made.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct RecordingStatus {
    /// Path of the workload.
    #[serde(rename = "workload")]
    pub name: String,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// Bytes whose copies were dropped.
    pub lost_bytes: u64,
    /// From when to when.
    pub incomplete: Vec<Incomplete>,
    /// Account of what was read so far.
    #[serde(rename = "conversation")]
    pub account: Account,
}

/// What a command came to: the recording's name.
pub(super) type Reply = Result<String, String>;

/// What is to be done when all marks are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    Stop,
    /// A recording failed: the account of it is closed.
    Account,
}

/// A command to the capture thread.
pub(super) struct Command {
    pub(super) number: u64,
    pub(super) action: Action,
    pub(super) reply: Sender<Reply>,
}

/// What the capture thread needs.
pub(super) struct Parts {
    pub(super) clock: Arc<WallClock>,
    pub(super) chunks: Receiver<Chunk>,
    /// Where read pieces go back to, by forwarder.
    pub(super) free: Vec<Sender<Vec<u8>>>,
    pub(super) taps: Vec<Arc<TapState>>,
    pub(super) inboxes: Vec<Arc<Inbox>>,
    pub(super) commands: Receiver<Command>,
    pub(super) status: Arc<Mutex<CaptureStatus>>,
    pub(super) happenings: Happenings,
    pub(super) open: OpenRecording,
    pub(super) conversation: ConversationOptions,
    /// What recordings say that they are of.
    pub(super) source: String,
    pub(super) options: BTreeMap<String, String>,
}

/// Runs until all forwarders have ended. An error of ours ends the capture, and nothing else.
pub(super) fn run(parts: Parts) {
    let (taps, status) = (parts.taps.clone(), parts.status.clone());
    let happenings = parts.happenings.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| Scribe::new(parts).run()));
    if let Err(panic) = ran {
        for tap in &taps {
            tap.off.store(true, Ordering::Relaxed);
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
        happenings.tell(Happening::BrokenDown { reason });
    }
}

/// What came from one forwarder.
#[derive(Debug, Clone, Copy, Default)]
struct From {
    totals: Totals,
    read: u64,
    lost: u64,
}

/// A command whose marks are not all there.
struct Waiting {
    command: Command,
    marks: usize,
    at_us: i64,
    from: Vec<From>,
}

/// A recording that failed, until its account is closed.
struct Failed {
    current: Current,
    at_us: i64,
    reason: String,
}

/// Numbers of commands that come from here.
const OWN_COMMANDS: u64 = 1 << 63;

/// A recording that is being made.
struct Current {
    recording: Box<dyn Recording>,
    name: String,
    from_us: i64,
    from: Vec<From>,
    account: Account,
    incomplete: Vec<Incomplete>,
    secured_us: i64,
}

struct Scribe {
    parts: Parts,
    conversations: Conversations,
    /// Connections by forwarder.
    open: Vec<HashSet<u64>>,
    from: Vec<From>,
    progress: Vec<u64>,
    waiting: HashMap<u64, Waiting>,
    current: Option<Current>,
    failed: HashMap<u64, Failed>,
    own_commands: u64,
    /// Times before it are of another recording, or of none.
    not_before_us: i64,
    /// When what was read last had passed.
    read_to_us: i64,
    number: u32,
    finishing: Vec<JoinHandle<()>>,
    ticked_us: i64,
    shown_us: i64,
}

impl Scribe {
    fn new(parts: Parts) -> Self {
        let forwarders = parts.taps.len();
        Scribe {
            conversations: Conversations::new(parts.conversation),
            open: vec![HashSet::new(); forwarders],
            from: vec![From::default(); forwarders],
            progress: vec![0; forwarders],
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
                    self.read(&chunk);
                    let mut bytes = chunk.bytes;
                    bytes.clear();
                    let _ = self.parts.free[chunk.forwarder].try_send(bytes);
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
            self.stop(now_us, from.clone(), None);
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
        // A command stands in what a forwarder holds, and may find no room at once.
        let is_asked = !self.parts.commands.is_empty() || !self.waiting.is_empty();
        for (place, tap) in self.parts.taps.iter().enumerate() {
            let progress = tap.progress();
            let held = progress % 2 == 1;
            if held && (is_asked || progress == self.progress[place]) {
                self.parts.inboxes[place].send(ToForwarder::HandOn);
            }
            self.progress[place] = progress;
        }
        if let Some(current) = &mut self.current
            && now_us - current.secured_us >= SECURE_EVERY_US
        {
            // Where there is much to read yet, what was read is not of now.
            let read_to_us = match self.parts.chunks.is_empty() {
                true => now_us,
                false => self.read_to_us,
            };
            let secured = current.recording.secure(read_to_us - SECURE_OLDER_US);
            // From now on: a disk that is slow is not asked all the time.
            current.secured_us = self.parts.clock.now_us();
            if let Err(error) = secured {
                self.fail(&error, now_us);
            }
        }
        if now_us - self.shown_us >= SHOW_EVERY_US {
            self.shown_us = now_us;
            self.show();
        }
    }

    /// Others see how far it is.
    fn show(&self) {
        let recording = self.current.as_ref().map(|current| {
            let lost: u64 = current.incomplete.iter().map(|stretch| stretch.bytes).sum();
            RecordingStatus {
                name: current.name.clone(),
                from_us: current.from_us,
                lost_bytes: lost,
                incomplete: current.incomplete.clone(),
                account: between(&current.account, self.conversations.account()),
            }
        });
        self.status(|status| status.recording = recording);
    }

    fn status(&self, change: impl FnOnce(&mut CaptureStatus)) {
        let status = &self.parts.status;
        change(&mut status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn read(&mut self, chunk: &Chunk) {
        for record in records(&chunk.bytes) {
            let result = self.take(chunk.forwarder, record);
            if let Err(error) = result {
                let now_us = self.parts.clock.now_us();
                self.fail(&error, now_us);
            }
        }
    }

    fn take(&mut self, forwarder: usize, record: Record<'_>) -> Result<(), SinkError> {
        let mut nobody = Counted::default();
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
                self.open[forwarder].insert(connection);
                let at_us = at_us.max(not_before_us);
                conversations.opened(connection, client, at_us, from_the_start);
                Ok(())
            }
            Record::Bytes {
                connection,
                side,
                at_us,
                bytes,
            } => {
                self.from[forwarder].read += bytes.len() as u64;
                self.read_to_us = at_us;
                let at_us = at_us.max(not_before_us);
                conversations.bytes(connection, side, at_us, 0, bytes, sink)
            }
            Record::Lost {
                connection,
                side,
                at_us,
                bytes,
            } => {
                let at_us = at_us.max(not_before_us);
                conversations.lost(connection, side, at_us, Some(bytes), sink)
            }
            Record::Closed { connection, at_us } => {
                self.open[forwarder].remove(&connection);
                conversations.closed(connection, at_us.max(not_before_us), sink)
            }
            Record::Gap(gap) => {
                self.from[forwarder].lost += gap.bytes;
                if let Some(current) = &mut self.current {
                    if current.incomplete.is_empty() {
                        self.parts.happenings.tell(Happening::Losing);
                    }
                    let stretch = Incomplete {
                        from_us: gap.from_us,
                        to_us: gap.to_us,
                        bytes: gap.bytes,
                    };
                    add_stretch(&mut current.incomplete, stretch);
                }
                Ok(())
            }
            Record::Alive { at_us, connections } => {
                let alive: HashSet<u64> = connections.iter().collect();
                let open = std::mem::replace(&mut self.open[forwarder], alive);
                let at_us = at_us.max(not_before_us);
                let mut result = Ok(());
                for connection in open.difference(&self.open[forwarder]) {
                    let closed = conversations.closed(*connection, at_us, sink);
                    result = result.and(closed);
                }
                result
            }
            Record::Mark {
                command,
                at_us,
                totals,
            } => {
                self.from[forwarder].totals = totals;
                self.mark(forwarder, command, at_us);
                Ok(())
            }
        }
    }

    fn mark(&mut self, forwarder: usize, command: u64, at_us: i64) {
        let forwarders = self.from.len();
        while let Ok(command) = self.parts.commands.try_recv() {
            let waiting = Waiting {
                marks: 0,
                at_us: i64::MIN,
                from: vec![From::default(); forwarders],
                command,
            };
            self.waiting.insert(waiting.command.number, waiting);
        }
        let Some(waiting) = self.waiting.get_mut(&command) else {
            return;
        };
        waiting.marks += 1;
        waiting.at_us = waiting.at_us.max(at_us);
        waiting.from[forwarder] = self.from[forwarder];
        if waiting.marks < forwarders {
            return;
        }
        let Some(waiting) = self.waiting.remove(&command) else {
            return;
        };
        let (at_us, from) = (waiting.at_us, waiting.from);
        let reply = waiting.command.reply;
        match waiting.command.action {
            Action::Start => {
                let started = self.start(at_us, from);
                let _ = reply.send(started);
            }
            Action::Stop if self.current.is_none() => {
                let _ = reply.send(Err("nothing is being recorded".to_owned()));
            }
            Action::Stop => self.stop(at_us, from, Some(reply)),
            Action::Account => self.close_failed(command, &from),
        }
    }

    fn start(&mut self, at_us: i64, from: Vec<From>) -> Reply {
        if let Some(current) = &self.current {
            return Err(format!("{} is being recorded already", current.name));
        }
        self.number += 1;
        let mut recording = match (self.parts.open)(self.number) {
            Ok(recording) => recording,
            Err(error) => {
                self.number -= 1;
                return Err(error.to_string());
            }
        };
        let name = recording.name();
        self.not_before_us = self.not_before_us.max(at_us);
        let account = self.conversations.account().clone();
        let began = self.conversations.record(at_us, &mut *recording);
        self.current = Some(Current {
            recording,
            name: name.clone(),
            from_us: at_us,
            from,
            account,
            incomplete: Vec::new(),
            secured_us: at_us,
        });
        if let Err(error) = began {
            self.fail(&error, at_us);
            return Err(error.to_string());
        }
        self.show();
        let happening = Happening::Recording { name: name.clone() };
        self.parts.happenings.tell(happening);
        Ok(name)
    }

    /// Ends the recording; a thread of its own completes it, since that may take longer than copies
    /// can wait.
    fn stop(&mut self, at_us: i64, from: Vec<From>, reply: Option<Sender<Reply>>) {
        let Some(mut current) = self.current.take() else {
            return;
        };
        let at_us = at_us.max(self.not_before_us);
        let stopped = self.conversations.stop(at_us, &mut *current.recording);
        if let Err(error) = stopped {
            self.current = Some(current);
            self.fail(&error, at_us);
            if let Some(reply) = reply {
                let _ = reply.send(Err(error.to_string()));
            }
            return;
        }
        self.show();
        let account = self.account(&current, at_us, &from, None);
        let provenance = self.provenance(&account);
        let (status, happenings) = (self.parts.status.clone(), self.parts.happenings.clone());
        let Current {
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
            let finished = Finished::new(name.clone(), state, account, provenance);
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            status.finished.push(finished.clone());
            drop(status);
            happenings.tell(match &reason {
                None => Happening::Finished(Box::new(finished)),
                Some(reason) => Happening::Failed {
                    name: name.clone(),
                    reason: reason.clone(),
                },
            });
            if let Some(reply) = reply {
                let _ = reply.send(reason.map_or(Ok(name), Err));
            }
        };
        let thread = std::thread::Builder::new().name("finisher".to_owned());
        // Where there is no room for a thread, the recording is dropped as by a crash.
        if let Ok(thread) = thread.spawn(complete) {
            self.finishing.push(thread);
        }
    }

    /// The recording cannot go on: connections are followed all the same.
    fn fail(&mut self, error: &SinkError, at_us: i64) {
        let Some(current) = self.current.take() else {
            return;
        };
        let _ = self.conversations.stop(at_us, &mut Counted::default());
        let reason = error.to_string();
        let happening = Happening::Failed {
            name: current.name.clone(),
            reason: reason.clone(),
        };
        self.parts.happenings.tell(happening);
        self.status(|status| status.recording = None);
        self.own_commands += 1;
        let number = self.own_commands;
        let forwarders = self.from.len();
        let command = Command {
            number,
            action: Action::Account,
            // Nobody waits for it.
            reply: crossbeam_channel::bounded(1).0,
        };
        let waiting = Waiting {
            command,
            marks: 0,
            at_us: i64::MIN,
            from: vec![From::default(); forwarders],
        };
        self.waiting.insert(number, waiting);
        let failed = Failed {
            current,
            at_us,
            reason,
        };
        self.failed.insert(number, failed);
        for inbox in &self.parts.inboxes {
            inbox.send(ToForwarder::Mark(number));
        }
    }

    fn close_failed(&mut self, number: u64, from: &[From]) {
        let Some(failed) = self.failed.remove(&number) else {
            return;
        };
        let (current, reason) = (&failed.current, failed.reason);
        let account = self.account(current, failed.at_us, from, Some(reason));
        let provenance = self.provenance(&account);
        let name = current.name.clone();
        let finished = Finished::new(name, RecordingState::Partial, account, provenance);
        self.status(|status| status.finished.push(finished));
    }

    fn account(
        &self,
        current: &Current,
        to_us: i64,
        from: &[From],
        failure: Option<String>,
    ) -> RecordingAccount {
        let sum = |number: &dyn Fn(&From) -> u64| -> u64 {
            let pairs = from.iter().zip(&current.from);
            pairs
                .map(|(after, before)| number(after).saturating_sub(number(before)))
                .sum()
        };
        RecordingAccount {
            from_us: current.from_us,
            to_us,
            forwarded_bytes: sum(&|from| from.totals.bytes.iter().sum()),
            read_bytes: sum(&|from| from.read),
            lost_bytes: sum(&|from| from.lost),
            passed_bytes: sum(&|from| from.totals.passed.iter().sum()),
            incomplete: current.incomplete.clone(),
            failure,
            conversation: between(&current.account, self.conversations.account()),
        }
    }

    fn provenance(&self, account: &RecordingAccount) -> Provenance {
        Provenance {
            source_kind: "proxy".to_owned(),
            sources: vec![SourceFile {
                name: self.parts.source.clone(),
                format: "wire".to_owned(),
                bytes: account.read_bytes,
            }],
            options: self.parts.options.clone(),
            reconciliation: serde_json::to_value(account).expect("plain data"),
            ..Provenance::default()
        }
    }
}
