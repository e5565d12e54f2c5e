//! The top statements, in four orders, and the slowest calls.

use super::server::place;
use crate::text::amount::{count, counted, duration, percent};
use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::inspect::{CallExampleView, InspectStatementView, InspectView, StatementOrder};
use crate::view::latency::LatencyView;

/// Statements shown by total time.
const BY_TOTAL_MAX: usize = 5;
/// Statements shown in the other orders.
const BY_OTHERS_MAX: usize = 3;

/// What a list shows of each statement.
type Cell = (&'static str, fn(&InspectStatementView) -> String);

const CALLS: Cell = ("calls", |one| count(one.calls));
const ERRORS: Cell = ("failed", |one| count(one.errors));
const ROWS: Cell = ("rows", |one| one.rows.map_or_else(dash, count));
const SHARE: Cell = ("share", |one| {
    one.share.map_or_else(dash, |share| percent(share, 1.0))
});
const TOTAL: Cell = ("total", |one| time(one, |latency| latency.total_us));
const MEAN: Cell = ("mean", |one| time(one, |latency| latency.mean_us));
const P50: Cell = ("p50", |one| time(one, |latency| latency.p50_us));
const P95: Cell = ("p95", |one| time(one, |latency| latency.p95_us));
const P99: Cell = ("p99", |one| time(one, |latency| latency.p99_us));
const MAX: Cell = ("max", |one| time(one, |latency| latency.max_us));

fn dash() -> String {
    "–".to_owned()
}

fn time(one: &InspectStatementView, of: fn(&LatencyView) -> f64) -> String {
    one.captured
        .map_or_else(dash, |latency| duration(of(&latency)))
}

/// The lists. With an `order`, that one alone.
pub(super) fn lists(
    view: &InspectView,
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
            // All of them stand in the first list; the last says which calls were slow.
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

fn listing(
    view: &InspectView,
    order: StatementOrder,
    most: usize,
    style: TextStyle,
) -> Vec<String> {
    let shown: Vec<&InspectStatementView> = view
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
        table.line(cells.iter().map(|(_, cell)| cell(one)).collect());
    }
    let of = format!(
        "{title}, {} of {}",
        count(shown.len() as u64),
        counted(view.fingerprints, "statement")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &of)];
    let names = std::iter::once("statement").chain(shown.iter().map(|one| one.name()));
    for (place, (numbers, name)) in table.lines().into_iter().zip(names).enumerate() {
        let room = style.columns().saturating_sub(numbers.chars().count() + 4);
        lines.push(format!("  {numbers}  {}", one_line(name, room.max(20))));
        let example = place
            .checked_sub(1)
            .and_then(|place| shown[place].example.as_ref())
            .filter(|_| order == StatementOrder::Max);
        if let Some(example) = example {
            lines.push(style.paint(Tone::Aside, &format!("    {}", slowest(example))));
            lines.extend(literal(example, style.columns()));
        }
    }
    lines
}

/// Where a call was met.
fn slowest(example: &CallExampleView) -> String {
    let mut text = format!(
        "the slowest: {} after the start, session {}",
        duration(example.at_us as f64),
        example.session
    );
    if example.line > 0 {
        text.push_str(&format!(", {}", place(&example.source, example.line)));
    }
    text
}

fn literal(example: &CallExampleView, width: usize) -> Vec<String> {
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
