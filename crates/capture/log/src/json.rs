//! Reads jsonlog: one object a line, from version 15 on. Unset keys are absent; unknown ones are
//! ignored. Objects that a program printed over several lines are read as well.

mod fast_path;

use std::borrow::Cow;
use std::fmt::Write;

use serde::Deserialize;
use workload::Sqlstate;

use super::entry::{
    Backend, Entry, ReadResult, Reader, SessionIdentity, SessionNames, parse_virtual_transaction,
    trim_line_end,
};
use super::envelopes::{Record, split_record};
use super::parse_ahead::{ChunkParser, EntryParser, ForkReader};
use super::session_id::parse_session_id;
use super::severity::{Severity, is_foreign_label};
use super::text::Text;
use super::timestamp::TimestampParser;
use super::zones::ZoneReading;
use super::{SkipReason, UnreadableReason};
use crate::reconcile::Location;

/// The keys that are used.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Row<'a> {
    #[serde(borrow)]
    pub timestamp: Cow<'a, str>,
    #[serde(borrow, default)]
    pub user: Cow<'a, str>,
    #[serde(borrow, default)]
    pub dbname: Cow<'a, str>,
    pub pid: u32,
    #[serde(borrow, default)]
    pub remote_host: Cow<'a, str>,
    #[serde(default)]
    pub remote_port: Option<u32>,
    #[serde(borrow, default)]
    pub session_id: Cow<'a, str>,
    #[serde(default)]
    pub line_num: u64,
    #[serde(borrow)]
    pub error_severity: Cow<'a, str>,
    #[serde(borrow, default)]
    pub state_code: Cow<'a, str>,
    #[serde(borrow, default)]
    pub message: Cow<'a, str>,
    #[serde(borrow, default)]
    pub detail: Cow<'a, str>,
    #[serde(borrow, default)]
    pub context: Cow<'a, str>,
    #[serde(borrow, default)]
    pub statement: Cow<'a, str>,
    #[serde(default)]
    pub cursor_position: Option<u32>,
    #[serde(borrow, default)]
    pub application_name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub backend_type: Cow<'a, str>,
    #[serde(default)]
    pub leader_pid: Option<u32>,
    #[serde(borrow, default)]
    pub vxid: Cow<'a, str>,
}

/// Reads jsonlog.
#[derive(Debug, Default)]
pub(super) struct JsonReader {
    times: TimestampParser,
    /// Values that had escapes, decoded.
    unescaped: String,
}

impl Reader for JsonReader {
    fn times(&self) -> &TimestampParser {
        &self.times
    }

    fn set_zones(&mut self, reading: &ZoneReading) {
        self.times.set_reading(reading.clone());
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
        let end = match text.line_end(0, 0) {
            Some(end) => end,
            None if complete => {
                let reason = UnreadableReason::CutAtEnd;
                return (ReadResult::Unreadable { lines: 1, reason }, bytes.len());
            }
            None => return (ReadResult::More, 0),
        };
        let line = trim_line_end(&bytes[..end]);
        if line.is_empty() {
            return (
                ReadResult::Skipped {
                    lines: 1,
                    reason: SkipReason::Blank,
                },
                end,
            );
        }
        let unreadable = |reason| ReadResult::Unreadable { lines: 1, reason };
        let Some(text) = text.first_as_str(line.len()) else {
            return (unreadable(UnreadableReason::Encoding), end);
        };
        let row = match fast_path::parse_row(text) {
            Some(row) => row,
            None => match serde_json::from_str(text) {
                Ok(row) => row,
                Err(_) => return self.next_printed(bytes, complete, place),
            },
        };
        match self.entry(row, place) {
            Ok(entry) => (ReadResult::Entry(entry), end),
            Err(reason) => (unreadable(reason), end),
        }
    }
}

impl ForkReader for JsonReader {
    fn fork(&self) -> Self {
        JsonReader {
            times: self.times.clone(),
            ..Self::default()
        }
    }
}

impl JsonReader {
    /// Reads a record that is not one line: an object over several lines, or brackets around them.
    #[cold]
    fn next_printed<'a>(
        &'a mut self,
        bytes: &'a [u8],
        complete: bool,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let Some((record, length)) = split_record(bytes, complete) else {
            return (ReadResult::More, 0);
        };
        let lines = memchr::memchr_iter(b'\n', &bytes[..length]).count() as u64
            + u64::from(!bytes[..length].ends_with(b"\n"));
        let unreadable = |reason| (ReadResult::Unreadable { lines, reason }, length);
        let json = match record {
            Record::Json(json) => json,
            Record::Enclosing(reason) => {
                return (ReadResult::Skipped { lines, reason }, length);
            }
            Record::Unreadable(UnreadableReason::CutAtEnd) => {
                return unreadable(UnreadableReason::CutAtEnd);
            }
            Record::Unreadable(_) => return unreadable(UnreadableReason::NoRecord),
        };
        match serde_json::from_slice(json) {
            Ok(row) => match self.entry(row, place) {
                Ok(mut entry) => {
                    entry.lines = lines;
                    (ReadResult::Entry(entry), length)
                }
                Err(reason) => unreadable(reason),
            },
            Err(_) => unreadable(UnreadableReason::NoRecord),
        }
    }

    /// Converts a row to an entry.
    pub(super) fn entry<'a>(
        &'a mut self,
        row: Row<'a>,
        place: Location,
    ) -> Result<Entry<'a>, UnreadableReason> {
        let stamp = self
            .times
            .read(row.timestamp.as_bytes())
            .ok_or(UnreadableReason::NoRecord)?;
        let severity =
            Severity::parse(&row.error_severity).ok_or_else(|| {
                match is_foreign_label(&row.error_severity) {
                    true => UnreadableReason::Translated,
                    false => UnreadableReason::NoRecord,
                }
            })?;
        let started =
            parse_session_id(row.session_id.as_bytes()).map_or(0, |(started, _, _)| started);
        let sqlstate = Sqlstate::parse(&row.state_code);
        let backend = match row.leader_pid {
            Some(_) => Backend::ParallelWorker,
            None => Backend::parse(&row.backend_type),
        };
        let texts = [
            row.user,
            row.dbname,
            row.application_name,
            row.remote_host,
            row.message,
            row.detail,
            row.context,
            row.statement,
        ];
        self.unescaped.clear();
        let places = texts.each_ref().map(|text| match text {
            Cow::Borrowed(_) => (0, 0),
            Cow::Owned(owned) => {
                let start = self.unescaped.len();
                self.unescaped.push_str(owned);
                (start, self.unescaped.len())
            }
        });
        let port_from = self.unescaped.len();
        if let Some(port) = row.remote_port {
            write!(self.unescaped, "{port}").expect("into memory");
        }
        let unescaped = &self.unescaped;
        let port = &unescaped[port_from..];
        let mut index = 0;
        let [
            user,
            database,
            application,
            host,
            message,
            detail,
            context,
            statement,
        ] = texts.map(|text| {
            let (start, end) = places[index];
            index += 1;
            match text {
                Cow::Borrowed(text) => text,
                Cow::Owned(_) => &unescaped[start..end],
            }
        });
        Ok(Entry {
            wall_us: stamp.wall_us,
            pid: row.pid,
            started,
            line_number: row.line_num,
            backend,
            who: SessionIdentity::Named(SessionNames {
                user,
                database,
                application,
                client: (host, port),
            }),
            severity,
            sqlstate,
            message,
            detail,
            context,
            statement,
            transaction: parse_virtual_transaction(&row.vxid),
            positioned: row.cursor_position.is_some(),
            cut: false,
            place,
            lines: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_18_unset_keys_are_left_out_and_new_ones_passed_over() {
        let line = "{\"timestamp\":\"2026-03-01 09:30:05.123 UTC\",\"pid\":77,\"session_id\":\"68b1a2c3.4d\",\"line_num\":3,\"error_severity\":\"LOG\",\"message\":\"statement: select \\\"a\\\"\\n from t\",\"new_in_30\":[1]}\n";
        let mut reader = JsonReader::default();
        let (ReadResult::Entry(entry), length) =
            reader.next(line.as_bytes().into(), false, Location::default())
        else {
            panic!("no entry");
        };
        assert_eq!(length, line.len());
        assert_eq!(entry.message, "statement: select \"a\"\n from t");
        assert_eq!(
            (
                entry.who.names().user,
                entry.who.names().client,
                entry.line_number
            ),
            ("", ("", ""), 3)
        );
        for cut in 1..line.len() {
            let part = &line.as_bytes()[..cut];
            assert_eq!(
                reader.next(part.into(), false, Location::default()).0,
                ReadResult::More
            );
            assert!(matches!(
                reader.next(part.into(), true, Location::default()).0,
                ReadResult::Unreadable { .. }
            ));
        }
    }
}
