//! Replays of a part of a workload. The part is written next to the run, replayed, and removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use transform::Slice;
use workload::{Identity, Keyring, Recipient, WorkloadReader};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::slice_workload::write_slice;

/// Suffix of a part's file name, after the process id.
const SUFFIX: &str = ".part.workload";

/// The workload that is replayed: the whole, or a part in a temporary file.
pub struct ReplayedWorkload {
    /// Reader of the whole workload or of the part.
    pub reader: WorkloadReader,
    /// Options that selected the part, by name, as in a run's manifest. Empty for the whole.
    pub options: BTreeMap<String, String>,
    /// Path of the temporary file of the part.
    temporary: Option<PathBuf>,
}

impl Drop for ReplayedWorkload {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = std::fs::remove_dir_all(temporary);
        }
    }
}

impl ReplayedWorkload {
    /// Wraps the whole workload.
    pub fn whole(reader: WorkloadReader) -> Self {
        ReplayedWorkload {
            reader,
            options: BTreeMap::new(),
            temporary: None,
        }
    }
}

/// Writes the part of a workload that a slice keeps, next to the run `output`. `given` has the slice's options.
///
/// # Errors
/// If the slice does not fit the workload, or the part cannot be written.
pub fn write_part(
    whole: WorkloadReader,
    slice: Slice,
    given: BTreeMap<String, Vec<String>>,
    output: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<ReplayedWorkload, Failure> {
    let base = match output {
        Some(output) => output.with_extension(""),
        None => std::env::temp_dir().join("rehearse"),
    };
    remove_stale_parts(&base);
    let temporary = part_path(&base, std::process::id());
    // The part of an encrypted workload is encrypted with a temporary key, which is kept in memory only.
    let secret = (!whole.recipients().is_empty()).then(Identity::generate);
    let recipients: Vec<Recipient> = secret.iter().map(Identity::to_public).collect();
    let (info, account) = write_slice(
        &whole,
        slice,
        given.clone(),
        (&temporary, &recipients),
        interrupt,
    )?;
    let part = ReplayedWorkload {
        reader: WorkloadReader::open_with(&temporary, &Keyring::new(secret))?,
        options: given
            .into_iter()
            .map(|(name, values)| (rename_option(name), values.join(", ")))
            .collect(),
        temporary: Some(temporary),
    };
    note(&format!(
        "The part is {} statements of {} sessions ({} of {} events, {} of them put at its start).",
        info.statements, info.sessions, info.events, account.events, account.prelude,
    ));
    Ok(part)
}

/// Returns the path of the part that a process writes.
fn part_path(base: &Path, process: u32) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(format!(".{process}{SUFFIX}"));
    name.into()
}

/// Removes parts left by replays that were killed.
fn remove_stale_parts(base: &Path) {
    let folder = match base.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let stem = base.file_name().unwrap_or_default().to_string_lossy();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            name.strip_prefix(&*stem)?
                .strip_prefix('.')?
                .strip_suffix(SUFFIX)?
                .parse::<u32>()
                .ok()
        });
        let has_ended = |process: u32| {
            Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
        };
        if process.is_some_and(has_ended) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Renames options that have another meaning at a replay: there they select the login.
fn rename_option(name: String) -> String {
    match name.as_str() {
        "user" | "database" => format!("only_{name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remove_stale_parts_keeps_parts_of_running_replays_and_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("monday");
        // No process has such a number (proc(5), pid_max).
        let killed = part_path(&base, u32::MAX);
        let running = part_path(&base, std::process::id());
        let foreign = folder.path().join("monday.part.workload");
        for path in [&killed, &running, &foreign] {
            std::fs::create_dir(path).unwrap();
        }
        remove_stale_parts(&base);
        assert!(!killed.exists() && running.exists() && foreign.exists());
    }
}
