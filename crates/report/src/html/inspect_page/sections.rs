//! The page's tables, as text in cells.

use crate::text::amount::{bytes, count, duration, percent};
use crate::text::inspect_text::server_lines;
use crate::text::line::one_line;
use crate::view::inspect::{InspectView, NameTotalsView};

/// Names shown of each sort.
const NAMES_MAX: usize = 12;
/// Tables of autovacuum shown.
const TABLES_MAX: usize = 25;

pub(super) struct Bin {
    pub(super) range: String,
    pub(super) count: String,
    pub(super) share: String,
    pub(super) width: String,
    pub(super) time: String,
    pub(super) time_share: String,
}

pub(super) fn durations(view: &InspectView) -> Vec<Bin> {
    let most = view
        .durations
        .iter()
        .map(|bin| bin.count)
        .max()
        .unwrap_or(0);
    let total_us = view.captured.map_or(0.0, |captured| captured.total_us);
    let bin = |bin: &crate::view::inspect::DurationBinView| Bin {
        range: match bin.to_us {
            Some(to_us) => format!(
                "{} – {}",
                duration(bin.from_us as f64),
                duration(to_us as f64)
            ),
            None => format!("{} and more", duration(bin.from_us as f64)),
        },
        count: count(bin.count),
        share: percent(bin.count as f64, view.with_duration as f64),
        // What is more than nothing is seen.
        width: match bin.count {
            0 => "0".to_owned(),
            some => format!("{:.2}", (100.0 * some as f64 / most.max(1) as f64).max(0.3)),
        },
        time: duration(bin.total_us as f64),
        time_share: percent(bin.total_us as f64, total_us),
    };
    view.durations.iter().map(bin).collect()
}

pub(super) struct ErrorRow {
    pub(super) code: String,
    pub(super) name: &'static str,
    pub(super) count: String,
    pub(super) place: String,
    pub(super) fingerprint: String,
    pub(super) statement: String,
    pub(super) linked: bool,
}

pub(super) fn errors(view: &InspectView) -> Vec<ErrorRow> {
    let place = |source: &str, line: u64, session: u64| match line {
        0 => format!("session {session}"),
        line => format!("{}:{line}, session {session}", one_line(source, 60)),
    };
    let errors = view.error_examples.iter();
    errors
        .map(|error| {
            let statement = view
                .by_statement
                .iter()
                .find(|one| one.fingerprint == error.fingerprint);
            ErrorRow {
                code: error.sqlstate.clone(),
                name: error.name,
                count: count(error.count),
                place: place(&error.source, error.line, error.session),
                fingerprint: error.fingerprint.clone(),
                statement: statement.map_or_else(
                    || error.fingerprint.clone(),
                    |statement| one_line(statement.name(), 160),
                ),
                linked: statement.is_some(),
            }
        })
        .collect()
}

pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) rows: Vec<GroupRow>,
    pub(super) more: usize,
}

pub(super) struct GroupRow {
    pub(super) name: String,
    pub(super) sessions: String,
    pub(super) statements: String,
    pub(super) time: String,
    pub(super) errors: String,
}

pub(super) fn groups(view: &InspectView) -> Vec<Group> {
    let timed = view.captured.is_some();
    let row = |one: &NameTotalsView| GroupRow {
        name: match one.name.as_str() {
            "" => "(none)".to_owned(),
            name => one_line(name, 80),
        },
        sessions: count(one.sessions),
        statements: count(one.statements),
        time: match timed {
            true => duration(one.total_us as f64),
            false => "–".to_owned(),
        },
        errors: count(one.errors),
    };
    [
        ("Databases", &view.databases),
        ("Users", &view.users),
        ("Applications", &view.applications),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(title, names)| Group {
        title,
        rows: names.iter().take(NAMES_MAX).map(row).collect(),
        more: names.len().saturating_sub(NAMES_MAX),
    })
    .collect()
}

pub(super) fn sent(view: &InspectView) -> Vec<(String, String)> {
    let classes = view
        .classes
        .iter()
        .map(|one| (one.name.clone(), one.statements));
    let kinds = view.kinds.iter().map(|one| {
        let name = match one.name.as_str() {
            "simple" => "by simple query",
            "execute" => "by bind and execute",
            "prepare" => "prepared only",
            "fetch" => "fetched on",
            other => other,
        };
        (name.to_owned(), one.statements)
    });
    classes
        .chain(kinds)
        .map(|(name, statements)| (name, count(statements)))
        .collect()
}

/// A name and what is to be said of it.
pub(super) type ActivityRow = (&'static str, String);

pub(super) fn activity(view: &InspectView) -> Vec<ActivityRow> {
    let mut rows = server_lines(view, usize::MAX);
    let checkpoints = &view.server.checkpoints;
    if checkpoints.completed > 0 {
        rows.push((
            "of checkpoints",
            format!(
                "{} buffers written in {}, files synced in {}, {} of WAL between them",
                count(checkpoints.buffers),
                duration(checkpoints.write_us as f64),
                duration(checkpoints.sync_us as f64),
                bytes(checkpoints.wal_bytes)
            ),
        ));
    }
    rows
}

pub(super) struct UpkeepRow {
    pub(super) name: String,
    pub(super) vacuums: String,
    pub(super) analyzes: String,
    pub(super) time: String,
    pub(super) removed: String,
    pub(super) dead: String,
}

pub(super) fn tables(view: &InspectView) -> Vec<UpkeepRow> {
    let tables = view.server.autovacuum.iter().take(TABLES_MAX);
    tables
        .map(|table| UpkeepRow {
            name: one_line(&table.table, 120),
            vacuums: count(table.vacuums),
            analyzes: count(table.analyzes),
            time: duration(table.total_us as f64),
            removed: count(table.tuples_removed),
            dead: count(table.tuples_dead),
        })
        .collect()
}

pub(super) fn tables_more(view: &InspectView) -> usize {
    view.server.autovacuum.len().saturating_sub(TABLES_MAX)
}

pub(super) struct NotableRow {
    pub(super) when: String,
    pub(super) what: String,
    pub(super) place: String,
}

pub(super) fn notable(view: &InspectView) -> Vec<NotableRow> {
    let notable = view.server.notable.iter();
    notable
        .map(|one| {
            let kind = one.kind.replace('_', " ");
            let when = clock::utc_text(view.start_wall_us.saturating_add(one.at_us));
            NotableRow {
                when: when.trim_end_matches(" UTC").to_owned(),
                what: match one.subject.as_str() {
                    "" => kind,
                    subject => format!("{kind}: {}", one_line(subject, 200)),
                },
                place: format!("{}:{}", one_line(&one.source, 60), one.line),
            }
        })
        .collect()
}
