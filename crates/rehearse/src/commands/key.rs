//! `rehearse key`: a key file for encrypted workloads.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use workload::Identity;

use crate::ending::{Ending, Failure};
use crate::options::encrypting::KeyCommand;
use crate::terminal;

/// Makes the file, in the form of age-keygen.
pub fn run(options: &KeyCommand) -> Result<Ending, Failure> {
    let identity = Identity::random();
    let public = identity.recipient();
    let text = format!("# public key: {public}\n{}\n", identity.secret_text());
    let mut file = std::fs::OpenOptions::new();
    file.write(true)
        .create_new(true)
        .mode(0o600)
        .open(&options.file)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .map_err(|error| {
            Failure::usage(format!(
                "the key file {} cannot be made ({error}); give the name of a new file",
                options.file.display()
            ))
        })?;
    terminal::say_line(&public.to_string());
    terminal::note(&format!(
        "{}: without it nobody opens what is encrypted to the public key above",
        options.file.display()
    ));
    Ok(Ending::Done)
}
