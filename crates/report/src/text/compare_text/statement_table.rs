//! Table of a comparison: the statements that changed, by cost.

use compare::{
    Comparison, Direction, Finding, StatementChange, StatementComparison, TimesComparison,
};
use statistics::LatencySummary;

use super::other_plans;
use crate::text::change_text::{change_word, count_changes, counts_text, plan_line};
use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::times_text::{change, finding, name_of, p50, p95, p99, ratio_text};
use crate::text::units::{added, count, counted, duration_ns};

/// Maximum number of statements in the table.
pub(super) const STATEMENTS_MAX: usize = 8;
/// Number of statements up to which the table is filled with unchanged ones.
pub(super) const STATEMENTS_MIN: usize = 3;

/// Entry of the table: its first line, and the numbers of its second.
struct Entry {
    finding: String,
    tone: Option<Tone>,
    ratio: String,
    name: String,
    numbers: [String; 6],
    plan: Option<String>,
}

/// Renders the table of all statements together, connecting, and the statements that fit into `room`.
pub(super) fn statement_table(view: &Comparison, room: usize, style: TextStyle) -> Vec<String> {
    let mut entries = vec![Entry::heading()];
    entries.push(Entry::of(
        "ALL STATEMENTS",
        &view.all,
        None,
        view.captured.as_ref(),
    ));
    if view.connects.before.is_some() || view.connects.after.is_some() {
        entries.push(Entry::of("CONNECTING", &view.connects, None, None));
    }
    let shown = shown_statements(&view.statements, room);
    for statement in &shown {
        let name = &name_of(statement);
        let calls = Some((statement.calls_before, statement.calls_after));
        let entry = Entry::of(name, &statement.service, calls, statement.captured.as_ref());
        entries.push(Entry {
            finding: change_word(statement),
            tone: tone(&statement.change),
            plan: plan_line(statement),
            ..entry
        });
    }

    let mut firsts = Table::new(&[Align::Left, Align::Left]);
    let mut seconds = Table::new(&[Align::Right; 6]);
    for entry in &entries {
        firsts.row([entry.finding.clone(), entry.ratio.clone()]);
        seconds.row(entry.numbers.clone());
    }
    let (firsts, seconds) = (firsts.lines(), seconds.lines());
    let left = firsts
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    let title = "Service time (sent → done), before → after; what adds most time first";
    let mut lines = vec![style.paint(Tone::Heading, title)];
    for ((entry, first), second) in entries.iter().zip(firsts).zip(seconds) {
        let blanks = " ".repeat(left - first.chars().count());
        let painted = match entry.tone {
            Some(tone) => first.replacen(&entry.finding, &style.paint(tone, &entry.finding), 1),
            None => first,
        };
        let name = one_line(&entry.name, style.columns().saturating_sub(left + 2));
        lines.push(format!("{painted}{blanks}  {name}"));
        lines.push(format!("    {second}"));
        if let Some(plan) = &entry.plan {
            let plan = one_line(plan, style.columns().saturating_sub(10));
            lines.push(format!("    plan: {plan}"));
        }
    }
    lines.extend(others(view, &shown));
    lines.extend(other_plans(view, &shown));
    lines
}

/// Selects the statements to show: all that changed, the most expensive first, filled up with
/// unchanged ones in the view's order.
fn shown_statements(statements: &[StatementComparison], room: usize) -> Vec<&StatementComparison> {
    let cost = |one: &StatementComparison| one.service.added_ns.unwrap_or(0.0).abs();
    let changed = |one: &StatementComparison| one.change.importance() > 0;
    let mut ranked: Vec<usize> = (0..statements.len()).collect();
    ranked.sort_by(|a, b| {
        let key = |at: usize| {
            let one = &statements[at];
            one.change.importance()
        };
        let by_cost = || cost(&statements[*b]).total_cmp(&cost(&statements[*a]));
        key(*b).cmp(&key(*a)).then_with(by_cost)
    });
    let interesting = statements.iter().filter(|one| changed(one)).count();
    ranked.truncate(interesting.clamp(STATEMENTS_MIN, room));
    // The greatest additions come first; among savings, the greatest savings first.
    let saves = |at: usize| {
        statements[at]
            .service
            .added_ns
            .is_none_or(|added| added < 0.0)
    };
    ranked.sort_by(|a, b| {
        let by_cost = || cost(&statements[*b]).total_cmp(&cost(&statements[*a]));
        saves(*a).cmp(&saves(*b)).then_with(by_cost)
    });
    ranked.into_iter().map(|at| &statements[at]).collect()
}

/// Counts the statements that are not shown.
fn others(view: &Comparison, shown: &[&StatementComparison]) -> Option<String> {
    let is_shown = |one: &&StatementComparison| {
        shown
            .iter()
            .any(|other| other.fingerprint == one.fingerprint)
    };
    let rest = view.statements.iter().filter(|one| !is_shown(one));
    let counts = count_changes(rest);
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    (all > 0).then(|| {
        format!(
            "and {}: {}",
            counted(all, "more statement"),
            counts_text(&counts)
        )
    })
}

pub(super) fn tone(change: &StatementChange) -> Option<Tone> {
    match change {
        StatementChange::Independent { direction, .. } => Some(match direction {
            Direction::Slower => Tone::Bad,
            Direction::Faster => Tone::Good,
        }),
        StatementChange::Unproven { .. } => Some(Tone::Care),
        StatementChange::Along { .. } | StatementChange::None => None,
    }
}

impl Entry {
    fn heading() -> Self {
        Self {
            finding: "finding".to_owned(),
            tone: None,
            ratio: "ratio [95 %]".to_owned(),
            name: "statement".to_owned(),
            numbers: ["added", "calls", "p50", "p95", "p99", "captured p50"].map(String::from),
            plan: None,
        }
    }

    fn of(
        name: &str,
        times: &TimesComparison,
        calls: Option<(u64, u64)>,
        captured: Option<&LatencySummary>,
    ) -> Self {
        let dash = || "–".to_owned();
        let done = |side: Option<LatencySummary>| side.map_or(0, |latency| latency.count);
        let (before, after) = calls.unwrap_or((done(times.before), done(times.after)));
        let calls = if before == after {
            count(before)
        } else {
            format!("{} → {}", count(before), count(after))
        };
        Self {
            finding: finding(times),
            tone: match times.finding {
                Finding::Slower { .. } => Some(Tone::Bad),
                Finding::Faster { .. } => Some(Tone::Good),
                Finding::Same | Finding::InsufficientData { .. } => None,
            },
            ratio: ratio_text(times, "").unwrap_or_else(dash),
            name: name.to_owned(),
            numbers: [
                times.added_ns.map_or_else(dash, added),
                calls,
                change(times, p50),
                change(times, p95),
                change(times, p99),
                captured.map_or_else(dash, |latency| duration_ns(p50(latency))),
            ],
            plan: None,
        }
    }
}
