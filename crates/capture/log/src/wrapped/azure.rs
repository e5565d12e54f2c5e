//! Azure Database for PostgreSQL, by its diagnostic settings: JSON lines of the category
//! `PostgreSQLLogs`, or `{"records":[…]}` from an event hub.
//!
//! `message` is the server's line with its prefix, `detail` its DETAIL. What else the server said of
//! it (STATEMENT, CONTEXT) is not there. The former Single Server wrote the prefix apart.

use std::borrow::Cow;

use serde::Deserialize;
use workload::Sqlstate;

use super::gather::{Beside, Chunk, Part};
use super::json_records;
use super::json_records::Record;
use super::time::iso;
use super::{Said, Unwrap};
use crate::UnreadableReason;
use crate::timestamp::Timestamps;

/// Takes a diagnostic record off.
#[derive(Debug, Default)]
pub(super) struct Azure {
    times: Timestamps,
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

/// The category of server logs.
const CATEGORY: &str = "PostgreSQLLogs";

impl Unwrap for Azure {
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(Said, usize)> {
        let (record, length) = json_records::cut(bytes, complete)?;
        let said = match record {
            Record::Json(json) => match json_records::rows::<Row>(json) {
                Some(rows) => {
                    for row in rows {
                        parts(self.part(row));
                    }
                    Said::Parts
                }
                None => Said::Unreadable(UnreadableReason::NoRecord),
            },
            Record::Around(reason) => Said::Skipped(reason),
            Record::Unreadable(reason) => Said::Unreadable(reason),
        };
        Some((said, length))
    }

    fn ends_by_itself(&self) -> bool {
        true
    }
}

impl Azure {
    fn part<'a>(&mut self, row: Row<'a>) -> Part<'a> {
        let said = row.properties;
        let text = match &*said.prefix {
            "" => json_records::text(said.message),
            prefix => {
                let message = single_server(&said.message);
                let level = &said.error_level;
                Cow::Owned(format!("{prefix}{level}:  {message}").into_bytes())
            }
        };
        let mut part = Part::new(Chunk::Line { loose: false }, text);
        part.pid = said.process_id;
        // The time in the message is when its process wrote it; these are when it came by.
        part.wall_us = self
            .times
            .read(said.timestamp.as_bytes())
            .map(|stamp| stamp.wall_us)
            .or_else(|| iso(row.time.as_bytes()).map(|(wall_us, _)| wall_us));
        part.server = row.resource;
        part.program = row.category;
        let beside = Beside {
            sqlstate: Sqlstate::parse(&said.sqlerrcode),
            detail: said.detail.into_owned(),
            context: said.context.into_owned(),
            statement: said.statement.into_owned(),
        };
        part.beside = (beside != Beside::default()).then(|| Box::new(beside));
        part
    }
}

/// Single Server changed some messages: `… port=38850 pid=3312`, `user=appdatabase=shop`.
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

/// Whether a record's category is that of server logs.
pub(super) fn is_server_log(program: &str) -> bool {
    program == CATEGORY
}
