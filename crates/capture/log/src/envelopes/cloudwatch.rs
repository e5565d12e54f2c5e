//! Amazon CloudWatch Logs, as RDS and Aurora write to it: an export to S3 (`TIME EVENT`, further
//! lines of an event as they are), `aws logs tail` (`TIME STREAM EVENT`), and the JSON of
//! `aws logs filter-log-events` and `get-log-events`.

use std::borrow::Cow;

use serde::Deserialize;

use super::json_records;
use super::json_records::Record;
use super::reassemble::{Part, PartKind};
use super::time::parse_iso;
use super::{RecordContent, Unwrap};
use crate::entry::{line_end, trim_line_end};
use crate::{SkipReason, UnreadableReason};

/// Removes CloudWatch's time.
#[derive(Debug, Default)]
pub(super) struct CloudWatch {
    /// A log stream's name follows the time.
    pub stream: bool,
}

#[derive(Debug, Deserialize)]
struct Row<'a> {
    /// Milliseconds since 1970-01-01 UTC.
    timestamp: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow, default, rename = "logStreamName")]
    stream: Cow<'a, str>,
}

impl Unwrap for CloudWatch {
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)> {
        let end = line_end(bytes, 0).or(complete.then_some(bytes.len()))?;
        let line = trim_line_end(&bytes[..end]);
        if let Some((wall_us, length)) =
            parse_iso(line).filter(|(_, length)| matches!(line.get(*length), None | Some(b' ')))
        {
            let mut text = line.get(length + 1..).unwrap_or_default();
            let mut server = Cow::Borrowed("");
            if self.stream {
                let name = memchr::memchr(b' ', text).unwrap_or(text.len());
                server = String::from_utf8_lossy(&text[..name]);
                text = text.get(name + 1..).unwrap_or_default();
            }
            if text.is_empty() {
                let content = match bytes[..end].ends_with(b"\n") {
                    true => RecordContent::Skipped(SkipReason::Blank),
                    false => RecordContent::Unreadable(UnreadableReason::CutAtEnd),
                };
                return Some((content, end));
            }
            let mut part = Part::new(PartKind::Line { loose: false }, text);
            part.wall_us = Some(wall_us);
            part.server = server;
            parts(part);
            return Some((RecordContent::Parts, end));
        }
        let (record, length) = json_records::split_record(bytes, complete)?;
        let content = match record {
            Record::Json(json) => match json_records::parse_rows::<Row>(json) {
                Some(rows) => {
                    for row in rows {
                        let text = json_records::trim_newlines(row.message);
                        let mut part = Part::new(PartKind::Line { loose: false }, text);
                        part.wall_us = Some(row.timestamp.saturating_mul(1_000));
                        part.server = row.stream;
                        parts(part);
                    }
                    RecordContent::Parts
                }
                // A line of an event may start with a brace.
                None => return Some((continues(line, parts), end)),
            },
            Record::Enclosing(reason) => RecordContent::Skipped(reason),
            Record::Unreadable(UnreadableReason::CutAtEnd) => {
                RecordContent::Unreadable(UnreadableReason::CutAtEnd)
            }
            Record::Unreadable(_) => return Some((continues(line, parts), end)),
        };
        Some((content, length))
    }
}

fn continues<'a>(line: &'a [u8], parts: &mut dyn FnMut(Part<'a>)) -> RecordContent {
    parts(Part::new(PartKind::Continues, line));
    RecordContent::Parts
}
