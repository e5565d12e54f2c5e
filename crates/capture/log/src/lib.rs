//! Server logs: stderr with any `log_line_prefix`, csvlog and jsonlog, as files or in what syslog,
//! clouds and operators wrap them in, plain or compressed.
//!
//! ```text
//! input ─► window of bytes ─► reader (stderr, csv, json, wrapped) ─► entry ─► assembler ─► sink
//!              recognise ───────┘ prefix, timestamp        message, statement,      events,
//!                                                          parameters               sessions
//! ```
//!
//! Who drives: [`capture`] pulls bytes, has the format's reader find one entry at a time in them,
//! and hands it to the assembler, which pushes events into the sink. Every physical line ends in the
//! [`Reconciliation`]: in an event, skipped with a reason, or unreadable. Memory is one window (it
//! grows for an entry that does not fit) and the sessions that may still go on.
//!
//! Several files are read one after the other, in the order of their first times; sessions go on
//! from one to the next, whatever their formats ([`series`] says what happens where they overlap).
//! A log that is still being written is read by [`follow`], until it is told to stop.
//!
//! Deliberately absent: sorting events by time (the writer does), and any guess of what a log does
//! not say. Wrappers of clouds and syslog are further readers ([`wrapped`]), not further cases in
//! these.

mod assemble;
mod csv;
mod entry;
mod error;
mod fitness;
mod follow;
mod input;
mod json;
mod message;
mod parameters;
mod prefix;
mod read_ahead;
mod reading;
mod recognise;
mod reconcile;
mod scan;
mod selection;
mod series;
mod server_event;
pub mod settings;
mod severity;
mod sources;
mod statement;
mod stderr;
mod stem;
mod tallies;
mod text;
mod timestamp;
mod wrapped;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::SourceFile;

use assemble::Assembler;
use capture_sink::EventSink;
use input::Window;
use reading::{Reading, read};
use recognise::recognise;
use series::{Series, Turn};
use sources::order;

pub use error::LogError;
pub use fitness::{Advice, Extent, Finding, Fitness, Use, Uses};
pub use follow::Follow;
pub use input::Input;
pub use parameters::{ParametersError, parse_parameters};
pub use reconcile::{
    Location, Reconciliation, SkipReason, Skipped, UNREADABLE_KEPT_MAX, Unreadable, UnreadableLine,
    UnreadableReason,
};
pub use selection::{LeftOut, Selection, select};
pub use series::{Gap, Overlap, SeriesReport};
pub use tallies::Tallies;

/// A format of logs.
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
    /// stderr's lines in syslog's, or as `journalctl` prints them.
    Syslog,
    /// Amazon CloudWatch Logs, as RDS and Aurora write to it.
    CloudWatch,
    /// Google Cloud Logging, as Cloud SQL and AlloyDB write to it.
    CloudSql,
    /// Azure's diagnostic settings.
    Azure,
    /// CloudNativePG's JSON lines.
    Cnpg,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [LogFormat; 8] = [
        LogFormat::Stderr,
        LogFormat::Csv,
        LogFormat::Json,
        LogFormat::Syslog,
        LogFormat::CloudWatch,
        LogFormat::CloudSql,
        LogFormat::Azure,
        LogFormat::Cnpg,
    ];

    /// The name that `log_destination` has for it, or that of the wrapper.
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
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// How far the reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, before decompression.
    pub read_bytes: u64,
    /// Of how many, where all inputs are files.
    pub total_bytes: Option<u64>,
    /// Events so far.
    pub events: u64,
}

/// Told how far the reading is, about once a MiB.
pub type OnProgress<'a> = Box<dyn FnMut(Progress) + 'a>;

/// Told a name.
pub type OnSource<'a> = Box<dyn FnMut(&str) + 'a>;

/// What to read, and how.
#[derive(Default)]
pub struct LogOptions<'a> {
    /// In any order: they are read in the order of their first times.
    pub inputs: Vec<Input>,
    /// The server's `log_line_prefix`; recognised where it is not given. It means stderr, in
    /// whatever wrapper.
    pub prefix: Option<String>,
    /// The format; recognised where it is not given.
    pub format: Option<LogFormat>,
    /// Told how far the reading is.
    pub on_progress: Option<OnProgress<'a>>,
    /// Told each file that is followed.
    pub on_source: Option<OnSource<'a>>,
    /// Read on in a log that is still being written. `inputs` is not used then.
    pub follow: Option<Follow>,
}

/// One input, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceReport {
    /// Name, format and size, as the workload keeps them.
    #[serde(flatten)]
    pub file: SourceFile,
    /// The `log_line_prefix`, for a stderr log.
    pub prefix: Option<String>,
    /// The prefix was recognised, not given.
    pub prefix_recognised: bool,
    /// What could not be told apart or is odd, each a sentence.
    pub notes: Vec<String>,
    /// Physical lines read of it.
    pub lines: u64,
    /// The first and the last time in it, in microseconds since 1970-01-01 UTC.
    pub times_us: Option<(i64, i64)>,
    /// What was wrong with the compressed file. What stands behind that place is not read.
    pub damage: Option<String>,
}

/// What a capture read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogReport {
    /// The inputs, in the order in which they were read. Events name their source by its place here, from 0.
    pub sources: Vec<SourceReport>,
    /// Where every line went.
    #[serde(flatten)]
    pub reconciliation: Reconciliation,
    /// Sessions met.
    #[serde(skip)]
    pub sessions: u64,
    /// How the files fit together.
    pub series: SeriesReport,
    /// Files that were found and are no logs.
    pub left_out: Vec<LeftOut>,
    /// Suitability of the log for a replay.
    pub fitness: Fitness,
}

/// Captures logs: reads them to their end, and pushes all events and sessions into `sink`.
///
/// # Errors
/// Where an input cannot be read or is no log, or where the sink refuses. Lines that cannot be
/// read are no error; they are in the report.
pub fn capture(options: LogOptions<'_>, sink: &mut dyn EventSink) -> Result<LogReport, LogError> {
    let (mut on_progress, mut on_source) = (options.on_progress, options.on_source);
    let (format, prefix) = (options.format, options.prefix.as_deref());
    let mut following = None;
    let (mut queue, left_out) = match options.follow {
        None => order(&options.inputs, format, prefix)?,
        Some(follow) => {
            following = Some(follow.begin(format, prefix)?);
            Default::default()
        }
    };
    let total_bytes = match following {
        None => options.inputs.iter().map(Input::size).sum(),
        Some(_) => None,
    };
    let only_counts = sink.only_counts();
    let mut series = Series::new(&queue);
    let mut assembler = Assembler::new(sink);
    let mut reports: Vec<SourceReport> = Vec::new();
    let mut raw_bytes = 0;
    loop {
        let next = match &mut following {
            None => series.next(&mut queue),
            Some(following) => {
                let mut told = |events| {
                    if let Some(on_progress) = &mut on_progress {
                        on_progress(Progress {
                            read_bytes: raw_bytes,
                            total_bytes,
                            events,
                        });
                    }
                };
                let events = assembler.account().events;
                let mut begins = |name: &str| {
                    if let Some(on_source) = &mut on_source {
                        on_source(name);
                    }
                };
                let next = following.next(&mut || told(events), &mut begins)?;
                next.map(|source| (source, Turn::alone()))
            }
        };
        let Some((source, mut turn)) = next else {
            break;
        };
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
            reports.push(report);
            continue;
        };
        report.file.format = recognised.format.name().to_owned();
        if let Some(prefix) = &recognised.prefix {
            report.prefix = Some(prefix.text().to_owned());
            report.prefix_recognised = options.prefix.is_none();
            let known = reports.iter().any(|other| other.prefix == report.prefix);
            if !known {
                report.notes.extend(prefix.doubts());
            }
        }
        let mut window = match source.window {
            Some(window) => window,
            None => source.input.open()?,
        };
        if only_counts {
            window.read_alone();
        }
        let index = u32::try_from(reports.len()).expect("fewer files than that");
        let mut told = |window: &Window, events: u64| {
            if let Some(on_progress) = &mut on_progress {
                on_progress(Progress {
                    read_bytes: raw_bytes + window.raw_bytes(),
                    total_bytes,
                    events,
                });
            }
        };
        let first_us = recognised.first_us;
        let failed = |error| LogError::Read {
            name: source.input.name(),
            error,
        };
        let lines_before = assembler.account().lines;
        assembler.turn_to(turn.lane);
        let reading = Reading {
            window: &mut window,
            source: index,
            assembler: &mut assembler,
            turn: &mut turn,
            told: &mut told,
            failed: &failed,
            notes: &mut report.notes,
        };
        let last_us = read(recognised, reading)?;
        series.end(turn, last_us);
        raw_bytes += window.raw_bytes();
        report.file.bytes = window.taken_bytes();
        report.lines = assembler.account().lines - lines_before;
        report.times_us = (last_us >= first_us).then_some((first_us, last_us));
        report.damage = window.damage().map(str::to_owned);
        reports.push(report);
    }
    series.release(&mut assembler)?;
    let sessions = assembler.sessions();
    let mut reconciliation = assembler.finish()?;
    let prefixes = reports.iter().filter_map(|report| report.prefix.clone());
    reconciliation.tallies.prefixes = prefixes.collect();
    debug_assert!(reconciliation.adds_up());
    for line in &mut reconciliation.unreadable.first {
        line.file
            .clone_from(&reports[line.at.source as usize].file.name);
    }
    Ok(LogReport {
        sources: reports,
        fitness: Fitness::judge(&reconciliation),
        reconciliation,
        sessions,
        series: series.finish(),
        left_out,
    })
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
    let recognised = recognise("-", bytes.as_ref(), format, prefix)?;
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
        ..SourceReport::default()
    };
    let mut assembler = Assembler::new(sink);
    let failed = |error| LogError::Read {
        name: "-".to_owned(),
        error,
    };
    let reading = Reading {
        window: &mut Window::on(bytes),
        source: 0,
        assembler: &mut assembler,
        turn: &mut Turn::alone(),
        told: &mut |_, _| (),
        failed: &failed,
        notes: &mut report.notes,
    };
    read(recognised, reading)?;
    let sessions = assembler.sessions();
    let mut reconciliation = assembler.finish()?;
    reconciliation.tallies.prefixes = report.prefix.iter().cloned().collect();
    Ok(LogReport {
        sources: vec![report],
        fitness: Fitness::judge(&reconciliation),
        reconciliation,
        sessions,
        series: SeriesReport::default(),
        left_out: Vec::new(),
    })
}
