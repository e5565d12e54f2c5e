//! JSON records that hold one of the server's lines each: Docker's json-file, filebeat, Fluent Bit,
//! Vector, Loki (`logcli -o jsonl`), `journalctl -o json`, and Azure's Log Analytics.
//!
//! Their keys differ; the text is the value of the first known key. Docker splits lines of more
//! than 16 KiB: only the last piece ends with a newline.

use std::borrow::Cow;

use serde_json::{Map, Value};
use workload::Sqlstate;

use super::json_records;
use super::json_records::Record;
use super::reassemble::{EnvelopeFields, Part, PartKind};
use super::time::parse_iso;
use super::{RecordContent, Unwrap};
use crate::{SkipReason, UnreadableReason};

/// Keys of the text.
const TEXTS: [&str; 11] = [
    "log",
    "message",
    "MESSAGE",
    "Message",
    "msg",
    "line",
    "@message",
    "message_s",
    "body",
    "text",
    "_raw",
];
/// Keys of the time.
const TIMES: [&str; 8] = [
    "time",
    "@timestamp",
    "timestamp",
    "ts",
    "TimeGenerated",
    "TimeGenerated [UTC]",
    "_time",
    "datetime",
];
/// Keys of the process.
const PROCESSES: [&str; 4] = ["SYSLOG_PID", "processId_d", "ProcessId", "processId"];
/// Paths of the server's name; the first that a record has counts.
const SERVERS: [&str; 15] = [
    "kubernetes/pod/name",
    "kubernetes/pod_name",
    "labels/pod",
    "podName",
    "pod",
    "container/id",
    "container_id",
    "labels/instance",
    "labels/filename",
    "LogicalServerName_s",
    "LogicalServerName",
    "_HOSTNAME",
    "host/name",
    "hostname",
    "host",
];
/// Paths of the program's name.
const PROGRAMS: [&str; 7] = [
    "SYSLOG_IDENTIFIER",
    "kubernetes/container/name",
    "kubernetes/container_name",
    "labels/container",
    "containerName",
    "container_name",
    "stream",
];
/// Objects in which some services put the record.
const INNER: [&str; 3] = ["_source", "result", "properties"];
/// Arrays of records.
const ARRAYS: [&str; 3] = ["records", "events", "hits"];

/// Takes the text out of JSON records.
#[derive(Debug, Default)]
pub(super) struct Shipper {
    /// Texts end with a newline, unless they are pieces of a line.
    pub terminated: bool,
    /// The last text was a piece of a line.
    partial: bool,
}

impl Shipper {
    pub(super) fn new(terminated: bool) -> Self {
        Shipper {
            terminated,
            partial: false,
        }
    }
}

impl Unwrap for Shipper {
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)> {
        let (record, length) = json_records::split_record(bytes, complete)?;
        let content = match record {
            Record::Json(json) => match serde_json::from_slice(json).ok().and_then(into_rows) {
                Some(rows) => self.add_rows(rows, parts),
                None => RecordContent::Unreadable(UnreadableReason::NoRecord),
            },
            Record::Enclosing(reason) => RecordContent::Skipped(reason),
            Record::Unreadable(reason) => RecordContent::Unreadable(reason),
        };
        Some((content, length))
    }

    fn marks_its_end(&self) -> bool {
        true
    }
}

impl Shipper {
    fn add_rows<'a>(
        &mut self,
        rows: Vec<Map<String, Value>>,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> RecordContent {
        let mut any = false;
        for row in rows {
            let Some(text) = TEXTS.iter().find_map(|key| text_of(row.get(*key)?)) else {
                continue;
            };
            any = true;
            let mut part = part_of(&row);
            part.joined = std::mem::take(&mut self.partial);
            let has_end = text.ends_with(b"\n");
            let tagged = row.get("logtag").and_then(Value::as_str) == Some("P");
            self.partial = tagged || self.terminated && !has_end;
            let end = text.len() - text.iter().rev().take_while(|byte| **byte == b'\n').count();
            part.text = Cow::Owned(text[..end].to_vec());
            parts(part);
        }
        match any {
            true => RecordContent::Parts,
            false => RecordContent::Skipped(SkipReason::OtherProgram),
        }
    }
}

/// Returns whether most texts of the sample end with a newline.
pub(super) fn is_terminated(sample: &[u8]) -> bool {
    let lines = || memchr::memmem::find_iter(sample, b"{\"log\":\"").count();
    let ended = || memchr::memmem::find_iter(sample, b"\\n\",\"").count();
    sample.starts_with(b"{\"log\":") && ended() * 2 > lines()
}

/// Returns the records in a value; `None` if it holds none, or a row of jsonlog.
fn into_rows(value: Value) -> Option<Vec<Map<String, Value>>> {
    match value {
        Value::Array(values) => values
            .into_iter()
            .map(into_rows)
            .collect::<Option<Vec<_>>>()
            .map(|rows| rows.concat()),
        Value::Object(mut row) => {
            if row.contains_key("error_severity") {
                return None;
            }
            for key in ARRAYS {
                if let Some(Value::Array(_)) = row.get(key) {
                    return into_rows(row.remove(key)?);
                }
            }
            for key in INNER {
                if let Some(Value::Object(inner)) = row.get_mut(key) {
                    let inner = std::mem::take(inner);
                    row.extend(inner);
                }
            }
            Some(vec![row])
        }
        _ => None,
    }
}

/// Returns a text; journald writes one that is not printable as an array of bytes.
fn text_of(value: &Value) -> Option<Cow<'_, [u8]>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text.as_bytes())),
        Value::Array(bytes) => bytes
            .iter()
            .map(|byte| u8::try_from(byte.as_u64()?).ok())
            .collect::<Option<Vec<u8>>>()
            .map(Cow::Owned),
        _ => None,
    }
}

/// Creates a part without its text.
fn part_of<'a>(row: &Map<String, Value>) -> Part<'a> {
    let mut part = Part::new(PartKind::Line { loose: false }, &b""[..]);
    let name = |paths: &[&str]| {
        let found = paths.iter().find_map(|path| {
            let mut keys = path.split('/');
            let first = row.get(keys.next()?)?;
            keys.try_fold(first, |value, key| value.get(key))?.as_str()
        });
        Cow::Owned(found.unwrap_or_default().to_owned())
    };
    part.server = name(&SERVERS);
    part.program = name(&PROGRAMS);
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64().map(|number| number as u64),
    };
    part.pid = PROCESSES
        .iter()
        .find_map(|key| number(row.get(*key)?))
        .and_then(|pid| u32::try_from(pid).ok());
    // The process of a stream of standard output is the postmaster.
    let stdout = row.get("_TRANSPORT").and_then(Value::as_str) == Some("stdout");
    if part.pid.is_none() && !stdout {
        let pid = row.get("_PID").and_then(number);
        part.pid = pid.and_then(|pid| u32::try_from(pid).ok());
    }
    part.wall_us = match row.get("__REALTIME_TIMESTAMP").and_then(number) {
        Some(us) => i64::try_from(us).ok(),
        None => TIMES
            .iter()
            .find_map(|key| parse_iso(row.get(*key)?.as_str()?.as_bytes()))
            .map(|(wall_us, _)| wall_us),
    };
    let text = |keys: [&str; 3]| {
        let found = keys.iter().find_map(|key| row.get(*key)?.as_str());
        found.unwrap_or_default().to_owned()
    };
    let fields = EnvelopeFields {
        sqlstate: Sqlstate::parse(&text(["sqlerrcode_s", "SqlErrorCode", "sqlerrcode"])),
        detail: text(["detail_s", "Detail", "detail"]),
        context: text(["context_s", "Context", "context"]),
        statement: text(["statement_s", "Statement", "statement"]),
    };
    part.envelope_fields = (fields != EnvelopeFields::default()).then(|| Box::new(fields));
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(terminated: bool, lines: &str) -> Vec<(String, bool)> {
        let mut unwrap = Shipper::new(terminated);
        let (mut at, mut found) = (0, Vec::new());
        while at < lines.len() {
            let mut add = |part: Part<'_>| {
                let text = String::from_utf8_lossy(&part.text).into_owned();
                found.push((text, part.joined));
            };
            let record = unwrap.record(&lines.as_bytes()[at..], true, &mut add);
            at += record.expect("it is complete").1;
        }
        found
    }

    #[test]
    fn a_piece_of_a_line_lacks_its_newline() {
        let docker =
            "{\"log\":\"a\",\"stream\":\"stderr\"}\n{\"log\":\"b\\n\"}\n{\"log\":\"c\\n\"}\n";
        let own = |text: &str, joined| (text.to_owned(), joined);
        assert_eq!(
            texts(true, docker),
            [own("a", false), own("b", true), own("c", false)]
        );
        assert_eq!(texts(false, docker).iter().filter(|one| one.1).count(), 0);
    }

    #[test]
    fn the_text_is_found_in_each_services_record() {
        for record in [
            r#"{"@timestamp":"2026-03-01T09:00:00Z","message":"x","host":{"name":"a"}}"#,
            r#"{"labels":{"pod":"db-0"},"line":"x","timestamp":"2026-03-01T09:00:00Z"}"#,
            r#"{"MESSAGE":[120],"_PID":"7","__REALTIME_TIMESTAMP":"1772357405123000"}"#,
            r#"{"_source":{"message":"x"}}"#,
            r#"[{"Message":"x","ErrorLevel":"LOG","ProcessId":7}]"#,
        ] {
            assert_eq!(texts(false, record), [("x".to_owned(), false)], "{record}");
        }
    }
}
