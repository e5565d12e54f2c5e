//! Reads the numbers of runs for a history.

use std::path::Path;

use history::RunNumbers;
use run::{RunReader, RunStatus};

use crate::compare_runs::read_stats;
use crate::failure::Failure;

/// Reads the numbers of a run, which get this label.
///
/// # Errors
/// If the run cannot be read, did not reach its end, or is an observation, which replays nothing.
pub fn read_numbers(path: &Path, label: &str) -> Result<RunNumbers, Failure> {
    let reader = RunReader::open(path)?;
    if reader.info().is_observation() {
        return Err(Failure::usage(format!(
            "{} is an observation; a history has runs of `rehearse replay`",
            path.display()
        )));
    }
    if reader.info().status != RunStatus::Complete {
        return Err(Failure::usage(format!(
            "{} did not reach its end, so its numbers are not those of the workload; replay it again",
            path.display()
        )));
    }
    let stats = read_stats(&reader, None)?;
    Ok(RunNumbers::new(&reader, &stats, label))
}
