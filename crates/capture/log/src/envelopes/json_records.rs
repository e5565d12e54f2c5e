//! Splits the JSON output of command lines and sinks into records: one object a line, one array or
//! one `{"records":[…]}` a line, or a whole document printed over many lines (`gcloud logging read
//! --format=json`, `aws logs filter-log-events`).
//!
//! A printed document is split by its indentation: an object ends at the first closing brace that
//! is indented less than its keys. JSON strings contain no raw newlines, so text cannot imitate
//! that. A damaged document loses only the damaged object.

use std::borrow::Cow;

use serde::Deserialize;

use crate::entry::{line_end, trim_line_end};
use crate::{SkipReason, UnreadableReason};

/// The record at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// An object, or an array of objects.
    Json(&'a [u8]),
    /// Brackets around records, or other lines of a command.
    Enclosing(SkipReason),
    /// Unreadable text.
    Unreadable(UnreadableReason),
}

/// Beginnings of a document's own lines, other than brackets.
const ENCLOSING: [&[u8]; 6] = [
    b"\"events\":",
    b"\"records\":",
    b"\"searchedLogStreams\":",
    b"\"nextToken\":",
    b"\"nextForwardToken\":",
    b"\"nextBackwardToken\":",
];

/// Objects in an object, as Event Hubs and `aws logs` write them.
#[derive(Debug, Deserialize)]
struct RecordArray<T> {
    #[serde(alias = "events")]
    records: Vec<T>,
}

/// Parses one row, or an array of rows.
pub(super) fn parse_rows<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<Vec<T>> {
    if json.starts_with(b"[") {
        return serde_json::from_slice(json).ok();
    }
    let one = serde_json::from_slice::<T>(json).map(|row| vec![row]);
    one.or_else(|_| serde_json::from_slice::<RecordArray<T>>(json).map(|several| several.records))
        .ok()
}

/// Removes the newlines at a text's end.
pub(super) fn trim_newlines(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches('\n').as_bytes()),
        Cow::Owned(mut text) => {
            text.truncate(text.trim_end_matches('\n').len());
            Cow::Owned(text.into_bytes())
        }
    }
}

/// Splits the record off the start of `bytes`; returns it and its length, or `None` if it may
/// continue.
pub(crate) fn split_record(bytes: &[u8], complete: bool) -> Option<(Record<'_>, usize)> {
    let end = line_end(bytes, 0).or(complete.then_some(bytes.len()))?;
    let whole = trim_line_end(&bytes[..end]);
    let line = whole.trim_ascii();
    let record = match line {
        b"" => Record::Enclosing(SkipReason::Blank),
        b"[" | b"]" | b"}" | b"]," | b"}," | b"[]" => Record::Enclosing(SkipReason::Wrapping),
        b"{" => return split_printed(bytes, whole, end, complete),
        _ if ENCLOSING.iter().any(|start| line.starts_with(start)) => {
            Record::Enclosing(SkipReason::Wrapping)
        }
        [b'{' | b'[', ..] => Record::Json(line.strip_suffix(b",").unwrap_or(line)),
        [b'"', ..] => Record::Unreadable(UnreadableReason::LooseContinuation),
        _ => Record::Unreadable(UnreadableReason::NoRecord),
    };
    Some((record, end))
}

/// Splits off an object over several lines, the first of which is `{` alone.
fn split_printed<'a>(
    bytes: &'a [u8],
    first: &[u8],
    first_end: usize,
    complete: bool,
) -> Option<(Record<'a>, usize)> {
    let start = first.len() - first.trim_ascii_start().len();
    let mut at = first_end;
    // Indentation of its keys; the input may begin within the first brace's own indentation.
    let mut keys = None;
    loop {
        let Some(end) =
            line_end(bytes, at).or((complete && at < bytes.len()).then_some(bytes.len()))
        else {
            let reason = UnreadableReason::CutAtEnd;
            return complete.then_some((Record::Unreadable(reason), bytes.len()));
        };
        let whole = trim_line_end(&bytes[at..end]);
        let line = whole.trim_ascii();
        let indent = whole.len() - whole.trim_ascii_start().len();
        if keys.is_none() && ENCLOSING[..2].iter().any(|start| line.starts_with(start)) {
            return Some((Record::Enclosing(SkipReason::Wrapping), first_end));
        }
        let closes = matches!(line, b"}" | b"},");
        if indent < *keys.get_or_insert(indent) || indent <= start || (closes && at == first_end) {
            return Some(match closes {
                true => {
                    let close = at + indent + 1;
                    (Record::Json(bytes[..close].trim_ascii_start()), end)
                }
                // The object's end is missing.
                false => (Record::Unreadable(UnreadableReason::NoRecord), at),
            });
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, complete: bool) -> Vec<String> {
        let (mut at, mut found) = (0, Vec::new());
        while at < text.len() {
            let Some((record, length)) = split_record(&text.as_bytes()[at..], complete) else {
                found.push("more".to_owned());
                break;
            };
            found.push(match record {
                Record::Json(json) => String::from_utf8_lossy(json).into_owned(),
                other => format!("{other:?}"),
            });
            at += length;
        }
        found
    }

    #[test]
    fn lines_and_printed_documents_are_cut_into_records() {
        assert_eq!(
            all("{\"a\":1}\n{\"a\":2},\n\n[{\"a\":3}]\n", false),
            ["{\"a\":1}", "{\"a\":2}", "Enclosing(Blank)", "[{\"a\":3}]"]
        );
        let printed =
            "[\n  {\n    \"a\": {\n      \"b\": \"}\"\n    }\n  },\n  {\n    \"a\": 2\n  }\n]";
        let found = all(printed, true);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[1].ends_with("}\"\n    }\n  }"), "{found:?}");
        let events = "{\n    \"events\": [\n        {\n            \"a\": 1\n        }\n    ],\n    \"nextToken\": \"x\"\n}\n";
        let found = all(events, false);
        let enclosing = found.iter().filter(|one| *one == "Enclosing(Wrapping)");
        assert_eq!((found.len(), enclosing.count()), (6, 5), "{found:?}");
    }

    #[test]
    fn a_damaged_object_is_lost_alone() {
        let text = "  {\n    \"a\": 1,\n  {\n    \"a\": 2\n  },\nnoise\n  {\n    \"a\"";
        let found = all(text, true);
        assert_eq!(found[0], "Unreadable(NoRecord)");
        assert!(found[1].contains("2"), "{found:?}");
        assert_eq!(found[2], "Unreadable(NoRecord)");
        assert_eq!(found[3], "Unreadable(CutAtEnd)");
        let cut_before = all(" {\n    \"a\": 1\n  },\n  {\n    \"a\": 2\n  }\n", true);
        assert_eq!(cut_before.len(), 2, "{cut_before:?}");
        assert_eq!(all("  {\n    \"a\": 1\n", false), ["more"]);
        assert_eq!(
            all("    \"a\": 1\n", false),
            ["Unreadable(LooseContinuation)"]
        );
    }
}
