//! `rehearse observe`: records a server's statistics and waits, without a replay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::observe::MonitorOptions;
use clock::{Clock, SystemClock, duration_text};
use connect::login::{Dialer, Found};
use indicatif::{ProgressBar, ProgressStyle};
use replay::{LoginMap, Target};
use run::{RunInfo, RunWriter, TargetInfo};

use crate::commands::show;
use crate::exit_status::ExitStatus;
use crate::options;
use crate::options::watching::{LookArgs, Observe};
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::target_watch::TargetWatch;

/// Interval of checking whether the time is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Observes for the requested time, and shows a summary. The exit code is 1 if the server no
/// longer answers at the end.
pub fn run(options: &Observe) -> Result<ExitStatus, Failure> {
    let target = Target::parse(&options.target, |name| std::env::var(name).ok())?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let literals = show::literals(false);
    let Some(output) = &options.output else {
        let place = tempfile::tempdir().map_err(Failure::could_not)?;
        let output = place.path().join("observed.run");
        let ending = watch(options, &target, &output, &interrupt)?;
        show::show(&output, NOT_KEPT, options.json, literals)?;
        return Ok(ending);
    };
    let ending = watch(options, &target, output, &interrupt)?;
    show::show(
        output,
        &output.display().to_string(),
        options.json,
        literals,
    )?;
    Ok(ending)
}

/// Text that is shown in place of a run's name.
const NOT_KEPT: &str = "Not kept (-o NAME.run keeps it)";

/// Converts the options of sampling and the custom query.
fn looks(args: &LookArgs) -> MonitorOptions {
    MonitorOptions {
        hz: args.sample_rate,
        queue: args.custom_query.clone(),
        queue_every: args.custom_query_every,
    }
}

/// Returns the options of observing a replay's target, or `None` if it is not observed.
///
/// # Errors
/// If a query is given without `--observe`.
pub fn watch_options(options: &options::Replay) -> Result<Option<MonitorOptions>, Failure> {
    let watching = &options.watching;
    if watching.looks.custom_query.is_some() && !watching.observe {
        return Err(Failure::usage(
            "--custom-query is asked by what watches the target; give --observe with it",
        ));
    }
    Ok(watching.observe.then(|| looks(&watching.looks)))
}

/// Observes for the requested time, and writes a run. Returns [`ExitStatus::Findings`] if the
/// server no longer answers at the end, or rejected the user's query at the beginning; both are
/// reported.
///
/// # Errors
/// If the target refuses, or the run cannot be written.
pub fn watch(
    options: &Observe,
    target: &Target,
    output: &Path,
    interrupt: &Interrupt,
) -> Result<ExitStatus, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let login = LoginMap::default().login(target, "", "", "");
    let dialer = Dialer::new(target)?;
    let Found {
        address,
        server_version,
        ..
    } = dialer.try_out(&login).map_err(|error| {
        Failure::could_not(format!(
            "cannot observe {} as user \"{}\" on database \"{}\": {error}; give a target that takes this login, such as postgres://USER@HOST:PORT/DATABASE",
            target.address(), login.user, login.database
        ))
    })?;
    let watched = TargetInfo {
        address: address.clone(),
        server_version: server_version.clone(),
        ..TargetInfo::default()
    };
    let mut info = RunInfo::observation(watched, described(options), clock.wall_us());
    let mut run = RunWriter::create(output, &info, std::iter::empty())?;
    let mut watching = TargetWatch::new(looks(&options.looks), target.clone(), clock.clone());
    watching.begin(&mut run, std::slice::from_ref(&login))?;
    let is_unasked = options.looks.custom_query.is_some() && watching.why_off("queue").is_some();
    let start_ns = clock.now_ns();
    let time = clock.clone();
    watching.start(Arc::new(move || time.now_ns() - start_ns));
    let until = match options.duration {
        Some(_) => "; Ctrl-C ends it earlier",
        None => " until Ctrl-C",
    };
    terminal::note(&format!(
        "Observing {address} (PostgreSQL {server_version}){until}."
    ));
    let span_ns = options
        .duration
        .map(|span| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
    let bar = bar(span_ns);
    loop {
        let elapsed_ns = clock.now_ns() - start_ns;
        if interrupt.is_asked() || span_ns.is_some_and(|span_ns| elapsed_ns >= span_ns) {
            break;
        }
        bar.set_position((elapsed_ns / 1_000_000).max(0) as u64);
        bar.set_message(duration_text(elapsed_ns / 1_000_000_000 * 1_000_000_000));
        std::thread::sleep(LOOK_EVERY);
    }
    bar.finish_and_clear();
    info.elapsed_ns = clock.now_ns() - start_ns;
    let gone = dialer.try_out(&login).err();
    watching.end(&mut run)?;
    run.finish(info, 0)?;
    Ok(match gone {
        None if is_unasked => ExitStatus::Findings,
        None => ExitStatus::Success,
        Some(error) => {
            terminal::note(&format!(
                "{address} does not answer any more: {error}; there is what was seen of it until then"
            ));
            ExitStatus::Findings
        }
    })
}

fn described(options: &Observe) -> BTreeMap<String, String> {
    let mut described = BTreeMap::from([("hz".to_owned(), options.looks.sample_rate.to_string())]);
    if let Some(queue) = &options.looks.custom_query {
        described.insert("queue".to_owned(), queue.clone());
    }
    if let Some(every) = options.looks.custom_query_every {
        described.insert("queue-every-s".to_owned(), every.as_secs_f64().to_string());
    }
    described
}

fn bar(span_ns: Option<i64>) -> ProgressBar {
    let length = span_ns.map(|span_ns| (span_ns / 1_000_000).max(1) as u64);
    let bar = ProgressBar::with_draw_target(length, terminal::progress_target());
    let template = match length {
        Some(_) => "{bar:30} {percent:>3} %  {msg}",
        None => "{spinner} {msg}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar
}
