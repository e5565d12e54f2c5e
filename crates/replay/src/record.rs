//! Recorder: merges the workers' records in time order and writes them to the run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::epoll;
use clock::Clock;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use run::{
    ArchiveError, Execution, GeneratedValue, Outcome, ResultColumns, RunWriter, StatementKind,
};

use crate::connection_events::ConnectionEvent;
use crate::connection_events::ConnectionEvents;
use crate::event_id::EventId;
use crate::generated::ReplayedValue;
use crate::metrics::Metrics;
use crate::row_sample::RowSample;
use crate::series_follower::NewTexts;

/// Longest wait for records before the recorder checks whether to flush.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Records of a worker in order, each with its time.
pub(crate) struct RecordBatch {
    pub(crate) worker: usize,
    pub(crate) records: Vec<(i64, Execution)>,
    /// Columns of the results of some of them.
    pub(crate) result_columns: Vec<ResultColumns>,
    /// Generated values of their results.
    pub(crate) generated: Vec<(EventId, ReplayedValue)>,
    /// Intervals in which the worker did not run.
    pub(crate) stalls: Vec<(i64, i64)>,
    /// No earlier record will follow from this worker; `i64::MAX`: none at all.
    pub(crate) until_ns: i64,
}

/// Destination of the records.
pub(crate) struct RecorderOutput<'t> {
    pub(crate) writer: RunWriter,
    /// Executions whose rows are kept.
    pub(crate) sample: RowSample,
    /// Statements and contexts of later parts of a series.
    pub(crate) new_texts: &'t NewTexts,
}

/// Writes records until every worker has ended, and flushes the run to disk every `flush_every`. Returns the
/// writer, which the caller finishes.
///
/// # Errors
/// If the run cannot be written. The channel is then closed, so that workers continue without recording, and the
/// engine stops them.
pub(crate) fn record(
    output: RecorderOutput<'_>,
    recorded: &Receiver<RecordBatch>,
    workers: usize,
    clock: &Arc<dyn Clock>,
    flush_every: Duration,
    metrics: &Metrics,
    events: &ConnectionEvents,
) -> Result<RunWriter, ArchiveError> {
    epoll::lower_thread_priority();
    let RecorderOutput {
        mut writer,
        mut sample,
        new_texts,
    } = output;
    let mut order = TimeMerger::new(workers);
    let flush_every_ns = i64::try_from(flush_every.as_nanos()).unwrap_or(i64::MAX);
    let mut flushed_ns = clock.now_ns();
    loop {
        match recorded.recv_timeout(RECEIVE_TIMEOUT.min(flush_every)) {
            Ok(mut batch) => {
                for (from_ns, until_ns) in &batch.stalls {
                    writer.tool_stall(*from_ns, *until_ns);
                }
                metrics.record_batch(&batch.records);
                for mut columns in std::mem::take(&mut batch.result_columns) {
                    sample.limit(&mut columns);
                    writer.result_columns(&columns)?;
                }
                for ((session, sequence), value) in std::mem::take(&mut batch.generated) {
                    writer.generated_value(&GeneratedValue {
                        session,
                        sequence,
                        position: value.position as u64,
                        value: value.replayed.text_format().into(),
                    })?;
                }
                order.take(batch);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                order.end_all();
            }
        }
        // They are on disk before the executions after them.
        write_texts(&mut writer, new_texts)?;
        for lost in events.take_lost() {
            writer.lost_connection(&lost)?;
        }
        while let Some(execution) = order.next() {
            writer.execution(&execution)?;
            metrics.written();
            report_refusal(execution, events);
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

/// Writes the statements, contexts and gaps of parts that were opened since the last call.
fn write_texts(writer: &mut RunWriter, new_texts: &NewTexts) -> Result<(), ArchiveError> {
    let added = new_texts.take();
    writer.add_texts(&added.statements, &added.contexts)?;
    match added.gaps.is_empty() {
        true => Ok(()),
        false => writer.series_gaps(added.gaps),
    }
}

/// Reports a refused connection. The recorder does it to keep it off the workers.
fn report_refusal(execution: Execution, events: &ConnectionEvents) {
    if execution.kind == StatementKind::Connect
        && let Outcome::Failed(sqlstate) = execution.outcome
    {
        events.queue.push(ConnectionEvent::ConnectionRefused {
            session: execution.session,
            sqlstate,
            message: execution.message.unwrap_or_default(),
        });
    }
}

/// Merges the workers' streams. The earliest record is returned when no worker can send an earlier one.
struct TimeMerger {
    streams: Vec<VecDeque<(i64, Execution)>>,
    until_ns: Vec<i64>,
}

impl TimeMerger {
    fn new(workers: usize) -> Self {
        TimeMerger {
            streams: (0..workers).map(|_| VecDeque::new()).collect(),
            until_ns: vec![i64::MIN; workers],
        }
    }

    fn take(&mut self, batch: RecordBatch) {
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
