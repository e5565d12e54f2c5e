//! Renders a comparison as a pull-request comment in GitHub-flavoured Markdown (which GitLab reads
//! too).
//!
//! Text from outside (SQL, messages, names) is put into `<code>` with every special character as an
//! entity. So it cannot act as Markdown, HTML, a link or a mention.

use std::collections::HashSet;

use compare::condition::ConditionOutcome;
use compare::{
    Comparison, ContextComparison, ErrorChange, RowsChange, StatementComparison, Warning,
};
use statistics::LatencySummary;

use crate::text::change_text::{
    change_word, count_changes, counts_text, evidence_text, plan_line, settling_text, verdict_words,
};
use crate::text::compare_text::{
    caveats, context_cells, error_notes, error_subject, other_plans, slow_trace, warning_text,
};
use crate::text::condition_text;
use crate::text::first_text::{first_texts, later_warnings};
use crate::text::line::{one_line, printable, statement_name};
use crate::text::rows_text::{
    rows_change_text, rows_columns_text, rows_reason_text, uncompared_rows_text,
};
use crate::text::times_text::{change, name_of, p50, p99, ratio_text};
use crate::text::units::{added, count, counted, duration_ns};
use crate::text::{TextStyle, targets_text};

/// First line of a comment, by which an earlier comment is found and replaced.
pub const MARK: &str = "<!-- rehearse compare -->";

/// Maximum length; GitHub allows 65,536 characters for a comment.
const CHARACTERS_MAX: usize = 65_000;
/// Maximum number of statements in the table of changes.
const CHANGED_MAX: usize = 12;
/// Maximum number of lines in each other list.
const LISTED_MAX: usize = 12;
/// Maximum number of statements that are printed in full.
const DETAILED_MAX: usize = 40;
/// Maximum number of characters of a statement in a table.
const LINE_MAX: usize = 100;
/// Maximum number of characters of a plan change.
const PLAN_MAX: usize = 160;
/// Width of the lines on the targets.
const TARGETS_WIDTH: usize = 110;
/// Maximum number of characters of a statement printed in full.
const WHOLE_MAX: usize = 4_000;

/// Renders the comparison as Markdown, ending with a line feed.
pub fn render_markdown(view: &Comparison) -> String {
    let mut page = Page::default();
    let (head, why) = verdict_words(view);
    page.line(MARK);
    for text in first_texts(&view.warnings) {
        page.line(&format!("> **{}**", escape(&one_line(&text, 400))));
        page.line("");
    }
    page.line(&match why.as_str() {
        "" => format!("### {head}"),
        why => format!("### {head}: {why}"),
    });
    page.line("");
    if let Some(text) = settling_text(view) {
        page.line(&format!("{text}."));
        page.line("");
    }
    page.line(&caveats(view).join(" "));
    page.line("");
    sides(view, &mut page);
    conditions(view, &mut page);
    changed(view, &mut page);
    contexts(view, &mut page);
    errors(view, &mut page);
    rows(view, &mut page);
    warnings(view, &mut page);
    targets(view, &mut page);
    details(view, &mut page);
    page.text
}

/// Markdown text limited to the size of a comment.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    characters: usize,
}

impl Page {
    /// Adds a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.characters += line.chars().count() + 1;
    }

    /// Adds a line if it fits and leaves `reserved` characters for the rest.
    fn add(&mut self, line: &str, reserved: usize) -> bool {
        let fits = self.characters + line.chars().count() + 1 + reserved <= CHARACTERS_MAX;
        if fits {
            self.line(line);
        }
        fits
    }

    /// Adds the lines that fit, at most `most`, and the number of those left out.
    pub(crate) fn list(&mut self, lines: impl ExactSizeIterator<Item = String>, most: usize) {
        let all = lines.len();
        let mut shown = 0;
        for line in lines.take(most) {
            if !self.add(&line, 2_000) {
                break;
            }
            shown += 1;
        }
        if shown < all {
            self.line("");
            self.line(&format!("and {} more", count((all - shown) as u64)));
        }
        self.line("");
    }
}

/// Formats an untrusted text as code on one line, with at most `most` characters.
pub(crate) fn code(text: &str, most: usize) -> String {
    format!("<code>{}</code>", escape(&one_line(text, most)))
}

/// Replaces all characters except letters, digits and harmless punctuation with entities.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        match character {
            ' ' | ',' | '(' | ')' | '=' | '\n' => out.push(character),
            ascii if ascii.is_ascii() && !ascii.is_ascii_alphanumeric() => {
                out.push_str(&format!("&#{};", u32::from(ascii)));
            }
            other => out.push(other),
        }
    }
    out
}

fn name(statement: &StatementComparison, most: usize) -> String {
    code(&name_of(statement), most)
}

fn sides(view: &Comparison, page: &mut Page) {
    page.line("| | run | server | statements | failed | a second | response p50 | response p99 |");
    page.line("|---|---|---|---:|---:|---:|---:|---:|");
    for (label, side) in [("before", &view.before), ("after", &view.after)] {
        let runs: Vec<String> = side
            .runs
            .iter()
            .take(LISTED_MAX)
            .map(|run| code(&run.name, 60))
            .collect();
        let version = side.runs.first().map_or("", |run| &run.server_version);
        let of = |get: fn(&LatencySummary) -> f64| {
            let response = side.response.as_ref();
            response.map_or_else(|| "–".to_owned(), |latency| duration_ns(get(latency)))
        };
        page.line(&format!(
            "| {label} | {} | {} | {} | {} | {} | {} | {} |",
            runs.join(" "),
            match version {
                "" => "–".to_owned(),
                version => code(version, 40),
            },
            count(side.done + side.failed),
            count(side.failed),
            side.throughput_per_s
                .map_or_else(|| "–".to_owned(), crate::text::units::rate),
            of(p50),
            of(p99),
        ));
    }
    page.line("");
}

fn conditions(view: &Comparison, page: &mut Page) {
    if view.conditions.is_empty() {
        return;
    }
    page.line("**Conditions** (`--fail-on`)");
    page.line("");
    let line = |one: &ConditionOutcome| {
        let (head, tail) = condition_text::outcome(one);
        let head = if one.holds {
            format!("**{head}**")
        } else {
            head
        };
        let measured = condition_text::measured(&one.measured);
        let mut said = format!("- {}: {head}", code(&one.condition, 300));
        for part in [measured, tail] {
            if !part.is_empty() {
                said.push_str(&format!("; {part}"));
            }
        }
        said
    };
    page.list(view.conditions.iter().map(line), LISTED_MAX);
}

/// Lists regressions, statements that a condition names, and other changes, each by cost.
fn changed(view: &Comparison, page: &mut Page) {
    let named = view.conditions.iter().flat_map(|found| &found.statements);
    let named: HashSet<_> = named.map(|found| found.fingerprint).collect();
    let held = |one: &StatementComparison| named.contains(&one.fingerprint);
    let mut ranked: Vec<(&StatementComparison, bool)> = view
        .statements
        .iter()
        .map(|one| (one, held(one)))
        .filter(|(one, held)| *held || one.change.importance() > 0)
        .collect();
    let cost = |one: &StatementComparison| one.service.added_ns.unwrap_or(0.0).abs();
    ranked.sort_by(|(a, a_held), (b, b_held)| {
        let key = |one: &StatementComparison, held: bool| (one.change.importance(), held);
        key(b, *b_held)
            .cmp(&key(a, *a_held))
            .then_with(|| cost(b).total_cmp(&cost(a)))
    });
    if ranked.is_empty() {
        page.line("No statement was found to be slower or faster.");
        page.line("");
        plans_of_others(view, &[], page);
        return;
    }
    page.line("| finding | statement | ratio [interval] | p50 | p99 | calls | added in all |");
    page.line("|---|---|---|---|---|---:|---:|");
    let rows = ranked.iter().map(|(one, _)| {
        let mut finding = change_word(one);
        if one.change.importance() > 1 {
            finding = format!("**{finding}**");
        }
        format!(
            "| {finding} | {}{}{} | {} | {} | {} | {} | {} |",
            name(one, LINE_MAX),
            evidence(one),
            plan(one, PLAN_MAX).map_or_else(String::new, |plan| format!("<br>{plan}")),
            ratio_text(&one.service, "x").unwrap_or_else(|| "–".to_owned()),
            change(&one.service, p50),
            change(&one.service, p99),
            count(one.calls_after),
            one.service.added_ns.map_or_else(|| "–".to_owned(), added),
        )
    });
    page.list(rows.collect::<Vec<_>>().into_iter(), CHANGED_MAX);
    let ranked: Vec<&StatementComparison> = ranked.into_iter().map(|(one, _)| one).collect();
    plans_of_others(view, &ranked, page);
}

/// Lists the values of the context by which executions are compared, those that changed first.
fn contexts(view: &Comparison, page: &mut Page) {
    let Some(contexts) = &view.contexts else {
        return;
    };
    let key = contexts.key.name();
    if contexts.values.is_empty() {
        page.line(&format!(
            "No comment of the replayed statements names its {key}."
        ));
        page.line("");
        return;
    }
    page.line(&format!("**By {key}** (no part of the verdict)"));
    page.line("");
    page.line(&format!(
        "| finding | {key} | ratio [interval] | p50 | p99 | calls | added in all |"
    ));
    page.line("|---|---|---|---|---|---:|---:|");
    let mut ranked: Vec<&ContextComparison> = contexts.values.iter().collect();
    ranked.sort_by_key(|value| std::cmp::Reverse(value.change.importance()));
    let row = |value: &ContextComparison| {
        let [mut finding, ratio, added, calls, p50, p99, _] = context_cells(value);
        let mut examples = String::new();
        if value.change.importance() > 1 {
            finding = format!("**{finding}**");
            if let Some(one) = value.statements.first() {
                let name = statement_name(one.sql.as_deref(), one.fingerprint);
                let by = crate::text::units::added(one.added_ns);
                examples.push_str(&format!("<br>{by} by {}", code(&name, LINE_MAX)));
            }
            if let Some((trace, time)) = slow_trace(value) {
                examples.push_str(&format!("<br>trace {}: {time} after", code(&trace, 60)));
            }
        }
        let name = code(&value.value, LINE_MAX);
        format!("| {finding} | {name}{examples} | {ratio} | {p50} | {p99} | {calls} | {added} |")
    };
    let rows: Vec<String> = ranked.into_iter().map(row).collect();
    page.list(rows.into_iter(), LISTED_MAX);
}

/// Lists changed plans of statements that are not in the table.
fn plans_of_others(view: &Comparison, shown: &[&StatementComparison], page: &mut Page) {
    let shown = &shown[..shown.len().min(CHANGED_MAX)];
    if let Some(others) = other_plans(view, shown) {
        page.line(&format!("{others}."));
        page.line("");
    }
}

/// Describes why a statement is thought to have changed.
fn evidence(statement: &StatementComparison) -> String {
    match evidence_text(&statement.change) {
        none if none.is_empty() => none,
        text => format!("<br>{}", escape(&text)),
    }
}

/// Describes the change of a statement's plan.
fn plan(statement: &StatementComparison, most: usize) -> Option<String> {
    plan_line(statement).map(|line| format!("plan: {}", code(&line, most)))
}

fn errors(view: &Comparison, page: &mut Page) {
    if view.errors.is_empty() {
        return;
    }
    page.line("**Errors that changed**");
    page.line("");
    page.line("| | SQLSTATE | before | after | what |");
    page.line("|---|---|---:|---:|---|");
    let row = |change: &ErrorChange| {
        let direction = match change.regression {
            true => format!("**{}**", change.direction.name()),
            false => change.direction.name().to_owned(),
        };
        let mut parts = Vec::new();
        if let Some(message) = &change.message {
            parts.push(code(message, 160));
        }
        parts.push(match change.fingerprint {
            None => error_subject(change),
            Some(_) => code(&error_subject(change), LINE_MAX),
        });
        parts.extend(
            error_notes(change)
                .iter()
                .map(|note| format!("({})", escape(note))),
        );
        format!(
            "| {direction} | {} | {} | {} | {} |",
            escape(change.sqlstate.as_str()),
            count(change.before),
            count(change.after),
            parts.join(" ")
        )
    };
    page.list(view.errors.iter().map(row), LISTED_MAX);
}

fn rows(view: &Comparison, page: &mut Page) {
    if let Some(ignored) = uncompared_rows_text(&view.rows) {
        page.line(&escape(&ignored));
        page.line("");
    }
    if view.rows.changes.is_empty() {
        return;
    }
    page.line("**Rows that differ** (no part of the verdict)");
    page.line("");
    let line = |change: &RowsChange| {
        let sql = statement_name(change.sql.as_deref(), change.fingerprint);
        let columns = rows_columns_text(change).map(|columns| format!("<br>{}", escape(&columns)));
        format!(
            "- {}: {}{}<br>{}",
            rows_change_text(change),
            code(&sql, LINE_MAX),
            columns.unwrap_or_default(),
            escape(&rows_reason_text(change))
        )
    };
    page.list(view.rows.changes.iter().map(line), LISTED_MAX);
}

fn warnings(view: &Comparison, page: &mut Page) {
    let warnings: Vec<&Warning> = later_warnings(&view.warnings).collect();
    if warnings.is_empty() {
        return;
    }
    page.line("**Read with care**");
    page.line("");
    let line = |warning: &&Warning| format!("- {}", code(&warning_text(warning), 400));
    page.list(warnings.iter().map(line), LISTED_MAX);
}

/// Lists the differences of the servers and their contents, folded.
fn targets(view: &Comparison, page: &mut Page) {
    let Some(targets) = &view.targets else {
        return;
    };
    let style = TextStyle {
        width: TARGETS_WIDTH,
        colour: false,
    };
    let mut lines = targets_text::lines(targets, style);
    // The first two lines are a blank line and a title.
    lines.drain(..lines.len().min(2));
    if targets.version_before != targets.version_after {
        let name = |version: &Option<String>| version.clone().unwrap_or_else(|| "?".to_owned());
        let (was, is) = (name(&targets.version_before), name(&targets.version_after));
        let versions = format!("  {:<10}  {was} → {is}", "version");
        lines.insert(0, one_line_after_indent(&versions));
    }
    if lines.is_empty() {
        return;
    }
    page.line("<details><summary>Targets, before → after</summary>");
    page.line("");
    let mut shown = 0;
    for (at, line) in lines.iter().enumerate() {
        let start = if at == 0 { "<pre>" } else { "" };
        if !page.add(&format!("{start}{}", escape(line)), 3_000) {
            break;
        }
        shown += 1;
    }
    if shown < lines.len() {
        page.line(&format!(
            "  and {} more",
            counted((lines.len() - shown) as u64, "line")
        ));
    }
    page.line(if shown > 0 { "</pre>" } else { "" });
    page.line("");
    page.line("</details>");
    page.line("");
}

/// Escapes a line of the targets' table and keeps its indent.
fn one_line_after_indent(line: &str) -> String {
    let kept: String = line.chars().take(TARGETS_WIDTH).collect();
    kept.chars().map(printable).collect()
}

/// Prints changed statements in full, and describes the rest in a sentence.
fn details(view: &Comparison, page: &mut Page) {
    let counts = count_changes(&view.statements);
    let percent = view.false_discovery_rate * 100.0;
    let chance = match view.is_noise_known() {
        true => format!(", and at most {percent:.0} % of them are expected to be chance"),
        false => format!(
            ", and at most {percent:.0} % of them are expected to be chance within these two runs; what other runs would differ by is not known"
        ),
    };
    page.line("<details><summary>Details</summary>");
    page.line("");
    page.line(&format!(
        "{}: {}. A ratio is after / before of the median (or of what the finding names) with its {} % interval; slower and faster are clear of ±{:.0} %{}.",
        counted(view.statements.len() as u64, "statement"),
        counts_text(&counts),
        view.interval_level_percent,
        view.margin * 100.0,
        chance,
    ));
    page.line("");
    let mut changed: Vec<&StatementComparison> = view
        .statements
        .iter()
        .filter(|one| one.change.importance() > 0)
        .collect();
    changed.sort_by_key(|one| std::cmp::Reverse(one.change.importance()));
    let mut shown = 0;
    for one in changed.iter().take(DETAILED_MAX) {
        let block = format!(
            "{} <code>{}</code>, {}{}:\n\n<pre>{}</pre>\n",
            change_word(one),
            escape(&one.fingerprint.to_string()),
            ratio_text(&one.service, "x").unwrap_or_else(|| "–".to_owned()),
            plan(one, WHOLE_MAX / 4).map_or_else(String::new, |plan| format!("; {plan}")),
            escape(&escape_block(&name_of(one), WHOLE_MAX)),
        );
        if !page.add(&block, 200) {
            break;
        }
        shown += 1;
    }
    if shown < changed.len() {
        page.line(&format!(
            "and {} more",
            count((changed.len() - shown) as u64)
        ));
        page.line("");
    }
    page.line("</details>");
}

/// Escapes a multi-line text of at most `most` characters. Empty lines would end the block.
fn escape_block(text: &str, most: usize) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let mut out = String::new();
    let mut left = most;
    for line in lines {
        let indent: String = line
            .chars()
            .take_while(|character| *character == ' ')
            .take(40)
            .collect();
        let line = format!("{indent}{}", one_line(line, left));
        left = left.saturating_sub(line.chars().count());
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&line);
        if left == 0 {
            break;
        }
    }
    out
}
