//! What failed, and what the server did.

use crate::text::amount::{bytes, count, counted, duration};
use crate::text::line::{listed, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::inspect::{InspectStatementView, InspectView, ServerView};

/// Codes of errors shown.
const ERRORS_MAX: usize = 4;

/// The errors by code, each with where the first stands.
pub(super) fn errors(view: &InspectView, style: TextStyle) -> Vec<String> {
    if view.error_examples.is_empty() {
        return Vec::new();
    }
    let all: u64 = view.errors.values().sum();
    let title = format!(
        "Errors, {} with {}",
        count(all),
        counted(view.errors.len() as u64, "code")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
    for error in view.error_examples.iter().take(ERRORS_MAX) {
        let at = match error.line {
            0 => format!("session {}", error.session),
            line => place(&error.source, line),
        };
        table.row([
            format!("  {}", count(error.count)),
            format!("{} {}", error.sqlstate, error.name),
            format!("first at {at}"),
        ]);
    }
    for (line, error) in table.lines().into_iter().zip(&view.error_examples) {
        let statement = view
            .by_statement
            .iter()
            .find(|one| one.fingerprint == error.fingerprint);
        let room = style.columns().saturating_sub(line.chars().count() + 2);
        lines.push(match statement {
            Some(statement) if room >= 20 => {
                format!("{line}: {}", one_line(statement.name(), room))
            }
            _ => line,
        });
    }
    if view.error_examples.len() > ERRORS_MAX {
        let more = view.error_examples.len() - ERRORS_MAX;
        lines.push(format!("  and {}", counted(more as u64, "more code")));
    }
    lines
}

/// `FILE:LINE` with the last part of the path, since the first ones leave no room. A recovered
/// workload does not know its files.
pub(super) fn place(path: &str, line: u64) -> String {
    match path.rsplit('/').next().unwrap_or(path) {
        "" => format!("line {line}"),
        last => format!("{}:{line}", one_line(last, 40)),
    }
}

/// What the server did beside its clients' statements.
pub(super) fn activity(view: &InspectView, style: TextStyle) -> Vec<String> {
    if view.server.count == 0 {
        return Vec::new();
    }
    let room = style.columns() - 20;
    let mut table = Table::new(&[Align::Left, Align::Left]);
    for (name, what) in server_lines(view, room) {
        table.row([format!("  {name}"), one_line(&what, room)]);
    }
    let mut lines = vec![String::new(), style.paint(Tone::Heading, "The server")];
    lines.extend(table.lines());
    lines
}

/// What is to be said of the server, by name. What is many is cut to `width`.
pub(crate) fn server_lines(view: &InspectView, width: usize) -> Vec<(&'static str, String)> {
    let server = &view.server;
    let deadlocks = (server.deadlocks > 0).then(|| count(server.deadlocks));
    let all = [
        ("temporary files", temporary_files(view)),
        ("lock waits", lock_waits(view)),
        ("deadlocks", deadlocks),
        ("checkpoints", checkpoints(server)),
        ("autovacuum", autovacuum(server)),
        ("also", others(server, width)),
    ];
    let said = all.into_iter();
    said.filter_map(|(name, what)| Some((name, what?)))
        .collect()
}

fn temporary_files(view: &InspectView) -> Option<String> {
    let server = &view.server;
    if server.temporary_files == 0 {
        return None;
    }
    let mut text = format!(
        "{}, {} in all, the largest {}",
        count(server.temporary_files),
        bytes(server.temporary_bytes),
        bytes(server.temporary_bytes_max)
    );
    if let Some(most) = most(view, |one| one.temporary_bytes) {
        text.push_str(&format!(
            "; most ({}) by {}",
            bytes(most.temporary_bytes),
            most.name()
        ));
    }
    Some(text)
}

fn lock_waits(view: &InspectView) -> Option<String> {
    let server = &view.server;
    let longest = server.lock_longest.as_ref()?;
    let mut text = format!(
        "{}, {} in those that ended; the longest {} for {}",
        count(server.lock_waits),
        duration(server.lock_waited_us as f64),
        duration(longest.waited_us as f64),
        longest.lock
    );
    if let Some(most) = most(view, |one| one.lock_waited_us) {
        text.push_str(&format!(
            "; most ({}) by {}",
            duration(most.lock_waited_us as f64),
            most.name()
        ));
    }
    Some(text)
}

fn most(view: &InspectView, of: fn(&InspectStatementView) -> u64) -> Option<&InspectStatementView> {
    let most = view.by_statement.iter().max_by_key(|one| of(one))?;
    (of(most) > 0).then_some(most)
}

fn checkpoints(server: &ServerView) -> Option<String> {
    let checkpoints = &server.checkpoints;
    if checkpoints.completed == 0 && checkpoints.causes.is_empty() {
        return None;
    }
    let mut causes: Vec<_> = checkpoints.causes.iter().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let causes: Vec<String> = causes
        .into_iter()
        .map(|(cause, begun)| format!("{cause} {}", count(*begun)))
        .collect();
    let mut text = format!("{} ({})", count(checkpoints.completed), causes.join(" · "));
    if checkpoints.completed > 0 {
        text.push_str(&format!(
            "; {} in all, the longest {}; {} of WAL",
            duration(checkpoints.total_us as f64),
            duration(checkpoints.longest_us as f64),
            bytes(checkpoints.wal_bytes)
        ));
    }
    if checkpoints.too_frequent > 0 {
        let too = count(checkpoints.too_frequent);
        text.push_str(&format!("; {too} × too frequent"));
    }
    Some(text)
}

fn autovacuum(server: &ServerView) -> Option<String> {
    let dearest = server.autovacuum.first()?;
    let sum = |of: fn(&crate::view::inspect::TableUpkeepView) -> u64| -> u64 {
        server.autovacuum.iter().map(of).sum()
    };
    let mut text = format!(
        "{}, {} of {}, {}; most for {}: {}",
        counted(sum(|table| table.vacuums), "vacuum"),
        match sum(|table| table.analyzes) {
            1 => "1 analyze".to_owned(),
            more => format!("{} analyzes", count(more)),
        },
        counted(server.autovacuum.len() as u64, "table"),
        duration(sum(|table| table.total_us) as f64),
        dearest.table,
        duration(dearest.total_us as f64)
    );
    let hindered = sum(|table| table.hindered);
    if hindered > 0 {
        text.push_str(&format!("; {} cancelled or left out", count(hindered)));
    }
    Some(text)
}

fn others(server: &ServerView, width: usize) -> Option<String> {
    const TOLD_ABOVE: [&str; 11] = [
        "temporary_file",
        "lock_wait",
        "lock_acquired",
        "lock_failed",
        "deadlock",
        "checkpoint_starting",
        "checkpoint",
        "checkpoints_too_frequent",
        "autovacuum",
        "autoanalyze",
        "autovacuum_cancelled",
    ];
    let items: Vec<String> = server
        .kinds
        .iter()
        .filter(|(kind, _)| !TOLD_ABOVE.contains(kind) && **kind != "autovacuum_skipped")
        .map(|(kind, times)| format!("{} {}", kind.replace('_', " "), count(*times)))
        .collect();
    (!items.is_empty()).then(|| listed(&items, width))
}
