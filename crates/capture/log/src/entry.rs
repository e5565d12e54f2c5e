//! One report of the server's, whatever the format it was written in.

use workload::Sqlstate;

use super::prefix::Fields;
use super::severity::Severity;
use super::text::Text;

/// Where something stands: which of the sources, and the physical line from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub source: u32,
    pub line: u64,
}

/// Whose process wrote an entry, as far as the log says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Backend {
    /// A client's, or the log does not say.
    #[default]
    Client,
    /// A replication connection.
    Walsender,
    /// A helper of a query that runs in another process.
    ParallelWorker,
    /// The server's own.
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

/// Whose session a process is, as far as an entry says. Each may be empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Names<'a> {
    pub user: &'a str,
    pub database: &'a str,
    pub application: &'a str,
    /// The client's address and port.
    pub client: (&'a str, &'a str),
}

/// The names, or where they stand: of nearly all entries nobody asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Who<'a> {
    Named(Names<'a>),
    InLine { text: &'a str, fields: &'a Fields },
}

impl<'a> Who<'a> {
    pub(super) fn names(&self) -> Names<'a> {
        match *self {
            Who::Named(names) => names,
            Who::InLine { text, fields } => Names {
                user: fields.user.of(text),
                database: fields.database.of(text),
                application: fields.application.of(text),
                client: (fields.host.of(text), fields.port.of(text)),
            },
        }
    }
}

/// One report of the server's. Borrows from the buffer that it was read into; empty text is
/// "not there". All its text is known to be UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry<'a> {
    /// When it was written, in microseconds since 1970-01-01 UTC.
    pub wall_us: i64,
    /// The process.
    pub pid: u32,
    /// When the process started, from `%c`, in seconds; 0 where the log does not say.
    pub started: u64,
    /// `%l`: counts within the session; 0 where the log does not say.
    pub line_number: u64,
    pub backend: Backend,
    pub who: Who<'a>,
    pub severity: Severity,
    pub sqlstate: Option<Sqlstate>,
    pub message: &'a str,
    pub detail: &'a str,
    pub context: &'a str,
    pub statement: &'a str,
    /// The error points at a place in the statement.
    pub positioned: bool,
    pub place: Place,
    /// How many physical lines it takes.
    pub lines: u64,
}

/// What a reader found at the start of the bytes it was given.
#[derive(Debug, PartialEq)]
pub(super) enum Found<'a> {
    /// The bytes end before it can be told; asked again with more.
    More,
    /// An entry.
    Entry(Entry<'a>),
    /// Lines that are of no use, with the reason.
    Skipped {
        lines: u64,
        reason: super::SkipReason,
    },
    /// A line that belongs to an entry of that process, but does not follow it.
    Detached {
        pid: u32,
        /// It shows that the entry came from a statement's own RAISE.
        betrays: bool,
        lines: u64,
    },
    /// Lines that cannot be read.
    Unreadable {
        lines: u64,
        reason: super::UnreadableReason,
    },
    /// Bytes that are taken, and whose lines are told later: a message is cut into parts, and
    /// others' stand between them. The last bytes of an input are never held.
    Held,
    /// What does not stand at the start of the bytes; never an entry, which has a place of its own.
    Apart {
        place: Place,
        /// Its beginning.
        excerpt: &'a [u8],
        what: Box<Found<'a>>,
    },
}

/// A format's reader. It is given the text from where the last find ended, and never holds any.
pub(super) trait Reader {
    /// Whether bytes may be called complete that are not, when a log that is followed falls silent,
    /// and be given again with more behind them. Not where a reader gathers what is cut into parts.
    fn settles(&self) -> bool {
        true
    }

    /// Looks at the start of `text`, which is the start of physical line `place.line`, and never
    /// empty. `complete` says that no more bytes follow. Returns what was found and how many bytes
    /// it takes; at least 1, except for [`Found::More`], which is never returned when `complete`,
    /// and for what was [`Found::Held`] before.
    fn next<'a>(&'a mut self, text: Text<'a>, complete: bool, place: Place) -> (Found<'a>, usize);

    /// What the user should know of the input, once it is read; each a sentence.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The end of the physical line that starts at `from`, behind its newline.
#[inline]
pub(super) fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at + 1)
}

/// A line without its newline, and without a carriage return before it.
#[inline]
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Reads `%c`: the process's start in hexadecimal seconds, and its number.
#[inline]
pub(super) fn session_id(text: &[u8]) -> Option<(u64, u32, usize)> {
    let mut at = 0;
    let mut hex = || {
        let (mut value, start) = (0u64, at);
        while let Some(byte) = text.get(at) {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ => break,
            };
            if at - start == 15 {
                return None;
            }
            value = value << 4 | u64::from(digit);
            at += 1;
        }
        let any = at > start;
        at += 1;
        any.then_some((value, at - 1))
    };
    let (started, dot) = hex()?;
    if text.get(dot) != Some(&b'.') {
        return None;
    }
    let (pid, end) = hex()?;
    Some((started, u32::try_from(pid).ok()?, end))
}

/// Cuts `host:port` as csvlog writes it; `[local]` has no port.
pub(super) fn host_and_port(text: &str) -> (&str, &str) {
    match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (text, ""),
    }
}
