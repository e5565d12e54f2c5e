//! Finds the file that replaces a log, and distinguishes it from copies of the log.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::LogLocation;
use super::tail::FollowedFile;
use crate::rotation_name::stem;
use capture_sink::compression::{FileFormat, MAGIC_BYTES, detect};

/// A file's device and inode, which are the same under every name.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// Number of bytes at a log's start that identify it: a time, a process and a message.
const HEAD_BYTES: usize = 128;

/// Coarsest timestamp resolution of file systems.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_secs(2);

/// Reads the first bytes of a file, up to [`HEAD_BYTES`].
pub(super) fn read_head(file: &File) -> io::Result<Vec<u8>> {
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

/// Finds the file that replaces `current`: one of the same name, or the first of the same series
/// that is new or was rewritten. It must have data. Copies of followed logs, older and compressed
/// files are excluded.
pub(super) fn find_successor(
    place: &LogLocation,
    current: &FollowedFile,
    heads: &[Vec<u8>],
    seen: &HashMap<FileId, u64>,
) -> Option<FollowedFile> {
    let current_written = modified_at(&current.file.metadata().ok()?);
    let series = stem(&current.path.display().to_string());
    let mut found = Vec::new();
    for path in place.list_files().ok()? {
        let Ok(metadata) = std::fs::metadata(&path) else {
            continue;
        };
        let (id, length) = (file_id(&metadata), metadata.len());
        if id == current.id || length == 0 || !metadata.is_file() {
            continue;
        }
        let same_name = path == current.path;
        if !same_name
            && (stem(&path.display().to_string()) != series
                || modified_at(&metadata) + TIMESTAMP_RESOLUTION < current_written)
        {
            continue;
        }
        // A reused name, such as that of a weekday, is written from its start, or appended to.
        let position = match seen.get(&id) {
            None => 0,
            Some(before) if *before == length => continue,
            Some(before) if length < *before => 0,
            Some(before) => *before,
        };
        found.push((modified_at(&metadata), path, position));
    }
    found.sort();
    found
        .into_iter()
        .find_map(|(_, path, position)| candidate(&path, position, heads))
}

fn modified_at(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn candidate(path: &Path, position: u64, heads: &[Vec<u8>]) -> Option<FollowedFile> {
    let file = File::open(path).ok()?;
    let start = read_head(&file).ok()?;
    let file_format = detect(&start[..start.len().min(MAGIC_BYTES)]);
    let copy = heads
        .iter()
        .any(|head| start.starts_with(head) || head.starts_with(&start));
    if file_format != FileFormat::Plain || (copy && position == 0) {
        return None;
    }
    FollowedFile::new(path, file, position).ok()
}

/// Finds the copy that was made of a log before it was truncated: it begins as the log did and is
/// longer than what was read of the log.
pub(super) fn find_copy(log: &FollowedFile) -> Option<(PathBuf, File)> {
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
        if !metadata.is_file() || file_id(&metadata) == log.id || metadata.len() < log.position {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if read_head(&file).is_ok_and(|start| !log.head.is_empty() && start.starts_with(&log.head))
        {
            return Some((path, file));
        }
    }
    None
}
