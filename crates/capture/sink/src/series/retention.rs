//! Removes the oldest parts of a series.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use workload::series::{SeriesInfo, SeriesPart};
use workload::{DirectoryLock, SeriesMember};

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
    /// Number of times that a part could not be removed.
    pub(super) removals_failed: u64,
    /// Parts that could not be removed or read, each as a sentence.
    pub(super) failures: Vec<String>,
}

/// Entries of the directory of a series, so that each manifest is read once.
#[derive(Debug, Default)]
pub(super) struct PartList {
    /// Complete parts by file name, with their sizes in bytes.
    parts: HashMap<OsString, (SeriesPart, u64)>,
    /// Names of workloads that are no part of the series.
    foreign: HashSet<OsString>,
    /// Names of workloads whose manifest cannot be read. They were reported.
    unreadable: HashSet<OsString>,
}

impl PartList {
    /// Adds new entries of the directory, and forgets those that are gone. Returns entries that cannot be read, each once,
    /// as a sentence.
    pub(super) fn update(&mut self, path: &Path, uuid: &str) -> Vec<String> {
        let mut failures = Vec::new();
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries.flatten(),
            Err(error) => return vec![format!("cannot list {}: {error}", path.display())],
        };
        let names: BTreeSet<OsString> = entries
            .map(|entry| entry.file_name())
            .filter(|name| {
                Path::new(name)
                    .extension()
                    .is_some_and(|end| end == "workload")
            })
            .collect();
        self.parts.retain(|name, _| names.contains(name));
        self.foreign.retain(|name| names.contains(name));
        self.unreadable.retain(|name| names.contains(name));
        for name in names {
            if self.parts.contains_key(&name) || self.foreign.contains(&name) {
                continue;
            }
            let path = path.join(&name);
            match SeriesMember::read(&path) {
                Ok(Some(member)) if member.uuid == uuid => {
                    self.unreadable.remove(&name);
                    let bytes = directory_bytes(&path);
                    self.parts
                        .insert(name, (SeriesPart { path, member }, bytes));
                }
                Ok(_) => drop(self.foreign.insert(name)),
                Err(_) if !path.exists() => {}
                Err(reason) => {
                    if self.unreadable.insert(name) {
                        failures.push(format!(
                            "{} cannot be read, so the retention leaves it out: {reason}; move it out of the series",
                            path.display()
                        ));
                    }
                }
            }
        }
        failures
    }

    /// Returns the number of parts, and their size in bytes.
    pub(super) fn total(&self) -> (u64, u64) {
        let sizes = self.parts.values().map(|(_, bytes)| bytes);
        (self.parts.len() as u64, sizes.sum())
    }

    /// Returns the parts by number.
    fn sorted(&self) -> Vec<(SeriesPart, u64)> {
        let mut parts: Vec<(SeriesPart, u64)> = self.parts.values().cloned().collect();
        parts.sort_by_key(|(part, _)| part.member.number);
        parts
    }
}

/// Removes the oldest complete parts that are beyond the limits of the retention, and counts them in `info`. The newest
/// is never removed. An entry that cannot be read or removed is reported, and does not end the capture.
pub(super) fn enforce_retention(
    path: &Path,
    info: &mut SeriesInfo,
    list: &mut PartList,
    now_us: i64,
) -> RetentionResult {
    remove_leftovers(path, &info.uuid);
    let failures = list.update(path, &info.uuid);
    let parts = list.sorted();
    let mut result = RetentionResult {
        kept: parts.len() as u64,
        kept_bytes: parts.iter().map(|(_, bytes)| bytes).sum(),
        failures,
        ..RetentionResult::default()
    };
    let Some(newest) = parts.last().map(|(part, _)| part.member.clone()) else {
        return result;
    };
    for (part, bytes) in &parts {
        let limits = info.retention;
        // A time stamp in the future makes no part old.
        let age_us = newest.to_us.min(now_us).saturating_sub(part.member.to_us);
        let is_too_old = limits.for_us.is_some_and(|limit| age_us > limit);
        let is_too_large = limits.bytes.is_some_and(|limit| result.kept_bytes > limit);
        if part.member.number == newest.number || !(is_too_old || is_too_large) {
            break;
        }
        match remove_part(part) {
            Ok(leftover) => {
                result.removed += 1;
                result.removed_bytes += bytes;
                result.kept -= 1;
                result.kept_bytes -= bytes;
                result.failures.extend(leftover);
                let removed = &mut info.removed;
                removed.parts += 1;
                removed.bytes += bytes;
                removed.latest_end_us = removed.latest_end_us.max(Some(part.member.to_us));
            }
            Err(reason) => {
                result.removals_failed += 1;
                result.failures.push(format!(
                    "{} is beyond the limits of the retention and stays: {reason}",
                    part.path.display()
                ));
                // Without the parts after it, the series would have a hole, and could not be read.
                break;
            }
        }
    }
    result
}

/// Removes a part after a check that it is one of this series. No link is followed. Returns a sentence about files that
/// could not be removed: the part is no longer in the series, but its space is in use.
fn remove_part(part: &SeriesPart) -> Result<Option<String>, String> {
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
    let left = remove_files(&doomed).err();
    Ok(left.map(|error| {
        format!(
            "{} was removed from the series, but files of it are left: {error}; they are removed later",
            doomed.display()
        )
    }))
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
