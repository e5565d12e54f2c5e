//! Reads the observations of a server that a run contains.

use run::RunReader;
use time_breakdown::observed::{Observation, ObservationSummary, Observed};

use crate::failure::Failure;

/// Reads the observations of a run's server, for a report with this name.
///
/// # Errors
/// If the run cannot be read.
pub fn read_observation(reader: &RunReader, name: &str) -> Result<Observation, Failure> {
    Ok(Observation::new(
        name,
        reader.info(),
        summarize_observations(reader)?,
    ))
}

/// Summarises the observations of a run's server. Each table is read once.
///
/// # Errors
/// If the run cannot be read.
pub fn summarize_observations(reader: &RunReader) -> Result<Observed, Failure> {
    let mut sum = ObservationSummary::default();
    sum.add_notes(reader.probes()?);
    for text in reader.statements()? {
        sum.add_text(text?);
    }
    for seen in reader.observed_statements()? {
        sum.add_seen_statement(seen?);
    }
    for row in reader.statement_statistics()? {
        sum.add_statistics(&row?);
    }
    for row in reader.sample_windows()? {
        sum.add_window(&row?);
    }
    for row in reader.activity()? {
        sum.add_activity(&row?);
    }
    for row in reader.blocking()? {
        sum.add_blocking(&row?);
    }
    for row in reader.locks()? {
        sum.add_locks(&row?);
    }
    for row in reader.counters()? {
        sum.add_counter(&row?);
    }
    Ok(sum.finish())
}
