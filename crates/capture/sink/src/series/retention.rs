//! Removes the oldest parts of a series.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use workload::series::{Series, SeriesInfo, SeriesPart};
use workload::{ArchiveError, DirectoryLock, SeriesMember};

/// Ending of the name of a part while it is removed.
const REMOVED_EXTENSION: &str = "removed";
/// Name of the file that identifies a part. It is removed last.
const MANIFEST: &str = "manifest.json";

/// Result of a retention.
#[derive(Debug, Default)]
pub(super) struct RetentionResult {
    /// Number of removed parts.
    pub(super) removed: u64,
    /// Their size, in bytes.
    pub(super) removed_bytes: u64,
    /// Number of remaining complete parts.
    pub(super) kept: u64,
    /// Their size, in bytes.
    pub(super) kept_bytes: u64,
    /// Parts that could not be removed, each as a sentence.
    pub(super) failures: Vec<String>,
}

/// Sizes of parts by number, so that each is measured once.
pub(super) type PartSizes = HashMap<u64, u64>;

/// Removes the oldest complete parts that are beyond the limits of the retention, and counts them in `info`. The newest
/// is never removed.
pub(super) fn enforce_retention(
    path: &Path,
    info: &mut SeriesInfo,
    sizes: &mut PartSizes,
) -> Result<RetentionResult, ArchiveError> {
    let series = Series::open(path)?;
    remove_leftovers(path, &info.uuid);
    let parts = series.parts;
    sizes.retain(|number, _| parts.iter().any(|part| part.member.number == *number));
    for part in &parts {
        let size = sizes.entry(part.member.number).or_default();
        if *size == 0 {
            *size = directory_bytes(&part.path);
        }
    }
    let mut result = RetentionResult {
        kept: parts.len() as u64,
        kept_bytes: sizes.values().sum(),
        ..RetentionResult::default()
    };
    let Some(newest) = parts.last().map(|part| part.member.clone()) else {
        return Ok(result);
    };
    for part in &parts {
        let limits = info.retention;
        let age_us = newest.to_us.saturating_sub(part.member.to_us);
        let is_too_old = limits.for_us.is_some_and(|limit| age_us > limit);
        let is_too_large = limits.bytes.is_some_and(|limit| result.kept_bytes > limit);
        if part.member.number == newest.number || !(is_too_old || is_too_large) {
            break;
        }
        let bytes = sizes.remove(&part.member.number).unwrap_or(0);
        match remove_part(part) {
            Ok(()) => {
                result.removed += 1;
                result.removed_bytes += bytes;
                result.kept -= 1;
                result.kept_bytes -= bytes;
                let removed = &mut info.removed;
                removed.parts += 1;
                removed.bytes += bytes;
                removed.latest_end_us = removed.latest_end_us.max(Some(part.member.to_us));
            }
            Err(reason) => {
                sizes.insert(part.member.number, bytes);
                result.failures.push(format!(
                    "{} is beyond the limits of the retention and stays: {reason}",
                    part.path.display()
                ));
                // Without the parts after it, the series would have a hole, and could not be read.
                break;
            }
        }
    }
    Ok(result)
}

/// Removes a part after a check that it is one of this series. No link is followed.
fn remove_part(part: &SeriesPart) -> Result<(), String> {
    let describe = |error: io::Error| error.to_string();
    let metadata = fs::symlink_metadata(&part.path).map_err(describe)?;
    if !metadata.is_dir() {
        return Err("it is no directory but a link or a file".to_owned());
    }
    let lock = DirectoryLock::try_exclusive(&part.path).map_err(describe)?;
    if lock.is_none() {
        return Err("a process reads it; it is removed later".to_owned());
    }
    match SeriesMember::read(&part.path) {
        Ok(Some(member)) if member == part.member => {}
        _ => return Err("its manifest has changed".to_owned()),
    }
    // From here on, no reader finds it under its name.
    let doomed = part.path.with_extension(REMOVED_EXTENSION);
    fs::rename(&part.path, &doomed).map_err(describe)?;
    remove_files(&doomed).map_err(describe)
}

/// Removes what retentions that were killed have left.
fn remove_leftovers(path: &Path, uuid: &str) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let leftover = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory
            || leftover
                .extension()
                .is_none_or(|end| end != REMOVED_EXTENSION)
        {
            continue;
        }
        let member = SeriesMember::read(&leftover).ok().flatten();
        if member.is_some_and(|member| member.uuid == uuid) {
            // What cannot be removed now is tried again later.
            let _ = remove_files(&leftover);
        }
    }
}

/// Removes the files of a part, and the part. The manifest is last, so that what a kill leaves can be identified.
fn remove_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() != MANIFEST {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(directory.join(MANIFEST))?;
    fs::remove_dir(directory)
}

/// Returns the size of the files in a directory.
pub(super) fn directory_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| fs::symlink_metadata(entry.path()).ok());
    sizes.map(|metadata| metadata.len()).sum()
}
