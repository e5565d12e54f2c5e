//! Tables of what only a server's log has: messages, lock waits, temporary files; and of clients.

use inspect::Inspection;
use sql::Fingerprint;

use crate::text::inspect_text::{files_beyond, length_range, name_of, pattern_label};
use crate::text::line::one_line;
use crate::text::units::{bytes, count, duration, percent, ratio};

/// Maximum number of patterns, of hosts, and of statements with temporary files.
const ROWS_MAX: usize = 50;

/// Link to a statement, or its name alone.
pub(super) struct StatementLink {
    pub(super) fingerprint: String,
    pub(super) name: String,
    pub(super) is_linked: bool,
}

impl StatementLink {
    fn new(view: &Inspection, fingerprint: Option<Fingerprint>) -> Self {
        let statement = view.statement_of(fingerprint);
        StatementLink {
            fingerprint: fingerprint.map_or_else(String::new, |one| one.to_string()),
            name: statement.map_or_else(String::new, |one| one_line(&name_of(one), 160)),
            is_linked: statement.is_some(),
        }
    }
}

pub(super) struct ExampleRow {
    pub(super) text: String,
    pub(super) statement: StatementLink,
}

pub(super) struct MessageRow {
    pub(super) severity: &'static str,
    pub(super) pattern: String,
    pub(super) count: String,
    pub(super) examples: Vec<ExampleRow>,
}

/// Returns the messages, and the number of those that are not among them.
pub(super) fn messages(view: &Inspection) -> (Vec<MessageRow>, u64) {
    let messages = &view.messages;
    let rows: Vec<MessageRow> = { messages.patterns.iter().take(ROWS_MAX) }
        .map(|one| MessageRow {
            severity: one.severity.name(),
            pattern: one_line(&pattern_label(one), 300),
            count: count(one.count),
            examples: { one.examples.iter() }
                .map(|example| {
                    let mut text = time(view, example.at_us);
                    if let Some(session) = example.session {
                        text.push_str(&format!(", session {session}"));
                    }
                    let source = one_line(view.source(example.place), 60);
                    text.push_str(&format!(", {source}:{}", example.place.line));
                    let message = example.message.as_deref();
                    if let Some(message) = message.filter(|message| **message != *one.pattern) {
                        text.push_str(&format!(": {}", one_line(message, 300)));
                    }
                    ExampleRow {
                        text,
                        statement: StatementLink::new(view, example.fingerprint),
                    }
                })
                .collect(),
        })
        .collect();
    let shown: u64 = messages
        .patterns
        .iter()
        .take(ROWS_MAX)
        .map(|one| one.count)
        .sum();
    (rows, messages.count() - shown)
}

pub(super) struct LockRow {
    pub(super) lock: String,
    pub(super) waits: String,
    pub(super) total: String,
    pub(super) longest: String,
    pub(super) examples: Vec<ExampleRow>,
}

pub(super) fn lock_waits(view: &Inspection) -> Vec<LockRow> {
    let waits = view.lock_waits.iter();
    waits
        .map(|one| LockRow {
            lock: format!("{} on {}", one.mode.name(), one.object.name()),
            waits: count(one.waits),
            total: duration(one.waited_us as f64),
            longest: duration(one.longest_us as f64),
            examples: { one.examples.iter() }
                .map(|example| {
                    let holders = example.holders.as_ref();
                    let held = holders.map(|pids| format!(", held by process {pids}"));
                    ExampleRow {
                        text: format!(
                            "{} for {} from {}{}",
                            duration(example.waited_us as f64),
                            one_line(&example.subject, 120),
                            time(view, example.at_us),
                            one_line(&held.unwrap_or_default(), 120)
                        ),
                        statement: StatementLink::new(view, example.fingerprint),
                    }
                })
                .collect(),
        })
        .collect()
}

pub(super) struct FileRow {
    pub(super) files: String,
    pub(super) total: String,
    pub(super) largest: String,
    pub(super) when: String,
    pub(super) statement: StatementLink,
}

/// Returns the temporary files by statement, and the number of files that are not among them.
pub(super) fn temporary_files(view: &Inspection) -> (Vec<FileRow>, u64) {
    let files = view.temporary_files.iter().take(ROWS_MAX);
    let rows = files.map(|one| FileRow {
        files: count(one.files),
        total: bytes(one.bytes),
        largest: bytes(one.largest_bytes),
        when: time(view, one.at_us),
        statement: StatementLink::new(view, one.fingerprint),
    });
    (rows.collect(), files_beyond(view, ROWS_MAX))
}

pub(super) struct LengthRow {
    pub(super) range: String,
    pub(super) sessions: String,
    pub(super) share: String,
}

pub(super) fn session_lengths(view: &Inspection) -> Vec<LengthRow> {
    let lengths = &view.session_lengths;
    let bins = lengths.bins().into_iter();
    bins.map(|bin| LengthRow {
        range: length_range(&bin),
        sessions: count(bin.count),
        share: percent(bin.count as f64, lengths.count() as f64),
    })
    .collect()
}

pub(super) struct HostRow {
    pub(super) host: String,
    pub(super) sessions: String,
    pub(super) statements: String,
    pub(super) connected: String,
}

/// Returns the hosts, and the number of those that are not among them. Empty if no host is known.
pub(super) fn hosts(view: &Inspection) -> (Vec<HostRow>, usize) {
    if view.hosts.iter().all(|host| host.host.is_empty()) {
        return (Vec::new(), 0);
    }
    let hosts = view.hosts.iter().take(ROWS_MAX);
    let rows = hosts.map(|one| HostRow {
        host: match one.host.as_str() {
            "" => "(unknown)".to_owned(),
            host => one_line(host, 80),
        },
        sessions: count(one.sessions),
        statements: count(one.statements),
        connected: duration(one.connected_us as f64),
    });
    (rows.collect(), view.hosts.len().saturating_sub(ROWS_MAX))
}

/// Returns the numbers of protocol steps, to be listed with what was sent.
pub(super) fn protocol_steps(view: &Inspection) -> Vec<(String, String)> {
    let Some(steps) = view.protocol_steps else {
        return Vec::new();
    };
    let mut rows = vec![
        ("parses with a duration".to_owned(), count(steps.parses)),
        ("binds with a duration".to_owned(), count(steps.binds)),
        (
            "executions with a duration".to_owned(),
            count(steps.executions),
        ),
    ];
    if steps.parses > 0 {
        let binds = ratio(steps.binds as f64 / steps.parses as f64);
        rows.push(("binds for each parse".to_owned(), binds));
    }
    rows
}

fn time(view: &Inspection, at_us: i64) -> String {
    let text = clock::utc_text(view.start_wall_us.saturating_add(at_us));
    text.trim_end_matches(" UTC").to_owned()
}
