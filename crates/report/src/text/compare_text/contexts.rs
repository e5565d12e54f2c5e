//! Text on the comparison of routes, controllers, actions, applications or jobs.

use compare::{ContextComparison, ContextsComparison, SlowExecution};

use super::statement_table::tone;
use crate::text::change_text::word_of;
use crate::text::line::{one_line, statement_name};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::times_text::{change, p50, p99, ratio_text};
use crate::text::units::{added, count, duration_ns};

/// Maximum number of values in the table.
const VALUES_MAX: usize = 10;

/// Renders the values that changed, filled up with unchanged ones, and an example of each that changed.
pub(super) fn lines(view: &ContextsComparison, style: TextStyle) -> Vec<String> {
    let key = view.key.name();
    let title = format!("By {key}: service time, before → after; what adds most time first");
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    if view.values.is_empty() {
        lines.push(format!(
            "  no comment of the replayed statements names its {key}"
        ));
        return lines;
    }
    let shown = shown_values(view);
    let mut table = Table::new(&[
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    let heads = [
        "finding",
        "ratio [95 %]",
        "added",
        "calls",
        "p50",
        "p99",
        key,
    ];
    table.row(heads.map(str::to_owned));
    for value in &shown {
        table.row(context_cells(value));
    }
    let rows = table.lines();
    lines.extend(rows.first().cloned());
    for (value, row) in shown.iter().zip(&rows[1..]) {
        let tone = tone(&value.change);
        let word = word_of(&value.change, &value.service);
        lines.push(match tone {
            Some(tone) => row.replacen(&word, &style.paint(tone, &word), 1),
            None => row.clone(),
        });
        if tone.is_some() {
            lines.extend(examples(value, style));
        }
    }
    if view.values.len() > shown.len() {
        let more = count((view.values.len() - shown.len()) as u64);
        lines.push(format!("and {more} more (--json)"));
    }
    lines
}

/// Selects the values that changed, then the others, up to the maximum; in the view's order.
fn shown_values(view: &ContextsComparison) -> Vec<&ContextComparison> {
    let mut ranked: Vec<usize> = (0..view.values.len()).collect();
    ranked.sort_by_key(|at| std::cmp::Reverse(view.values[*at].change.importance()));
    ranked.truncate(VALUES_MAX);
    ranked.sort_unstable();
    ranked.into_iter().map(|at| &view.values[at]).collect()
}

/// Returns finding, ratio, added time, calls, median, 99th percentile and value.
pub(crate) fn context_cells(value: &ContextComparison) -> [String; 7] {
    let times = &value.service;
    let dash = || "–".to_owned();
    let (before, after) = (count(value.calls_before), count(value.calls_after));
    [
        word_of(&value.change, times),
        ratio_text(times, "").unwrap_or_else(dash),
        times.added_ns.map_or_else(dash, added),
        match value.calls_before == value.calls_after {
            true => before,
            false => format!("{before} → {after}"),
        },
        change(times, p50),
        change(times, p99),
        one_line(&value.value, 60),
    ]
}

/// Names the statement that changed the time most, and the trace of a slow execution.
fn examples(value: &ContextComparison, style: TextStyle) -> Vec<String> {
    let width = style.columns().saturating_sub(4);
    let statement = value.statements.first().map(|statement| {
        let name = statement_name(statement.sql.as_deref(), statement.fingerprint);
        format!("{} by {name}", added(statement.added_ns))
    });
    let trace = slow_trace(value).map(|(id, time)| format!("trace {id}: {time} after"));
    let both = statement.into_iter().chain(trace);
    both.map(|text| format!("    {}", one_line(&text, width)))
        .collect()
}

/// Returns the id of the trace of the slowest execution after that has one, and its service time.
pub(crate) fn slow_trace(value: &ContextComparison) -> Option<(String, String)> {
    let traced = |slow: &SlowExecution| Some((slow.traceparent?.trace_id, slow.service_ns));
    let (trace_id, service_ns) = value.slowest_after.iter().find_map(traced)?;
    Some((format!("{trace_id:032x}"), duration_ns(service_ns as f64)))
}
