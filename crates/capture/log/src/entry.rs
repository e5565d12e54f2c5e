//! Defines one report of the server, independent of the log's format.

use workload::Sqlstate;

use super::byte_search::parse_number;
use super::parse_ahead::ChunkParser;
use super::prefix::{Fields, LineMatch, Prefix};
use super::reconcile::Location;
use super::severity::{Label, Severity};
use super::text::Text;
use super::timestamp::TimestampParser;
use super::zones::ZoneReading;

/// Kind of the process that wrote an entry, as far as the log says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Backend {
    /// A client's backend, or unknown.
    #[default]
    Client,
    /// A replication connection.
    Walsender,
    /// A worker process of a parallel query.
    ParallelWorker,
    /// A process of the server itself.
    Background,
}

impl Backend {
    /// Reads `%b` or the column `backend_type`.
    pub(super) fn parse(name: &str) -> Self {
        match name {
            "" | "client backend" | "not initialized" => Backend::Client,
            "walsender" => Backend::Walsender,
            "parallel worker" => Backend::ParallelWorker,
            _ => Backend::Background,
        }
    }
}

/// Client and session names of an entry. Each may be empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SessionNames<'a> {
    pub user: &'a str,
    pub database: &'a str,
    pub application: &'a str,
    /// The client's address and port.
    pub client: (&'a str, &'a str),
}

impl<'a> SessionNames<'a> {
    pub(super) fn in_line(text: &'a str, fields: &Fields) -> Self {
        SessionNames {
            user: fields.user.of(text),
            database: fields.database.of(text),
            application: fields.application.of(text),
            client: (fields.host.of(text), fields.port.of(text)),
        }
    }
}

/// One of several readings of an entry's beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading<'a> {
    pub pid: u32,
    pub started: u64,
    pub line_number: u64,
    /// It is that of a process without a client.
    pub quit: bool,
    pub names: SessionNames<'a>,
    pub label: Label,
    /// Start of the label.
    pub label_at: usize,
    /// The text after the label.
    pub message: &'a str,
}

/// The names, or where they are: nearly no entry needs them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SessionIdentity<'a> {
    Named(SessionNames<'a>),
    /// The names of an entry that is kept, and the ways to split them into user and database.
    Kept(SessionNames<'a>, &'a [(String, String)]),
    InLine {
        text: &'a str,
        matched: &'a LineMatch,
        prefix: &'a Prefix,
    },
}

impl<'a> SessionIdentity<'a> {
    /// Returns the ways to split the text of the prefix into user and database.
    #[cold]
    pub(super) fn splits(&self) -> Vec<(&'a str, &'a str)> {
        let (text, matched, prefix) = match *self {
            SessionIdentity::Named(names) => return vec![(names.user, names.database)],
            SessionIdentity::Kept(_, splits) => {
                let splits = splits.iter();
                return splits
                    .map(|(user, database)| (user.as_str(), database.as_str()))
                    .collect();
            }
            SessionIdentity::InLine {
                text,
                matched,
                prefix,
            } => (text, matched, prefix),
        };
        let names = |fields: &Fields| (fields.user.of(text), fields.database.of(text));
        let mut splits = vec![names(&matched.fields)];
        let mut times = TimestampParser::default();
        let found = prefix.readings(text.as_bytes(), &mut times);
        for reading in found.unwrap_or_default() {
            let names = names(&reading.fields);
            if reading.label_at == matched.label_at && !splits.contains(&names) {
                splits.push(names);
            }
        }
        splits
    }

    pub(super) fn names(&self) -> SessionNames<'a> {
        match *self {
            SessionIdentity::Named(names) | SessionIdentity::Kept(names, _) => names,
            SessionIdentity::InLine { text, matched, .. } => {
                SessionNames::in_line(text, &matched.fields)
            }
        }
    }
}

/// One report of the server. Borrows from the buffer that it was read into; empty text means
/// absent. All its text is valid UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry<'a> {
    /// Time of writing, in microseconds since 1970-01-01 UTC.
    pub wall_us: i64,
    /// Process number.
    pub pid: u32,
    /// Start time of the process from `%c`, in seconds; 0 if the log does not say.
    pub started: u64,
    /// Line number within the session (`%l`); 0 if the log does not say.
    pub line_number: u64,
    pub backend: Backend,
    pub who: SessionIdentity<'a>,
    pub severity: Severity,
    pub sqlstate: Option<Sqlstate>,
    pub message: &'a str,
    pub detail: &'a str,
    pub context: &'a str,
    pub statement: &'a str,
    /// Local number of the virtual transaction (`%v`): 0 if none is open, or if the log does not say.
    pub transaction: u64,
    /// The error points at a position in the statement.
    pub positioned: bool,
    /// The log holds only a part of its text.
    pub cut: bool,
    pub place: Location,
    /// Number of physical lines.
    pub lines: u64,
}

/// Result of a reader for the start of the bytes it was given.
#[derive(Debug, PartialEq)]
pub(super) enum ReadResult<'a> {
    /// The bytes end too early to decide; the reader is called again with more.
    More,
    /// An entry.
    Entry(Entry<'a>),
    /// The start has several readings, which end at different labels. No bytes are consumed; the
    /// reader is called again after [`Reader::settle`].
    Ambiguous(Vec<Reading<'a>>),
    /// Lines of no use, with the reason.
    Skipped {
        lines: u64,
        reason: super::SkipReason,
    },
    /// A line that belongs to an entry of that process but does not follow it.
    Detached {
        pid: u32,
        /// Shows that the entry was written by RAISE in a statement.
        betrays: bool,
        lines: u64,
    },
    /// Lines that cannot be read.
    Unreadable {
        lines: u64,
        reason: super::UnreadableReason,
    },
    /// Bytes that are consumed and whose lines are reported later: the parts of a message may be
    /// interleaved with those of others. The last bytes of an input are never held.
    Held,
    /// Lines that are not at the start of the bytes; never an entry, which has its own place.
    Elsewhere {
        place: Location,
        /// The beginning of the lines.
        excerpt: &'a [u8],
        what: Box<ReadResult<'a>>,
    },
}

/// A reader of one format. It is given the text from the end of the previous find and keeps none of
/// it.
pub(super) trait Reader {
    /// Returns whether incomplete bytes may be passed as complete when a followed log falls idle,
    /// and again later with more bytes after them. False for a reader that reassembles parts.
    fn supports_idle(&self) -> bool {
        true
    }

    /// Returns whether quotes hold newlines, so that a line may begin within a quoted text.
    fn has_quotes(&self) -> bool {
        false
    }

    /// Examines the start of `text`, which is the start of physical line `place.line` and never
    /// empty. `complete` says that no more bytes follow. Returns the find and the number of bytes
    /// consumed. That number is at least 1, except for [`ReadResult::More`], which is never returned
    /// when `complete`, and for finds that were [`ReadResult::Held`] before.
    fn next<'a>(
        &'a mut self,
        text: Text<'a>,
        complete: bool,
        place: Location,
    ) -> (ReadResult<'a>, usize);

    /// The parser of its times.
    fn times(&self) -> &TimestampParser;

    /// Reads time zones as `reading` says.
    fn set_zones(&mut self, reading: &ZoneReading);

    /// Declares that the log is still being written.
    fn set_followed(&mut self) {}

    /// Chooses among the readings that [`ReadResult::Ambiguous`] listed; without a choice the lines
    /// are skipped.
    fn settle(&mut self, _choice: Option<usize>) {}

    /// Notes for the user about the input, once it is read; each a sentence.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Number of changes so far of the facts that the next result depends on, in addition to its bytes.
    /// `None` if it depends on the result before.
    fn version(&mut self) -> Option<u64> {
        None
    }

    /// Creates a parser for other threads; see [`super::parse_ahead`].
    fn to_parser(&mut self) -> Option<Box<dyn ChunkParser>> {
        None
    }

    /// Continues after an entry that another thread has parsed. Returns the prefix of its lines.
    fn pass_parsed(&mut self) -> Option<&Prefix> {
        None
    }
}

/// Finds the end of the physical line that starts at `from`, after its newline.
#[inline]
pub(super) fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at + 1)
}

/// Removes the newline from a line, and a carriage return before it.
#[inline]
pub(super) fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Parses the local number of a virtual transaction, `BACKEND/NUMBER`; 0 if there is none.
#[inline]
pub(super) fn parse_virtual_transaction(text: &str) -> u64 {
    let number = text
        .split_once('/')
        .and_then(|(_, number)| parse_number(number.as_bytes()));
    number.map_or(0, |(number, _)| number)
}

/// Splits `host:port` as csvlog writes it; `[local]` has no port.
pub(super) fn split_host_and_port(text: &str) -> (&str, &str) {
    match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (text, ""),
    }
}
