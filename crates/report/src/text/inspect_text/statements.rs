//! Top statements in four orders, and the slowest calls.

use std::borrow::Cow;

use inspect::{CallExample, Inspection, StatementOrder, StatementStats};
use statistics::LatencySummary;

use super::server::place;
use crate::text::line::{one_line, statement_name};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::times_text::{p50, p95, p99};
use crate::text::units::{count, counted, duration, duration_ns, percent};

/// Number of statements by total time.
const BY_TOTAL_MAX: usize = 5;
/// Number of statements in the other orders.
const BY_OTHERS_MAX: usize = 3;

/// Column of a statement list.
type Cell = (&'static str, fn(&StatementStats, &Inspection) -> String);

const CALLS: Cell = ("calls", |one, _| count(one.calls));
const ERRORS: Cell = ("failed", |one, _| count(one.errors));
const ROWS: Cell = ("rows", |one, _| one.rows.map_or_else(dash, count));
const SHARE: Cell = ("share", |one, all| share(one, all).unwrap_or_else(dash));
const TOTAL: Cell = ("total", |one, _| time(one, |latency| latency.total_ns));
const MEAN: Cell = ("mean", |one, _| time(one, |latency| latency.mean_ns));
const P50: Cell = ("p50", |one, _| time(one, p50));
const P95: Cell = ("p95", |one, _| time(one, p95));
const P99: Cell = ("p99", |one, _| time(one, p99));
const MAX: Cell = ("max", |one, _| time(one, |latency| latency.max_ns as f64));

fn dash() -> String {
    "–".to_owned()
}

fn time(one: &StatementStats, of: fn(&LatencySummary) -> f64) -> String {
    one.captured
        .map_or_else(dash, |latency| duration_ns(of(&latency)))
}

/// Formats a statement's share of the time of all statements.
pub(crate) fn share(one: &StatementStats, all: &Inspection) -> Option<String> {
    Some(percent(one.captured?.total_ns, all.captured?.total_ns))
}

/// Names the statement by its SQL, or by its fingerprint if that is unknown.
pub(crate) fn name_of(one: &StatementStats) -> Cow<'_, str> {
    statement_name(one.sql.as_deref(), one.fingerprint)
}

/// Returns the lists; with an `order`, only that one.
pub(super) fn lists(
    view: &Inspection,
    order: Option<StatementOrder>,
    most: Option<usize>,
    style: TextStyle,
) -> Vec<String> {
    if view.captured.is_none() {
        let most = most.unwrap_or(BY_TOTAL_MAX + BY_OTHERS_MAX);
        return listing(view, StatementOrder::Calls, most, style);
    }
    let mut lines = Vec::new();
    let few = view.by_statement.len() <= BY_TOTAL_MAX && most.is_none();
    for each in StatementOrder::ALL {
        let shown = match order {
            Some(order) => each == order,
            // The first list has all statements; the last has the slowest calls.
            None => !few || matches!(each, StatementOrder::Total | StatementOrder::Max),
        };
        if shown {
            let usual = match each {
                StatementOrder::Total => BY_TOTAL_MAX,
                _ => BY_OTHERS_MAX,
            };
            lines.extend(listing(view, each, most.unwrap_or(usual), style));
        }
    }
    lines
}

fn listing(view: &Inspection, order: StatementOrder, most: usize, style: TextStyle) -> Vec<String> {
    let shown: Vec<&StatementStats> = view
        .top(order, most)
        .into_iter()
        .filter(|one| one.calls > 0)
        .collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let (title, mut cells) = match order {
        StatementOrder::Total => (
            "Statements by total time (captured, the server's own)",
            vec![SHARE, CALLS, TOTAL, P50, P95, P99, MAX],
        ),
        StatementOrder::Calls if view.captured.is_none() => ("Statements by calls", vec![CALLS]),
        StatementOrder::Calls => ("By calls", vec![SHARE, CALLS, TOTAL, P50, P95, P99]),
        StatementOrder::Mean => ("By mean", vec![MEAN, CALLS, SHARE, P50, P95, P99]),
        StatementOrder::Max => ("By slowest call", vec![MAX, CALLS, SHARE, P50, P95, P99]),
    };
    if shown.iter().any(|one| one.rows.is_some()) {
        cells.push(ROWS);
    }
    if shown.iter().any(|one| one.errors > 0) {
        cells.push(ERRORS);
    }
    let mut table = Table::new(&vec![Align::Right; cells.len()]);
    table.line(cells.iter().map(|(name, _)| (*name).to_owned()).collect());
    for one in &shown {
        table.line(cells.iter().map(|(_, cell)| cell(one, view)).collect());
    }
    let of = format!(
        "{title}, {} of {}",
        count(shown.len() as u64),
        counted(view.fingerprints, "statement")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &of)];
    let names = shown.iter().map(|one| name_of(one));
    let names = std::iter::once(Cow::Borrowed("statement")).chain(names);
    for (place, (numbers, name)) in table.lines().into_iter().zip(names).enumerate() {
        let room = style.columns().saturating_sub(numbers.chars().count() + 4);
        lines.push(format!("  {numbers}  {}", one_line(&name, room.max(20))));
        let example = place
            .checked_sub(1)
            .and_then(|place| shown[place].example.as_ref())
            .filter(|_| order == StatementOrder::Max);
        if let Some(example) = example {
            lines.push(style.paint(Tone::Aside, &format!("    {}", slowest(example, view))));
            lines.extend(literal(example, style.columns()));
        }
    }
    lines
}

/// Describes the position of a call in the source.
fn slowest(example: &CallExample, view: &Inspection) -> String {
    let mut text = format!(
        "the slowest: {} after the start, session {}",
        duration(example.due_us as f64),
        example.session
    );
    if example.place.line > 0 {
        let at = place(view.source(example.place), example.place.line);
        text.push_str(&format!(", {at}"));
    }
    text
}

fn literal(example: &CallExample, width: usize) -> Vec<String> {
    let Some(literal) = &example.literal else {
        return Vec::new();
    };
    let mut lines = vec![format!("    {}", one_line(&literal.sql, width - 4))];
    if !literal.parameters.is_empty() {
        let values: Vec<String> = (1..)
            .zip(&literal.parameters)
            .map(|(number, value)| match value {
                Some(value) => format!("${number} = '{value}'"),
                None => format!("${number} = NULL"),
            })
            .collect();
        lines.push(format!("    {}", one_line(&values.join(", "), width - 4)));
    }
    lines
}
