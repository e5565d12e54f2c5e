//! Resolves the user's arguments to inputs: files, directories, patterns that the shell left alone,
//! and `-`. Files that are left out are listed with the reason.
//!
//! The program runs it before a capture. It looks at names and kinds of files only; whether a found
//! file is a log is decided when it is opened.

use std::collections::HashMap;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Input, LogError};

/// A named or found file that is not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExcludedFile {
    /// Name of the file.
    pub name: String,
    /// Reason as a clause: "it is a directory".
    pub reason: String,
}

/// The inputs of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Inputs without duplicates, in the order of the arguments; within a directory or pattern, of
    /// the names.
    pub inputs: Vec<Input>,
    /// Files that were named or found and are not read.
    pub left_out: Vec<ExcludedFile>,
}

/// Resolves arguments to inputs. A directory stands for all files in it, but not for its
/// directories or names that begin with a dot; symbolic links are followed. A name with `*`, `?` or
/// `[` that no file has is a pattern, in which `**` stands for directories. A file under several
/// names is taken once.
///
/// # Errors
/// If a pattern matches nothing, a directory has no file, or either cannot be read.
pub fn select(arguments: &[PathBuf]) -> Result<Selection, LogError> {
    let mut chosen = SelectionBuilder::default();
    for argument in arguments {
        let before = chosen.selection.inputs.len();
        if argument == Path::new("-") {
            chosen.selection.inputs.push(Input::Stdin);
        } else if is_pattern(argument) {
            for path in expand_pattern(argument)? {
                match metadata(&path)? {
                    found if found.is_dir() => chosen.exclude(&path, "it is a directory"),
                    found => chosen.take(&path, &found, Input::Path),
                }
            }
        } else {
            match std::fs::metadata(argument) {
                Ok(found) if found.is_dir() => {
                    chosen.take_directory(argument)?;
                    if chosen.selection.inputs.len() == before && chosen.duplicates == 0 {
                        return Err(empty_directory_error(argument, &chosen.selection.left_out));
                    }
                }
                Ok(found) => chosen.take(argument, &found, Input::Path),
                // Opening it returns the reason why it cannot be read.
                Err(_) => chosen.selection.inputs.push(Input::Path(argument.clone())),
            }
        }
    }
    Ok(chosen.selection)
}

#[derive(Default)]
struct SelectionBuilder {
    selection: Selection,
    /// Device and inode of the file, and the name under which it was taken.
    taken: HashMap<(u64, u64), String>,
    /// Number of files that were found again under another name.
    duplicates: usize,
}

impl SelectionBuilder {
    fn exclude(&mut self, path: &Path, reason: impl Into<String>) {
        self.selection.left_out.push(ExcludedFile {
            name: path.display().to_string(),
            reason: reason.into(),
        });
    }

    fn take(&mut self, path: &Path, found: &Metadata, input: fn(PathBuf) -> Input) {
        // A pipe, such as the shell's <(…), has no other names.
        if found.is_file() {
            let name = path.display().to_string();
            if let Some(other) = self.taken.get(&(found.dev(), found.ino())) {
                let reason = match *other == name {
                    true => "it was given twice; it is read once".to_owned(),
                    false => format!("it is the same file as {other}, which is read"),
                };
                self.duplicates += 1;
                return self.exclude(path, reason);
            }
            self.taken.insert((found.dev(), found.ino()), name);
        }
        self.selection.inputs.push(input(path.to_owned()));
    }

    fn take_directory(&mut self, directory: &Path) -> Result<(), LogError> {
        for path in list_directory(directory)? {
            let hidden = path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            match std::fs::metadata(&path) {
                _ if hidden => self.exclude(&path, "its name begins with a dot"),
                Ok(found) if found.is_file() => self.take(&path, &found, Input::Found),
                Ok(found) => self.exclude(&path, file_type_name(found.file_type())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.exclude(&path, "it is a symbolic link to nothing");
                }
                Err(error) => return Err(unreadable(&path, error)),
            }
        }
        Ok(())
    }
}

fn file_type_name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "it is a directory; name it to read the files in it"
    } else if kind.is_fifo() {
        "it is a pipe"
    } else if kind.is_socket() {
        "it is a socket"
    } else {
        "it is a device"
    }
}

fn unreadable(path: &Path, error: io::Error) -> LogError {
    LogError::Read {
        name: path.display().to_string(),
        error,
    }
}

fn metadata(path: &Path) -> Result<Metadata, LogError> {
    std::fs::metadata(path).map_err(|error| unreadable(path, error))
}

/// Lists a directory, sorted by name.
pub(super) fn list_directory(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let failed = |error| unreadable(directory, error);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    Ok(entries)
}

/// Returns whether the shell would have expanded the argument, had it not been quoted.
pub(super) fn is_pattern(argument: &Path) -> bool {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[');
    argument.as_os_str().as_encoded_bytes().iter().any(special)
        && std::fs::symlink_metadata(argument).is_err()
}

/// Lists the files that match a pattern, sorted by name; at least one.
pub(super) fn expand_pattern(pattern: &Path) -> Result<Vec<PathBuf>, LogError> {
    let shown = pattern.display().to_string();
    let wrong = |reason: String| LogError::Pattern {
        pattern: shown.clone(),
        reason,
    };
    // As in a shell, a star does not match a leading dot.
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::new()
    };
    let found = glob::glob_with(&shown, options)
        .map_err(|error| wrong(format!("is no pattern: {}", error.msg)))?;
    let mut paths = Vec::new();
    for path in found {
        let unread = |error: glob::GlobError| {
            let path = error.path().to_owned();
            unreadable(&path, error.into())
        };
        paths.push(path.map_err(unread)?);
    }
    if paths.is_empty() {
        return Err(wrong("matches no file".to_owned()));
    }
    Ok(paths)
}

/// Explains why a directory has nothing to read, and suggests an argument.
pub(super) fn empty_directory_error(directory: &Path, left_out: &[ExcludedFile]) -> LogError {
    let inside: Vec<&ExcludedFile> = left_out
        .iter()
        .filter(|left_out| Path::new(&left_out.name).parent() == Some(directory))
        .collect();
    let logs = ["log", "pg_log"]
        .map(|name| directory.join(name))
        .into_iter()
        .find(|logs| logs.is_dir());
    let advice = match logs {
        Some(logs) => format!(
            "the server's log directory may be {}: name that",
            logs.display()
        ),
        None => "name the directory that SHOW log_directory prints, or the files".to_owned(),
    };
    LogError::NoLogThere {
        name: directory.display().to_string(),
        left_out: match inside.first() {
            None => String::new(),
            Some(first) if inside.len() == 1 => {
                format!(" ({} was left out: {})", first.name, first.reason)
            }
            Some(first) => format!(
                " ({} others were left out; {}: {})",
                inside.len(),
                first.name,
                first.reason
            ),
        },
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn room(names: &[&str]) -> tempfile::TempDir {
        let room = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(room.path().join(name), name).unwrap();
        }
        room
    }

    fn names(selection: &Selection) -> Vec<String> {
        let base = |name: String| name.rsplit('/').next().unwrap().to_owned();
        let inputs = selection.inputs.iter();
        inputs.map(|input| base(input.name())).collect()
    }

    #[test]
    fn a_directory_gives_its_files_and_says_what_it_leaves_out() {
        let room = room(&["b.log", "a.log", ".a.log.swp"]);
        std::fs::create_dir(room.path().join("old")).unwrap();
        symlink(room.path().join("a.log"), room.path().join("current")).unwrap();
        symlink(room.path().join("none"), room.path().join("gone")).unwrap();
        let selection = select(&[room.path().to_owned()]).unwrap();
        assert_eq!(names(&selection), ["a.log", "b.log"]);
        let reasons: Vec<&str> = selection
            .left_out
            .iter()
            .map(|left_out| left_out.reason.as_str())
            .collect();
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        for (reason, word) in reasons.iter().zip(["dot", "a.log", "nothing", "directory"]) {
            assert!(reason.contains(word), "{reason}");
        }
    }

    #[test]
    fn a_pattern_that_the_shell_left_alone_is_expanded_and_one_file_is_read_once() {
        let room = room(&["a.log", "b.log", "c.txt", "[x].log"]);
        let path = |name: &str| room.path().join(name);
        let selection = select(&[path("*.log"), path("a.log"), path("[x].log")]).unwrap();
        assert_eq!(names(&selection), ["[x].log", "a.log", "b.log"]);
        assert_eq!(selection.left_out.len(), 2);
        let error = select(&[path("*.gz")]).unwrap_err().to_string();
        assert!(error.contains("matches no file"), "{error}");
    }

    #[test]
    fn a_directory_without_files_is_refused_with_what_to_name() {
        let room = room(&[]);
        let error = select(&[room.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("SHOW log_directory"), "{error}");
        std::fs::create_dir(room.path().join("log")).unwrap();
        let error = select(&[room.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("/log: name that"), "{error}");
    }
}
