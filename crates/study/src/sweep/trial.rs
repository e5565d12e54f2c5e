//! One trial of a sweep: a replay without its warm-up, and the resources it used.

use cpu_profile::CpuUsage;
use replay::{Observer, Snapshot};
use run::{ArchiveError, RunReader, RunStatus, RunWriter};

use super::design::Cell;
use super::load::Load;
use super::numbers::{Numbers, Sums};
use super::statement_counts::{Counted, StatementCounts};
use crate::error::ExperimentError;
use crate::stalled_share::stalled_share_within;
use crate::trial::{SERVER_UNSEEN, TrialContext, TrialReplay};

/// Performs a trial and writes its run. Returns `None` if the user interrupted it.
pub(super) fn perform(
    load: &Load,
    cell: &Cell,
    seed: u64,
    keeps_facts: bool,
    context: &TrialContext<'_>,
) -> Result<Option<Numbers>, ExperimentError> {
    let options = load.replay_options(cell, seed);
    let replay = TrialReplay::new(&load.reader, &options, context)?;
    let mut watch = Watch {
        load,
        replay: &replay,
        keeps_facts,
        counts: StatementCounts::connect(&replay),
        start_ns: None,
        begun: None,
        ended: None,
    };
    let info = replay.run(&mut watch)?;
    let is_cut = info.status == RunStatus::Stopped;
    if is_cut && (context.stop)() && watch.ended.is_none() {
        return Ok(None);
    }
    let from_ns = watch.begun.as_ref().map_or(0, |reading| reading.at_ns);
    // A replay that completed counts up to its last answer.
    let to_ns = match &watch.ended {
        Some(reading) if is_cut => reading.at_ns,
        _ => info.elapsed_ns,
    };
    let mut sums = Sums::new((from_ns, to_ns), load.statements_of_one());
    for execution in RunReader::open(context.run)?.executions()? {
        sums.take(&execution?);
    }
    let mut numbers = sums.finish();
    numbers.stalls.share = stalled_share_within(&info, (from_ns, to_ns));
    numbers.connections_failed = info.connections_failed.values().sum();
    match (watch.begun, watch.ended) {
        (Some(begun), Some(ended)) => add_usage(&mut numbers, &begun, &ended),
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

/// Adds the resources used between two readings, for each statement.
fn add_usage(numbers: &mut Numbers, begun: &Reading, ended: &Reading) {
    let statements = numbers.statements + numbers.failed.values().sum::<u64>();
    let for_each = |before: Option<u64>, now: Option<u64>| {
        let used_us = now?.saturating_sub(before?);
        (statements > 0).then(|| used_us as f64 / statements as f64)
    };
    numbers.client_cpu_us = for_each(begun.used.client_us, ended.used.client_us);
    numbers.server_cpu_us = for_each(begun.used.server_us, ended.used.server_us);
    if numbers.client_cpu_us.is_none() {
        missing(numbers, "client_cpu", "this system has no /proc/self/stat");
    }
    if numbers.server_cpu_us.is_none() {
        missing(numbers, "server_cpu", SERVER_UNSEEN);
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

/// Readings of counters at one time, in nanoseconds from the replay's start.
struct Reading {
    at_ns: i64,
    used: CpuUsage,
    counted: Result<Counted, String>,
}

/// Reads counters at the end of the warm-up and at the end of the trial, and then stops the replay.
struct Watch<'a> {
    load: &'a Load,
    replay: &'a TrialReplay<'a>,
    keeps_facts: bool,
    counts: Result<StatementCounts<'a>, String>,
    /// By the clock.
    start_ns: Option<i64>,
    begun: Option<Reading>,
    ended: Option<Reading>,
}

impl Watch<'_> {
    fn read(&mut self) -> Reading {
        let context = self.replay.context;
        let (postmaster, counted) = match &mut self.counts {
            Ok(counts) => (counts.postmaster, counts.read()),
            Err(why) => (context.postmaster, Err(why.clone())),
        };
        Reading {
            at_ns: context.clock.now_ns() - self.start_ns.unwrap_or_default(),
            used: CpuUsage::now(postmaster),
            counted,
        }
    }
}

impl Observer for Watch<'_> {
    fn before_start(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        match self.keeps_facts {
            true => self.replay.write_facts(run),
            false => Ok(()),
        }
    }

    fn before_finish(&mut self, _: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.begun.is_some() && self.ended.is_none() && !(self.replay.context.stop)() {
            self.ended = Some(self.read());
        }
        Ok(())
    }

    fn on_progress(&mut self, snapshot: &Snapshot) {
        let elapsed_ns = snapshot.elapsed_ns;
        let start_ns = self.replay.context.clock.now_ns() - elapsed_ns;
        self.start_ns.get_or_insert(start_ns);
        let passed = |time: std::time::Duration| elapsed_ns >= time.as_nanos() as i64;
        if self.begun.is_none() && passed(self.load.warm_up) {
            self.begun = Some(self.read());
        }
        let done = snapshot.done + snapshot.failed;
        let is_over = self.load.ends_after().is_some_and(passed)
            || self.load.statements_max().is_some_and(|most| done >= most);
        if is_over && self.begun.is_some() && self.ended.is_none() {
            self.ended = Some(self.read());
        }
    }

    fn should_stop(&mut self) -> bool {
        self.ended.is_some() || (self.replay.context.stop)()
    }
}
