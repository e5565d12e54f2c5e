//! `rehearse capture`: creates a workload from server logs, and dispatches to the other sources.

mod control;
mod control_token;
mod partial_output;
mod pcap;
mod proxy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use capture_log as log;
use capture_log::{LogError, LogFormat, LogOptions, LogReport, SourceReport};
use capture_sink::{Counted, EventSink, MaskSink, SinkError, SliceSink};
use indicatif::{ProgressBar, ProgressStyle};
use partial_output::PartialOutput;
use report::{CaptureReport, capture_text, fitness_text, to_json};
use transform::Slicer;
use transform::mask::Masker;
use workload::{
    EventRef, MaskNote, Provenance, Recipient, ServerEvent, Session, SliceAccount, SliceNote,
};

use crate::commands::settings;
use crate::commands::sources::{Sources, sources};
use crate::exit_status::ExitStatus;
use crate::options::encrypting::EncryptArgs;
use crate::options::masking::MaskArgs;
use crate::options::slice::SliceArgs;
use crate::options::{Capture, CaptureLog, Format, Source};
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::keys;

/// Captures from the requested source.
pub fn run(options: Capture) -> Result<ExitStatus, Failure> {
    match options.source {
        Source::Log(options) => from_log(&options),
        Source::Proxy(options) => proxy::run(&options),
        Source::Pcap(options) => pcap::run(&options),
        Source::Settings(options) => settings::run(&options),
    }
}

fn from_log(options: &CaptureLog) -> Result<ExitStatus, Failure> {
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let captured = capture(
        sources(options, &interrupt)?,
        options.output.as_deref(),
        options.prefix.clone(),
        options.format.map(|format| match format {
            Format::Stderr => LogFormat::Stderr,
            Format::Csv => LogFormat::Csv,
            Format::Json => LogFormat::Json,
            Format::Syslog => LogFormat::Syslog,
            Format::Cloudwatch => LogFormat::CloudWatch,
            Format::Cloudsql => LogFormat::CloudSql,
            Format::Azure => LogFormat::Azure,
            Format::Cnpg => LogFormat::Cnpg,
        }),
        (&options.slice, &options.masking, &options.encryption),
        &interrupt,
    )?;
    show(&captured, options.json);
    if options.follow && captured.report.reconciliation.lines == 0 {
        terminal::note("nothing was written to the log while it was followed");
    }
    let damaged = |source: &SourceReport| source.damage.is_some();
    let found = captured.report.reconciliation.unreadable.lines > 0
        || captured.report.sources.iter().any(damaged);
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
    show(&capture_whole(files, output, interrupt)?, false);
    Ok(())
}

/// Captures log files into a workload without a report.
///
/// # Errors
/// As [`capture_files`].
pub fn capture_quietly(
    files: &[PathBuf],
    output: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    capture_whole(files, output, interrupt).map(|_| ())
}

fn capture_whole(
    files: &[PathBuf],
    output: &Path,
    interrupt: &Interrupt,
) -> Result<CaptureReport<LogReport>, Failure> {
    let files = Sources::Files(log::select(files).map_err(failure)?);
    let everything = (
        &SliceArgs::default(),
        &MaskArgs::default(),
        &EncryptArgs::default(),
    );
    capture(files, Some(output), None, None, everything, interrupt)
}

fn capture(
    sources: Sources,
    output: Option<&Path>,
    prefix: Option<String>,
    format: Option<LogFormat>,
    (slice, masking, encryption): (&SliceArgs, &MaskArgs, &EncryptArgs),
    interrupt: &Interrupt,
) -> Result<CaptureReport<LogReport>, Failure> {
    let masker = masking.masker()?;
    let recipients = keys::recipients(&encryption.encrypt)?;
    let slicer = slice.slice()?.map(|slice| Slicer::new(slice, None));
    let given: BTreeMap<String, String> = [
        ("prefix", prefix.clone()),
        ("format", format.map(|format| format.name().to_owned())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    let (selection, mut follow) = match sources {
        Sources::Files(selection) => (selection, None),
        Sources::Followed(follow) => (log::Selection::default(), Some(follow)),
    };
    // A log that is followed ends in order where the user stops it.
    let interrupt = follow.is_none().then_some(interrupt);
    let bar = progress_bar();
    if let Some(follow) = &mut follow {
        announce_stop(follow, &bar);
    }
    let log_options = LogOptions {
        inputs: selection.inputs,
        on_source: follow.is_some().then(|| announce_sources(&bar)),
        follow,
        prefix,
        format,
        on_progress: Some(Box::new(|progress| show_progress(&bar, &progress))),
    };
    let result = match output {
        None => {
            let mut sink = InterruptibleSink {
                sink: SliceSink::new(Counted::default(), slicer),
                interrupt,
            };
            let result = log::capture(log_options, &mut sink).map_err(failure);
            result.and_then(|report| {
                let (counted, account) = sink.sink.finish()?;
                let span_us = counted.span_us();
                Ok((report, span_us, counted.statements, account, None))
            })
        }
        Some(output) => {
            let sliced = (slicer, slice.given());
            write(
                log_options,
                (output, &recipients),
                given,
                sliced,
                masker,
                interrupt,
            )
        }
    };
    bar.finish_and_clear();
    let (mut report, span_us, statements, account, masked) = result?;
    report.left_out.splice(..0, selection.left_out);
    Ok(CaptureReport {
        schema: "rehearse/capture/1",
        workload: output.map(|output| output.display().to_string()),
        span_us,
        sessions: (account.as_ref()).map_or(report.sessions, |account| account.sessions_kept),
        statements,
        report,
        slice: account,
        mask: masked.map(From::from),
    })
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

/// Report of the log, span in microseconds, number of statements, statements excluded by a
/// slice, and masked values.
type CaptureResult = (LogReport, i64, u64, Option<SliceAccount>, Option<MaskNote>);

fn write(
    log_options: LogOptions<'_>,
    (output, recipients): (&Path, &[Recipient]),
    options: BTreeMap<String, String>,
    (slicer, slice_options): (Option<Slicer>, BTreeMap<String, Vec<String>>),
    masker: Option<Masker>,
    interrupt: Option<&Interrupt>,
) -> Result<CaptureResult, Failure> {
    check_workload_name(output)?;
    // The file may be gone when it is followed no more.
    let output_writer = PartialOutput::create(output, log_options.follow.is_some(), recipients)?;
    let mut sink = InterruptibleSink {
        sink: SliceSink::new(MaskSink::new(output_writer, masker), slicer),
        interrupt,
    };
    let report = log::capture(log_options, &mut sink).map_err(failure)?;
    let (sink, account) = sink.sink.finish()?;
    let (output_writer, masked) = sink.finish();
    let mut writer = output_writer.writer;
    writer.note_masks(masked.clone());
    let provenance = Provenance {
        source_kind: "log".to_owned(),
        sources: report
            .sources
            .iter()
            .map(|source| source.file.clone())
            .collect(),
        options,
        start_wall_us: 0,
        reconciliation: serde_json::to_value(&report.reconciliation).expect("plain data"),
        slices: account
            .iter()
            .map(|account| SliceNote {
                options: slice_options.clone(),
                account: account.clone(),
                ..SliceNote::default()
            })
            .collect(),
        rewrites: Vec::new(),
    };
    let info = writer.finish(provenance)?;
    Ok((report, info.span_us, info.statements, account, masked))
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
    if !parent.as_os_str().is_empty() && !parent.is_dir() {
        return Err(Failure::usage(format!(
            "there is no directory {}, where {} is to be made; make it first, or give another -o",
            parent.display(),
            output.display()
        )));
    }
    Ok(())
}

/// Sink that ends the capture when the user interrupts it. The partial workload is then removed.
struct InterruptibleSink<'a, S> {
    sink: S,
    interrupt: Option<&'a Interrupt>,
}

#[derive(Debug, thiserror::Error)]
#[error("the capture was stopped; nothing of it is left, and the log is as it was")]
struct CaptureInterrupted;

impl<S: EventSink> EventSink for InterruptibleSink<'_, S> {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        if self.interrupt.is_some_and(Interrupt::is_asked) {
            return Err(SinkError::new(CaptureInterrupted));
        }
        self.sink.event(event)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.sink.session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.sink.server_event(event)
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }
}

/// Converts an error of the log reader to a failure with its exit code.
pub(super) fn failure(error: LogError) -> Failure {
    match &error {
        LogError::Read { error: inner, .. } if inner.kind() == std::io::ErrorKind::NotFound => {
            Failure::usage(error)
        }
        LogError::NoInput
        | LogError::Pattern { .. }
        | LogError::FollowCompressed { .. }
        | LogError::PrefixMatchesNothing { .. }
        | LogError::NotThatFormat { .. }
        | LogError::NoOnePrefix { .. }
        | LogError::PrefixLacks { .. } => Failure::usage(error),
        LogError::Sink(inner) => {
            let text = inner.to_string();
            Failure::could_not(text)
        }
        _ => Failure::could_not(error),
    }
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
