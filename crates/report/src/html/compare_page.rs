//! Page of a comparison: the verdict, the slower statements with their intervals and causes, then
//! all differences of the two sides, and each statement with its details.

mod changes;
mod charts;
mod contexts;
mod glossary;
mod observed;
mod packed;
mod side_by_side;
mod targets;
mod time;

use askama::Template;
use compare::{Comparison, Finding, StatementComparison, Verdict};
use statistics::LatencySummary;
use workload::Literals;

use super::chart::Chart;
use super::data::script_json;
use super::frame::{Frame, render};
use super::status::Status;
use crate::text::change_text::{
    change_word, count_changes, counts_text, named_first, reasons_text, settling_text,
    verdict_words,
};
use crate::text::compare_text::warning_text;
use crate::text::first_text::{first_texts, later_warnings};
use crate::text::line::one_line;
use crate::text::plan_text;
use crate::text::times_text::{change, measured_change, name_of, p50, p99, ratio_text};
use crate::text::units::{added, count};
use changes::{ErrorRow, RowsRow};
use charts::Numbers;
use contexts::Contexts;
use observed::Observed;
use side_by_side::{FactRow, Side};
use targets::Targets;
use time::Time;

/// Number of statement rows that are readable without the page's script.
const ROWS_MAX: usize = 30;
/// Maximum number of statements on the page, so that it opens within a second.
const STATEMENTS_MAX: usize = 5_000;
/// Maximum number of errors, and of statements with different rows.
const CHANGES_MAX: usize = 100;

struct Headline {
    status: Status,
    head: &'static str,
    why: String,
    changed: Vec<ChangedStatement>,
    /// Steps that would settle an inconclusive comparison.
    settling: String,
    also: String,
}

/// Statement that changed independently, or looks so.
struct ChangedStatement {
    word: String,
    fingerprint: String,
    statement: String,
    reasons: String,
}

/// Maximum number of statements in the headline.
const HEADLINE_MAX: usize = 5;

/// Maximum length of a statement in the headline, in characters. A click shows all of it.
const HEADLINE_CHARS: usize = 400;

struct Row {
    name: String,
    finding: String,
    cells: [String; 5],
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Page<'a> {
    frame: Frame,
    view: &'a Comparison,
    /// Versions of the servers, such as `15.18 → 17.2`; empty if unknown.
    versions: String,
    names: String,
    verdict: Headline,
    sides: [Side; 2],
    compared: String,
    /// Warnings before the verdict.
    first: Vec<String>,
    warnings: Vec<String>,
    charts: Vec<Chart>,
    numbers: Numbers,
    time: Option<Time>,
    observed: Option<Observed>,
    errors: Vec<ErrorRow>,
    errors_more: usize,
    rows_note: String,
    row_changes: Vec<RowsRow>,
    rows_more: usize,
    targets: Option<Targets>,
    contexts: Option<Contexts>,
    facts: Vec<FactRow>,
    statements_note: String,
    table: Vec<Row>,
    words: Vec<(&'static str, String)>,
    privacy: &'static str,
}

/// Renders the comparison as a complete HTML file.
pub fn render_html(view: &Comparison) -> String {
    let statements = shown_statements(view);
    let charts = charts::charts(view);
    let page = Page {
        frame: Frame::new(vec![
            ("data-page", script_json(&packed::page(view))),
            ("data-charts", script_json(&charts)),
            (
                "data-statements",
                script_json(&packed::statements(&statements)),
            ),
            ("data-details", script_json(&packed::details(&statements))),
        ]),
        view,
        versions: side_by_side::versions(view),
        names: format!(
            "{} → {}",
            one_line(&side_by_side::names(&view.before), 80),
            one_line(&side_by_side::names(&view.after), 80)
        ),
        verdict: headline(view),
        sides: side_by_side::sides(view),
        compared: format!("{} {}", compared(view), side_by_side::noise(view)),
        first: first_texts(&view.warnings),
        warnings: later_warnings(&view.warnings).map(warning_text).collect(),
        charts,
        numbers: charts::numbers(view),
        time: time::time(view),
        observed: observed::observed(view),
        errors: changes::errors(view, &statements),
        errors_more: view.errors.len().saturating_sub(CHANGES_MAX),
        rows_note: changes::rows_note(view),
        row_changes: changes::rows(view, &statements),
        rows_more: view.rows.changes.len().saturating_sub(CHANGES_MAX),
        targets: targets::targets(view),
        contexts: view.contexts.as_ref().map(contexts::contexts),
        facts: side_by_side::facts(view),
        statements_note: statements_note(view, &statements),
        table: table(&statements),
        words: glossary::terms(view),
        privacy: match view.literals {
            Literals::Shown => {
                "It may show values of the user's data: they were asked for (--show-literals)."
            }
            Literals::Hidden => {
                "Statements are normalised, and values in messages and plans are masked. Definitions of indexes and columns, and settings, are as the server has them, with the values that stand in them."
            }
        },
    };
    render(&page)
}

fn headline(view: &Comparison) -> Headline {
    let status = match view.verdict {
        Verdict::Regression { .. } => Status::Bad,
        Verdict::NoRegression { .. } => Status::Good,
        Verdict::Inconclusive { .. } => Status::Unsure,
    };
    let (head, why) = verdict_words(view);
    Headline {
        status,
        head,
        why: sentence(&why),
        changed: changed_statements(view),
        settling: settling_text(view).map_or_else(String::new, sentence),
        also: also(view),
    }
}

/// Capitalises a text and adds a full stop; an empty text stays empty.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        format!("{}{}.", first.to_uppercase(), characters.as_str())
    })
}

/// Returns the statements that the text of the comparison names first, too.
fn changed_statements(view: &Comparison) -> Vec<ChangedStatement> {
    let entry = |one: &StatementComparison| ChangedStatement {
        word: change_word(one),
        fingerprint: one.fingerprint.to_string(),
        statement: one_line(&name_of(one), HEADLINE_CHARS),
        reasons: one_line(&reasons_text(one), HEADLINE_CHARS),
    };
    let all = named_first(view).into_iter();
    all.take(HEADLINE_MAX).map(entry).collect()
}

/// Describes the change of a statement's plan, if there is one.
fn plan_change(statement: &StatementComparison) -> Option<String> {
    let plans = statement
        .plans
        .as_ref()
        .filter(|plans| plans.is_changed())?;
    Some(one_line(&plan_text::line(plans), 300))
}

/// Describes the change of all statements together.
fn also(view: &Comparison) -> String {
    let all = &view.all;
    let Some(ratio) = ratio_text(all, "×") else {
        return String::new();
    };
    let finding = match all.finding {
        Finding::InsufficientData { .. } => "not clear",
        other => other.name(),
    };
    format!(
        "All statements together: {finding}; {}, {ratio}.",
        measured_change(all)
    )
}

fn compared(view: &Comparison) -> String {
    format!(
        "{} different statements: {}. A difference of time counts beyond {:.0} %, with {} % confidence.",
        count(view.statements.len() as u64),
        counts_text(&count_changes(&view.statements)),
        view.margin * 100.0,
        view.interval_level_percent
    )
}

/// Returns the statements on the page, in the view's order. If there are too many, it prefers
/// changed statements, then those with the most time.
fn shown_statements(view: &Comparison) -> Vec<&StatementComparison> {
    let all = &view.statements;
    if all.len() <= STATEMENTS_MAX {
        return all.iter().collect();
    }
    let total = |side: &Option<LatencySummary>| side.map_or(0.0, |times| times.total_ns);
    let time =
        |one: &StatementComparison| total(&one.service.before).max(total(&one.service.after));
    let mut ranked: Vec<usize> = (0..all.len()).collect();
    ranked.sort_by(|a, b| {
        let key = |at: usize| all[at].change.importance();
        let by_time = || time(&all[*b]).total_cmp(&time(&all[*a]));
        key(*b).cmp(&key(*a)).then_with(by_time)
    });
    ranked.truncate(STATEMENTS_MAX);
    ranked.sort_unstable();
    ranked.into_iter().map(|at| &all[at]).collect()
}

fn statements_note(view: &Comparison, kept: &[&StatementComparison]) -> String {
    let left_out = match view.statements.len() - kept.len() {
        0 => String::new(),
        _ => format!(
            " The page has {} of {} statements: those that changed, and those that took the most time; the JSON has all.",
            count(kept.len() as u64),
            count(view.statements.len() as u64)
        ),
    };
    let captured = match view.statements.iter().any(|one| one.captured.is_some()) {
        true => " An opened statement also shows its captured times.",
        false => "",
    };
    format!(
        "Times are service times: from a statement's first byte sent to its answer complete.{captured} A head sorts; a statement opens to its SQL, times, charts and slowest calls.{left_out}"
    )
}

fn table(statements: &[&StatementComparison]) -> Vec<Row> {
    let row = |one: &StatementComparison| {
        let dash = || "–".to_owned();
        Row {
            name: one_line(&name_of(one), 300),
            finding: change_word(one),
            cells: [
                ratio_text(&one.service, "×").unwrap_or_else(dash),
                one.service.added_ns.map_or_else(dash, added),
                match one.calls_before == one.calls_after {
                    true => count(one.calls_before),
                    false => format!("{} → {}", count(one.calls_before), count(one.calls_after)),
                },
                change(&one.service, p50),
                change(&one.service, p99),
            ],
        }
    };
    let shown = statements.iter().take(ROWS_MAX);
    shown.map(|one| row(one)).collect()
}
