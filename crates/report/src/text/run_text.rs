//! How one run went, for people.

use std::collections::BTreeMap;
use std::fmt::Display;

use analyse::LatencySummary;

use crate::text::amount::{bytes, count, counted, duration, duration_ns, rate};
use crate::text::divergence_text;
use crate::text::line::{listed, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::time_text;
use crate::view::run_summary::RunSummaryView;

/// The most errors of which the first is shown.
const EXAMPLES_MAX: usize = 8;

/// The run as text, ending with a line feed.
pub fn render_text(view: &RunSummaryView, style: &TextStyle) -> String {
    let mut lines = vec![heading(view, *style)];
    lines.extend(options_line(&view.options));
    lines.extend(outcomes(view, style.columns()));
    lines.push(String::new());
    lines.extend(times(view, *style));
    if view.sessions_held_up > 0 {
        let have = if view.sessions_held_up == 1 {
            "was"
        } else {
            "were"
        };
        lines.push(format!(
            "  {} {have} once more than {} late, because the previous statement was not done",
            counted(view.sessions_held_up, "session"),
            duration(view.session_lag_notable_us)
        ));
    }
    lines.extend(divergence_text::lines(&view.divergence, *style));
    lines.extend(examples(view, *style));
    if let Some(time) = &view.time {
        lines.extend(time_text::lines(time, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn heading(view: &RunSummaryView, style: TextStyle) -> String {
    let (tone, status) = match view.status {
        "complete" => (Tone::Good, "complete"),
        "stopped" => (Tone::Care, "partial, it was stopped"),
        _ => (Tone::Care, "partial, recovered from an interrupted replay"),
    };
    let version = match view.server_version.as_str() {
        "" => String::new(),
        version => format!(", PostgreSQL {version}"),
    };
    let against = format!(
        "{} at speed {} against {}{version}",
        view.workload, view.speed, view.target
    );
    format!(
        "{}: {}. {}",
        style.paint(Tone::Heading, &one_line(&view.run, 60)),
        style.paint(tone, status),
        one_line(&against, style.columns())
    )
}

/// The options that shape what is replayed, beside the speed; those of the machinery and the logins
/// are in the manifest.
pub(super) fn options_line(options: &BTreeMap<String, String>) -> Option<String> {
    let quiet = |name: &str| {
        let machinery = ["speed", "workers", "spin_us", "user", "database"];
        machinery.contains(&name) || name.starts_with("map_")
    };
    let shown: Vec<String> = options
        .iter()
        .filter(|(name, _)| !quiet(name))
        .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
        .collect();
    (!shown.is_empty()).then(|| format!("  with {}", one_line(&shown.join(", "), 400)))
}

fn outcomes(view: &RunSummaryView, width: usize) -> Vec<String> {
    let failed: u64 = view.failed.values().sum();
    let skipped: u64 = view.skipped.iter().map(|reason| reason.count).sum();
    let connects_failed: u64 = view.connects_failed.values().sum();
    let per_s = view
        .throughput_per_s
        .map(|per_s| format!(", {} a second", rate(per_s)))
        .unwrap_or_default();
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, number: u64, what: String| {
        table.row([format!("  {name}"), count(number), what]);
    };
    row(
        "statements",
        view.statements,
        format!(
            "in {}{per_s} (due over {})",
            duration(view.elapsed_us),
            duration(view.span_due_us)
        ),
    );
    row(
        "done",
        view.done,
        format!("{}, {}", counted(view.rows, "row"), bytes(view.bytes)),
    );
    row("failed", failed, codes(&view.failed, width - 24));
    row("skipped", skipped, String::new());
    for reason in &view.skipped {
        row("", reason.count, reason.explanation.to_owned());
    }
    if view.missing > 0 {
        let what = "of the workload are not in this run: it was killed".to_owned();
        row("missing", view.missing, what);
    }
    let not_opened = match connects_failed {
        0 => "opened".to_owned(),
        failed => format!(
            "opened; {} failed: {}",
            count(failed),
            codes(&view.connects_failed, width - 24)
        ),
    };
    row("connections", view.connects, not_opened);
    table.lines()
}

fn times(view: &RunSummaryView, style: TextStyle) -> Vec<String> {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row(["Times", "p50", "p95", "p99", "max"].map(String::from));
    let rows: [(&str, &Option<LatencySummary>); 5] = [
        ("  service time (sent → done)", &view.service),
        ("  response time (due → done)", &view.response),
        ("  tool lag (ours)", &view.tool_lag),
        (
            "  session lag (previous statement not done)",
            &view.session_lag,
        ),
        ("  opening a connection", &view.connecting),
    ];
    for (name, latency) in rows {
        let cell = |get: fn(&LatencySummary) -> u64| {
            latency.as_ref().map_or_else(
                || "–".to_owned(),
                |latency| duration_ns(get(latency) as f64),
            )
        };
        table.row([
            name.to_owned(),
            cell(|latency| latency.p50_ns),
            cell(|latency| latency.p95_ns),
            cell(|latency| latency.p99_ns),
            cell(|latency| latency.max_ns),
        ]);
    }
    let mut lines = table.lines();
    lines[0] = style.paint(Tone::Heading, &lines[0]);
    lines
}

fn examples(view: &RunSummaryView, style: TextStyle) -> Vec<String> {
    if view.examples.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        style.paint(Tone::Heading, "First of each error"),
    ];
    for example in view.examples.iter().take(EXAMPLES_MAX) {
        let text = format!(
            "{}  session {}, event {} ({}): {}",
            example.sqlstate, example.session, example.sequence, example.kind, example.message
        );
        lines.push(format!("  {}", one_line(&text, style.columns() - 2)));
    }
    let rest = view.examples.len().saturating_sub(EXAMPLES_MAX);
    if rest > 0 {
        lines.push(format!("  and {} more", count(rest as u64)));
    }
    lines
}

/// Errors by count: `23505 × 38 · 42P01 × 2`.
pub(crate) fn codes<C: Display>(errors: &BTreeMap<C, u64>, width: usize) -> String {
    let mut ordered: Vec<(&C, &u64)> = errors.iter().collect();
    ordered.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    let items: Vec<String> = ordered
        .into_iter()
        .map(|(code, number)| format!("{code} × {}", count(*number)))
        .collect();
    listed(&items, width)
}
