//! Reads csvlog: 23 columns up to version 12, 24 in 13 (`backend_type`), 26 from 14 on
//! (`leader_pid`, `query_id`). New versions only append columns, so any number from 22 (8.4,
//! without `application_name`) is accepted, and columns after the 26th are ignored. Quoted values
//! contain raw newlines and doubled quotes.
//!
//! A record starts at a line that starts with a timestamp and a comma. If it does not parse, only
//! its first line is dropped, and the next line is tried.

use workload::Sqlstate;

use super::UnreadableReason;
use super::byte_search::find;
use super::entry::{
    Backend, Entry, ReadResult, Reader, SessionIdentity, SessionNames, line_end,
    parse_virtual_transaction, split_host_and_port, trim_line_end,
};
use super::parse_ahead::{ChunkParser, EntryParser, ForkReader};
use super::session_id::parse_session_id;
use super::severity::{Severity, is_foreign_label};
use super::text::Text;
use super::timestamp::TimestampParser;
use super::zones::ZoneReading;
use crate::reconcile::Location;

/// Number of columns that every version has.
const COLUMNS_MIN: usize = 22;
/// Number of known columns.
const COLUMNS_MAX: usize = 26;
/// Maximum number of columns, with room for future versions. Text that is no record may contain any
/// number of commas.
const COLUMNS_PLAUSIBLE_MAX: usize = 40;

mod column {
    pub const USER: usize = 1;
    pub const DATABASE: usize = 2;
    pub const PID: usize = 3;
    pub const CLIENT: usize = 4;
    pub const SESSION: usize = 5;
    pub const LINE_NUMBER: usize = 6;
    pub const VIRTUAL_TRANSACTION: usize = 9;
    pub const SEVERITY: usize = 11;
    pub const SQLSTATE: usize = 12;
    pub const MESSAGE: usize = 13;
    pub const DETAIL: usize = 14;
    pub const CONTEXT: usize = 18;
    pub const STATEMENT: usize = 19;
    pub const POSITION: usize = 20;
    pub const APPLICATION: usize = 22;
    pub const BACKEND_TYPE: usize = 23;
    pub const LEADER_PID: usize = 24;
}

/// Reads csvlog.
#[derive(Debug, Default)]
pub(super) struct CsvReader {
    times: TimestampParser,
    /// Values whose doubled quotes were replaced by single ones.
    unquoted: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct Value {
    start: usize,
    end: usize,
    doubled: bool,
}

enum Failure {
    More,
    Reason(UnreadableReason),
}

impl Reader for CsvReader {
    fn times(&self) -> &TimestampParser {
        &self.times
    }

    fn set_zones(&mut self, reading: &ZoneReading) {
        self.times.set_reading(reading.clone());
    }

    fn has_quotes(&self) -> bool {
        true
    }

    fn version(&mut self) -> Option<u64> {
        Some(self.times.zone_changes())
    }

    fn to_parser(&mut self) -> Option<Box<dyn ChunkParser>> {
        EntryParser::boxed(self)
    }

    fn next<'a>(
        &'a mut self,
        text: Text<'a>,
        complete: bool,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let bytes = text.bytes();
        let mut values = [Value::default(); COLUMNS_MAX];
        let parsed = self.parse_start(bytes, complete).and_then(|wall_us| {
            let (count, end) = split_values(bytes, complete, &mut values)?;
            if count < COLUMNS_MIN {
                return Err(Failure::Reason(UnreadableReason::Columns));
            }
            Ok((wall_us, end))
        });
        let (wall_us, end) = match parsed {
            Ok(found) => found,
            Err(Failure::More) => return (ReadResult::More, 0),
            Err(Failure::Reason(reason)) => return first_line(bytes, complete, reason),
        };
        let Some(text) = text.first_as_str(end) else {
            let lines = memchr::memchr_iter(b'\n', &bytes[..end]).count() as u64;
            let reason = UnreadableReason::Encoding;
            return (ReadResult::Unreadable { lines, reason }, end);
        };
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
        match self.entry(text, &values, wall_us, lines, place) {
            Ok(entry) => (ReadResult::Entry(entry), end),
            Err(reason) => (ReadResult::Unreadable { lines, reason }, end),
        }
    }
}

impl ForkReader for CsvReader {
    fn fork(&self) -> Self {
        CsvReader {
            times: self.times.clone(),
            ..Self::default()
        }
    }
}

impl CsvReader {
    /// Parses the timestamp and comma at the start of a record.
    fn parse_start(&mut self, bytes: &[u8], complete: bool) -> Result<i64, Failure> {
        // Programs that write a csvlog anew quote every field.
        let quoted = usize::from(bytes.first() == Some(&b'"'));
        let end: &[u8] = match quoted {
            0 => b",",
            _ => b"\",",
        };
        match self.times.read(&bytes[quoted..]) {
            Some(stamp) if bytes[quoted + stamp.length..].starts_with(end) => Ok(stamp.wall_us),
            _ if !complete && line_end(bytes, 0).is_none() => Err(Failure::More),
            _ => Err(Failure::Reason(UnreadableReason::NoRecord)),
        }
    }

    fn entry<'a>(
        &'a mut self,
        text: &'a str,
        values: &[Value; COLUMNS_MAX],
        wall_us: i64,
        lines: u64,
        place: Location,
    ) -> Result<Entry<'a>, UnreadableReason> {
        let mut singled = [(0u32, 0u32); COLUMNS_MAX];
        if values.iter().any(|value| value.doubled) {
            self.unquoted.clear();
            for (value, place) in values.iter().zip(&mut singled) {
                if value.doubled {
                    let start = self.unquoted.len();
                    single_quotes(&text[value.start..value.end], &mut self.unquoted);
                    // The server's messages are smaller than 1 GiB.
                    *place = (start as u32, self.unquoted.len() as u32);
                }
            }
        }
        let unquoted = &self.unquoted;
        let value = |column: usize| {
            let Value {
                start,
                end,
                doubled,
            } = values[column];
            match doubled {
                true => &unquoted[singled[column].0 as usize..singled[column].1 as usize],
                false => &text[start..end],
            }
        };
        let severity = Severity::parse(value(column::SEVERITY)).ok_or_else(|| {
            match is_foreign_label(value(column::SEVERITY)) {
                true => UnreadableReason::Translated,
                false => UnreadableReason::NoRecord,
            }
        })?;
        let (started, session_pid) = parse_session_id(value(column::SESSION).as_bytes())
            .map_or((0, 0), |(start, pid, _)| (start, pid));
        // The type says more than the leader's process, whose column other programs' files may lack.
        let backend = match (value(column::BACKEND_TYPE), value(column::LEADER_PID)) {
            ("", "" | "0") => Backend::Client,
            ("", _) => Backend::ParallelWorker,
            (backend, _) => Backend::parse(backend),
        };
        Ok(Entry {
            wall_us,
            pid: value(column::PID).parse().unwrap_or(session_pid),
            started,
            line_number: value(column::LINE_NUMBER).parse().unwrap_or(0),
            backend,
            who: SessionIdentity::Named(SessionNames {
                user: value(column::USER),
                database: value(column::DATABASE),
                application: value(column::APPLICATION),
                client: split_host_and_port(value(column::CLIENT)),
            }),
            severity,
            sqlstate: Sqlstate::parse(value(column::SQLSTATE)),
            message: value(column::MESSAGE),
            detail: value(column::DETAIL),
            context: value(column::CONTEXT),
            statement: value(column::STATEMENT),
            transaction: parse_virtual_transaction(value(column::VIRTUAL_TRANSACTION)),
            positioned: !value(column::POSITION).is_empty(),
            cut: false,
            place,
            lines,
        })
    }
}

fn first_line(
    bytes: &[u8],
    complete: bool,
    reason: UnreadableReason,
) -> (ReadResult<'static>, usize) {
    let Some(end) = line_end(bytes, 0).or(complete.then_some(bytes.len())) else {
        return (ReadResult::More, 0);
    };
    if trim_line_end(&bytes[..end]).is_empty() {
        let reason = super::SkipReason::Blank;
        return (ReadResult::Skipped { lines: 1, reason }, end);
    }
    let reason = match std::str::from_utf8(&bytes[..end]) {
        Err(_) => UnreadableReason::Encoding,
        Ok(_) => reason,
    };
    (ReadResult::Unreadable { lines: 1, reason }, end)
}

/// Finds the values of the record at the start of `bytes`; returns their number and the record's
/// end.
fn split_values(
    bytes: &[u8],
    complete: bool,
    values: &mut [Value; COLUMNS_MAX],
) -> Result<(usize, usize), Failure> {
    let short = || match complete {
        true => Failure::Reason(UnreadableReason::CutAtEnd),
        false => Failure::More,
    };
    let (mut at, mut count) = (0, 0);
    loop {
        let mut value = Value::default();
        if bytes.get(at) == Some(&b'"') {
            value.start = at + 1;
            let mut from = at + 1;
            loop {
                let quote = find(bytes, from, b'"').ok_or_else(short)?;
                match bytes.get(quote + 1) {
                    None => return Err(short()),
                    Some(b'"') => {
                        value.doubled = true;
                        from = quote + 2;
                    }
                    Some(_) => {
                        value.end = quote;
                        at = quote + 1;
                        break;
                    }
                }
            }
            if bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n') {
                at += 1;
            }
        } else {
            value.start = at;
            // Most columns are empty.
            if bytes.get(at) != Some(&b',') {
                at += memchr::memchr3(b',', b'\n', b'"', &bytes[at..]).ok_or_else(short)?;
            }
            value.end = at;
            if bytes[at] == b'\n' && bytes[value.start..at].ends_with(b"\r") {
                value.end -= 1;
            }
        }
        match values.get_mut(count) {
            Some(slot) => *slot = value,
            None if count < COLUMNS_PLAUSIBLE_MAX => (),
            None => return Err(Failure::Reason(UnreadableReason::Columns)),
        }
        count += 1;
        match bytes[at] {
            b',' => at += 1,
            b'\n' => return Ok((count, at + 1)),
            _ => return Err(Failure::Reason(UnreadableReason::NoRecord)),
        }
    }
}

fn single_quotes(text: &str, into: &mut String) {
    let mut from = 0;
    while let Some(quote) = memchr::memchr(b'"', &text.as_bytes()[from..]) {
        into.push_str(&text[from..=from + quote]);
        from += quote + 2;
    }
    into.push_str(text.get(from..).unwrap_or(""));
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "2026-03-01 09:30:05.123 UTC,\"app\",\"shop\",77,\"10.0.0.1:5432\",68b1a2c3.4d,3,\"SELECT\",2026-03-01 09:30:00 UTC,3/14,0,LOG,00000,\"statement: select \"\"a\"\"\nfrom t\",,,,,,,,,\"psql\",\"client backend\",,0\n";

    fn read(text: &str) -> (String, usize) {
        let mut reader = CsvReader::default();
        let (found, length) = reader.next(text.as_bytes().into(), true, Location::default());
        (format!("{found:?}"), length)
    }

    #[test]
    fn fact_13_a_record_keeps_raw_newlines_and_doubled_quotes() {
        let mut reader = CsvReader::default();
        let (ReadResult::Entry(entry), length) =
            reader.next(RECORD.as_bytes().into(), false, Location::default())
        else {
            panic!("no entry");
        };
        assert_eq!(length, RECORD.len());
        assert_eq!(entry.message, "statement: select \"a\"\nfrom t");
        assert_eq!(
            (
                entry.who.names().user,
                entry.who.names().database,
                entry.who.names().application
            ),
            ("app", "shop", "psql")
        );
        assert_eq!(
            (entry.pid, entry.started, entry.line_number),
            (77, 0x68b1_a2c3, 3)
        );
        assert_eq!(entry.who.names().client, ("10.0.0.1", "5432"));
        assert_eq!(entry.lines, 2);
        assert_eq!(entry.sqlstate, Sqlstate::parse("00000"));
    }

    #[test]
    fn fact_18_every_column_count_is_read() {
        let upto_12 = RECORD.replace(",\"client backend\",,0\n", "\n");
        let in_13 = RECORD.replace(",,0\n", "\n");
        for record in [&upto_12, &in_13, RECORD] {
            assert!(read(record).0.starts_with("Entry"), "{record}");
        }
        let before_9 = upto_12.replace(",\"psql\"", "");
        let to_come = RECORD.replace(",,0\n", ",,0,\"new\",,7\n");
        for record in [&before_9, &to_come, &RECORD.replace(",,0\n", ",\n")] {
            let (found, length) = read(record);
            assert!(found.starts_with("Entry"), "{record}");
            assert_eq!(length, record.len());
        }
        for odd in [
            before_9.replace(",\n", "\n"),
            RECORD.replace(",,0\n", &(",".repeat(40) + "\n")),
        ] {
            assert!(read(&odd).0.contains("Columns"), "{odd}");
        }
    }

    #[test]
    fn an_incomplete_record_asks_for_more_and_a_cut_one_says_so() {
        let mut reader = CsvReader::default();
        for cut in 1..RECORD.len() {
            let part = &RECORD.as_bytes()[..cut];
            assert_eq!(
                reader.next(part.into(), false, Location::default()).0,
                ReadResult::More,
                "{cut}"
            );
            let found = reader.next(part.into(), true, Location::default()).0;
            assert!(
                matches!(found, ReadResult::Unreadable { .. }),
                "{cut}: {found:?}"
            );
        }
    }

    #[test]
    fn an_open_quote_loses_one_line() {
        let damaged = format!(
            "{}{RECORD}",
            RECORD.split_once("\nfrom").unwrap().0.to_owned() + "\n"
        );
        let (found, length) = read(&damaged);
        assert!(found.contains("NoRecord"), "{found}");
        assert!(read(&damaged[length..]).0.starts_with("Entry"));
    }
}
