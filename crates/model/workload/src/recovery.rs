//! Finishes a workload whose capture was killed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use archive::{
    ArchiveError, ArchiveWriter, FileEntry, Keyring, OnFailure, SeriesMember, TableReader,
    UnfinishedArchive, UnfinishedDirectory, recover_tables,
};

use crate::event::{Event, EventKind};
use crate::external_sort::{MERGED, MERGED_TABLE};
use crate::format::{FORMAT, KIND, Provenance, WorkloadInfo};
use crate::reader::WorkloadReader;
use crate::redactor::NoRedaction;
use crate::series::{
    CarriedCounts, PartAccount, PartCheckpoint, RecoveredPart, refuse_captured_again,
};
use crate::session::Session;
use crate::table::{EVENT, EventRows};
use crate::writer::{WorkloadWriter, WriterOptions};

/// Finishes a workload whose capture was killed, with the events of its complete row groups. Sessions and
/// statements are rebuilt from the events; clients' addresses are lost. Returns the path of the workload.
///
/// # Errors
/// If `partial` is no unfinished workload, nothing in it can be read, or a file cannot be written.
pub fn recover(partial: &Path) -> Result<(PathBuf, WorkloadInfo), ArchiveError> {
    recover_with(partial, &Keyring::default())
}

/// Recovers a workload as [`recover`] does, with keys for encrypted files. The result is encrypted to the
/// same recipients.
///
/// # Errors
/// As [`recover`]; also if it is encrypted and no key decrypts it.
pub fn recover_with(
    partial: &Path,
    keyring: &Keyring,
) -> Result<(PathBuf, WorkloadInfo), ArchiveError> {
    let provenance = Provenance {
        source_kind: "recovered".to_owned(),
        ..Provenance::default()
    };
    finish(partial, keyring, provenance)
}

/// Recovers a workload as [`recover`] does, for the capture itself, which knows the provenance and the
/// losses.
///
/// # Errors
/// As [`recover`]; also if it is encrypted, since a capture has no key to decrypt it.
pub fn recover_as(
    partial: &Path,
    provenance: Provenance,
) -> Result<(PathBuf, WorkloadInfo), ArchiveError> {
    finish(partial, &Keyring::default(), provenance)
}

fn finish(
    partial: &Path,
    keyring: &Keyring,
    mut provenance: Provenance,
) -> Result<(PathBuf, WorkloadInfo), ArchiveError> {
    let unended = UnfinishedArchive::open(partial, KIND, keyring)?;
    let target = partial.with_extension("");
    if target.is_dir() {
        remove_leftover(&target.with_extension("recovering"))?;
        let info = finish_replacement((partial, &unended), (&target, keyring))?;
        return Ok((target, info));
    }
    add_noted(&mut provenance, &unended.body);
    let info = rebuild((partial, &unended), (&target, keyring), provenance)?;
    Ok((target, info))
}

/// Writes the workload of the events that are on disk, and replaces the unfinished one by it.
fn rebuild(
    (partial, unended): (&Path, &UnfinishedArchive),
    (target, keyring): (&Path, &Keyring),
    mut provenance: Provenance,
) -> Result<WorkloadInfo, ArchiveError> {
    let start_wall_us = start_wall_us(&unended.body);
    let (late, main) = event_files(partial, keyring, &unended.body)?;
    let is_merged = main.iter().any(|file| file.table == MERGED_TABLE);
    let scratch = target.with_extension("recovering");
    remove_leftover(&scratch)?;
    let archive = create_archive(&scratch, unended)?;
    let mut writer = WorkloadWriter::begin(
        archive,
        WriterOptions::default(),
        // They were redacted when they were first written.
        Box::new(NoRedaction),
    )?;
    writer.info.recovered = true;
    let member = unended.series.as_ref();
    let mut carried = CarriedCounts {
        last_part: member.map_or(0, |member| member.number - 1),
        ..CarriedCounts::default()
    };
    // A kill during the merge leaves late events in two of the runs.
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut late_statements: HashMap<u64, u64> = HashMap::new();
    let mut open: HashMap<u64, Session> = HashMap::new();
    let mut part = RecoveredPart::begin(partial, unended.series.as_ref());
    for_each_event((partial, keyring), &late, |event| {
        if !seen.insert((event.session, event.sequence)) {
            return Ok(());
        }
        carried.add(&event);
        part.iter_mut().for_each(|part| part.add(&event));
        if let Some(begun) = session_of_connect(&event) {
            open.insert(event.session, begun);
        }
        let statements = late_statements.entry(event.session).or_default();
        *statements += u64::from(event.kind.is_statement());
        writer.event(&event.borrowed())
    })?;
    for_each_event((partial, keyring), &main, |mut event| {
        if is_merged && !seen.insert((event.session, event.sequence)) {
            return Ok(());
        }
        event.due_us += start_wall_us.ok_or_else(|| ArchiveError::Damaged {
            path: partial.to_owned(),
            reason: "its manifest lacks the time of its first event (start_wall_us), so the times of its events are not known; it is left as it is".to_owned(),
        })?;
        carried.add(&event);
        part.iter_mut().for_each(|part| part.add(&event));
        if let Some(begun) = session_of_connect(&event) {
            open.insert(event.session, begun);
        }
        if let Some(session) = open.get_mut(&event.session) {
            session.end_us = session.end_us.max(event.due_us);
            session.statements += u64::from(event.kind.is_statement());
        }
        if event.kind == EventKind::Disconnect
            && let Some(mut session) = open.remove(&event.session)
        {
            session.end_seen = true;
            session.statements += late_statements.remove(&event.session).unwrap_or(0);
            writer.session(session)?;
        }
        writer.event(&event.borrowed())
    })?;
    for mut session in open.into_values() {
        session.statements += late_statements.remove(&session.id).unwrap_or(0);
        writer.session(session)?;
    }
    refuse_unreadable(partial, &writer.info, unended.series.is_some())?;
    if let Some(member) = &unended.series {
        if let Some(last_due_us) = part.as_ref().and_then(RecoveredPart::last_due_us) {
            refuse_captured_again(partial, member, last_due_us)?;
        }
        provenance.start_wall_us = member.from_us;
        writer.note_part(PartAccount {
            sessions_at_once: writer.info.sessions_at_once,
            carried: vec![carried],
            ..PartAccount::default()
        });
    }
    let info = writer.finish(provenance)?;
    if let Some(Err(error)) = part.map(RecoveredPart::note) {
        // What was not noted is recovered again.
        let _ = std::fs::remove_dir_all(&scratch);
        return Err(error);
    }
    replace_partial(partial, (&scratch, target))?;
    Ok(info)
}

/// Creates the archive of the recovered workload, for the recipients and at the place in a series of the unfinished one.
fn create_archive(
    scratch: &Path,
    unended: &UnfinishedArchive,
) -> Result<ArchiveWriter, ArchiveError> {
    let recipients = &unended.recipients;
    let on_failure = OnFailure::Remove;
    match unended.series.clone() {
        Some(member) => {
            let kind = (KIND, FORMAT);
            ArchiveWriter::create_part(scratch, kind, on_failure, recipients, member, |_| Ok(()))
        }
        None => ArchiveWriter::create_for(scratch, KIND, FORMAT, on_failure, recipients),
    }
}

/// Returns the files of events that came late, and the other files of events. `body` is that of the manifest.
fn event_files(
    partial: &Path,
    keyring: &Keyring,
    body: &serde_json::Value,
) -> Result<(Vec<FileEntry>, Vec<FileEntry>), ArchiveError> {
    let tables: &[&'static str] = match body[MERGED] == true {
        // Late events are in the merged parts. They are first: a part that one of them replaces can still be there, and the
        // times of the merged ones have the noted base.
        true => &[MERGED_TABLE, "events"],
        false => &["events", "late"],
    };
    let mut files = recover_tables(partial, tables, keyring)?;
    files.sort_by_key(|file| file.table != MERGED_TABLE);
    Ok(files.into_iter().partition(|file| file.table == "late"))
}

/// Refuses a workload that has data and no event, and a part that states that it had events.
fn refuse_unreadable(
    partial: &Path,
    info: &WorkloadInfo,
    is_part: bool,
) -> Result<(), ArchiveError> {
    let state = PartCheckpoint::read(partial).filter(|_| is_part);
    let had_events = state.is_some_and(|state| state.has_events);
    match info.events == 0 && (had_events || has_data(partial)) {
        false => Ok(()),
        true => Err(ArchiveError::Damaged {
            path: partial.to_owned(),
            reason: "no event in it can be read; it is left as it is".to_owned(),
        }),
    }
}

/// Removes what a recovery has left that was killed. The unfinished workload still has its events.
fn remove_leftover(scratch: &Path) -> Result<(), ArchiveError> {
    for path in [archive::partial_path(scratch), scratch.to_owned()] {
        let is_left = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        if is_left && !UnfinishedDirectory::at(path.clone()).being_written {
            std::fs::remove_dir_all(&path)
                .map_err(|error| ArchiveError::io("remove", &path, error))?;
        }
    }
    Ok(())
}

/// Returns the base of the times of events: as it was noted, or as a manifest has it that is final already.
fn start_wall_us(body: &serde_json::Value) -> Option<i64> {
    let noted = &body["start_wall_us"];
    let noted = noted.as_i64();
    noted.or_else(|| body["provenance"]["start_wall_us"].as_i64())
}

/// Adds what the capture noted at its start.
fn add_noted(provenance: &mut Provenance, body: &serde_json::Value) {
    let noted = |name: &str| match &body[name] {
        // A final manifest has it in the provenance.
        serde_json::Value::Null => body["provenance"][name].clone(),
        noted => noted.clone(),
    };
    if provenance.servers.is_empty() {
        let noted = serde_json::from_value(noted("servers"));
        provenance.servers = noted.unwrap_or_default();
    }
    if provenance.starting_point.is_none() {
        let noted = serde_json::from_value(noted("starting_point"));
        provenance.starting_point = noted.unwrap_or_default();
    }
}

/// Renames the recovered workload, and removes the unfinished one.
fn replace_partial(partial: &Path, (scratch, target): (&Path, &Path)) -> Result<(), ArchiveError> {
    std::fs::rename(scratch, target)
        .map_err(|error| ArchiveError::io("rename to", target, error))?;
    // The workload must be found under its name before its source is gone.
    archive::sync_parent(target)?;
    remove_whole(partial, scratch)
}

/// Removes an unfinished workload that was recovered before, if a kill left it. Returns what was recovered.
fn finish_replacement(
    (partial, unended): (&Path, &UnfinishedArchive),
    (target, keyring): (&Path, &Keyring),
) -> Result<WorkloadInfo, ArchiveError> {
    let found = WorkloadReader::open_with(target, keyring)?.info().clone();
    let is_same = match &unended.series {
        // Late events can begin before the time that was noted.
        Some(member) => {
            SeriesMember::read(target).is_ok_and(|found| found.as_ref() == Some(member))
        }
        None => start_wall_us(&unended.body) >= Some(found.provenance.start_wall_us),
    };
    if !found.recovered || !is_same {
        return Err(ArchiveError::Exists(target.to_owned()));
    }
    remove_whole(partial, &target.with_extension("recovering"))?;
    Ok(found)
}

/// Removes a directory that must be whole or gone under its name. `aside` is another name for it.
fn remove_whole(directory: &Path, aside: &Path) -> Result<(), ArchiveError> {
    std::fs::rename(directory, aside)
        .and_then(|()| std::fs::remove_dir_all(aside))
        .map_err(|error| ArchiveError::io("remove", directory, error))
}

/// Whether there are files of events that are larger than an empty one.
fn has_data(partial: &Path) -> bool {
    const EMPTY_BYTES_MAX: u64 = 8 << 10;
    let Ok(listing) = std::fs::read_dir(partial) else {
        return false;
    };
    listing.flatten().any(|entry| {
        let is_events = entry.file_name().to_string_lossy().starts_with("events-");
        is_events
            && entry
                .metadata()
                .is_ok_and(|file| file.len() > EMPTY_BYTES_MAX)
    })
}

/// Reads the events of several files, one after the other.
fn for_each_event(
    (partial, keyring): (&Path, &Keyring),
    files: &[FileEntry],
    mut take: impl FnMut(Event) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let paths = files.iter().map(|file| partial.join(&file.name)).collect();
    let mut rows = TableReader::open_with(paths, EVENT, keyring.clone())?;
    let mut events = EventRows::default();
    while let Some(batch) = rows.next_batch()? {
        for row in 0..batch.rows() {
            let read = events.read(&batch, row);
            let (event, _) = read.map_err(|reason| ArchiveError::Damaged {
                path: partial.to_owned(),
                reason,
            })?;
            take(event)?;
        }
    }
    Ok(())
}

/// Returns the session that an event begins.
fn session_of_connect(event: &Event) -> Option<Session> {
    let EventKind::Connect {
        database,
        user,
        application,
    } = &event.kind
    else {
        return None;
    };
    Some(Session {
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
    })
}
