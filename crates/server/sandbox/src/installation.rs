//! Finding the server's programs: where the user says, on the PATH, in the usual folders, in our
//! cache; or else fetching them.

use crate::error::{Error, Result};
use crate::fetch;
use crate::fetch::Progress;
use crate::places::Places;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// The oldest major version that is supported.
const OLDEST: u16 = 10;
/// The major version that is fetched if any will do and none is here.
const NEWEST: u16 = 18;

/// Usual folders of installations; the last part but one or two may hold a `*`.
const USUAL: [&str; 10] = [
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
    /// The directory that holds `postgres` and `initdb`.
    pub bin_dir: PathBuf,
    /// The major version.
    pub major: u16,
    /// The full version, such as `17.6` or `18rc1`.
    pub version: String,
    /// How it was found.
    pub source: Source,
}

/// How an installation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The user named it.
    Given,
    /// On the PATH.
    Path,
    /// In one of the usual folders.
    System,
    /// Fetched by us, now or earlier.
    Cache,
}

/// Which server is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The major version; any if none.
    pub major: Option<u16>,
    /// The only place to look at: a directory with the programs, or one whose `bin` has them.
    pub dir: Option<PathBuf>,
    /// Never fetch one.
    pub offline: bool,
}

impl Wanted {
    /// Any installation of a major version, fetched if there is none.
    pub fn major(major: u16) -> Self {
        Self {
            major: Some(major),
            ..Self::default()
        }
    }
}

impl Installation {
    /// The installation in a directory that holds the programs, or whose `bin` does.
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
        // The server looks for its other files relative to where it really lies, and is started
        // with another working directory.
        let bin_dir = bin_dir
            .join("postgres")
            .canonicalize()
            .ok()
            .and_then(|real| real.parent().map(Path::to_owned))
            .filter(|real| has_server(real))
            .or_else(|| bin_dir.canonicalize().ok())
            .unwrap_or_else(|| bin_dir.to_owned());
        let (major, version) = ask_version(&bin_dir)?;
        if major < OLDEST {
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

/// Finds a server, or fetches one; the progress of fetching goes to the callback.
pub fn find(
    wanted: &Wanted,
    places: &Places,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Installation> {
    if let Some(major) = wanted.major.filter(|&major| major < OLDEST) {
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
        .collect();
    // What the user put on the PATH is what the user means; of the rest, the newest.
    suiting.sort_by_key(|found| (found.source != Source::Path, Reverse(found.major)));
    if let Some(found) = suiting.into_iter().next() {
        return Ok(found);
    }
    let major = wanted.major.unwrap_or(NEWEST);
    if wanted.offline {
        return Err(Error::NotInstalled {
            wanted: format!("PostgreSQL {major}"),
        });
    }
    fetch::fetch(major, places, progress)
}

/// All installations on this machine, in the order in which they are preferred: on the PATH, in
/// the usual folders, fetched; the newer before the older.
pub fn installed(places: &Places) -> Vec<Installation> {
    let on_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    let usual = USUAL.iter().flat_map(|pattern| expand(pattern)).collect();
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

/// What was fetched before, the newest first.
pub(crate) fn fetched(places: &Places) -> Vec<Installation> {
    let Ok(entries) = fs::read_dir(places.servers()) else {
        return Vec::new();
    };
    let dirs: Vec<_> = entries
        .flatten()
        // Names with a dot at the front are being unpacked.
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path().join("bin"))
        .collect();
    in_dirs(&dirs, Source::Cache, &mut HashSet::new())
}

fn in_dirs(dirs: &[PathBuf], source: Source, seen: &mut HashSet<PathBuf>) -> Vec<Installation> {
    let mut found: Vec<_> = dirs
        .iter()
        .filter(|dir| dir.is_absolute() && has_server(dir))
        // One that cannot tell its version is none that we could use.
        .filter_map(|dir| Installation::in_bin_dir(dir, source).ok())
        .filter(|installation| seen.insert(installation.bin_dir.clone()))
        .collect();
    if source != Source::Path {
        found.sort_by_key(|i| Reverse((i.major, minor(&i.version))));
    }
    found
}

/// The major version of the server in a directory of programs.
pub fn server_major(bin_dir: &Path) -> Result<u16> {
    ask_version(bin_dir).map(|(major, _)| major)
}

fn ask_version(bin_dir: &Path) -> Result<(u16, String)> {
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

/// A program that was just unpacked may still be open for writing in a process that another
/// thread has forked and that has not yet become another program: a matter of moments.
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

/// `postgres (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)` → 15, `15.8`.
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

/// Some packages have only the client's programs, in the same folders.
fn has_server(dir: &Path) -> bool {
    ["postgres", "initdb"].iter().all(|name| {
        dir.join(name)
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// The directories that a pattern with at most one `*` names.
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
    fn patterns_name_what_is_there() {
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
