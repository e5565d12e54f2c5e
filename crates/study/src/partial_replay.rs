//! A replay of a part: the part is written beside the run, replayed, and removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use transform::Slice;
use workload::{Identity, Keyring, Recipient, WorkloadReader};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::slice_workload::cut;

/// What the name of a part ends in, behind the number of its process.
const ENDING: &str = ".part.workload";

/// The workload that is replayed.
pub struct Part {
    /// It, or the part of it.
    pub reader: WorkloadReader,
    /// What said which part, by option, as a run's manifest has it; empty for the whole.
    pub given: BTreeMap<String, String>,
    /// Where the part lies, for as long as it is needed.
    written: Option<PathBuf>,
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(written) = &self.written {
            let _ = std::fs::remove_dir_all(written);
        }
    }
}

impl Part {
    /// The whole workload.
    pub fn whole(reader: WorkloadReader) -> Self {
        Part {
            reader,
            given: BTreeMap::new(),
            written: None,
        }
    }
}

/// Writes the part of a workload that a slice keeps next to the run `output`. `given` has the slice's options.
///
/// # Errors
/// If the slice does not fit the workload, or the part cannot be written.
pub fn part(
    whole: WorkloadReader,
    slice: Slice,
    given: BTreeMap<String, Vec<String>>,
    output: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Part, Failure> {
    let beside = match output {
        Some(output) => output.with_extension(""),
        None => std::env::temp_dir().join("rehearse"),
    };
    remove_forgotten(&beside);
    let written = place(&beside, std::process::id());
    // A part of what is encrypted lies on disk for a while: by a key that is nowhere else.
    let secret = (!whole.recipients().is_empty()).then(Identity::generate);
    let recipients: Vec<Recipient> = secret.iter().map(Identity::to_public).collect();
    let (info, account) = cut(
        &whole,
        slice,
        given.clone(),
        (&written, &recipients),
        interrupt,
    )?;
    let part = Part {
        reader: WorkloadReader::open_with(&written, &Keyring::new(secret))?,
        given: given
            .into_iter()
            .map(|(name, values)| (renamed(name), values.join(", ")))
            .collect(),
        written: Some(written),
    };
    note(&format!(
        "The part is {} statements of {} sessions ({} of {} events, {} of them put at its start).",
        info.statements, info.sessions, info.events, account.events, account.prelude,
    ));
    Ok(part)
}

/// Where the part of a replay lies that this process makes.
fn place(beside: &Path, process: u32) -> PathBuf {
    let mut name = beside.as_os_str().to_owned();
    name.push(format!(".{process}{ENDING}"));
    name.into()
}

/// Removes the parts of replays that were killed.
fn remove_forgotten(beside: &Path) {
    let folder = match beside.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let stem = beside.file_name().unwrap_or_default().to_string_lossy();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            name.strip_prefix(&*stem)?
                .strip_prefix('.')?
                .strip_suffix(ENDING)?
                .parse::<u32>()
                .ok()
        });
        let is_gone = |process: u32| {
            Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
        };
        if process.is_some_and(is_gone) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// At a replay, these two say who connects.
fn renamed(name: String) -> String {
    match name.as_str() {
        "user" | "database" => format!("only_{name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_killed_replays_are_removed_and_those_of_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join("monday");
        // Processes have smaller numbers (proc(5), pid_max).
        let killed = place(&beside, u32::MAX);
        let running = place(&beside, std::process::id());
        let foreign = folder.path().join("monday.part.workload");
        for path in [&killed, &running, &foreign] {
            std::fs::create_dir(path).unwrap();
        }
        remove_forgotten(&beside);
        assert!(!killed.exists() && running.exists() && foreign.exists());
    }
}
