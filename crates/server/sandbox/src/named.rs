//! Sandboxes that outlive the process that made them, and what is left of those that should not.

use crate::endpoint::Endpoint;
use crate::error::{Doing, Error, Result};
use crate::installation::Installation;
use crate::marker;
use crate::marker::Marker;
use crate::places;
use crate::places::Places;
use crate::postmaster;
use crate::sandbox::{Options, Sandbox, end_now, endpoint};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What is known of a sandbox that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The server's full version.
    pub version: String,
    /// The server's major version.
    pub major: u16,
    /// Where it listens, or listened last; without the password, which is recorded nowhere.
    pub endpoint: Endpoint,
    /// Whether it asks for a password.
    pub wants_password: bool,
    /// The settings it was given.
    pub settings: Vec<(String, String)>,
    /// Its directory.
    pub root: PathBuf,
    /// The server's data directory.
    pub data_dir: PathBuf,
    /// The server's log.
    pub log: PathBuf,
    /// The postmaster's process number, if it runs.
    pub pid: Option<i32>,
}

impl Named {
    pub(crate) fn of(root: &Path, marker: &Marker) -> Self {
        let data_dir = root.join("data");
        Self {
            name: marker.name.clone().unwrap_or_default(),
            version: marker.version.clone(),
            major: marker.major,
            endpoint: endpoint(marker, None),
            wants_password: marker.wants_password,
            settings: marker.settings.clone(),
            log: root.join("server.log"),
            pid: postmaster::of(&data_dir, marker.server).map(|server| server.pid),
            root: root.to_owned(),
            data_dir,
        }
    }

    /// Whether its server runs.
    pub fn is_running(&self) -> bool {
        self.pid.is_some()
    }
}

/// Makes a sandbox with a name and starts it; it outlives this process.
pub fn up(
    name: &str,
    installation: &Installation,
    options: Options,
    places: &Places,
) -> Result<Named> {
    let _names = reserve(name, places)?;
    let mut sandbox = Sandbox::create(installation, options, places)?;
    sandbox.start()?;
    sandbox.keep_as(name)
}

/// All sandboxes that have a name, in its order.
pub fn list(places: &Places) -> Vec<Named> {
    lasting(places)
        .map(|(root, marker)| Named::of(&root, &marker))
        .collect()
}

/// Takes hold of a sandbox by its name: to start, stop, snapshot or restore it. Others wait
/// outside meanwhile; dropping it leaves it as it is. The password, if it asks for one, is only
/// for [`Sandbox::endpoint`] to tell.
pub fn open(name: &str, password: Option<String>, places: &Places) -> Result<Sandbox> {
    let (root, _) = search(name, places)?;
    Sandbox::attach(root, password)
}

/// Stops a sandbox and deletes it with all its data and snapshots.
pub fn down(name: &str, places: &Places) -> Result<()> {
    open(name, None, places)?.close()
}

/// Stops and deletes the sandboxes whose processes ended without doing so, where the watchdog
/// could not either. Gives the directories that it deleted.
///
/// Those of living processes, those with names, and directories that are no sandboxes are left
/// alone.
pub fn reap(places: &Places) -> Vec<PathBuf> {
    marker::all(places)
        .into_iter()
        .filter(|(_, marker)| !marker.lasting)
        .filter_map(|(root, _)| reap_one(&root).ok()?.then_some(root))
        .collect()
}

fn reap_one(root: &Path) -> Result<bool> {
    let Some(_owner) = marker::try_own(root)? else {
        return Ok(false);
    };
    // Read again, now that nobody else changes it: it may have been given a name meanwhile.
    match Marker::read(root) {
        Some(marker) if !marker.lasting => {
            if let Some(server) = postmaster::of(&root.join("data"), marker.server) {
                end_now(server)?;
            }
            marker::delete(root, &marker)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Makes sure that nobody has the name, nor gives it away before the file is closed.
pub(crate) fn reserve(name: &str, places: &Places) -> Result<File> {
    marker::check_name(name)?;
    let sandboxes = places.sandboxes();
    places::make(&sandboxes)?;
    let path = sandboxes.join(".names.lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .doing("open", &path)?;
    lock.lock().doing("lock", &path)?;
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
                format!("PostgreSQL {}, stopped", taken.version)
            },
        }),
    }
}

fn lasting(places: &Places) -> impl Iterator<Item = (PathBuf, Marker)> {
    marker::all(places)
        .into_iter()
        .filter(|(_, marker)| marker.lasting && marker.name.is_some())
}

fn search(name: &str, places: &Places) -> Result<(PathBuf, Marker)> {
    lasting(places)
        .find(|(_, marker)| marker.name.as_deref() == Some(name))
        .ok_or_else(|| {
            let names: Vec<_> = list(places).into_iter().map(|named| named.name).collect();
            Error::NoSuchSandbox {
                name: name.to_owned(),
                known: known(&names, "there is none"),
            }
        })
}

pub(crate) fn known(names: &[String], none: &str) -> String {
    if names.is_empty() {
        none.to_owned()
    } else {
        format!("choose among {}", names.join(", "))
    }
}
