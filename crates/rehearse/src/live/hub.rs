//! Shared state of the live view: updated each second, and awaited by viewers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clock::duration_text;
use replay::{Metrics, MetricsReading, StatementTotals, TopStatements};
use report::{
    LiveErrorView, LiveNowView, LiveOthersView, LiveRates, LiveReasonView, LiveReplayView,
    LiveState, LiveStatementView, LiveStepView, LiveView, ObservedView,
};
use run::{RunInfo, RunStatus, SkipReason};
use tokio::sync::watch;
use workload::WorkloadReader;

use super::history::{History, TargetAverages};
use super::observed::Observed;
use super::sampler::{LATELY_LOOKS, Sampler, counted, times_view};
use super::statements::Statements;

/// Sampling interval.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Shortest last interval that becomes a separate point. Rates of a shorter one would be
/// meaningless.
const SHORTEST_POINT_S: f64 = 0.25;
/// Time without an answer after which a target is reported as unresponsive.
const SILENCE_NS: i64 = 5_000_000_000;
/// Number of statements shown.
const TOP: usize = 20;
/// Tool lag below which none is reported, in microseconds.
const NOTABLE_LAG_US: f64 = 1e3;
/// Time after the planned end from which a replay counts as late.
const OVERDUE_NS: i64 = 1_000_000_000;

/// Parameters of a hub.
pub struct HubParameters {
    /// Constant facts of the replay.
    pub replay: LiveReplayView,
    /// Source of statement texts; `None` if they are not to be shown.
    pub statements: Option<WorkloadReader>,
}

/// State of a running replay.
pub struct Hub {
    shared: Mutex<Shared>,
    /// Signals that the replay's last statement is done.
    ending: Condvar,
    /// Whether a viewer requested a stop.
    stop: AtomicBool,
    /// Whether the replay is stopping, for any reason.
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    replay: LiveReplayView,
    waits: Observed,
    phases: ObservedView,
    statements: Option<WorkloadReader>,
    history: History,
    now: Arc<LiveNowView>,
    /// Version that grows with each change.
    version: watch::Sender<u64>,
    /// Whether the replay's last statement is done, so that the thread ends.
    ended: bool,
}

/// Position of a viewer in the stream of changes.
#[derive(Debug, Default)]
pub struct ViewerPosition {
    /// Generation of the history, and the number of its final points that the viewer has.
    have: Option<(u64, usize)>,
    version: u64,
}

/// Next message for a viewer.
pub enum ViewerMessage {
    /// Complete view.
    Whole(Box<LiveView>),
    /// Changes since the last message.
    Step(Box<LiveStepView>),
    /// No message until the next change.
    Nothing,
    /// End of the stream.
    Over,
}

impl Hub {
    /// Creates the hub of a replay that starts soon.
    pub fn new(about: HubParameters) -> Arc<Self> {
        let now = LiveNowView {
            state: LiveState::Beginning,
            state_words: LiveState::Beginning.words(),
            note: Some("Nothing has been sent yet.".to_owned()),
            left_us: about.replay.span_us,
            waits: ObservedView::not("the replay has not begun"),
            phases: ObservedView::not("the replay has not begun"),
            ..LiveNowView::default()
        };
        Arc::new(Hub {
            shared: Mutex::new(Shared {
                replay: about.replay,
                waits: Observed::not("this replay does not sample the target's activity"),
                phases: ObservedView::not("this replay does not profile the target"),
                statements: about.statements,
                history: History::default(),
                now: Arc::new(now),
                version: watch::Sender::new(1),
                ended: false,
            }),
            ending: Condvar::new(),
            stop: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts sampling the replay each second.
    pub fn begin(self: &Arc<Self>, meter: &Arc<Metrics>) {
        let (is_timed, span_ns, statements) = {
            let mut shared = self.shared();
            let span_ns = shared.replay.span_us.map(|us| (us * 1e3) as i64);
            (shared.replay.is_timed, span_ns, shared.statements.take())
        };
        let mut looker = HubSampler {
            sampler: Sampler::new(meter, is_timed),
            statements: Statements::new(statements, TEXT_MAX),
            span_ns,
            costliest: VecDeque::new(),
            alive_ns: 0,
        };
        let hub = self.clone();
        let spawned = std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || {
                event_loop::lower_thread_priority();
                hub.look_each_second(&mut looker);
            });
        // Without the thread, the replay continues and nothing is shown.
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = spawned.ok();
    }

    fn look_each_second(&self, looker: &mut HubSampler) {
        let mut next = Instant::now() + LOOK_EVERY;
        loop {
            let ended = {
                let mut shared = self.shared();
                loop {
                    let left = next.saturating_duration_since(Instant::now());
                    if shared.ended || left.is_zero() {
                        break shared.ended;
                    }
                    let waited = self.ending.wait_timeout(shared, left);
                    shared = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            };
            next = (next + LOOK_EVERY).max(Instant::now());
            let seen = looker.sampler.look();
            let mut now = looker.now(self.is_stopping(), ended);
            let mut shared = self.shared();
            if self.is_stopping() && !ended {
                // It may have been asked for in the meantime.
                now.state = LiveState::Stopping;
                now.note = Some(STOPPING.to_owned());
            }
            let of_target = TargetAverages {
                waits: shared.waits.take(seen.at_ns),
                ..TargetAverages::default()
            };
            now.waits = shared.waits.view.clone();
            now.phases = shared.phases.clone();
            if seen.seconds > 0.0 {
                let alone = seen.seconds >= SHORTEST_POINT_S;
                let history = &mut shared.history;
                history.add(&seen, now.in_flight, of_target, alone);
            }
            shared.set(now);
            if ended {
                return;
            }
        }
    }

    /// Adds the average number of backends in each wait, in an interval of the replay's time
    /// that ended at `until_ns`. Called once for each interval.
    pub fn waits_observed(&self, source: &str, until_ns: i64, waits: Vec<(String, f64)>) {
        self.shared().waits.add(source, until_ns, waits);
    }

    /// Sets the reason why waits of the target are not observed. The text follows "not observed:
    /// ".
    pub fn waits_not_observed(&self, why: &str) {
        self.shared().waits = Observed::not(why);
    }

    /// Sets the reason why CPU phases of the target are not observed. The text follows "not
    /// observed: ".
    pub fn phases_not_observed(&self, why: &str) {
        self.shared().phases = ObservedView::not(why);
    }

    /// Marks the replay as stopping.
    pub fn stopping(&self) {
        let mut shared = self.shared();
        if !self.stopping.swap(true, Ordering::Relaxed) {
            let mut now = (*shared.now).clone();
            now.state = LiveState::Stopping;
            now.note = Some(STOPPING.to_owned());
            shared.set(now);
        }
    }

    /// Takes the last sample, after the last statement.
    pub fn ending(&self) {
        self.shared().ended = true;
        self.ending.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Publishes the result: the run, or the reason why there is none.
    pub fn finish(&self, result: Result<(&RunInfo, &Path), String>) {
        self.ending();
        let mut shared = self.shared();
        let mut now = (*shared.now).clone();
        match result {
            Err(reason) => {
                now.state = LiveState::Failed;
                now.note = Some(reason);
            }
            Ok((info, run)) => finished(&mut now, info, run),
        }
        now.left_us = None;
        shared.set(now);
    }

    /// Returns the present state.
    pub fn now(&self) -> Arc<LiveNowView> {
        self.shared().now.clone()
    }

    /// Returns the constant facts.
    pub fn replay(&self) -> LiveReplayView {
        self.shared().replay.clone()
    }

    /// Requests an orderly stop, for a viewer.
    pub fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether a viewer requested a stop.
    pub fn is_asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Returns a receiver that is notified of each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared().version.subscribe()
    }

    /// Returns the next message for a viewer.
    pub fn next(&self, place: &mut ViewerPosition) -> ViewerMessage {
        let shared = self.shared();
        let version = *shared.version.borrow();
        if version == place.version {
            return match shared.now.state.is_over() {
                true => ViewerMessage::Over,
                false => ViewerMessage::Nothing,
            };
        }
        place.version = version;
        let (generation, complete) = (shared.history.generation(), shared.history.complete());
        let had = place.have.replace((generation, complete));
        let now = shared.now.clone();
        match had {
            Some((known, from)) if known == generation => {
                let points = shared.history.points(from);
                drop(shared);
                let now = (*now).clone();
                ViewerMessage::Step(Box::new(LiveStepView { from, points, now }))
            }
            _ => {
                let view = LiveView {
                    schema: "rehearse/live/1",
                    replay: shared.replay.clone(),
                    step_s: LOOK_EVERY.as_secs_f64() * shared.history.samples_per_point() as f64,
                    points: shared.history.points(0),
                    now: (*now).clone(),
                };
                ViewerMessage::Whole(Box::new(view))
            }
        }
    }
}

/// Texts of statements are shortened to this many characters.
const TEXT_MAX: usize = 400;
/// Message while the replay stops.
const STOPPING: &str = "Nothing more is sent; what is in flight has three seconds.";

impl Shared {
    fn set(&mut self, now: LiveNowView) {
        let now = LiveNowView {
            state_words: now.state.words(),
            ..now
        };
        self.now = Arc::new(now);
        self.version.send_modify(|version| *version += 1);
    }
}

/// Copies the numbers of the run's manifest.
fn finished(now: &mut LiveNowView, info: &RunInfo, run: &Path) {
    now.elapsed_us = now.elapsed_us.max(info.elapsed_ns as f64 / 1e3);
    now.done = info.done;
    now.failed = info.failed.values().sum();
    now.skipped = info.skipped.values().sum();
    let codes = info.failed.iter();
    now.errors = codes
        .map(|(code, count)| LiveErrorView::new(code, *count, 0))
        .collect();
    now.errors.sort_by_key(|one| u64::MAX - one.count);
    let skipped: Vec<(String, u64)> = info.skipped.clone().into_iter().collect();
    now.skips = skips(&skipped);
    now.overdue_us = None;
    let run = run.display();
    let note = match (&info.given_up, info.status) {
        (Some(reason), _) => {
            now.state = LiveState::Failed;
            format!("{reason}; {run} has what was done until then.")
        }
        (None, RunStatus::Complete) => {
            now.state = LiveState::Done;
            now.position = 1.0;
            format!("All statements are over; {run} has them.")
        }
        (None, _) => {
            now.state = LiveState::Stopped;
            format!("{run} has what was done until then.")
        }
    };
    now.note = Some(note);
}

fn skips(by_reason: &[(String, u64)]) -> Vec<LiveReasonView> {
    let of = |(reason, count): &(String, u64)| LiveReasonView {
        explanation: SkipReason::from_name(reason)
            .map_or_else(String::new, |reason| reason.explanation().to_owned()),
        reason: reason.clone(),
        count: *count,
    };
    let mut skips: Vec<LiveReasonView> = by_reason.iter().map(of).collect();
    skips.sort_by(|a, b| (b.count, &a.reason).cmp(&(a.count, &b.reason)));
    skips
}

/// Sampler of a replay, run by the hub's thread.
struct HubSampler {
    sampler: Sampler,
    statements: Statements,
    span_ns: Option<i64>,
    /// Most expensive statements of the last samples, the latest last.
    costliest: VecDeque<TopStatements>,
    /// Time when the target last answered, or had nothing to answer.
    alive_ns: i64,
}

impl HubSampler {
    fn now(&mut self, stopping: bool, ended: bool) -> LiveNowView {
        let (top, others) = self.top();
        let seen = self.sampler.latest();
        let readings = &seen.readings;
        let over = readings.done + readings.failed + readings.skipped;
        let asked = readings.sessions_waiting + readings.sessions_connecting;
        if asked == 0 {
            self.alive_ns = readings.elapsed_ns;
        }
        let silent_ns = readings.elapsed_ns - self.alive_ns.max(readings.last_answer_ns);
        let lately = self.sampler.lately();
        let (state, note) = if ended {
            let note = "The last statement is over; the run is being finished.";
            (LiveState::Ending, Some(note.to_owned()))
        } else if stopping {
            (LiveState::Stopping, Some(STOPPING.to_owned()))
        } else if silent_ns >= SILENCE_NS {
            let note = format!(
                "Nothing has come from the target for {} s, and something is asked of it.",
                silent_ns / 1_000_000_000
            );
            (LiveState::Waiting, Some(note))
        } else {
            (LiveState::Running, keeps_time(&lately))
        };
        let position = match (self.span_ns, readings.statements) {
            (Some(span_ns), _) if span_ns > 0 => readings.elapsed_ns as f64 / span_ns as f64,
            (_, 0) => 1.0,
            (_, statements) => over as f64 / statements as f64,
        };
        LiveNowView {
            state,
            state_words: state.words(),
            note,
            elapsed_us: readings.elapsed_ns as f64 / 1e3,
            left_us: left_ns(readings, self.span_ns, over).map(|ns| ns / 1e3),
            overdue_us: self
                .span_ns
                .map(|span_ns| readings.elapsed_ns - span_ns)
                .filter(|&late_ns| late_ns > OVERDUE_NS && !ended)
                .map(|late_ns| late_ns as f64 / 1e3),
            position: position.clamp(0.0, 1.0),
            due: readings.due.filter(|_| lately.due_per_s.is_some()),
            sent: counted(readings, "statements_sent"),
            done: readings.done,
            failed: readings.failed,
            skipped: readings.skipped,
            lately,
            whole: times_view(&seen.times),
            sessions_open: readings.sessions_open,
            sessions_connecting: readings.sessions_connecting,
            in_flight: readings.sessions_waiting,
            queued: readings.jobs_waiting,
            queued_on_disk: readings.jobs_spilled,
            recorder_backlog: readings.recorder_backlog,
            errors: self.sampler.errors(),
            skips: skips(&readings.skipped_by),
            connections_failed: codes(&readings.connections_failed),
            connections_lost: codes(&readings.connections_lost),
            top,
            others,
            // What is observed is not looked at here.
            ..LiveNowView::default()
        }
    }

    fn top(&mut self) -> (Vec<LiveStatementView>, Option<LiveOthersView>) {
        let now = self.sampler.meter().top_statements(TOP).unwrap_or_default();
        let wanted: Vec<_> = now
            .statements
            .iter()
            .filter_map(|one| one.fingerprint)
            .collect();
        self.statements.find(&wanted);
        let total_ns = |costliest: &TopStatements| {
            let shown = costliest.statements.iter().map(|one| one.service_ns);
            shown.sum::<u64>() + costliest.others.service_ns
        };
        let all_ns = total_ns(&now);
        let before = self.costliest.front();
        let lately_ns = all_ns - before.map_or(0, total_ns);
        let part = |ns: u64, of_ns: u64| match of_ns {
            0 => 0.0,
            of_ns => ns as f64 / of_ns as f64,
        };
        let view = |one: &StatementTotals| {
            let fingerprint = one.fingerprint?;
            let then = before.map_or(Some(0), |before| {
                let same = |other: &&StatementTotals| other.fingerprint == one.fingerprint;
                before
                    .statements
                    .iter()
                    .find(same)
                    .map(|one| one.service_ns)
            });
            Some(LiveStatementView {
                fingerprint: fingerprint.to_string(),
                sql: self.statements.text(fingerprint).map(str::to_owned),
                calls: one.calls,
                failed: one.failed,
                total_us: one.service_ns as f64 / 1e3,
                mean_us: one.service_ns as f64 / 1e3 / one.calls.max(1) as f64,
                longest_us: one.longest_ns as f64 / 1e3,
                share: part(one.service_ns, all_ns),
                share_lately: then.map(|then| part(one.service_ns - then, lately_ns)),
                captured_mean_us: (one.captured_calls > 0)
                    .then(|| one.captured_us as f64 / one.captured_calls as f64),
            })
        };
        let top: Vec<LiveStatementView> = now.statements.iter().filter_map(view).collect();
        let others = (now.others.calls > 0).then(|| LiveOthersView {
            different: now.other_statements,
            calls: now.others.calls,
            share: part(now.others.service_ns, all_ns),
        });
        self.costliest.push_back(now);
        while self.costliest.len() > LATELY_LOOKS {
            self.costliest.pop_front();
        }
        (top, others)
    }
}

/// Returns a message on how well the replay keeps its schedule.
fn keeps_time(lately: &LiveRates) -> Option<String> {
    let (lag, response) = (lately.times.tool_lag?, lately.times.response?);
    (lag.p99_us > response.p50_us && lag.p99_us > NOTABLE_LAG_US).then(|| {
        format!(
            "The replay does not keep its time: tool lag p99 {}.",
            duration_text((lag.p99_us * 1e3) as i64)
        )
    })
}

/// Returns the remaining time in nanoseconds: by the plan, or else extrapolated from the
/// statements done. `None` if it is not known, as in a series that is followed.
fn left_ns(readings: &MetricsReading, span_ns: Option<i64>, over: u64) -> Option<f64> {
    if let Some(span_ns) = span_ns {
        return Some((span_ns - readings.elapsed_ns).max(0) as f64);
    }
    (over > 0 && readings.statements > 0).then(|| {
        let each_ns = readings.elapsed_ns as f64 / over as f64;
        each_ns * readings.statements.saturating_sub(over) as f64
    })
}

fn codes(counts: &[(String, u64)]) -> Vec<LiveErrorView> {
    let of = counts.iter();
    of.map(|(code, count)| LiveErrorView::new(code, *count, 0))
        .collect()
}
