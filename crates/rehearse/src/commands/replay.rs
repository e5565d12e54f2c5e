//! `rehearse replay`: replays a workload against a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clock::Speed;
use replay::{
    IoMethod, LoginMap, Options, PreviousRun, ReadOnly, ResultChecksums, Scale, SendOrder,
    StartupOptions, Target,
};
use report::{DryRun, calibration_text, dry_run_text, to_document, to_json};
use run::{RunInfo, RunStatus};
use workload::WorkloadReader;

use crate::commands::observe::watch_options;
use crate::commands::{replay_pairs, shards, show};
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::live::PageServer;
use crate::metrics::{MetricsServer, announce_metrics};
use crate::options;
use crate::otlp::ReplayExport;
use crate::terminal;
use study::calibration::calibrate;
use study::captured_clock::restart_at_captured_time;
use study::captured_server::refuse_captured_server;
use study::encodings;
use study::keys;
use study::observed_replay::replay_observed;
use study::partial_replay::{ReplayedWorkload, write_part};
use study::preflight::{self, CheckedPart};
use study::series_replay::{FollowRequest, begin_following};
use study::target_snapshot::ObservationPlan;
use study::{Failure, Interrupt, run_stoppable_command};

/// Starts the page of the replay, if it is asked for and statements are sent.
fn start_page(options: &options::Replay, sends: bool) -> Result<Option<PageServer>, Failure> {
    let address = options.page.ui.filter(|_| sends);
    let listener = options.hosts.listener_options(terminal::complain);
    address
        .map(|address| PageServer::start(address, listener))
        .transpose()
}

/// Replays with a progress display, and shows the run's summary.
pub fn run(options: &options::Replay) -> Result<ExitStatus, Failure> {
    let mut engine = engine(options)?;
    if !options.pairs.against.is_empty() {
        return run_pairs(options, engine);
    }
    let worker = shards::request(options)?;
    let target = target(options)?;
    refuse_role_without_user(options, &target)?;
    let sends = !(options.safety.dry_run || options.safety.calibrate);
    let metrics = start_metrics(options, sends)?;
    let export = sends
        .then(|| options.otlp.settings())
        .transpose()?
        .flatten();
    let mut page = start_page(options, sends)?;
    if let Some(output) = &options.output {
        refuse_within(&options.workload, output)?;
    }
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let Some(whole) = open_whole(options, &mut engine, &interrupt)? else {
        return Ok(ExitStatus::Success);
    };
    let target = engine.target_with_settings(&target);
    refuse_captured_server(
        &whole,
        (&target, &engine.logins),
        options.safety.allow_captured_server.as_deref(),
        engine.read_only.is_on(),
    )?;
    let part = replayed_part(options, whole, &mut engine, &interrupt)?;
    if options.safety.calibrate {
        return show_calibration(&part.reader, &target, &engine, (options, &interrupt));
    }
    if let Some(command) = &options.pairs.restore {
        terminal::note("Restoring the target's data (--restore).");
        run_stoppable_command(command, &target, "--restore", &interrupt)?;
    }
    let part_of_run = match &worker {
        Some(worker) => {
            let place = (&part.reader, &target);
            Some(shards::prepare(
                worker,
                options,
                place,
                &mut engine,
                &interrupt,
            )?)
        }
        None => resume(options, &part.reader, &mut engine)?,
    };
    if options.safety.dry_run {
        return dry_run(&part.reader, &target, &engine, options);
    }
    let Some(output) = &options.output else {
        return Err(Failure::usage("missing output: pass `-o NAME.run`"));
    };
    let output = part_of_run.as_ref().unwrap_or(output);
    if let Some(metrics) = &metrics {
        announce_metrics(metrics.address());
    }
    let reader = &part.reader;
    if let Some(name) = &options.pace.captured_clock {
        let clock = restart_at_captured_time(name, reader, &target, &engine.logins)?;
        engine.target_clock = Some(clock);
    }
    let export = export.map(|settings| ReplayExport::new(settings, options.spans.otlp_span_ratio));
    let mut display = Display::new(metrics.as_ref(), page.as_mut()).with_export(export);
    let asked = shards::observation(worker.as_ref(), observation(options)?);
    interrupt.set_partial(archive::partial_path(output));
    let info = replay_observed(
        reader,
        &target,
        &engine,
        asked,
        output,
        &interrupt,
        &mut display,
    )?;
    let name = output.display().to_string();
    show::show(
        output,
        &name,
        options.json,
        show::literals(options.show_literals),
    )?;
    shards::note_end(worker.as_ref());
    let was_stopped = info.status == RunStatus::Stopped;
    linger(options, &interrupt, was_stopped);
    refuse_given_up(&info, output)?;
    Ok(match info.status {
        RunStatus::Complete => ExitStatus::Success,
        // Ctrl-C is the usual end of what has no other one.
        RunStatus::Stopped if engine.follow.is_some() => ExitStatus::Success,
        RunStatus::Stopped | RunStatus::Recovered | RunStatus::Incomplete => ExitStatus::Findings,
    })
}

/// Sets the run to resume, if one is given. Returns no path of a part, since the run is not divided.
fn resume(
    options: &options::Replay,
    workload: &WorkloadReader,
    engine: &mut Options,
) -> Result<Option<PathBuf>, Failure> {
    if let Some(run) = &options.safety.resume {
        engine.previous_run = Some(Arc::new(earlier(run, workload, engine)?));
    }
    Ok(None)
}

/// Keeps the listeners for the requested time after the end.
fn linger(options: &options::Replay, interrupt: &Interrupt, was_stopped: bool) {
    for time in [options.page.ui_linger, options.metrics.metrics_linger]
        .into_iter()
        .flatten()
    {
        interrupt.linger(time, was_stopped);
    }
}

/// Fails if the replay was given up.
fn refuse_given_up(info: &RunInfo, output: &Path) -> Result<(), Failure> {
    match &info.given_up {
        None => Ok(()),
        Some(reason) => Err(Failure::could_not(format!(
            "{reason}; the replay was stopped, and the run {} has what was done until then",
            output.display()
        ))),
    }
}

/// Opens the workload, or the part of a series with which a replay that follows it begins. Returns `None` if a stop was
/// requested before there is one.
fn open_whole(
    options: &options::Replay,
    engine: &mut Options,
    interrupt: &Interrupt,
) -> Result<Option<WorkloadReader>, Failure> {
    let following = &options.following;
    if !following.follow {
        return Ok(Some(keys::open_workload(&options.workload)?));
    }
    let request = FollowRequest {
        series: options.workload.clone(),
        keyring: keys::read_keyring()?,
        delay: following.delay,
        lag_max: following.max_lag,
        duration: following.duration,
    };
    let Some((follow, part)) = begin_following(&request, interrupt)? else {
        return Ok(None);
    };
    engine.follow = Some(follow);
    engine.workload_name = Some(options.workload.display().to_string());
    // A candidate that is away comes back, however long it takes.
    engine.retry_for = Duration::MAX;
    Ok(Some(keys::open_workload(&part)?))
}

/// Replays on two servers in pairs.
fn run_pairs(options: &options::Replay, mut engine: Options) -> Result<ExitStatus, Failure> {
    if let Some(output) = &options.output {
        refuse_within(&options.workload, output)?;
    }
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let whole = keys::open_workload(&options.workload)?;
    let part = replayed_part(options, whole, &mut engine, &interrupt)?;
    let how = (engine, observation(options)?);
    replay_pairs::run(options, &part.reader, how, &interrupt)
}

/// Refuses `--set-role` at a target that names no user to log in as.
pub(super) fn refuse_role_without_user(
    options: &options::Replay,
    target: &Target,
) -> Result<(), Failure> {
    match options.set_role && options.as_user.is_none() && target.user.is_none() {
        true => Err(Failure::usage(
            "--set-role logs in as one user for all, and none is named; give --as-user, or a user in the target or in PGUSER",
        )),
        false => Ok(()),
    }
}

/// Returns the part of the workload that is replayed. Notes it, and a confirmed captured server, in the options of the
/// replay.
fn replayed_part(
    options: &options::Replay,
    whole: WorkloadReader,
    engine: &mut Options,
    interrupt: &Interrupt,
) -> Result<ReplayedWorkload, Failure> {
    let wanted = options.part.slice();
    let output = options.output.as_deref();
    let part = match wanted.slice()? {
        Some(slice) => write_part(whole, slice, wanted.given(), output, interrupt)?,
        None => ReplayedWorkload::whole(whole),
    };
    if !part.options.is_empty() {
        engine.workload_name = Some(options.workload.display().to_string());
        engine.part = part.options.clone();
    }
    engine.order = match options.pace.order {
        Some(options::ReplayOrder::Session) => SendOrder::Session,
        Some(options::ReplayOrder::Commit) => SendOrder::Commit,
        Some(options::ReplayOrder::Dependencies) => SendOrder::Dependencies,
        Some(options::ReplayOrder::Global) => SendOrder::Global,
        // What reads alone depends on nothing that this replay does. Of transactions that share connections, one may wait
        // for another that has none.
        // Dependencies are found in the whole workload, which is not known yet.
        None if engine.follow.is_some() => SendOrder::Session,
        None if engine.read_only.is_on() || engine.connections_max.is_some() => SendOrder::Session,
        None => SendOrder::suited_to(&part.reader)?,
    };
    if let Some(address) = &options.safety.allow_captured_server {
        let name = "allow_captured_server".to_owned();
        engine.part.insert(name, address.clone());
    }
    Ok(part)
}

fn observation(options: &options::Replay) -> Result<ObservationPlan, Failure> {
    Ok(ObservationPlan {
        facts: !options.facts.no_facts,
        plans: options.facts.explain.map(|most| most as usize),
        profile: options.profiling.wanted(),
        watch: watch_options(options)?,
    })
}

/// Refuses an output inside the workload's directory.
fn refuse_within(workload: &Path, output: &Path) -> Result<(), Failure> {
    let parent = match output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let within = match (workload.canonicalize(), parent.canonicalize()) {
        (Ok(workload), Ok(parent)) => parent.starts_with(workload),
        // Opening them later reports the error.
        _ => false,
    };
    match within {
        true => Err(Failure::usage(format!(
            "-o {} is within the workload {}; choose a directory outside it",
            output.display(),
            workload.display()
        ))),
        false => Ok(()),
    }
}

/// Opens the run to resume. A partial run of a killed replay is recovered first.
fn earlier(
    run: &Path,
    workload: &WorkloadReader,
    engine: &Options,
) -> Result<PreviousRun, Failure> {
    let partial = archive::partial_path(run);
    if partial.exists() && !archive::archive_exists(run)? {
        let (_, info) = run::recover(&partial)?;
        terminal::note(&format!(
            "{} was of a replay that was killed: {} of its statements are recovered. Later statements are sent again.",
            partial.display(),
            info.statements
        ));
    }
    Ok(PreviousRun::read(run, workload, engine)?)
}

fn engine(options: &options::Replay) -> Result<Options, Failure> {
    let (pace, safety) = (&options.pace, &options.safety);
    if options.speed == Speed::Max {
        let waiting = [
            ("--think-time", pace.think_time.is_some()),
            ("--max-idle", pace.max_idle.is_some()),
            ("--ramp-up", pace.ramp_up.is_some()),
        ];
        if let Some((option, _)) = waiting.into_iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!(
                "--speed max waits for nothing, so {option} has nothing to change; leave one of them out, or give --think-time drop at --speed 1 for sessions that begin at their time and then wait for nothing"
            )));
        }
    }
    if pace.captured_clock.is_some() && options.speed.to_string() != "1" {
        return Err(Failure::usage(
            "--captured-clock needs --speed 1: the clock of the server runs at its normal speed",
        ));
    }
    let mut engine = Options {
        speed: options.speed,
        think_time: pace.think_time,
        idle_max: pace.max_idle,
        ramp_up: pace.ramp_up.unwrap_or_default(),
        repeat: pace.loops,
        scale: Scale {
            factor: pace.copies,
            shift: pace.copy_delay,
        },
        read_only: match (&safety.read_only_role, safety.read_only) {
            (Some(_), _) => ReadOnly::Role,
            (None, true) => ReadOnly::Sessions,
            (None, false) => ReadOnly::Off,
        },
        statement_timeout: safety.statement_timeout,
        retry_for: safety.retry_for,
        checkpoint: safety.checkpoint,
        fetch_size: options.sending.fetch_size,
        remap_generated: options.sending.remap_generated,
        checksums: match options.sending.checksum_results {
            None => ResultChecksums::None,
            Some(options::sending::ReplayDigest::Rows) => ResultChecksums::Rows,
            Some(options::sending::ReplayDigest::Columns) => ResultChecksums::Columns,
        },
        logins: LoginMap {
            user: safety.read_only_role.clone().or(options.as_user.clone()),
            database: options.as_database.clone(),
            users: mapping("--map-user", &options.map_user)?,
            databases: mapping("--map-database", &options.map_database)?,
            set_role: options.set_role,
            startup_options: startup_options(&options.startup_options)?,
        },
        connections_max: options.max_connections,
        spin_us: options.spin_us,
        io: match options.without_io_uring {
            true => IoMethod::Epoll,
            false => IoMethod::IoUring,
        },
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

/// Starts the listener of `--metrics`, if statements are sent.
fn start_metrics(options: &options::Replay, sends: bool) -> Result<Option<MetricsServer>, Failure> {
    Ok(match options.metrics.metrics {
        Some(address) if sends => Some(MetricsServer::start(
            address,
            options.hosts.listener_options(terminal::complain),
        )?),
        _ => None,
    })
}

/// Returns the target of `--target` and the environment.
fn target(options: &options::Replay) -> Result<Target, Failure> {
    let url = options.target.as_deref().unwrap_or_default();
    Ok(Target::parse(url, |name| std::env::var(name).ok())?)
}

/// Calibrates this machine for the replay, and shows the result.
fn show_calibration(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    (options, interrupt): (&options::Replay, &Interrupt),
) -> Result<ExitStatus, Failure> {
    let found = calibrate(reader, target, engine, interrupt)?;
    match options.json {
        true => terminal::say_line(&to_document(&found)),
        false => terminal::say(&calibration_text::render_text(&found, &terminal::style())),
    }
    Ok(ExitStatus::Success)
}

/// Plans the replay, tests the logins, and reports what would be sent.
fn dry_run(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    options: &options::Replay,
) -> Result<ExitStatus, Failure> {
    let preflight = preflight::check(reader, target, engine, CheckedPart::Whole)?;
    let target_info = replay::check_target(reader, target, &engine.logins)?;
    encodings::note_encodings(reader, target, &target_info)?;
    let forecast = replay::dry_run(reader, target, engine)?;
    let skipped: u64 = forecast.skipped.values().sum();
    let view = DryRun {
        schema: "rehearse/dry-run/1",
        workload: options.workload.display().to_string(),
        target: target_info.address,
        server_version: target_info.server_version,
        options: engine.to_manifest(),
        sessions: forecast.sessions,
        statements: forecast.statements,
        sent: forecast.statements - skipped,
        writes: forecast.writes,
        read_only: engine.read_only.is_on(),
        skipped: forecast.skipped,
        unrepeatable: forecast.unrepeatable,
        span_ns: forecast.span_ns,
        idle_skipped_us: forecast.cut_us,
        preflight,
    };
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&dry_run_text::render_text(&view, &terminal::style()));
    }
    Ok(ExitStatus::Success)
}

fn startup_options(given: &[String]) -> Result<StartupOptions, Failure> {
    let mut options = StartupOptions::default();
    for one in given {
        options.add(one).map_err(Failure::usage)?;
    }
    Ok(options)
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
