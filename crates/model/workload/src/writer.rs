//! Writes a workload.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use archive::{
    ArchiveError, ArchiveWriter, OnFailure, Parts, Recipient, SeriesMember, TableOptions,
    TableWriter,
};

use crate::contexts::{ContextText, ContextWriter};
use crate::event_batch::EventBatch;
use crate::event_ref::{EventRef, KindRef};
use crate::external_sort::{EventSorter, SortedTable};
use crate::format::CapturedServer;
use crate::format::{FORMAT, KIND, Provenance, WorkloadInfo};
use crate::lineage::MaskNote;
use crate::redaction::pattern_without_secret;
use crate::redactor::Redactor;
use crate::series::{CHECKPOINT_FILE, PartAccount, PartCheckpoint};
use crate::server_event::{ServerEvent, ServerEventKind};
use crate::server_event_sort::ServerEventSorter;
use crate::session::Session;
use crate::session_logins::LoginCounter;
use crate::starting_point::StartingPoint;
use crate::statements::StatementWriter;
use crate::table::{SESSION, STATEMENT, write_session};

/// Options for writing a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// Approximate bytes of events held in memory for sorting. The rest is sorted on disk.
    pub memory_bytes: usize,
    /// Keeps the partial directory if the writer is dropped unfinished, for [`crate::recover`]. Meant for sources
    /// that cannot be read again.
    pub keep_unfinished: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            memory_bytes: 48 << 20,
            keep_unfinished: false,
        }
    }
}

impl WriterOptions {
    fn on_failure(self) -> OnFailure {
        match self.keep_unfinished {
            true => OnFailure::Keep,
            false => OnFailure::Remove,
        }
    }
}

const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// Approximate size of a batch that is sent to the writing thread, in bytes.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a batch that is reused, in bytes.
const SPARE_BYTES_MAX: usize = 4 * CHUNK_BYTES_MAX;
/// Maximum number of queued batches. The queue absorbs short delays of either thread.
const CHUNKS_WAITING_MAX: usize = 4;

/// A workload that is being written, at `PATH.partial`. If it is dropped unfinished, the directory is
/// removed, since its source can be read again ([`WriterOptions::keep_unfinished`] overrides this).
///
/// Events are copied into batches, redacted, and sent to a separate thread, which fingerprints and sorts them. That
/// thread limits how fast a log is captured. Another thread encodes them. So a source is read while earlier events
/// are written.
pub struct WorkloadWriter {
    /// `None` once the workload is finished.
    archive: Option<Arc<ArchiveWriter>>,
    sessions: Option<TableWriter>,
    server: ServerEventSorter,
    chunk: EventBatch,
    chunk_bytes_max: usize,
    writing: Option<WritingThread>,
    sessions_open: u64,
    logins: LoginCounter,
    redactor: Box<dyn Redactor>,
    keep_unfinished: bool,
    starting_point: Option<StartingPoint>,
    pub(crate) info: WorkloadInfo,
}

/// The writing thread, and the channels to it.
struct WritingThread {
    chunks: SyncSender<WriterMessage>,
    free: Receiver<EventBatch>,
    thread: JoinHandle<Result<Option<WrittenEvents>, ArchiveError>>,
}

/// A checkpoint that may not be written yet.
pub struct PendingCheckpoint(Receiver<()>);

impl PendingCheckpoint {
    /// Waits until it is written, or cannot be. The next call of the writer returns the error then.
    pub fn wait(self) {
        let _ = self.0.recv();
    }
}

/// Message to the writing thread.
enum WriterMessage {
    Events(EventBatch),
    /// Make all events that are due by this time survive a kill.
    Checkpoint {
        up_to_us: i64,
        part: Option<PartCheckpoint>,
        written: SyncSender<()>,
    },
    /// Note these servers for a recovery.
    Servers(Vec<CapturedServer>),
    /// Note this state of the captured server for a recovery.
    StartingPoint(Box<StartingPoint>),
    /// No more events follow; write everything for a recovery.
    Abandon,
}

/// Result of the writing thread.
struct WrittenEvents {
    sorted: SortedTable,
    /// Statements, not yet ended: server events refer to statements, too.
    statements: StatementWriter,
}

impl WorkloadWriter {
    /// Creates `PATH.partial`.
    ///
    /// # Errors
    /// If `path` or its partial exists, or cannot be created.
    pub fn create(
        path: &Path,
        options: WriterOptions,
        redactor: impl Redactor + 'static,
    ) -> Result<Self, ArchiveError> {
        Self::create_for(path, options, &[], redactor)
    }

    /// Creates a workload as [`Self::create`] does, with every file encrypted to these recipients, if there
    /// are any. Temporary files of the sort are encrypted, too.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_for(
        path: &Path,
        options: WriterOptions,
        recipients: &[Recipient],
        redactor: impl Redactor + 'static,
    ) -> Result<Self, ArchiveError> {
        let on_failure = options.on_failure();
        let archive = ArchiveWriter::create_for(path, KIND, FORMAT, on_failure, recipients)?;
        Self::begin(archive, options, Box::new(redactor))
    }

    /// Creates a part of a series as [`Self::create_for`] does. `state` is that before its first event, unless its source
    /// does not come again.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_part(
        path: &Path,
        options: WriterOptions,
        recipients: &[Recipient],
        (member, state): (SeriesMember, Option<PartCheckpoint>),
        redactor: impl Redactor + 'static,
    ) -> Result<Self, ArchiveError> {
        let on_failure = options.on_failure();
        let kind = (KIND, FORMAT);
        let prepare = |archive: &mut ArchiveWriter| {
            let Some(state) = state else {
                return Ok(());
            };
            archive.keep_file(CHECKPOINT_FILE);
            state.write(archive.directory())
        };
        let archive =
            ArchiveWriter::create_part(path, kind, on_failure, recipients, member, prepare)?;
        Self::begin(archive, options, Box::new(redactor))
    }

    pub(crate) fn begin(
        archive: ArchiveWriter,
        options: WriterOptions,
        redactor: Box<dyn Redactor>,
    ) -> Result<Self, ArchiveError> {
        let archive = Arc::new(archive);
        let sessions = archive.table("sessions", SESSION, ONE_FILE)?;
        let statements = archive.table("statements", STATEMENT, ONE_FILE)?;
        let contexts = archive.table(ContextText::TABLE, ContextText::COLUMNS, ONE_FILE)?;
        let (chunks, received) = mpsc::sync_channel(CHUNKS_WAITING_MAX);
        let (freed, free) = mpsc::channel();
        let mut events = EventWriter {
            order: EventSorter::new(archive.directory(), options.memory_bytes),
            archive: archive.clone(),
            statements: StatementWriter::new(statements, ContextWriter::new(contexts)),
        };
        let thread = std::thread::Builder::new()
            .name("workload-writer".to_owned())
            .spawn(move || {
                for piece in received {
                    let chunk = match piece {
                        WriterMessage::Events(chunk) => chunk,
                        WriterMessage::Checkpoint {
                            up_to_us,
                            part,
                            written,
                        } => {
                            events.checkpoint(up_to_us)?;
                            if let Some(part) = part {
                                part.write(events.archive.directory())?;
                            }
                            // It is waited for if the receiver is still there.
                            let _ = written.try_send(());
                            continue;
                        }
                        WriterMessage::Servers(servers) => {
                            events.order.note("servers", serde_json::json!(servers));
                            continue;
                        }
                        WriterMessage::StartingPoint(point) => {
                            (events.order).note("starting_point", serde_json::json!(point));
                            continue;
                        }
                        WriterMessage::Abandon => {
                            return events.checkpoint(i64::MAX).map(|()| None);
                        }
                    };
                    for free in events.take(chunk)? {
                        // A batch that held a very long text would keep its memory forever.
                        if free.capacity_bytes() <= SPARE_BYTES_MAX {
                            // The receiver may be gone.
                            let _ = freed.send(free);
                        }
                    }
                }
                events.finish().map(Some)
            })
            .map_err(|error| ArchiveError::io("start a thread for", archive.directory(), error))?;
        Ok(WorkloadWriter {
            archive: Some(archive),
            sessions: Some(sessions),
            server: ServerEventSorter::default(),
            chunk: EventBatch::default(),
            chunk_bytes_max: CHUNK_BYTES_MAX.min(options.memory_bytes / 16),
            writing: Some(WritingThread {
                chunks,
                free,
                thread,
            }),
            sessions_open: 0,
            logins: LoginCounter::default(),
            redactor,
            keep_unfinished: options.keep_unfinished,
            starting_point: None,
            info: WorkloadInfo::default(),
        })
    }

    /// Adds one event, which is redacted before it is written. Its `due_us` is wall time here: microseconds
    /// since 1970-01-01 UTC. Events of different sessions may come in any order. Within a session neither
    /// `sequence` nor `due_us` may decrease.
    ///
    /// # Errors
    /// If writing this event or an earlier one failed.
    pub fn event(&mut self, event: &EventRef<'_>) -> Result<(), ArchiveError> {
        self.info.events += 1;
        if event.kind.is_statement() {
            self.info.statements += 1;
            self.info.with_duration += u64::from(event.outcome.duration_us.is_some());
        }
        match event.kind {
            KindRef::Connect { .. } => {
                self.info.sessions += 1;
                self.sessions_open += 1;
                self.info.sessions_at_once = self.info.sessions_at_once.max(self.sessions_open);
            }
            KindRef::Disconnect => self.sessions_open = self.sessions_open.saturating_sub(1),
            _ => (),
        }
        self.chunk.push(event);
        if self.chunk.bytes() >= self.chunk_bytes_max {
            self.send_chunk()?;
        }
        Ok(())
    }

    fn send_chunk(&mut self) -> Result<(), ArchiveError> {
        let Some(writing) = &self.writing else {
            return Ok(());
        };
        let mut next = writing.free.try_recv().unwrap_or_default();
        next.clear();
        let mut chunk = std::mem::replace(&mut self.chunk, next);
        chunk.redact(&mut *self.redactor);
        self.send(WriterMessage::Events(chunk))
    }

    fn send(&mut self, piece: WriterMessage) -> Result<(), ArchiveError> {
        let Some(writing) = &self.writing else {
            return Ok(());
        };
        match writing.chunks.send(piece) {
            Ok(()) => Ok(()),
            // The thread ended, so it failed.
            Err(_) => self.join().map(drop),
        }
    }

    /// Writes all events that are due by `up_to_us` (wall time), so that they survive a kill of this process
    /// and [`crate::recover`] finds them. It does not wait until they are written. An event that is due earlier and
    /// comes later is still sorted correctly. It is meant for sources that cannot be read again: call it
    /// about once a second, with a time about a second ago. Each call ends a row group.
    ///
    /// # Errors
    /// If writing failed before.
    pub fn checkpoint(&mut self, up_to_us: i64) -> Result<(), ArchiveError> {
        self.send_checkpoint(up_to_us, None).map(drop)
    }

    /// Writes events as [`Self::checkpoint`] does, and then the state of this part of a series, for a recovery. The caller
    /// can wait until both are written.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub fn checkpoint_part(
        &mut self,
        up_to_us: i64,
        part: PartCheckpoint,
    ) -> Result<PendingCheckpoint, ArchiveError> {
        self.send_checkpoint(up_to_us, Some(part))
    }

    fn send_checkpoint(
        &mut self,
        up_to_us: i64,
        part: Option<PartCheckpoint>,
    ) -> Result<PendingCheckpoint, ArchiveError> {
        if self.chunk.len() > 0 {
            self.send_chunk()?;
        }
        let (written, pending) = mpsc::sync_channel(1);
        self.send(WriterMessage::Checkpoint {
            up_to_us,
            part,
            written,
        })?;
        Ok(PendingCheckpoint(pending))
    }

    /// Notes the servers that the traffic goes to, for a recovery. To be called before the first event.
    ///
    /// # Errors
    /// If the writing thread has failed.
    pub fn note_servers(&mut self, servers: Vec<CapturedServer>) -> Result<(), ArchiveError> {
        self.send(WriterMessage::Servers(servers))
    }

    /// Notes the state of the captured server, for a recovery and the finished workload. To be called before the first
    /// event.
    ///
    /// # Errors
    /// If the writing thread has failed.
    pub fn note_starting_point(&mut self, point: StartingPoint) -> Result<(), ArchiveError> {
        self.starting_point = Some(point.clone());
        self.send(WriterMessage::StartingPoint(Box::new(point)))
    }

    /// Waits for the writing thread and returns its error.
    fn join(&mut self) -> Result<Option<WrittenEvents>, ArchiveError> {
        let Some(WritingThread { chunks, thread, .. }) = self.writing.take() else {
            return Ok(None);
        };
        drop(chunks);
        match thread.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Adds one session, when it has ended. Its times are wall time.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn session(&mut self, session: Session) -> Result<(), ArchiveError> {
        if !session.end_seen {
            // A session whose end was seen has a disconnect event, which was counted.
            self.sessions_open = self.sessions_open.saturating_sub(1);
        }
        self.logins.add(&session);
        match &mut self.sessions {
            Some(sessions) => write_session(sessions, &session, 0),
            None => Ok(()),
        }
    }

    /// Adds one server event. Its `at_us` is wall time here. Server events may come in any order.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn server_event(&mut self, mut event: ServerEvent) -> Result<(), ArchiveError> {
        self.info.server_events += 1;
        let mut redact = |text: &str| self.redactor.redact_sql(text);
        let redacted = event.sql.as_deref().and_then(&mut redact);
        let statement = event.sql.as_deref().zip(redacted.as_deref());
        // The message of a function can have any form.
        let is_raised = event.kind == ServerEventKind::Message && event.subject.is_some();
        let mut without_secret = |message: Box<str>| {
            let in_message = redact(&message);
            let pairs = [statement, Some(&*message).zip(in_message.as_deref())];
            match pairs.iter().flatten().count() {
                0 => Some(message),
                _ if is_raised => None,
                _ => pattern_without_secret(&message, pairs.into_iter().flatten()).map(Into::into),
            }
        };
        event.message = event.message.and_then(&mut without_secret);
        if event.kind.may_hold_values() {
            event.subject = event.subject.and_then(without_secret);
        }
        if let Some(sql) = redacted {
            event.sql = Some(sql.into());
        }
        match &self.archive {
            Some(archive) => self.server.push(archive, event),
            None => Ok(()),
        }
    }

    /// Records that the events are masked.
    pub fn note_masks(&mut self, notes: impl IntoIterator<Item = MaskNote>) {
        self.info.masked.extend(notes);
    }

    /// Sets the account of a part of a series.
    pub fn note_part(&mut self, account: PartAccount) {
        self.info.part = Some(account);
    }

    /// Finishes the workload: sorts the remaining events, writes the manifest, syncs and renames. Sets
    /// `provenance.start_wall_us`, unless there is neither an event nor a server event.
    ///
    /// # Errors
    /// If a file cannot be written. Nothing of the workload is left then.
    pub fn finish(mut self, provenance: Provenance) -> Result<WorkloadInfo, ArchiveError> {
        self.send_chunk()?;
        let written = self.join()?.expect("what failed was told to the caller");
        let WrittenEvents {
            mut sorted,
            mut statements,
        } = written;
        let sessions = self.sessions.take().expect("finished once");
        let archive = self.archive.take().and_then(Arc::into_inner);
        let archive = archive.expect("the thread that shared it has ended");
        let server = std::mem::take(&mut self.server);
        let server_span_us = server.span_us();
        if self.info.events == 0 {
            // No client acted: the first server event is the start.
            sorted.start_wall_us =
                server_span_us.map_or(provenance.start_wall_us, |(from_us, _)| from_us);
        }
        if let Some((from_us, to_us)) = server_span_us {
            self.info.server_from_us = from_us - sorted.start_wall_us;
            self.info.server_to_us = to_us - sorted.start_wall_us;
        }
        let mut files = sorted.files;
        files.extend(relative_sessions(&archive, sessions, sorted.start_wall_us)?);
        files.extend(server.finish(&archive, sorted.start_wall_us, &mut statements)?);
        let (statements, writes) = statements.finish()?;
        files.extend(statements);
        self.info.writes = writes;
        self.info.logins = std::mem::take(&mut self.logins).into_listed();
        self.info.span_us = sorted.span_us;
        let noted = self.starting_point.take();
        self.info.provenance = Provenance {
            start_wall_us: sorted.start_wall_us,
            starting_point: noted.or(provenance.starting_point),
            ..provenance
        };
        let body = serde_json::to_value(&self.info).expect("plain data");
        archive.finish(files, body)?;
        Ok(std::mem::take(&mut self.info))
    }
}

impl Drop for WorkloadWriter {
    fn drop(&mut self) {
        // The thread writes into the directory that is removed next, or kept as it is. Its error no longer
        // matters.
        if self.keep_unfinished && self.writing.is_some() {
            let _ = self.send_chunk();
            let _ = self.send(WriterMessage::Abandon);
        }
        let _ = self.join();
    }
}

/// State of the writing thread.
struct EventWriter {
    archive: Arc<ArchiveWriter>,
    order: EventSorter,
    statements: StatementWriter,
}

impl EventWriter {
    fn take(&mut self, events: EventBatch) -> Result<Vec<EventBatch>, ArchiveError> {
        (self.order).push(&self.archive, &mut self.statements, events)
    }

    fn checkpoint(&mut self, up_to_us: i64) -> Result<(), ArchiveError> {
        (self.order).checkpoint(&self.archive, &mut self.statements, up_to_us)
    }

    fn finish(mut self) -> Result<WrittenEvents, ArchiveError> {
        Ok(WrittenEvents {
            sorted: (self.order).finish(&self.archive, &mut self.statements)?,
            statements: self.statements,
        })
    }
}

/// Converts the times of sessions from wall time. The workload's start is known only at its end.
fn relative_sessions(
    archive: &ArchiveWriter,
    sessions: TableWriter,
    start_wall_us: i64,
) -> Result<Vec<archive::FileEntry>, ArchiveError> {
    let wall = sessions.finish()?;
    let mut table = archive.table("sessions-relative", SESSION, ONE_FILE)?;
    let mut rows = archive.read(&wall, SESSION)?;
    while let Some(batch) = rows.next_batch()? {
        for row in 0..batch.rows() {
            write_session(
                &mut table,
                &crate::table::read_session(&batch, row),
                start_wall_us,
            )?;
        }
    }
    let mut relative = table.finish()?;
    for (file, old) in relative.iter_mut().zip(&wall) {
        let (from, to) = (
            archive.directory().join(&file.name),
            archive.directory().join(&old.name),
        );
        std::fs::rename(&from, &to).map_err(|error| ArchiveError::io("rename", &from, error))?;
        file.name = old.name.clone();
        file.table = old.table.clone();
    }
    Ok(relative)
}
