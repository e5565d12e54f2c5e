//! A thread that owns some of the sessions: it sends what is due, reads what comes, and records.
//!
//! The loop: what is due is sent; then one wait, for answers or for the next deadline, whichever
//! comes first; then answers are read and the sessions that became free go on. It waits by epoll, or at
//! full speed by a ring that is shared with the kernel ([`by_ring`]). Nothing in it
//! blocks: connections are opened elsewhere, what a session is not ready for waits in its queue,
//! and the recorder's channel is wide.

mod by_ring;
mod cancelling;
mod opening;
mod ordering;
mod pipelining;
mod remapping;
mod sharing;
mod stopping;
mod turns;
mod wire;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use by_ring::{OnRing, Outbox};
use clock::Clock;
use crossbeam_channel::{Receiver, Sender, unbounded};
use event_loop::Ring;
use run::{Execution, Outcome, StatementKind};

use crate::connector::{Opened, Wanted};
use crate::epoll;
use crate::epoll::{Bell, Epoll, Interest};
use crate::incidents::Incidents;
use crate::job::{Job, Messages};
use crate::link::Link;
use crate::meter::Meter;
use crate::order::Order;
use crate::pace;
use crate::pace::Wait;
use crate::progress::Counters;
use crate::record::Recorded;
use crate::session::{InFlight, Session};
use crate::spill::Spill;
use cancelling::Repetition;
use sharing::Shared;

/// The longest sleep: the recorder hears from a worker at least this often.
const SLEEP_NS_MAX: i64 = 50_000_000;
/// Records are handed over when there are this many, or after [`SLEEP_NS_MAX`].
const RECORDS_AT_ONCE: usize = 512;
/// One read of a socket takes at most this much; sessions share the buffer.
const READ_BYTES: usize = 128 << 10;
/// How long what is in flight may take after a stop.
const GRACE_NS: i64 = 3_000_000_000;
/// The bell's token; slots count from 0.
const BELL: u64 = u64::MAX;

/// What others tell a worker.
pub(crate) enum ToWorker {
    Jobs(Vec<Job>),
    Opened(Opened),
    /// The server has taken a cancel: of which slot, and which of the slot's sessions.
    Cancelled(usize, u32),
    /// A statement need not wait for commits any more: of which slot, and which of its sessions.
    LetGo(usize, u32),
    /// No jobs will follow.
    End,
    /// Send nothing more.
    Stop,
}

/// Where others leave what they tell.
pub(crate) struct Inbox {
    sender: Sender<ToWorker>,
    bell: Bell,
}

impl Inbox {
    /// Has the worker look whether something changed.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    pub(crate) fn new() -> io::Result<(Arc<Inbox>, Receiver<ToWorker>)> {
        let (sender, receiver) = unbounded();
        let bell = Bell::new()?;
        Ok((Arc::new(Inbox { sender, bell }), receiver))
    }

    pub(crate) fn send(&self, message: ToWorker) {
        // A worker that has ended needs nothing more.
        if self.sender.send(message).is_ok() {
            self.bell.ring();
        }
    }
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) messages: Receiver<ToWorker>,
    pub(crate) connectors: Sender<Wanted>,
    pub(crate) recorder: Sender<Recorded>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) start_ns: i64,
    pub(crate) incidents: Arc<Incidents>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) number: usize,
    /// How long a target may be away.
    pub(crate) patience_ns: i64,
    pub(crate) spin_ns: i64,
    pub(crate) at_full_speed: bool,
    /// Connections are read and written by a ring, where the system has one.
    pub(crate) by_ring: bool,
    /// Whose commits statements wait for, if they do.
    pub(crate) order: Option<Arc<Order>>,
    /// The most connections at once, if sessions share them.
    pub(crate) connections_max: Option<usize>,
    pub(crate) queue_statements_max: usize,
    /// Rows are summed up in a checksum.
    pub(crate) digest: bool,
}

struct Slot {
    session: Session,
    socket: Option<Link>,
    /// Where the ring reads and writes its socket.
    on_ring: Option<OnRing>,
    generation: u32,
    waits_for_room: bool,
}

impl Slot {
    fn new(session: Session, generation: u32) -> Self {
        Slot {
            session,
            socket: None,
            on_ring: None,
            generation,
            waits_for_room: false,
        }
    }
}

/// A deadline: when, which slot, and which of the slot's sessions.
type Deadline = Reverse<(i64, usize, u32)>;

pub(crate) struct Worker {
    parts: Parts,
    epoll: Epoll,
    /// At full speed, where the system has one.
    ring: Option<Box<Ring>>,
    outbox: Outbox,
    /// When what came by the ring came.
    turn_ns: i64,
    slots: Vec<Slot>,
    free_slots: Vec<usize>,
    by_session: HashMap<u64, usize>,
    deadlines: BinaryHeap<Deadline>,
    spill: Spill,
    buffer: Vec<u8>,
    records: Vec<(i64, Execution)>,
    handed_over_ns: i64,
    ended: bool,
    /// The workload's last moment has passed: what has nothing more to do is closed.
    past: bool,
    stopped_ns: Option<i64>,
    /// What was spilled could not be read back: statements would be lost.
    broken: Option<io::Error>,
    shared: Option<Shared>,
    /// What waits for commits: for how many, in which slot, and which of the slot's sessions.
    held_back: BinaryHeap<Reverse<(u64, usize, u32)>>,
    /// Cancel requests that may have to be sent again.
    repetitions: Vec<Repetition>,
    /// Sessions that have something waiting, in flight or being opened.
    busy: usize,
}

impl Worker {
    pub(crate) fn new(parts: Parts, spill_directory: &Path) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(parts.inbox.bell.fd(), BELL, Interest::Read)?;
        Ok(Worker {
            epoll,
            ring: None,
            outbox: Outbox::default(),
            turn_ns: 0,
            slots: Vec::new(),
            free_slots: Vec::new(),
            by_session: HashMap::new(),
            deadlines: BinaryHeap::new(),
            spill: Spill::new(spill_directory),
            buffer: vec![0; READ_BYTES],
            records: Vec::new(),
            handed_over_ns: 0,
            ended: false,
            past: false,
            stopped_ns: None,
            broken: None,
            held_back: BinaryHeap::new(),
            repetitions: Vec::new(),
            shared: parts.connections_max.map(Shared::new),
            parts,
            busy: 0,
        })
    }

    /// Works until all is done, or stopped.
    ///
    /// # Errors
    /// Where the system refuses what no replay can do without.
    pub(crate) fn work(mut self) -> io::Result<()> {
        epoll::wake_precisely();
        // Sessions that share connections hand them to one another, which epoll does with one call.
        if self.parts.by_ring && self.shared.is_none() {
            self.ring = by_ring::ring(&self.epoll);
        }
        loop {
            let mut now_ns = self.send_due();
            self.repeat_cancels(now_ns);
            if self.parts.order.is_some() {
                self.release();
            }
            if self.shared.is_some() {
                self.serve_queue();
                now_ns = self.now_ns();
            }
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            if self.is_finished(now_ns) {
                break;
            }
            if self.ended && !self.past && self.is_past(now_ns) {
                self.past = true;
                self.end_groups();
                self.close_idle();
            }
            self.hand_over(now_ns, false);
            let next_due_ns = self.deadlines.peek().map(|Reverse((due_ns, _, _))| *due_ns);
            let timeout_ns = match pace::wait(now_ns, next_due_ns, self.parts.spin_ns, SLEEP_NS_MAX)
            {
                Wait::None | Wait::Spin => 0,
                Wait::Sleep(ns) => ns,
            };
            match self.ring {
                None => self.turn_by_epoll(timeout_ns)?,
                Some(_) => self.turn_by_ring(timeout_ns)?,
            }
        }
        for slot in 0..self.slots.len() {
            self.close(slot, true);
        }
        self.let_leave()?;
        let now_ns = self.now_ns();
        self.hand_over(now_ns, true);
        Ok(())
    }

    /// Waits for at most so long, and does what is to be done then.
    fn turn_by_epoll(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.epoll.wait(timeout_ns)?;
        let mut told = false;
        for place in 0..self.epoll.ready_count() {
            let ready = self.epoll.ready(place);
            if ready.token == BELL {
                told = true;
                continue;
            }
            let slot = ready.token as usize;
            if ready.writable {
                self.write_rest(slot);
            }
            if self.slots[slot].on_ring.is_none() {
                self.read(slot);
            }
        }
        if told {
            self.parts.inbox.bell.silence();
            while let Ok(message) = self.parts.messages.try_recv() {
                self.take(message)?;
            }
        }
        Ok(())
    }

    fn now_ns(&self) -> i64 {
        self.parts.clock.now_ns() - self.parts.start_ns
    }

    fn is_finished(&mut self, now_ns: i64) -> bool {
        if let Some(stopped_ns) = self.stopped_ns {
            if self.busy > 0 && now_ns - stopped_ns > GRACE_NS {
                self.give_up(now_ns);
            }
            return self.busy == 0 && self.ended;
        }
        self.ended && self.busy == 0
    }

    fn is_past(&self, now_ns: i64) -> bool {
        self.parts.at_full_speed || now_ns >= self.parts.counters.planned_ns.load(Ordering::Relaxed)
    }

    fn take(&mut self, message: ToWorker) -> io::Result<()> {
        match message {
            ToWorker::Jobs(jobs) => {
                let now_ns = self.now_ns();
                for job in jobs {
                    self.queue(job, now_ns);
                }
            }
            ToWorker::Opened(opened) => self.opened(opened)?,
            ToWorker::LetGo(slot, generation) => self.let_go(slot, generation),
            ToWorker::Cancelled(slot, generation) => self.cancelled(slot, generation),
            ToWorker::End => self.ended = true,
            ToWorker::Stop => {
                self.stopped_ns
                    .get_or_insert(self.parts.clock.now_ns() - self.parts.start_ns);
                self.drop_waiting();
                self.give_up_waiting(self.now_ns());
            }
        }
        Ok(())
    }

    fn record(&mut self, now_ns: i64, execution: Execution) {
        if let Some(order) = &self.parts.order {
            order.done(execution.session, execution.sequence);
        }
        let counters = &self.parts.counters;
        counters.over(execution.session);
        if execution.is_statement() {
            match execution.outcome {
                Outcome::Done => &counters.done,
                Outcome::Failed(_) => &counters.failed,
                Outcome::Skipped(_) => &counters.skipped,
            }
            .fetch_add(1, Ordering::Relaxed);
        }
        self.parts.meter.record(self.parts.number, &execution);
        self.records.push((now_ns, execution));
    }

    fn hand_over(&mut self, now_ns: i64, last: bool) {
        let full = self.records.len() >= RECORDS_AT_ONCE;
        if !full && !last && now_ns - self.handed_over_ns < SLEEP_NS_MAX {
            return;
        }
        self.handed_over_ns = now_ns;
        self.parts
            .meter
            .spilled(self.parts.number, self.spill.jobs());
        // Records of one moment are in the order in which they were made; those of later moments
        // come later, but a moment looked at before a read may be recorded after one behind it.
        self.records.sort_by_key(|(at_ns, _)| *at_ns);
        let recorded = Recorded {
            worker: self.parts.number,
            records: std::mem::take(&mut self.records),
            until_ns: if last { i64::MAX } else { now_ns },
        };
        let _ = self.parts.recorder.send(recorded);
    }
}

fn flight(job: Job, sent_ns: i64, session_lag_ns: u64, messages: &Messages) -> InFlight {
    InFlight {
        due_ns: job.due_ns,
        job,
        sent_ns,
        session_lag_ns,
        first_byte_ns: None,
        rows: 0,
        rows_came: 0,
        bytes: 0,
        digest: None,
        error: None,
        named: None,
        extended: messages.extended,
        copy: None,
        owes_sync: false,
        aborted: false,
        in_transaction: false,
        state_changing_bytes: None,
    }
}

/// A record of a job that ended, without the times that only an answer has.
fn done(
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
        rows: 0,
        bytes: 0,
        digest: None,
        message,
        captured: job.captured,
    }
}
