//! `sandbox.json`, which marks a directory as a sandbox and describes it for later processes. Directories
//! without it are never deleted.

use crate::dirs::Dirs;
use crate::disk_sync::sync_directory;
use crate::error::{Error, ErrorContext, Result};
use crate::postmaster::Identity;
use crate::privileges::RunAs;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

const FILE: &str = "sandbox.json";
const LOCK: &str = "owner.lock";
/// Parent of socket directories whose path in the sandbox would be too long, and prefix of their names.
pub(crate) const SHORT_DIR: &str = "/tmp";
pub(crate) const SOCKET_PREFIX: &str = "rehearse-";
const KIND: &str = "rehearse sandbox";
/// Attempts to lock a sandbox, and the pause between them: one second in all.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Contents of the file. The password is not recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Marker {
    kind: String,
    pub(crate) name: Option<String>,
    /// Whether it outlives its owner. Otherwise it is deleted when its owner has ended.
    pub(crate) lasting: bool,
    pub(crate) bin_dir: PathBuf,
    pub(crate) version: String,
    pub(crate) major: u16,
    pub(crate) tcp: bool,
    pub(crate) port: Option<u16>,
    pub(crate) socket_dir: Option<PathBuf>,
    /// User of the server, if the sandbox is new enough to record it.
    #[serde(default)]
    pub(crate) run_as: Option<RunAs>,
    pub(crate) settings: Vec<(String, String)>,
    /// Snapshot that replaces the data. Until that is complete, there are no usable data.
    #[serde(default)]
    pub(crate) restoring: Option<String>,
    /// Restored data that may not be on the disk yet.
    #[serde(default)]
    unsynced: Option<UnsyncedRestore>,
    /// Whether the server counts the work of statements.
    #[serde(default)]
    pub(crate) statement_statistics: bool,
    /// Library that shifts the server's clock; `None` if it has the machine's clock.
    #[serde(default)]
    pub(crate) clock_library: Option<PathBuf>,
    pub(crate) server: Option<Identity>,
    pub(crate) watchdog: Option<i32>,
}

/// A restore whose files the system may not have written to the disk. If the machine starts anew before, they are lost or
/// incomplete.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct UnsyncedRestore {
    snapshot: String,
    /// The machine's start during which the data were restored (`boot_id`).
    boot: String,
}

/// Returns the id of the machine's start; `None` if the system does not tell.
fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

impl Marker {
    /// Returns the snapshot that has to be restored before there are usable data: the restore was interrupted, or the
    /// machine started anew before its files were on the disk.
    pub(crate) fn interrupted_restore(&self) -> Option<&str> {
        let unsynced = self.unsynced.as_ref().filter(|restore| {
            // Without an id nothing is left unsynced.
            boot_id().is_some_and(|boot| boot != restore.boot)
        });
        let unsynced = unsynced.map(|restore| restore.snapshot.as_str());
        self.restoring.as_deref().or(unsynced)
    }

    /// Records that the data are restored and may not be on the disk yet. Returns false if the system does not tell
    /// which start of the machine this is, so that the data must be synced at once.
    pub(crate) fn restored(&mut self, snapshot: &str) -> bool {
        self.restoring = None;
        self.unsynced = boot_id().map(|boot| UnsyncedRestore {
            snapshot: snapshot.to_owned(),
            boot,
        });
        self.unsynced.is_some()
    }

    /// Whether restored data may not be on the disk yet.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Records that the data are on the disk.
    pub(crate) fn synced(&mut self) {
        self.unsynced = None;
    }

    pub(crate) fn new(installation: &crate::Installation) -> Self {
        Self {
            kind: KIND.to_owned(),
            name: None,
            lasting: false,
            bin_dir: installation.bin_dir.clone(),
            version: installation.version.clone(),
            major: installation.major,
            tcp: false,
            port: None,
            socket_dir: None,
            run_as: None,
            settings: Vec::new(),
            restoring: None,
            unsynced: None,
            statement_statistics: false,
            clock_library: None,
            server: None,
            watchdog: None,
        }
    }

    pub(crate) fn read(root: &Path) -> Option<Self> {
        let text = fs::read(root.join(FILE)).ok()?;
        serde_json::from_slice::<Self>(&text)
            .ok()
            .filter(|marker| marker.kind == KIND)
    }

    /// Writes the file atomically. Settings may hold secrets, so only the owner can read it.
    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(FILE);
        let text = serde_json::to_vec_pretty(self)
            .map_err(io::Error::other)
            .context("describe the sandbox in", &path)?;
        let is_state = self.restoring.is_some() || self.unsynced.is_some();
        write_private(&path, &text, is_state)
    }
}

/// Writes a file atomically that only its owner can read. A `durable` one is on the disk afterwards; otherwise it may be
/// the one before.
pub(crate) fn write_private(path: &Path, text: &[u8], durable: bool) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{}.new", name.trim_start_matches('.')));
    fs::write(&fresh, text).context("write", &fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))
        .context("set the permissions of", &fresh)?;
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    // Without this, an empty file may be left after a loss of power.
    sync(&fresh).context("write", &fresh)?;
    fs::rename(&fresh, path).context("rename to", path)?;
    match path.parent() {
        Some(parent) if durable => sync_directory(parent),
        _ => Ok(()),
    }
}

/// Marks the sandbox as owned while the file is open. The kernel releases the lock when the owner ends in any
/// way. Unlike a process id it cannot be confused, even across containers.
pub(crate) fn try_lock_owner(root: &Path) -> Result<Option<File>> {
    let path = root.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .context("open", &path)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

/// Marks the sandbox as owned; it is an error if another process owns it. A child of another thread that has not yet called
/// exec may briefly keep a lock that was released.
pub(crate) fn lock_owner(root: &Path) -> Result<File> {
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = try_lock_owner(root)? {
            return Ok(lock);
        }
        sleep(LOCK_PAUSE);
    }
    Err(Error::Busy {
        root: root.to_owned(),
    })
}

/// Returns all sandboxes.
pub(crate) fn all(places: &Dirs) -> Vec<(PathBuf, Marker)> {
    let Ok(entries) = fs::read_dir(places.sandboxes()) else {
        return Vec::new();
    };
    let mut all: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), Marker::read(&entry.path())?)))
        .collect();
    all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    all
}

/// Deletes a sandbox's directory, and its socket's directory if that is elsewhere.
pub(crate) fn delete(root: &Path, marker: &Marker) -> Result<()> {
    if Marker::read(root).is_none() {
        return Ok(());
    }
    // One in the sandbox is deleted with it. Any other path is not of our making.
    if let Some(dir) = marker.socket_dir.as_deref()
        && let Some(name) = dir.strip_prefix(SHORT_DIR).ok().and_then(Path::to_str)
        && name.starts_with(SOCKET_PREFIX)
        && !name.contains('/')
    {
        delete_sockets(dir);
    }
    // The marker is deleted last, so that the rest of an interrupted deletion remains recognisable. The lock
    // also remains, which tells others that a deletion is in progress.
    for entry in fs::read_dir(root).context("read", root)?.flatten() {
        if entry.file_name() != FILE && entry.file_name() != LOCK {
            delete_any(&entry.path())?;
        }
    }
    delete_any(root)
}

/// Deletes the server's sockets, and the directory if nothing else is in it.
fn delete_sockets(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(b".s.PGSQL.")
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(dir);
}

/// Deletes a file, a link or a directory, if it exists.
pub(crate) fn delete_any(path: &Path) -> Result<()> {
    let deleted = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match deleted {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.context("delete", path),
    }
}

/// Checks a name, which becomes part of paths.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fine = (1..=40).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    fine.then_some(()).ok_or_else(|| Error::Name {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_folder() {
        for name in ["a", "before-17.2", "9_x"] {
            check_name(name).unwrap();
        }
        for name in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "-x",
            "a b",
            "é",
            &"x".repeat(41),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn restored_data_of_an_earlier_start_of_the_machine_are_restored_again() {
        let top = tempfile::tempdir().unwrap();
        let mut marker = Marker::new(&crate::Installation {
            bin_dir: "/x".into(),
            major: 17,
            version: "17.0".to_owned(),
            source: crate::Source::Given,
        });
        marker.restoring = Some("base".to_owned());
        assert_eq!(marker.interrupted_restore(), Some("base"));
        assert!(marker.restored("base"));
        assert_eq!(marker.interrupted_restore(), None);
        marker.write(top.path()).unwrap();
        // As a machine that lost its power finds it.
        let path = top.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        let earlier = text.replace(&boot_id().unwrap(), "an earlier start");
        assert_ne!(earlier, text);
        fs::write(&path, earlier).unwrap();
        let mut found = Marker::read(top.path()).unwrap();
        assert_eq!(found.interrupted_restore(), Some("base"));
        found.synced();
        assert_eq!(found.interrupted_restore(), None);
    }

    #[test]
    fn only_marked_directories_are_deleted() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("s");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("precious"), "x").unwrap();
        fs::write(root.join(FILE), r#"{"kind":"something else"}"#).unwrap();
        let marker = Marker::new(&crate::Installation {
            bin_dir: "/x".into(),
            major: 17,
            version: "17.0".to_owned(),
            source: crate::Source::Given,
        });
        delete(&root, &marker).unwrap();
        assert!(root.join("precious").exists());
        marker.write(&root).unwrap();
        delete(&root, &marker).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn there_is_one_owner_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let owner = try_lock_owner(root.path()).unwrap();
        assert!(owner.is_some());
        assert!(matches!(lock_owner(root.path()), Err(Error::Busy { .. })));
        drop(owner);
        lock_owner(root.path()).unwrap();
    }
}
