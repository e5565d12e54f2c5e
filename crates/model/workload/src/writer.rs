//! Writes a workload.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use archive::{
    ArchiveError, ArchiveWriter, OnFailure, Parts, Recipient, TableOptions, TableWriter,
};

use crate::event_ref::{EventRef, KindRef};
use crate::format::{FORMAT, KIND, Provenance, WorkloadInfo};
use crate::lineage::MaskNote;
use crate::packed::PackedEvents;
use crate::redactor::Redactor;
use crate::server_event::ServerEvent;
use crate::server_order::ServerOrder;
use crate::session::Session;
use crate::sorting::{Sorted, TimeOrder};
use crate::statements::StatementWriter;
use crate::table::{SESSION, STATEMENT, write_session};

/// How a workload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// About how many bytes of events are held in memory for sorting. The rest is sorted on disk.
    pub memory_bytes: usize,
    /// Dropped unfinished, it stays, for [`recover`]: its source will not come again.
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

const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// Events go to the writing thread in pieces of about this size.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Space that is larger is not used again.
const SPARE_BYTES_MAX: usize = 4 * CHUNK_BYTES_MAX;
/// So many pieces may wait: enough that neither thread waits for the other's small delays.
const CHUNKS_WAITING_MAX: usize = 4;

/// A workload that is being written, at `PATH.partial`. Dropped unfinished, it is removed: its
/// source is still there ([`WriterOptions::keep_unfinished`] says otherwise).
///
/// Events are copied into large pieces of memory and handed to a thread of its own, which sorts,
/// fingerprints and encodes them; so reading a source and writing take two cores.
pub struct WorkloadWriter {
    /// `None` once it is finished.
    archive: Option<Arc<ArchiveWriter>>,
    sessions: Option<TableWriter>,
    server: ServerOrder,
    chunk: PackedEvents,
    chunk_bytes_max: usize,
    writing: Option<Writing>,
    sessions_open: u64,
    redactor: Box<dyn Redactor>,
    keep_unfinished: bool,
    pub(crate) info: WorkloadInfo,
}

/// The writing thread, and the ways to it.
struct Writing {
    chunks: SyncSender<Piece>,
    free: Receiver<PackedEvents>,
    thread: JoinHandle<Result<Option<Written>, ArchiveError>>,
}

/// What the writing thread is sent.
enum Piece {
    Events(PackedEvents),
    /// What is due by then is to survive a kill.
    Safe {
        up_to_us: i64,
    },
    /// Nothing comes any more, and all is to be there for a recovery.
    Abandoned,
}

/// What the writing thread made.
struct Written {
    sorted: Sorted,
    /// Not ended: what the server did names statements, too.
    statements: StatementWriter,
}

impl WorkloadWriter {
    /// Makes `PATH.partial`.
    ///
    /// # Errors
    /// Where `path` or its partial exists, or cannot be made.
    pub fn create(
        path: &Path,
        options: WriterOptions,
        redactor: impl Redactor + 'static,
    ) -> Result<Self, ArchiveError> {
        Self::create_for(path, options, &[], redactor)
    }

    /// As [`Self::create`], with every file encrypted to these recipients, if there are any; also
    /// those that are there for sorting alone.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_for(
        path: &Path,
        options: WriterOptions,
        recipients: &[Recipient],
        redactor: impl Redactor + 'static,
    ) -> Result<Self, ArchiveError> {
        let on_failure = match options.keep_unfinished {
            true => OnFailure::Keep,
            false => OnFailure::Remove,
        };
        let archive = ArchiveWriter::create_for(path, KIND, FORMAT, on_failure, recipients)?;
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
        let (chunks, received) = mpsc::sync_channel(CHUNKS_WAITING_MAX);
        let (freed, free) = mpsc::channel();
        let mut events = EventWriter {
            order: TimeOrder::new(archive.directory(), options.memory_bytes),
            archive: archive.clone(),
            statements: StatementWriter::new(statements),
            noted_base: false,
        };
        let thread = std::thread::Builder::new()
            .name("workload-writer".to_owned())
            .spawn(move || {
                for piece in received {
                    let chunk = match piece {
                        Piece::Events(chunk) => chunk,
                        Piece::Safe { up_to_us } => {
                            events.make_safe(up_to_us)?;
                            continue;
                        }
                        Piece::Abandoned => return events.make_safe(i64::MAX).map(|()| None),
                    };
                    for free in events.take(chunk)? {
                        // One that had a very long text would keep its space for ever.
                        if free.capacity_bytes() <= SPARE_BYTES_MAX {
                            // Nobody may want it any more.
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
            server: ServerOrder::default(),
            chunk: PackedEvents::default(),
            chunk_bytes_max: CHUNK_BYTES_MAX.min(options.memory_bytes / 16),
            writing: Some(Writing {
                chunks,
                free,
                thread,
            }),
            sessions_open: 0,
            redactor,
            keep_unfinished: options.keep_unfinished,
            info: WorkloadInfo::default(),
        })
    }

    /// Takes one event. Its `due_us` is wall time here: microseconds since 1970-01-01 UTC. Events
    /// of different sessions may come in any order; within a session neither `sequence` nor
    /// `due_us` may go back. It is redacted first.
    ///
    /// # Errors
    /// Where the disk refused this or an earlier one.
    pub fn event(&mut self, event: &EventRef<'_>) -> Result<(), ArchiveError> {
        match self.redactor.redact_event(event) {
            Some(redacted) => self.take(&redacted.borrowed()),
            None => self.take(event),
        }
    }

    fn take(&mut self, event: &EventRef<'_>) -> Result<(), ArchiveError> {
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
        let chunk = std::mem::replace(&mut self.chunk, next);
        self.send(Piece::Events(chunk))
    }

    fn send(&mut self, piece: Piece) -> Result<(), ArchiveError> {
        let Some(writing) = &self.writing else {
            return Ok(());
        };
        match writing.chunks.send(piece) {
            Ok(()) => Ok(()),
            // The thread has ended, so it failed.
            Err(_) => self.join().map(drop),
        }
    }

    /// Has all events that are due by `up_to_us` (wall time) written down, so that they survive a kill
    /// of this process: [`recover`] finds them. It does not wait for that. What is due earlier and comes
    /// later is sorted in all the same. Meant for a source that does not come again, about once a
    /// second, with a time about a second ago: what is written is cut into pieces each time.
    ///
    /// # Errors
    /// Where the disk refused this or what came before.
    pub fn make_safe(&mut self, up_to_us: i64) -> Result<(), ArchiveError> {
        if self.chunk.len() > 0 {
            self.send_chunk()?;
        }
        self.send(Piece::Safe { up_to_us })
    }

    /// Waits for the writing thread, whose error is the writer's.
    fn join(&mut self) -> Result<Option<Written>, ArchiveError> {
        let Some(Writing { chunks, thread, .. }) = self.writing.take() else {
            return Ok(None);
        };
        drop(chunks);
        match thread.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Takes one session, when it has ended. Its times are wall time.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn session(&mut self, session: Session) -> Result<(), ArchiveError> {
        if !session.end_seen {
            // One whose end was seen has an event that says so, which was counted.
            self.sessions_open = self.sessions_open.saturating_sub(1);
        }
        match &mut self.sessions {
            Some(sessions) => write_session(sessions, &session, 0),
            None => Ok(()),
        }
    }

    /// Takes one thing that the server did. Its `at_us` is wall time here. They may come in any
    /// order.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn server_event(&mut self, event: ServerEvent) -> Result<(), ArchiveError> {
        self.info.server_events += 1;
        let sql = event.sql.as_deref();
        let event = match sql.and_then(|sql| self.redactor.redact_sql(sql)) {
            Some(sql) => ServerEvent {
                sql: Some(sql.into()),
                ..event
            },
            None => event,
        };
        match &self.archive {
            Some(archive) => self.server.push(archive, event),
            None => Ok(()),
        }
    }

    /// Says that what it was given is masked.
    pub fn note_masks(&mut self, notes: impl IntoIterator<Item = MaskNote>) {
        self.info.masked.extend(notes);
    }

    /// Sorts what is left, writes the manifest, syncs and renames.
    /// `provenance.start_wall_us` is set here.
    ///
    /// # Errors
    /// Where the disk refuses; nothing of the workload is left then.
    pub fn finish(mut self, provenance: Provenance) -> Result<WorkloadInfo, ArchiveError> {
        self.send_chunk()?;
        let written = self.join()?.expect("what failed was told to the caller");
        let Written {
            mut sorted,
            mut statements,
        } = written;
        let sessions = self.sessions.take().expect("finished once");
        let archive = self.archive.take().and_then(Arc::into_inner);
        let archive = archive.expect("the thread that shared it has ended");
        let server = std::mem::take(&mut self.server);
        let server_span_us = server.span_us();
        if self.info.events == 0 {
            // No client did anything: time begins with what the server did.
            sorted.start_wall_us = server_span_us.map_or(0, |(from_us, _)| from_us);
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
        self.info.span_us = sorted.span_us;
        self.info.provenance = Provenance {
            start_wall_us: sorted.start_wall_us,
            ..provenance
        };
        let body = serde_json::to_value(&self.info).expect("plain data");
        archive.finish(files, body)?;
        Ok(std::mem::take(&mut self.info))
    }
}

impl Drop for WorkloadWriter {
    fn drop(&mut self) {
        // The thread writes into the directory that is removed next, or kept as it is. What it failed
        // with no longer matters.
        if self.keep_unfinished && self.writing.is_some() {
            let _ = self.send_chunk();
            let _ = self.send(Piece::Abandoned);
        }
        let _ = self.join();
    }
}

/// The writing thread's half.
struct EventWriter {
    archive: Arc<ArchiveWriter>,
    order: TimeOrder,
    statements: StatementWriter,
    noted_base: bool,
}

impl EventWriter {
    fn take(&mut self, events: PackedEvents) -> Result<Vec<PackedEvents>, ArchiveError> {
        let free = (self.order).push(&self.archive, &mut self.statements, events)?;
        self.note_base()?;
        Ok(free)
    }

    fn make_safe(&mut self, up_to_us: i64) -> Result<(), ArchiveError> {
        (self.order).make_safe(&self.archive, &mut self.statements, up_to_us)?;
        self.note_base()
    }

    fn note_base(&mut self) -> Result<(), ArchiveError> {
        if !self.noted_base
            && let Some(base_us) = self.order.base_us()
        {
            // For a recovery: the parts' times count from here.
            self.noted_base = true;
            self.archive
                .note(serde_json::json!({ "start_wall_us": base_us }))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Written, ArchiveError> {
        Ok(Written {
            sorted: (self.order).finish(&self.archive, &mut self.statements)?,
            statements: self.statements,
        })
    }
}

/// Sessions come with wall times, and the workload's start is known only at its end.
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
