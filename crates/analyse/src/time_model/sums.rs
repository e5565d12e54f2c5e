//! What clients saw: sums of times by statement.

use std::collections::HashMap;

use run::Execution;
use workload::Fingerprint;

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
    }
}

/// By statement, and all together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// By statement.
    pub by_statement: HashMap<Fingerprint, ResponseSums>,
    /// All statements, those without a fingerprint among them.
    pub all: ResponseSums,
}

impl Sums {
    /// Reads a run's executions. Statements that were never sent have no time.
    ///
    /// # Errors
    /// The first of the iterator's.
    pub fn collect<E>(
        executions: impl IntoIterator<Item = Result<Execution, E>>,
    ) -> Result<Self, E> {
        let mut sums = Sums::default();
        for execution in executions {
            sums.add(&execution?);
        }
        Ok(sums)
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
        let one = ResponseSums {
            calls: 1,
            tool_lag_ns: tool_lag_ns as f64,
            session_lag_ns: execution.session_lag_ns as f64,
            service_ns: service_ns.max(0) as f64,
        };
        self.all.add(one);
        if let Some(fingerprint) = execution.fingerprint {
            self.by_statement.entry(fingerprint).or_default().add(one);
        }
    }
}
