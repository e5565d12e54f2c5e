//! `rehearse recover`: recovers the complete part of an unfinished workload or run.

use std::path::{Path, PathBuf};

use workload::{ArchiveError, WorkloadInfo};

use crate::exit_status::ExitStatus;
use crate::options::Recover;
use crate::terminal;
use study::Failure;
use study::keys;

/// Recovers a workload or a run. The name tells which it is.
pub fn run(options: &Recover) -> Result<ExitStatus, Failure> {
    let name = options.partial.to_string_lossy();
    let name = name.trim_end_matches('/');
    let partial = Path::new(name);
    if name.ends_with(".run.partial") {
        let (path, info) = run::recover(partial)?;
        terminal::say_line(&match info.is_observation() {
            true => format!(
                "{}: recovered, with what was seen of the server until the last moment that was made safe",
                path.display()
            ),
            false => format!(
                "{}: {} statements recovered; its summary says that it was recovered, and a CPU profile is not among what survives",
                path.display(),
                match info.workload.statements {
                    // The statements of a series that is followed are not known.
                    0 => info.statements.to_string(),
                    all => format!("{} of {all}", info.statements),
                },
            ),
        });
    } else if name.ends_with(".workload.partial") {
        let (path, info) = recover(partial)?;
        terminal::say_line(&format!(
            "{}: {} statements of {} sessions recovered; where the source is still there, capture it again instead",
            path.display(),
            info.statements,
            info.sessions
        ));
    } else {
        return Err(Failure::usage(format!(
            "{name} is nothing to recover; give a NAME.workload.partial or NAME.run.partial"
        )));
    }
    Ok(ExitStatus::Success)
}

fn recover(partial: &Path) -> Result<(PathBuf, WorkloadInfo), Failure> {
    match workload::recover(partial) {
        Err(ArchiveError::Locked { .. }) => {
            Ok(workload::recover_with(partial, &keys::read_keyring()?)?)
        }
        recovered => Ok(recovered?),
    }
}
