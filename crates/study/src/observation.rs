//! What was observed of a server while a run was made.

use run::RunReader;
use time_breakdown::observed::{Observation, Observed, ObservedSum};

use crate::failure::Failure;

/// What was seen of the server.
///
/// # Errors
/// Where the run cannot be read.
pub fn watched(reader: &RunReader, name: &str) -> Result<Observation, Failure> {
    Ok(Observation::new(name, reader.info(), observed(reader)?))
}

/// Sums up what was seen of the server; reads each table once.
///
/// # Errors
/// Where the run cannot be read.
pub fn observed(reader: &RunReader) -> Result<Observed, Failure> {
    let mut sum = ObservedSum::default();
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
