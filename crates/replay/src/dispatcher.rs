//! Dispatcher: reads the workload ahead of time and gives each worker the jobs of its sessions.
//!
//! In a paced replay it stays about a second ahead of the clock. At full speed it stays ahead of the workers by a
//! number of jobs, so that neither memory nor disk fills with a workload that they have not reached. And at full
//! speed it opens no more sessions at once than were open at once in the capture. Otherwise sessions that ran
//! one after the other would all connect together, and the target would refuse most of them.

mod due_shift;
mod job_builder;
mod load;
mod resumed_times;
mod series;
mod think_times;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Clock, Speed, duration_text};
use sql::UnrestrictedNames;
use workload::{ArchiveError, EventKind, WorkloadReader};

use crate::connection_events::ConnectionEvents;
use crate::counters::{Counters, LOW_WATERMARK_MIN};
use crate::encode::Encoder;
use crate::epoll;
use crate::event_stream::EventStream;
use crate::followed_values::FollowedValues;
use crate::generated::ReplayedValues;
use crate::inbox::{Inbox, WorkerMessage};
use crate::job::Job;
use crate::login::DefaultEncoding;
use crate::options::Options;
use crate::paused_clock::PausedClock;
use crate::resume::{PreviousRun, ResumeAction, SkipCompleted};
use crate::series_follower::NewTexts;
use crate::statement_order::StatementOrder;
use crate::user_types::UserTypes;
use connect::Target;
use due_shift::DueShift;
use job_builder::JobBuilder;
use resumed_times::ResumedTimes;

/// Time by which a job is encoded before it is due.
const AHEAD_NS: i64 = 1_000_000_000;
/// Time for encoding the first jobs before the replay's time starts.
pub(crate) const LEAD_NS: i64 = 100_000_000;
/// Most jobs of one message to a worker.
const BATCH_JOBS_MAX: usize = 256;
/// At full speed or in a closed loop, most jobs that wait at all workers.
const WAITING_JOBS_MAX: i64 = 50_000;
/// At full speed, smallest read-ahead limit while every session has a backlog. Jobs that are encoded long before
/// they are sent leave the processor's caches, or go to disk.
const READ_AHEAD_JOBS_MIN: i64 = 512;
/// At full speed, interval between two checks whether the workers have room.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Largest low watermark of a session's backlog, in jobs.
const LOW_WATERMARK_MAX: usize = 128;

/// Number of jobs to read ahead at full speed. It adapts to the number done while the dispatcher slept.
#[derive(Debug, Clone, Copy)]
struct ReadAheadLimit(i64);

impl ReadAheadLimit {
    fn new() -> Self {
        ReadAheadLimit(READ_AHEAD_JOBS_MIN)
    }

    /// Sets the limit to the jobs of four such sleeps. It shrinks by at most an eighth at a time.
    fn adapt(&mut self, done_meanwhile: i64) {
        let lasting = done_meanwhile.saturating_mul(4).max(self.0 / 8 * 7);
        self.0 = lasting.clamp(READ_AHEAD_JOBS_MIN, WAITING_JOBS_MAX);
    }

    /// Returns the backlog, in jobs, below which one of `sessions` sessions may run empty within two sleeps.
    fn low_watermark(self, sessions: i64) -> usize {
        let share = self.0 / sessions.max(1) / 2;
        (share as usize).clamp(LOW_WATERMARK_MIN, LOW_WATERMARK_MAX)
    }
}

/// Reads events and sends jobs to the workers.
pub(crate) struct Dispatcher<'a> {
    pub(crate) reader: &'a WorkloadReader,
    pub(crate) target: &'a Target,
    pub(crate) options: &'a Options,
    /// Names of the target that a read-only replay must not use.
    pub(crate) unrestricted: &'a UnrestrictedNames,
    pub(crate) user_types: &'a UserTypes,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) start_ns: i64,
    /// Most open sessions at full speed.
    pub(crate) sessions_at_once: u64,
    /// Order of commits across sessions, if statements wait for them.
    pub(crate) order: Option<Arc<StatementOrder>>,
    /// Keys of the target, and origins of generated values, if these are followed.
    pub(crate) values: Option<&'a FollowedValues>,
    /// Values that the target generated.
    pub(crate) replayed_values: Arc<ReplayedValues>,
    /// Statements and contexts of later parts of a series, for the run.
    pub(crate) new_texts: Arc<NewTexts>,
    pub(crate) events: &'a ConnectionEvents,
    /// Run to resume, and the clock that is paused while its events are skipped.
    pub(crate) resume_from: Option<(&'a PreviousRun, &'a PausedClock)>,
    pub(crate) stop: &'a AtomicBool,
}

/// Result of the dispatcher.
#[derive(Debug, Default)]
pub(crate) struct DispatchSummary {
    /// Statements that were dispatched.
    pub(crate) statements: u64,
    /// Entries for the run's manifest.
    pub(crate) manifest_notes: BTreeMap<String, String>,
}

impl Dispatcher<'_> {
    /// Dispatches jobs until the workload's end or a stop, and then tells the workers that no more follow.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn run(self) -> Result<DispatchSummary, ArchiveError> {
        epoll::lower_thread_priority();
        let result = match (&self.options.load_source, &self.options.follow) {
            (None, None) => self.dispatch_workload(),
            (None, Some(follow)) => self.dispatch_series(follow),
            (Some(source), _) => self.dispatch_load(source),
        };
        for inbox in &self.inboxes {
            inbox.send(WorkerMessage::End);
        }
        result
    }

    fn dispatch_workload(&self) -> Result<DispatchSummary, ArchiveError> {
        let mut batches = self.empty_batches();
        let mut summary = DispatchSummary::default();
        let timeline = self.options.timeline();
        let mut events = EventStream::new(self.options.shape(), self.reader.info().span_us, || {
            self.reader.events()
        });
        // If sessions do not keep to the captured time, a round waits for the one before it.
        let rounds_wait = self.options.think_time.is_some() || self.options.speed == Speed::Max;
        let mut skip_completed =
            (self.resume_from).map(|(previous, _)| SkipCompleted::new(previous));
        let mut resumed_times = (self.resume_from)
            .map(|(previous, clock)| ResumedTimes::new(previous, clock, self.start_ns));
        let (mut round, mut shift) = (0, DueShift::default());
        let mut limit = ReadAheadLimit::new();
        let mut builder = JobBuilder::new(self)?;
        while let Some(step) = events.next()? {
            let event = step.event;
            if (self.options.shard.as_ref()).is_some_and(|shard| !shard.has(event.session)) {
                continue;
            }
            let captured_due_ns = timeline.due_ns(event.due_us);
            let mut due_ns = shift.shifted(captured_due_ns);
            if rounds_wait && step.round != round {
                if !self.wait_until_idle(&mut batches) {
                    return Ok(self.flush_stopped(batches, builder.notes(), summary));
                }
                shift.not_before(captured_due_ns, self.clock.now_ns() - self.start_ns);
                due_ns = shift.shifted(captured_due_ns);
            }
            round = step.round;
            let action = match &mut skip_completed {
                None => ResumeAction::Replay,
                Some(skip) => skip.next_action(&event),
            };
            if matches!(action, ResumeAction::Skip) {
                builder.skip(event, step.fingerprint);
                if self.is_stopped() {
                    return Ok(self.flush_stopped(batches, builder.notes(), summary));
                }
                continue;
            }
            if let Some(times) = &mut resumed_times {
                due_ns = times.due_ns(&event, captured_due_ns, &mut shift);
            }
            let connects = matches!(event.kind, EventKind::Connect { .. });
            if !self.wait_for_room(due_ns, connects, &mut batches, &mut limit) {
                return Ok(self.flush_stopped(batches, builder.notes(), summary));
            }
            if connects {
                self.counters.sessions_live.fetch_add(1, Ordering::Relaxed);
            }
            if event.kind.is_statement() {
                summary.statements += 1;
                if !rounds_wait {
                    self.counters.due.add(due_ns);
                }
            }
            let worker = self.worker_of(event.session);
            if let ResumeAction::ResumeSession(position) = action {
                self.counters.sessions_live.fetch_add(1, Ordering::Relaxed);
                let job = builder.encoder.resume_job(&event, *position, due_ns);
                batches[worker].push(job);
            }
            let job = builder.build(event, step.fingerprint, due_ns);
            let planned_ns = &self.counters.planned_ns;
            planned_ns.fetch_max(due_ns, Ordering::Relaxed);
            batches[worker].push(job);
            if batches[worker].len() >= BATCH_JOBS_MAX {
                self.send(worker, &mut batches[worker]);
            }
        }
        self.send_all(&mut batches);
        if self.options.idle_max.is_some() {
            let cut = duration_text(events.cut_us().saturating_mul(1_000));
            summary
                .manifest_notes
                .insert("idle_skipped".to_owned(), cut);
        }
        summary.manifest_notes.extend(builder.notes());
        Ok(summary)
    }

    fn encoder(&self) -> Result<Encoder<'_>, ArchiveError> {
        let (logins, fetch_size) = (&self.options.logins, self.options.fetch_size);
        let encoding = DefaultEncoding::of(self.reader, self.target)?;
        Ok(Encoder::new(self.target, logins, fetch_size)
            .with_encoding(encoding)
            .with_types(self.user_types.clone()))
    }

    fn empty_batches(&self) -> Vec<Vec<Job>> {
        self.inboxes.iter().map(|_| Vec::new()).collect()
    }

    fn worker_of(&self, session: u64) -> usize {
        (session % self.inboxes.len() as u64) as usize
    }

    /// Sends the encoded jobs after a stop: they count as dispatched, and the workers skip them.
    fn flush_stopped(
        &self,
        mut batches: Vec<Vec<Job>>,
        notes: Vec<(String, String)>,
        mut summary: DispatchSummary,
    ) -> DispatchSummary {
        self.send_all(&mut batches);
        summary.manifest_notes.extend(notes);
        summary
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until all dispatched jobs are done; false after a stop.
    fn wait_until_idle(&self, batches: &mut [Vec<Job>]) -> bool {
        self.send_all(batches);
        while self.counters.waiting.load(Ordering::Relaxed) > 0 {
            if self.is_stopped() {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Waits until the next event should be encoded; false after a stop.
    fn wait_for_room(
        &self,
        due_ns: i64,
        connects: bool,
        batches: &mut [Vec<Job>],
        limit: &mut ReadAheadLimit,
    ) -> bool {
        let waiting = || self.counters.waiting.load(Ordering::Relaxed);
        loop {
            if self.is_stopped() {
                return false;
            }
            let wait_ns = match self.options.speed {
                Speed::Max => {
                    if self.has_room(waiting(), connects, *limit) {
                        return true;
                    }
                    POLL_INTERVAL.as_nanos() as i64
                }
                Speed::Times { .. } => {
                    let now_ns = self.clock.now_ns() - self.start_ns;
                    let early_ns = due_ns - now_ns - AHEAD_NS;
                    let is_closed_loop = self.options.think_time.is_some();
                    if early_ns <= 0 || (is_closed_loop && waiting() < WAITING_JOBS_MAX) {
                        return true;
                    }
                    match is_closed_loop {
                        true => early_ns.min(POLL_INTERVAL.as_nanos() as i64),
                        false => early_ns,
                    }
                }
            };
            self.send_all(batches);
            let sleep = Duration::from_nanos(wait_ns as u64).min(Duration::from_millis(50));
            let before = waiting();
            std::thread::sleep(sleep);
            limit.adapt(before - waiting());
            let live = self.counters.sessions_live.load(Ordering::Relaxed);
            let low_watermark = limit.low_watermark(live);
            let counter = &self.counters.low_watermark;
            counter.store(low_watermark, Ordering::Relaxed);
        }
    }

    /// Whether the next event should be encoded now, at full speed.
    fn has_room(&self, waiting: i64, connects: bool, limit: ReadAheadLimit) -> bool {
        let live = self.counters.sessions_live.load(Ordering::Relaxed);
        let all_connected = live >= self.sessions_at_once as i64;
        // If no jobs wait, no session will end without further jobs.
        let is_crowded = connects && waiting > 0 && all_connected;
        let below_low_watermark = self.counters.below_low_watermark.load(Ordering::Relaxed);
        // Sessions that are not yet connected have no backlog either.
        let all_have_backlog = below_low_watermark <= 0 && all_connected;
        let most = match all_have_backlog {
            true => limit.0,
            false => WAITING_JOBS_MAX,
        };
        !is_crowded && waiting < most
    }

    fn send_all(&self, batches: &mut [Vec<Job>]) {
        for (worker, batch) in batches.iter_mut().enumerate() {
            self.send(worker, batch);
        }
    }

    fn send(&self, worker: usize, batch: &mut Vec<Job>) {
        if !batch.is_empty() {
            self.counters
                .waiting
                .fetch_add(batch.len() as i64, Ordering::Relaxed);
            self.inboxes[worker].send(WorkerMessage::Jobs(std::mem::take(batch)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_limit_adapts_to_the_jobs_done() {
        let mut enough = ReadAheadLimit::new();
        enough.adapt(0);
        assert_eq!(enough.0, READ_AHEAD_JOBS_MIN);
        enough.adapt(1_000);
        assert_eq!(enough.0, 4_000);
        // One slow sleep has little effect.
        enough.adapt(10);
        assert_eq!(enough.0, 3_500);
        enough.adapt(i64::MAX / 2);
        assert_eq!(enough.0, WAITING_JOBS_MAX);
        (0..100).for_each(|_| enough.adapt(-5));
        assert_eq!(enough.0, READ_AHEAD_JOBS_MIN);
        assert_eq!(enough.low_watermark(8), 32);
        assert_eq!(enough.low_watermark(1), LOW_WATERMARK_MAX);
        assert_eq!(enough.low_watermark(0), LOW_WATERMARK_MAX);
        assert_eq!(enough.low_watermark(10_000), LOW_WATERMARK_MIN);
    }
}
