//! Directories that the server gives access to.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use report::one_line;
use serde::{Deserialize, Serialize};
use study::Failure;

/// Largest number of entries of an artefact that are checked for links. A proof has a few thousand files.
const ENTRIES_MAX: usize = 1_000_000;

/// Largest number of characters of a path that a message has.
const SHOWN_MAX: usize = 400;

/// Directories that paths of calls must be in, absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Resolves the directories that the user gave; the current one if there are none.
    ///
    /// # Errors
    /// If one does not exist, or is no directory.
    pub fn new(given: &[PathBuf]) -> Result<Self, Failure> {
        let current = [PathBuf::from(".")];
        let given = if given.is_empty() { &current } else { given };
        let resolve = |path: &PathBuf| {
            let refused = |reason: String| {
                Failure::usage(format!(
                    "--root {} cannot be used: {reason}; give a directory with artefacts",
                    path.display()
                ))
            };
            let resolved = path
                .canonicalize()
                .map_err(|error| refused(error.to_string()))?;
            match resolved.is_dir() {
                true => Ok(resolved),
                false => Err(refused("it is no directory".to_owned())),
            }
        };
        let mut roots: Vec<PathBuf> = given.iter().map(resolve).collect::<Result<_, _>>()?;
        roots.sort();
        // A directory within another root is covered by it.
        roots.dedup_by(|one, before| one.starts_with(before));
        Ok(Roots(roots))
    }

    /// Returns the directories.
    pub fn directories(&self) -> &[PathBuf] {
        &self.0
    }

    /// Resolves the path of an artefact or log. A relative one is relative to the first root. No link in it leads out of
    /// the roots.
    ///
    /// # Errors
    /// If nothing in a root has this path. The message does not depend on what is outside of the roots.
    pub fn resolve(&self, given: &str) -> Result<PathBuf, Failure> {
        let found = self.find(given);
        let found = found.filter(|path| self.has_only_inner_links(path));
        found.ok_or_else(|| unavailable(given))
    }

    /// Resolves the path of a directory to list. Links in it must not be followed.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_directory(&self, given: &str) -> Result<PathBuf, Failure> {
        self.find(given).ok_or_else(|| unavailable(given))
    }

    fn find(&self, given: &str) -> Option<PathBuf> {
        let resolved = self.0[0].join(given).canonicalize().ok()?;
        self.contains(&resolved).then_some(resolved)
    }

    fn contains(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }

    /// Reports whether the links in a directory stay in the roots, also those in directories that such links lead to.
    fn has_only_inner_links(&self, path: &Path) -> bool {
        let mut directories = vec![path.to_owned()];
        let mut linked = HashSet::new();
        let mut checked = 0;
        while let Some(directory) = directories.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                // A file has no entries. A directory that cannot be read is refused when it is opened.
                continue;
            };
            for entry in entries {
                checked += 1;
                let Ok((path, kind)) =
                    entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))
                else {
                    return false;
                };
                if checked > ENTRIES_MAX {
                    return false;
                }
                if kind.is_dir() {
                    directories.push(path);
                } else if kind.is_symlink() {
                    match path.canonicalize() {
                        Ok(target) if self.contains(&target) => {
                            if linked.insert(target.clone()) {
                                directories.push(target);
                            }
                        }
                        _ => return false,
                    }
                }
            }
        }
        true
    }
}

fn unavailable(given: &str) -> Failure {
    let given = one_line(given, SHOWN_MAX);
    Failure::usage(format!(
        "{given} is not available: the roots of this server have no artefact or log of this path; call `list` for those that there are"
    ))
}

/// Reports whether a name is that of a log, plain or compressed.
pub fn is_log_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    let plain = [".gz", ".zst", ".bz2", ".xz"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name);
    let is_rotated = |ending: &str| plain.contains(&format!("{ending}."));
    [".log", ".jsonlog", ".csvlog"]
        .iter()
        .any(|ending| plain.ends_with(ending) || is_rotated(ending))
        || plain.starts_with("postgresql") && (plain.ends_with(".csv") || plain.ends_with(".json"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn path_outside_of_the_roots_is_refused_with_one_message_whether_it_exists_or_not() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        for name in ["root/a.run", "outside/b.run", "rootless"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        symlink(at("outside"), at("root/link")).unwrap();
        symlink(at("nowhere"), at("root/dangling")).unwrap();
        let roots = Roots::new(&[at("root")]).unwrap();
        let absolute = |name: &str| at(name).display().to_string();
        assert!(roots.resolve("a.run").is_ok());
        assert!(roots.resolve(&absolute("root/a.run")).is_ok());
        for path in [
            absolute("outside/b.run"),
            absolute("outside/absent.run"),
            absolute("rootless"),
            "../outside/b.run".to_owned(),
            "../outside/absent.run".to_owned(),
            "link/b.run".to_owned(),
            "link/absent.run".to_owned(),
            "dangling".to_owned(),
            "absent.run".to_owned(),
        ] {
            let message = roots.resolve(&path).unwrap_err().message;
            assert!(
                message.starts_with(&format!("{path} is not available: the roots")),
                "{message}"
            );
        }
    }

    #[test]
    fn artefact_with_a_link_out_of_the_roots_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        fs::create_dir_all(at("root/a.run/deep")).unwrap();
        fs::write(at("secret"), "").unwrap();
        fs::write(at("root/shared"), "").unwrap();
        let roots = Roots::new(&[at("root")]).unwrap();
        symlink(at("root/shared"), at("root/a.run/deep/inner")).unwrap();
        assert!(roots.resolve("a.run").is_ok());
        symlink(at("secret"), at("root/a.run/deep/manifest.json")).unwrap();
        assert!(roots.resolve("a.run").is_err());
        fs::create_dir(at("root/b.run")).unwrap();
        symlink(at("root/b.run"), at("root/b.run/cycle")).unwrap();
        assert!(roots.resolve("b.run").is_ok());
        symlink(at("root/a.run"), at("root/b.run/linked")).unwrap();
        assert!(roots.resolve("b.run").is_err());
    }

    #[test]
    fn root_within_another_is_covered_and_a_missing_one_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let inner = room.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let roots = Roots::new(&[inner, room.path().to_owned()]).unwrap();
        assert_eq!(roots.directories().len(), 1);
        assert!(Roots::new(&[room.path().join("absent")]).is_err());
    }

    #[test]
    fn names_of_logs_are_recognised() {
        let is_log = |name: &str| is_log_name(OsStr::new(name));
        for name in [
            "a.log",
            "postgresql-2026.log.gz",
            "a.log.1",
            "postgresql-a.csv",
            "b.jsonlog",
        ] {
            assert!(is_log(name), "{name}");
        }
        for name in ["a.run", "catalog", "a.csv", "manifest.json"] {
            assert!(!is_log(name), "{name}");
        }
    }
}
