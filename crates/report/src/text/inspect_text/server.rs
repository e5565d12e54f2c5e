//! Errors, and server activity.

use inspect::{Inspection, ServerActivity, StatementStats, TableUpkeep};
use workload::{ServerEventKind as Kind, Sqlstate};

use super::statements::name_of;
use crate::sqlstate::{code_label, condition_name};
use crate::text::line::{listed, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{bytes, count, counted, duration};

/// Maximum number of error codes.
const ERRORS_MAX: usize = 4;

/// Lists the errors by code, each with the position of the first.
///
/// If the log shows no code, the messages say more.
pub(super) fn errors(view: &Inspection, style: TextStyle) -> Vec<String> {
    let is_uncoded = view.errors.keys().all(|code| *code == Sqlstate::UNKNOWN);
    if is_uncoded && (view.errors.is_empty() || view.messages.count() > 0) {
        return Vec::new();
    }
    let errors = view.errors_by_count();
    let all: u64 = errors.iter().map(|(_, error)| error.count).sum();
    let title = format!(
        "Errors, {} with {}",
        count(all),
        counted(errors.len() as u64, "code")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
    for (code, error) in errors.iter().take(ERRORS_MAX) {
        let at = match error.place.line {
            0 => format!("session {}", error.session),
            line => place(view.source(error.place), line),
        };
        table.row([
            format!("  {}", count(error.count)),
            format!(
                "{} {}",
                code_label(code.as_str()),
                condition_name(code.as_str())
            ),
            format!("first at {at}"),
        ]);
    }
    for (line, (_, error)) in table.lines().into_iter().zip(&errors) {
        let statement = view.statement_of(error.fingerprint);
        let room = style.columns().saturating_sub(line.chars().count() + 2);
        lines.push(match statement {
            Some(statement) if room >= 20 => {
                format!("{line}: {}", one_line(&name_of(statement), room))
            }
            _ => line,
        });
    }
    if errors.len() > ERRORS_MAX {
        let more = errors.len() - ERRORS_MAX;
        lines.push(format!("  and {}", counted(more as u64, "more code")));
    }
    lines
}

/// Formats a position as `FILE:LINE` with the file's base name. A recovered workload does not know
/// its files.
pub(super) fn place(path: &str, line: u64) -> String {
    match path.rsplit('/').next().unwrap_or(path) {
        "" => format!("line {line}"),
        last => format!("{}:{line}", one_line(last, 40)),
    }
}

/// Lists the server's own activity.
pub(super) fn activity(view: &Inspection, style: TextStyle) -> Vec<String> {
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

/// Returns the server's activity by name. Long lists are cut to `width`.
pub(crate) fn server_lines(view: &Inspection, width: usize) -> Vec<(&'static str, String)> {
    let server = &view.server;
    let all = [
        ("temporary files", temporary_files(view)),
        ("lock waits", lock_waits(view)),
        ("deadlocks", deadlocks(view)),
        ("checkpoints", checkpoints(server)),
        ("autovacuum", autovacuum(server)),
        ("also", others(server, width)),
    ];
    let said = all.into_iter();
    said.filter_map(|(name, what)| Some((name, what?)))
        .collect()
}

fn temporary_files(view: &Inspection) -> Option<String> {
    let server = &view.server;
    let files = server.of(Kind::TemporaryFile);
    if files == 0 {
        return None;
    }
    let mut text = format!(
        "{}, {} in all, the largest {}",
        count(files),
        bytes(server.temporary_bytes),
        bytes(server.temporary_bytes_max)
    );
    if let Some(most) = most(view, |one| one.temporary_bytes) {
        text.push_str(&format!(
            "; most ({}) by {}",
            bytes(most.temporary_bytes),
            name_of(most)
        ));
    }
    Some(text)
}

fn lock_waits(view: &Inspection) -> Option<String> {
    let server = &view.server;
    let longest = server.lock_longest.as_ref()?;
    let mut text = format!(
        "{}, {} in those that ended; the longest {} for {}",
        count(view.lock_waits.iter().map(|one| one.waits).sum()),
        duration(server.lock_waited_us as f64),
        duration(longest.waited_us as f64),
        longest.subject
    );
    if let Some(most) = most(view, |one| one.lock_waited_us) {
        text.push_str(&format!(
            "; most ({}) by {}",
            duration(most.lock_waited_us as f64),
            name_of(most)
        ));
    }
    Some(text)
}

fn deadlocks(view: &Inspection) -> Option<String> {
    let deadlocks = view.server.of(Kind::Deadlock);
    if deadlocks == 0 {
        return None;
    }
    let mut notable = view.server.notable.iter();
    let first = notable.find(|one| one.kind == Kind::Deadlock);
    let statement = first.and_then(|one| view.statement_of(one.fingerprint));
    Some(match statement {
        Some(statement) => {
            format!(
                "{}; the first cancelled {}",
                count(deadlocks),
                name_of(statement)
            )
        }
        None => count(deadlocks),
    })
}

fn most(view: &Inspection, of: fn(&StatementStats) -> u64) -> Option<&StatementStats> {
    let most = view.by_statement.iter().max_by_key(|one| of(one))?;
    (of(most) > 0).then_some(most)
}

fn checkpoints(server: &ServerActivity) -> Option<String> {
    let checkpoints = &server.checkpoints;
    let completed = server.of(Kind::Checkpoint);
    if completed == 0 && checkpoints.causes.is_empty() {
        return None;
    }
    let mut causes: Vec<_> = checkpoints.causes.iter().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let causes: Vec<String> = causes
        .into_iter()
        .map(|(cause, begun)| format!("{cause} {}", count(*begun)))
        .collect();
    let mut text = format!("{} ({})", count(completed), causes.join(" · "));
    if completed > 0 {
        text.push_str(&format!(
            "; {} in all, the longest {}; {} of WAL",
            duration(checkpoints.total_us as f64),
            duration(checkpoints.longest_us as f64),
            bytes(checkpoints.wal_bytes)
        ));
    }
    let too_frequent = server.of(Kind::CheckpointsTooFrequent);
    if too_frequent > 0 {
        let too = count(too_frequent);
        text.push_str(&format!("; {too} × too frequent"));
    }
    Some(text)
}

/// Returns the tables of autovacuum by descending time.
pub(crate) fn upkeep(server: &ServerActivity) -> Vec<(&str, &TableUpkeep)> {
    let mut tables: Vec<_> = (server.tables.iter())
        .map(|(name, table)| (&**name, table))
        .collect();
    tables.sort_by_key(|(_, table)| std::cmp::Reverse(table.time_us));
    tables
}

fn autovacuum(server: &ServerActivity) -> Option<String> {
    let (name, longest) = *upkeep(server).first()?;
    let sum = |of: fn(&TableUpkeep) -> u64| -> u64 { server.tables.values().map(of).sum() };
    let mut text = format!(
        "{}, {} of {}, {}; most for {name}: {}",
        counted(sum(|table| table.vacuums), "vacuum"),
        match sum(|table| table.analyzes) {
            1 => "1 analyze".to_owned(),
            more => format!("{} analyzes", count(more)),
        },
        counted(server.tables.len() as u64, "table"),
        duration(sum(|table| table.time_us) as f64),
        duration(longest.time_us as f64)
    );
    let cancelled = sum(|table| table.cancelled_for_lock);
    if cancelled > 0 {
        text.push_str(&format!("; {} cancelled or left out", count(cancelled)));
    }
    Some(text)
}

fn others(server: &ServerActivity, width: usize) -> Option<String> {
    let told_above = |kind: &Kind| {
        matches!(
            kind,
            Kind::TemporaryFile
                | Kind::LockWait
                | Kind::LockAcquired
                | Kind::LockFailed
                | Kind::Deadlock
                | Kind::CheckpointStarting
                | Kind::Checkpoint
                | Kind::CheckpointsTooFrequent
                | Kind::Autovacuum
                | Kind::Autoanalyze
                | Kind::AutovacuumCancelled
                | Kind::AutovacuumSkipped
        )
    };
    let kinds = server.kinds.iter().filter(|(kind, _)| !told_above(kind));
    let mut items: Vec<String> = kinds
        .map(|(kind, times)| format!("{} {}", kind.name().replace('_', " "), count(*times)))
        .collect();
    items.sort_unstable();
    (!items.is_empty()).then(|| listed(&items, width))
}
