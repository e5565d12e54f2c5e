//! Sums of the times that clients measured, by statement.

use std::collections::HashMap;

use run::{Execution, SampleWindow};
use sql::Fingerprint;

/// Summed times that clients measured of a statement, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResponseSums {
    /// Number of executions that were sent, and answered or lost.
    pub calls: u64,
    /// Tool lag.
    pub tool_lag_ns: f64,
    /// Session lag: waiting for the session's previous statement.
    pub session_lag_ns: f64,
    /// Service time (sent → done).
    pub service_ns: f64,
    /// Part of the service time in which the server was not sampled, although it was at other
    /// times.
    pub unwatched_ns: f64,
}

impl ResponseSums {
    /// Returns the response time.
    pub fn response_ns(&self) -> f64 {
        self.tool_lag_ns + self.session_lag_ns + self.service_ns
    }

    fn add(&mut self, other: ResponseSums) {
        self.calls += other.calls;
        self.tool_lag_ns += other.tool_lag_ns;
        self.session_lag_ns += other.session_lag_ns;
        self.service_ns += other.service_ns;
        self.unwatched_ns += other.unwatched_ns;
    }
}

/// Sums by statement, and over all statements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponseTotals {
    /// Sums by statement.
    pub by_statement: HashMap<Fingerprint, ResponseSums>,
    /// Sums over all statements, including those without a fingerprint.
    pub all: ResponseSums,
    /// Sampled times: starts and ends, in order.
    sampled_times: Vec<(i64, i64)>,
}

impl ResponseTotals {
    /// Creates the sums of a run whose server was sampled in these windows. Without windows,
    /// unwatched time is not computed.
    pub fn with_windows(windows: &[SampleWindow]) -> Self {
        let sampled = windows.iter().filter(|window| window.samples > 0);
        let mut sampled_times: Vec<_> = sampled.map(|one| (one.at_ns, one.until_ns)).collect();
        sampled_times.sort_unstable();
        ResponseTotals {
            sampled_times,
            ..ResponseTotals::default()
        }
    }

    /// Returns how much of an interval was not sampled. A statement is sampled in the windows that
    /// it overlaps.
    fn unwatched_ns(&self, from_ns: i64, until_ns: i64) -> i64 {
        if self.sampled_times.is_empty() {
            return 0;
        }
        let first = (self.sampled_times).partition_point(|(_, ends_ns)| *ends_ns <= from_ns);
        let mut seen_ns = 0;
        let mut at_ns = from_ns;
        for (begins_ns, ends_ns) in &self.sampled_times[first..] {
            if *begins_ns >= until_ns {
                break;
            }
            let (begins_ns, ends_ns) = ((*begins_ns).max(at_ns), (*ends_ns).min(until_ns));
            seen_ns += (ends_ns - begins_ns).max(0);
            at_ns = at_ns.max(ends_ns);
        }
        (until_ns - from_ns - seen_ns).max(0)
    }

    /// Reads a run's executions. Statements that were never sent have no time.
    ///
    /// # Errors
    /// If the iterator fails; the first error is returned.
    pub fn collect<E>(
        mut self,
        executions: impl IntoIterator<Item = Result<Execution, E>>,
    ) -> Result<Self, E> {
        for execution in executions {
            self.add(&execution?);
        }
        Ok(self)
    }

    /// Adds an execution.
    pub fn add(&mut self, execution: &Execution) {
        let (Some(tool_lag_ns), Some(service_ns)) =
            (execution.tool_lag_ns(), execution.service_ns())
        else {
            return;
        };
        if !execution.is_statement() {
            return;
        }
        let (from_ns, until_ns) = (execution.sent_ns, execution.done_ns);
        let unwatched_ns = match (from_ns, until_ns) {
            (Some(from_ns), Some(until_ns)) => self.unwatched_ns(from_ns, until_ns),
            _ => 0,
        };
        let one = ResponseSums {
            calls: 1,
            tool_lag_ns: tool_lag_ns as f64,
            session_lag_ns: execution.session_lag_ns as f64,
            service_ns: service_ns.max(0) as f64,
            unwatched_ns: unwatched_ns as f64,
        };
        self.all.add(one);
        if let Some(fingerprint) = execution.fingerprint {
            self.by_statement.entry(fingerprint).or_default().add(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outside_of_all_windows_is_unwatched() {
        let window = |at_ns, until_ns, samples| SampleWindow {
            at_ns,
            until_ns,
            samples,
            missed: 0,
        };
        // In order of time they are 10 to 20, 20 to 30 and 50 to 60; from 30 to 50 there were no
        // samples.
        let sums = ResponseTotals::with_windows(&[
            window(50, 60, 2),
            window(10, 20, 2),
            window(20, 30, 2),
            window(30, 50, 0),
        ]);
        for (from_ns, until_ns, unwatched_ns) in [
            (0, 5, 5),
            (0, 10, 10),
            (5, 15, 5),
            (12, 28, 0),
            (25, 55, 20),
            (0, 100, 70),
            (30, 50, 20),
            (60, 90, 30),
            (15, 15, 0),
        ] {
            assert_eq!(
                sums.unwatched_ns(from_ns, until_ns),
                unwatched_ns,
                "{from_ns} to {until_ns}"
            );
        }
        assert_eq!(ResponseTotals::with_windows(&[]).unwatched_ns(0, 100), 0);
        assert_eq!(ResponseTotals::default().unwatched_ns(0, 100), 0);
    }
}
