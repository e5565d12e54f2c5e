//! Encryption keys: reads them from files, and opens encrypted workloads.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use workload::{
    ArchiveError, Identity, Keyring, Recipient, WorkloadReader, parse_identities, parse_recipients,
};

use crate::failure::Failure;

/// Largest key file that is read.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// Path of the key file. It is set once, before the command runs.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the key file of this process.
pub fn set_key_file(file: Option<PathBuf>) {
    if let Some(file) = file {
        let _ = FILE.set(file);
    }
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

/// Opens a workload, encrypted or not.
///
/// # Errors
/// As the reader has them.
pub fn open_workload(path: &Path) -> Result<WorkloadReader, Failure> {
    match WorkloadReader::open(path) {
        // The key file is read only if the workload is encrypted, so that a damaged one does not matter otherwise.
        Err(ArchiveError::Locked { .. }) => Ok(WorkloadReader::open_with(path, &read_keyring()?)?),
        opened => Ok(opened?),
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
    content.map_err(|error| {
        Failure::usage(format!(
            "the key file {} cannot be read ({error}); give one that `rehearse key FILE` or age-keygen made",
            file.display()
        ))
    })
}
