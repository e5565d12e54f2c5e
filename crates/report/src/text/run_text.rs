//! Text on a run.

use std::collections::BTreeMap;
use std::fmt::Display;

use clock::duration_text;
use inspect::SESSION_LAG_NOTABLE_NS;
use run::{RunStatus, ToolStall};
use statistics::LatencySummary;

use crate::text::divergence_text;
use crate::text::line::{listed, one_line, wrapped};
use crate::text::shards_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::time_text;
use crate::text::units::{bytes, count, counted, rate};
use study::run_summary::RunReport;

/// Maximum number of errors with an example.
const EXAMPLES_MAX: usize = 8;

/// Renders the run, ending with a line feed.
pub fn render_text(view: &RunReport, style: &TextStyle) -> String {
    let mut lines = divergence_text::leading_lines(&view.divergence, *style);
    lines.push(heading(view, *style));
    lines.extend(super::run_options::options_line(&view.options));
    if let Some(text) = super::run_options::inferred_line(&view.options) {
        lines.extend(wrapped(
            &text,
            "  inferred     ",
            "               ",
            style.columns(),
        ));
    }
    lines.extend(shards_text::lines(view, *style));
    lines.extend(outcomes(view, style.columns()));
    lines.push(String::new());
    lines.extend(times(view, *style));
    let held_up = view.summary.sessions_held_up;
    if held_up > 0 {
        let have = if held_up == 1 { "was" } else { "were" };
        lines.push(format!(
            "  {} {have} once more than {} late, because the previous statement was not done",
            counted(held_up, "session"),
            duration_text(SESSION_LAG_NOTABLE_NS as i64)
        ));
    }
    lines.extend(stalls_line(&view.tool_stalls, *style));
    lines.extend(divergence_text::lines(&view.divergence, *style));
    lines.extend(examples(view, *style));
    if let Some(time) = &view.time {
        lines.extend(time_text::lines(time, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn heading(view: &RunReport, style: TextStyle) -> String {
    let (tone, status) = match view.status {
        RunStatus::Complete => (Tone::Good, "complete"),
        RunStatus::Stopped => (Tone::Care, "partial, it was stopped"),
        RunStatus::Recovered => (Tone::Care, "partial, recovered from an interrupted replay"),
        RunStatus::Incomplete => (Tone::Care, "partial, shards are missing or incomplete"),
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

fn outcomes(view: &RunReport, width: usize) -> Vec<String> {
    let summary = &view.summary;
    let connects_failed: u64 = summary.connects_failed.values().sum();
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
        summary.statements,
        format!(
            "in {}{per_s} (due over {})",
            duration_text(summary.elapsed_ns),
            duration_text(view.span_due_ns)
        ),
    );
    row(
        "done",
        summary.done,
        format!("{}, {}", counted(summary.rows, "row"), bytes(summary.bytes)),
    );
    row(
        "failed",
        summary.failed_total(),
        codes(&summary.failed, width - 24),
    );
    row("skipped", summary.skipped_total(), String::new());
    for (reason, count) in &summary.skipped {
        row("", *count, reason.explanation().to_owned());
    }
    if view.missing > 0 {
        let reason = match view.status {
            RunStatus::Incomplete => "its shards are not complete",
            _ => "it was killed",
        };
        let what = format!("of the workload are not in this run: {reason}");
        row("missing", view.missing, what);
    }
    let not_opened = match connects_failed {
        0 => "opened".to_owned(),
        failed => format!(
            "opened; {} failed: {}",
            count(failed),
            codes(&summary.connects_failed, width - 24)
        ),
    };
    row("connections", summary.connects, not_opened);
    table.lines()
}

fn times(view: &RunReport, style: TextStyle) -> Vec<String> {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row(["Times", "p50", "p95", "p99", "max"].map(String::from));
    let summary = &view.summary;
    let rows = [
        ("  service time (sent → done)", summary.service),
        ("  response time (due → done)", summary.response),
        ("  tool lag (ours)", summary.tool_lag),
        (
            "  session lag (previous statement not done)",
            summary.session_lag,
        ),
        ("  opening a connection", summary.connecting),
    ];
    for (name, latency) in rows {
        let cell = |get: fn(LatencySummary) -> u64| {
            latency.map_or_else(
                || "–".to_owned(),
                |latency| duration_text(get(latency) as i64),
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

/// Returns a sentence on the times at which the replay itself did not run.
fn stalls_line(stalls: &[ToolStall], style: TextStyle) -> Option<String> {
    let longest_ns = stalls.iter().map(|stall| stall.longest_ns).max()?;
    let lengths = stalls.iter().map(|stall| stall.until_ns - stall.from_ns);
    let total_ns: i64 = lengths.sum();
    let text = format!(
        "  the replay itself was stopped or starved {}, by up to {}; {} until nothing was late because of it. This is tool \
         lag, and compare leaves these times out",
        counted(stalls.len() as u64, "time"),
        duration_text(longest_ns),
        duration_text(total_ns)
    );
    Some(style.paint(Tone::Care, &text))
}

fn examples(view: &RunReport, style: TextStyle) -> Vec<String> {
    let examples = &view.summary.examples;
    if examples.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        style.paint(Tone::Heading, "First of each error"),
    ];
    for example in examples.iter().take(EXAMPLES_MAX) {
        let text = format!(
            "{}  session {}, event {} ({}): {}",
            example.sqlstate,
            example.session,
            example.sequence,
            example.kind.name(),
            example.message.as_deref().unwrap_or_default()
        );
        lines.push(format!("  {}", one_line(&text, style.columns() - 2)));
    }
    let rest = examples.len().saturating_sub(EXAMPLES_MAX);
    if rest > 0 {
        lines.push(format!("  and {} more", count(rest as u64)));
    }
    lines
}

/// Formats errors by count: `23505 × 38 · 42P01 × 2`.
pub(crate) fn codes(errors: &BTreeMap<impl Display, u64>, width: usize) -> String {
    let mut ordered: Vec<_> = errors.iter().collect();
    ordered.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    let items: Vec<String> = ordered
        .into_iter()
        .map(|(code, number)| format!("{code} × {}", count(*number)))
        .collect();
    listed(&items, width)
}
