//! Sampled executions: those of statements with a trace, for a reader on another thread.
//!
//! The recorder thread offers them, and never waits: what does not fit is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};
use run::Execution;
use sql::TraceParent;

/// Most executions that wait for the reader.
const WAITING_MAX: usize = 8_192;

/// Selects traces.
type Selection = Box<dyn Fn(&TraceParent) -> bool + Send + Sync>;

/// Sending side, for the recorder.
pub(crate) struct ExecutionSampler {
    sender: Sender<Execution>,
    selects: Selection,
    lost: Arc<AtomicU64>,
}

/// Executions of sampled traces that ended, in no particular order.
pub struct SampledExecutions {
    receiver: Receiver<Execution>,
    lost: Arc<AtomicU64>,
}

impl ExecutionSampler {
    pub(crate) fn new(
        selects: impl Fn(&TraceParent) -> bool + Send + Sync + 'static,
    ) -> (Self, SampledExecutions) {
        let (sender, receiver) = bounded(WAITING_MAX);
        let lost = Arc::<AtomicU64>::default();
        let sampler = ExecutionSampler {
            sender,
            selects: Box::new(selects),
            lost: lost.clone(),
        };
        (sampler, SampledExecutions { receiver, lost })
    }

    /// Offers an execution to the reader, if it was sent, has ended, and its trace is selected.
    pub(crate) fn offer(&self, execution: &Execution) {
        let has_times = execution.sent_ns.is_some() && execution.done_ns.is_some();
        let trace = execution.captured.trace.as_ref().filter(|_| has_times);
        if !trace.is_some_and(|trace| (self.selects)(trace)) {
            return;
        }
        if self.sender.try_send(execution.clone()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl SampledExecutions {
    /// Takes at most this many.
    pub fn take(&self, most: usize) -> Vec<Execution> {
        self.receiver.try_iter().take(most).collect()
    }

    /// Returns the number of executions so far for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use run::{Captured, Outcome, StatementKind};

    use super::*;

    fn execution(trace_id: u128, done_ns: Option<i64>) -> Execution {
        Execution {
            session: 1,
            sequence: 1,
            fingerprint: None,
            kind: StatementKind::Simple,
            outcome: Outcome::Done,
            due_ns: 0,
            sent_ns: Some(0),
            first_byte_ns: None,
            done_ns,
            session_lag_ns: 0,
            stalled_ns: 0,
            rows: 0,
            bytes: 0,
            digest: None,
            message: None,
            captured: Captured {
                trace: (trace_id > 0).then_some(TraceParent {
                    trace_id,
                    span_id: 1,
                    flags: 1,
                }),
                ..Captured::default()
            },
        }
    }

    #[test]
    fn executions_without_room_are_counted_and_others_are_not_offered() {
        let (sampler, sampled) = ExecutionSampler::new(|trace| trace.trace_id != 7);
        for (trace_id, done_ns) in [(0, Some(1)), (7, Some(1)), (8, None)] {
            sampler.offer(&execution(trace_id, done_ns));
        }
        assert!(sampled.take(10).is_empty());
        for _ in 0..WAITING_MAX + 3 {
            sampler.offer(&execution(8, Some(1)));
        }
        assert_eq!(sampled.lost(), 3);
        assert_eq!(sampled.take(10).len(), 10);
        assert_eq!(sampled.take(usize::MAX).len(), WAITING_MAX - 10);
    }
}
