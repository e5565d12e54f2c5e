//! Files that are written in addition to standard output: pages and reports.
//!
//! Each file is complete, or does not exist. It is created before the long work under a
//! temporary name in the same directory, so that a path that cannot be written is reported at
//! once, and is renamed when it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use study::Failure;
use study::notes::note;

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Option that requests it.
    pub option: &'static str,
    /// First characters of every file of this kind. A file that begins otherwise belongs to
    /// somebody else, and is not overwritten.
    pub start: &'static str,
}

/// HTML page.
pub const PAGE: Form = Form {
    option: "--html",
    start: "<!DOCTYPE html>",
};

/// JUnit report.
pub const JUNIT: Form = Form {
    option: "--junit",
    start: "<?xml",
};

/// Markdown comment.
pub const MARKDOWN: Form = Form {
    option: "--markdown",
    start: crate::compare_markdown::MARK,
};

/// Markdown comment on plans.
pub const PLANS_MARKDOWN: Form = Form {
    option: "--markdown",
    start: crate::plans_markdown::MARK,
};

/// Markdown on an upgrade.
pub const UPGRADE_MARKDOWN: Form = Form {
    option: "--markdown",
    start: crate::upgrade_inspect_markdown::MARK,
};

/// Comparison or workload as comma-separated values.
pub const CSV: Form = Form {
    option: "--csv",
    start: crate::csv::START,
};

/// Findings on a migration file.
pub const SARIF: Form = Form {
    option: "--sarif",
    start: crate::sarif::START,
};

/// History as comma-separated values.
pub const HISTORY_CSV: Form = Form {
    option: "--output",
    start: "time,run,",
};

/// Starting point of a capture.
pub const STARTING_POINT: Form = Form {
    option: "--output",
    start: "{\n  \"server_time_us\"",
};

/// File to write.
#[derive(Debug)]
pub struct Output {
    form: Form,
    path: PathBuf,
    file: File,
    /// Temporary name until the file is complete; `None` for a pipe or device.
    unfinished: Option<PathBuf>,
}

/// Creates all files under temporary names.
///
/// # Errors
/// If one cannot be written, is not a file of its kind, or is named twice. No temporary file is
/// left then.
pub fn begin(wanted: &[(Form, &Path)]) -> Result<Vec<Output>, Failure> {
    for (at, (form, path)) in wanted.iter().enumerate() {
        if let Some((other, _)) = wanted[..at].iter().find(|(_, other)| other == path) {
            return Err(Failure::usage(format!(
                "{} and {} are both to be written to {}; give each a name of its own",
                other.option,
                form.option,
                path.display()
            )));
        }
    }
    for (_, path) in wanted {
        clear(path);
    }
    wanted
        .iter()
        .map(|(form, path)| Output::begin(*form, path))
        .collect()
}

/// Removes temporary files of killed processes: the process number in the name is unused or
/// ours, and nobody holds the lock. Files that cannot be removed stay.
fn clear(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let start = format!(".{name}.");
    for entry in entries.flatten() {
        let found = entry.file_name();
        let number = found
            .to_str()
            .and_then(|found| found.strip_prefix(&start)?.strip_suffix(".partial"))
            .and_then(|number| number.parse::<u32>().ok());
        let Some(number) = number else { continue };
        let ours = number == std::process::id();
        if !ours && Path::new("/proc").join(number.to_string()).exists() {
            continue;
        }
        // The process may be in another container, where numbers are others'.
        let file = OpenOptions::new().write(true).open(entry.path());
        if file.is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Writes one file, and reports its name.
///
/// # Errors
/// As [`begin`] and [`Output::finish`].
pub fn write(form: Form, path: &Path, content: &str) -> Result<(), Failure> {
    for output in begin(&[(form, path)])? {
        output.finish(content)?;
    }
    Ok(())
}

/// Opens a pipe for writing. Fails if no process has it open for reading.
fn open_without_waiting(pipe: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    options.open(pipe)
}

impl Output {
    fn begin(form: Form, path: &Path) -> Result<Self, Failure> {
        let failed = |error: &io::Error| {
            Failure::could_not(format!(
                "{} {} cannot be written ({error}); give {} a file in a directory that is there and that you may write to",
                form.option,
                path.display(),
                form.option
            ))
        };
        let found = std::fs::metadata(path).ok();
        if found.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(Failure::usage(format!(
                "{} {} is a directory; give the name of a file",
                form.option,
                path.display()
            )));
        }
        if let Some(found) = found.as_ref().filter(|found| !found.is_file()) {
            // It stays open until the pipe is open for good: a reader that sees it closed would end.
            let probe = open_without_waiting(path);
            if found.file_type().is_fifo() && probe.is_err() {
                return Err(Failure::usage(format!(
                    "{} {} is a pipe that nobody reads; start its reader first",
                    form.option,
                    path.display()
                )));
            }
            // A pipe or a terminal takes what is written to it.
            let file = OpenOptions::new().write(true).open(path);
            return Ok(Output {
                form,
                path: path.to_owned(),
                file: file.map_err(|error| failed(&error))?,
                unfinished: None,
            });
        }
        if found.is_some() {
            let mut start = Vec::new();
            File::open(path)
                .and_then(|file| file.take(form.start.len() as u64).read_to_end(&mut start))
                .map_err(|error| failed(&error))?;
            if !start.is_empty() && !start.eq_ignore_ascii_case(form.start.as_bytes()) {
                return Err(Failure::usage(format!(
                    "{} is there and was not written by {}, so it is not written over; give another name, or remove it",
                    path.display(),
                    form.option
                )));
            }
        }
        let Some(name) = path.file_name() else {
            return Err(Failure::usage(format!(
                "{} {} has no name; give the name of a file",
                form.option,
                path.display()
            )));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        let unfinished = path.with_file_name(hidden);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            // SQL holds secrets, as an artefact does.
            .mode(0o600)
            .open(&unfinished)
            .map_err(|error| failed(&error))?;
        // The lock is held until the file is closed, and marks it as in use. On file systems without
        // locks, only the process number does.
        let _ = file.try_lock();
        Ok(Output {
            form,
            path: path.to_owned(),
            file,
            unfinished: Some(unfinished),
        })
    }

    /// Returns the kind of the file.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Writes the contents, renames the file to its final name, and reports that.
    ///
    /// # Errors
    /// If the disk refuses. The temporary file is removed then.
    pub fn finish(self, content: &str) -> Result<(), Failure> {
        let what = match self.form {
            PAGE => "; open it in a browser",
            _ => "",
        };
        let wrote = format!("wrote {}{what}", self.path.display());
        self.replace(content)?;
        note(&wrote);
        Ok(())
    }

    /// Writes the contents, and renames the file to its final name.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn replace(mut self, content: &str) -> Result<(), Failure> {
        let mut write = || -> io::Result<()> {
            self.file.write_all(content.as_bytes())?;
            if let Some(unfinished) = &self.unfinished {
                self.file.sync_all()?;
                std::fs::rename(unfinished, &self.path)?;
            }
            Ok(())
        };
        write().map_err(|error| {
            Failure::could_not(format!(
                "{} {} could not be written ({error}); make room, or give another file",
                self.form.option,
                self.path.display()
            ))
        })?;
        self.unfinished = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = std::fs::remove_file(unfinished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.xml");
        let mut begun = begin(&[(JUNIT, &path)]).unwrap();
        assert!(!path.exists());
        begun.pop().unwrap().finish("<?xml?><a/>").unwrap();
        assert_eq!(names(directory.path()), ["a.xml"]);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // What was there stays until another is complete.
        let begun = begin(&[(JUNIT, &path)]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<?xml?><a/>");
        drop(begun);
        assert_eq!(names(directory.path()), ["a.xml"]);
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let ours = format!(".a.xml.{}.partial", std::process::id());
        // No process has a number so great; that of 1 lives; the others are no such files.
        let kept = [
            ".a.xml.1.partial",
            ".a.xml.x.partial",
            ".b.xml.4294967295.partial",
        ];
        for name in kept
            .iter()
            .copied()
            .chain([".a.xml.4294967295.partial", &ours])
        {
            std::fs::write(path(name), "left").unwrap();
        }
        begin(&[(JUNIT, &path("a.xml"))]).unwrap();
        assert_eq!(names(directory.path()), kept);
        // What somebody still writes stays.
        let held = File::create(path(".a.xml.4294967295.partial")).unwrap();
        held.lock().unwrap();
        begin(&[(JUNIT, &path("a.xml"))]).unwrap();
        assert_eq!(names(directory.path()).len(), 4);
        drop(held);
        begin(&[(JUNIT, &path("a.xml"))]).unwrap();
        assert_eq!(names(directory.path()), kept);
    }

    #[test]
    fn what_is_somebody_elses_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("notes"), "mine").unwrap();
        std::fs::write(path("empty"), "").unwrap();
        let refused = |wanted: &[(Form, &Path)], words: &str| {
            let failure = begin(wanted).unwrap_err();
            assert!(failure.message.contains(words), "{}", failure.message);
        };
        refused(&[(JUNIT, &path("notes"))], "not written over");
        refused(&[(JUNIT, directory.path())], "is a directory");
        refused(&[(JUNIT, &path("no/such"))], "cannot be written");
        refused(
            &[(JUNIT, &path("x")), (MARKDOWN, &path("x"))],
            "--junit and --markdown are both",
        );
        // The first is taken back where the second cannot be.
        refused(&[(JUNIT, &path("y")), (MARKDOWN, &path("notes"))], "notes");
        begin(&[(JUNIT, &path("empty"))]).unwrap();
        assert_eq!(names(directory.path()), ["empty", "notes"]);
    }
}
