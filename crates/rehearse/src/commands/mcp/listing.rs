//! `list`: artefacts and logs below the roots.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};
use study::Failure;

use super::answer::{Answer, Limits};
use super::call_arguments::List;
use super::roots::{Roots, is_log_name};

/// Largest depth of directories below a root.
const DEPTH_MAX: usize = 8;
/// Largest number of entries that are examined.
const ENTRIES_MAX: usize = 200_000;
/// Largest manifest that is read, in bytes.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// An artefact or a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Found {
    path: PathBuf,
    /// `workload`, `run`, `proof`, `sweep` … or `log`.
    kind: String,
    /// Time of the last change, in RFC 3339.
    modified: String,
    #[serde(skip)]
    modified_us: i64,
}

/// A directory that is not listed completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Unlisted {
    path: PathBuf,
    reason: String,
}

#[derive(Debug, Default)]
struct Listing {
    found: Vec<Found>,
    incomplete: Vec<Unlisted>,
    links: u64,
    entries: usize,
}

/// Lists a directory, or all roots.
///
/// # Errors
/// If the directory is not in a root.
pub fn list(arguments: &List, roots: &Roots, limits: Limits) -> Result<Answer, Failure> {
    let directories = match &arguments.path {
        Some(path) => vec![roots.resolve_directory(path)?],
        None => roots.directories().to_vec(),
    };
    let mut listing = Listing::default();
    for directory in &directories {
        listing.add(directory, 0);
    }
    let Listing {
        mut found,
        incomplete,
        links,
        ..
    } = listing;
    found.sort_by(|a, b| (b.modified_us, &a.path).cmp(&(a.modified_us, &b.path)));
    let count = found.len();
    let mut text = format!("Artefacts and logs, the newest first: {count}");
    if !incomplete.is_empty() {
        let first = &incomplete[0];
        text = format!(
            "The listing is incomplete: {} is not listed ({}){}.\n{text}",
            first.path.display(),
            first.reason,
            match incomplete.len() - 1 {
                0 => String::new(),
                others => format!(", nor are {others} others"),
            }
        );
    }
    for one in found.iter().take(limits.rows) {
        text.push_str(&format!(
            "\n{}  {}  {}",
            one.modified,
            one.kind,
            one.path.display()
        ));
    }
    let content = json!({
        "paths": directories,
        "artefacts": found,
        "is_complete": incomplete.is_empty(),
        "incomplete": incomplete,
        "links_not_followed": links,
    });
    Ok(Answer::within(limits, &text, content))
}

impl Listing {
    fn add(&mut self, path: &Path, depth: usize) {
        match read_kind(path) {
            Ok(Some(kind)) => return self.push(path, kind),
            Ok(None) => {}
            Err(reason) => return self.leave_out(path, reason),
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.leave_out(path, error.to_string()),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.leave_out(path, error.to_string()),
            };
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                let reason = format!("more than {ENTRIES_MAX} entries; list a directory of it");
                return self.leave_out(path, reason);
            }
            let Ok(kind) = entry.file_type() else {
                self.leave_out(&entry.path(), "its type is not known".to_owned());
                continue;
            };
            if kind.is_symlink() {
                self.links += 1;
            } else if kind.is_dir() && depth == DEPTH_MAX {
                let reason = format!("more than {DEPTH_MAX} directories deep; list it alone");
                self.leave_out(&entry.path(), reason);
            } else if kind.is_dir() {
                self.add(&entry.path(), depth + 1);
            } else if kind.is_file() && is_log_name(&entry.file_name()) {
                self.push(&entry.path(), "log".to_owned());
            }
        }
    }

    fn push(&mut self, path: &Path, kind: String) {
        let manifest = path.join("manifest.json");
        let dated = if manifest.exists() { &manifest } else { path };
        let modified = fs::metadata(dated).and_then(|metadata| metadata.modified());
        let since = modified
            .unwrap_or(SystemTime::UNIX_EPOCH)
            .duration_since(UNIX_EPOCH);
        let modified_us = since.map_or(0, |time| {
            i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
        });
        self.found.push(Found {
            path: path.to_owned(),
            kind,
            modified: clock::rfc3339_text(modified_us),
            modified_us,
        });
    }

    fn leave_out(&mut self, path: &Path, reason: String) {
        self.incomplete.push(Unlisted {
            path: path.to_owned(),
            reason,
        });
    }
}

/// Returns the kind in the manifest of an artefact; `None` if the path is none.
pub fn kind_of(path: &Path) -> Option<String> {
    read_kind(path).ok().flatten()
}

/// Returns the kind as [`kind_of`] does. The error describes a manifest that cannot be read.
fn read_kind(path: &Path) -> Result<Option<String>, String> {
    let manifest = path.join("manifest.json");
    // A run that several workers wrote is one run, and its parts are no artefacts of their own.
    if fs::symlink_metadata(path.join(run::SHARDS_FILE)).is_ok_and(|found| found.is_file()) {
        return Ok(Some("run".to_owned()));
    }
    // A link may lead out of the roots.
    if !fs::symlink_metadata(&manifest).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let unreadable = |error: &dyn std::error::Error| format!("manifest.json: {error}");
    let text = archive::read_small_file(&manifest, MANIFEST_BYTES_MAX);
    let text = text.map_err(|error| unreadable(&error))?;
    let manifest: Value = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
    Ok(manifest["kind"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artefact_with_a_damaged_manifest_makes_the_listing_incomplete() {
        let room = tempfile::tempdir().unwrap();
        for (name, manifest) in [
            ("a.run", "{"),
            ("b.run", r#"{"kind":"run"}"#),
            ("page", "{}"),
        ] {
            fs::create_dir(room.path().join(name)).unwrap();
            fs::write(room.path().join(name).join("manifest.json"), manifest).unwrap();
        }
        let mut listing = Listing::default();
        listing.add(room.path(), 0);
        assert_eq!(listing.found.len(), 1);
        assert_eq!(listing.incomplete.len(), 1);
        assert!(listing.incomplete[0].path.ends_with("a.run"));
    }

    #[test]
    fn run_of_several_workers_is_listed_as_one() {
        let room = tempfile::tempdir().unwrap();
        let run = room.path().join("a.run");
        for part in ["part-0", "part-1"] {
            fs::create_dir_all(run.join(part)).unwrap();
            fs::write(run.join(part).join("manifest.json"), r#"{"kind":"run"}"#).unwrap();
        }
        fs::write(run.join(::run::SHARDS_FILE), "{}").unwrap();
        let mut listing = Listing::default();
        listing.add(room.path(), 0);
        assert_eq!(listing.found.len(), 1);
        assert_eq!(
            (&listing.found[0].path, &*listing.found[0].kind),
            (&run, "run")
        );
    }

    #[test]
    fn directory_that_is_too_deep_makes_the_listing_incomplete() {
        let room = tempfile::tempdir().unwrap();
        let deep = room.path().join("a/".repeat(DEPTH_MAX + 1));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("x.log"), "").unwrap();
        fs::write(room.path().join("y.log"), "").unwrap();
        let roots = Roots::new(&[room.path().to_owned()]).unwrap();
        let limits = Limits {
            rows: 10,
            bytes: 10_000,
        };
        let answer = list(&List { path: None }, &roots, limits).unwrap();
        assert_eq!(answer.content["is_complete"], false);
        assert!(
            answer.text.starts_with("The listing is incomplete: "),
            "{}",
            answer.text
        );
        assert_eq!(answer.content["artefacts"].as_array().unwrap().len(), 1);
    }
}
