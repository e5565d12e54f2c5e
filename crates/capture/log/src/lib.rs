//! Captures server logs: stderr with any `log_line_prefix`, csvlog and jsonlog, as files or in the
//! envelopes of syslog, clouds and operators, plain or compressed.
//!
//! ```text
//! input ─► window of bytes ─► reader (stderr, csv, json, envelopes) ─► entry ─► assembler ─► sink
//!              recognise ───────┘ prefix, timestamp        message, statement,      events,
//!                                                          parameters               sessions
//! ```
//!
//! [`capture`] pulls bytes and calls the format's reader, which finds one entry at a time. It
//! passes each entry to the assembler, which pushes events into the sink. Every physical line ends
//! in the [`Reconciliation`]: in an event, skipped with a reason, or unreadable. Memory holds one
//! window, which grows for an entry that does not fit, and the sessions that may continue.
//!
//! Several files are read one after the other, in the order of their first times. Sessions continue
//! from one file to the next, whatever their formats; [`series`] handles overlaps. A log that is
//! still being written is read by [`follow`] until it is stopped.
//!
//! Events are not sorted by time here; the workload writer does that. Nothing that a log does not
//! contain is guessed.

mod assemble;
mod byte_search;
mod csv;
mod entry;
mod envelopes;
mod error;
mod first_words;
mod fitness;
mod follow;
mod input;
mod json;
mod line_ends;
mod message;
mod parameters;
mod parse_ahead;
mod prefix;
mod quality_counters;
mod read_ahead;
mod read_loop;
mod recognise;
mod reconcile;
mod refusal;
mod rotation_name;
mod selection;
mod series;
mod server_event;
mod server_message;
mod session_id;
pub mod settings;
mod severity;
mod sources;
mod statement;
mod stderr;
mod stray_lines;
mod text;
mod timestamp;
mod zones;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::SourceFile;

use assemble::Assembler;
use capture_sink::{EventSink, SinkError};
use input::Window;
use read_loop::{ReadTask, read};
use recognise::{RecognisedFormat, recognise};
use series::{Series, SourceTurn};
use sources::{Source, order_sources, resolve_zones};
use zones::ZoneReading;

pub use error::LogError;
pub use fitness::{Advice, Extent, Finding, LogQuality, LogUse, LogUses};
pub use follow::FollowOptions;
pub use input::Input;
pub use parameters::{ParametersError, parse_parameters};
pub use quality_counters::QualityCounters;
pub use read_ahead::Parallelism;
pub use reconcile::{
    Location, Reconciliation, SkipReason, Skipped, UNREADABLE_KEPT_MAX, Unreadable, UnreadableLine,
    UnreadableReason,
};
pub use selection::{ExcludedFile, Selection, select};
pub use series::{Gap, Overlap, SeriesReport};

/// Format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines with a `log_line_prefix`.
    Stderr,
    /// Comma-separated values.
    #[serde(rename = "csvlog")]
    Csv,
    /// One JSON object a line.
    #[serde(rename = "jsonlog")]
    Json,
    /// stderr lines in syslog's format, or in the output of `journalctl`.
    Syslog,
    /// Amazon CloudWatch Logs, as RDS and Aurora write to it.
    CloudWatch,
    /// Google Cloud Logging, as Cloud SQL and AlloyDB write to it.
    CloudSql,
    /// Azure's diagnostic settings.
    Azure,
    /// CloudNativePG's JSON lines.
    Cnpg,
    /// Lines with a container's or a file's name before them: CRI, `docker compose logs`, `kubectl
    /// logs --prefix`, `stern`.
    Container,
    /// JSON records with a line each: Docker's json-file, log shippers, `journalctl -o json`.
    Shipper,
    /// Heroku's log drain.
    Heroku,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [LogFormat; 11] = [
        LogFormat::Stderr,
        LogFormat::Csv,
        LogFormat::Json,
        LogFormat::Syslog,
        LogFormat::CloudWatch,
        LogFormat::CloudSql,
        LogFormat::Azure,
        LogFormat::Cnpg,
        LogFormat::Container,
        LogFormat::Shipper,
        LogFormat::Heroku,
    ];

    /// Name in `log_destination`, or that of the envelope.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Stderr => "stderr",
            LogFormat::Csv => "csvlog",
            LogFormat::Json => "jsonlog",
            LogFormat::Syslog => "syslog",
            LogFormat::CloudWatch => "cloudwatch",
            LogFormat::CloudSql => "cloudsql",
            LogFormat::Azure => "azure",
            LogFormat::Cnpg => "cnpg",
            LogFormat::Container => "container",
            LogFormat::Shipper => "shipper",
            LogFormat::Heroku => "heroku",
        }
    }

    /// Finds the format with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Progress of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, before decompression.
    pub read_bytes: u64,
    /// Total number of bytes, if all inputs are files.
    pub total_bytes: Option<u64>,
    /// Number of events so far.
    pub events: u64,
}

/// Receives the progress, about once a MiB.
pub type OnProgress<'a> = Box<dyn FnMut(Progress) + 'a>;

/// Receives the name of a source.
pub type OnSource<'a> = Box<dyn FnMut(&str) + 'a>;

/// Options of a capture.
#[derive(Default)]
pub struct LogOptions<'a> {
    /// Inputs in any order; they are read in the order of their first times.
    pub inputs: Vec<Input>,
    /// The server's `log_line_prefix`; recognised if not given. It implies stderr, in any envelope.
    pub prefix: Option<String>,
    /// The format; recognised if not given.
    pub format: Option<LogFormat>,
    /// The server's `log_timezone`, for times whose zone the log does not tell: a name such as
    /// `Asia/Kolkata`, or an offset such as `+08`.
    pub time_zone: Option<String>,
    /// Number of cores that read each input, and size of their parts: the result does not depend on it.
    pub parallelism: Parallelism,
    /// Receives the progress.
    pub on_progress: Option<OnProgress<'a>>,
    /// Receives the name of each source when it is opened.
    pub on_source: Option<OnSource<'a>>,
    /// Follows a log that is still being written. `inputs` is ignored then.
    pub follow: Option<FollowOptions>,
}

/// Facts about one input that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceReport {
    /// Name, format and size, as in the workload.
    #[serde(flatten)]
    pub file: SourceFile,
    /// The `log_line_prefix`, for a stderr log.
    pub prefix: Option<String>,
    /// Whether the prefix was recognised rather than given.
    pub prefix_recognised: bool,
    /// Ambiguities and anomalies, each a sentence.
    pub notes: Vec<String>,
    /// Number of physical lines read.
    pub lines: u64,
    /// The first and the last time in the log, in microseconds since 1970-01-01 UTC.
    pub times_us: Option<(i64, i64)>,
    /// Damage of the compressed file. Data after it is not read.
    pub damage: Option<String>,
}

/// Result of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogReport {
    /// The inputs, in the order in which they were read. Events refer to their source by its index
    /// here, from 0.
    pub sources: Vec<SourceReport>,
    /// Account of all lines.
    #[serde(flatten)]
    pub reconciliation: Reconciliation,
    /// Number of sessions.
    #[serde(skip)]
    pub sessions: u64,
    /// Gaps, overlaps and missing files.
    pub series: SeriesReport,
    /// Files that were found and are no logs.
    pub left_out: Vec<ExcludedFile>,
    /// Suitability of the log for a replay.
    pub fitness: LogQuality,
}

/// Captures logs: reads them to their end, and pushes all events and sessions into `sink`.
///
/// # Errors
/// If an input cannot be read or is no log, or if the sink fails. Unreadable lines are no error;
/// they are in the report.
pub fn capture(options: LogOptions<'_>, sink: &mut dyn EventSink) -> Result<LogReport, LogError> {
    let (format, prefix) = (options.format, options.prefix.as_deref());
    let zone = match &options.time_zone {
        Some(name) => ZoneReading::parse(name)?,
        None => ZoneReading::default(),
    };
    let mut on_source = options.on_source;
    let mut follower = None;
    let (mut queue, left_out) = match options.follow {
        None => order_sources(&options.inputs, format, prefix, &zone)?,
        Some(follow) => {
            follower = Some(follow.begin(format, prefix, &zone)?);
            Default::default()
        }
    };
    let total_bytes = match follower {
        None => options.inputs.iter().map(Input::size).sum(),
        Some(_) => None,
    };
    let mut capture = LogCapture {
        prefix_given: prefix.is_some(),
        only_counts: sink.only_counts(),
        parallelism: options.parallelism,
        progress: ProgressReporter {
            on_progress: options.on_progress,
            total_bytes,
            read_bytes: 0,
        },
        series: Series::new(&queue),
        assembler: Assembler::new(sink),
        reports: Vec::new(),
    };
    loop {
        let next = match &mut follower {
            None => capture.series.next(&mut queue),
            Some(follower) => {
                let events = capture.assembler.account().events;
                let mut begins = |name: &str| {
                    if let Some(on_source) = &mut on_source {
                        on_source(name);
                    }
                };
                let next =
                    follower.next(&mut || capture.progress.report(0, events), &mut begins)?;
                next.map(|source| (source, SourceTurn::single()))
            }
        };
        let Some((source, turn)) = next else {
            break;
        };
        if let (None, Some(on_source)) = (&follower, &mut on_source) {
            on_source(&source.input.name());
        }
        if turn.is_of_other_server() {
            // Before the first of its events, which a series may leave out.
            capture.assembler.note_several_servers()?;
        }
        // Also before the events, since a kill can follow them.
        capture.note_possible_gaps()?;
        capture.read_source(source, turn)?;
    }
    capture.finish(left_out)
}

/// Reports the progress of a capture.
struct ProgressReporter<'a> {
    on_progress: Option<OnProgress<'a>>,
    total_bytes: Option<u64>,
    /// Number of bytes of the finished sources, before decompression.
    read_bytes: u64,
}

impl ProgressReporter<'_> {
    /// Reports `source_bytes` of the current source in addition to the finished ones.
    fn report(&mut self, source_bytes: u64, events: u64) {
        if let Some(on_progress) = &mut self.on_progress {
            on_progress(Progress {
                read_bytes: self.read_bytes + source_bytes,
                total_bytes: self.total_bytes,
                events,
            });
        }
    }
}

/// State of a capture of several sources.
struct LogCapture<'a, 's> {
    prefix_given: bool,
    only_counts: bool,
    parallelism: Parallelism,
    progress: ProgressReporter<'a>,
    series: Series,
    assembler: Assembler<'s>,
    reports: Vec<SourceReport>,
}

impl LogCapture<'_, '_> {
    /// Reads one source to its end, and adds its report.
    fn read_source(&mut self, source: Source, mut turn: SourceTurn) -> Result<(), LogError> {
        let mut report = SourceReport {
            file: SourceFile {
                name: source.input.name(),
                format: "empty".to_owned(),
                bytes: 0,
            },
            notes: source.notes,
            ..SourceReport::default()
        };
        let Some(recognised) = source.recognised else {
            self.reports.push(report);
            return Ok(());
        };
        self.describe_format(&recognised, &mut report);
        let mut window = match source.window {
            Some(window) => window,
            None => source.input.open()?,
        };
        window.set_parallelism(self.parallelism);
        if self.only_counts {
            window.disable_read_ahead();
        }
        let index = u32::try_from(self.reports.len()).expect("fewer files than that");
        let first_us = recognised.first_us;
        let lines_before = self.assembler.account().lines;
        self.assembler.activate_stream(turn.stream);
        let progress = &mut self.progress;
        let task = ReadTask {
            window: &mut window,
            source: index,
            assembler: &mut self.assembler,
            turn: &mut turn,
            on_progress: &mut |window, events| progress.report(window.raw_bytes(), events),
            to_error: &|error| LogError::Read {
                name: source.input.name(),
                error,
            },
            notes: &mut report.notes,
        };
        let last_us = read(recognised, task)?;
        self.series.end(turn, last_us);
        self.progress.read_bytes += window.raw_bytes();
        report.file.bytes = window.consumed_bytes();
        report.lines = self.assembler.account().lines - lines_before;
        report.times_us = (last_us >= first_us).then_some((first_us, last_us));
        report.damage = window.damage().map(str::to_owned);
        self.reports.push(report);
        Ok(())
    }

    /// Describes the format of a source, with notes about a prefix that no earlier source has.
    fn describe_format(&self, recognised: &RecognisedFormat, report: &mut SourceReport) {
        report.file.format = recognised.format.name().to_owned();
        if let Some(prefix) = &recognised.prefix {
            report.prefix = Some(prefix.text().to_owned());
            report.prefix_recognised = !self.prefix_given;
            let mut earlier = self.reports.iter();
            if !earlier.any(|other| other.prefix == report.prefix) {
                report.notes.extend(prefix.doubts());
            }
        }
    }

    /// Notes the times for which a file may be missing.
    fn note_possible_gaps(&mut self) -> Result<(), SinkError> {
        let gaps = self.series.possible_gaps();
        self.assembler.note_possible_gaps(&gaps)
    }

    /// Settles all sessions, and returns the report of the capture.
    fn finish(mut self, left_out: Vec<ExcludedFile>) -> Result<LogReport, LogError> {
        self.note_possible_gaps()?;
        self.series.release(&mut self.assembler)?;
        let (mut reconciliation, names_note) = self.assembler.finish()?;
        if let Some(report) = self.reports.last_mut() {
            report.notes.extend(names_note);
        }
        self.progress.report(0, reconciliation.events);
        let sessions = reconciliation.tallies.sessions;
        let prefixes = self
            .reports
            .iter()
            .filter_map(|report| report.prefix.clone());
        reconciliation.tallies.prefixes = prefixes.collect();
        debug_assert!(reconciliation.adds_up());
        for line in &mut reconciliation.unreadable.first {
            line.file
                .clone_from(&self.reports[line.at.source as usize].file.name);
        }
        Ok(LogReport {
            sources: self.reports,
            fitness: LogQuality::judge(&reconciliation),
            reconciliation,
            sessions,
            series: self.series.finish(),
            left_out,
        })
    }
}

/// Captures bytes in memory: for tests, fuzzing and benchmarks.
///
/// # Errors
/// As [`capture`].
pub fn capture_bytes(
    bytes: impl AsRef<[u8]> + 'static,
    format: Option<LogFormat>,
    prefix: Option<&str>,
    sink: &mut dyn EventSink,
) -> Result<LogReport, LogError> {
    capture_window(bytes, Window::from_bytes, format, prefix, sink)
}

/// Captures bytes in memory as if they were a file that several threads read.
///
/// # Errors
/// As [`capture`].
pub fn capture_bytes_in_parallel(
    bytes: impl AsRef<[u8]> + Send + 'static,
    format: Option<LogFormat>,
    prefix: Option<&str>,
    parallelism: Parallelism,
    sink: &mut dyn EventSink,
) -> Result<LogReport, LogError> {
    let open = |bytes| Window::from_bytes_ahead(bytes, parallelism);
    capture_window(bytes, open, format, prefix, sink)
}

fn capture_window<B: AsRef<[u8]>>(
    bytes: B,
    open: impl FnOnce(B) -> Window,
    format: Option<LogFormat>,
    prefix: Option<&str>,
    sink: &mut dyn EventSink,
) -> Result<LogReport, LogError> {
    let mut recognised = recognise("-", bytes.as_ref(), format, prefix)?;
    let given = ZoneReading::default();
    let notes = resolve_zones(&mut recognised, &given, bytes.as_ref(), true);
    let mut report = SourceReport {
        file: SourceFile {
            name: "-".to_owned(),
            format: recognised.format.name().to_owned(),
            bytes: bytes.as_ref().len() as u64,
        },
        prefix: recognised
            .prefix
            .as_ref()
            .map(|prefix| prefix.text().to_owned()),
        prefix_recognised: prefix.is_none(),
        notes,
        ..SourceReport::default()
    };
    let mut assembler = Assembler::new(sink);
    let task = ReadTask {
        window: &mut open(bytes),
        source: 0,
        assembler: &mut assembler,
        turn: &mut SourceTurn::single(),
        on_progress: &mut |_, _| (),
        to_error: &|error| LogError::Read {
            name: "-".to_owned(),
            error,
        },
        notes: &mut report.notes,
    };
    read(recognised, task)?;
    let (mut reconciliation, names_note) = assembler.finish()?;
    report.notes.extend(names_note);
    let sessions = reconciliation.tallies.sessions;
    reconciliation.tallies.prefixes = report.prefix.iter().cloned().collect();
    Ok(LogReport {
        sources: vec![report],
        fitness: LogQuality::judge(&reconciliation),
        reconciliation,
        sessions,
        series: SeriesReport::default(),
        left_out: Vec::new(),
    })
}
