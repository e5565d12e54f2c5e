//! Inspects many logs, and keeps what was read of each, so that the next report reads new and changed logs only.
//!
//! Each log is captured separately, into a workload in the user's directory. Its name has a hash of the log's size,
//! head and tail, and of the version of this program. So a log that was renamed by rotation is still known, one that
//! grew is read again, and nothing of another version is used. A file next to the workload has the log's absolute path.
//! Reports on different logs may share the directory: a workload is removed if its log no longer exists or has changed.
//!
//! A report reads the workloads as one, in the order of their starts: it is exact for everything within a log. A
//! session that continues in the next log counts in both.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use archive::partial_path;
use capture_log::{Input, select};
use inspect::Inspection;
use sha2::{Digest, Sha256};
use workload::{ArchiveError, Literals, WorkloadInfo, WorkloadReader};

use crate::capture_log::capture_files;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::notes::note;

/// Bytes of a log's beginning and end that identify it, together with its size.
const IDENTIFYING_BYTES: u64 = 64 << 10;

/// Extension of the file with a log's absolute path. Its stem is that of the log's workload.
const PATH_EXTENSION: &str = "log-path";

/// Changes if the capture of a log gives another workload.
const CACHE_VERSION: &str = "1";

/// Counts in a capture's account that a report shows; they are summed over the logs.
const SUMMED_TALLIES: [&str; 3] = ["parses", "binds", "executions"];

/// Numbers of logs that were read and that were not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Number of logs that were read before and are unchanged.
    pub kept: usize,
    /// Number of logs that were read now.
    pub read: usize,
    /// Size of the logs that were read now, in bytes.
    pub read_bytes: u64,
    /// Number of kept workloads that were removed, since their log no longer exists or has changed.
    pub removed: usize,
}

/// Inspects a log, or the logs of a directory or pattern, and keeps what was read of each in `cache`.
///
/// # Errors
/// If there is no log, a log cannot be read, or `cache` cannot be written.
pub fn inspect_logs(
    logs: &Path,
    cache: &Path,
    literals: Literals,
    interrupt: &Interrupt,
) -> Result<(Inspection, CacheUse), Failure> {
    let cannot = |error: io::Error| cannot_write(cache, &error);
    let mut directory = DirBuilder::new();
    (directory.mode(0o700).recursive(true).create(cache)).map_err(cannot)?;
    let mut found = CacheUse::default();
    let selection = select(&[logs.to_owned()])?;
    for excluded in &selection.left_out {
        note(&format!(
            "{} is left out: {}",
            excluded.name, excluded.reason
        ));
    }
    let mut readers = Vec::new();
    let mut names = Vec::new();
    for input in &selection.inputs {
        let (log, may_be_other) = match input {
            Input::Path(path) => (path, false),
            Input::Found(path) => (path, true),
            Input::Stdin => {
                let text = "standard input cannot be read again; name log files or a directory";
                return Err(Failure::usage(text));
            }
        };
        match open_log(log, cache, &mut found, interrupt) {
            Ok((name, _)) if names.contains(&name) => note(&format!(
                "{} is left out: another file has the same content",
                log.display()
            )),
            Ok((name, reader)) => {
                names.push(name);
                readers.push(reader);
            }
            Err(failure) if may_be_other && !interrupt.is_requested() => {
                note(&format!(
                    "{} is left out: {}",
                    log.display(),
                    failure.message
                ));
            }
            Err(failure) => return Err(failure),
        }
    }
    if readers.is_empty() {
        return Err(Failure::usage(format!("{} has no log", logs.display())));
    }
    found.removed = remove_outdated(cache, &names).map_err(cannot)?;
    Ok((collect(readers, literals)?, found))
}

fn cannot_write(cache: &Path, error: &io::Error) -> Failure {
    Failure::could_not(format!(
        "the cache {} cannot be written: {error}; name another directory",
        cache.display()
    ))
}

/// Opens what was read of a log, or reads it.
fn open_log(
    log: &Path,
    cache: &Path,
    found: &mut CacheUse,
    interrupt: &Interrupt,
) -> Result<(String, WorkloadReader), Failure> {
    let (name, bytes) = cache_name(log)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", log.display())))?;
    let path = cache.join(&name);
    note_path(log, &path.with_extension(PATH_EXTENSION))
        .map_err(|error| cannot_write(cache, &error))?;
    if path.exists() {
        let opened = keys::open_workload(&path).and_then(|reader| {
            reader.verify()?;
            Ok(reader)
        });
        match opened {
            Ok(reader) => {
                found.kept += 1;
                return Ok((name, reader));
            }
            Err(failure) => note(&format!(
                "what was kept of {} cannot be used, so it is read again: {}",
                log.display(),
                failure.message
            )),
        }
        let removed = fs::remove_dir_all(&path);
        removed.map_err(|error| {
            Failure::could_not(format!("{} cannot be removed: {error}", path.display()))
        })?;
    }
    // A report that was killed has left it.
    let partial = partial_path(&path);
    if partial.exists() && !is_being_written(&path) {
        fs::remove_dir_all(&partial).map_err(|error| cannot_write(cache, &error))?;
    }
    let captured = capture_files(&[log.to_owned()], &path, interrupt)?;
    let unreadable = captured.report.reconciliation.unreadable.lines;
    if unreadable > 0 {
        let log = log.display();
        note(&format!(
            "{unreadable} lines of {log} could not be read; `rehearse capture log {log} --dry-run` says why"
        ));
    }
    found.read += 1;
    found.read_bytes += bytes;
    Ok((name, keys::open_workload(&path)?))
}

/// Returns the name under which a log is kept, and the log's size.
fn cache_name(log: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(log)?;
    let bytes = file.metadata()?.len();
    let mut hash = Sha256::new();
    hash.update(format!(
        "{CACHE_VERSION} {} {bytes} ",
        env!("CARGO_PKG_VERSION")
    ));
    let mut piece = Vec::new();
    (&mut file)
        .take(IDENTIFYING_BYTES)
        .read_to_end(&mut piece)?;
    hash.update(&piece);
    piece.clear();
    file.seek(SeekFrom::Start(bytes.saturating_sub(IDENTIFYING_BYTES)))?;
    file.take(IDENTIFYING_BYTES).read_to_end(&mut piece)?;
    hash.update(&piece);
    let digest = hash.finalize();
    let bytes_of_name = digest.iter().take(16);
    let digest: String = bytes_of_name.map(|byte| format!("{byte:02x}")).collect();
    Ok((format!("{digest}.workload"), bytes))
}

/// Writes a log's absolute path into a file, if it is not there.
fn note_path(log: &Path, file: &Path) -> io::Result<()> {
    let log = fs::canonicalize(log)?;
    let path = log.as_os_str().as_bytes();
    match fs::read(file) {
        Ok(known) if known == path => Ok(()),
        _ => fs::write(file, path),
    }
}

/// Whether another process captures into this workload.
fn is_being_written(workload: &Path) -> bool {
    let opened = WorkloadReader::open(workload);
    matches!(opened, Err(ArchiveError::Unfinished(found)) if found.being_written)
}

/// Removes the workloads of logs that no longer exist or have changed, and what killed reports left. Keeps those of
/// logs outside of this report, whose names are not in `used`. Returns the number of removed workloads.
fn remove_outdated(cache: &Path, used: &[String]) -> io::Result<usize> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(cache)? {
        let name = entry?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        let Some((digest, "workload" | "workload.partial" | PATH_EXTENSION)) = parts else {
            continue;
        };
        if digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            names.insert(format!("{digest}.workload"));
        }
    }
    let mut removed = 0;
    for name in names {
        let workload = cache.join(&name);
        let partial = partial_path(&workload);
        if is_being_written(&workload) {
            continue;
        }
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        let path_file = workload.with_extension(PATH_EXTENSION);
        let is_current = used.contains(&name) || is_unchanged(&path_file, &name);
        if workload.exists() && !is_current {
            fs::remove_dir_all(&workload)?;
            removed += 1;
        }
        if path_file.exists() && !workload.exists() {
            fs::remove_file(&path_file)?;
        }
    }
    Ok(removed)
}

/// Whether the log whose path is in `path_file` still has the workload `name`. A log that exists but cannot be read
/// counts as unchanged.
fn is_unchanged(path_file: &Path, name: &str) -> bool {
    let Ok(path) = fs::read(path_file) else {
        return false;
    };
    match cache_name(Path::new(OsStr::from_bytes(&path))) {
        Ok((current, _)) => current == name,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Workload of a log, and its offsets in the report.
struct LogPart {
    reader: WorkloadReader,
    shift_us: i64,
    first_session: u64,
    first_source: u32,
}

/// Summarises the workloads as one.
fn collect(
    mut readers: Vec<WorkloadReader>,
    literals: Literals,
) -> Result<Inspection, ArchiveError> {
    // Without an event a workload begins in 1970 or with a line of the server, which is no time of a client.
    let has_events = readers.iter().any(|reader| reader.info().events > 0);
    readers.retain(|reader| !has_events || reader.info().events + reader.info().server_events > 0);
    readers.sort_by_key(|reader| reader.info().provenance.start_wall_us);
    let mut merged = WorkloadInfo::default();
    let mut parts = Vec::new();
    for reader in readers {
        let info = reader.info();
        if parts.is_empty() {
            merged.provenance.start_wall_us = info.provenance.start_wall_us;
        }
        let shift_us = info.provenance.start_wall_us - merged.provenance.start_wall_us;
        let part = LogPart {
            shift_us,
            first_session: merged.sessions,
            first_source: merged.provenance.sources.len() as u32,
            reader: reader.clone(),
        };
        parts.push(part);
        merge_info(&mut merged, info, shift_us);
    }
    let mut server_events = Vec::new();
    let mut sessions = Vec::new();
    let mut events = Vec::new();
    let mut statements = Vec::new();
    for part in &parts {
        let (shift_us, first_session, first_source) =
            (part.shift_us, part.first_session, part.first_source);
        server_events.push(part.reader.server_events()?.map(move |item| {
            item.map(|(mut event, fingerprint)| {
                event.at_us += shift_us;
                event.session = event.session.map(|session| session + first_session);
                event.source += first_source;
                (event, fingerprint)
            })
        }));
        sessions.push(part.reader.sessions()?.map(move |item| {
            item.map(|mut session| {
                session.id += first_session;
                session.start_us += shift_us;
                session.end_us += shift_us;
                session
            })
        }));
        events.push(part.reader.events()?.map(move |item| {
            item.map(|(mut event, fingerprint)| {
                event.due_us += shift_us;
                event.session += first_session;
                event.source += first_source;
                (event, fingerprint)
            })
        }));
        statements.push(part.reader.statements()?);
    }
    Inspection::collect(
        &merged,
        server_events.into_iter().flatten(),
        sessions.into_iter().flatten(),
        events.into_iter().flatten(),
        statements.into_iter().flatten(),
        literals,
    )
}

/// Adds the numbers of a workload that begins `shift_us` after the first.
fn merge_info(merged: &mut WorkloadInfo, info: &WorkloadInfo, shift_us: i64) {
    let sources = info.provenance.sources.iter();
    merged.provenance.sources.extend(sources.cloned());
    merged.span_us = merged.span_us.max(shift_us + info.span_us);
    merged.server_from_us = merged.server_from_us.min(shift_us + info.server_from_us);
    merged.server_to_us = merged.server_to_us.max(shift_us + info.server_to_us);
    merged.sessions += info.sessions;
    merged.events += info.events;
    merged.statements += info.statements;
    merged.server_events += info.server_events;
    for name in SUMMED_TALLIES {
        let of = |info: &WorkloadInfo| {
            info.provenance.reconciliation["tallies"][name]
                .as_u64()
                .unwrap_or(0)
        };
        let sum = of(merged) + of(info);
        merged.provenance.reconciliation["tallies"][name] = sum.into();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn kept_paths(cache: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(cache).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_none_or(|end| end != PATH_EXTENSION));
        paths.sort();
        paths
    }

    fn line(time: &str, pid: u32, text: &str) -> String {
        format!("2026-03-{time} UTC [{pid}] LOG:  {text}\n")
    }

    fn day(number: u32, statements: u32) -> String {
        let mut log = line(
            &format!("{number:02} 09:00:00.000"),
            7,
            "connection received: host=10.0.0.1 port=5000",
        );
        for second in 0..statements {
            log += &line(
                &format!("{number:02} 09:{:02}:{:02}.000", second / 60, second % 60),
                7,
                &format!("duration: 2.000 ms  statement: select {second} from t"),
            );
        }
        log
    }

    fn report(logs: &Path, cache: &Path) -> (u64, usize, usize) {
        let interrupt = Interrupt::default();
        let (inspection, found) = inspect_logs(logs, cache, Literals::Hidden, &interrupt).unwrap();
        let calls: u64 = inspection.by_statement.iter().map(|one| one.calls).sum();
        assert_eq!(calls, inspection.statements);
        (inspection.statements, found.kept, found.read)
    }

    #[test]
    fn only_new_changed_and_damaged_logs_are_read_again() {
        let room = tempfile::tempdir().unwrap();
        let (logs, cache) = (room.path().join("logs"), room.path().join("cache"));
        fs::create_dir(&logs).unwrap();
        fs::write(logs.join("b.log"), day(2, 20)).unwrap();
        fs::write(logs.join("a.log"), day(1, 10)).unwrap();
        assert_eq!(report(&logs, &cache), (30, 0, 2));
        assert_eq!(report(&logs, &cache), (30, 2, 0));
        // Grown; and rotated, which is no change.
        fs::write(logs.join("b.log"), day(2, 25)).unwrap();
        fs::rename(logs.join("a.log"), logs.join("c.log")).unwrap();
        assert_eq!(report(&logs, &cache), (35, 1, 1));
        assert_eq!(kept_paths(&cache).len(), 2);
        // Damaged, and left by a report that was killed.
        let damaged = &kept_paths(&cache)[0];
        let file = fs::read_dir(damaged).unwrap().next().unwrap().unwrap();
        fs::write(file.path(), "no").unwrap();
        fs::create_dir(cache.join(format!("{}.workload.partial", "0".repeat(32)))).unwrap();
        fs::write(cache.join("notes.txt"), "the user's").unwrap();
        assert_eq!(report(&logs, &cache), (35, 1, 1));
        assert_eq!(kept_paths(&cache).len(), 3);
        assert!(cache.join("notes.txt").exists());
        // Left unfinished for a log that exists.
        let workload = &kept_paths(&cache)[0];
        fs::rename(workload, partial_path(workload)).unwrap();
        assert_eq!(report(&logs, &cache), (35, 1, 1));
        assert_eq!(kept_paths(&cache).len(), 3);
    }

    #[test]
    fn logs_of_another_report_are_kept_until_they_change() {
        let room = tempfile::tempdir().unwrap();
        let cache = room.path().join("cache");
        let [first, second] = ["first", "second"].map(|name| room.path().join(name));
        for (number, logs) in [&first, &second].into_iter().enumerate() {
            fs::create_dir(logs).unwrap();
            let number = 2 * number as u32;
            fs::write(logs.join("a.log"), day(number + 1, 10)).unwrap();
            fs::write(logs.join("b.log"), day(number + 2, 20)).unwrap();
        }
        let removed = |logs: &Path| {
            let interrupt = Interrupt::default();
            let report = inspect_logs(logs, &cache, Literals::Hidden, &interrupt).unwrap();
            report.1.removed
        };
        assert_eq!(removed(&first), 0);
        assert_eq!(removed(&second), 0);
        assert_eq!(report(&first, &cache), (30, 2, 0));
        assert_eq!(removed(&first.join("a.*")), 0);
        assert_eq!(report(&second, &cache), (30, 2, 0));
        // A changed log of the report, and one that was removed from the other.
        fs::write(first.join("a.log"), day(1, 11)).unwrap();
        fs::remove_file(second.join("b.log")).unwrap();
        assert_eq!(removed(&first), 2);
        assert_eq!(report(&second, &cache), (10, 1, 0));
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 2 * 3);
    }

    #[test]
    fn report_of_several_logs_is_that_of_one() {
        let room = tempfile::tempdir().unwrap();
        let (logs, cache) = (room.path().join("logs"), room.path().join("cache"));
        fs::create_dir(&logs).unwrap();
        for number in 1..4 {
            fs::write(logs.join(format!("{number}.log")), day(number, 5 * number)).unwrap();
        }
        let interrupt = Interrupt::default();
        let parts = inspect_logs(&logs, &cache, Literals::Hidden, &interrupt)
            .unwrap()
            .0;
        let whole_log: String = (1..4).map(|number| day(number, 5 * number)).collect();
        let log = room.path().join("whole.log");
        fs::write(&log, whole_log).unwrap();
        let cache = room.path().join("other");
        let whole = inspect_logs(&log, &cache, Literals::Hidden, &interrupt)
            .unwrap()
            .0;
        assert_eq!(parts.start_wall_us, whole.start_wall_us);
        assert_eq!(parts.span_us, whole.span_us);
        assert_eq!(parts.statements, whole.statements);
        assert_eq!(parts.captured, whole.captured);
        assert_eq!(parts.arrivals, whole.arrivals);
        assert_eq!(parts.sources.len(), 3);
        let times = |one: &Inspection| {
            one.over_time
                .moments
                .iter()
                .map(|at| at.statements)
                .collect::<Vec<_>>()
        };
        assert_eq!(times(&parts), times(&whole));
    }
}
