//! What the workers did becomes one stream in the order in which it was done, and the run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::epoll;
use clock::Clock;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use run::{ArchiveError, Execution, Outcome, RunWriter, StatementKind};

use crate::incidents::Incidents;
use crate::meter::{Happening, Meter};

/// The longest that nothing is done while nothing comes.
const LISTEN: Duration = Duration::from_secs(1);

/// What a worker did, in order, with the moments at which it was done.
pub(crate) struct Recorded {
    pub(crate) worker: usize,
    pub(crate) records: Vec<(i64, Execution)>,
    /// Nothing earlier will follow from this worker; `i64::MAX`: nothing at all.
    pub(crate) until_ns: i64,
}

/// Writes until every worker has ended, and makes it safe from a kill every `flush_every`. Returns the
/// writer, to be finished.
///
/// # Errors
/// Where the disk refuses. The channel is then closed, so that workers go on without recording,
/// and the engine stops them.
pub(crate) fn record(
    mut writer: RunWriter,
    recorded: &Receiver<Recorded>,
    workers: usize,
    clock: &Arc<dyn Clock>,
    flush_every: Duration,
    meter: &Meter,
    incidents: &Incidents,
) -> Result<RunWriter, ArchiveError> {
    epoll::let_others_go_first();
    let mut order = Order::new(workers);
    let flush_every_ns = i64::try_from(flush_every.as_nanos()).unwrap_or(i64::MAX);
    let mut flushed_ns = clock.now_ns();
    loop {
        match recorded.recv_timeout(LISTEN.min(flush_every)) {
            Ok(batch) => {
                meter.note(&batch.records);
                order.take(batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                order.end_all();
            }
        }
        while let Some(execution) = order.next() {
            writer.execution(&execution)?;
            meter.written();
            tell_if_refused(execution, incidents);
        }
        if order.is_over() {
            return Ok(writer);
        }
        if clock.now_ns() - flushed_ns > flush_every_ns {
            writer.flush()?;
            flushed_ns = clock.now_ns();
        }
    }
}

/// Told here, since the workers have other things to do.
fn tell_if_refused(execution: Execution, incidents: &Incidents) {
    if execution.kind == StatementKind::Connect
        && let Outcome::Failed(sqlstate) = execution.outcome
    {
        incidents.happenings.tell(Happening::ConnectionRefused {
            session: execution.session,
            sqlstate,
            message: execution.message.unwrap_or_default(),
        });
    }
}

/// Merges the workers' streams: what is earliest goes out once no worker can bring anything
/// earlier.
struct Order {
    streams: Vec<VecDeque<(i64, Execution)>>,
    until_ns: Vec<i64>,
}

impl Order {
    fn new(workers: usize) -> Self {
        Order {
            streams: (0..workers).map(|_| VecDeque::new()).collect(),
            until_ns: vec![i64::MIN; workers],
        }
    }

    fn take(&mut self, batch: Recorded) {
        self.streams[batch.worker].extend(batch.records);
        self.until_ns[batch.worker] = batch.until_ns;
    }

    fn end_all(&mut self) {
        self.until_ns.fill(i64::MAX);
    }

    fn next(&mut self) -> Option<Execution> {
        let safe_ns = *self.until_ns.iter().min()?;
        let (at_ns, worker) = self
            .streams
            .iter()
            .enumerate()
            .filter_map(|(worker, stream)| Some((stream.front()?.0, worker)))
            .min()?;
        (at_ns <= safe_ns).then(|| {
            let (_, execution) = self.streams[worker].pop_front().expect("just seen");
            execution
        })
    }

    fn is_over(&self) -> bool {
        self.until_ns.iter().all(|&until| until == i64::MAX)
            && self.streams.iter().all(VecDeque::is_empty)
    }
}
