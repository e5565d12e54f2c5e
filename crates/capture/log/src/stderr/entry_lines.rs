//! Builds an entry from its parsed lines: the texts of the message, DETAIL, CONTEXT and STATEMENT.

use super::*;

/// Byte ranges of the texts of an entry's lines, by [`slot`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Texts {
    starts: [usize; SLOTS],
    pub(super) ends: [usize; SLOTS],
    /// Bit set of the texts that continue on lines after a tab.
    folded: u32,
}

/// The message, DETAIL, CONTEXT, STATEMENT, and all that is not needed.
const SLOTS: usize = 5;
const UNUSED: usize = 4;

/// Returns the index of the text that follows a label.
#[inline]
pub(super) fn slot(label: Label) -> usize {
    match label {
        Label::Head(_) => 0,
        Label::Detail => 1,
        Label::Context => 2,
        Label::Statement => 3,
        Label::Location | Label::Aside => UNUSED,
    }
}

impl Texts {
    /// Sets a line's text. It may be empty, if the line ends before its text begins.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, start: usize, end: usize) {
        self.starts[slot] = start;
        self.ends[slot] = end.max(start);
        self.folded &= !(1 << slot);
    }

    /// Adds a line after a tab.
    #[inline]
    pub(super) fn fold(&mut self, slot: usize, end: usize) {
        self.ends[slot] = end;
        self.folded |= 1 << slot;
    }

    /// Removes the tabs from the texts that have them; returns the resulting ranges.
    #[cold]
    fn unfold(&self, text: &str, into: &mut String) -> [(usize, usize); SLOTS] {
        let mut places = [(0, 0); SLOTS];
        for (slot, place) in places.iter_mut().enumerate().take(UNUSED) {
            if self.folded >> slot & 1 == 1 {
                let start = into.len();
                unfold(&text[self.starts[slot]..self.ends[slot]], into);
                *place = (start, into.len());
            }
        }
        places
    }
}

/// The parsed lines of an entry.
pub(super) struct EntryLines<'a> {
    pub(super) head: &'a LineMatch,
    pub(super) texts: Texts,
    /// The text of all lines.
    pub(super) text: &'a str,
    pub(super) place: Location,
    pub(super) count: u64,
    /// One of them is a LOCATION.
    pub(super) located: bool,
    /// The line after them is no line of the server's.
    pub(super) cut: bool,
    pub(super) prefix: &'a Prefix,
}

impl<'a> EntryLines<'a> {
    /// Removes the tabs from texts of several lines; returns their ranges in `into`.
    #[cold]
    fn unfold(&self, into: &mut String) -> [(usize, usize); SLOTS] {
        into.clear();
        self.texts.unfold(self.text, into)
    }

    #[inline(always)]
    fn part(&self, slot: usize, unfolded: &'a str, places: &[(usize, usize); SLOTS]) -> &'a str {
        if self.texts.folded >> slot & 1 == 1 {
            let (start, end) = places[slot];
            return &unfolded[start..end];
        }
        let (start, end) = (self.texts.starts[slot], self.texts.ends[slot]);
        match start == end {
            true => "",
            false => &self.text[start..end],
        }
    }

    /// Builds the find. It is a separate function so that the large value is written once, at its
    /// destination.
    #[inline(never)]
    pub(super) fn to_result(&self, unfolded: &'a mut String) -> (ReadResult<'a>, usize) {
        let (text, lines) = (self.text, self.count);
        let fields = &self.head.fields;
        let Label::Head(severity) = self.head.label else {
            let betrays = matches!(self.head.label, Label::Context | Label::Statement);
            let found = ReadResult::Detached {
                pid: fields.pid.unwrap_or(0),
                betrays,
                lines,
            };
            return (found, text.len());
        };
        let mut places = [(0, 0); SLOTS];
        if self.texts.folded != 0 {
            places = self.unfold(unfolded);
        }
        let part = |slot| self.part(slot, unfolded, &places);
        // Spans end at ASCII literals or at the line's parts, but a non-ASCII literal may cut a
        // name inside a character.
        let mut message = part(0);
        let mut sqlstate = fields.sqlstate.map(Sqlstate);
        if (self.located || message.starts_with("00000: "))
            && let Some((code, rest)) = message.split_once(": ")
            && let Some(code) = Sqlstate::parse(code)
        {
            sqlstate = sqlstate.or(Some(code));
            message = rest;
        }
        let backend = if fields.has_leader {
            Backend::ParallelWorker
        } else if fields.quit {
            Backend::Background
        } else {
            match fields.backend.of(text) {
                "" => Backend::Client,
                backend => Backend::parse(backend),
            }
        };
        let positioned = !matches!(severity, Severity::Log) && ends_in_position(message);
        let entry = Entry {
            wall_us: fields.wall_us.unwrap_or(0),
            pid: fields.pid.unwrap_or(0),
            started: fields.started,
            line_number: fields.line_number,
            backend,
            who: SessionIdentity::InLine {
                text,
                matched: self.head,
                prefix: self.prefix,
            },
            severity,
            sqlstate,
            message,
            detail: part(1),
            context: part(2),
            statement: part(3),
            transaction: fields.transaction,
            positioned,
            cut: self.cut || is_truncated(message) || is_truncated(text.trim_end()),
            place: self.place,
            lines,
        };
        (ReadResult::Entry(entry), text.len())
    }
}

/// Removes the tab after each newline.
fn unfold(text: &str, into: &mut String) {
    let mut from = 0;
    for newline in memchr::memchr_iter(b'\n', text.as_bytes()) {
        into.push_str(&text[from..=newline]);
        from = newline + 1 + usize::from(text.as_bytes().get(newline + 1) == Some(&b'\t'));
    }
    into.push_str(&text[from..]);
}

/// Returns whether a message ends in `… at character 15`, which is how stderr writes the position
/// in the statement.
fn ends_in_position(message: &str) -> bool {
    message
        .rsplit_once(" at character ")
        .is_some_and(|(_, number)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}
