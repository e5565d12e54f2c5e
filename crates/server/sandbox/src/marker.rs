//! `sandbox.json`, which marks a directory as a sandbox and describes it for later processes. Directories
//! without it are never deleted.

use crate::dirs::Dirs;
use crate::error::{Error, ErrorContext, Result};
use crate::postmaster::Identity;
use crate::privileges::RunAs;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "sandbox.json";
const LOCK: &str = "owner.lock";
/// Parent of socket directories whose path in the sandbox would be too long, and prefix of their names.
pub(crate) const SHORT_DIR: &str = "/tmp";
pub(crate) const SOCKET_PREFIX: &str = "rehearse-";
const KIND: &str = "rehearse sandbox";

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
    /// Whether the server counts the work of statements.
    #[serde(default)]
    pub(crate) statement_statistics: bool,
    pub(crate) server: Option<Identity>,
    pub(crate) watchdog: Option<i32>,
}

impl Marker {
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
            statement_statistics: false,
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
        write_private(&path, &text, self.restoring.is_some())
    }
}

/// Writes a file atomically that only its owner can read. A `durable` one is on the disk afterwards.
pub(crate) fn write_private(path: &Path, text: &[u8], durable: bool) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{}.new", name.trim_start_matches('.')));
    fs::write(&fresh, text).context("write", &fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))
        .context("set the permissions of", &fresh)?;
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    if durable {
        sync(&fresh).context("write", &fresh)?;
    }
    fs::rename(&fresh, path).context("rename to", path)?;
    match path.parent() {
        Some(parent) if durable => sync(parent).context("write", parent),
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

/// Marks the sandbox as owned; it is an error if another process owns it.
pub(crate) fn lock_owner(root: &Path) -> Result<File> {
    try_lock_owner(root)?.ok_or_else(|| Error::Busy {
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
