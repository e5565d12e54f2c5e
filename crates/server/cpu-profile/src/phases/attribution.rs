//! Which statement a sample belongs to: the one that its backend carried out at that moment.

use std::collections::{HashMap, HashSet, VecDeque};

use run::{Execution, SessionBackend, StackSample, StatementKind};
use sql::Fingerprint;

/// A backend carried this statement out, from here to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The backend's process number.
    pub pid: u64,
    /// When it began.
    pub from_ns: i64,
    /// When it ended.
    pub until_ns: i64,
    /// Which statement.
    pub fingerprint: Fingerprint,
}

/// The spans of a replay: each statement from its sending to the end of its answer, by the backend that its
/// session spoke with. Executions come in the order in which they were done; an error ends it.
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

/// Goes through samples, in the order of time, beside spans, in the order of their ends, and gives each sample
/// with its statement, if one is known. `pids` are the backends that spans may be of. Holds the samples of
/// what is under way. Of several spans at a moment (statements sent ahead) the one that ended first counts:
/// a backend does one after the other.
///
/// # Errors
/// The first error of either.
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
