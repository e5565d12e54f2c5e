//! `rehearse capture`: creates a workload from server logs, and dispatches to the other sources.

mod attach;
mod control;
mod control_token;
mod live;
mod pcap;
mod proxy;
mod recording;
mod series;
mod starting_point;

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use ::capture_log as log;
use ::capture_log::{LogFormat, LogOptions, LogReport, SourceReport};
use indicatif::{ProgressBar, ProgressStyle};
use report::{CaptureReport, capture_text, fitness_text, to_json};
use transform::Slicer;

use crate::commands::settings;
use crate::commands::sources::{Sources, sources};
use crate::exit_status::ExitStatus;
use crate::options::roll::RollArgs;
use crate::options::{Capture, CaptureLog, Source};
use crate::otlp::{self, SharedProgress};
use crate::terminal;
use series::{SeriesSource, series_options};
use starting_point::StartingPointTaker;
use study::Failure;
use study::Interrupt;
use study::capture_log;
use study::capture_log::{CapturedLog, LogCapture};
use study::keys;
use workload::series::SERIES_EXTENSION;

/// Captures from the requested source.
pub fn run(options: Capture) -> Result<ExitStatus, Failure> {
    match options.source {
        Source::Log(options) => from_log(&options),
        Source::Proxy(options) => proxy::run(&options),
        Source::Attach(options) => attach::run(&options),
        Source::AttachProber(options) => attach::run_prober(&options),
        Source::Pcap(options) => pcap::run(&options),
        Source::Settings(options) => settings::run(&options),
        Source::StartingPoint(options) => starting_point::run(&options),
    }
}

/// Next step if a log has no statement.
pub(super) const NO_STATEMENT: &str = "the log holds no statement, so there is nothing to replay: apply what `rehearse capture settings` prints, and capture the log that is written then";

fn from_log(options: &CaptureLog) -> Result<ExitStatus, Failure> {
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let captured = capture(options, &interrupt)?;
    show(&captured, options.json);
    if options.follow && captured.report.reconciliation.lines == 0 {
        terminal::note("nothing was written to the log while it was followed");
    }
    let written = captured.written_series.as_ref();
    let (repeated, in_gaps) = written.map_or((0, 0), |series| {
        (series.repeated_events, series.repeated_in_gaps)
    });
    let has_none = captured.statements == 0 && captured.slice.is_none() && !options.follow;
    let is_empty = has_none && repeated == 0;
    if has_none && repeated > 0 {
        terminal::note(&match in_gaps {
            0 => format!("nothing new: all {repeated} events are in the series"),
            _ => format!(
                "nothing was added: of {repeated} events, {in_gaps} ended in a gap of the series, and it has the others"
            ),
        });
    }
    if is_empty {
        terminal::note(NO_STATEMENT);
    }
    let damaged = |source: &SourceReport| source.damage.is_some();
    let found = captured.report.reconciliation.unreadable.lines > 0
        || captured.report.sources.iter().any(damaged)
        || is_empty;
    Ok(if found {
        ExitStatus::Findings
    } else {
        ExitStatus::Success
    })
}

/// Captures log files into a workload and shows the report, for the demo.
///
/// # Errors
/// If the log cannot be captured or the workload cannot be written.
pub fn capture_files(
    files: &[PathBuf],
    output: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let captured = capture_log::capture_files(files, output, interrupt)?;
    show(&report(captured, Some(output)), false);
    Ok(())
}

fn capture(
    options: &CaptureLog,
    interrupt: &Interrupt,
) -> Result<CaptureReport<LogReport>, Failure> {
    let sources = sources(options, interrupt)?;
    let masker = options.masking.masker()?;
    let recipients = keys::read_recipients(&options.encryption.encrypt)?;
    let slice = options.slice.slice()?;
    let (selection, mut follow) = match sources {
        Sources::Files(selection) => (selection, None),
        Sources::Followed(follow) => (log::Selection::default(), Some(follow)),
    };
    if let Some(output) = &options.output {
        check_output_name(output, &options.roll)?;
    }
    options.roll.refuse_slice(slice.is_some())?;
    let given = options.starting_point.starting_point.as_deref();
    let starting_point = StartingPointTaker::new(given, None, options.output.as_deref())?;
    if given.is_some() {
        starting_point.take();
    }
    if let (Some(output), Some(_), Some(_)) = (&options.output, options.roll.roll, &follow) {
        interrupt.set_partial(output.clone());
    }
    // A log that is followed ends in order where the user stops it.
    let interrupt = follow.is_none().then_some(interrupt);
    let export = options.otlp.settings()?;
    let progress = SharedProgress::default();
    let is_pipe = options.files.iter().any(|file| file.as_os_str() == "-");
    let is_live = follow.is_some() || is_pipe;
    let mut taken = starting_point.taken();
    let series = match (&options.output, options.roll.roll) {
        (Some(output), Some(_)) => Some(series_options(
            &options.roll,
            output,
            SeriesSource {
                kind: "log",
                is_live,
                is_pipe,
                recipients: recipients.clone(),
                mask: masker.as_ref().map(|masker| masker.mask().clone()),
                starting_point: taken.take(),
                servers: Vec::new(),
            },
        )),
        _ => None,
    };
    let watch = series.as_ref().map(|series| series.watch.clone());
    let export = export
        .map(|settings| otlp::export_log(settings, progress.clone(), watch))
        .transpose()?;
    let bar = progress_bar();
    if let Some(follow) = &mut follow {
        announce_stop(follow, &bar);
    }
    let result = capture_log::capture_log(LogCapture {
        log: LogOptions {
            inputs: selection.inputs,
            on_source: follow.is_some().then(|| announce_sources(&bar)),
            follow,
            prefix: options.prefix.clone(),
            time_zone: options.log_timezone.clone(),
            format: options.format.map(LogFormat::from),
            on_progress: Some(Box::new(|now| {
                *progress.lock().unwrap_or_else(PoisonError::into_inner) = now;
                show_progress(&bar, &now);
            })),
            ..LogOptions::default()
        },
        output: options.output.as_deref(),
        recipients: &recipients,
        slicer: slice.map(|slice| Slicer::new(slice, None)),
        slice_options: options.slice.given(),
        masker,
        starting_point: taken,
        series,
        interrupt,
    });
    bar.finish_and_clear();
    export.map(otlp::finish);
    let mut captured = result?;
    captured.report.left_out.splice(..0, selection.left_out);
    Ok(report(captured, options.output.as_deref()))
}

fn report(captured: CapturedLog, output: Option<&Path>) -> CaptureReport<LogReport> {
    let sliced = captured.slice.as_ref();
    CaptureReport {
        schema: "rehearse/capture/1",
        workload: output.map(|output| output.display().to_string()),
        span_us: captured.span_us,
        sessions: sliced.map_or(captured.report.sessions, |account| account.sessions_kept),
        statements: captured.statements,
        report: captured.report,
        slice: captured.slice,
        mask: captured.mask.map(From::from),
        written_series: captured.series,
    }
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
    let style = ProgressStyle::with_template(
        "{spinner} {decimal_bytes} read, {decimal_bytes_per_sec}, {msg}",
    )
    .expect("a valid template");
    bar.set_style(style);
    bar
}

/// Reports once that following the log stops.
fn announce_stop(follow: &mut log::FollowOptions, bar: &ProgressBar) {
    let mut stop = std::mem::replace(&mut follow.stop, Box::new(|| true));
    let (bar, mut is_announced) = (bar.clone(), false);
    follow.stop = Box::new(move || {
        let stops = stop();
        if stops && !std::mem::replace(&mut is_announced, stops) {
            bar.suspend(|| {
                terminal::note("stopping: what was logged until now is still read");
            });
        }
        stops
    });
}

/// Reports each file of a followed log when it is opened.
fn announce_sources(bar: &ProgressBar) -> log::OnSource<'_> {
    let mut first = true;
    Box::new(move |name| {
        let name = match name {
            "-" => "standard input",
            name => name,
        };
        let line = match std::mem::take(&mut first) {
            true => format!("following {name}; Ctrl-C ends the capture in order"),
            false => format!("going on with {name}"),
        };
        bar.suspend(|| terminal::note(&line));
    })
}

fn show_progress(bar: &ProgressBar, progress: &log::Progress) {
    if let Some(total) = progress.total_bytes {
        bar.set_length(total);
    }
    bar.set_position(progress.read_bytes);
    bar.set_message(match progress.total_bytes {
        Some(total) if total > 0 => format!(
            "{} events, {:.0} %",
            progress.events,
            100.0 * progress.read_bytes as f64 / total as f64
        ),
        _ => format!("{} events", progress.events),
    });
}

/// Checks the name of the output: that of a series with `--roll`, of a workload otherwise.
///
/// # Errors
/// If it is another one, with a correct option.
fn check_output_name(output: &Path, roll: &RollArgs) -> Result<(), Failure> {
    match roll.roll {
        Some(_) => roll.check_series_name(output),
        None if output
            .extension()
            .is_some_and(|end| end == SERIES_EXTENSION) =>
        {
            Err(Failure::usage(format!(
                "{} is the name of a series; give --roll 15m to write a series, or -o {} to write one workload",
                output.display(),
                output.with_extension("workload").display()
            )))
        }
        None => check_workload_name(output),
    }
}

/// Checks that the output is called NAME.workload and that its directory exists.
///
/// # Errors
/// If not, with a correct option.
pub fn check_workload_name(output: &Path) -> Result<(), Failure> {
    if output
        .extension()
        .is_none_or(|extension| extension != "workload")
    {
        return Err(Failure::usage(format!(
            "a workload's name ends in .workload; give -o {}.workload",
            output.display()
        )));
    }
    let parent = output.parent().unwrap_or(Path::new(""));
    let is_local = !archive::is_object_url(output);
    if is_local && !parent.as_os_str().is_empty() && !parent.is_dir() {
        return Err(Failure::usage(format!(
            "there is no directory {}, where {} is to be made; make it first, or give another -o",
            parent.display(),
            output.display()
        )));
    }
    Ok(())
}

fn show(captured: &CaptureReport<LogReport>, json: bool) {
    let alike = |one: &SourceReport, other: &SourceReport| {
        let key = |source: &SourceReport| (source.file.format.clone(), source.prefix.clone());
        key(one) == key(other) && other.notes.is_empty()
    };
    for sources in captured.report.sources.chunk_by(alike) {
        let source = &sources[0];
        let mut line = match sources {
            [only] => only.file.name.clone(),
            [first, .., last] if first.file.name == last.file.name => {
                format!("{} ({} files of that name)", first.file.name, sources.len())
            }
            [first, .., last] => format!(
                "{} to {} ({} files)",
                first.file.name,
                last.file.name,
                sources.len()
            ),
            [] => String::new(),
        };
        line.push_str(&format!(": {}", source.file.format));
        if let Some(prefix) = source.prefix.as_ref().filter(|_| source.prefix_recognised) {
            line.push_str(&format!(
                ", log_line_prefix recognised as '{prefix}' (give --prefix if SHOW log_line_prefix says another)"
            ));
        }
        terminal::note(&line);
        for note in &source.notes {
            terminal::note(&format!("  note: {note}"));
        }
    }
    if json {
        terminal::say_line(&to_json(captured));
    } else {
        let style = terminal::style();
        terminal::say(&capture_text::render_text(captured, &style));
        // An empty log is suitable for nothing, and that needs no table.
        if captured.report.reconciliation.lines > 0 {
            let of_a_part = captured.slice.is_some();
            let fitness = &captured.report.fitness;
            terminal::say(&fitness_text::render_text(fitness, of_a_part, &style));
        }
    }
}
