//! One trial: a replay with its beginning left out, and what was used meanwhile.

use std::path::Path;
use std::sync::Arc;

use clock::Clock;
use replay::{Observer, Snapshot, Target};
use run::{ArchiveError, RunReader, RunStatus, RunWriter};
use target::login::Dialer;

use crate::design::Cell;
use crate::error::ExperimentError;
use crate::load::Load;
use crate::machine::Used;
use crate::measure::{Numbers, Sums};
use crate::statements::{Asking, Counted, login_of};

/// What a trial is given beside its load.
pub(crate) struct Place<'a> {
    pub(crate) target: &'a Target,
    /// The server is ours.
    pub(crate) is_ours: bool,
    pub(crate) postmaster: Option<i32>,
    /// Where its run goes.
    pub(crate) run: &'a Path,
    /// What the target is goes into the run, too.
    pub(crate) facts: bool,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// Does a trial and writes its run. `None` where it was stopped by the user.
pub(crate) fn perform(
    load: &Load,
    cell: &Cell,
    seed: u64,
    place: &Place<'_>,
) -> Result<Option<Numbers>, ExperimentError> {
    let options = load.options(cell, seed);
    let reader = load.reader();
    let target = options.prepared(place.target);
    let info = replay::check_target(reader, &target, &options.logins)?;
    let dialer = Dialer::new(&target).map_err(replay::ReplayError::Target)?;
    let first = reader.sessions()?.next().transpose()?;
    let first = first.as_ref().map(|one| (&*one.user, &*one.database));
    let login = login_of(&target, first, load.base());
    let mut watch = Watch {
        load,
        place,
        asking: Asking::begin(&dialer, &login, place.is_ours),
        postmaster: place.postmaster,
        login: &login,
        start_ns: None,
        begun: None,
        ended: None,
    };
    if let Ok(asking) = &watch.asking {
        watch.postmaster = watch.postmaster.or(asking.postmaster);
    }
    let (clock, run) = (place.clock, place.run);
    let info = replay::replay(reader, &target, info, &options, run, clock, &mut watch)?;
    let user_stopped = (place.stop)() && info.status == RunStatus::Stopped && watch.ended.is_none();
    if user_stopped {
        return Ok(None);
    }
    let (begun, ended) = (watch.begun.take(), watch.ended.take());
    let from_ns = begun.as_ref().map_or(0, |reading| reading.at_ns);
    // One that ended by itself counts up to its last answer.
    let is_cut = info.status == RunStatus::Stopped;
    let to_ns = match &ended {
        Some(reading) if is_cut => reading.at_ns,
        _ => info.elapsed_ns,
    };
    let mut sums = Sums::new((from_ns, to_ns), load.statements_of_one());
    for execution in RunReader::open(run)?.executions()? {
        sums.take(&execution?);
    }
    let mut numbers = sums.finish();
    numbers.connections_failed = info.connections_failed.values().sum();
    match (begun, ended) {
        (Some(begun), Some(ended)) => spent(&mut numbers, &begun, &ended),
        _ => missing(
            &mut numbers,
            "all but times",
            "the trial was over before its warm-up was: times are of all of it",
        ),
    }
    Ok(Some(numbers))
}

fn missing(numbers: &mut Numbers, what: &str, why: &str) {
    numbers.missing.insert(what.to_owned(), why.to_owned());
}

/// What was used between two readings, for each statement.
fn spent(numbers: &mut Numbers, begun: &Reading, ended: &Reading) {
    let ended_statements = numbers.statements + numbers.failed.values().sum::<u64>();
    let of_each = |before: Option<u64>, now: Option<u64>| {
        let used_us = now?.saturating_sub(before?);
        (ended_statements > 0).then(|| used_us as f64 / ended_statements as f64)
    };
    numbers.client_cpu_us = of_each(begun.used.client_us, ended.used.client_us);
    numbers.server_cpu_us = of_each(begun.used.server_us, ended.used.server_us);
    if numbers.client_cpu_us.is_none() {
        missing(numbers, "client_cpu", "this system has no /proc/self/stat");
    }
    if numbers.server_cpu_us.is_none() {
        missing(
            numbers,
            "server_cpu",
            "the server's processes are not of this machine, or not to be seen",
        );
    }
    let machine = begun.used.machine_us.zip(ended.used.machine_us);
    numbers.machine_busy = machine.and_then(|(before, now)| {
        let all = now.1.saturating_sub(before.1);
        (all > 0).then(|| now.0.saturating_sub(before.0) as f64 / all as f64)
    });
    match (&begun.counted, &ended.counted) {
        (Ok(before), Ok(now)) => numbers.counted = Some(now.since(before)),
        (Err(why), _) | (_, Err(why)) => missing(numbers, "plans", why),
    }
}

/// What is known at a moment, in nanoseconds from the replay's start.
struct Reading {
    at_ns: i64,
    used: Used,
    counted: Result<Counted, String>,
}

struct Watch<'a> {
    load: &'a Load,
    place: &'a Place<'a>,
    asking: Result<Asking<'a>, String>,
    postmaster: Option<i32>,
    login: &'a target::login::Login,
    /// On the clock.
    start_ns: Option<i64>,
    begun: Option<Reading>,
    ended: Option<Reading>,
}

impl Watch<'_> {
    fn read(&mut self) -> Reading {
        let counted = match &mut self.asking {
            Ok(asking) => asking.counted(),
            Err(why) => Err(why.clone()),
        };
        Reading {
            at_ns: self.place.clock.now_ns() - self.start_ns.unwrap_or_default(),
            used: Used::now(self.postmaster),
            counted,
        }
    }
}

impl Observer for Watch<'_> {
    fn beginning(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.place.facts {
            let logins = [self.login.clone()];
            let facts = observe::facts(self.place.target, &logins, &**self.place.clock);
            run.facts(&facts)?;
        }
        Ok(())
    }

    fn ending(&mut self, _: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.begun.is_some() && self.ended.is_none() && !(self.place.stop)() {
            self.ended = Some(self.read());
        }
        Ok(())
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        let elapsed_ns = snapshot.elapsed_ns;
        let start_ns = self.place.clock.now_ns() - elapsed_ns;
        self.start_ns.get_or_insert(start_ns);
        let passed = |time: std::time::Duration| elapsed_ns >= time.as_nanos() as i64;
        if self.begun.is_none() && passed(self.load.warm_up) {
            self.begun = Some(self.read());
        }
        let over = self.load.ends_after().is_some_and(passed)
            || self
                .load
                .ends_behind()
                .is_some_and(|count| snapshot.done + snapshot.failed >= count);
        if over && self.begun.is_some() && self.ended.is_none() {
            self.ended = Some(self.read());
        }
    }

    fn should_stop(&mut self) -> bool {
        self.ended.is_some() || (self.place.stop)()
    }
}
