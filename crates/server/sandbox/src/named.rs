//! Sandboxes that outlive the process that created them, and the removal of abandoned ones.

use crate::dirs;
use crate::dirs::Dirs;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorContext, Result};
use crate::installation::Installation;
use crate::marker;
use crate::marker::Marker;
use crate::postmaster;
use crate::sandbox::{Options, Sandbox, end_now, endpoint};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Description of a named sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSandbox {
    /// Name.
    pub name: String,
    /// Full version of the server.
    pub version: String,
    /// Major version of the server.
    pub major: u16,
    /// Current or last endpoint, without the password.
    pub endpoint: Endpoint,
    /// Settings.
    pub settings: Vec<(String, String)>,
    /// Directory.
    pub root: PathBuf,
    /// Data directory of the server.
    pub data_dir: PathBuf,
    /// Log of the server.
    pub log: PathBuf,
    /// Process id of the postmaster, if it runs.
    pub pid: Option<i32>,
    /// Snapshot whose restore was interrupted, so that there are no usable data until the next start.
    pub interrupted_restore: Option<String>,
}

impl NamedSandbox {
    pub(crate) fn of(root: &Path, marker: &Marker) -> Self {
        let data_dir = root.join("data");
        Self {
            name: marker.name.clone().unwrap_or_default(),
            version: marker.version.clone(),
            major: marker.major,
            endpoint: endpoint(root, marker),
            settings: marker.settings.clone(),
            log: root.join("server.log"),
            pid: postmaster::find(&data_dir, marker.server).map(|server| server.pid),
            interrupted_restore: (marker.interrupted_restore().map(str::to_owned))
                .filter(|_| is_abandoned(root)),
            root: root.to_owned(),
            data_dir,
        }
    }

    /// Whether its server runs.
    pub fn is_running(&self) -> bool {
        self.pid.is_some()
    }
}

/// Creates and starts a named sandbox, which outlives this process.
pub fn up(
    name: &str,
    installation: &Installation,
    options: Options,
    places: &Dirs,
) -> Result<NamedSandbox> {
    let _names = reserve(name, places)?;
    let mut sandbox = Sandbox::create(installation, options, places)?;
    sandbox.start()?;
    sandbox.keep_as(name)
}

/// Returns all named sandboxes, in the order of their names.
pub fn list(places: &Dirs) -> Vec<NamedSandbox> {
    lasting(places)
        .map(|(root, marker)| NamedSandbox::of(&root, &marker))
        .collect()
}

/// Returns the description of a named sandbox.
pub fn find_named(name: &str, places: &Dirs) -> Result<NamedSandbox> {
    let (root, marker) = search(name, places)?;
    Ok(NamedSandbox::of(&root, &marker))
}

/// Opens a sandbox by its name, to start, stop, snapshot or restore it. Other processes wait meanwhile.
/// Dropping it leaves it unchanged.
pub fn open(name: &str, places: &Dirs) -> Result<Sandbox> {
    let (root, _) = search(name, places)?;
    Sandbox::attach(root)
}

/// Stops a sandbox and deletes it with all its data and snapshots.
pub fn down(name: &str, places: &Dirs) -> Result<()> {
    open(name, places)?.close()
}

/// Stops and deletes sandboxes whose processes ended without doing so, if the watchdog failed, too. Returns
/// the deleted directories.
///
/// Sandboxes of live processes, named sandboxes, and other directories are not touched.
pub fn reap(places: &Dirs) -> Vec<PathBuf> {
    marker::all(places)
        .into_iter()
        .filter(|(_, marker)| !marker.lasting)
        .filter_map(|(root, _)| reap_one(&root).ok()?.then_some(root))
        .collect()
}

fn reap_one(root: &Path) -> Result<bool> {
    let Some(_owner) = marker::try_lock_owner(root)? else {
        return Ok(false);
    };
    // Read again under the lock, since it may have been named meanwhile.
    match Marker::read(root) {
        Some(marker) if !marker.lasting => {
            if let Some(server) = postmaster::find(&root.join("data"), marker.server) {
                end_now(server)?;
            }
            marker::delete(root, &marker)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Reserves a name that is not in use, until the file is closed.
pub(crate) fn reserve(name: &str, places: &Dirs) -> Result<File> {
    marker::check_name(name)?;
    let sandboxes = places.sandboxes();
    dirs::make(&sandboxes)?;
    let path = sandboxes.join(".names.lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .context("open", &path)?;
    lock.lock().context("lock", &path)?;
    match list(places).into_iter().find(|named| named.name == name) {
        None => Ok(lock),
        Some(taken) => Err(Error::NameTaken {
            name: name.to_owned(),
            state: if taken.is_running() {
                format!(
                    "PostgreSQL {} on port {}",
                    taken.version, taken.endpoint.port
                )
            } else {
                format!(
                    "PostgreSQL {}, stopped; `rehearse sandbox start {name}` starts it",
                    taken.version
                )
            },
        }),
    }
}

/// Whether no process works on the sandbox.
fn is_abandoned(root: &Path) -> bool {
    matches!(marker::try_lock_owner(root), Ok(Some(_)))
}

fn lasting(places: &Dirs) -> impl Iterator<Item = (PathBuf, Marker)> {
    marker::all(places)
        .into_iter()
        .filter(|(_, marker)| marker.lasting && marker.name.is_some())
}

fn search(name: &str, places: &Dirs) -> Result<(PathBuf, Marker)> {
    lasting(places)
        .find(|(_, marker)| marker.name.as_deref() == Some(name))
        .ok_or_else(|| {
            let names: Vec<_> = list(places).into_iter().map(|named| named.name).collect();
            Error::NoSuchSandbox {
                name: name.to_owned(),
                known: list_names(&names, "there is none"),
            }
        })
}

pub(crate) fn list_names(names: &[String], none: &str) -> String {
    if names.is_empty() {
        none.to_owned()
    } else {
        format!("choose among {}", names.join(", "))
    }
}
