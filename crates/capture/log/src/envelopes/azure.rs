//! Azure Database for PostgreSQL, by its diagnostic settings: JSON lines of the category
//! `PostgreSQLLogs`, or `{"records":[…]}` from an event hub.
//!
//! `message` is the server's line with its prefix, `detail` its DETAIL. STATEMENT, CONTEXT and
//! other lines are missing. The former Single Server wrote the prefix separately.

use std::borrow::Cow;

use serde::Deserialize;
use workload::Sqlstate;

use super::json_records;
use super::json_records::Record;
use super::reassemble::{EnvelopeFields, Part, PartKind};
use super::time::parse_iso;
use super::{RecordContent, Unwrap};
use crate::UnreadableReason;
use crate::timestamp::TimestampParser;

/// Unwraps diagnostic records.
#[derive(Debug, Default)]
pub(super) struct Azure {
    times: TimestampParser,
}

#[derive(Debug, Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    category: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(borrow, default, rename = "resourceId")]
    resource: Cow<'a, str>,
    #[serde(borrow)]
    properties: Properties<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties<'a> {
    #[serde(borrow, default)]
    timestamp: Cow<'a, str>,
    #[serde(default)]
    process_id: Option<u32>,
    #[serde(borrow, default)]
    error_level: Cow<'a, str>,
    #[serde(borrow, default)]
    sqlerrcode: Cow<'a, str>,
    #[serde(borrow, default)]
    prefix: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    detail: Cow<'a, str>,
    #[serde(borrow, default)]
    context: Cow<'a, str>,
    #[serde(borrow, default)]
    statement: Cow<'a, str>,
}

/// Category of server logs.
const CATEGORY: &str = "PostgreSQLLogs";

impl Unwrap for Azure {
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)> {
        let (record, length) = json_records::split_record(bytes, complete)?;
        let content = match record {
            Record::Json(json) => match json_records::parse_rows::<Row>(json) {
                Some(rows) => {
                    for row in rows {
                        parts(self.part(row));
                    }
                    RecordContent::Parts
                }
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

impl Azure {
    fn part<'a>(&mut self, row: Row<'a>) -> Part<'a> {
        let content = row.properties;
        let text = match &*content.prefix {
            "" => json_records::trim_newlines(content.message),
            prefix => {
                let message = single_server(&content.message);
                let level = &content.error_level;
                Cow::Owned(format!("{prefix}{level}:  {message}").into_bytes())
            }
        };
        let mut part = Part::new(PartKind::Line { loose: false }, text);
        part.pid = content.process_id;
        // The message has the time of writing; these are times of arrival.
        part.wall_us = self
            .times
            .read(content.timestamp.as_bytes())
            .map(|stamp| stamp.wall_us)
            .or_else(|| parse_iso(row.time.as_bytes()).map(|(wall_us, _)| wall_us));
        part.server = row.resource;
        part.program = row.category;
        let envelope_fields = EnvelopeFields {
            sqlstate: Sqlstate::parse(&content.sqlerrcode),
            detail: content.detail.into_owned(),
            context: content.context.into_owned(),
            statement: content.statement.into_owned(),
        };
        part.envelope_fields =
            (envelope_fields != EnvelopeFields::default()).then(|| Box::new(envelope_fields));
        part
    }
}

/// Restores messages that Single Server changed: `… port=38850 pid=3312`, `user=appdatabase=shop`.
fn single_server(message: &str) -> Cow<'_, str> {
    let message = message.trim_end_matches('\n');
    if message.starts_with("connection received: ")
        && let Some((own, pid)) = message.rsplit_once(" pid=")
        && pid.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Cow::Borrowed(own);
    }
    if message.starts_with("connection authorized: ")
        && let Some((user, rest)) = message.split_once("database=")
        && !user.ends_with(' ')
    {
        return Cow::Owned(format!("{user} database={rest}"));
    }
    Cow::Borrowed(message)
}

/// Returns whether a record's category is that of server logs.
pub(super) fn is_server_log(program: &str) -> bool {
    program == CATEGORY
}
