//! Keys for what is encrypted: where they are read from, and what they open.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use workload::{
    ArchiveError, Identity, Keyring, Recipient, WorkloadReader, parse_identities, parse_recipients,
};

use crate::failure::Failure;

/// Set once, before the command runs: every command that opens a workload asks here.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// The key file of this run of the program.
pub fn set_up(file: Option<PathBuf>) {
    if let Some(file) = file {
        let _ = FILE.set(file);
    }
}

/// What the key file opens; nothing, where there is none.
///
/// # Errors
/// Where it cannot be read, or has no secret key.
pub fn keyring() -> Result<Keyring, Failure> {
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
pub fn open(path: &Path) -> Result<WorkloadReader, Failure> {
    match WorkloadReader::open(path) {
        // Whoever opens what is not encrypted need not have a key file in order.
        Err(ArchiveError::Locked { .. }) => Ok(WorkloadReader::open_with(path, &keyring()?)?),
        opened => Ok(opened?),
    }
}

/// To whom to encrypt: each a public key, or a key file.
///
/// # Errors
/// Where one is neither.
pub fn recipients(given: &[String]) -> Result<Vec<Recipient>, Failure> {
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

/// Whether it is a secret key, or meant to be one: no message may show it.
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
    std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!(
            "the key file {} cannot be read ({error}); give one that `rehearse key FILE` or age-keygen made",
            file.display()
        ))
    })
}
