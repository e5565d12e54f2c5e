//! Refusal to work on the server that a workload was captured on.

use replay::{LoginMap, Target};
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::notes;

/// Refuses the captured server, unless the user confirmed its address. If nothing is written, it is only noted.
///
/// # Errors
/// If the target is the captured server, or the confirmed address is not the target's.
pub fn refuse_captured_server(
    workload: &WorkloadReader,
    (target, logins): (&Target, &LoginMap),
    confirmed: Option<&str>,
    read_only: bool,
) -> Result<(), Failure> {
    let address = target.address();
    match confirmed {
        Some(named) if *named == address => return Ok(()),
        Some(named) => {
            return Err(Failure::usage(format!(
                "--allow-captured-server names {named}, and the target is {address}; it takes the target's own address, to confirm it"
            )));
        }
        None => {}
    }
    match replay::find_source_server(workload, target, logins) {
        None => Ok(()),
        Some(how) if read_only => {
            notes::note(&format!(
                "Warning: the target {address} is the server that the workload was captured on ({how}). The replay is read-only there, but takes its time."
            ));
            Ok(())
        }
        Some(how) => Err(Failure::usage(format!(
            "the target {address} is the server that the workload was captured on ({how}), where all of this was already done; use a copy of it, or confirm it with --allow-captured-server {address}"
        ))),
    }
}
