//! A workload for people: what is in it, when it came, what it spent its time on.

use crate::text::amount::{count, counted, duration, percent, rate};
use crate::text::chart::bars;
use crate::text::line::{listed, one_line};
use crate::text::run_text::codes;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::inspect::{InspectStatementView, InspectView, NameCountView};

/// Lines of text that the chart is high.
const CHART_LINES: usize = 3;
/// Statements shown by total time.
const BY_TOTAL_MAX: usize = 6;
/// Statements shown by calls, and by the slowest call.
const BY_OTHERS_MAX: usize = 3;

/// The workload as text, ending with a line feed.
pub fn render_text(view: &InspectView, style: &TextStyle) -> String {
    let mut lines = vec![heading(view, *style)];
    lines.extend(facts(view, style.columns()));
    lines.extend(arrivals(view, *style));
    lines.extend(statements(view, *style));
    lines.push(String::new());
    lines.join("\n")
}

fn heading(view: &InspectView, style: TextStyle) -> String {
    let ends_early = if view.recovered {
        "; recovered from an interrupted capture, it ends early"
    } else {
        ""
    };
    let name = one_line(&view.workload, 60);
    format!(
        "{}: {} from {}{ends_early}",
        style.paint(Tone::Heading, &name),
        duration(view.span_us as f64),
        clock::utc_text(view.start_wall_us)
    )
}

fn facts(view: &InspectView, width: usize) -> Vec<String> {
    let room = width.saturating_sub(18);
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, what: String| {
        if !what.is_empty() {
            table.row([format!("  {name}"), what]);
        }
    };
    row("sessions", sessions(view));
    let per_s = if view.span_us > 0 {
        let per_s = view.statements as f64 * 1e6 / view.span_us as f64;
        format!(", {} a second", rate(per_s))
    } else {
        String::new()
    };
    let writes = percent(view.writes as f64, view.statements as f64);
    row(
        "statements",
        format!("{}{per_s}; {writes} may write", count(view.statements)),
    );
    if view.prelude > 0 {
        let what = "done before this slice and put at its start, to bring sessions to it";
        row("of these", format!("{} {what}", count(view.prelude)));
    }
    row("classes", names(&view.classes, room));
    row("sent as", names(&view.kinds, room));
    row("databases", names(&view.databases, room));
    row("users", names(&view.users, room));
    row("applications", names(&view.applications, room));
    let known = percent(view.with_duration as f64, view.statements as f64);
    row("durations", format!("known of {known} of the statements"));
    row("errors", codes(&view.errors, room));
    let mut name = "not replayable";
    for reason in &view.unreplayable {
        row(
            name,
            format!("{}: {}", count(reason.count), reason.explanation),
        );
        name = "";
    }
    table.lines()
}

fn sessions(view: &InspectView) -> String {
    let mut text = format!(
        "{}, at most {} at once",
        count(view.sessions),
        count(view.sessions_at_once)
    );
    if view.sessions_start_unseen > 0 {
        text.push_str(&format!(
            "; {} began before the capture",
            count(view.sessions_start_unseen)
        ));
    }
    if view.sessions_end_unseen > 0 {
        text.push_str(&format!(
            "; {} did not end in it",
            count(view.sessions_end_unseen)
        ));
    }
    text
}

fn names(names: &[NameCountView], width: usize) -> String {
    let items: Vec<String> = names
        .iter()
        .map(|one| {
            let name = match one.name.as_str() {
                "" => "(none)".to_owned(),
                name => one_line(name, 40),
            };
            format!("{name} {}", count(one.statements))
        })
        .collect();
    listed(&items, width)
}

fn arrivals(view: &InspectView, style: TextStyle) -> Vec<String> {
    let counts = &view.arrivals.counts;
    let Some(most) = counts.iter().max() else {
        return Vec::new();
    };
    let width_us = view.arrivals.width_us as f64;
    let top = rate(*most as f64 * 1e6 / width_us);
    let left = top.chars().count();
    let title = format!(
        "Statements a second over time (a column is {})",
        duration(width_us)
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    for (row, bar) in bars(counts, CHART_LINES).into_iter().enumerate() {
        let label = if row == 0 { top.as_str() } else { "" };
        lines.push(format!("  {label:>left$} ┤{bar}").trim_end().to_owned());
    }
    let columns = counts.len();
    let end = duration(width_us * columns as f64);
    let blanks = columns.saturating_sub(end.chars().count());
    lines.push(format!("  {:>left$} └{}", "0", "─".repeat(columns)));
    lines.push(format!(
        "  {:>left$}  0{end:>width$}",
        "",
        width = blanks + end.chars().count() - 1
    ));
    lines
}

fn statements(view: &InspectView, style: TextStyle) -> Vec<String> {
    let mut by_calls: Vec<&InspectStatementView> = view.by_statement.iter().collect();
    by_calls.sort_by_key(|one| std::cmp::Reverse(one.calls));
    if view.captured.is_none() {
        return listing(view, "Statements by calls", by_calls, BY_TOTAL_MAX, style);
    }
    let max_us = |one: &InspectStatementView| one.captured.map_or(0.0, |latency| latency.max_us);
    let by_total: Vec<&InspectStatementView> = view.by_statement.iter().collect();
    let mut by_slowest = by_total.clone();
    by_slowest.sort_by(|a, b| max_us(b).total_cmp(&max_us(a)));
    let mut lines = listing(
        view,
        "Statements by total time (captured, the server's own)",
        by_total,
        BY_TOTAL_MAX,
        style,
    );
    if view.by_statement.len() <= BY_TOTAL_MAX {
        // All of them are above.
        return lines;
    }
    lines.extend(listing(view, "By calls", by_calls, BY_OTHERS_MAX, style));
    lines.extend(listing(
        view,
        "By slowest call",
        by_slowest,
        BY_OTHERS_MAX,
        style,
    ));
    lines
}

fn listing(
    view: &InspectView,
    title: &str,
    statements: Vec<&InspectStatementView>,
    most: usize,
    style: TextStyle,
) -> Vec<String> {
    if statements.is_empty() {
        return Vec::new();
    }
    let total_us = view.captured.map_or(0.0, |latency| latency.total_us);
    let mut table = Table::new(&[Align::Right; 7]);
    table.row(["share", "calls", "total", "p50", "p95", "p99", "max"].map(String::from));
    let shown = &statements[..statements.len().min(most)];
    for one in shown {
        let time = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), duration);
        let captured = one.captured;
        table.row([
            captured.map_or_else(
                || "–".to_owned(),
                |latency| percent(latency.total_us, total_us),
            ),
            count(one.calls),
            time(captured.map(|latency| latency.total_us)),
            time(captured.map(|latency| latency.p50_us)),
            time(captured.map(|latency| latency.p95_us)),
            time(captured.map(|latency| latency.p99_us)),
            time(captured.map(|latency| latency.max_us)),
        ]);
    }
    let of = format!(
        "{title}, {} of {}",
        count(shown.len() as u64),
        counted(statements.len() as u64, "statement")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &of)];
    let names = shown.iter().map(|one| match one.sql.as_str() {
        "" => one.fingerprint.as_str(),
        sql => sql,
    });
    for (numbers, name) in table
        .lines()
        .into_iter()
        .zip(std::iter::once("statement").chain(names))
    {
        let room = style.columns().saturating_sub(numbers.chars().count() + 4);
        lines.push(format!("  {numbers}  {}", one_line(name, room.max(20))));
    }
    lines
}
