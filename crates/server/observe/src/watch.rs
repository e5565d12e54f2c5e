//! Gives the probes their turns, from before a replay's first statement until behind its last.
//!
//! Two threads, each with a connection of its own: one samples the activity and does nothing else, so that
//! nothing delays it; the other has all the rest. A query of the user's has a third, since nobody knows
//! what it takes. A turn that comes too late is not made up for: it is counted.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login};
use run::{ArchiveError, ObservedWriter, ProbeNote, ProbeState};

use crate::asker::{Asker, Cost, OwnProcesses, Unable};
use crate::ledger::{Latest, Ledger, RunTime};
use crate::probe::activity::ActivityProbe;
use crate::probe::connections::ConnectionsProbe;
use crate::probe::counters::CountersProbe;
use crate::probe::locks::LocksProbe;
use crate::probe::machine::MachineProbe;
use crate::probe::permits::PermitsProbe;
use crate::probe::queue::QueueProbe;
use crate::probe::statements::StatementsProbe;
use crate::probe::{Moment, Probe};

/// After so many failures in a row a probe is off.
const FAILURES_MAX: u32 = 3;
/// How often what was seen is made safe from a kill.
const FLUSH_EVERY_NS: i64 = 10_000_000_000;
/// The longest sleep: a connection that is lost is looked after in between.
const SLEEP_NS: i64 = 1_000_000_000;
/// How long the server may take to count what was done last: sessions report when they end, and before
/// version 15 another process writes it down (documentation, 28.2).
const SETTLE: Duration = Duration::from_millis(1_100);

/// The samples a second where nobody says how many.
pub const HZ: u32 = 20;

/// What is looked at beside what always is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// Samples of the activity a second.
    pub hz: u32,
    /// A query whose numbers are kept.
    pub queue: Option<String>,
    /// How often it is asked, whatever it takes. `None`: each second, and for a twentieth of the time at most.
    pub queue_every: Option<Duration>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            hz: HZ,
            queue: None,
            queue_every: None,
        }
    }
}

/// A probe, and whether it looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeStatus {
    /// Its name.
    pub probe: &'static str,
    /// Why it does not look; `None`: it does.
    pub off: Option<String>,
}

/// A watch that is kept. Dropped without an end, it stops, and what it saw stays unfinished.
pub struct Watch {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    statuses: Vec<ProbeStatus>,
}

struct Shared {
    ledger: Ledger,
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// What was before is read; the replay has not begun.
    Before,
    Running,
    Ending,
}

impl Shared {
    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }

    /// Sleeps for so long, or until another phase begins.
    fn sleep(&self, in_phase: Phase, ns: i64) {
        let guard = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *guard == in_phase && ns > 0 {
            let time = Duration::from_nanos(ns.unsigned_abs());
            let _ = self.changed.wait_timeout(guard, time);
        }
    }
}

impl Watch {
    /// Finds out what can be looked at, as the first of the logins that the server takes, and reads what is
    /// counted before anything is done. Returns when that is read, after some 15 s at the longest.
    pub fn begin(
        target: &Target,
        logins: &[Login],
        options: &WatchOptions,
        clock: &Arc<dyn Clock>,
        writer: ObservedWriter,
    ) -> Watch {
        let shared = Arc::new(Shared {
            ledger: Ledger::new(writer, clock.clone()),
            phase: Mutex::new(Phase::Before),
            changed: Condvar::new(),
        });
        let mut groups: Vec<(&'static str, bool, Probes)> = vec![
            (
                "watch",
                false,
                vec![
                    Box::new(PermitsProbe::default()),
                    Box::new(MachineProbe::default()),
                    Box::new(CountersProbe::default()),
                    Box::new(ConnectionsProbe::default()),
                    Box::new(LocksProbe::default()),
                    // Last: what the others asked before is not among what it counts.
                    Box::new(StatementsProbe::default()),
                ],
            ),
            (
                "sample",
                false,
                vec![Box::new(ActivityProbe::new(options.hz))],
            ),
        ];
        if let Some(query) = &options.queue {
            groups.push((
                "queue",
                true,
                vec![Box::new(QueueProbe::new(query, options.queue_every))],
            ));
        }
        let own = OwnProcesses::default();
        let mut threads = Vec::new();
        let mut ready = Vec::new();
        // `plain`: the search path is the role's own.
        for (name, plain, probes) in groups {
            let (sender, receiver) = sync_channel(1);
            let thread = Thread {
                shared: shared.clone(),
                target: target.clone(),
                logins: logins.to_vec(),
                clock: clock.clone(),
                own: own.clone(),
                plain,
            };
            let spawned = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || thread.work(probes, &sender));
            match spawned {
                Ok(thread) => {
                    threads.push(thread);
                    ready.push(receiver);
                }
                Err(error) => shared.ledger.note(name, ProbeState::Off, error.to_string()),
            }
        }
        // A thread that panics sends nothing; the panic is seen when it is joined.
        let statuses = ready.iter().flat_map(|one| one.recv().unwrap_or_default());
        let statuses = statuses.collect();
        Watch {
            shared,
            threads,
            statuses,
        }
    }

    /// The probes, and why some do not look, as it was at the beginning.
    pub fn statuses(&self) -> &[ProbeStatus] {
        &self.statuses
    }

    /// The replay begins: from now on samples are taken, and what is seen has the replay's time.
    pub fn start(&self, time: RunTime) {
        self.shared.ledger.start(time);
        self.shared.enter(Phase::Running);
    }

    /// What was seen in the last second that is over.
    pub fn latest(&self) -> Latest {
        self.shared.ledger.latest()
    }

    /// The last statement is done: reads what was counted meanwhile.
    ///
    /// # Errors
    /// Where the disk refused what was seen.
    pub fn end(mut self) -> Result<ObservedWriter, ArchiveError> {
        self.stop();
        let writer = self.shared.ledger.finish()?;
        Ok(writer.expect("it is taken once, and `end` takes the watch"))
    }

    fn stop(&mut self) {
        self.shared.enter(Phase::Ending);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

type Probes = Vec<Box<dyn Probe>>;

/// What a thread has.
struct Thread {
    shared: Arc<Shared>,
    target: Target,
    logins: Vec<Login>,
    clock: Arc<dyn Clock>,
    own: OwnProcesses,
    plain: bool,
}

/// A probe and its turns.
struct Turns {
    probe: Box<dyn Probe>,
    state: State,
    failures: u32,
    due_ns: i64,
    cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Whether it can work is not known yet, or no longer.
    New,
    On,
    Off(String),
}

impl Thread {
    fn work(self, probes: Probes, ready: &SyncSender<Vec<ProbeStatus>>) {
        let mut all: Vec<Turns> = probes.into_iter().map(Turns::new).collect();
        let dialer = match Dialer::new(&self.target) {
            Ok(dialer) => dialer,
            Err(error) => {
                for turns in &mut all {
                    turns.never(&self.shared.ledger, error.to_string(), None);
                }
                let _ = ready.send(statuses(&all));
                return;
            }
        };
        let mut asker = self.first_that_works(&dialer, &mut all);
        for turns in &mut all {
            turns.begin(&mut asker, &self.shared.ledger);
        }
        let _ = ready.send(statuses(&all));
        while self.shared.phase() == Phase::Before {
            self.shared.sleep(Phase::Before, SLEEP_NS);
        }
        self.keep(&mut asker, &mut all);
        self.close(&mut asker, &mut all);
    }

    /// A connection by the first login that the server takes.
    fn first_that_works<'d>(&self, dialer: &'d Dialer, all: &mut [Turns]) -> Asker<'d> {
        let mut whys: Vec<(String, Option<String>)> = Vec::new();
        for login in &self.logins {
            let mut asker = Asker::new(dialer, login, &self.clock, &self.own, self.plain);
            match asker.open() {
                Ok(()) => return asker,
                // It may be there later.
                Err(Unable::Gone(_) | Unable::Failed(_)) => return asker,
                Err(Unable::Never { why, remedy }) => {
                    if !whys.iter().any(|(known, _)| *known == why) {
                        whys.push((why, remedy));
                    }
                }
            }
        }
        let remedy = whys.iter().find_map(|(_, remedy)| remedy.clone());
        let whys: Vec<String> = whys.into_iter().map(|(why, _)| why).collect();
        let why = match whys.is_empty() {
            true => "there is nobody to log in as".to_owned(),
            false => whys.join("; "),
        };
        for turns in all {
            turns.never(&self.shared.ledger, why.clone(), remedy.clone());
        }
        let login = self.logins.first().cloned().unwrap_or(Login {
            user: "".into(),
            database: "".into(),
            application: "".into(),
            role: None,
            settings: Default::default(),
        });
        Asker::new(dialer, &login, &self.clock, &self.own, self.plain)
    }

    fn keep(&self, asker: &mut Asker<'_>, all: &mut [Turns]) {
        let ledger = &self.shared.ledger;
        let now_ns = ledger.clock_ns();
        for turns in all.iter_mut() {
            turns.due_ns = now_ns;
        }
        let mut flushed_ns = now_ns;
        let mut was_open = asker.is_open();
        while self.shared.phase() == Phase::Running {
            if ledger.is_broken() || all.iter().all(Turns::is_off) {
                self.shared.sleep(Phase::Running, i64::MAX);
                continue;
            }
            if !asker.is_open() && asker.open().is_ok() {
                ledger.note("connection", ProbeState::Back, "");
                was_open = true;
            }
            if asker.is_open() {
                let now_ns = ledger.clock_ns();
                for turns in all.iter_mut().filter(|turns| turns.due_ns <= now_ns) {
                    turns.turn(asker, ledger);
                    if !asker.is_open() {
                        break;
                    }
                }
            }
            if was_open && !asker.is_open() {
                ledger.note("connection", ProbeState::Lost, lost_by(all));
                was_open = false;
            }
            let now_ns = ledger.clock_ns();
            if now_ns - flushed_ns > FLUSH_EVERY_NS {
                ledger.flush();
                flushed_ns = now_ns;
            }
            let due_ns = all
                .iter()
                .filter(|turns| !turns.is_off())
                .map(|turns| turns.due_ns)
                .min();
            let until_ns = due_ns.unwrap_or(i64::MAX).saturating_sub(now_ns);
            let least_ns = if asker.is_open() { 0 } else { SLEEP_NS / 10 };
            self.shared
                .sleep(Phase::Running, until_ns.clamp(least_ns, SLEEP_NS));
        }
    }

    /// The last look, and what it cost.
    fn close(&self, asker: &mut Asker<'_>, all: &mut [Turns]) {
        let ledger = &self.shared.ledger;
        let is_open = asker.is_open() || asker.open().is_ok();
        let on = all.iter().any(|turns| turns.state == State::On);
        if is_open && on && all.len() > 1 {
            std::thread::sleep(SETTLE);
        }
        for turns in all {
            if is_open && turns.state == State::On {
                let moment = Moment {
                    missed: 0,
                    last: true,
                };
                turns.look(asker, ledger, moment);
            }
            turns.probe.leave(ledger);
            ledger.full_note(ProbeNote {
                probe: turns.probe.name().to_owned(),
                state: ProbeState::Ended,
                questions: Some(turns.cost.questions),
                asked_ns: Some(turns.cost.asked_ns),
                failures: Some(turns.cost.failures),
                ..ProbeNote::default()
            });
        }
    }
}

fn statuses(all: &[Turns]) -> Vec<ProbeStatus> {
    let of = |turns: &Turns| ProbeStatus {
        probe: turns.probe.name(),
        off: match &turns.state {
            State::Off(why) => Some(why.clone()),
            State::New | State::On => None,
        },
    };
    all.iter().map(of).collect()
}

/// Who asked when it went, if it was one of ours.
fn lost_by(all: &[Turns]) -> String {
    let by = all.iter().find(|turns| turns.failures > 0);
    by.map_or_else(String::new, |turns| {
        format!("while {} asked", turns.probe.name())
    })
}

impl Turns {
    fn new(probe: Box<dyn Probe>) -> Self {
        Turns {
            probe,
            state: State::New,
            failures: 0,
            due_ns: 0,
            cost: Cost::default(),
        }
    }

    fn is_off(&self) -> bool {
        matches!(self.state, State::Off(_))
    }

    fn never(&mut self, ledger: &Ledger, why: String, remedy: Option<String>) {
        if self.is_off() {
            return;
        }
        ledger.full_note(ProbeNote {
            probe: self.probe.name().to_owned(),
            state: ProbeState::Off,
            text: why.clone(),
            remedy,
            ..ProbeNote::default()
        });
        self.state = State::Off(why);
    }

    fn begin(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) {
        if self.is_off() || !asker.is_open() {
            return;
        }
        let before = asker.cost;
        let result = self.probe.begin(asker, ledger);
        self.pay(before, asker.cost);
        match result {
            Ok(()) => {
                self.state = State::On;
                self.failures = 0;
                ledger.note(self.probe.name(), ProbeState::On, "");
            }
            Err(unable) => self.failed(ledger, unable),
        }
    }

    fn turn(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) {
        let now_ns = ledger.clock_ns();
        let every_ns = self.probe.every_ns().max(1);
        let late = (now_ns - self.due_ns).max(0) / every_ns;
        self.due_ns = match self.state {
            State::New => now_ns.saturating_add(every_ns.min(SLEEP_NS)),
            _ => self
                .due_ns
                .saturating_add(every_ns.saturating_mul(late.saturating_add(1))),
        };
        match self.state {
            State::New => self.begin(asker, ledger),
            State::On => {
                let moment = Moment {
                    missed: late.unsigned_abs(),
                    last: false,
                };
                self.look(asker, ledger, moment);
            }
            State::Off(_) => {}
        }
    }

    fn look(&mut self, asker: &mut Asker<'_>, ledger: &Ledger, moment: Moment) {
        let before = asker.cost;
        let result = self.probe.look(asker, ledger, moment);
        self.pay(before, asker.cost);
        match result {
            Ok(()) => self.failures = 0,
            Err(unable) => self.failed(ledger, unable),
        }
    }

    fn pay(&mut self, before: Cost, after: Cost) {
        self.cost.questions += after.questions - before.questions;
        self.cost.asked_ns += after.asked_ns - before.asked_ns;
        self.cost.failures += after.failures - before.failures;
    }

    fn failed(&mut self, ledger: &Ledger, unable: Unable) {
        let why = match unable {
            Unable::Never { why, remedy } => return self.never(ledger, why, remedy),
            Unable::Failed(why) | Unable::Gone(why) => why,
        };
        self.failures += 1;
        if self.failures >= FAILURES_MAX {
            let why = format!("it failed {FAILURES_MAX} times in a row, last with: {why}");
            self.never(ledger, why, None);
        }
    }
}
