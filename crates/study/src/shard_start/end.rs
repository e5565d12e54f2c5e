//! Common end of the workers among which a replay is divided.

use std::time::Duration;

use archive::{ArchiveError, find_small_file, write_small_file};

use super::{POLL_INTERVAL, READY_BYTES_MAX, ShardMeeting};
use crate::notes::note;

/// Time for which the worker of shard 0 waits for the others.
const END_WAIT: Duration = Duration::from_secs(60);

impl ShardMeeting {
    /// Declares that this worker is done. That of shard 0 waits for the others, so that what it then reads of the server
    /// includes their statements. Returns the shards whose workers are not done.
    pub(super) fn await_end(&self) -> Vec<u64> {
        match self.find_running() {
            Ok(running) => running,
            Err(error) => {
                note(&format!(
                    "This worker could not meet the others at the end: {error}. Its part of the run is complete."
                ));
                (0..self.request.count)
                    .filter(|number| *number != self.request.number)
                    .collect()
            }
        }
    }

    /// Declares that this worker is done. That of shard 0 waits for the others, and returns those that are not.
    fn find_running(&self) -> Result<Vec<u64>, ArchiveError> {
        if self.request.number != 0 {
            write_small_file(&self.path("done", self.request.number), b"{}")?;
            return Ok(Vec::new());
        }
        let polls = END_WAIT.as_millis() / POLL_INTERVAL.as_millis();
        let mut running: Vec<u64> = (1..self.request.count).collect();
        for _ in 0..polls {
            let mut still = Vec::new();
            for number in running {
                if find_small_file(&self.path("done", number), READY_BYTES_MAX)?.is_none() {
                    still.push(number);
                }
            }
            running = still;
            if running.is_empty() || self.interrupt.is_requested() {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(running)
    }
}
