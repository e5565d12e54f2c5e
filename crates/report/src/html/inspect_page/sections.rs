//! Tables of the page, as cells.

use inspect::{DurationBin, Inspection, NameTotals};
use workload::ServerEventKind;

use super::log_sections::protocol_steps;
use crate::sqlstate::{code_label, condition_name};
use crate::text::inspect_text::{by_count, name_of, server_lines, upkeep};
use crate::text::line::one_line;
use crate::text::units::{bytes, count, duration, percent};

/// Maximum number of names in each group.
const NAMES_MAX: usize = 12;
/// Maximum number of autovacuum tables.
const TABLES_MAX: usize = 25;

pub(super) struct Bin {
    pub(super) range: String,
    pub(super) count: String,
    pub(super) share: String,
    pub(super) width: String,
    pub(super) time: String,
    pub(super) time_share: String,
}

pub(super) fn durations(view: &Inspection) -> Vec<Bin> {
    let bins = view.durations.bins();
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    let total_us = view
        .captured
        .map_or(0.0, |captured| captured.total_ns / 1e3);
    let bin = |bin: &DurationBin| Bin {
        range: match bin.to_us {
            Some(to_us) => format!(
                "{} – {}",
                duration(bin.from_us as f64),
                duration(to_us as f64)
            ),
            None => format!("{} and more", duration(bin.from_us as f64)),
        },
        count: count(bin.count),
        share: percent(bin.count as f64, view.with_duration() as f64),
        // A non-empty bin gets a visible width.
        width: match bin.count {
            0 => "0".to_owned(),
            some => format!("{:.2}", (100.0 * some as f64 / most.max(1) as f64).max(0.3)),
        },
        time: duration(bin.time_us as f64),
        time_share: percent(bin.time_us as f64, total_us),
    };
    bins.iter().map(bin).collect()
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

pub(super) fn errors(view: &Inspection) -> Vec<ErrorRow> {
    let place = |source: &str, line: u64, session: u64| match line {
        0 => format!("session {session}"),
        line => format!("{}:{line}, session {session}", one_line(source, 60)),
    };
    let errors = view.errors_by_count().into_iter();
    errors
        .map(|(code, error)| {
            let statement = view.statement_of(error.fingerprint);
            let fingerprint = (error.fingerprint).map_or_else(String::new, |one| one.to_string());
            ErrorRow {
                code: code_label(code.as_str()).to_owned(),
                name: condition_name(code.as_str()),
                count: count(error.count),
                place: place(view.source(error.place), error.place.line, error.session),
                statement: statement.map_or_else(
                    || fingerprint.clone(),
                    |statement| one_line(&name_of(statement), 160),
                ),
                fingerprint,
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

pub(super) fn groups(view: &Inspection) -> Vec<Group> {
    let timed = view.captured.is_some();
    let row = |one: &NameTotals| GroupRow {
        name: match one.name.as_str() {
            "" => "(none)".to_owned(),
            name => one_line(name, 80),
        },
        sessions: count(one.totals.sessions),
        statements: count(one.totals.statements),
        time: match timed {
            true => duration(one.totals.time_us as f64),
            false => "–".to_owned(),
        },
        errors: count(one.totals.errors),
    };
    [
        ("Databases", view.databases.names()),
        ("Users", view.users.names()),
        ("Applications", view.applications.names()),
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

pub(super) fn sent(view: &Inspection) -> Vec<(String, String)> {
    let classes = view.classes.iter().map(|(class, all)| (class.name(), *all));
    let kinds = view.kinds.iter().map(|(kind, all)| {
        let name = match *kind {
            "simple" => "by simple query",
            "execute" => "by bind and execute",
            "prepare" => "prepared only",
            "fetch" => "fetched on",
            other => other,
        };
        (name, *all)
    });
    by_count(classes)
        .chain(by_count(kinds))
        .map(|(name, statements)| (name.to_owned(), count(statements)))
        .chain(protocol_steps(view))
        .collect()
}

/// Name and description of an activity.
pub(super) type ActivityRow = (&'static str, String);

pub(super) fn activity(view: &Inspection) -> Vec<ActivityRow> {
    let mut rows = server_lines(view, usize::MAX);
    let checkpoints = &view.server.checkpoints;
    if view.server.of(ServerEventKind::Checkpoint) > 0 {
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

pub(super) fn tables(view: &Inspection) -> Vec<UpkeepRow> {
    let tables = upkeep(&view.server).into_iter().take(TABLES_MAX);
    tables
        .map(|(name, table)| UpkeepRow {
            name: one_line(name, 120),
            vacuums: count(table.vacuums),
            analyzes: count(table.analyzes),
            time: duration(table.time_us as f64),
            removed: count(table.tuples_removed),
            dead: count(table.tuples_dead),
        })
        .collect()
}

pub(super) fn tables_more(view: &Inspection) -> usize {
    view.server.tables.len().saturating_sub(TABLES_MAX)
}

pub(super) struct NotableRow {
    pub(super) when: String,
    pub(super) what: String,
    pub(super) place: String,
}

pub(super) fn notable(view: &Inspection) -> Vec<NotableRow> {
    let notable = view.server.notable.iter();
    notable
        .map(|one| {
            let kind = one.kind.name().replace('_', " ");
            let when = clock::utc_text(view.start_wall_us.saturating_add(one.at_us));
            NotableRow {
                when: when.trim_end_matches(" UTC").to_owned(),
                what: match one.subject.as_str() {
                    "" => kind,
                    subject => format!("{kind}: {}", one_line(subject, 200)),
                },
                place: format!(
                    "{}:{}",
                    one_line(view.source(one.place), 60),
                    one.place.line
                ),
            }
        })
        .collect()
}
