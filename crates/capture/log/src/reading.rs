//! The loop that reads one input: bytes from its window, entries from its reader, into the
//! assembler; every line into the account.
//!
//! Who drives: [`super::capture`], one input after the other.

use super::assemble::Assembler;
use super::csv::CsvReader;
use super::entry::{Found, Place, Reader};
use super::input::Window;
use super::json::JsonReader;
use super::recognise::Recognised;
use super::series::Turn;
use super::stderr::StderrReader;
use super::wrapped::{CnpgReader, WrappedReader};
use super::{LogError, LogFormat, SkipReason};

/// One input that is to be read.
pub(super) struct Reading<'a, 's> {
    pub window: &'a mut Window,
    /// Its number.
    pub source: u32,
    pub assembler: &'a mut Assembler<'s>,
    /// What of it other inputs have, too.
    pub turn: &'a mut Turn,
    /// Told how far it is, and how many events there are.
    pub told: &'a mut dyn FnMut(&Window, u64),
    /// Names the input in an error.
    pub failed: &'a dyn Fn(std::io::Error) -> LogError,
    /// What the user should know of it.
    pub notes: &'a mut Vec<String>,
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
pub(super) fn read(recognised: Recognised, reading: Reading<'_, '_>) -> Result<i64, LogError> {
    // The loop is compiled for each reader: a call through a table would copy every entry.
    match (recognised.format, recognised.prefix) {
        (LogFormat::Csv, _) => {
            let reader = CsvReader::default();
            read_with(reader, reading)
        }
        (LogFormat::Json, _) => {
            let reader = JsonReader::default();
            read_with(reader, reading)
        }
        (LogFormat::Stderr, prefix) => {
            let prefix = prefix.expect("a stderr log is recognised by its prefix");
            reading.turn.may_be_cut(&prefix);
            let reader = StderrReader::new(prefix);
            read_with(reader, reading)
        }
        (LogFormat::Cnpg, _) => {
            let reader = CnpgReader::of(recognised.wrapper.server);
            read_with(reader, reading)
        }
        (_, prefix) => {
            let prefix = prefix.expect("what wraps a stderr log is recognised by its prefix");
            let reader = WrappedReader::new(recognised.wrapper, prefix);
            read_with(reader, reading)
        }
    }
}

#[inline(never)]
fn read_with(mut reader: impl Reader, reading: Reading<'_, '_>) -> Result<i64, LogError> {
    let Reading {
        window,
        source,
        assembler,
        turn,
        told,
        failed,
        notes,
    } = reading;
    let settles = reader.settles();
    let mut place = Place { source, line: 1 };
    let mut last_us = i64::MIN;
    // The log is silent, and what is there is taken for whole.
    let mut settling = false;
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
        let complete = window.ended() || settling;
        let next = reader.next(window.text(), complete, place);
        let length = next.1;
        // By reference: an entry is large, and nearly everything is one.
        if let Found::Entry(entry) = &next.0 {
            last_us = last_us.max(entry.wall_us);
            let last = complete && length == window.bytes().len();
            if turn.sees(entry, last) || turn.is_holding() && turn.release(entry, assembler)? {
                let account = assembler.account();
                account.skip(SkipReason::Duplicate, entry.lines, place);
            } else if !(last && turn.holds(entry, window.bytes())) {
                assembler.entry(entry)?;
            }
            let lines = entry.lines;
            settling = false;
            assembler.account().lines += lines;
            place.line += lines;
            window.take_lines(length, lines);
            continue;
        }
        let lines = match next.0 {
            Found::More if window.settled() && settles => {
                settling = true;
                continue;
            }
            // A record may hold a line's end: of one that is not whole more will come.
            Found::Unreadable { .. } if settling => {
                settling = false;
                window.more().map_err(failed)?;
                told(window, assembler.account().events);
                continue;
            }
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
            Found::Entry(_) => unreachable!("taken above"),
            Found::Skipped { lines, reason } => {
                assembler.account().skip(reason, lines, place);
                lines
            }
            Found::Detached {
                pid,
                betrays,
                lines,
            } => {
                match turn.cuts(lines) {
                    true => assembler
                        .account()
                        .skip(SkipReason::Duplicate, lines, place),
                    false => assembler.detached(pid, betrays, lines, place),
                }
                lines
            }
            Found::Unreadable { lines, reason } => {
                let bytes = &window.bytes()[..length];
                let account = assembler.account();
                match turn.sees_unreadable(bytes, lines) {
                    true => account.skip(SkipReason::Duplicate, lines, place),
                    false => account.unreadable(reason, lines, place, bytes),
                }
                lines
            }
        };
        settling = false;
        assembler.account().lines += lines;
        place.line += lines;
        window.take(length);
    }
}
