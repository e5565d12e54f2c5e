//! Reads the workload ahead of time and hands each worker its sessions' jobs.
//!
//! Paced, it stays a little ahead of the clock. At full speed there is no clock to stay ahead of:
//! it stays ahead of the workers by a number of statements, so that neither memory nor disk fills
//! with a workload that they have not come to. And there it opens no more sessions at once than
//! were open at once in the capture: sessions that came one after the other would otherwise all
//! come together, and the target would refuse most of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Clock, Factor, Speed, duration_text};
use run::SkipReason;
use workload::{ArchiveError, Event, EventKind, WorkloadReader};

use crate::course::Course;
use crate::encode::Encoder;
use crate::epoll;
use crate::guard;
use crate::job::{Action, Job};
use crate::login::Unsaid;
use crate::options::Options;
use crate::order::{Followed, Order};
use crate::progress::Counters;
use crate::remap::Expected;
use crate::resume::{Earlier, Passing, Turn};
use crate::stopped_clock::StoppedClock;
use crate::worker::{Inbox, ToWorker};
use connect::Target;

/// How far ahead of its time a statement is made ready.
pub(crate) const AHEAD_NS: i64 = 1_000_000_000;
/// The first statements are made ready before time starts.
pub(crate) const LEAD_NS: i64 = 100_000_000;
/// Jobs are handed over in batches of at most this many.
const BATCH_JOBS_MAX: usize = 256;
/// At full speed or in a closed loop, how many jobs may wait at the workers in all.
const WAITING_JOBS_MAX: i64 = 50_000;
/// At full speed, the least that is enough where every session has something waiting: what is made ready
/// long before it is sent has left the processor's caches by then, or waits on disk.
const WAITING_JOBS_ENOUGH_MIN: i64 = 512;
/// At full speed, how long to wait before looking again whether there is room.
pub(crate) const NAP: Duration = Duration::from_millis(2);

/// Of one session, so few that it may have none left before more come.
pub(crate) const LITTLE_JOBS_MIN: usize = 4;
const LITTLE_JOBS_MAX: usize = 128;

/// How many jobs are enough at full speed, by how many were done while the planner slept.
#[derive(Debug, Clone, Copy)]
struct Enough(i64);

impl Enough {
    fn new() -> Self {
        Enough(WAITING_JOBS_ENOUGH_MIN)
    }

    /// Four such naps shall not use up what waits; a slower one makes it less again only by and by.
    fn slept(&mut self, done_meanwhile: i64) {
        let lasting = done_meanwhile.saturating_mul(4).max(self.0 / 8 * 7);
        self.0 = lasting.clamp(WAITING_JOBS_ENOUGH_MIN, WAITING_JOBS_MAX);
    }

    /// With how few jobs one of so many sessions may have none left after two naps.
    fn little(self, sessions: i64) -> usize {
        let share = self.0 / sessions.max(1) / 2;
        (share as usize).clamp(LITTLE_JOBS_MIN, LITTLE_JOBS_MAX)
    }
}

/// What the planner works with.
pub(crate) struct Planner<'a> {
    pub(crate) reader: &'a WorkloadReader,
    pub(crate) target: &'a Target,
    pub(crate) options: &'a Options,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) start_ns: i64,
    /// The most sessions to have open at once at full speed.
    pub(crate) sessions_at_once: u64,
    /// Whose commits statements wait for, if they do.
    pub(crate) order: Option<Arc<Order>>,
    /// What was done before, and the clock that stands still until that is passed over.
    pub(crate) earlier: Option<(&'a Earlier, &'a StoppedClock)>,
    pub(crate) stop: &'a AtomicBool,
}

/// What was planned.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// Statements that were handed over.
    pub(crate) statements: u64,
    /// What only the planner knows, for the run's manifest.
    pub(crate) noted: BTreeMap<String, String>,
}

impl Planner<'_> {
    /// Plans until the workload's end or a stop; tells the workers that no more follows.
    ///
    /// # Errors
    /// Where the workload cannot be read.
    pub(crate) fn plan(self) -> Result<Planned, ArchiveError> {
        epoll::let_others_go_first();
        let result = match &self.options.feed {
            None => self.hand_out(),
            Some(feed) => self.hand_out_fed(feed),
        };
        for inbox in &self.inboxes {
            inbox.send(ToWorker::End);
        }
        result
    }

    fn hand_out(&self) -> Result<Planned, ArchiveError> {
        let mut batches: Vec<Vec<Job>> = self.inboxes.iter().map(|_| Vec::new()).collect();
        let mut planned = Planned::default();
        let timeline = self.options.timeline();
        let mut thinking = self.options.think_time.map(Thinking::new);
        let mut course = Course::new(self.options.shape(), self.reader.info().span_us, || {
            self.reader.events()
        });
        // Where sessions do not keep to the captured time, a round waits for the one before it.
        let rounds_wait = thinking.is_some() || self.options.speed == Speed::Max;
        let mut followed = Followed::default();
        let mut passing = self.earlier.map(|(earlier, _)| Passing::new(earlier));
        let mut behind_earlier = self.earlier.is_some();
        let (mut round, mut late_ns) = (0, 0);
        let (logins, fetch_size) = (&self.options.logins, self.options.fetch_size);
        let mut enough = Enough::new();
        let unsaid = Unsaid::of(self.reader, self.target)?;
        let mut encoder = Encoder::new(self.target, logins, fetch_size).with_encoding(unsaid);
        while let Some(step) = course.next()? {
            let mut event = step.event;
            let mut due_ns = timeline.due_ns(event.due_us) + late_ns;
            if rounds_wait && step.round != round {
                if !self.wait_until_done(&mut batches) {
                    return Ok(self.stopped(batches, planned));
                }
                let later_ns = (self.clock.now_ns() - self.start_ns - due_ns).max(0);
                late_ns += later_ns;
                due_ns += later_ns;
            }
            round = step.round;
            let turn = match &mut passing {
                None => Turn::Goes,
                Some(passing) => passing.turn(&event),
            };
            if matches!(turn, Turn::Done) {
                if let Some(thinking) = &mut thinking {
                    thinking.of(&event);
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(self.stopped(batches, planned));
                }
                continue;
            }
            if std::mem::take(&mut behind_earlier)
                && let Some((earlier, clock)) = self.earlier
            {
                // Time goes on where it stood, or where the first of what is left is due.
                late_ns = (earlier.elapsed_ns() - due_ns).max(0);
                due_ns += late_ns;
                clock.go_from(self.start_ns + due_ns - LEAD_NS);
            }
            let connects = matches!(event.kind, EventKind::Connect { .. });
            if !self.wait_for_turn(due_ns, connects, &mut batches, &mut enough) {
                return Ok(self.stopped(batches, planned));
            }
            if connects {
                self.counters.sessions_live.fetch_add(1, Ordering::Relaxed);
            }
            if event.kind.is_statement() {
                planned.statements += 1;
                if !rounds_wait {
                    self.counters.due.planned(due_ns);
                }
            }
            let worker = (event.session % self.inboxes.len() as u64) as usize;
            if let Turn::GoesOn(left) = turn {
                self.counters.sessions_live.fetch_add(1, Ordering::Relaxed);
                batches[worker].push(encoder.resumed(&event, *left, due_ns));
            }
            let think_ns = thinking.as_mut().and_then(|thinking| thinking.of(&event));
            let withheld = self.options.read_only && !guard::keep_from_writing(&mut event);
            let placed = self.order.as_ref().map(|order| (order, event.clone()));
            let expected = match self.options.remap_generated {
                true => Expected::of(&event),
                false => None,
            };
            let mut job = encoder.job(event, step.fingerprint, due_ns);
            job.think_ns = think_ns;
            job.expected = expected;
            if let Some((order, event)) = placed {
                followed.place(&event, &mut job, order);
            }
            if withheld {
                job.action = Action::Skip(SkipReason::ReadOnly);
            }
            self.counters
                .planned_ns
                .fetch_max(due_ns, Ordering::Relaxed);
            batches[worker].push(job);
            if batches[worker].len() >= BATCH_JOBS_MAX {
                self.send(worker, &mut batches[worker]);
            }
        }
        self.send_all(&mut batches);
        if self.options.idle_max.is_some() {
            let cut = duration_text(course.cut_us().saturating_mul(1_000));
            planned.noted.insert("idle_skipped".to_owned(), cut);
        }
        Ok(planned)
    }

    /// What was made ready counts as planned: the workers are given it, and skip it.
    pub(crate) fn stopped(&self, mut batches: Vec<Vec<Job>>, planned: Planned) -> Planned {
        self.send_all(&mut batches);
        planned
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until all that was handed out is done; false after a stop.
    fn wait_until_done(&self, batches: &mut [Vec<Job>]) -> bool {
        self.send_all(batches);
        while self.counters.waiting.load(Ordering::Relaxed) > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(NAP);
        }
        true
    }

    /// Waits until this is worth making ready; false after a stop.
    fn wait_for_turn(
        &self,
        due_ns: i64,
        connects: bool,
        batches: &mut [Vec<Job>],
        enough: &mut Enough,
    ) -> bool {
        let waiting = || self.counters.waiting.load(Ordering::Relaxed);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let early_ns = match self.options.speed {
                Speed::Max => {
                    let waiting = waiting();
                    let live = self.counters.sessions_live.load(Ordering::Relaxed);
                    // Where nothing is left to be done, no session will end by itself.
                    let crowded = connects && waiting > 0 && live >= self.sessions_at_once as i64;
                    let hungry = self.counters.hungry.load(Ordering::Relaxed);
                    // Sessions that are still to come have nothing waiting either.
                    let all_have = hungry <= 0 && live >= self.sessions_at_once as i64;
                    let most = match all_have {
                        true => enough.0,
                        false => WAITING_JOBS_MAX,
                    };
                    let far_ahead = waiting >= most;
                    if !crowded && !far_ahead {
                        return true;
                    }
                    NAP.as_nanos() as i64
                }
                Speed::Times { .. } => {
                    let now_ns = self.clock.now_ns() - self.start_ns;
                    let early_ns = due_ns - now_ns - AHEAD_NS;
                    let runs_ahead = self.options.think_time.is_some();
                    if early_ns <= 0 || (runs_ahead && waiting() < WAITING_JOBS_MAX) {
                        return true;
                    }
                    match runs_ahead {
                        true => early_ns.min(NAP.as_nanos() as i64),
                        false => early_ns,
                    }
                }
            };
            self.send_all(batches);
            let nap = Duration::from_nanos(early_ns as u64).min(Duration::from_millis(50));
            let before = waiting();
            std::thread::sleep(nap);
            enough.slept(before - waiting());
            let live = self.counters.sessions_live.load(Ordering::Relaxed);
            let little = enough.little(live);
            self.counters.little.store(little, Ordering::Relaxed);
        }
    }

    pub(crate) fn send_all(&self, batches: &mut [Vec<Job>]) {
        for (worker, batch) in batches.iter_mut().enumerate() {
            self.send(worker, batch);
        }
    }

    fn send(&self, worker: usize, batch: &mut Vec<Job>) {
        if !batch.is_empty() {
            self.counters
                .waiting
                .fetch_add(batch.len() as i64, Ordering::Relaxed);
            self.inboxes[worker].send(ToWorker::Jobs(std::mem::take(batch)));
        }
    }
}

/// The captured think times of a closed loop: from when the server had answered to when the client
/// sent again.
struct Thinking {
    factor: Factor,
    /// When each open session's previous event was over, in captured time.
    over_us: HashMap<u64, i64>,
}

impl Thinking {
    fn new(factor: Factor) -> Self {
        Thinking {
            factor,
            over_us: HashMap::new(),
        }
    }

    /// How long the session thinks before this event; `None` for its first, which comes at its own
    /// time. Where the capture knows no duration, the statement's time counts as thought.
    fn of(&mut self, event: &Event) -> Option<i64> {
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        let over_us = event.due_us.saturating_add_unsigned(duration_us);
        let before_us = match event.kind {
            EventKind::Disconnect => self.over_us.remove(&event.session),
            _ => self.over_us.insert(event.session, over_us),
        };
        // A client that did not wait for the answer did not think either.
        let think_us = (event.due_us - before_us?).max(0);
        Some(self.factor.of(think_us.saturating_mul(1_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Outcome;

    #[test]
    fn what_waits_lasts_for_some_naps() {
        let mut enough = Enough::new();
        enough.slept(0);
        assert_eq!(enough.0, WAITING_JOBS_ENOUGH_MIN);
        enough.slept(1_000);
        assert_eq!(enough.0, 4_000);
        // One slow nap does not count for much.
        enough.slept(10);
        assert_eq!(enough.0, 3_500);
        enough.slept(i64::MAX / 2);
        assert_eq!(enough.0, WAITING_JOBS_MAX);
        (0..100).for_each(|_| enough.slept(-5));
        assert_eq!(enough.0, WAITING_JOBS_ENOUGH_MIN);
        assert_eq!(enough.little(8), 32);
        assert_eq!(enough.little(1), LITTLE_JOBS_MAX);
        assert_eq!(enough.little(0), LITTLE_JOBS_MAX);
        assert_eq!(enough.little(10_000), LITTLE_JOBS_MIN);
    }

    #[test]
    fn a_think_time_begins_where_the_answer_was_there() {
        let event = |session, due_us, duration_us| Event {
            session,
            sequence: 0,
            due_us,
            kind: EventKind::Simple { sql: "".into() },
            outcome: Outcome {
                duration_us,
                ..Outcome::default()
            },
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            particulars: None,
        };
        let mut half = Thinking::new("0.5".parse().unwrap());
        assert_eq!(half.of(&event(1, 100, Some(40))), None);
        assert_eq!(half.of(&event(2, 110, None)), None);
        assert_eq!(half.of(&event(1, 200, Some(500))), Some(30_000));
        assert_eq!(half.of(&event(2, 200, None)), Some(45_000));
        // Sent before the answer was there, as far as the capture can tell.
        assert_eq!(half.of(&event(1, 300, None)), Some(0));
        let end = Event {
            kind: EventKind::Disconnect,
            ..event(2, 202, None)
        };
        assert_eq!(half.of(&end), Some(1_000));
        assert!(!half.over_us.contains_key(&2));
        let mut none = Thinking::new(Factor::ZERO);
        none.of(&event(1, 0, None));
        assert_eq!(none.of(&event(1, 1_000_000, None)), Some(0));
    }
}
