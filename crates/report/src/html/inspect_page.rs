//! Page of a workload: overview, activity over time, and each statement with its details.

mod log_sections;
mod over_time;
mod sections;

use std::collections::BTreeMap;

use askama::Template;
use inspect::{Inspection, STATEMENT_STRETCHES, StatementOrder, StatementStats};
use serde::Serialize;
use workload::Sqlstate;

use super::chart::Chart;
use super::data::script_json;
use super::frame::{Frame, render};
use crate::sqlstate::condition_name;
use crate::text::inspect_text::{name_of, share};
use crate::text::line::one_line;
use crate::text::units::{count, counted, duration, duration_ns, percent, rate};
use log_sections::{FileRow, HostRow, LengthRow, LockRow, MessageRow};
use over_time::Numbers;
use sections::{ActivityRow, Bin, ErrorRow, Group, NotableRow, UpkeepRow};

/// Number of statement rows that are readable without the page's script.
const ROWS_MAX: usize = 30;

struct Fact {
    name: &'static str,
    value: String,
}

struct Row {
    name: String,
    cells: Vec<String>,
}

#[derive(Template)]
#[template(path = "inspect.html")]
struct Page<'a> {
    frame: Frame,
    view: &'a Inspection,
    name: String,
    span: String,
    start: String,
    facts: Vec<Fact>,
    notes: Vec<String>,
    column: String,
    charts: Vec<Chart>,
    numbers: Numbers,
    durations: Vec<Bin>,
    statements_note: String,
    row_heads: &'static [&'static str],
    rows: Vec<Row>,
    errors: Vec<ErrorRow>,
    messages: (Vec<MessageRow>, u64),
    lock_waits: Vec<LockRow>,
    temporary_files: (Vec<FileRow>, u64),
    hosts: (Vec<HostRow>, usize),
    session_lengths: Vec<LengthRow>,
    groups: Vec<Group>,
    sent: Vec<(String, String)>,
    activity: Vec<ActivityRow>,
    tables: Vec<UpkeepRow>,
    tables_more: usize,
    notable: Vec<NotableRow>,
    privacy: &'static str,
}

/// Additional data for the page's script, other than the statements.
#[derive(Serialize)]
struct PageData<'a> {
    start_wall_us: i64,
    span_us: i64,
    stretches: usize,
    /// Total time of all statements.
    total_ns: f64,
    sources: &'a [String],
    order: StatementOrder,
    conditions: BTreeMap<Sqlstate, &'static str>,
}

/// Renders the workload as a complete HTML file.
pub fn render_html(view: &Inspection) -> String {
    let literals = view.by_statement.iter().any(|one| {
        let example = one.example.as_ref();
        example.is_some_and(|example| example.literal.is_some())
    });
    let charts = over_time::charts(view);
    let page = Page {
        frame: Frame::new(vec![
            ("data-page", script_json(&page_data(view))),
            ("data-charts", script_json(&charts)),
            ("data-statements", script_json(&view.by_statement)),
        ]),
        view,
        name: one_line(&view.workload, 200),
        span: duration(view.span_us as f64),
        start: clock::utc_text(view.start_wall_us),
        facts: facts(view),
        notes: notes(view),
        column: duration(view.over_time.width_us as f64),
        charts,
        numbers: over_time::numbers(view),
        durations: sections::durations(view),
        statements_note: statements_note(view),
        row_heads: heads(view),
        rows: rows(view),
        errors: sections::errors(view),
        messages: log_sections::messages(view),
        lock_waits: log_sections::lock_waits(view),
        temporary_files: log_sections::temporary_files(view),
        hosts: log_sections::hosts(view),
        session_lengths: log_sections::session_lengths(view),
        groups: sections::groups(view),
        sent: sections::sent(view),
        activity: sections::activity(view),
        tables: sections::tables(view),
        tables_more: sections::tables_more(view),
        notable: sections::notable(view),
        privacy: match literals {
            true => "It shows values of the user's data: they were asked for (--show-literals).",
            false => "Statements are normalised: no literal of the user's data is in them.",
        },
    };
    render(&page)
}

fn page_data(view: &Inspection) -> PageData<'_> {
    PageData {
        start_wall_us: view.start_wall_us,
        span_us: view.span_us,
        stretches: STATEMENT_STRETCHES,
        total_ns: view.captured.map_or(0.0, |captured| captured.total_ns),
        sources: &view.sources,
        order: view.order,
        conditions: view
            .errors
            .keys()
            .map(|code| (*code, condition_name(code.as_str())))
            .collect(),
    }
}

fn facts(view: &Inspection) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name, value: String| facts.push(Fact { name, value });
    fact("statements", count(view.statements));
    if view.span_us > 0 {
        let per_s = view.statements as f64 * 1e6 / view.span_us as f64;
        fact("statements a second", rate(per_s));
    }
    fact("different statements", count(view.fingerprints));
    if let Some(captured) = view.captured {
        fact("time of all statements", duration_ns(captured.total_ns));
        fact(
            "half took no longer than",
            duration_ns(captured.p50_ns as f64),
        );
        fact(
            "99 % took no longer than",
            duration_ns(captured.p99_ns as f64),
        );
        fact("the slowest", duration_ns(captured.max_ns as f64));
    }
    fact("sessions", count(view.sessions.count));
    fact("sessions at once", count(view.sessions.at_once));
    let errors: u64 = view.errors.values().map(|error| error.count).sum();
    fact("failed statements", count(errors));
    let writes = percent(view.writes() as f64, view.statements as f64);
    fact("may write", writes);
    facts
}

fn notes(view: &Inspection) -> Vec<String> {
    let mut notes = Vec::new();
    if view.statements == 0 {
        notes.push("There is no statement in this workload.".to_owned());
    } else if view.captured.is_none() {
        notes.push(
            "The log has no durations, so no times of statements are known. Set \
             log_min_duration_statement = 0 on the server to have them."
                .to_owned(),
        );
    } else if view.with_duration() < view.statements {
        let known = percent(view.with_duration() as f64, view.statements as f64);
        notes.push(format!(
            "Durations are known of {known} of the statements; sums and shares are of these."
        ));
    }
    if view.server.count == 0 && view.statements > 0 {
        notes.push(
            "The log says nothing of temporary files, lock waits, checkpoints or autovacuum. Set \
             log_temp_files = 0, log_lock_waits = on, log_checkpoints = on and \
             log_autovacuum_min_duration = 0 to have them."
                .to_owned(),
        );
    }
    if view.sessions.start_unseen > 0 {
        notes.push(format!(
            "{} began before the capture.",
            counted(view.sessions.start_unseen, "session")
        ));
    }
    for (reason, all) in &view.unreplayable {
        notes.push(format!(
            "{} cannot be replayed as sent: {}.",
            counted(*all, "statement"),
            reason.explanation()
        ));
    }
    notes
}

fn statements_note(view: &Inspection) -> String {
    let here = view.by_statement.len() as u64;
    match here < view.fingerprints {
        true => format!(
            "The page has {} of {} statements: those that are first by time, calls, mean or slowest call.",
            count(here),
            count(view.fingerprints)
        ),
        false => format!("All {} are here.", counted(here, "statement")),
    }
}

fn heads(view: &Inspection) -> &'static [&'static str] {
    match view.captured {
        Some(_) => &["share", "total", "calls", "mean", "p95", "max", "failed"],
        None => &["calls", "failed"],
    }
}

fn rows(view: &Inspection) -> Vec<Row> {
    let cells = |one: &StatementStats| {
        let mut cells = Vec::new();
        if view.captured.is_some() {
            let times = one.captured;
            let dash = || "–".to_owned();
            let time = |ns: Option<f64>| ns.map_or_else(dash, duration_ns);
            cells.extend([
                share(one, view).unwrap_or_else(dash),
                time(times.map(|times| times.total_ns)),
                count(one.calls),
                time(times.map(|times| times.mean_ns)),
                time(times.map(|times| times.p95_ns as f64)),
                time(times.map(|times| times.max_ns as f64)),
            ]);
        } else {
            cells.push(count(one.calls));
        }
        cells.push(count(one.errors));
        cells
    };
    let shown = view.by_statement.iter().take(ROWS_MAX);
    shown
        .map(|one| Row {
            name: one_line(&name_of(one), 300),
            cells: cells(one),
        })
        .collect()
}
