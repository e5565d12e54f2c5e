//! Replays a workload and observes the server: facts, plans, statistics, samples and a CPU profile.

use std::path::Path;
use std::sync::Arc;

use clock::{Clock, Factor, SystemClock};
use cpu_profile::Profiling;
use replay::{
    ConnectionEvent, Metrics, Observer, Options, ReplayError, ShardSelection, Snapshot, Target,
    WorkloadPass,
};
use run::{RunInfo, RunWriter, TargetInfo};
use workload::{ArchiveError, WorkloadReader};

use crate::earlier_replay::find_next_to;
use crate::encodings;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine_watch::MachineWatch;
use crate::notes::note;
use crate::pass_note::PassNote;
use crate::preflight::{self, CheckedPart};
use crate::target_snapshot::{ObservationPlan, TargetQuestions};
use crate::target_watch::TargetWatch;

/// Facts about a replay that is about to begin.
pub struct ReplayStart<'r> {
    /// The workload, or the part of it that is replayed.
    pub workload: &'r WorkloadReader,
    /// The run that is written.
    pub run: &'r Path,
    /// The server.
    pub target: &'r TargetInfo,
    /// The engine's options.
    pub options: &'r Options,
    /// Number of statements, of all copies and loops.
    pub statements: u64,
    /// Planned time from the first to the last statement, in nanoseconds.
    pub span_ns: i64,
    /// The time at which it begins, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
}

/// The reason why a replay is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The process received a signal.
    Signal,
    /// A viewer asked for it.
    Viewer,
}

/// Shows a replay while it runs. Each method is called from the thread that replays, and does nothing unless it is
/// implemented.
pub trait ReplayDisplay {
    /// The target was checked; nothing has been sent yet.
    ///
    /// # Errors
    /// If the display cannot be shown at all.
    fn before_start(&mut self, _start: &ReplayStart<'_>) -> Result<(), Failure> {
        Ok(())
    }
    /// The first statement is about to be sent.
    fn on_start(&mut self, _meter: &Arc<Metrics>) {}
    /// Connections were refused, lost or reopened; `left_out` more events are not listed.
    fn on_events(&mut self, _happenings: &[ConnectionEvent], _left_out: u64) {}
    /// Waits of the target's sessions were sampled until `until_ns` of the run: the mean number of sessions in each.
    fn on_waits(&mut self, _source: &str, _until_ns: i64, _waits: Vec<(String, f64)>) {}
    /// Waits cannot be sampled.
    fn on_waits_unavailable(&mut self, _reason: &str) {}
    /// Execution phases cannot be shown yet, or not at all.
    fn on_phases_unavailable(&mut self, _reason: &str) {}
    /// Some time has passed, or state has changed.
    fn on_progress(&mut self, _now: Option<&Snapshot>) {}
    /// Reports whether a viewer asked to stop.
    fn is_stop_requested(&self) -> bool {
        false
    }
    /// The replay is being stopped.
    fn on_stop(&mut self, _reason: StopReason) {}
    /// The last statement is done.
    fn before_finish(&mut self) {}
    /// All observation of the target has ended. Returns entries for the options in the run's manifest.
    fn manifest_notes(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// The replay is over.
    fn on_finish(&mut self, _result: Result<&RunInfo, &ReplayError>) {}
    /// Takes the display away while `report` writes notes.
    fn suspend(&mut self, report: &mut dyn FnMut()) {
        report();
    }
}

/// Checks the target, reports what will happen, and replays.
///
/// # Errors
/// If the target refuses, or the run cannot be written.
pub fn replay_observed(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    asked: ObservationPlan,
    output: &Path,
    interrupt: &Interrupt,
    display: &mut dyn ReplayDisplay,
) -> Result<RunInfo, Failure> {
    // Of several workers that start together, one checks the target for all.
    let shard = engine.shard.as_ref().map_or(0, ShardSelection::number);
    if shard == 0 || engine.meeting.is_none() {
        preflight::check(reader, target, engine, CheckedPart::Beginning)?;
    }
    let target_info =
        replay::check_target(reader, &engine.target_with_settings(target), &engine.logins)?;
    let (statements, span_ns) = note_extent(reader, engine, &target_info)?;
    encodings::note_encodings(reader, target, &target_info)?;
    if let Some(text) = describe_missing(reader.info()) {
        note(&text);
    }
    if engine.follows_values() && reader.info().provenance.source_kind == "log" {
        note(
            "A log has no results: values that the server made are inferred from later statements. A capture from the wire (rehearse capture proxy) has them.",
        );
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let started_wall_us = clock.wall_us();
    display.before_start(&ReplayStart {
        workload: reader,
        run: output,
        target: &target_info,
        options: engine,
        statements,
        span_ns,
        started_wall_us,
    })?;
    let watch = asked.watch.clone();
    let mut observation = ReplayObserver {
        target_watch: watch.map(|watch| {
            TargetWatch::new(watch, engine.target_with_settings(target), clock.clone())
        }),
        asking: TargetQuestions {
            plan: asked,
            reader,
            target: engine.target_with_settings(target),
            logins: &engine.logins,
            clock: clock.clone(),
            earlier_evidence: Vec::new(),
        },
        run: match (&engine.shard, output.parent()) {
            (Some(_), Some(run)) => run,
            _ => output,
        },
        started_wall_us,
        profiling: None,
        machine: None,
        meter: None,
        interrupt,
        stop_reported: false,
        has_running_workers: false,
        pass_note: PassNote::default(),
        display,
    };
    let result = replay::replay(
        reader,
        target,
        target_info,
        engine,
        output,
        &clock,
        &mut observation,
    );
    display.on_finish(result.as_ref());
    let info = result?;
    if let Some(unknown) = info.options.get("keys_unknown") {
        note(&format!(
            "The keys of the target could not be asked for, so that columns called id and …_id counted as keys: {unknown}. Statements may have waited for too much or too little."
        ));
    }
    if let Some(unknown) = info.options.get("generated_columns_unknown") {
        note(&format!(
            "The generated columns of the target could not be asked for, so that values which the server generated there were not inferred from the log: {unknown}. Statements that use them may have found other rows."
        ));
    }
    if let Some(victims) = info.options.get("deadlock_victims") {
        note(&format!(
            "{victims} statements were the victims of deadlocks in the capture. They were replaced by statements that fail with the same code (40P01)."
        ));
    }
    Ok(info)
}

/// Notes what will be replayed. Returns the number of statements, and the planned time in nanoseconds; both are 0 for a series
/// that is followed, since its extent is not known.
fn note_extent(
    reader: &WorkloadReader,
    engine: &Options,
    target: &TargetInfo,
) -> Result<(u64, i64), Failure> {
    if engine.follow.is_none() {
        let (statements, span_ns) = replay::extent(reader, engine)?;
        note_plan(reader, engine, target, statements);
        return Ok((statements, span_ns));
    }
    note(&format!(
        "Replaying on {} (PostgreSQL {}); what writes {}.",
        target.address,
        target.server_version,
        match engine.read_only.is_on() {
            true => "will be refused",
            false => "will write there",
        }
    ));
    Ok((0, 0))
}

fn note_plan(reader: &WorkloadReader, engine: &Options, target: &TargetInfo, statements: u64) {
    let (all, sessions) = (reader.info().statements, reader.info().sessions);
    let of = match (&engine.shard, statements == all) {
        // The division notes its sessions.
        (Some(shard), _) => {
            let (number, count) = (shard.number(), shard.count());
            format!("{statements} statements (shard {number} of {count})")
        }
        (None, true) => format!("{statements} statements of {sessions} sessions"),
        (None, false) => {
            format!("{statements} statements (copies of {all}) of {sessions} sessions")
        }
    };
    note(&format!(
        "Replaying {of} against {} (PostgreSQL {}) at speed {}; {}.",
        target.address,
        target.server_version,
        engine.speed,
        describe_writes(reader, engine),
    ));
    if let Some(connections) = engine.connections_max
        && reader.info().sessions_at_once > u64::from(connections)
    {
        note(&format!(
            "Up to {} sessions at once share {connections} connections: each has one only within its transactions and while it holds what hangs on one; waiting for one is session lag, connects are not measured, and the server sees fewer backends than in the capture.",
            reader.info().sessions_at_once
        ));
    }
}

/// Describes how the replay treats the workload's writes.
fn describe_writes(reader: &WorkloadReader, engine: &Options) -> String {
    let writes = reader.info().writes;
    if writes == 0 {
        return "none of them writes, judged by their first keywords".to_owned();
    }
    if engine.read_only.is_on() {
        return format!("{writes} of the workload's may write: the server will refuse them");
    }
    let rounds = u64::from(engine.repeat.max(1));
    let copies = engine.scale.copies() * rounds;
    if engine.shard.is_some() && copies == 1 {
        let all = reader.info().statements;
        return format!(
            "of the whole workload's {all} statements, {writes} may write, and those of this shard will"
        );
    }
    if copies == 1 {
        return match engine.scale.factor == Factor::ONE {
            true => format!("{writes} of them may write, and will"),
            false => format!(
                "up to {writes} of them may write, and will, on what other sessions wrote in the capture and do not write here"
            ),
        };
    }
    format!(
        "{writes} of the workload's may write, and will, up to {copies} times each: keys that they bring with them are there already the second time (expect 23505, duplicate keys), what they delete is gone, and copies wait for one another's locks"
    )
}

/// Describes what is missing from a workload. Returns `None` if nothing is missing.
pub fn describe_missing(info: &workload::WorkloadInfo) -> Option<String> {
    match (info.lost_bytes(), info.recovered) {
        (0, false) => None,
        (0, true) => Some("This workload was recovered: it ends early.".to_owned()),
        (lost, _) => Some(format!(
            "This workload is incomplete: its capture lost {lost} bytes, and the statements in them; what followed from these may fail or find other rows.",
        )),
    }
}

/// Observer of a replay that collects data from the target and updates the display.
struct ReplayObserver<'m> {
    asking: TargetQuestions<'m>,
    /// Path of the run, of all workers if there are several.
    run: &'m Path,
    /// Time at which it starts, in microseconds since 1970-01-01 UTC.
    started_wall_us: i64,
    profiling: Option<Profiling>,
    machine: Option<MachineWatch>,
    meter: Option<Arc<Metrics>>,
    target_watch: Option<TargetWatch>,
    interrupt: &'m Interrupt,
    stop_reported: bool,
    /// Other workers of a divided replay were still replaying at the end.
    has_running_workers: bool,
    pass_note: PassNote,
    display: &'m mut dyn ReplayDisplay,
}

impl ReplayObserver<'_> {
    /// Records the backends of sessions that connected since the last call.
    fn note_backends(&self, profiling: &Profiling) -> Result<(), ArchiveError> {
        match &self.meter {
            Some(meter) => profiling.sessions(&meter.backends().take()),
            None => Ok(()),
        }
    }

    fn is_profiling(&self) -> bool {
        self.profiling.as_ref().is_some_and(Profiling::is_on)
    }

    /// Ends the observation of the target, and writes what it collected into the run.
    fn end_observation(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if let Some(machine) = &self.machine {
            machine.end(run);
        }
        self.display.before_finish();
        // The watch ends first, since reading the recorded samples of perf may take longer than the replay did.
        if let Some(watch) = &mut self.target_watch {
            watch.end(run)?;
        }
        if let Some(profiling) = self.profiling.take() {
            self.note_backends(&profiling)?;
            if profiling.is_on() {
                let mut report = || note("Reading what was recorded of the server's stacks.");
                self.display.suspend(&mut report);
            }
            run.take_profile(profiling.finish()?)?;
        }
        if self.interrupt.is_requested()
            || self.display.is_stop_requested()
            || self.has_running_workers
        {
            return Ok(());
        }
        self.display.on_progress(None);
        let mut result = Ok(());
        self.display.suspend(&mut || result = self.asking.end(run));
        result
    }
}

impl Observer for ReplayObserver<'_> {
    fn on_workers_running(&mut self, shards: &[u64]) {
        self.has_running_workers = true;
        let numbers: Vec<String> = shards.iter().map(u64::to_string).collect();
        note(&format!(
            "The workers of these shards are not done: {}. Statistics of the server after the replay are not read, since they would lack a part of it.",
            numbers.join(", ")
        ));
    }

    fn on_workload_pass(&mut self, pass: WorkloadPass, read: u64, all: u64) {
        if let Some(text) = self
            .pass_note
            .progress(pass, read, all, clock::monotonic_ns())
        {
            note(&text);
        }
    }

    fn on_metrics(&mut self, meter: &Arc<Metrics>) {
        self.display.on_start(meter);
        if self.is_profiling() {
            meter.backends().enable();
        }
        self.meter = Some(Arc::clone(meter));
        if let Some(watch) = &self.target_watch {
            watch.start_with_meter(meter);
        }
    }

    fn on_events(&mut self, happenings: &[ConnectionEvent], left_out: u64) {
        self.display.on_events(happenings, left_out);
    }

    fn before_start(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        self.asking.begin(run)?;
        let evidence = &self.asking.earlier_evidence;
        if let Some(earlier) = find_next_to(self.run, evidence, self.started_wall_us) {
            note(&earlier.describe());
        }
        // The profile starts first, so that the watch does not observe its trial.
        self.profiling = self.asking.start_profile(run)?;
        if let Some(watch) = &mut self.target_watch {
            watch.begin(run, &self.asking.list_logins()?)?;
        }
        if self.is_profiling() {
            self.display.on_phases_unavailable(
                "the profile is read when the replay is over; `rehearse cpu` shows it then",
            );
        }
        let logins = self.asking.list_logins()?;
        let watch = MachineWatch::begin(&self.asking.target, logins.first());
        self.machine = Some(watch);
        Ok(())
    }

    fn before_finish(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        self.end_observation(run)?;
        for (name, value) in self.display.manifest_notes() {
            run.option(name, value);
        }
        Ok(())
    }

    fn on_progress(&mut self, now: &Snapshot) {
        if let Some(profiling) = &self.profiling {
            profiling.set_run_time(now.elapsed_ns);
            // The recorder reports a disk error, and so does the end of the profile.
            let _ = self.note_backends(profiling);
        }
        if let Some(watch) = &mut self.target_watch {
            watch.display_waits(self.display);
        }
        self.display.on_progress(Some(now));
    }

    fn should_stop(&mut self) -> bool {
        let reason = match (
            self.interrupt.is_requested(),
            self.display.is_stop_requested(),
        ) {
            (true, _) => StopReason::Signal,
            (false, true) => StopReason::Viewer,
            (false, false) => return false,
        };
        if !self.stop_reported {
            self.stop_reported = true;
            self.display.on_stop(reason);
        }
        true
    }
}
