//! Worker: a thread that owns some of the sessions, sends their due statements, reads the answers and records.
//!
//! Each turn of its loop sends what is due, waits for answers or the next deadline, reads the answers, and advances
//! the sessions that became free. It waits by epoll, or at full speed by [`io_uring`]. It never blocks otherwise:
//! connections are opened by other threads, jobs wait in their session's queue, and the recorder's channel is
//! large.

mod cancelling;
mod connecting;
mod generated_values;
mod io_uring;
mod lagging;
mod order_waits;
mod pipelining;
mod scheduling;
mod sharing;
mod socket_io;
mod stopping;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clock::Clock;
use crossbeam_channel::{Receiver, Sender};
use event_loop::Ring;
use io_uring::{Outbox, RingSocket};
use run::{Execution, Outcome, ResultColumns, StatementKind};

use crate::connection_events::ConnectionEvents;
use crate::connector::ConnectorRequest;
use crate::counters::Counters;
use crate::epoll;
use crate::epoll::{Interest, Poller};
use crate::event_id::EventId;
use crate::generated::{ReplayedValue, ReplayedValues};
use crate::idle_wait;
use crate::idle_wait::Wait;
use crate::inbox::{Inbox, WorkerMessage};
use crate::job::Job;
use crate::metrics::Metrics;
use crate::options::ResultChecksums;
use crate::record::RecordBatch;
use crate::session::Session;
use crate::spill::Spill;
use crate::stall_detector::StallDetector;
use crate::statement_order::StatementOrder;
use crate::stream::Stream;
use cancelling::CancelRetry;
use sharing::ConnectionPool;

/// Longest sleep. A stall is found if it exceeds the sleep during which it began, so sleeps are short.
const SLEEP_NS_MAX: i64 = 5_000_000;
/// Longest interval between two record batches.
const FLUSH_NS_MAX: i64 = 50_000_000;
/// Number of records after which a batch is sent; a smaller batch is sent after [`FLUSH_NS_MAX`].
const BATCH_RECORDS: usize = 512;
/// Size of the read buffer, which all sessions of a worker share.
const READ_BYTES: usize = 128 << 10;
/// Grace period for statements in flight after a stop.
const STOP_GRACE_NS: i64 = 3_000_000_000;
/// Token of the waker; tokens of slots count from 0.
const WAKER: u64 = u64::MAX;

/// Resources and options of a worker.
pub(crate) struct WorkerContext {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) messages: Receiver<WorkerMessage>,
    pub(crate) connectors: Sender<ConnectorRequest>,
    pub(crate) recorder: Sender<RecordBatch>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) start_ns: i64,
    pub(crate) events: Arc<ConnectionEvents>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) number: usize,
    /// Time that the target may be unreachable.
    pub(crate) patience_ns: i64,
    pub(crate) spin_ns: i64,
    pub(crate) at_full_speed: bool,
    /// Whether to use io_uring, if the system supports it.
    pub(crate) uses_io_uring: bool,
    /// Order across sessions, if statements wait for others than those of their own.
    pub(crate) order: Option<Arc<StatementOrder>>,
    /// Values that the server generated.
    pub(crate) replayed_values: Arc<ReplayedValues>,
    /// Most connections at once, if sessions share them.
    pub(crate) connections_max: Option<usize>,
    pub(crate) queue_statements_max: usize,
    /// Greatest lag of a session, if it skips what is overdue beyond that.
    pub(crate) lag_max_ns: Option<i64>,
    pub(crate) checksums: ResultChecksums,
}

/// Place of a session in a worker. Its generation changes when another session gets the slot.
struct Slot {
    session: Session,
    socket: Option<Stream>,
    /// Registration of the socket with io_uring.
    ring_socket: Option<RingSocket>,
    generation: u32,
    /// Whether epoll waits until the socket is writable.
    awaits_writable: bool,
}

impl Slot {
    fn new(session: Session, generation: u32) -> Self {
        Slot {
            session,
            socket: None,
            ring_socket: None,
            generation,
            awaits_writable: false,
        }
    }
}

/// Deadline: due time, slot and generation.
type Deadline = Reverse<(i64, usize, u32)>;

/// Thread that runs a share of the sessions.
pub(crate) struct Worker {
    context: WorkerContext,
    epoll: Poller,
    /// Ring of io_uring, at full speed if the system supports it.
    ring: Option<Box<Ring>>,
    outbox: Outbox,
    /// Time of the completions that are being handled.
    batch_ns: i64,
    slots: Vec<Slot>,
    free_slots: Vec<usize>,
    by_session: HashMap<u64, usize>,
    deadlines: BinaryHeap<Deadline>,
    spill: Spill,
    buffer: Vec<u8>,
    records: Vec<(i64, Execution)>,
    /// Columns of the results of these, if they are requested.
    result_columns: Vec<ResultColumns>,
    /// Generated values of their results.
    generated: Vec<(EventId, ReplayedValue)>,
    stalls: StallDetector,
    flushed_ns: i64,
    no_more_jobs: bool,
    /// Whether the workload's end has passed, after which idle sessions are closed.
    past_end: bool,
    stopped_ns: Option<i64>,
    /// Error that ends the worker: spilled jobs could not be read back, or the ring failed.
    error: Option<io::Error>,
    pool: Option<ConnectionPool>,
    /// Sessions that wait for commits: number of commits, slot and generation.
    commit_waits: BinaryHeap<Reverse<(u64, usize, u32)>>,
    /// Cancel requests to retry.
    cancel_retries: Vec<CancelRetry>,
    /// Number of sessions with a queued job, a statement in flight or a connection being opened.
    busy: usize,
}

impl Worker {
    pub(crate) fn new(context: WorkerContext, spill_directory: &Path) -> io::Result<Self> {
        let epoll = Poller::new()?;
        epoll.add(context.inbox.waker_fd(), WAKER, Interest::Read)?;
        Ok(Worker {
            epoll,
            ring: None,
            outbox: Outbox::default(),
            batch_ns: 0,
            slots: Vec::new(),
            free_slots: Vec::new(),
            by_session: HashMap::new(),
            deadlines: BinaryHeap::new(),
            spill: Spill::new(spill_directory),
            buffer: vec![0; READ_BYTES],
            records: Vec::new(),
            result_columns: Vec::new(),
            generated: Vec::new(),
            stalls: StallDetector::default(),
            flushed_ns: 0,
            no_more_jobs: false,
            past_end: false,
            stopped_ns: None,
            error: None,
            commit_waits: BinaryHeap::new(),
            cancel_retries: Vec::new(),
            pool: context.connections_max.map(ConnectionPool::new),
            context,
            busy: 0,
        })
    }

    /// Runs until all jobs are done, or until the replay is stopped.
    ///
    /// # Errors
    /// If a system call fails without which there is no replay, or spilled jobs cannot be read back.
    pub(crate) fn work(mut self) -> io::Result<()> {
        epoll::set_timer_slack();
        // A shared connection moves between sessions, which takes one call with epoll.
        if self.context.uses_io_uring && self.pool.is_none() {
            self.ring = io_uring::create_ring(&self.epoll);
        }
        loop {
            let mut now_ns = self.send_due();
            self.retry_cancels(now_ns);
            if self.context.order.is_some() {
                self.release_committed();
            }
            if self.pool.is_some() {
                self.assign_connections();
                now_ns = self.now_ns();
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.is_finished(now_ns) {
                break;
            }
            if self.no_more_jobs && !self.past_end && self.is_past_end(now_ns) {
                self.past_end = true;
                self.end_groups();
                self.close_idle();
            }
            self.flush_records(now_ns, false);
            let next_due_ns = self.deadlines.peek().map(|Reverse((due_ns, _, _))| *due_ns);
            let timeout_ns =
                match idle_wait::wait(now_ns, next_due_ns, self.context.spin_ns, SLEEP_NS_MAX) {
                    Wait::None | Wait::Spin => 0,
                    Wait::Sleep(ns) => ns,
                };
            match self.ring {
                None => self.poll_epoll(timeout_ns)?,
                Some(_) => self.poll_ring(timeout_ns)?,
            }
        }
        for slot in 0..self.slots.len() {
            self.close(slot, true);
        }
        self.release_closed()?;
        let now_ns = self.now_ns();
        self.flush_records(now_ns, true);
        Ok(())
    }

    /// Waits for at most `timeout_ns`, and handles sockets and messages that are ready.
    fn poll_epoll(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.stalls.sleep(timeout_ns);
        self.epoll.wait(timeout_ns)?;
        self.stalls.run(self.now_ns());
        let mut has_messages = false;
        for index in 0..self.epoll.ready_count() {
            let ready = self.epoll.ready(index);
            if ready.token == WAKER {
                has_messages = true;
                continue;
            }
            let slot = ready.token as usize;
            if ready.writable {
                self.write_rest(slot);
            }
            if self.slots[slot].ring_socket.is_none() {
                self.read(slot);
            }
        }
        if has_messages {
            self.context.inbox.reset_waker();
            while let Ok(message) = self.context.messages.try_recv() {
                self.handle(message)?;
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> i64 {
        self.context.clock.now_ns() - self.context.start_ns
    }

    fn is_finished(&mut self, now_ns: i64) -> bool {
        if let Some(stopped_ns) = self.stopped_ns {
            if self.busy > 0 && now_ns - stopped_ns > STOP_GRACE_NS {
                self.abandon_in_flight(now_ns);
            }
            return self.busy == 0 && self.no_more_jobs;
        }
        self.no_more_jobs && self.busy == 0
    }

    fn is_past_end(&self, now_ns: i64) -> bool {
        self.context.at_full_speed
            || now_ns >= self.context.counters.planned_ns.load(Ordering::Relaxed)
    }

    fn handle(&mut self, message: WorkerMessage) -> io::Result<()> {
        match message {
            WorkerMessage::Jobs(jobs) => {
                let now_ns = self.now_ns();
                for job in jobs {
                    self.enqueue(job, now_ns);
                }
            }
            WorkerMessage::Opened(opened) => self.on_open_result(opened)?,
            WorkerMessage::Release(slot, generation) => self.release_early(slot, generation),
            WorkerMessage::Continue(slot, generation) => self.end_wait(slot, generation),
            WorkerMessage::Cancelled(slot, generation) => self.cancelled(slot, generation),
            WorkerMessage::End => self.no_more_jobs = true,
            WorkerMessage::Stop => {
                self.stopped_ns
                    .get_or_insert(self.context.clock.now_ns() - self.context.start_ns);
                self.drop_queued();
                self.abandon_connecting(self.now_ns());
            }
        }
        Ok(())
    }

    fn record(&mut self, now_ns: i64, execution: Execution) {
        if let Some(order) = &self.context.order {
            let is_last = execution.kind == StatementKind::Disconnect;
            order.finish(execution.session, execution.sequence, is_last);
        }
        let counters = &self.context.counters;
        counters.finish_job(execution.session);
        if execution.is_statement() {
            match execution.outcome {
                Outcome::Done => &counters.done,
                Outcome::Failed(_) => &counters.failed,
                Outcome::Skipped(_) => &counters.skipped,
            }
            .fetch_add(1, Ordering::Relaxed);
        }
        self.context.metrics.record(self.context.number, &execution);
        self.records.push((now_ns, execution));
    }

    /// Adds the part of an execution in which its answer may have waited for this worker. What the session does next is
    /// late by as much.
    fn add_stall(&mut self, slot: usize, execution: &mut Execution) {
        if let (Some(sent_ns), Some(done_ns)) = (execution.sent_ns, execution.done_ns) {
            execution.stalled_ns = self.stalls.stalled_ns(sent_ns, done_ns);
            self.slots[slot].session.tool_delay_ns += execution.stalled_ns;
        }
    }

    fn flush_records(&mut self, now_ns: i64, last: bool) {
        let full = self.records.len() >= BATCH_RECORDS;
        if !full && !last && now_ns - self.flushed_ns < FLUSH_NS_MAX {
            return;
        }
        self.flushed_ns = now_ns;
        self.context
            .metrics
            .set_spilled(self.context.number, self.spill.jobs());
        // A time that was read before an event may be recorded after a later time. The stable sort keeps the order
        // of records with the same time.
        self.records.sort_by_key(|(at_ns, _)| *at_ns);
        let recorded = RecordBatch {
            worker: self.context.number,
            records: std::mem::take(&mut self.records),
            result_columns: std::mem::take(&mut self.result_columns),
            generated: std::mem::take(&mut self.generated),
            stalls: self.stalls.take(),
            until_ns: if last { i64::MAX } else { now_ns },
        };
        let _ = self.context.recorder.send(recorded);
    }
}

/// Creates the record of a job that ended, without the times of an answer.
fn new_execution(
    job: &Job,
    outcome: Outcome,
    message: Option<String>,
    sent_ns: Option<i64>,
    session_lag_ns: u64,
) -> Execution {
    let is_disconnect = job.kind == StatementKind::Disconnect;
    Execution {
        session: job.session,
        sequence: job.sequence,
        fingerprint: job.fingerprint,
        kind: job.kind,
        outcome,
        due_ns: job.due_ns,
        sent_ns,
        first_byte_ns: None,
        done_ns: if is_disconnect { sent_ns } else { None },
        session_lag_ns,
        stalled_ns: 0,
        rows: 0,
        bytes: 0,
        digest: None,
        message,
        captured: job.captured,
    }
}
