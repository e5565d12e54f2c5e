//! Start and end of a replay, which several workers may share.

use clock::{Clock, Speed};
use run::RunInfo;

use crate::dispatcher::LEAD_NS;
use crate::error::ReplayError;
use crate::meeting::WorkerMeeting;
use crate::options::Options;
use crate::progress::Observer;

/// Returns the start on the clock, in nanoseconds. Waits for the other workers, if there are any, and notes the time of the
/// start.
///
/// # Errors
/// If the workers do not start together.
pub(crate) fn await_start(
    options: &Options,
    clock: &dyn Clock,
    info: &mut RunInfo,
) -> Result<i64, ReplayError> {
    let lead_ns = match options.speed {
        Speed::Max => 0,
        Speed::Times { .. } => LEAD_NS,
    };
    let Some(meeting) = &options.meeting else {
        return Ok(clock.now_ns() + lead_ns);
    };
    let start = meeting.await_start(clock, lead_ns);
    let start_ns = start.map_err(ReplayError::NotStarted)?;
    // The wait may have been long.
    info.started_wall_us = clock.wall_us() + (start_ns - clock.now_ns()) / 1_000;
    Ok(start_ns)
}

/// Meets the other workers of a divided replay after the last statement.
pub(crate) fn end_meeting(options: &Options, observer: &mut dyn Observer) {
    let running = options.meeting.as_ref().map(WorkerMeeting::end);
    if let Some(running) = running.filter(|shards| !shards.is_empty()) {
        observer.on_workers_running(&running);
    }
}
