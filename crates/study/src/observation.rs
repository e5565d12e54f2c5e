//! Reads the observations of a server that a run contains.

use run::RunReader;
use time_breakdown::observed::{Observation, ObservationSummary, Observed};

use crate::failure::Failure;

/// Reads the observations of a run's server, for a report with this name.
///
/// # Errors
/// If the run cannot be read.
pub fn watched(reader: &RunReader, name: &str) -> Result<Observation, Failure> {
    Ok(Observation::new(name, reader.info(), observed(reader)?))
}

/// Summarises the observations of a run's server. Each table is read once.
///
/// # Errors
/// If the run cannot be read.
pub fn observed(reader: &RunReader) -> Result<Observed, Failure> {
    let mut sum = ObservationSummary::default();
    sum.notes(reader.probes()?);
    for text in reader.statements()? {
        sum.text(text?);
    }
    for seen in reader.seen_statements()? {
        sum.seen(seen?);
    }
    for row in reader.statement_statistics()? {
        sum.statistics(&row?);
    }
    for row in reader.sample_windows()? {
        sum.window(&row?);
    }
    for row in reader.activity()? {
        sum.activity(&row?);
    }
    for row in reader.blocking()? {
        sum.blocking(&row?);
    }
    for row in reader.locks()? {
        sum.locks(&row?);
    }
    for row in reader.counters()? {
        sum.counter(&row?);
    }
    Ok(sum.finish())
}
