//! Share of the statements of unaffected sessions that were sent in time.

use std::collections::HashSet;

use run::Execution;

/// A time window of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Statements of unaffected sessions that were due in it.
    pub due: u64,
    /// Statements of unaffected sessions that were sent in it.
    pub sent: u64,
}

/// Send rates of the sessions that are unrelated to the slow statement.
#[derive(Debug, Clone, PartialEq)]
pub struct SendRates {
    /// Length of a window, in nanoseconds.
    pub window_ns: i64,
    /// Windows from the replay's start to the last statement sent.
    pub windows: Vec<Window>,
    /// Number of statements that were due.
    pub due: u64,
    /// Number of these that were sent before the last of them was due, or at most one window later.
    pub sent_in_time: u64,
    /// Time from the replay's start to when the last of them was due, in nanoseconds.
    pub span_ns: i64,
}

impl SendRates {
    /// Counts the statements of a run, without the sessions in `touched`.
    pub fn from_executions<'e>(
        executions: impl Iterator<Item = &'e Execution>,
        touched: &HashSet<u64>,
        window_ns: i64,
    ) -> Self {
        let mut moments: Vec<(i64, Option<i64>)> = executions
            .filter(|one| one.is_statement() && !touched.contains(&one.session))
            .map(|one| (one.due_ns, one.sent_ns))
            .collect();
        moments.sort_unstable();
        let span_ns = moments.last().map_or(0, |(due_ns, _)| *due_ns);
        let mut windows: Vec<Window> = Vec::new();
        let mut at = |ns: i64, count: &dyn Fn(&mut Window)| {
            let index = usize::try_from(ns / window_ns).unwrap_or(0);
            if windows.len() <= index {
                windows.resize(index + 1, Window::default());
            }
            count(&mut windows[index]);
        };
        let mut sent_in_time = 0;
        for (due_ns, sent_ns) in &moments {
            at(*due_ns, &|window| window.due += 1);
            if let Some(sent_ns) = sent_ns {
                at(*sent_ns, &|window| window.sent += 1);
                sent_in_time += u64::from(*sent_ns < span_ns + window_ns);
            }
        }
        SendRates {
            window_ns,
            windows,
            due: moments.len() as u64,
            sent_in_time,
            span_ns,
        }
    }

    /// Returns the share that was sent in time, from 0 to 1.
    pub fn share_in_time(&self) -> f64 {
        self.sent_in_time as f64 / self.due.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::{Outcome, StatementKind};

    fn execution(session: u64, due_ns: i64, sent_ns: i64) -> Execution {
        Execution {
            session,
            sequence: 0,
            fingerprint: None,
            kind: StatementKind::Execute,
            outcome: Outcome::Done,
            message: None,
            due_ns,
            sent_ns: Some(sent_ns),
            first_byte_ns: None,
            done_ns: None,
            session_lag_ns: 0,
            stalled_ns: 0,
            rows: 0,
            bytes: 0,
            digest: None,
            captured: run::Captured::default(),
        }
    }

    #[test]
    fn rates_count_late_statements_in_the_window_they_were_sent() {
        let all = [
            execution(1, 0, 0),
            execution(1, 10, 10),
            execution(1, 20, 21),
            execution(1, 29, 75),
            // Touched.
            execution(2, 5, 500),
        ];
        let rates = SendRates::from_executions(all.iter(), &HashSet::from([2]), 10);
        assert_eq!((rates.due, rates.sent_in_time, rates.span_ns), (4, 3, 29));
        assert_eq!(rates.share_in_time(), 0.75);
        let due: Vec<u64> = rates.windows.iter().map(|window| window.due).collect();
        let sent: Vec<u64> = rates.windows.iter().map(|window| window.sent).collect();
        assert_eq!(due, [1, 1, 2, 0, 0, 0, 0, 0]);
        assert_eq!(sent, [1, 1, 1, 0, 0, 0, 0, 1]);
        let nothing = SendRates::from_executions([].iter(), &HashSet::new(), 10);
        assert_eq!((nothing.due, nothing.share_in_time()), (0, 0.0));
    }
}
