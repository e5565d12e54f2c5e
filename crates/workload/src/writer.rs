//! Writes a workload.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use archive::{
    ArchiveError, ArchiveWriter, OnFailure, Parts, TableOptions, TableWriter, recover_tables,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::event::EventKind;
use crate::event_ref::EventRef;
use crate::fingerprint::{Fingerprint, Fingerprinter, classify};
use crate::format::{FORMAT, KIND, Provenance, WorkloadInfo};
use crate::session::Session;
use crate::sorting::{Item, TimeOrder};
use crate::table::{SESSION, STATEMENT, StatementText, write_session};

/// How a workload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// About how many bytes of events are held in memory for sorting. The rest is sorted on disk.
    pub memory_bytes: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            memory_bytes: 48 << 20,
        }
    }
}

const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// The fingerprints of texts seen lately are remembered, up to this many.
const FINGERPRINTS_REMEMBERED_MAX: usize = 1 << 16;

/// A workload that is being written, at `PATH.partial`. Dropped unfinished, it is removed: its
/// source is still there.
pub struct WorkloadWriter {
    archive: ArchiveWriter,
    order: TimeOrder,
    sessions: TableWriter,
    statements: TableWriter,
    known: HashMap<Fingerprint, Known>,
    by_text: HashMap<u64, Fingerprint>,
    fingerprinter: Fingerprinter,
    noted_base: bool,
    sessions_open: u64,
    info: WorkloadInfo,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    may_write: bool,
}

impl WorkloadWriter {
    /// Makes `PATH.partial`.
    ///
    /// # Errors
    /// Where `path` or its partial exists, or cannot be made.
    pub fn create(path: &Path, options: WriterOptions) -> Result<Self, ArchiveError> {
        let archive = ArchiveWriter::create(path, KIND, FORMAT, OnFailure::Remove)?;
        Self::begin(archive, options)
    }

    fn begin(archive: ArchiveWriter, options: WriterOptions) -> Result<Self, ArchiveError> {
        Ok(WorkloadWriter {
            order: TimeOrder::new(archive.directory(), options.memory_bytes),
            sessions: archive.table("sessions", SESSION, ONE_FILE)?,
            statements: archive.table("statements", STATEMENT, ONE_FILE)?,
            archive,
            known: HashMap::new(),
            by_text: HashMap::new(),
            fingerprinter: Fingerprinter::new(),
            noted_base: false,
            sessions_open: 0,
            info: WorkloadInfo::default(),
        })
    }

    /// Takes one event. Its `due_us` is wall time here: microseconds since 1970-01-01 UTC. Events
    /// of different sessions may come in any order; within a session neither `sequence` nor
    /// `due_us` may go back.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn event(&mut self, event: &EventRef<'_>) -> Result<(), ArchiveError> {
        let event = event.to_event();
        let fingerprint = match event.kind.sql() {
            Some(sql) => Some(self.statement(&sql.clone())?),
            None => None,
        };
        self.info.events += 1;
        if let Some(fingerprint) = fingerprint {
            self.info.statements += 1;
            self.info.with_duration += u64::from(event.outcome.duration_us.is_some());
            self.info.writes += u64::from(self.known[&fingerprint].may_write);
        }
        if matches!(event.kind, EventKind::Connect { .. }) {
            self.info.sessions += 1;
            self.sessions_open += 1;
            self.info.sessions_at_once = self.info.sessions_at_once.max(self.sessions_open);
        }
        self.order
            .push(&self.archive, Item { event, fingerprint })?;
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

    /// Takes one session, when it has ended. Its times are wall time.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn session(&mut self, session: Session) -> Result<(), ArchiveError> {
        self.sessions_open = self.sessions_open.saturating_sub(1);
        write_session(&mut self.sessions, &session, 0)
    }

    /// Sorts what is left, writes the manifest, syncs and renames.
    /// `provenance.start_wall_us` is set here.
    ///
    /// # Errors
    /// Where the disk refuses; nothing of the workload is left then.
    pub fn finish(mut self, provenance: Provenance) -> Result<WorkloadInfo, ArchiveError> {
        let sorted = self.order.finish(&self.archive)?;
        let mut files = sorted.files;
        files.extend(relative_sessions(
            &self.archive,
            self.sessions,
            sorted.start_wall_us,
        )?);
        files.extend(self.statements.finish()?);
        self.info.span_us = sorted.span_us;
        self.info.provenance = Provenance {
            start_wall_us: sorted.start_wall_us,
            ..provenance
        };
        let body = serde_json::to_value(&self.info).expect("plain data");
        self.archive.finish(files, body)?;
        Ok(self.info)
    }

    fn statement(&mut self, sql: &str) -> Result<Fingerprint, ArchiveError> {
        let text_hash = xxh3_64(sql.as_bytes());
        if let Some(&fingerprint) = self.by_text.get(&text_hash) {
            return Ok(fingerprint);
        }
        let fingerprint = self.fingerprinter.fingerprint(sql);
        if self.by_text.len() >= FINGERPRINTS_REMEMBERED_MAX {
            self.by_text.clear();
        }
        self.by_text.insert(text_hash, fingerprint);
        if let Entry::Vacant(unknown) = self.known.entry(fingerprint) {
            let class = classify(sql);
            unknown.insert(Known {
                may_write: class.may_write(),
            });
            StatementText {
                fingerprint,
                sql: self.fingerprinter.normalise(sql).to_owned(),
                class,
            }
            .write(&mut self.statements)?;
        }
        Ok(fingerprint)
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
    let paths = wall
        .iter()
        .map(|file| archive.directory().join(&file.name))
        .collect();
    let mut rows = archive::TableReader::open(paths, SESSION)?;
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

/// Finishes a workload whose capture was killed, with the events of its complete row groups.
/// Sessions and statements are made anew from the events (clients' addresses are lost). Returns
/// where it now lies.
///
/// # Errors
/// Where `partial` is no unfinished workload, nothing in it can be read, or the disk refuses.
pub fn recover(partial: &Path) -> Result<(PathBuf, WorkloadInfo), ArchiveError> {
    let note = archive::unfinished_body(partial, KIND)?;
    let start_wall_us = note["start_wall_us"].as_i64().unwrap_or(0);
    let files = recover_tables(partial, &["events"])?;
    let paths: Vec<PathBuf> = files.iter().map(|file| partial.join(&file.name)).collect();
    let target = partial.with_extension("");
    let scratch = target.with_extension("recovering");
    let mut writer = WorkloadWriter::begin(
        ArchiveWriter::create(&scratch, KIND, FORMAT, OnFailure::Remove)?,
        WriterOptions::default(),
    )?;
    writer.info.recovered = true;
    let mut open: HashMap<u64, Session> = HashMap::new();
    let mut rows = archive::TableReader::open(paths, crate::table::EVENT)?;
    let mut events = crate::table::EventRows::default();
    while let Some(batch) = rows.next_batch()? {
        for row in 0..batch.rows() {
            let (mut event, _) =
                events
                    .read(&batch, row)
                    .map_err(|reason| ArchiveError::Damaged {
                        path: partial.to_owned(),
                        reason,
                    })?;
            event.due_us += start_wall_us;
            if let EventKind::Connect {
                database,
                user,
                application,
            } = &event.kind
            {
                open.insert(
                    event.session,
                    Session {
                        id: event.session,
                        database: database.clone(),
                        user: user.clone(),
                        application: application.clone(),
                        client: "".into(),
                        start_us: event.due_us,
                        end_us: event.due_us,
                        start_seen: true,
                        end_seen: false,
                        statements: 0,
                    },
                );
            }
            if let Some(session) = open.get_mut(&event.session) {
                session.end_us = event.due_us;
                session.statements += u64::from(event.kind.is_statement());
            }
            if event.kind == EventKind::Disconnect
                && let Some(mut session) = open.remove(&event.session)
            {
                session.end_seen = true;
                writer.session(session)?;
            }
            writer.event(&event.borrowed())?;
        }
    }
    for session in open.into_values() {
        writer.session(session)?;
    }
    let info = writer.finish(Provenance {
        source_kind: "recovered".to_owned(),
        ..Provenance::default()
    })?;
    std::fs::rename(&scratch, &target)
        .map_err(|error| ArchiveError::io("rename to", &target, error))?;
    std::fs::remove_dir_all(partial).map_err(|error| ArchiveError::io("remove", partial, error))?;
    Ok((target, info))
}
