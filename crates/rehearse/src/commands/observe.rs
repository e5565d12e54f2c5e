//! `rehearse observe`: records a server's statistics and waits, without a replay.

use std::path::Path;
use std::time::Duration;

use ::observe::{MonitorOptions, MonitorScope};
use clock::duration_text;
use indicatif::{ProgressBar, ProgressStyle};
use replay::Target;

use crate::commands::show;
use crate::exit_status::ExitStatus;
use crate::options;
use crate::options::watching::{LookArgs, Observe};
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::observe_server::{ObservationEnd, observe_server};

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
        scope: MonitorScope::Everything,
        hz: args.sample_rate,
        custom_query: args.custom_query.clone(),
        custom_query_interval: args.custom_query_every,
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
    Ok(match (watching.observe, watching.no_statement_statistics) {
        (true, _) => Some(looks(&watching.looks)),
        (false, false) => Some(MonitorOptions {
            scope: MonitorScope::Statistics,
            ..MonitorOptions::default()
        }),
        (false, true) => None,
    })
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
    let end = observe_server(
        target,
        &looks(&options.looks),
        options.duration,
        output,
        interrupt,
        &mut *progress(options.duration),
    )?;
    Ok(match end {
        ObservationEnd::Complete => ExitStatus::Success,
        ObservationEnd::Incomplete => ExitStatus::Findings,
    })
}

/// Returns a function that draws a progress bar of an observation.
pub fn progress(duration: Option<Duration>) -> Box<dyn FnMut(Option<i64>)> {
    let mut bar = None;
    Box::new(move |elapsed_ns| {
        let bar = bar.get_or_insert_with(|| new_bar(duration));
        match elapsed_ns {
            Some(elapsed_ns) => {
                bar.set_position((elapsed_ns / 1_000_000).max(0) as u64);
                bar.set_message(duration_text(elapsed_ns / 1_000_000_000 * 1_000_000_000));
            }
            None => bar.finish_and_clear(),
        }
    })
}

fn new_bar(duration: Option<Duration>) -> ProgressBar {
    let length = duration.map(|duration| (duration.as_millis() as u64).max(1));
    let bar = ProgressBar::with_draw_target(length, terminal::progress_target());
    let template = match length {
        Some(_) => "{bar:30} {percent:>3} %  {msg}",
        None => "{spinner} {msg}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar
}
