//! Statements by the context that comments name.

use inspect::{ContextBreakdown, ContextStats, Inspection};
use sql::ContextKey;

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted, duration, percent};

/// Number of values in the list without `--top`.
const VALUES_MAX: usize = 20;

/// Returns the list of the values of one key, by time.
pub(super) fn list(
    view: &Inspection,
    key: ContextKey,
    most: Option<usize>,
    style: TextStyle,
) -> Vec<String> {
    let name = key.name();
    let Some(breakdown) = view.contexts.iter().find(|one| one.key == key) else {
        return vec![
            String::new(),
            format!("No statement has a comment that names its {name}."),
        ];
    };
    let most = most.unwrap_or(VALUES_MAX);
    let all_us = view
        .captured
        .map_or(0.0, |captured| captured.total_ns / 1e3);
    let mut table = Table::new(&[
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
    ]);
    let heads = [
        "time",
        "share",
        "calls",
        "failed",
        "max",
        "trace of the slowest",
        name,
    ];
    table.row(heads.map(str::to_owned));
    for stats in breakdown.values.iter().take(most) {
        table.row(row(stats, all_us));
    }
    let with_value = named(breakdown);
    let title = format!("Statements by {name}");
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    lines.extend(table.lines().into_iter().map(|line| format!("  {line}")));
    if breakdown.values.len() > most {
        let more = count((breakdown.values.len() - most) as u64);
        lines.push(format!("  {more} more (--top)"));
    }
    if with_value < view.statements {
        let without = counted(view.statements - with_value, "statement");
        lines.push(format!("  {without} without one"));
    }
    lines
}

/// Counts the statements that name a value.
fn named(breakdown: &ContextBreakdown) -> u64 {
    breakdown.values.iter().map(|stats| stats.calls).sum()
}

fn row(stats: &ContextStats, all_us: f64) -> [String; 7] {
    let time = |us: u64| duration(us as f64);
    let trace = stats.slowest.and_then(|slowest| slowest.traceparent);
    [
        time(stats.time_us),
        percent(stats.time_us as f64, all_us),
        count(stats.calls),
        count(stats.errors),
        stats
            .slowest
            .map_or_else(String::new, |slowest| time(slowest.duration_us)),
        trace.map_or_else(String::new, |trace| format!("{:032x}", trace.trace_id)),
        one_line(&stats.value, 80),
    ]
}
