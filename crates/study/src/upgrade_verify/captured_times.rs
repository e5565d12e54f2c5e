//! Captured times of statements, with their spread.

use std::collections::HashMap;

use sql::Fingerprint;
use statistics::SampleMean;
use workload::{ArchiveError, WorkloadReader};

/// Reads the captured times, in microseconds, of all statements that did not fail.
///
/// # Errors
/// If the workload cannot be read.
pub(super) fn captured_times(
    workload: &WorkloadReader,
) -> Result<HashMap<Fingerprint, SampleMean>, ArchiveError> {
    let mut sums: HashMap<Fingerprint, (u64, f64, f64)> = HashMap::new();
    for event in workload.events()? {
        let (event, fingerprint) = event?;
        let outcome = event.outcome;
        let (Some(fingerprint), Some(us), None) =
            (fingerprint, outcome.duration_us, outcome.sqlstate)
        else {
            continue;
        };
        let (calls, sum, square) = sums.entry(fingerprint).or_default();
        let us = us as f64;
        *calls += 1;
        *sum += us;
        *square += us * us;
    }
    let samples = sums.into_iter().filter_map(|(fingerprint, sums)| {
        let (calls, sum, square) = sums;
        Some((fingerprint, SampleMean::of_sums(calls, sum, Some(square))?))
    });
    Ok(samples.collect())
}
