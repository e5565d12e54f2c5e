//! Encryption keys: reads them from files, and opens encrypted workloads.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use workload::{
    ArchiveError, Identity, Keyring, Recipient, WorkloadReader, parse_identities, parse_recipients,
};

use crate::failure::Failure;
use crate::notes::note;

/// Largest key file that is read.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// Path of the key file. It is set once, before the command runs.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Maximum number of gaps of a series that are reported.
const GAPS_SHOWN_MAX: usize = 5;

/// Gaps of series that this process has reported: a command may open a series several times.
static NOTED_GAPS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Sets the key file of this process.
pub fn set_key_file(file: Option<PathBuf>) {
    if let Some(file) = file {
        let _ = FILE.set(file);
    }
}

/// Returns the key file of this process, for a process that it starts.
pub fn key_file() -> Option<&'static Path> {
    FILE.get().map(PathBuf::as_path)
}

/// Reads the key ring of the key file. It is empty if there is no key file.
///
/// # Errors
/// If the file cannot be read, or has no secret key.
pub fn read_keyring() -> Result<Keyring, Failure> {
    let Some(file) = FILE.get() else {
        return Ok(Keyring::default());
    };
    let identities = parse_identities(&text(file)?)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(Keyring::new(identities))
}

/// Opens a workload or a series, encrypted or not. Reports once what a series lacks.
///
/// # Errors
/// As the reader has them.
pub fn open_workload(path: &Path) -> Result<WorkloadReader, Failure> {
    let reader = match WorkloadReader::open(path) {
        // The key file is read only if the workload is encrypted, so that a damaged one does not matter otherwise.
        Err(ArchiveError::Locked { .. }) => WorkloadReader::open_with(path, &read_keyring()?)?,
        opened => opened?,
    };
    note_gaps(&reader);
    Ok(reader)
}

/// Reports the gaps of a series that were not reported before.
pub(crate) fn note_gaps(reader: &WorkloadReader) {
    let gaps = reader.gaps();
    let mut noted = NOTED_GAPS.lock().unwrap_or_else(PoisonError::into_inner);
    let new: Vec<String> = gaps
        .into_iter()
        .filter(|gap| noted.insert(gap.clone()))
        .collect();
    for gap in new.iter().take(GAPS_SHOWN_MAX) {
        note(gap);
    }
    if new.len() > GAPS_SHOWN_MAX {
        let more = new.len() - GAPS_SHOWN_MAX;
        let gaps = if more == 1 { "gap" } else { "gaps" };
        note(&format!(
            "{}: {more} more such {gaps}",
            reader.path().display()
        ));
    }
}

/// Parses recipients. Each is a public key, or the path of a key file.
///
/// # Errors
/// If one is neither.
pub fn read_recipients(given: &[String]) -> Result<Vec<Recipient>, Failure> {
    let mut all = Vec::new();
    for one in given {
        match one.trim().parse() {
            Ok(recipient) => all.push(recipient),
            Err(_) if is_secret(one) => {
                return Err(Failure::usage(format!(
                    "--encrypt was given a secret key, which is not shown here; give {}",
                    match one.trim().parse::<Identity>() {
                        Ok(identity) => format!("its public key, {}", identity.to_public()),
                        Err(_) => "a public key, age1…, or the name of a key file".to_owned(),
                    }
                )));
            }
            Err(_) if one.starts_with("age1") => {
                return Err(Failure::usage(format!(
                    "--encrypt {one}: it looks like a public key of age, and is none; copy it again"
                )));
            }
            Err(_) => {
                let in_file = parse_recipients(&text(Path::new(one))?)
                    .map_err(|error| Failure::usage(format!("{one}: {error}")))?;
                all.extend(in_file);
            }
        }
    }
    all.sort_by_key(ToString::to_string);
    all.dedup();
    Ok(all)
}

/// Reports whether a text is or resembles a secret key. No message may show it.
fn is_secret(given: &str) -> bool {
    let given = given.trim().to_ascii_uppercase();
    given.starts_with("AGE-SECRET-KEY")
}

fn text(file: &Path) -> Result<String, Failure> {
    if is_secret(&file.to_string_lossy()) {
        return Err(Failure::usage(
            "--key was given a secret key, which is not shown here; give the name of the file that it stands in, so that nobody reads it in a list of processes",
        ));
    }
    let content = archive::read_small_file(file, KEY_BYTES_MAX)
        .and_then(|content| String::from_utf8(content).map_err(std::io::Error::other));
    let text = content.map_err(|error| {
        Failure::usage(format!(
            "the key file {} cannot be read ({error}); give one that `rehearse key FILE` or age-keygen made",
            file.display()
        ))
    })?;
    if is_secret_in(&text) {
        refuse_open_key_file(file)?;
    }
    Ok(text)
}

/// Reports whether a key file has a secret key. Others may read one that has public keys only.
fn is_secret_in(text: &str) -> bool {
    text.lines().any(is_secret)
}

/// Refuses a file with a secret key that others may read or change.
///
/// # Errors
/// If its permissions allow anything to others, or cannot be read.
pub fn refuse_open_key_file(file: &Path) -> Result<(), Failure> {
    let metadata = std::fs::metadata(file).map_err(|error| {
        Failure::usage(format!(
            "the permissions of the key file {} cannot be read ({error}); give a file of your own",
            file.display()
        ))
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!(
            "the key file {} is open to others (mode {mode:04o}), who can then undo what it protects; close it with `chmod 600 {}`, and make a new key if others may have read it",
            file.display(),
            file.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_with_a_secret_is_refused_if_others_may_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let identity = Identity::generate();
        std::fs::write(&file, workload::key_file(&identity)).unwrap();
        let read = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            text(&file)
        };
        for mode in [0o644, 0o640, 0o660, 0o604] {
            let refused = read(mode).unwrap_err().message;
            assert!(refused.contains("chmod 600"), "{mode:o} {refused}");
        }
        assert!(read(0o600).is_ok() && read(0o400).is_ok());
        // Public keys are no secret.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, identity.to_public().to_string()).unwrap();
        assert!(read(0o644).is_ok());
    }
}
