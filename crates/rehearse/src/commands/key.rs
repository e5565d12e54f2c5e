//! `rehearse key`: creates a key file for encrypted workloads.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use workload::{Identity, key_file};

use crate::exit_status::ExitStatus;
use crate::options::encrypting::KeyCommand;
use crate::terminal;
use study::Failure;

/// Creates the file in the format of age-keygen.
pub fn run(options: &KeyCommand) -> Result<ExitStatus, Failure> {
    let identity = Identity::generate();
    let mut file = std::fs::OpenOptions::new();
    file.write(true)
        .create_new(true)
        .mode(0o600)
        .open(&options.file)
        .and_then(|mut file| {
            file.write_all(key_file(&identity).as_bytes())
                .and_then(|()| file.sync_all())
        })
        .map_err(|error| {
            Failure::usage(format!(
                "the key file {} cannot be made ({error}); give the name of a new file",
                options.file.display()
            ))
        })?;
    terminal::say_line(&identity.to_public().to_string());
    terminal::note(&format!(
        "{}: without it nobody opens what is encrypted to the public key above",
        options.file.display()
    ));
    Ok(ExitStatus::Success)
}
