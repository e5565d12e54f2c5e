//! Google Cloud SQL and AlloyDB, by Cloud Logging: entries as JSON lines (a sink's, or `gcloud
//! logging read --format=json | jq -c '.[]'`) or as the array that gcloud prints.
//!
//! Each line of the server is the `textPayload` of one entry. DETAIL, STATEMENT and similar lines
//! are separate entries, and lines after a newline may be, too. AlloyDB writes `[postgres.c:1214]`
//! before a message.

use std::borrow::Cow;

use serde::Deserialize;

use super::json_records;
use super::json_records::Record;
use super::reassemble::{Part, PartKind};
use super::time::parse_iso;
use super::{RecordContent, Unwrap};
use crate::UnreadableReason;
use crate::severity::Severity;

/// Unwraps entries of Cloud Logging.
#[derive(Debug, Default)]
pub(super) struct CloudSql;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(borrow)]
    log_name: Cow<'a, str>,
    #[serde(borrow, default)]
    text_payload: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    timestamp: Cow<'a, str>,
    #[serde(borrow, default)]
    resource: Resource<'a>,
    #[serde(borrow, default)]
    labels: Labels<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default)]
    labels: Labels<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default)]
    database_id: Cow<'a, str>,
    #[serde(borrow, default)]
    instance_id: Cow<'a, str>,
    #[serde(borrow, default, rename = "NODE_ID")]
    node: Cow<'a, str>,
}

/// The end of the log's name.
pub(super) const LOG: &str = "postgres.log";

impl Unwrap for CloudSql {
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
                    rows.into_iter().for_each(|row| parts(row.part()));
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

impl<'a> Row<'a> {
    fn part(self) -> Part<'a> {
        let ours = self.log_name.ends_with(LOG);
        let text = self
            .text_payload
            .map_or(Cow::Borrowed(&b""[..]), json_records::trim_newlines);
        let mut part = Part::new(PartKind::Line { loose: true }, without_source(text));
        part.wall_us = parse_iso(self.timestamp.as_bytes()).map(|(wall_us, _)| wall_us);
        part.program = match ours {
            true => Cow::Borrowed(LOG),
            false => self.log_name,
        };
        let labels = self.resource.labels;
        part.server = match (&*labels.database_id, &*self.labels.node) {
            ("", "") => labels.instance_id,
            // A read pool has several nodes.
            ("", node) => Cow::Owned(format!("{} {node}", labels.instance_id)),
            _ => labels.database_id,
        };
        part
    }
}

/// Labels that are no severities.
const LABELS: [&str; 7] = [
    "DETAIL",
    "HINT",
    "QUERY",
    "CONTEXT",
    "LOCATION",
    "STATEMENT",
    "BACKTRACE",
];

/// Maximum offset of the source within a line.
const SOURCE_WITHIN: usize = 1_000;

/// Removes `[postgres.c:1214]` from between the severity and the message, with the blanks around
/// it.
fn without_source(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let window = &text[..text.len().min(SOURCE_WITHIN)];
    let labelled = memchr::memchr_iter(b':', window).find(|colon| {
        let word = window[..*colon]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            .count();
        let word = std::str::from_utf8(&window[colon - word..*colon]).unwrap_or("");
        Severity::parse(word).is_some() || LABELS.contains(&word)
    });
    let source = |colon: usize| {
        let rest = &window[colon + 1..];
        let open = rest.iter().take_while(|byte| **byte == b' ').count();
        let inner = rest[open..].strip_prefix(b"[")?;
        let close = memchr::memchr(b']', inner)?;
        let (file, line) = inner[..close].split_at(memchr::memrchr(b':', &inner[..close])?);
        let is_source = memchr::memchr(b'.', file).is_some()
            && line.len() > 1
            && line[1..].iter().all(u8::is_ascii_digit)
            && !file.contains(&b' ');
        is_source.then_some((colon + 1, colon + 1 + open + 1 + close + 1))
    };
    let found = labelled.and_then(source);
    match found {
        None => text,
        Some((from, end)) => {
            let blanks = text[end..].iter().take_while(|byte| **byte == b' ').count();
            let mut plain = text[..from].to_vec();
            plain.extend_from_slice(b"  ");
            // AlloyDB writes text after a newline unchanged; the server writes a tab before it.
            let mut rest = &text[end + blanks..];
            while let Some(newline) = memchr::memchr(b'\n', rest) {
                plain.extend_from_slice(&rest[..=newline]);
                plain.push(b'\t');
                rest = &rest[newline + 1..];
            }
            plain.extend_from_slice(rest);
            Cow::Owned(plain)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alloydb_writes_where_a_message_comes_from() {
        for (text, plain) in [
            (
                "[7]: [1-1] db=a,user=b LOG:  [postgres.c:1214]  statement: x",
                "[7]: [1-1] db=a,user=b LOG:  statement: x",
            ),
            (
                "[7]: ERROR:[parse_relation.c:1395]relation \"x\"",
                "[7]: ERROR:  relation \"x\"",
            ),
            (
                "[7]: LOG: [postgres.c:1187] statement: x\ny",
                "[7]: LOG:  statement: x\n\ty",
            ),
            (
                "[7]: LOG:  statement: ERROR:[a.b:1]",
                "[7]: LOG:  statement: ERROR:[a.b:1]",
            ),
            (
                "[7]: LOG:  statement: select '[a.c:1]'",
                "[7]: LOG:  statement: select '[a.c:1]'",
            ),
        ] {
            let found = without_source(Cow::Borrowed(text.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&found), plain);
        }
    }
}
