//! Finds the server's programs: in a directory that the user names, on the PATH, in the usual directories, in
//! the cache; or fetches them.

use crate::dirs::Dirs;
use crate::error::{Error, Result};
use crate::fetch;
use crate::fetch::Progress;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// Oldest supported major version.
const OLDEST_MAJOR: u16 = 10;
/// Major version that is fetched if any version is acceptable and none is installed.
const NEWEST_MAJOR: u16 = 18;

/// Usual directories of installations; one of the last components may be `*`.
const USUAL_DIRS: [&str; 10] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/usr/local/pgsql*/bin",
    "/opt/postgresql*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

/// The programs of a PostgreSQL server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Directory with `postgres` and `initdb`.
    pub bin_dir: PathBuf,
    /// Major version.
    pub major: u16,
    /// Full version, such as `17.6` or `18rc1`.
    pub version: String,
    /// Source of the installation.
    pub source: Source,
}

/// Source of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The user named it.
    Given,
    /// On the PATH.
    Path,
    /// In one of the usual directories.
    System,
    /// Fetched by this program, now or earlier.
    Cache,
}

/// Requirements for a server.
#[derive(Clone, Debug, Default)]
pub struct ServerRequirements {
    /// Major version; `None` for any.
    pub major: Option<u16>,
    /// The only directory to search: one with the programs, or one whose `bin` has them.
    pub dir: Option<PathBuf>,
    /// Required origin.
    pub origin: Origin,
}

/// Origin that is required of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Any: it is fetched if none is installed.
    #[default]
    Any,
    /// Installed or fetched earlier.
    Present,
    /// Fetched by this program, so that servers of several versions are of one kind of build.
    Fetched,
}

impl ServerRequirements {
    /// Requires an installation of a major version, which is fetched if there is none.
    pub fn major(major: u16) -> Self {
        Self {
            major: Some(major),
            ..Self::default()
        }
    }
}

impl Installation {
    /// Returns the installation in a directory with the programs, or whose `bin` has them.
    pub fn at(dir: &Path) -> Result<Self> {
        let bin_dir = [dir.to_owned(), dir.join("bin")]
            .into_iter()
            .find(|bin| has_server(bin))
            .ok_or_else(|| Error::NotAnInstallation {
                dir: dir.to_owned(),
            })?;
        Self::in_bin_dir(&bin_dir, Source::Given)
    }

    pub(crate) fn in_bin_dir(bin_dir: &Path, source: Source) -> Result<Self> {
        // The server finds its other files relative to its real path, and is started in another working
        // directory.
        let bin_dir = bin_dir
            .join("postgres")
            .canonicalize()
            .ok()
            .and_then(|real| real.parent().map(Path::to_owned))
            .filter(|real| has_server(real))
            .or_else(|| bin_dir.canonicalize().ok())
            .unwrap_or_else(|| bin_dir.to_owned());
        let (major, version) = read_version(&bin_dir)?;
        if major < OLDEST_MAJOR {
            return Err(Error::TooOld { wanted: version });
        }
        Ok(Self {
            bin_dir,
            major,
            version,
            source,
        })
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }
}

/// Finds a server, or fetches one and reports the progress to the callback.
pub fn find(
    wanted: &ServerRequirements,
    places: &Dirs,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Installation> {
    if let Some(major) = wanted.major.filter(|&major| major < OLDEST_MAJOR) {
        return Err(Error::TooOld {
            wanted: major.to_string(),
        });
    }
    if let Some(dir) = &wanted.dir {
        let found = Installation::at(dir)?;
        return match wanted.major {
            Some(major) if major != found.major => Err(Error::OtherVersion {
                dir: dir.clone(),
                found: found.version,
                wanted: major,
            }),
            _ => Ok(found),
        };
    }
    let mut suiting: Vec<_> = installed(places)
        .into_iter()
        .filter(|found| wanted.major.is_none_or(|major| major == found.major))
        .filter(|found| wanted.origin != Origin::Fetched || found.source == Source::Cache)
        .collect();
    // An installation on the PATH is the user's choice. Of the others the newest is used.
    suiting.sort_by_key(|found| (found.source != Source::Path, Reverse(found.major)));
    if let Some(found) = suiting.into_iter().next() {
        return Ok(found);
    }
    let major = wanted.major.unwrap_or(NEWEST_MAJOR);
    if wanted.origin == Origin::Present {
        return Err(Error::NotInstalled {
            wanted: format!("PostgreSQL {major}"),
        });
    }
    fetch::fetch(major, places, progress)
}

/// Returns all installations on this machine, in the order of preference: on the PATH, in the usual
/// directories, fetched; newer before older.
pub fn installed(places: &Dirs) -> Vec<Installation> {
    let on_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    let usual = USUAL_DIRS
        .iter()
        .flat_map(|pattern| expand(pattern))
        .collect();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for (source, dirs) in [(Source::Path, on_path), (Source::System, usual)] {
        all.extend(in_dirs(&dirs, source, &mut seen));
    }
    all.extend(
        fetched(places)
            .into_iter()
            .filter(|i| seen.insert(i.bin_dir.clone())),
    );
    all
}

/// Returns the fetched installations, the newest first.
pub(crate) fn fetched(places: &Dirs) -> Vec<Installation> {
    let Ok(entries) = fs::read_dir(places.servers()) else {
        return Vec::new();
    };
    let dirs: Vec<_> = entries
        .flatten()
        // Names with a leading dot are being unpacked.
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path().join("bin"))
        .collect();
    in_dirs(&dirs, Source::Cache, &mut HashSet::new())
}

fn in_dirs(dirs: &[PathBuf], source: Source, seen: &mut HashSet<PathBuf>) -> Vec<Installation> {
    let mut found: Vec<_> = dirs
        .iter()
        .filter(|dir| dir.is_absolute() && has_server(dir))
        // An installation whose version cannot be read is unusable.
        .filter_map(|dir| Installation::in_bin_dir(dir, source).ok())
        .filter(|installation| seen.insert(installation.bin_dir.clone()))
        .collect();
    if source != Source::Path {
        found.sort_by_key(|i| Reverse((i.major, minor(&i.version))));
    }
    found
}

/// Returns the major version of the server in a directory of programs.
pub fn server_major(bin_dir: &Path) -> Result<u16> {
    read_version(bin_dir).map(|(major, _)| major)
}

fn read_version(bin_dir: &Path) -> Result<(u16, String)> {
    let program = bin_dir.join("postgres");
    let unreadable = |said: String| Error::VersionUnreadable {
        program: program.clone(),
        said,
    };
    let output = run_version(&program).map_err(|error| unreadable(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    parse_version(&said).ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        unreadable(format!("{said}{complaint}").trim().to_owned())
    })
}

/// Runs a program for its version. A program that was just unpacked may briefly be open for writing in a
/// child of another thread that has not yet called exec.
fn run_version(program: &Path) -> io::Result<Output> {
    let mut tries = 100;
    loop {
        match Command::new(program).arg("--version").output() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries > 0 => {
                tries -= 1;
                sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// Parses `postgres (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)` to 15, `15.8`.
fn parse_version(said: &str) -> Option<(u16, String)> {
    let version = said
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((digits.parse().ok()?, version.to_owned()))
}

fn minor(version: &str) -> u32 {
    version
        .split_once('.')
        .and_then(|(_, minor)| minor.parse().ok())
        .unwrap_or(0)
}

/// Whether a directory has the server. Some packages have only the client's programs, in the same
/// directories.
fn has_server(dir: &Path) -> bool {
    ["postgres", "initdb"].iter().all(|name| {
        dir.join(name)
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Returns the directories that match a pattern with at most one `*`.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![pattern.into()];
    };
    let Some((folder, prefix)) = before.rsplit_once('/') else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(prefix.as_bytes())
        })
        .map(|entry| entry.path().join(after.trim_start_matches('/')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_all_their_forms() {
        for (said, major, version) in [
            (
                "postgres (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)\n",
                15,
                "15.8",
            ),
            ("postgres (PostgreSQL) 18rc1\n", 18, "18rc1"),
            ("postgres (PostgreSQL) 9.6.24\n", 9, "9.6.24"),
            ("postgres (EnterpriseDB) 16.2.0\n", 16, "16.2.0"),
        ] {
            assert_eq!(
                parse_version(said),
                Some((major, version.to_owned())),
                "{said}"
            );
        }
        assert_eq!(parse_version("postgres: not found"), None);
    }

    #[test]
    fn directory_patterns_expand_to_existing_directories() {
        let top = tempfile::tempdir().unwrap();
        for dir in ["pgsql-16/bin", "pgsql-17/bin", "other/bin"] {
            fs::create_dir_all(top.path().join(dir)).unwrap();
        }
        let mut found = expand(top.path().join("pgsql-*/bin").to_str().unwrap());
        found.sort();
        assert_eq!(
            found,
            ["pgsql-16/bin", "pgsql-17/bin"].map(|dir| top.path().join(dir))
        );
    }
}
