//! End of a rehearsal without a report: its private server is stopped, and what is kept is named.

use std::path::{Path, PathBuf};

use ::sandbox::{Dirs, Stop};

use super::{RehearsalServers, UpgradeRequest};
use crate::failure::Failure;
use crate::leftovers;
use crate::notes;

/// Parts of the directory that spare work if the rehearsal is resumed.
const RESUMED: [&str; 3] = ["dump/data.dump", "old.planner", "replays.proof"];

/// Returns the failure, with the parts that are kept. Removes the directory if nothing in it spares work.
pub(super) fn end(
    request: &UpgradeRequest<'_>,
    sandbox: &str,
    is_stopped: bool,
    failure: Failure,
) -> Failure {
    let is_private = matches!(request.servers, RehearsalServers::Private { .. });
    if !is_resumable(request.output) {
        if is_private && is_there(sandbox) {
            delete(sandbox);
        }
        leftovers::remove_refused(request.output);
        return failure;
    }
    let mut message = failure.message;
    if is_stopped {
        message.push_str("; continue it with --resume and the same options");
    }
    let server = is_private.then(|| stop(sandbox)).flatten();
    Failure {
        message: format!("{message}. {}", kept(request.output, server.as_deref())),
        ..failure
    }
}

/// Stops the private server of a killed rehearsal, and names what is kept; `None` if there is no server.
pub(super) fn stop_killed(output: &Path, sandbox: &str) -> Option<String> {
    stop(sandbox).map(|server| kept(output, Some(&server)))
}

/// Returns the note for a process that ends at once, so that it stops no server. `left` is what it leaves.
pub(super) fn note_at_once(output: &Path, left: &str) -> String {
    let note = format!(
        "Ended at once; continue {} with --resume and the same options. {left}",
        output.display()
    );
    note.trim_end().to_owned()
}

/// Describes the private server that a process leaves which ends at once.
pub(super) fn left_server(name: &str) -> String {
    format!(
        "Its private server {name} may still run, with a copy of the data: --resume stops it at its end, and `rehearse sandbox down {name}` deletes it."
    )
}

fn is_resumable(output: &Path) -> bool {
    RESUMED.iter().any(|part| output.join(part).exists())
}

/// `server`: the state of the private server.
fn kept(output: &Path, server: Option<&str>) -> String {
    let output = output.display();
    match server {
        None => format!("Kept: {output}; delete it if you do not resume the rehearsal."),
        Some(server) => format!("Kept: {output} with the dump, and {server}"),
    }
}

fn is_there(sandbox: &str) -> bool {
    Dirs::from_environment().is_ok_and(|dirs| ::sandbox::find_named(sandbox, &dirs).is_ok())
}

/// Stops the private server, and returns its state and the commands that remove the rest; `None` if there is none.
fn stop(name: &str) -> Option<String> {
    let dirs = Dirs::from_environment().ok()?;
    ::sandbox::find_named(name, &dirs).ok()?;
    let stopped = ::sandbox::open(name, &dirs).and_then(|mut server| server.stop(Stop::Fast));
    let state = match stopped {
        Ok(()) => format!("the private server {name} with a copy of the data, which is stopped"),
        Err(error) => format!(
            "the private server {name} with a copy of the data, which could not be stopped ({error})"
        ),
    };
    Some(format!(
        "{state}. If you do not resume the rehearsal, delete the directory, and the server with `rehearse sandbox down {name}`."
    ))
}

fn delete(sandbox: &str) {
    let deleted = Dirs::from_environment().and_then(|dirs| ::sandbox::down(sandbox, &dirs));
    if let Err(error) = deleted {
        notes::note(&format!(
            "The private server {sandbox} was not deleted: {error}; delete it with `rehearse sandbox down {sandbox}`."
        ));
    }
}

/// Path of the complete dump in a rehearsal's directory.
pub(super) fn dump(output: &Path) -> PathBuf {
    output.join(RESUMED[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_a_complete_dump_or_replays_is_not_resumable() {
        let output = tempfile::tempdir().unwrap();
        std::fs::write(output.path().join("upgrade.json"), "{}").unwrap();
        std::fs::create_dir(output.path().join("dump")).unwrap();
        std::fs::write(output.path().join("dump/data.dump.partial"), "").unwrap();
        assert!(!is_resumable(output.path()));
        std::fs::write(dump(output.path()), "").unwrap();
        assert!(is_resumable(output.path()));
    }
}
