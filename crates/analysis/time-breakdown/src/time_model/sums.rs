//! What clients saw: sums of times by statement.

use std::collections::HashMap;

use run::{Execution, SampleWindow};
use sql::Fingerprint;

/// What clients saw of a statement, summed up, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResponseSums {
    /// How often it was sent, and answered or lost.
    pub calls: u64,
    /// Our own delay.
    pub tool_lag_ns: f64,
    /// Waiting for the session's previous statement.
    pub session_lag_ns: f64,
    /// Sent → done.
    pub service_ns: f64,
    /// As much of it as fell into moments in which nobody sampled the server, where somebody did in others.
    pub unwatched_ns: f64,
}

impl ResponseSums {
    /// All of it.
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

/// By statement, and all together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// By statement.
    pub by_statement: HashMap<Fingerprint, ResponseSums>,
    /// All statements, those without a fingerprint among them.
    pub all: ResponseSums,
    /// When somebody looked: beginnings and ends, by time.
    watched: Vec<(i64, i64)>,
}

impl Sums {
    /// Of a run whose server was sampled in these windows; without any, what was not watched is not told.
    pub fn watched(windows: &[SampleWindow]) -> Self {
        let looked = windows.iter().filter(|window| window.samples > 0);
        let mut watched: Vec<_> = looked.map(|one| (one.at_ns, one.until_ns)).collect();
        watched.sort_unstable();
        Sums {
            watched,
            ..Sums::default()
        }
    }

    /// How much of this time nobody looked. A statement looks at the windows that it was under way in.
    fn unwatched_ns(&self, from_ns: i64, until_ns: i64) -> i64 {
        if self.watched.is_empty() {
            return 0;
        }
        let first = (self.watched).partition_point(|(_, ends_ns)| *ends_ns <= from_ns);
        let mut seen_ns = 0;
        let mut at_ns = from_ns;
        for (begins_ns, ends_ns) in &self.watched[first..] {
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
    /// The first of the iterator's.
    pub fn collect<E>(
        mut self,
        executions: impl IntoIterator<Item = Result<Execution, E>>,
    ) -> Result<Self, E> {
        for execution in executions {
            self.add(&execution?);
        }
        Ok(self)
    }

    /// Takes one execution in.
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
    fn time_outside_of_all_windows_was_not_watched() {
        let window = |at_ns, until_ns, samples| SampleWindow {
            at_ns,
            until_ns,
            samples,
            missed: 0,
        };
        // By time they are 10 to 20, 20 to 30 and 50 to 60; in that of 30 to 50 no sample was taken.
        let sums = Sums::watched(&[
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
        assert_eq!(Sums::watched(&[]).unwatched_ns(0, 100), 0);
        assert_eq!(Sums::default().unwatched_ns(0, 100), 0);
    }
}
