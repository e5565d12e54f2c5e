//! Interface of a replay's observer.

use std::sync::Arc;

use run::{ArchiveError, RunWriter};

use crate::connection_events::ConnectionEvent;
use crate::counters::Snapshot;
use crate::metrics::Metrics;

/// Pass over all events of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadPass {
    /// Infers the values that the server generated in a capture without results.
    Inference,
    /// Finds the origins of generated values, and the order of locks.
    Origins,
    /// Sums up what a replay needs.
    Demand,
}

/// Observer of a replay, called about ten times a second on the thread that called [`crate::replay`].
pub trait Observer {
    /// Takes the progress of a pass over the workload, about every 65,000 events: those read, and all.
    fn on_workload_pass(&mut self, _pass: WorkloadPass, _read: u64, _all: u64) {}

    /// Takes the shards of a divided replay whose workers are not done when this one is. Counters of the server do not have
    /// all that the replay causes yet.
    fn on_workers_running(&mut self, _shards: &[u64]) {}

    /// Takes the run before the first connection is opened, to add tables or files to it.
    ///
    /// # Errors
    /// If they cannot be written; then there is no replay.
    fn before_start(&mut self, _run: &mut RunWriter) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Takes the run after the last connection is closed, before the run is finished.
    ///
    /// # Errors
    /// If it cannot be written; then the run stays unfinished.
    fn before_finish(&mut self, _run: &mut RunWriter) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Takes the replay's metrics before the first statement is sent. They can be read on any thread, and after
    /// the end.
    fn on_metrics(&mut self, _metrics: &Arc<Metrics>) {}

    /// Takes events for a log, in order. `left_out` is the number of events for which there was no room.
    fn on_events(&mut self, _happenings: &[ConnectionEvent], _left_out: u64) {}

    /// Takes the progress.
    fn on_progress(&mut self, snapshot: &Snapshot);

    /// Whether to stop the replay. Then no more statements are sent, those in flight have a few seconds to end,
    /// and the run's status is "stopped".
    fn should_stop(&mut self) -> bool;
}
