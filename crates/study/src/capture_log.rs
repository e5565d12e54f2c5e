//! Captures server logs into a workload.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use capture_log::{LogError, LogOptions, LogReport, capture, select};
use capture_sink::series::{SeriesError, SeriesOptions, SeriesSink, SeriesStatus};
use capture_sink::{
    EventCounter, EventSink, MaskSink, SessionStart, SinkError, SliceSink, WorkloadOutput,
};
use transform::Slicer;
use transform::mask::Masker;
use workload::series::{HeldEvent, PossibleGap};
use workload::{
    EventRef, MaskNote, Provenance, Recipient, ServerEvent, Session, SliceAccount, SliceNote,
    SourceFile, StartingPoint,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::log_server::servers_of_logs;

/// A capture of logs, and its destination.
#[derive(Default)]
pub struct LogCapture<'c> {
    /// Inputs, and how they are read.
    pub log: LogOptions<'c>,
    /// Workload to write; `None` if the logs are only checked.
    pub output: Option<&'c Path>,
    /// Keys that can read the workload; empty if it is not encrypted.
    pub recipients: &'c [Recipient],
    /// Keeps a part of the events.
    pub slicer: Option<Slicer>,
    /// Options of the slice, by name, for the workload.
    pub slice_options: BTreeMap<String, Vec<String>>,
    /// Masks the values.
    pub masker: Option<Masker>,
    /// State of the server at the start, if it was noted.
    pub starting_point: Option<StartingPoint>,
    /// Writes a series instead of one workload; `output` is its path. `recipients`, `masker` and `starting_point` are
    /// ignored, since the series has its own.
    pub series: Option<SeriesOptions>,
    /// Ends the capture without a workload. A log that is followed ends by its own condition.
    pub interrupt: Option<&'c Interrupt>,
}

/// Result of a capture.
#[derive(Debug)]
pub struct CapturedLog {
    /// Account of the logs.
    pub report: LogReport,
    /// Time from the first event to the last, in microseconds.
    pub span_us: i64,
    /// Statements in the workload.
    pub statements: u64,
    /// Account of all events, if only a slice was kept.
    pub slice: Option<SliceAccount>,
    /// Account of all values, if they were masked.
    pub mask: Option<MaskNote>,
    /// Account of the parts, if a series was written.
    pub series: Option<SeriesStatus>,
}

/// Captures whole log files into a workload.
///
/// # Errors
/// As [`capture_log()`].
pub fn capture_files(
    files: &[PathBuf],
    output: &Path,
    interrupt: &Interrupt,
) -> Result<CapturedLog, Failure> {
    let selection = select(files)?;
    let mut captured = capture_log(LogCapture {
        log: LogOptions {
            inputs: selection.inputs,
            ..LogOptions::default()
        },
        output: Some(output),
        interrupt: Some(interrupt),
        ..LogCapture::default()
    })?;
    captured.report.left_out.splice(..0, selection.left_out);
    Ok(captured)
}

/// Captures logs into a workload, or checks them.
///
/// # Errors
/// If the logs cannot be read, the workload cannot be written, or the user stopped the capture.
pub fn capture_log(mut request: LogCapture<'_>) -> Result<CapturedLog, Failure> {
    if let Some(options) = request.series.take() {
        return write_series(request, options);
    }
    match request.output {
        Some(output) => write_workload(request, output),
        None => check_log(request),
    }
}

fn check_log(request: LogCapture<'_>) -> Result<CapturedLog, Failure> {
    let mut sink = InterruptibleSink {
        sink: SliceSink::new(EventCounter::default(), request.slicer),
        interrupt: request.interrupt,
        is_empty: true,
    };
    let report = capture(request.log, &mut sink)?;
    let (counted, slice) = sink.sink.finish()?;
    Ok(CapturedLog {
        report,
        span_us: counted.span_us(),
        statements: counted.statements,
        slice,
        mask: None,
        series: None,
    })
}

fn write_series(
    mut request: LogCapture<'_>,
    options: SeriesOptions,
) -> Result<CapturedLog, Failure> {
    let given = given_options(&request.log);
    let followed = request.log.follow.iter().map(|follow| &follow.path);
    let options = SeriesOptions {
        provenance: Provenance {
            source_kind: "log".to_owned(),
            options: given.clone(),
            servers: servers_of_logs(followed),
            ..Provenance::default()
        },
        ..options
    };
    let sink = SeriesSink::create(options)?;
    let update_provenance = sink.provenance_updater();
    let mut announce = request.log.on_source.take();
    request.log.on_source = Some(Box::new(move |name| {
        update_provenance(&|provenance| {
            provenance.sources.push(SourceFile {
                name: name.to_owned(),
                ..SourceFile::default()
            });
        });
        if let Some(announce) = &mut announce {
            announce(name);
        }
    }));
    let mut sink = InterruptibleSink {
        sink,
        interrupt: request.interrupt,
        is_empty: true,
    };
    let report = capture(request.log, &mut sink)?;
    let status = sink.sink.finish(provenance(&report, given, None));
    let status = status.map_err(Failure::could_not)?;
    Ok(CapturedLog {
        report,
        span_us: status.span_us(),
        statements: status.statements,
        slice: None,
        mask: None,
        series: Some(status),
    })
}

/// Returns the options that shape the capture, for the manifest.
fn given_options(log: &LogOptions<'_>) -> BTreeMap<String, String> {
    let given = [
        ("prefix", log.prefix.clone()),
        ("format", log.format.map(|format| format.name().to_owned())),
        ("log_timezone", log.time_zone.clone()),
    ];
    let given = given.into_iter();
    given
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Returns the provenance of a workload from a log.
fn provenance(
    report: &LogReport,
    options: BTreeMap<String, String>,
    slice: Option<SliceNote>,
) -> Provenance {
    let files = report.sources.iter().map(|source| &source.file.name);
    Provenance {
        source_kind: "log".to_owned(),
        sources: report
            .sources
            .iter()
            .map(|source| source.file.clone())
            .collect(),
        options,
        reconciliation: serde_json::to_value(&report.reconciliation).expect("plain data"),
        slices: slice.into_iter().collect(),
        servers: servers_of_logs(files),
        ..Provenance::default()
    }
}

fn write_workload(request: LogCapture<'_>, output: &Path) -> Result<CapturedLog, Failure> {
    let given = given_options(&request.log);
    // The file may be gone after it is no longer followed.
    let is_stream = request.log.follow.is_some();
    let partial = archive::partial_path(output);
    let mut output = WorkloadOutput::create(output, is_stream, request.recipients)?;
    let followed = request.log.follow.iter().map(|follow| &follow.path);
    output.writer.note_servers(servers_of_logs(followed))?;
    if let Some(point) = request.starting_point {
        output.writer.note_starting_point(point)?;
    }
    let mut sink = InterruptibleSink {
        sink: SliceSink::new(MaskSink::new(output, request.masker), request.slicer),
        interrupt: request.interrupt,
        is_empty: true,
    };
    let report = match capture(request.log, &mut sink) {
        Ok(report) => report,
        Err(error) => {
            let is_empty = sink.is_empty;
            drop(sink);
            // A log that was refused leaves nothing to recover.
            if is_empty && partial.exists() {
                let _ = std::fs::remove_dir_all(&partial);
            }
            return Err(error.into());
        }
    };
    let (sink, slice) = sink.sink.finish()?;
    let (output, mask) = sink.finish();
    let mut writer = output.writer;
    writer.note_masks(mask.clone());
    let note = slice.as_ref().map(|account| SliceNote {
        options: request.slice_options.clone(),
        account: account.clone(),
        ..SliceNote::default()
    });
    let info = writer.finish(provenance(&report, given, note))?;
    Ok(CapturedLog {
        report,
        span_us: info.span_us,
        statements: info.statements,
        slice,
        mask,
        series: None,
    })
}

/// Sink that ends the capture when the user interrupts it. The partial workload is then removed.
struct InterruptibleSink<'a, S> {
    sink: S,
    interrupt: Option<&'a Interrupt>,
    /// Nothing was captured yet.
    is_empty: bool,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the capture was stopped; nothing of it is left but complete parts of a series, and the log is as it was"
)]
struct CaptureInterrupted;

impl<S: EventSink> EventSink for InterruptibleSink<'_, S> {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        if self.interrupt.is_some_and(Interrupt::is_requested) {
            return Err(SinkError::new(CaptureInterrupted));
        }
        self.is_empty = false;
        self.sink.event(event)
    }

    fn session_begins(&mut self, start: SessionStart<'_>) -> Result<(), SinkError> {
        self.sink.session_begins(start)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.sink.session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.sink.server_event(event)
    }

    fn note_several_servers(&mut self) -> Result<(), SinkError> {
        self.sink.note_several_servers()
    }

    fn note_possible_gaps(&mut self, gaps: &[PossibleGap]) -> Result<(), SinkError> {
        self.sink.note_possible_gaps(gaps)
    }

    fn needs_held(&self) -> bool {
        self.sink.needs_held()
    }

    fn held(&mut self, held: &mut dyn Iterator<Item = HeldEvent>) {
        self.sink.held(held);
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }
}

impl From<SeriesError> for Failure {
    fn from(error: SeriesError) -> Self {
        match error {
            SeriesError::Archive(error) => error.into(),
            error => Failure::usage(error),
        }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
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
            | LogError::TimeZoneUnknown { .. }
            | LogError::Unsupported { .. }
            | LogError::SyslogWithoutProcess { .. }
            | LogError::PrefixUndecided { .. }
            | LogError::PrefixContradicted { .. }
            | LogError::PrefixLacks { .. } => Failure::usage(error),
            LogError::Sink(inner) => Failure::could_not(inner),
            _ => Failure::could_not(error),
        }
    }
}
