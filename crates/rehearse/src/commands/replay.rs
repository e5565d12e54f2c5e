//! `rehearse replay`: a workload against a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clock::{Clock, Factor, Speed, SystemClock};
use cpu_profile::Profiling;
use replay::{
    Earlier, Happening, LoginMap, Meter, Observer, Options, Scale, SendOrder, Snapshot, Target,
};
use report::{DryRun, LiveReplayView, dry_run_text, to_json};
use run::{RunInfo, RunStatus, RunWriter};
use workload::{ArchiveError, WorkloadReader};

use crate::commands::asking::{Asked, Asking};
use crate::commands::drawing::Drawing;
use crate::commands::encodings;
use crate::commands::narration::{Line, Narrator};
use crate::commands::observe::looks_of as looks;
use crate::commands::part::part;
use crate::commands::summary;
use crate::commands::target_watch::TargetWatch;
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::keys;
use crate::live::{About, Hub, PageServer};
use crate::log;
use crate::metrics::MetricsServer;
use crate::options;
use crate::options::observing::LogLevel;
use crate::terminal;

/// Replays, with a progress bar, and ends with the run's summary.
pub fn run(options: &options::Replay) -> Result<Ending, Failure> {
    let target = Target::parse(&options.target, |name| std::env::var(name).ok())?;
    if options.set_role && options.user.is_none() && target.user.is_none() {
        return Err(Failure::usage(
            "--set-role logs in as one user for all, and none is named; give --user, or a user in the target or in PGUSER",
        ));
    }
    let mut engine = engine(options)?;
    let metrics = match options.metrics.metrics {
        Some(address) if !options.safety.dry_run => Some(MetricsServer::start(address)?),
        _ => None,
    };
    let mut page = match options.page.ui {
        Some(address) if !options.safety.dry_run => Some(PageServer::start(address)?),
        _ => None,
    };
    if let Some(output) = &options.output {
        refuse_within(&options.workload, output)?;
    }
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let whole = keys::open(&options.workload)?;
    let target = engine.prepared(&target);
    refuse_captured(&whole, &target, &engine.logins, options)?;
    let part = part(options, whole, &interrupt)?;
    if !part.given.is_empty() {
        engine.workload_name = Some(options.workload.display().to_string());
        engine.part = part.given.clone();
    }
    if let Some(address) = &options.safety.allow_captured_server {
        let name = "allow_captured_server".to_owned();
        engine.part.insert(name, address.clone());
    }
    if let Some(run) = &options.safety.resume {
        engine.earlier = Some(Arc::new(earlier(run, &part.reader, &engine)?));
    }
    if options.safety.dry_run {
        return dry_run(&part.reader, &target, &engine, options);
    }
    let Some(output) = &options.output else {
        return Err(Failure::usage(
            "nothing says where the run goes; give -o NAME.run",
        ));
    };
    if let Some(metrics) = &metrics {
        let address = metrics.address();
        terminal::note(&format!("Metrics are at http://{address}/metrics."));
    }
    let reader = &part.reader;
    let viewers = Viewers {
        metrics: metrics.as_ref(),
        page: page.as_mut(),
    };
    let asked = Asked {
        facts: !options.asking.no_facts,
        plans: options.asking.explain.map(|most| most as usize),
        profile: options.profiling.wanted(),
        watch: looks(options)?,
    };
    interrupt.leaves(PathBuf::from(format!("{}.partial", output.display())));
    let info = replay_with_progress(reader, &target, &engine, asked, output, &interrupt, viewers)?;
    let name = output.display().to_string();
    let literals = summary::literals(options.show_literals);
    summary::show(output, &name, options.json, literals)?;
    let was_stopped = info.status == RunStatus::Stopped;
    let lingers = [options.page.ui_linger, options.metrics.metrics_linger];
    for time in lingers.into_iter().flatten() {
        interrupt.linger(time, was_stopped);
    }
    if let Some(reason) = info.given_up {
        return Err(Failure::could_not(format!(
            "{reason}; the replay was stopped, and the run {} has what was done until then",
            output.display()
        )));
    }
    Ok(match info.status {
        RunStatus::Complete => Ending::Done,
        RunStatus::Stopped | RunStatus::Recovered => Ending::Found,
    })
}

/// A workload is read as it is, and handed on as it is: nothing else goes into its directory.
fn refuse_within(workload: &Path, output: &Path) -> Result<(), Failure> {
    let parent = match output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let within = match (workload.canonicalize(), parent.canonicalize()) {
        (Ok(workload), Ok(parent)) => parent.starts_with(workload),
        // What is wrong there is told by what opens them.
        _ => false,
    };
    match within {
        true => Err(Failure::usage(format!(
            "-o {} is within the workload {}; give a place beside it",
            output.display(),
            workload.display()
        ))),
        false => Ok(()),
    }
}

/// The run to go on with; one of a replay that was killed is recovered first.
fn earlier(run: &Path, workload: &WorkloadReader, engine: &Options) -> Result<Earlier, Failure> {
    let partial = PathBuf::from(format!("{}.partial", run.display()));
    if !run.exists() && partial.exists() {
        let (_, info) = run::recover(&partial)?;
        terminal::note(&format!(
            "{} was of a replay that was killed: {} of its statements are recovered. What was done behind them is done again.",
            partial.display(),
            info.statements
        ));
    }
    Ok(Earlier::read(run, workload, engine)?)
}

fn engine(options: &options::Replay) -> Result<Options, Failure> {
    let (pace, safety) = (&options.pace, &options.safety);
    if options.speed == Speed::Max {
        let waiting = [
            ("--think-time", pace.think_time.is_some()),
            ("--idle-skip", pace.idle_skip.is_some()),
            ("--ramp-up", pace.ramp_up.is_some()),
        ];
        if let Some((option, _)) = waiting.into_iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!(
                "--speed max waits for nothing, so {option} has nothing to change; leave one of them out, or give --think-time drop at --speed 1 for sessions that begin at their time and then wait for nothing"
            )));
        }
    }
    let mut engine = Options {
        speed: options.speed,
        think_time: pace.think_time,
        idle_max: pace.idle_skip,
        ramp_up: pace.ramp_up.unwrap_or_default(),
        repeat: pace.repeat,
        scale: Scale {
            factor: pace.scale,
            shift: pace.scale_shift,
        },
        read_only: safety.read_only,
        statement_timeout: safety.statement_timeout,
        patience: safety.patience,
        checkpoint: safety.checkpoint,
        fetch_size: options.sending.fetch_size,
        remap_generated: options.sending.remap_generated,
        digest: options.sending.digest.is_some(),
        logins: LoginMap {
            user: options.user.clone(),
            database: options.database.clone(),
            users: mapping("--map-user", &options.map_user)?,
            databases: mapping("--map-database", &options.map_database)?,
            set_role: options.set_role,
        },
        order: match pace.order {
            options::ReplayOrder::Session => SendOrder::Session,
            options::ReplayOrder::Commit => SendOrder::Commit,
            options::ReplayOrder::Global => SendOrder::Global,
        },
        connections_max: options.max_connections,
        spin_us: options.spin_us,
        by_ring: !options.without_io_uring,
        ..Options::default()
    };
    if let Some(workers) = options.workers {
        if !(1..=256).contains(&workers) {
            return Err(Failure::usage(format!(
                "--workers {workers} makes no sense; give 1 to 256"
            )));
        }
        engine.workers = workers;
    }
    Ok(engine)
}

/// The server that the workload was captured on is told twice.
fn refuse_captured(
    workload: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
    options: &options::Replay,
) -> Result<(), Failure> {
    let address = target.address();
    match &options.safety.allow_captured_server {
        Some(named) if *named == address => return Ok(()),
        Some(named) => {
            return Err(Failure::usage(format!(
                "--allow-captured-server names {named}, and the target is {address}; it takes the target's own address, as the second time that it is told"
            )));
        }
        None => {}
    }
    match replay::captured_on(workload, target, logins) {
        None => Ok(()),
        Some(how) => Err(Failure::usage(format!(
            "the target {address} is the server that the workload was captured on ({how}), where all of this was already done; give a copy of it, or tell it twice: --allow-captured-server {address}"
        ))),
    }
}

/// Plans everything, tries the logins, and says what would be sent.
fn dry_run(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    options: &options::Replay,
) -> Result<Ending, Failure> {
    let target_info = replay::check_target(reader, target, &engine.logins)?;
    encodings::announce(reader, target, &target_info)?;
    let forecast = replay::forecast(reader, engine)?;
    let skipped: u64 = forecast.skipped.values().sum();
    let view = DryRun {
        schema: "rehearse/dry-run/1",
        workload: options.workload.display().to_string(),
        target: target_info.address,
        server_version: target_info.server_version,
        options: engine.described(),
        sessions: forecast.sessions,
        statements: forecast.statements,
        sent: forecast.statements - skipped,
        writes: forecast.writes,
        read_only: engine.read_only,
        skipped: forecast.skipped,
        span_ns: forecast.span_ns,
        idle_skipped_us: forecast.cut_us,
    };
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&dry_run_text::render_text(&view, &terminal::style()));
    }
    Ok(Ending::Done)
}

/// Who else looks at a replay.
#[derive(Default)]
pub struct Viewers<'w> {
    pub metrics: Option<&'w MetricsServer>,
    pub page: Option<&'w mut PageServer>,
}

/// Checks the target, says what will happen, and replays. Also the demo's way.
///
/// # Errors
/// Where the target refuses, or the run cannot be written.
pub fn replay_with_progress(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    asked: Asked,
    output: &Path,
    interrupt: &Interrupt,
    viewers: Viewers<'_>,
) -> Result<RunInfo, Failure> {
    let target_info = replay::check_target(reader, &engine.prepared(target), &engine.logins)?;
    let (statements, span_ns) = replay::extent(reader, engine)?;
    let of = match statements == reader.info().statements {
        true => format!("{statements} statements"),
        false => format!(
            "{statements} statements (copies of {})",
            reader.info().statements
        ),
    };
    terminal::note(&format!(
        "Replaying {of} of {} sessions against {} (PostgreSQL {}) at speed {}; {}.",
        reader.info().sessions,
        target_info.address,
        target_info.server_version,
        engine.speed,
        writes(reader, engine),
    ));
    if let Some(connections) = engine.connections_max
        && reader.info().sessions_at_once > u64::from(connections)
    {
        terminal::note(&format!(
            "Up to {} sessions at once share {connections} connections: each has one only within its transactions and while it holds what hangs on one; waiting for one is session lag, connects are not measured, and the server sees fewer backends than in the capture.",
            reader.info().sessions_at_once
        ));
    }
    encodings::announce(reader, target, &target_info)?;
    if let Some(note) = incomplete(reader.info()) {
        terminal::note(&note);
    }
    if engine.remap_generated && reader.info().provenance.source_kind == "log" {
        terminal::note(
            "--remap-generated finds nothing to learn from: this workload is of a log, which has no results; parameters are sent as they were captured.",
        );
    }
    let options = engine.described();
    let started = [
        ("workload", reader.path().display().to_string().into()),
        ("run", output.display().to_string().into()),
        ("target", target_info.address.clone().into()),
        ("server_version", target_info.server_version.clone().into()),
        ("statements", statements.into()),
        ("sessions", reader.info().sessions.into()),
        ("options", serde_json::json!(options)),
    ];
    log::tell(LogLevel::Info, "replay started", &started);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    // Where sessions or silence decide, the time that it takes is not known before.
    let is_timed =
        engine.speed != Speed::Max && engine.think_time.is_none() && engine.idle_max.is_none();
    let hub = Hub::new(About {
        replay: LiveReplayView {
            workload: engine
                .workload_name
                .clone()
                .unwrap_or_else(|| reader.path().display().to_string()),
            run: output.display().to_string(),
            target: target_info.address.clone(),
            server_version: target_info.server_version.clone(),
            options: options.into_iter().collect(),
            started_wall_us: clock.wall_us(),
            span_us: is_timed.then_some(span_ns as f64 / 1e3),
            is_timed: engine.speed != Speed::Max && engine.think_time.is_none(),
            statements,
        },
        statements: viewers.page.is_some().then(|| reader.clone()),
    });
    if let Some(page) = viewers.page {
        page.show(&hub)?;
        terminal::note(&format!("The replay can be watched at {}", page.url()));
        if page.is_open() {
            terminal::note(
                "That address is not of this machine alone: whoever has it can look, what it shows is sent in the clear, and the replay cannot be stopped there. A tunnel to --ui of 127.0.0.1 shows it to you alone.",
            );
        }
    }
    let mut progress = Progress::new(interrupt.clone(), &hub);
    progress.metrics = viewers.metrics;
    progress.target_watch = asked
        .watch
        .clone()
        .map(|watch| TargetWatch::new(watch, engine.prepared(target), clock.clone()));
    progress.asking = Some(Asking {
        asked,
        reader,
        target: engine.prepared(target),
        logins: &engine.logins,
        clock: clock.clone(),
        evidence: Vec::new(),
    });
    let result = replay::replay(
        reader,
        target,
        target_info,
        engine,
        output,
        &clock,
        &mut progress,
    );
    progress.drawing.finish();
    match &result {
        Ok(info) => hub.finish(Ok((info, output))),
        Err(error) => hub.finish(Err(error.to_string())),
    }
    let info = result?;
    let lines = progress.narrator.finished(&info);
    lines.iter().for_each(Line::tell);
    Ok(info)
}

/// What becomes of what the workload writes, said before it happens.
fn writes(reader: &WorkloadReader, engine: &Options) -> String {
    let writes = reader.info().writes;
    if writes == 0 {
        return "none of them writes, as far as their first words tell".to_owned();
    }
    if engine.read_only {
        return format!("{writes} of the workload's may write: the server will refuse them");
    }
    let rounds = u64::from(engine.repeat.max(1));
    let copies = engine.scale.copies() * rounds;
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

fn mapping(option: &str, pairs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    pairs
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                Ok((from.to_owned(), to.to_owned()))
            }
            _ => Err(Failure::usage(format!(
                "{option} '{pair}' is no mapping; give FROM=TO, such as {option} app=app_copy"
            ))),
        })
        .collect()
}

struct Progress<'m> {
    drawing: Drawing,
    hub: Arc<Hub>,
    narrator: Narrator,
    metrics: Option<&'m MetricsServer>,
    asking: Option<Asking<'m>>,
    profiling: Option<Profiling>,
    meter: Option<Arc<Meter>>,
    target_watch: Option<TargetWatch>,
    interrupt: Interrupt,
    told_stop: bool,
}

impl Progress<'_> {
    fn new(interrupt: Interrupt, hub: &Arc<Hub>) -> Self {
        Progress {
            drawing: Drawing::new(),
            hub: hub.clone(),
            narrator: Narrator::new(log::level()),
            metrics: None,
            asking: None,
            profiling: None,
            meter: None,
            target_watch: None,
            interrupt,
            told_stop: false,
        }
    }

    /// Which backends sessions speak with, since the last time.
    fn note_backends(&self, profiling: &Profiling) -> Result<(), ArchiveError> {
        match &self.meter {
            Some(meter) => profiling.sessions(&meter.backends().take()),
            None => Ok(()),
        }
    }

    fn is_asked_to_stop(&self) -> bool {
        self.interrupt.is_asked() || self.hub.is_asked_to_stop()
    }

    /// What is drawn makes room for lines.
    fn tell(&self, lines: &[Line]) {
        if !lines.is_empty() {
            self.drawing.suspend(|| lines.iter().for_each(Line::tell));
        }
    }
}

impl Observer for Progress<'_> {
    fn started(&mut self, meter: &Arc<Meter>) {
        self.narrator.started(meter);
        self.hub.begin(meter);
        if self.profiling.as_ref().is_some_and(Profiling::is_on) {
            meter.backends().want();
        }
        self.meter = Some(Arc::clone(meter));
        if let Some(metrics) = self.metrics {
            metrics.show(meter);
        }
        if let Some(watch) = &self.target_watch {
            watch.started(meter);
        }
    }

    fn happened(&mut self, happenings: &[Happening], left_out: u64) {
        let lines = self.narrator.happened(happenings, left_out);
        self.tell(&lines);
    }

    fn beginning(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        let Some(asking) = &mut self.asking else {
            return Ok(());
        };
        asking.begin(run)?;
        // The profile first: what it tries out is not what the watch is to see.
        self.profiling = asking.profile(run)?;
        if let Some(watch) = &mut self.target_watch {
            watch.begin(run, &asking.all_logins()?)?;
        }
        if self.profiling.as_ref().is_some_and(Profiling::is_on) {
            self.hub.phases_not_observed(
                "the profile is read when the replay is over; `rehearse phases` shows it then",
            );
        }
        Ok(())
    }

    fn ending(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        self.hub.ending();
        // The watch first: reading what perf has recorded takes longer than the replay may have.
        if let Some(watch) = &mut self.target_watch {
            watch.end(run)?;
        }
        if let Some(profiling) = self.profiling.take() {
            self.note_backends(&profiling)?;
            if profiling.is_on() {
                self.drawing.suspend(|| {
                    terminal::note("Reading what was recorded of the server's stacks.")
                });
            }
            run.take_profile(profiling.finish()?)?;
        }
        match &self.asking {
            Some(asking) if !self.is_asked_to_stop() => {
                self.drawing.show(&self.hub.now());
                self.drawing.suspend(|| asking.end(run))
            }
            _ => Ok(()),
        }
    }

    fn progress(&mut self, now: &Snapshot) {
        if let Some(profiling) = &self.profiling {
            profiling.run_is(now.elapsed_ns);
            // A disk that refuses is found out by the recorder, and at the profile's end.
            let _ = self.note_backends(profiling);
        }
        if let Some(watch) = &mut self.target_watch {
            watch.show(&self.hub);
        }
        self.drawing.show(&self.hub.now());
        let lines = self.narrator.progress(now);
        self.tell(&lines);
    }

    fn should_stop(&mut self) -> bool {
        let stop = self.is_asked_to_stop();
        if stop && !self.told_stop {
            self.told_stop = true;
            self.hub.stopping();
            let by_signal = self.interrupt.is_asked();
            self.drawing.suspend(|| {
                self.narrator.stopping(by_signal).tell();
                terminal::note(match by_signal {
                    true => "Stopping in order; once more to stop at once.",
                    false => "Stopping in order, as asked on the live page.",
                });
            });
        }
        stop
    }
}

/// What to say of a workload in which something is missing.
pub(super) fn incomplete(info: &workload::WorkloadInfo) -> Option<String> {
    match (info.lost_bytes(), info.recovered) {
        (0, false) => None,
        (0, true) => Some("This workload was recovered: it ends early.".to_owned()),
        (lost, _) => Some(format!(
            "This workload is incomplete: its capture lost {}, and the statements in them; what followed from these may fail or find other rows.",
            indicatif::DecimalBytes(lost)
        )),
    }
}
