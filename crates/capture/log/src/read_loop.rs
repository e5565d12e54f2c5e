//! Runs the loop that reads one input: bytes from its window become entries by its reader and go to
//! the assembler. Every line is accounted for. [`super::capture`] calls it for one input after the
//! other.

use super::assemble::Assembler;
use super::csv::CsvReader;
use super::entry::{ReadResult, Reader};
use super::envelopes::{CnpgReader, EnvelopeReader};
use super::input::Window;
use super::json::JsonReader;
use super::recognise::RecognisedFormat;
use super::series::SourceTurn;
use super::stderr::StderrReader;
use super::zones::ZoneReading;
use super::{LogError, LogFormat, SkipReason, UnreadableReason};
use crate::reconcile::Location;

/// One input to read, and the objects that reading it needs.
pub(super) struct ReadTask<'a, 's> {
    pub window: &'a mut Window,
    /// Number of the input.
    pub source: u32,
    pub assembler: &'a mut Assembler<'s>,
    /// Lines that it shares with other inputs.
    pub turn: &'a mut SourceTurn,
    /// Receives the progress and the number of events.
    pub on_progress: &'a mut dyn FnMut(&Window, u64),
    /// Creates an error that names the input.
    pub to_error: &'a dyn Fn(std::io::Error) -> LogError,
    /// Notes about the input for the user.
    pub notes: &'a mut Vec<String>,
}

/// Joins lines to the last entry of the previous file if they are its rest; returns their number.
/// They are accounted for with that entry.
fn join_to_previous_file(
    result: &ReadResult<'_>,
    bytes: &[u8],
    turn: &mut SourceTurn,
) -> Option<u64> {
    if !turn.is_holding() {
        return None;
    }
    let (pid, reason, lines) = match *result {
        ReadResult::Detached { pid, lines, .. } => (Some(pid), None, lines),
        ReadResult::Unreadable { lines, reason } => (None, Some(reason), lines),
        // The newline of a line that the previous file holds without it.
        ReadResult::Skipped {
            lines,
            reason: SkipReason::Blank,
        } if turn.is_holding_torn() => (None, None, lines),
        _ => return None,
    };
    turn.continue_held(pid, reason, bytes, lines)
        .then_some(lines)
}

/// Accounts for lines that are not at the start of the window.
fn account_detached(
    what: ReadResult<'_>,
    place: Location,
    excerpt: &[u8],
    assembler: &mut Assembler<'_>,
    turn: &mut SourceTurn,
) -> u64 {
    if let Some(lines) = join_to_previous_file(&what, excerpt, turn) {
        return lines;
    }
    match what {
        ReadResult::Skipped { lines, reason } => {
            assembler.account().skip(reason, lines, place);
            lines
        }
        ReadResult::Detached {
            pid,
            betrays,
            lines,
        } => {
            assembler.handle_detached(pid, betrays, lines, place);
            lines
        }
        ReadResult::Unreadable { lines, reason } => {
            let account = assembler.account();
            account.unreadable(reason, lines, place, excerpt);
            lines
        }
        ReadResult::More
        | ReadResult::Held
        | ReadResult::Entry(_)
        | ReadResult::Ambiguous(_)
        | ReadResult::Elsewhere { .. } => {
            unreachable!("these have a place, or none at all")
        }
    }
}

/// Accounts for a result other than an entry at the start of the window; returns its number of
/// lines.
fn account_other(
    result: ReadResult<'_>,
    bytes: &[u8],
    place: Location,
    assembler: &mut Assembler<'_>,
    turn: &mut SourceTurn,
) -> u64 {
    if let Some(lines) = join_to_previous_file(&result, bytes, turn) {
        return lines;
    }
    match result {
        ReadResult::Held => 0,
        ReadResult::Elsewhere {
            place,
            excerpt,
            what,
        } => account_detached(*what, place, excerpt, assembler, turn),
        ReadResult::Entry(_) | ReadResult::Ambiguous(_) | ReadResult::More => {
            unreachable!("handled by the loop")
        }
        ReadResult::Skipped { lines, reason } => {
            assembler.account().skip(reason, lines, place);
            lines
        }
        ReadResult::Detached {
            pid,
            betrays,
            lines,
        } => {
            match turn.is_cut_continuation(lines) {
                true => assembler
                    .account()
                    .skip(SkipReason::Duplicate, lines, place),
                false => assembler.handle_detached(pid, betrays, lines, place),
            }
            lines
        }
        ReadResult::Unreadable { lines, reason } => {
            if reason == UnreadableReason::CutAtEnd && turn.hold_torn(bytes, place) {
                return lines;
            }
            let account = assembler.account();
            match turn.is_duplicate_unreadable(bytes, lines) {
                true => account.skip(SkipReason::Duplicate, lines, place),
                false => account.unreadable(reason, lines, place, bytes),
            }
            lines
        }
    }
}

/// Reads one input to its end; returns its last time.
pub(super) fn read(
    recognised: RecognisedFormat,
    reading: ReadTask<'_, '_>,
) -> Result<i64, LogError> {
    let zones = recognised.zones;
    // The loop is compiled for each reader: a dynamic call would copy every entry.
    match (recognised.format, recognised.prefix) {
        (LogFormat::Csv, _) => {
            let reader = CsvReader::default();
            read_with(reader, &zones, reading)
        }
        (LogFormat::Json, _) => {
            let reader = JsonReader::default();
            read_with(reader, &zones, reading)
        }
        (LogFormat::Stderr, prefix) => {
            let prefix = prefix.expect("a stderr log is recognised by its prefix");
            reading.turn.expect_truncation(&prefix);
            let reader = StderrReader::new(prefix);
            read_with(reader, &zones, reading)
        }
        (LogFormat::Cnpg, _) => {
            let reader = CnpgReader::of(recognised.envelope.server);
            read_with(reader, &zones, reading)
        }
        (_, prefix) => {
            let prefix = prefix.expect("what wraps a stderr log is recognised by its prefix");
            if recognised.envelope.keeps_lines() && prefix.has_time() && prefix.has_process() {
                reading.turn.expect_truncation(&prefix);
            }
            let reader = EnvelopeReader::new(recognised.envelope, prefix);
            read_with(reader, &zones, reading)
        }
    }
}

/// Time before the latest one from which an entry counts as out of order.
const DISORDER_US: i64 = 5_000_000;

/// Returns the note about entries out of order. Envelopes have one of their own.
fn disorder_note(disordered: u64) -> Option<String> {
    (disordered > 0).then(|| {
        format!(
            "{disordered} of its messages come after ones that are more than 5 s younger: the clock was set back, or time zones are read wrongly (--log-timezone gives it); their statements are due at once"
        )
    })
}

/// Returns the note about an abbreviation of several meanings that the beginning of the log does not
/// have.
fn late_zone_note(reader: &impl Reader, notes: &[String]) -> Option<String> {
    let zone = reader.times().unresolved_zone()?;
    let known = notes
        .iter()
        .any(|note| note.starts_with("its times are in "));
    (!known).then(|| {
        format!(
            "times in it are in {zone}, which several countries use, and are read as in PostgreSQL's default set; give --log-timezone with the server's log_timezone"
        )
    })
}

/// Adds the notes about an input that was read.
fn add_notes(reader: &impl Reader, disordered: u64, notes: &mut Vec<String>) {
    notes.extend(reader.notes());
    notes.extend(late_zone_note(reader, notes));
    notes.extend(disorder_note(disordered));
}

/// Prepares a reader for an input.
fn prepare(reader: &mut impl Reader, zones: &ZoneReading, window: &Window) {
    reader.set_zones(zones);
    if window.is_followed() {
        reader.set_followed();
    }
}

/// Maximum length of an entry, in bytes. The server's own limit is 1 GiB per value, but longer entries
/// than this are rather damaged or hostile files, of which a few kilobytes can be compressed gigabytes.
const ENTRY_BYTES_MAX: usize = 256 << 20;

/// Returns the length of the whole lines in the window, if an entry of them ended with them.
#[cold]
fn whole_lines(bytes: &[u8]) -> Option<usize> {
    let length = memchr::memrchr(b'\n', bytes)? + 1;
    (bytes.get(length) != Some(&b'\t')).then_some(length)
}

/// Skips an entry that is too long. Returns its number of lines. It ends with the line that the window ends in,
/// and later lines of it have no entry. If quotes may span lines, it ends with the first line that ends outside
/// of them, since a quoted text may contain what looks like another entry.
#[cold]
fn skip_oversized(
    window: &mut Window,
    (place, has_quotes): (Location, bool),
    assembler: &mut Assembler<'_>,
) -> std::io::Result<u64> {
    let (mut lines, mut is_quoted, mut is_whole) = (0, false, false);
    // Whether the bytes so far end within a line.
    let mut is_cut = false;
    // Without quotes, all lines in the window belong to the entry.
    let mut is_entry = !has_quotes;
    while !is_whole {
        let bytes = window.bytes();
        is_cut = bytes.last().map_or(is_cut, |byte| *byte != b'\n');
        let mut end = bytes.len();
        for at in memchr::memchr2_iter(b'"', b'\n', bytes) {
            if bytes[at] == b'"' {
                is_quoted ^= has_quotes;
                continue;
            }
            lines += 1;
            is_whole = if is_entry { at + 1 == end } else { !is_quoted };
            if is_whole {
                end = at + 1;
                break;
            }
        }
        is_entry = false;
        window.consume(end);
        if is_whole {
            break;
        }
        if window.is_at_end() {
            lines += u64::from(is_cut);
            break;
        }
        window.fill()?;
    }
    let account = assembler.account();
    account.lines += lines;
    account.unreadable(UnreadableReason::TooLong, lines, place, b"");
    Ok(lines)
}

/// Reads more of the input, and reports the progress.
fn read_more(
    window: &mut Window,
    reader: &mut impl Reader,
    assembler: &mut Assembler<'_>,
    on_progress: &mut dyn FnMut(&Window, u64),
) -> std::io::Result<()> {
    window.update_parser(reader);
    assembler.report_held();
    window.fill()?;
    on_progress(window, assembler.account().events);
    Ok(())
}

#[inline(never)]
fn read_with(
    mut reader: impl Reader,
    zones: &ZoneReading,
    reading: ReadTask<'_, '_>,
) -> Result<i64, LogError> {
    prepare(&mut reader, zones, reading.window);
    let ReadTask {
        window,
        source,
        assembler,
        turn,
        on_progress,
        to_error,
        notes,
    } = reading;
    let settles = reader.supports_idle();
    let mut place = Location { source, line: 1 };
    let mut last_us = i64::MIN;
    let mut disordered = 0;
    // The log is idle, and the available bytes are treated as complete.
    let mut settling = false;
    // Length of the whole lines before one that is too long, which are treated as complete.
    let mut whole = None;
    loop {
        if window.bytes().is_empty() {
            if window.is_at_end() {
                add_notes(&reader, disordered, notes);
                return Ok(last_us);
            }
            read_more(window, &mut reader, assembler, on_progress).map_err(to_error)?;
            continue;
        }
        let complete = window.is_at_end() || settling;
        let tried = whole.take();
        let mut next = match tried {
            None if window.find_parsed(&mut reader) => window.parsed_entry(&mut reader, place),
            None => reader.next(window.text(), complete, place),
            Some(length) => reader.next(window.bytes()[..length].into(), true, place),
        };
        let length = next.1;
        // By reference: an entry is large, and nearly all results are entries.
        if let ReadResult::Entry(entry) = &mut next.0 {
            disordered += u64::from(entry.wall_us < last_us.saturating_sub(DISORDER_US));
            last_us = last_us.max(entry.wall_us);
            let last = complete && length == window.bytes().len();
            if turn.is_duplicate(entry, last)
                || turn.is_holding() && turn.release(entry, assembler)?
            {
                let account = assembler.account();
                account.skip(SkipReason::Duplicate, entry.lines, place);
            } else if !(last && turn.hold_last(entry)) {
                // The rest of a damaged file is lost.
                entry.cut |= last && window.damage().is_some();
                assembler.handle_entry(entry)?;
            }
            let lines = entry.lines;
            settling = false;
            assembler.account().lines += lines;
            place.line += lines;
            window.consume_lines(length, lines);
            continue;
        }
        if let ReadResult::Ambiguous(readings) = &next.0 {
            let choice = assembler.choose_reading(readings);
            reader.settle(choice);
            continue;
        }
        let lines = match next.0 {
            ReadResult::More if window.is_idle() && settles => {
                settling = true;
                continue;
            }
            // A record may contain newlines: more of an incomplete one will come.
            ReadResult::Unreadable { .. } if settling => {
                settling = false;
                read_more(window, &mut reader, assembler, on_progress).map_err(to_error)?;
                continue;
            }
            ReadResult::More if window.bytes().len() >= ENTRY_BYTES_MAX => {
                let start = (place, reader.has_quotes());
                whole = whole_lines(window.bytes()).filter(|_| tried.is_none() && !start.1);
                if whole.is_none() {
                    place.line += skip_oversized(window, start, assembler).map_err(to_error)?;
                }
                continue;
            }
            ReadResult::More => {
                read_more(window, &mut reader, assembler, on_progress).map_err(to_error)?;
                continue;
            }
            other => account_other(other, &window.bytes()[..length], place, assembler, turn),
        };
        settling = false;
        assembler.account().lines += lines;
        place.line += lines;
        window.consume(length);
    }
}
