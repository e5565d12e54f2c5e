//! A replay of a part: the part is written beside the run, replayed, and removed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use workload::{Identity, Keyring, Recipient, WorkloadReader};

use crate::commands::slice;
use crate::ending::Failure;
use crate::interrupt::Interrupt;
use crate::options;
use crate::terminal;

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

/// The part that the options name, or the whole.
///
/// # Errors
/// Where the options make no sense, or the part cannot be written.
pub fn part(
    options: &options::Replay,
    whole: WorkloadReader,
    interrupt: &Interrupt,
) -> Result<Part, Failure> {
    let wanted = options.part.slice();
    let Some(slice) = wanted.slice()? else {
        return Ok(Part {
            reader: whole,
            given: BTreeMap::new(),
            written: None,
        });
    };
    let written = match &options.output {
        Some(output) => output.with_extension("part.workload"),
        None => {
            let name = format!("rehearse-{}.part.workload", std::process::id());
            std::env::temp_dir().join(name)
        }
    };
    let given = wanted.given();
    // A part of what is encrypted lies on disk for a while: by a key that is nowhere else.
    let secret = (!whole.recipients().is_empty()).then(Identity::random);
    let recipients: Vec<Recipient> = secret.iter().map(Identity::recipient).collect();
    let (info, account) = slice::cut(
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
    terminal::note(&format!(
        "The part is {} statements of {} sessions ({} of {} events, {} of them put at its start).",
        info.statements, info.sessions, info.events, account.events, account.prelude,
    ));
    Ok(part)
}

/// At a replay, these two say who connects.
fn renamed(name: String) -> String {
    match name.as_str() {
        "user" | "database" => format!("only_{name}"),
        _ => name,
    }
}
