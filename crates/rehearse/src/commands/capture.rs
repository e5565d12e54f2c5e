//! `rehearse capture`: server logs become a workload.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::capture::log::{self, Fitness, Input, LogError, LogFormat, LogOptions, LogReport};
use ::capture::{Counted, EventSink, SinkError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::{
    CaptureView, FitnessView, SkippedView, UnreadableLineView, UnreadableView, capture_text,
    fitness_text, to_json,
};
use workload::{EventRef, Provenance, Session, WorkloadInfo, WorkloadWriter};

use crate::commands::settings;
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::options::{Capture, CaptureLog, Format, Source};
use crate::terminal;

/// Captures from what was asked for.
pub fn run(options: Capture) -> Result<Ending, Failure> {
    match options.source {
        Source::Log(options) => from_log(&options),
        Source::Settings(options) => settings::run(&options),
    }
}

fn from_log(options: &CaptureLog) -> Result<Ending, Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let captured = capture(
        &options.files,
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
        &interrupt,
    )?;
    show(&captured, options.json);
    Ok(if captured.view.unreadable.lines > 0 {
        Ending::Found
    } else {
        Ending::Done
    })
}

/// Captures log files into a workload and shows the account: the demo's way.
///
/// # Errors
/// Where the log cannot be captured or the workload not be written.
pub fn capture_files(
    files: &[PathBuf],
    output: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let captured = capture(files, Some(output), None, None, interrupt)?;
    show(&captured, false);
    Ok(())
}

struct CapturedLog {
    report: LogReport,
    view: CaptureView,
}

fn capture(
    files: &[PathBuf],
    output: Option<&Path>,
    prefix: Option<String>,
    format: Option<LogFormat>,
    interrupt: &Interrupt,
) -> Result<CapturedLog, Failure> {
    let given: BTreeMap<String, String> = [
        ("prefix", prefix.clone()),
        ("format", format.map(|format| format.name().to_owned())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    let stdin = Path::new("-");
    if files.iter().filter(|file| *file == stdin).count() > 1 {
        return Err(Failure::usage(
            "standard input (-) was given twice; it can be read once",
        ));
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template(
        "{spinner} {decimal_bytes} read, {decimal_bytes_per_sec}, {msg}",
    )
    .expect("a valid template");
    bar.set_style(style);
    let log_options = LogOptions {
        inputs: files
            .iter()
            .map(|file| {
                if file == stdin {
                    Input::Stdin
                } else {
                    Input::Path(file.clone())
                }
            })
            .collect(),
        prefix,
        format,
        on_progress: Some(Box::new(|progress: log::Progress| {
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
        })),
    };
    let result = match output {
        None => {
            let mut sink = Stoppable {
                sink: Counted::default(),
                interrupt,
            };
            log::capture(log_options, &mut sink)
                .map_err(failure)
                .map(|report| (report, None, sink.sink.statements))
        }
        Some(output) => write(log_options, output, given, interrupt),
    };
    bar.finish_and_clear();
    let (report, info, statements) = result?;
    let mut view = view(&report);
    view.statements = statements;
    if let (Some(info), Some(output)) = (&info, output) {
        view.workload = output.display().to_string();
        view.span_us = info.span_us;
    }
    Ok(CapturedLog { report, view })
}

fn write(
    log_options: LogOptions<'_>,
    output: &Path,
    options: BTreeMap<String, String>,
    interrupt: &Interrupt,
) -> Result<(LogReport, Option<WorkloadInfo>, u64), Failure> {
    if output
        .extension()
        .is_none_or(|extension| extension != "workload")
    {
        return Err(Failure::usage(format!(
            "a workload's name ends in .workload; give -o {}.workload",
            output.display()
        )));
    }
    let writer = WorkloadWriter::create(output, workload::WriterOptions::default())?;
    let mut sink = Stoppable {
        sink: writer,
        interrupt,
    };
    let report = log::capture(log_options, &mut sink).map_err(failure)?;
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
    };
    let info = sink.sink.finish(provenance)?;
    let statements = info.statements;
    Ok((report, Some(info), statements))
}

/// Ends the capture where the user asked to stop: what is written so far is then removed.
struct Stoppable<'a, S> {
    sink: S,
    interrupt: &'a Interrupt,
}

#[derive(Debug, thiserror::Error)]
#[error("the capture was stopped; nothing of it is left, and the log is as it was")]
struct Stopped;

impl<S: EventSink> EventSink for Stoppable<'_, S> {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        if self.interrupt.is_asked() {
            return Err(SinkError::new(Stopped));
        }
        self.sink.event(event)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.sink.session(session)
    }
}

fn failure(error: LogError) -> Failure {
    match &error {
        LogError::NoInput
        | LogError::PrefixMatchesNothing { .. }
        | LogError::NotThatFormat { .. }
        | LogError::PrefixLacks { .. } => Failure::usage(error),
        LogError::Sink(inner) => {
            let text = inner.to_string();
            Failure::could_not(text)
        }
        _ => Failure::could_not(error),
    }
}

fn view(report: &LogReport) -> CaptureView {
    let account = &report.reconciliation;
    let file = |source: u32| {
        report
            .sources
            .get(source as usize)
            .map_or_else(String::new, |source| source.file.name.clone())
    };
    CaptureView {
        schema: "rehearse/capture/1".to_owned(),
        sessions: report.sessions,
        lines: account.lines,
        lines_in_events: account.lines_in_events,
        events: account.events,
        skipped: account
            .skipped
            .iter()
            .map(|(reason, skipped)| {
                let name = serde_json::to_value(reason).expect("plain data");
                let view = SkippedView {
                    lines: skipped.lines,
                    explanation: reason.explanation().to_owned(),
                };
                (name.as_str().unwrap_or_default().to_owned(), view)
            })
            .collect(),
        unreadable: UnreadableView {
            lines: account.unreadable.lines,
            first: account
                .unreadable
                .first
                .iter()
                .map(|line| UnreadableLineView {
                    file: file(line.at.source),
                    line: line.at.line,
                    reason: line.reason.explanation().to_owned(),
                })
                .collect(),
        },
        fitness: Some(FitnessView::from(&Fitness::judge(account))),
        ..CaptureView::default()
    }
}

fn show(captured: &CapturedLog, json: bool) {
    for source in &captured.report.sources {
        let mut line = format!("{}: {}", source.file.name, source.file.format);
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
        terminal::say_line(&to_json(&captured.view));
    } else {
        let style = terminal::style();
        terminal::say(&capture_text::render_text(&captured.view, &style));
        if let Some(fitness) = &captured.view.fitness {
            terminal::say(&fitness_text::render_text(fitness, &style));
        }
    }
}
