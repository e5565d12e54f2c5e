//! Which file takes another's place, and which only looks so.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Where;
use super::tail::Log;
use crate::stem::stem;
use capture_sink::compression::{MAGIC_BYTES, Told, tell};

/// A file's device and number: the same under every name.
pub(super) type FileId = (u64, u64);

pub(super) fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// As many bytes of a log's beginning tell it from others: a time, a process and a message.
const HEAD_BYTES: usize = 128;

/// File systems keep times as coarse as this.
const COARSE: Duration = Duration::from_secs(2);

/// The first bytes of a file, as many as there are.
pub(super) fn head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut length = 0;
    while length < HEAD_BYTES {
        match file.read_at(&mut head[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    head.truncate(length);
    Ok(head)
}

/// The file that takes the place of `current`, if one is there: of the same name, or the first of
/// the same series that was not there before or was written anew. It has bytes. Copies of what was
/// followed, older and compressed files are none.
pub(super) fn successor(
    place: &Where,
    current: &Log,
    heads: &[Vec<u8>],
    seen: &HashMap<FileId, u64>,
) -> Option<Log> {
    let current_written = written(&current.file.metadata().ok()?);
    let series = stem(&current.path.display().to_string());
    let mut found = Vec::new();
    for path in place.files().ok()? {
        let Ok(metadata) = std::fs::metadata(&path) else {
            continue;
        };
        let (id, length) = (id(&metadata), metadata.len());
        if id == current.id || length == 0 || !metadata.is_file() {
            continue;
        }
        let same_name = path == current.path;
        if !same_name
            && (stem(&path.display().to_string()) != series
                || written(&metadata) + COARSE < current_written)
        {
            continue;
        }
        // A name that comes back, such as a day's of the week, is written from its beginning, or
        // behind what was there.
        let position = match seen.get(&id) {
            None => 0,
            Some(before) if *before == length => continue,
            Some(before) if length < *before => 0,
            Some(before) => *before,
        };
        found.push((written(&metadata), path, position));
    }
    found.sort();
    found
        .into_iter()
        .find_map(|(_, path, position)| candidate(&path, position, heads))
}

fn written(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn candidate(path: &Path, position: u64, heads: &[Vec<u8>]) -> Option<Log> {
    let file = File::open(path).ok()?;
    let start = head(&file).ok()?;
    let told = tell(&start[..start.len().min(MAGIC_BYTES)]);
    let copy = heads
        .iter()
        .any(|head| start.starts_with(head) || head.starts_with(&start));
    if told != Told::Plain || (copy && position == 0) {
        return None;
    }
    Log::new(path, file, position).ok()
}

/// The copy that was made of a log before it was truncated: it begins as the log did and is longer
/// than what was read of it.
pub(super) fn copy_of(log: &Log) -> Option<(PathBuf, File)> {
    let directory = log.path.parent()?;
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    for entry in std::fs::read_dir(directory).ok()? {
        let path = entry.ok()?.path();
        let Ok(metadata) = std::fs::metadata(&path) else {
            continue;
        };
        if !metadata.is_file() || id(&metadata) == log.id || metadata.len() < log.position {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if head(&file).is_ok_and(|start| !log.head.is_empty() && start.starts_with(&log.head)) {
            return Some((path, file));
        }
    }
    None
}
