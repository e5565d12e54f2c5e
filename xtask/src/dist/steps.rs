//! Steps of a build: they run programs and write files. An error names the program or the file.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use super::Release;

pub(super) fn run(command: &mut Command) -> Result<Output, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Copies the laid out tree to a package's prefix, with compressed manual pages.
pub(super) fn lay_out(release: &Release, prefix: &Path) -> Result<(), String> {
    let parent = prefix.parent().unwrap_or(prefix);
    remove(parent)?;
    fs::create_dir_all(parent).map_err(|error| failed("create", parent, &error))?;
    let installed = release.output.join(release.name);
    run(Command::new("cp").arg("-r").arg(installed).arg(prefix))?;
    let mut compress = Command::new("gzip");
    run(compress.args(["-9nr"]).arg(prefix.join("share/man"))).map(drop)
}

/// Writes SHA256SUMS of files of a directory. Returns its text.
pub(super) fn write_checksums(directory: &Path, files: &[String]) -> Result<String, String> {
    let sums = run(Command::new("sha256sum").args(files).current_dir(directory))?;
    write(&directory.join("SHA256SUMS"), &sums.stdout)?;
    Ok(text(&sums))
}

pub(super) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| failed("write", path, &error))
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent)
        .and_then(|()| fs::copy(from, to).map(drop))
        .map_err(|error| failed("copy", from, &error))
}

pub(super) fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", directory, &error))
        }
        _ => Ok(()),
    }
}
