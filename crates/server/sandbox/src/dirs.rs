//! Directories that outlive a run: fetched servers, and sandboxes.

use crate::error::{Error, ErrorContext, Result};
use crate::privileges;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories of fetched servers and of sandboxes.
///
/// Root does not use its home directory. PostgreSQL refuses to run as root, and the user that it runs as
/// instead can neither execute a server below `/root` nor enter a data directory there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// Fetched servers, in `postgresql/VERSION`: `$REHEARSE_CACHE_DIR`, otherwise `/var/cache/rehearse` for
    /// root, otherwise `rehearse` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub cache: PathBuf,
    /// Sandboxes, each in its own directory of `sandboxes`: `$REHEARSE_STATE_DIR`, otherwise
    /// `/var/lib/rehearse` for root, otherwise `rehearse` in `$XDG_STATE_HOME` or `~/.local/state`.
    pub state: PathBuf,
}

impl Dirs {
    /// Returns the directories that the environment specifies.
    pub fn from_environment() -> Result<Self> {
        Self::decide(privileges::is_root(), |name| std::env::var_os(name))
    }

    fn decide(root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        // The XDG specification ignores relative paths, and an empty value counts as unset.
        let path = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let place = |own: &'static str, root_has, xdg, below_home, what| {
            if let Some(dir) = path(own) {
                return Ok(dir);
            }
            if root {
                return Ok(PathBuf::from(root_has));
            }
            path(xdg)
                .or_else(|| Some(path("HOME")?.join(below_home)))
                .map(|dir| dir.join("rehearse"))
                .ok_or(Error::NoFolder {
                    what,
                    variable: own,
                })
        };
        Ok(Self {
            cache: place(
                "REHEARSE_CACHE_DIR",
                "/var/cache/rehearse",
                "XDG_CACHE_HOME",
                ".cache",
                "fetched servers",
            )?,
            state: place(
                "REHEARSE_STATE_DIR",
                "/var/lib/rehearse",
                "XDG_STATE_HOME",
                ".local/state",
                "sandboxes",
            )?,
        })
    }

    pub(crate) fn servers(&self) -> PathBuf {
        self.cache.join("postgresql")
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.state.join("sandboxes")
    }
}

/// Creates a directory with its parents. Directories that root creates are accessible to all users,
/// regardless of the umask.
pub(crate) fn make(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(above) = dir.parent() {
        make(above)?;
    }
    match fs::create_dir(dir) {
        Ok(()) => {
            let mode = if privileges::is_root() { 0o755 } else { 0o700 };
            fs::set_permissions(dir, fs::Permissions::from_mode(mode))
                .context("set the permissions of", dir)
        }
        // Another process created it first.
        Err(_) if dir.is_dir() => Ok(()),
        refused => refused.context("make the directory", dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(root: bool, set: &[(&str, &str)]) -> Result<Dirs> {
        Dirs::decide(root, |name| {
            set.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_user_has_them_in_the_usual_folders() {
        let places = decide(false, &[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/big")]).unwrap();
        assert_eq!(places.cache, Path::new("/big/rehearse"));
        assert_eq!(places.state, Path::new("/home/ada/.local/state/rehearse"));
    }

    #[test]
    fn root_has_them_where_others_can_enter() {
        let places = decide(true, &[("HOME", "/root"), ("XDG_CACHE_HOME", "/root/c")]).unwrap();
        assert_eq!(places.cache, Path::new("/var/cache/rehearse"));
        assert_eq!(places.state, Path::new("/var/lib/rehearse"));
    }

    #[test]
    fn our_own_variables_win_and_relative_paths_do_not_count() {
        let set = [
            ("REHEARSE_CACHE_DIR", "/c"),
            ("REHEARSE_STATE_DIR", "relative"),
            ("HOME", "/home/ada"),
        ];
        assert_eq!(decide(true, &set).unwrap().cache, Path::new("/c"));
        assert_eq!(
            decide(false, &set).unwrap().state,
            Path::new("/home/ada/.local/state/rehearse")
        );
    }

    #[test]
    fn without_a_home_the_variable_to_set_is_named() {
        let said = decide(false, &[]).unwrap_err().to_string();
        assert!(said.contains("REHEARSE_CACHE_DIR"), "{said}");
    }
}
