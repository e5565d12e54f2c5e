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
//! from one to the next, whatever their formats.
//!
//! Deliberately absent: sorting events by time (the writer does), and any guess of what a log does
//! not say. Wrappers of clouds and syslog are further readers ([`wrapped`]), not further cases in
//! these.

mod assemble;
mod csv;
mod entry;
mod error;
mod fitness;
mod input;
mod json;
mod lines;
mod message;
mod parameters;
mod prefix;
mod recognise;
mod reconcile;
mod scan;
mod severity;
mod statement;
mod stderr;
mod tallies;
mod timestamp;
mod wrapped;

use serde::{Deserialize, Serialize};
use workload::SourceFile;

use crate::sink::EventSink;
use assemble::Assembler;
use csv::CsvReader;
use entry::{Found, Place, Reader};
use input::Window;
use json::JsonReader;
use recognise::{Recognised, recognise};
use stderr::StderrReader;
use wrapped::{CnpgReader, WrappedReader};

pub use error::LogError;
pub use fitness::{Advice, Extent, Finding, Fitness, Use, Uses};
pub use input::Input;
pub use parameters::{ParametersError, parse_parameters};
pub use reconcile::{
    Location, Reconciliation, SkipReason, Skipped, UNREADABLE_KEPT_MAX, Unreadable, UnreadableLine,
    UnreadableReason,
};
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
}

/// One input, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Name, format and size, as the workload keeps them.
    pub file: SourceFile,
    /// The `log_line_prefix`, for a stderr log.
    pub prefix: Option<String>,
    /// The prefix was recognised, not given.
    pub prefix_recognised: bool,
    /// What could not be told apart or is odd, each a sentence.
    pub notes: Vec<String>,
}

/// What a capture read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogReport {
    /// The inputs, in the order in which they were read; [`workload::Event::source`] is an index.
    pub sources: Vec<SourceReport>,
    /// Where every line went.
    pub reconciliation: Reconciliation,
    /// Sessions met.
    pub sessions: u64,
}

/// Captures logs: reads them to their end, and pushes all events and sessions into `sink`.
///
/// # Errors
/// Where an input cannot be read or is no log, or where the sink refuses. Lines that cannot be
/// read are no error; they are in the report.
pub fn capture(options: LogOptions<'_>, sink: &mut dyn EventSink) -> Result<LogReport, LogError> {
    let total_bytes = options.inputs.iter().map(Input::size).sum();
    let mut on_progress = options.on_progress;
    let sources = order(&options.inputs, options.format, options.prefix.as_deref())?;
    let mut assembler = Assembler::new(sink);
    let mut reports: Vec<SourceReport> = Vec::new();
    let (mut raw_bytes, mut last_us) = (0, i64::MIN);
    for source in sources {
        let mut report = SourceReport {
            file: SourceFile {
                name: source.input.name(),
                format: "empty".to_owned(),
                bytes: 0,
            },
            ..SourceReport::default()
        };
        let Some(recognised) = source.recognised else {
            report.notes.push("it is empty".to_owned());
            reports.push(report);
            continue;
        };
        report.file.format = recognised.format.name().to_owned();
        if recognised.first_us < last_us {
            report.notes.push(
                "it begins before the file read before it ends: if both have the same lines, they count twice"
                    .to_owned(),
            );
        }
        if let Some(prefix) = &recognised.prefix {
            report.prefix = Some(prefix.text().to_owned());
            report.prefix_recognised = options.prefix.is_none();
            report.notes.extend(prefix.doubts());
        }
        let mut window = match source.window {
            Some(window) => window,
            None => source.input.open()?,
        };
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
        let failed = |error| LogError::Read {
            name: source.input.name(),
            error,
        };
        last_us = last_us.max(read(
            &mut window,
            recognised,
            index,
            &mut assembler,
            &mut told,
            &failed,
            &mut report.notes,
        )?);
        raw_bytes += window.raw_bytes();
        report.file.bytes = window.taken_bytes();
        reports.push(report);
    }
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
        reconciliation,
        sessions,
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
        notes: Vec::new(),
    };
    let mut assembler = Assembler::new(sink);
    let failed = |error| LogError::Read {
        name: "-".to_owned(),
        error,
    };
    read(
        &mut Window::on(bytes),
        recognised,
        0,
        &mut assembler,
        &mut |_, _| (),
        &failed,
        &mut report.notes,
    )?;
    let sessions = assembler.sessions();
    let mut reconciliation = assembler.finish()?;
    reconciliation.tallies.prefixes = report.prefix.iter().cloned().collect();
    Ok(LogReport {
        sources: vec![report],
        reconciliation,
        sessions,
    })
}

/// One input before it is read.
struct Source {
    input: Input,
    /// `None` where it is empty.
    recognised: Option<Recognised>,
    /// Standard input cannot be opened again.
    window: Option<Window>,
}

/// Looks at all inputs, and puts them in the order of their first times.
fn order(
    inputs: &[Input],
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<Vec<Source>, LogError> {
    let mut sources = Vec::new();
    for input in inputs {
        let mut window = input.open()?;
        window.more().map_err(|error| LogError::Read {
            name: input.name(),
            error,
        })?;
        let recognised = match window.bytes() {
            [] => None,
            sample => {
                Some(recognise(&input.name(), sample, format, prefix)?.dated(input.modified_us()))
            }
        };
        sources.push(Source {
            input: input.clone(),
            recognised,
            // Others are opened again at their turn, so that a thousand files do not hold a
            // thousand windows.
            window: (*input == Input::Stdin).then_some(window),
        });
    }
    let Some(first) = sources.first() else {
        return Err(LogError::NoInput);
    };
    if sources.iter().all(|source| source.recognised.is_none()) {
        return Err(LogError::Empty {
            name: first.input.name(),
        });
    }
    sources.sort_by_key(|source| {
        source
            .recognised
            .as_ref()
            .map(|recognised| recognised.first_us)
    });
    Ok(sources)
}

/// Accounts for lines that do not stand at the start of the window.
fn apart(what: Found<'_>, place: Place, excerpt: &[u8], assembler: &mut Assembler<'_>) -> u64 {
    match what {
        Found::Skipped { lines, reason } => {
            assembler.account().skip(reason, lines, place);
            lines
        }
        Found::Detached {
            pid,
            betrays,
            lines,
        } => {
            assembler.detached(pid, betrays, lines, place);
            lines
        }
        Found::Unreadable { lines, reason } => {
            let account = assembler.account();
            account.unreadable(reason, lines, place, excerpt);
            lines
        }
        Found::More | Found::Held | Found::Entry(_) | Found::Apart { .. } => {
            unreachable!("these have a place, or none at all")
        }
    }
}

/// Reads one input to its end; returns its last time.
fn read(
    window: &mut Window,
    recognised: Recognised,
    source: u32,
    assembler: &mut Assembler<'_>,
    told: &mut dyn FnMut(&Window, u64),
    failed: &dyn Fn(std::io::Error) -> LogError,
    notes: &mut Vec<String>,
) -> Result<i64, LogError> {
    // The loop is compiled for each reader: a call through a table would copy every entry.
    match (recognised.format, recognised.prefix) {
        (LogFormat::Csv, _) => {
            let reader = CsvReader::default();
            read_with(reader, window, source, assembler, told, failed, notes)
        }
        (LogFormat::Json, _) => {
            let reader = JsonReader::default();
            read_with(reader, window, source, assembler, told, failed, notes)
        }
        (LogFormat::Stderr, prefix) => {
            let prefix = prefix.expect("a stderr log is recognised by its prefix");
            let reader = StderrReader::new(prefix);
            read_with(reader, window, source, assembler, told, failed, notes)
        }
        (LogFormat::Cnpg, _) => {
            let reader = CnpgReader::of(recognised.wrapper.server);
            read_with(reader, window, source, assembler, told, failed, notes)
        }
        (_, prefix) => {
            let prefix = prefix.expect("what wraps a stderr log is recognised by its prefix");
            let reader = WrappedReader::new(recognised.wrapper, prefix);
            read_with(reader, window, source, assembler, told, failed, notes)
        }
    }
}

#[inline(never)]
fn read_with(
    mut reader: impl Reader,
    window: &mut Window,
    source: u32,
    assembler: &mut Assembler<'_>,
    told: &mut dyn FnMut(&Window, u64),
    failed: &dyn Fn(std::io::Error) -> LogError,
    notes: &mut Vec<String>,
) -> Result<i64, LogError> {
    let mut place = Place { source, line: 1 };
    let mut last_us = i64::MIN;
    loop {
        if window.bytes().is_empty() {
            if window.ended() {
                notes.extend(reader.notes());
                return Ok(last_us);
            }
            window.more().map_err(failed)?;
            told(window, assembler.account().events);
            continue;
        }
        let (found, length) = reader.next(window.bytes(), window.ended(), place);
        let lines = match found {
            Found::More => {
                window.more().map_err(failed)?;
                told(window, assembler.account().events);
                continue;
            }
            Found::Held => 0,
            Found::Apart {
                place,
                excerpt,
                what,
            } => apart(*what, place, excerpt, assembler),
            Found::Entry(entry) => {
                last_us = last_us.max(entry.wall_us);
                assembler.entry(&entry)?;
                entry.lines
            }
            Found::Skipped { lines, reason } => {
                assembler.account().skip(reason, lines, place);
                lines
            }
            Found::Detached {
                pid,
                betrays,
                lines,
            } => {
                assembler.detached(pid, betrays, lines, place);
                lines
            }
            Found::Unreadable { lines, reason } => {
                let bytes = &window.bytes()[..length];
                assembler.account().unreadable(reason, lines, place, bytes);
                lines
            }
        };
        assembler.account().lines += lines;
        place.line += lines;
        window.take(length);
    }
}
