//! The parts of a series on disk.

use std::fs;
use std::path::{Path, PathBuf};

use archive::{ArchiveError, DirectoryLock, UnfinishedDirectory};

use super::{SERIES_FILE, SeriesInfo, SeriesMember, SeriesState};

/// Ending of the name of a complete part.
const PART_EXTENSION: &str = ".workload";
/// Ending of the name of a part that is not complete.
const PARTIAL_EXTENSION: &str = ".workload.partial";
/// Ending that is added to the name of a directory that is being removed.
const REMOVED_EXTENSION: &str = ".removed";

/// A complete part of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesPart {
    /// Path of its workload.
    pub path: PathBuf,
    /// Number and time range.
    pub member: SeriesMember,
}

/// A part of a series that is not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedPart {
    /// Path of the `.partial` directory, for [`crate::recover`].
    pub path: PathBuf,
    /// Number and time range.
    pub member: SeriesMember,
}

/// A series, as it was when it was opened.
#[derive(Debug, Clone)]
pub struct Series {
    /// Path of the directory.
    pub path: PathBuf,
    /// Content of `series.json`.
    pub info: SeriesInfo,
    /// Complete parts, by number.
    pub parts: Vec<SeriesPart>,
    /// Parts that are being written, or were left by a capture that was killed, by number.
    pub unfinished: Vec<UnfinishedPart>,
    /// Workloads in the directory that are no part of this series. They are not read.
    pub foreign: Vec<PathBuf>,
}

impl Series {
    /// Whether a path is the directory of a series.
    pub fn is_series(path: &Path) -> bool {
        path.join(SERIES_FILE).is_file()
    }

    /// Opens a series: reads its description, and lists its parts. Needs no key.
    ///
    /// # Errors
    /// If it is no series, was written by a later version, or the manifest of a part cannot be read.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let info = SeriesInfo::read(path)?;
        Self::list(path, info, "")
    }

    /// Opens a series as [`Self::open`] does, but lists only parts whose file name sorts after `name`: for a reader that
    /// looks for new parts.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_after(path: &Path, name: &str) -> Result<Self, ArchiveError> {
        let info = SeriesInfo::read(path)?;
        Self::list(path, info, name)
    }

    fn list(path: &Path, info: SeriesInfo, after: &str) -> Result<Self, ArchiveError> {
        let mut series = Series {
            path: path.to_owned(),
            info,
            parts: Vec::new(),
            unfinished: Vec::new(),
            foreign: Vec::new(),
        };
        let unreadable = |error| ArchiveError::io("read", path, error);
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str() else {
                continue;
            };
            let is_part = name.ends_with(PART_EXTENSION);
            if name <= after || !(is_part || name.ends_with(PARTIAL_EXTENSION)) {
                continue;
            }
            series.add(path.join(name), is_part)?;
        }
        series.parts.sort_by_key(|part| part.member.number);
        series.unfinished.sort_by_key(|part| part.member.number);
        series.foreign.sort();
        Ok(series)
    }

    fn add(&mut self, path: PathBuf, is_part: bool) -> Result<(), ArchiveError> {
        let member = match SeriesMember::read(&path) {
            // A copy of a part has another name.
            Ok(member) => member.filter(|member| {
                let name = part_name(member.from_us);
                member.uuid == self.info.uuid && (!is_part || path.ends_with(name))
            }),
            // It was completed, or removed by the retention, since the directory was listed.
            Err(_) if !path.exists() => return Ok(()),
            // It has just been begun.
            Err(_) if !is_part => None,
            Err(reason) => return Err(ArchiveError::Damaged { path, reason }),
        };
        match member {
            Some(member) if is_part => self.parts.push(SeriesPart { path, member }),
            Some(member) => self.unfinished.push(UnfinishedPart { path, member }),
            None if is_part => self.foreign.push(path),
            None => {}
        }
        Ok(())
    }

    /// Whether a process captures it now. A capture that was killed leaves the state
    /// [`SeriesState::BeingCaptured`], but no lock.
    pub fn is_being_captured(&self) -> bool {
        self.info.state == SeriesState::BeingCaptured
            && matches!(DirectoryLock::try_shared(&self.path), Ok(None))
    }
}

/// Removes directories that a kill has left and that have no event of their own: a part whose manifest was not written, and
/// the copy of a part that a recovery makes. To be called with the lock of the series. Returns the errors of those that cannot be
/// removed.
///
/// # Errors
/// If the series cannot be read.
pub fn remove_leftovers(directory: &Path) -> Result<Vec<ArchiveError>, ArchiveError> {
    let unreadable = |error| ArchiveError::io("read", directory, error);
    let mut failures = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_left = is_directory && (is_unbegun(&path) || was_recovered(&path));
        let removed = if is_directory && is_being_removed(&path) {
            fs::remove_dir_all(&path)
        } else if is_left && !UnfinishedDirectory::at(path.clone()).being_written {
            // A recovery that runs at the same time finds all of it, or nothing.
            let mut aside = path.clone().into_os_string();
            aside.push(REMOVED_EXTENSION);
            let _ = fs::remove_dir_all(&aside);
            fs::rename(&path, &aside).and_then(|()| fs::remove_dir_all(&aside))
        } else {
            Ok(())
        };
        let failed = removed.err();
        failures.extend(failed.map(|error| ArchiveError::io("remove", &path, error)));
    }
    Ok(failures)
}

/// Whether a kill came while a directory was removed.
fn is_being_removed(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.and_then(|name| name.strip_suffix(REMOVED_EXTENSION));
    name.is_some_and(|name| name.ends_with(PARTIAL_EXTENSION) || recovered_name(name).is_some())
}

/// Whether a kill came while a part was created: its manifest does not name a series, and it has no table.
fn is_unbegun(path: &Path) -> bool {
    let is_named = |path: &Path| {
        path.to_str()
            .is_some_and(|path| path.ends_with(PARTIAL_EXTENSION))
    };
    let is_first = |name: &str| name.starts_with("manifest") || name.starts_with("checkpoint");
    is_named(path)
        && !matches!(SeriesMember::read(path), Ok(Some(_)))
        && fs::read_dir(path).is_ok_and(|mut files| {
            files.all(|file| file.is_ok_and(|file| file.file_name().to_str().is_some_and(is_first)))
        })
}

/// Whether it is the copy of a part that a killed recovery has made, and the part is there.
fn was_recovered(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(part) = name.and_then(recovered_name) else {
        return false;
    };
    [PART_EXTENSION, PARTIAL_EXTENSION]
        .iter()
        .any(|extension| path.with_file_name(format!("{part}{extension}")).is_dir())
}

/// Returns the name, without its ending, of the part that a recovery copies to a directory of this name.
fn recovered_name(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".partial").unwrap_or(name);
    name.strip_suffix(".recovering")
}

/// Returns the file name of the part whose time range starts at `from_us`, in microseconds since 1970-01-01 UTC.
pub fn part_name(from_us: i64) -> String {
    let instant = clock::rfc3339_text(from_us);
    let seconds = instant.split('.').next().unwrap_or_default();
    let digits: String = seconds
        .chars()
        .filter(|sign| !"-:".contains(*sign))
        .collect();
    format!("{digits}Z{PART_EXTENSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_without_an_event_are_removed_and_others_are_kept() {
        let room = tempfile::tempdir().unwrap();
        let make = |name: &str, file: &str| {
            let directory = room.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(file), "{").unwrap();
        };
        make("a.workload.partial", "checkpoint.json");
        make("b.workload.partial", "events-00000.parquet");
        make("c.workload.partial", "manifest.json.new");
        make("d.recovering", "manifest.json");
        make("e.recovering", "manifest.json");
        make("e.workload", "manifest.json");
        make("b.recovering.partial", "manifest.json");
        make("f.recovering.removed", "events-00000.parquet");
        make("g.workload.partial.removed", "events-00000.parquet");
        make("h.removed", "events-00000.parquet");
        let lock = DirectoryLock::try_exclusive(&room.path().join("c.workload.partial")).unwrap();
        assert!(remove_leftovers(room.path()).unwrap().is_empty());
        let listing = fs::read_dir(room.path()).unwrap();
        let mut left: Vec<_> = listing.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let kept = [
            "b.workload.partial",
            "c.workload.partial",
            "d.recovering",
            "e.workload",
            "h.removed",
        ];
        assert_eq!(left, kept);
        drop(lock);
        remove_leftovers(room.path()).unwrap();
        assert!(!room.path().join("c.workload.partial").exists());
    }

    #[test]
    fn series_that_cannot_be_read_is_no_leftover_that_cannot_be_removed() {
        let room = tempfile::tempdir().unwrap();
        let error = remove_leftovers(&room.path().join("a.series"));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("cannot read"), "{error}");
    }

    #[test]
    fn leftover_that_cannot_be_set_aside_stays_whole() {
        let room = tempfile::tempdir().unwrap();
        let copy = room.path().join("a.recovering");
        for directory in [&copy, &room.path().join("a.workload")] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("manifest.json"), "{").unwrap();
        }
        let aside = room.path().join("a.recovering.removed");
        fs::write(&aside, "").unwrap();
        // It keeps no other from being removed.
        let other = room.path().join("b.workload.partial.removed");
        fs::create_dir(&other).unwrap();
        let failures = remove_leftovers(room.path()).unwrap();
        let [error] = &failures[..] else {
            panic!("{failures:?}");
        };
        assert!(error.to_string().contains("cannot remove"), "{error}");
        assert!(copy.join("manifest.json").exists() && !other.exists());
        fs::remove_file(aside).unwrap();
        remove_leftovers(room.path()).unwrap();
        assert!(!copy.exists());
    }

    #[test]
    fn part_name_is_the_time_to_the_second() {
        assert_eq!(
            part_name(1_772_357_405_250_000),
            "20260301T093005Z.workload"
        );
    }
}
