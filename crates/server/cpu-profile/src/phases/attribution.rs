//! Attributes samples to the statement that the backend was executing at that moment.

use std::collections::{HashMap, HashSet, VecDeque};

use run::{Execution, SessionBackend, StackSample, StatementKind};
use sql::Fingerprint;

/// Execution of a statement by a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Process id of the backend.
    pub pid: u64,
    /// Start time.
    pub from_ns: i64,
    /// End time.
    pub until_ns: i64,
    /// Statement.
    pub fingerprint: Fingerprint,
}

/// Returns the spans of a replay: each statement from its sending to the end of its response, with the
/// backend of its session. Executions come in the order of their ends. An error ends the iteration.
pub fn spans_of_executions<E>(
    executions: impl Iterator<Item = Result<Execution, E>>,
    sessions: impl Iterator<Item = Result<SessionBackend, E>>,
) -> impl Iterator<Item = Result<Span, E>> {
    let mut sessions = sessions.peekable();
    let mut backends: HashMap<u64, u64> = HashMap::new();
    executions.filter_map(move |execution| {
        let execution = match execution {
            Ok(execution) => execution,
            Err(error) => return Some(Err(error)),
        };
        let (sent, done) = (execution.sent_ns?, execution.done_ns?);
        while let Some(Ok(one)) = sessions.next_if(|one| match one {
            Ok(one) => one.from_ns <= done,
            Err(_) => true,
        }) {
            backends.insert(one.session, one.pid);
        }
        if execution.kind == StatementKind::Disconnect {
            backends.remove(&execution.session);
        }
        let span = Span {
            pid: *backends.get(&execution.session)?,
            from_ns: sent,
            until_ns: done,
            fingerprint: execution.fingerprint?,
        };
        Some(Ok(span))
    })
}

/// Merges samples, in time order, with spans, in the order of their ends, and passes on each sample with its
/// statement, if known. `pids` are the backends that may have spans. Samples are held in memory until the
/// statements at their time have ended. If several spans cover a moment (pipelined statements), the one that
/// ended first counts, since a backend executes them one after the other.
///
/// # Errors
/// The first error of either iterator.
pub fn attribute<E>(
    samples: impl Iterator<Item = Result<StackSample, E>>,
    spans: impl Iterator<Item = Result<Span, E>>,
    pids: &HashSet<u64>,
    mut take: impl FnMut(StackSample, Option<Fingerprint>),
) -> Result<(), E> {
    let mut samples = samples.peekable();
    let mut waiting: HashMap<u64, VecDeque<StackSample>> = HashMap::new();
    for span in spans {
        let span = span?;
        while let Some(sample) = samples.next_if(|sample| match sample {
            Ok(sample) => sample.at_ns <= span.until_ns,
            Err(_) => true,
        }) {
            let sample = sample?;
            match pids.contains(&sample.pid) {
                true => waiting.entry(sample.pid).or_default().push_back(sample),
                false => take(sample, None),
            }
        }
        let Some(queue) = waiting.get_mut(&span.pid) else {
            continue;
        };
        while let Some(sample) = queue.pop_front_if(|sample| sample.at_ns <= span.until_ns) {
            let known = (sample.at_ns >= span.from_ns).then_some(span.fingerprint);
            take(sample, known);
        }
    }
    for sample in waiting.into_values().flatten() {
        take(sample, None);
    }
    for sample in samples {
        take(sample?, None);
    }
    Ok(())
}
