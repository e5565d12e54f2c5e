//! Classifies the text of a LOG entry.

use super::SkipReason;
use super::byte_search::parse_number;

/// A step of the extended protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Parse,
    Bind,
    Execute,
    Fetch,
}

/// The content of a message. Borrows its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Message<'a> {
    /// `statement: …`, or `duration: … ms  statement: …`
    Simple {
        sql: &'a str,
        duration_us: Option<u64>,
    },
    /// `execute NAME: …`, or with a duration, which parse and bind can have too. `named` is the
    /// text from the name on.
    Extended {
        step: Step,
        named: &'a str,
        duration_us: Option<u64>,
    },
    /// A bare `duration: … ms`.
    Duration { duration_us: u64 },
    /// A connection came in.
    Received { host: &'a str, port: &'a str },
    /// `connection authenticated`, and `connection ready` from 18 on.
    ConnectionProgress,
    /// The session begins.
    Authorized {
        user: &'a str,
        database: &'a str,
        application: &'a str,
    },
    /// `replication connection authorized`, or `received replication command` with the command.
    Replication { command: Option<&'a str> },
    /// The session ended.
    Disconnected { user: &'a str, database: &'a str },
    /// `AUDIT: …` of pgAudit, without that word.
    Audit { record: &'a str },
    /// The server starts, or lost all its processes; all sessions end.
    ServerStarts,
    /// A message that no client's action caused.
    Other(SkipReason),
}

/// Classifies a message.
#[inline]
pub(super) fn classify(text: &str) -> Message<'_> {
    if let Some(rest) = text.strip_prefix("duration: ") {
        return classify_timed(rest).unwrap_or(Message::Other(SkipReason::ServerMessage));
    }
    if let Some(sql) = text.strip_prefix("statement: ") {
        return Message::Simple {
            sql,
            duration_us: None,
        };
    }
    if let Some(rest) = text.strip_prefix("execute ") {
        return classify_extended(rest, None);
    }
    if let Some(rest) = text.strip_prefix("connection ") {
        return classify_connection(rest);
    }
    if let Some(rest) = text.strip_prefix("disconnection: ") {
        return Message::Disconnected {
            user: text_between(rest, " user=", &[" database="]),
            database: text_between(rest, " database=", &[" host="]),
        };
    }
    classify_other(text)
}

fn classify_extended(rest: &str, duration_us: Option<u64>) -> Message<'_> {
    let (step, named) = match rest.strip_prefix("fetch from ") {
        // A statement's name may be `fetch from x`, but then its SQL follows.
        Some(named) => (Step::Fetch, named),
        None => (Step::Execute, rest),
    };
    Message::Extended {
        step,
        named,
        duration_us,
    }
}

/// Classifies the text after `duration: `.
fn classify_timed(rest: &str) -> Option<Message<'_>> {
    let (duration_us, length) = parse_milliseconds(rest.as_bytes())?;
    let rest = &rest[length..];
    let Some(what) = rest.strip_prefix(" ms  ") else {
        return (rest == " ms").then_some(Message::Duration { duration_us });
    };
    let duration_us = Some(duration_us);
    Some(if let Some(sql) = what.strip_prefix("statement: ") {
        Message::Simple { sql, duration_us }
    } else if let Some(named) = what.strip_prefix("parse ") {
        Message::Extended {
            step: Step::Parse,
            named,
            duration_us,
        }
    } else if let Some(named) = what.strip_prefix("bind ") {
        Message::Extended {
            step: Step::Bind,
            named,
            duration_us,
        }
    } else if let Some(rest) = what.strip_prefix("execute ") {
        classify_extended(rest, duration_us)
    } else if what.starts_with("plan:") {
        Message::Other(SkipReason::Plan)
    } else if what.starts_with("fastpath function call: ") {
        Message::Other(SkipReason::FastPath)
    } else {
        return None;
    })
}

/// 100 years, in microseconds.
const DURATION_US_MAX: u64 = 100 * 366 * 24 * 3_600 * 1_000_000;

/// Parses milliseconds with up to three decimals as microseconds; also returns their length in
/// bytes.
#[inline]
fn parse_milliseconds(text: &[u8]) -> Option<(u64, usize)> {
    let (whole, length) = parse_number(text)?;
    // Longer durations are no durations. This bound also keeps sums from overflowing.
    let whole_us = whole
        .checked_mul(1_000)
        .filter(|us| *us < DURATION_US_MAX)?;
    if text.get(length) != Some(&b'.') {
        return Some((whole_us, length));
    }
    let at = length + 1;
    let (decimals, length) = parse_number(text.get(at..)?)?;
    let scale = match length {
        1 => 100,
        2 => 10,
        3 => 1,
        _ => return None,
    };
    Some((whole_us.checked_add(decimals * scale)?, at + length))
}

/// Returns the ways to split `connection authorized: user=… database=…` into the two names; a name
/// may contain the next key.
pub(super) fn split_authorized(message: &str) -> Vec<(&str, &str)> {
    let Some(rest) = message.strip_prefix("connection authorized: user=") else {
        return Vec::new();
    };
    let mut splits = Vec::new();
    for (at, key) in rest.match_indices(" database=") {
        let after = &rest[at + key.len()..];
        let ends = AFTER_DATABASE
            .iter()
            .flat_map(|key| after.match_indices(key).map(|(end, _)| end));
        for end in ends.chain([after.len()]) {
            if at <= NAME_BYTES_MAX && end <= NAME_BYTES_MAX {
                splits.push((&rest[..at], &after[..end]));
            }
        }
    }
    splits
}

/// Maximum length of a name in bytes, as the server prints it (`NAMEDATALEN` - 1).
pub(super) const NAME_BYTES_MAX: usize = 63;

/// Keys that may follow the database in `connection authorized`.
const AFTER_DATABASE: [&str; 3] = [" application_name=", " SSL enabled (", " GSS ("];

fn classify_connection(rest: &str) -> Message<'_> {
    if let Some(rest) = rest.strip_prefix("received: host=") {
        let (host, port) = rest.rsplit_once(" port=").unwrap_or((rest, ""));
        return Message::Received { host, port };
    }
    if let Some(rest) = rest.strip_prefix("authorized: user=") {
        let (user, _) = rest.split_once(" database=").unwrap_or((rest, ""));
        return Message::Authorized {
            user,
            database: text_between(rest, " database=", &AFTER_DATABASE),
            application: application_of(rest),
        };
    }
    match rest.starts_with("authenticated: ") || rest.starts_with("ready: ") {
        true => Message::ConnectionProgress,
        false => Message::Other(SkipReason::ServerMessage),
    }
}

/// Returns the application's name, which may contain the keys after it.
fn application_of(rest: &str) -> &str {
    let Some((_, mut name)) = rest.split_once(" application_name=") else {
        return "";
    };
    for key in &AFTER_DATABASE[1..] {
        if name.ends_with(')')
            && let Some(end) = name.rfind(key)
        {
            name = &name[..end];
        }
    }
    name
}

/// Returns the text after `key`, up to the first of the `ends`.
fn text_between<'a>(text: &'a str, key: &str, ends: &[&str]) -> &'a str {
    let Some((_, rest)) = text.split_once(key) else {
        return "";
    };
    let end = ends.iter().filter_map(|end| rest.find(end)).min();
    &rest[..end.unwrap_or(rest.len())]
}

fn classify_other(text: &str) -> Message<'_> {
    let starts = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if text.starts_with("replication connection authorized: ") {
        return Message::Replication { command: None };
    }
    if let Some(command) = text.strip_prefix("received replication command: ") {
        return Message::Replication {
            command: Some(command),
        };
    }
    if starts(&[
        "starting PostgreSQL ",
        "database system was ",
        "all server processes terminated",
    ]) {
        return Message::ServerStarts;
    }
    if let Some(record) = text.strip_prefix("AUDIT: ") {
        return Message::Audit { record };
    }
    Message::Other(
        if starts(&["checkpoint ", "checkpoints ", "restartpoint "]) {
            SkipReason::Checkpoint
        } else if starts(&["automatic "]) {
            SkipReason::Autovacuum
        } else if starts(&["temporary file: "]) {
            SkipReason::TemporaryFile
        } else if starts(&["process "])
            && (text.contains(" still waiting for ") || text.contains(" acquired "))
        {
            SkipReason::LockWait
        } else if starts(&["fastpath function call: "]) {
            SkipReason::FastPath
        } else {
            SkipReason::ServerMessage
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_03_durations_stand_alone_or_before_what_they_time() {
        for (text, message) in [
            ("duration: 0.123 ms", Message::Duration { duration_us: 123 }),
            (
                "duration: 12345.6 ms",
                Message::Duration {
                    duration_us: 12_345_600,
                },
            ),
            (
                "duration: 1.000 ms  statement: select 1",
                Message::Simple {
                    sql: "select 1",
                    duration_us: Some(1_000),
                },
            ),
            (
                "statement: ",
                Message::Simple {
                    sql: "",
                    duration_us: None,
                },
            ),
            (
                "duration: 1.000 ms  parse <unnamed>: x",
                Message::Extended {
                    step: Step::Parse,
                    named: "<unnamed>: x",
                    duration_us: Some(1_000),
                },
            ),
            (
                "duration: 1.000 ms  execute fetch from a/b: x",
                Message::Extended {
                    step: Step::Fetch,
                    named: "a/b: x",
                    duration_us: Some(1_000),
                },
            ),
            (
                "execute S_1: x",
                Message::Extended {
                    step: Step::Execute,
                    named: "S_1: x",
                    duration_us: None,
                },
            ),
            ("duration: fast", Message::Other(SkipReason::ServerMessage)),
            (
                "duration: 1.000 ms  fastpath function call: \"f\" (OID 1)",
                Message::Other(SkipReason::FastPath),
            ),
        ] {
            assert_eq!(classify(text), message, "{text}");
        }
    }

    #[test]
    fn fact_05_noise_is_told_by_its_reason() {
        for (text, reason) in [
            (
                "duration: 1.000 ms  plan:\nQuery Text: select 1",
                SkipReason::Plan,
            ),
            ("checkpoint starting: time", SkipReason::Checkpoint),
            (
                "automatic vacuum of table \"a.b.c\": index scans: 0",
                SkipReason::Autovacuum,
            ),
            (
                "temporary file: path \"x\", size 1",
                SkipReason::TemporaryFile,
            ),
            (
                "process 1 still waiting for ShareLock on transaction 2 after 1000.1 ms",
                SkipReason::LockWait,
            ),
            (
                "could not receive data from client: Connection reset by peer",
                SkipReason::ServerMessage,
            ),
        ] {
            assert_eq!(classify(text), Message::Other(reason), "{text}");
        }
    }

    #[test]
    fn fact_21_who_connects() {
        for (text, message) in [
            (
                "connection received: host=::1 port=51234",
                Message::Received {
                    host: "::1",
                    port: "51234",
                },
            ),
            (
                "connection received: host=[local]",
                Message::Received {
                    host: "[local]",
                    port: "",
                },
            ),
            (
                "connection authorized: user=a b database=shop",
                Message::Authorized {
                    user: "a b",
                    database: "shop",
                    application: "",
                },
            ),
            (
                "connection authorized: user=app database=shop application_name=my app SSL enabled (protocol=TLSv1.3, cipher=x, bits=256)",
                Message::Authorized {
                    user: "app",
                    database: "shop",
                    application: "my app",
                },
            ),
            (
                "connection authenticated: identity=\"app\" method=md5 (/x/pg_hba.conf:1)",
                Message::ConnectionProgress,
            ),
            (
                "connection ready: setup total=1.2 ms, fork=0.1 ms, authentication=0.2 ms",
                Message::ConnectionProgress,
            ),
            (
                "replication connection authorized: user=r",
                Message::Replication { command: None },
            ),
            (
                "disconnection: session time: 0:00:00.005 user=app database=shop host=[local]",
                Message::Disconnected {
                    user: "app",
                    database: "shop",
                },
            ),
        ] {
            assert_eq!(classify(text), message, "{text}");
        }
    }
}
