//! Parses the entries of a chunk before the chunks before it are assembled.
//!
//! Which lines begin an entry follows from all bytes before them. A parser of a chunk does not know
//! those: it tries each line, from the first one that begins in the chunk. The results are only
//! remembered, each with the position of its first byte. The loop that reads the input uses one when
//! it arrives at that position, in place of calling its own reader. So a result for a line within an
//! entry is never used, and an entry without a result is read as if there were no other thread.
//!
//! A result depends on the bytes from its position on and on a few facts that the reader has learnt
//! before, such as the time zone and a changed prefix. [`Reader::version`] counts their changes. A
//! result is used only if the reader's version is that of the parser. The parser remembers no result
//! that depends on anything else, such as bytes after the chunk.

use super::entry::{Backend, Entry, ReadResult, Reader, SessionIdentity, SessionNames};
use super::prefix::{LineMatch, Prefix};
use super::reconcile::Location;
use super::severity::Severity;
use super::text::{Buffer, Text};
use workload::Sqlstate;

/// Number of results in a chunk that are no entries, after which the rest of the chunk is left to the
/// loop. A hostile text in quotes can have many lines that look like the beginning of an entry.
const OTHERS_MAX: u32 = 1_024;

/// Bit of a range's start that says that the text is a decoded one.
const DECODED: u32 = 1 << 31;

/// A range of an entry's bytes, or of the decoded texts.
#[derive(Debug, Clone, Copy, Default)]
struct TextRange {
    start: u32,
    end: u32,
}

/// The ranges of [`SessionNames`].
#[derive(Debug, Clone, Copy)]
struct NameRanges {
    user: TextRange,
    database: TextRange,
    application: TextRange,
    client: (TextRange, TextRange),
}

impl NameRanges {
    fn of<'a>(self, whole: &'a str, decoded: &'a str) -> SessionNames<'a> {
        SessionNames {
            user: self.user.of(whole, decoded),
            database: self.database.of(whole, decoded),
            application: self.application.of(whole, decoded),
            client: (
                self.client.0.of(whole, decoded),
                self.client.1.of(whole, decoded),
            ),
        }
    }
}

/// An entry, with its texts as ranges.
#[derive(Debug)]
struct ParsedEntry {
    /// Position in the memory of the chunk.
    at: u32,
    /// Number of bytes.
    length: u32,
    lines: u32,
    pid: u32,
    wall_us: i64,
    started: u64,
    line_number: u64,
    transaction: u64,
    /// Message, DETAIL, CONTEXT and STATEMENT.
    texts: [TextRange; 4],
    sqlstate: Option<Sqlstate>,
    backend: Backend,
    severity: Severity,
    positioned: bool,
    cut: bool,
}

/// The entries of a chunk, in order.
#[derive(Debug, Default)]
pub(super) struct ParsedEntries {
    /// Version of the reader that found them.
    version: u64,
    entries: Vec<ParsedEntry>,
    /// The matched first line of each, if the log has a prefix.
    matches: Vec<LineMatch>,
    /// Otherwise the names of each.
    names: Vec<NameRanges>,
    /// Texts that are not in the bytes as they are.
    decoded: String,
    /// Index of the first entry that may be used.
    next: usize,
}

/// Parses chunks in a thread.
pub(super) trait ChunkParser: Send {
    /// Version of the reader.
    fn version(&self) -> u64;

    /// Creates another one, for another thread.
    fn fork(&self) -> Box<dyn ChunkParser>;

    /// Parses the entries that begin and end in the unconsumed bytes, which it consumes.
    fn parse(&mut self, buffer: &mut Buffer, parsed: &mut ParsedEntries);
}

/// A reader that can parse a chunk without the bytes before it.
pub(super) trait ForkReader: Reader + Send + Sized + 'static {
    /// Creates a reader for a chunk, with the same facts and the same version.
    fn fork(&self) -> Self;

    /// Returns whether the last result depends on more than the bytes and the version.
    fn takes_more(&mut self) -> bool {
        false
    }
}

/// Parses chunks with a reader.
pub(super) struct EntryParser<R> {
    version: u64,
    original: R,
    reader: R,
}

impl<R: ForkReader> EntryParser<R> {
    /// Creates a parser with the facts that the reader has learnt; `None` if they do not suffice now.
    pub(super) fn boxed(reader: &mut R) -> Option<Box<dyn ChunkParser>> {
        let version = reader.version()?;
        Some(Box::new(EntryParser {
            version,
            original: reader.fork(),
            reader: reader.fork(),
        }))
    }
}

impl<R: ForkReader> ChunkParser for EntryParser<R> {
    fn version(&self) -> u64 {
        self.version
    }

    fn fork(&self) -> Box<dyn ChunkParser> {
        Box::new(EntryParser {
            version: self.version,
            original: self.original.fork(),
            reader: self.original.fork(),
        })
    }

    fn parse(&mut self, buffer: &mut Buffer, parsed: &mut ParsedEntries) {
        parsed.version = self.version;
        let mut others = 0;
        while others < OTHERS_MAX && !buffer.bytes().is_empty() {
            let (at, text) = (buffer.position(), buffer.text());
            let (result, length) = self.reader.next(text, false, Location::default());
            let (length, lines) = match result {
                ReadResult::More => break,
                ReadResult::Entry(entry) if parsed.push(at, text, length, &entry) => {
                    (length, entry.lines)
                }
                _ => {
                    others += 1;
                    // An ambiguous line consumes nothing.
                    (length.max(text.line_end(0, 0).unwrap_or(1)), 0)
                }
            };
            if self.reader.takes_more() {
                parsed.remove_from(at);
            }
            if self.reader.version() != Some(self.version) {
                parsed.remove_from(at);
                self.reader = self.original.fork();
            }
            buffer.consume(length.min(buffer.bytes().len()), lines as usize);
        }
    }
}

impl TextRange {
    /// Returns the range of a text in `whole`, or appends it to `decoded`.
    #[inline(always)]
    fn locate(text: &str, whole: &str, decoded: &mut String) -> Self {
        if text.is_empty() {
            return TextRange::default();
        }
        // The address tells whether it is a part of it.
        let start = (text.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        if start < whole.len() {
            let end = start + text.len();
            return TextRange {
                start: start as u32,
                end: end as u32,
            };
        }
        let start = decoded.len() as u32;
        decoded.push_str(text);
        TextRange {
            start: start | DECODED,
            end: decoded.len() as u32,
        }
    }

    #[inline(always)]
    fn of<'a>(self, whole: &'a str, decoded: &'a str) -> &'a str {
        let range = |start: u32| start as usize..self.end as usize;
        if self.start == self.end {
            ""
        } else if self.start & DECODED == 0 {
            &whole[range(self.start)]
        } else {
            &decoded[range(self.start & !DECODED)]
        }
    }
}

impl ParsedEntries {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.matches.clear();
        self.names.clear();
        self.decoded.clear();
        self.next = 0;
    }

    /// Adds an entry, which is the first `length` bytes of the text. Returns false if it cannot be
    /// restored.
    fn push(&mut self, at: usize, text: Text<'_>, length: usize, entry: &Entry<'_>) -> bool {
        let Some(whole) = text.first_as_str(length) else {
            return false;
        };
        let decoded = &mut self.decoded;
        let mut locate = |text| TextRange::locate(text, whole, decoded);
        match entry.who {
            SessionIdentity::InLine { matched, .. } => self.matches.push(*matched),
            SessionIdentity::Named(names) => self.names.push(NameRanges {
                user: locate(names.user),
                database: locate(names.database),
                application: locate(names.application),
                client: (locate(names.client.0), locate(names.client.1)),
            }),
            SessionIdentity::Kept(..) => return false,
        }
        self.entries.push(ParsedEntry {
            at: at as u32,
            length: length as u32,
            lines: entry.lines as u32,
            pid: entry.pid,
            wall_us: entry.wall_us,
            started: entry.started,
            line_number: entry.line_number,
            transaction: entry.transaction,
            texts: [
                locate(entry.message),
                locate(entry.detail),
                locate(entry.context),
                locate(entry.statement),
            ],
            sqlstate: entry.sqlstate,
            backend: entry.backend,
            severity: entry.severity,
            positioned: entry.positioned,
            cut: entry.cut,
        });
        true
    }

    /// Removes an entry at this position.
    #[cold]
    fn remove_from(&mut self, at: usize) {
        if self
            .entries
            .pop_if(|entry| entry.at as usize == at)
            .is_some()
        {
            self.matches.truncate(self.entries.len());
            self.names.truncate(self.entries.len());
        }
    }

    /// Returns whether there are entries that may be used.
    #[inline(always)]
    pub(super) fn has_next(&self) -> bool {
        self.next < self.entries.len()
    }

    /// Looks for an entry at a position, for a reader of this version.
    #[inline]
    pub(super) fn find(&mut self, at: usize, version: Option<u64>) -> bool {
        while let Some(entry) = self.entries.get(self.next) {
            if entry.at as usize >= at {
                return entry.at as usize == at && version == Some(self.version);
            }
            self.next += 1;
        }
        false
    }

    /// Restores the entry that was found. Also returns its number of bytes. It is a separate function so that the
    /// large value is written once, at its destination.
    #[inline(never)]
    pub(super) fn restore<'a>(
        &'a self,
        text: Text<'a>,
        prefix: Option<&'a Prefix>,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let entry = &self.entries[self.next];
        let whole = text.first_as_str(entry.length as usize);
        let whole = whole.expect("the same bytes were text before");
        let part = |range: TextRange| range.of(whole, &self.decoded);
        let [message, detail, context, statement] = entry.texts;
        let restored = ReadResult::Entry(Entry {
            wall_us: entry.wall_us,
            pid: entry.pid,
            started: entry.started,
            line_number: entry.line_number,
            backend: entry.backend,
            who: match prefix {
                Some(prefix) => SessionIdentity::InLine {
                    text: whole,
                    matched: &self.matches[self.next],
                    prefix,
                },
                None => SessionIdentity::Named(self.names[self.next].of(whole, &self.decoded)),
            },
            severity: entry.severity,
            sqlstate: entry.sqlstate,
            message: part(message),
            detail: part(detail),
            context: part(context),
            statement: part(statement),
            transaction: entry.transaction,
            positioned: entry.positioned,
            cut: entry.cut,
            place,
            lines: u64::from(entry.lines),
        });
        (restored, entry.length as usize)
    }
}
