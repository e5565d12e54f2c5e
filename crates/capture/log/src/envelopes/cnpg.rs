//! CloudNativePG: each line is a JSON object of the operator. Those of `"logger":"postgres"` have
//! csvlog's columns by name in `record`, all as strings. `kubectl` may write text before it.

use std::borrow::Cow;

use serde::Deserialize;

use crate::entry::{ReadResult, Reader, split_host_and_port, trim_line_end};
use crate::json::{JsonReader, Row};
use crate::reconcile::Location;
use crate::text::Text;
use crate::timestamp::TimestampParser;
use crate::zones::ZoneReading;
use crate::{SkipReason, UnreadableReason};

/// Reads CloudNativePG's lines.
#[derive(Debug, Default)]
pub(crate) struct CnpgReader {
    /// The pod whose lines are read; empty for all pods.
    pod: String,
    inner: JsonReader,
}

impl CnpgReader {
    /// Creates a reader of one pod's lines.
    pub(crate) fn of(pod: String) -> Self {
        CnpgReader {
            pod,
            inner: JsonReader::default(),
        }
    }
}

/// An operator's line that has one of the server's.
#[derive(Debug, Deserialize)]
pub(super) struct OperatorLine<'a> {
    #[serde(borrow)]
    logger: Cow<'a, str>,
    #[serde(borrow, default, rename = "logging_pod", alias = "logging_podName")]
    pub pod: Cow<'a, str>,
    #[serde(borrow)]
    pub record: Record<'a>,
}

/// Any other line of the operator.
#[derive(Debug, Deserialize)]
struct OtherLine<'a> {
    #[serde(borrow, default)]
    logger: Cow<'a, str>,
    /// The operator's own message; a line without `logger` is the manager's.
    #[serde(borrow, default)]
    msg: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    level: Option<Cow<'a, str>>,
}

/// The content of a line.
pub(super) enum LineContent<'a> {
    Record(Box<OperatorLine<'a>>),
    /// A line of another of the operator's programs, or no message.
    Other(SkipReason),
    Unreadable,
}

/// Parses a line.
pub(super) fn parse_line(line: &[u8]) -> LineContent<'_> {
    let Some(object) = find_object(line) else {
        return LineContent::Unreadable;
    };
    match serde_json::from_slice::<OperatorLine>(object) {
        Ok(line) if line.logger == "postgres" => LineContent::Record(Box::new(line)),
        Ok(line) if line.logger == "pgaudit" => LineContent::Other(SkipReason::Audit),
        Ok(_) => LineContent::Other(SkipReason::OtherProgram),
        // A line of the server that is no record, such as output before its log begins, is no
        // message either.
        Err(_) => match serde_json::from_slice::<OtherLine>(object) {
            Ok(other) if other.logger == "pgaudit" => LineContent::Other(SkipReason::Audit),
            Ok(other)
                if !other.logger.is_empty() || other.msg.is_some() && other.level.is_some() =>
            {
                LineContent::Other(SkipReason::OtherProgram)
            }
            Ok(_) | Err(_) => LineContent::Unreadable,
        },
    }
}

/// csvlog's columns.
#[derive(Debug, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(borrow)]
    pub log_time: Cow<'a, str>,
    #[serde(borrow, default)]
    user_name: Cow<'a, str>,
    #[serde(borrow, default)]
    database_name: Cow<'a, str>,
    #[serde(borrow, default)]
    process_id: Cow<'a, str>,
    #[serde(borrow, default)]
    connection_from: Cow<'a, str>,
    #[serde(borrow, default)]
    session_id: Cow<'a, str>,
    #[serde(borrow, default)]
    virtual_transaction_id: Cow<'a, str>,
    #[serde(borrow, default)]
    session_line_num: Cow<'a, str>,
    #[serde(borrow)]
    pub error_severity: Cow<'a, str>,
    #[serde(borrow, default)]
    sql_state_code: Cow<'a, str>,
    #[serde(borrow, default)]
    pub message: Cow<'a, str>,
    #[serde(borrow, default)]
    detail: Cow<'a, str>,
    #[serde(borrow, default)]
    context: Cow<'a, str>,
    #[serde(borrow, default)]
    query: Cow<'a, str>,
    #[serde(borrow, default)]
    query_pos: Cow<'a, str>,
    #[serde(borrow, default)]
    application_name: Cow<'a, str>,
    #[serde(borrow, default)]
    backend_type: Cow<'a, str>,
    #[serde(borrow, default)]
    leader_pid: Cow<'a, str>,
}

/// Maximum offset of an object within its line.
const BEFORE_MAX: usize = 400;

/// Removes the text that `kubectl` and container runtimes write before the object (`[pod/…] `, a
/// time, `stdout F `).
fn find_object(line: &[u8]) -> Option<&[u8]> {
    let from = memchr::memchr(b'{', &line[..line.len().min(BEFORE_MAX)])?;
    Some(&line[from..])
}

impl Reader for CnpgReader {
    fn times(&self) -> &TimestampParser {
        self.inner.times()
    }

    fn set_zones(&mut self, reading: &ZoneReading) {
        self.inner.set_zones(reading);
    }

    fn next<'a>(
        &'a mut self,
        text: Text<'a>,
        complete: bool,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let bytes = text.bytes();
        let Some(end) = text.line_end(0, 0).or(complete.then_some(bytes.len())) else {
            return (ReadResult::More, 0);
        };
        let whole = bytes[..end].ends_with(b"\n");
        let line = trim_line_end(&bytes[..end]);
        let skipped = |reason| (ReadResult::Skipped { lines: 1, reason }, end);
        let unreadable = |reason| (ReadResult::Unreadable { lines: 1, reason }, end);
        if line.is_empty() {
            return skipped(SkipReason::Blank);
        }
        let line = match parse_line(line) {
            LineContent::Record(line) => line,
            LineContent::Other(reason) => return skipped(reason),
            LineContent::Unreadable => {
                return unreadable(match std::str::from_utf8(line) {
                    _ if !whole => UnreadableReason::CutAtEnd,
                    Err(_) => UnreadableReason::Encoding,
                    Ok(_) => UnreadableReason::NoRecord,
                });
            }
        };
        if !self.pod.is_empty() && line.pod != self.pod {
            return skipped(SkipReason::OtherServer);
        }
        match line.record.row() {
            Some(row) => match self.inner.entry(row, place) {
                Ok(entry) => (ReadResult::Entry(entry), end),
                Err(reason) => unreadable(reason),
            },
            None => unreadable(UnreadableReason::NoRecord),
        }
    }
}

impl<'a> Record<'a> {
    /// Converts to a jsonlog row.
    fn row(self) -> Option<Row<'a>> {
        let (host, port) = match &self.connection_from {
            Cow::Borrowed(from) => {
                let (host, port) = split_host_and_port(from);
                (Cow::Borrowed(host), port.parse().ok())
            }
            Cow::Owned(from) => {
                let (host, port) = split_host_and_port(from);
                (Cow::Owned(host.to_owned()), port.parse().ok())
            }
        };
        Some(Row {
            timestamp: self.log_time,
            user: self.user_name,
            dbname: self.database_name,
            pid: self.process_id.parse().ok()?,
            remote_host: host,
            remote_port: port,
            session_id: self.session_id,
            line_num: self.session_line_num.parse().unwrap_or(0),
            error_severity: self.error_severity,
            state_code: self.sql_state_code,
            message: self.message,
            detail: self.detail,
            context: self.context,
            statement: self.query,
            cursor_position: self.query_pos.parse().ok(),
            application_name: self.application_name,
            backend_type: self.backend_type,
            leader_pid: self.leader_pid.parse().ok(),
            vxid: self.virtual_transaction_id,
        })
    }
}
