//! Probes, one in each module. A probe checks whether it can work, and is then sampled by the schedule of
//! [`crate::monitor`], which disables it after three failures in a row.

pub(crate) mod activity;
pub(crate) mod capabilities;
pub(crate) mod connections;
pub(crate) mod counters;
pub(crate) mod custom_query;
pub(crate) mod locks;
pub(crate) mod machine;
pub(crate) mod statements;

use crate::observation_log::ObservationLog;
use crate::probe_connection::{ProbeConnection, ProbeError};

/// A periodic measurement of the server.
pub(crate) trait Probe: Send {
    /// Name of the probe in the run.
    fn name(&self) -> &'static str;

    /// Interval between samples, in nanoseconds.
    fn interval_ns(&self) -> i64;

    /// Checks whether the probe can work, and reads the initial values for differences. It is repeated after
    /// failures.
    ///
    /// # Errors
    /// [`ProbeError::Unsupported`] if it cannot work on this server.
    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError>;

    /// Takes a sample.
    ///
    /// # Errors
    /// If the sample failed.
    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        context: SampleContext,
    ) -> Result<(), ProbeError>;

    /// Writes pending rows when sampling ends.
    fn flush(&mut self, _log: &ObservationLog) {}
}

/// Circumstances of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleContext {
    /// Number of samples that were due since the last one and skipped.
    pub(crate) missed: u64,
    /// It is the last sample.
    pub(crate) last: bool,
}

/// Returns the text of a row's column; empty for NULL.
pub(crate) fn column_text(row: &connect::login::Row, column: usize) -> &str {
    optional_text(row, column).unwrap_or_default()
}

/// Returns the text of a row's column, unless it is NULL.
pub(crate) fn optional_text(row: &connect::login::Row, column: usize) -> Option<&str> {
    row.get(column).and_then(|value| value.as_deref())
}

/// Returns the number in a row's column.
pub(crate) fn column_number<N: std::str::FromStr>(
    row: &connect::login::Row,
    column: usize,
) -> Option<N> {
    optional_text(row, column)?.parse().ok()
}
