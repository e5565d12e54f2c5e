//! Text on a comparison: verdict, warnings, changes by cost, errors, legend.

mod contexts;
mod statement_table;

use compare::{
    Comparison, ErrorChange, NoiseSource, RowsChange, RunFacts, StatementComparison, Verdict,
    Warning,
};
use plans::StatementPlans;

pub(crate) use self::contexts::{context_cells, slow_trace};
use self::statement_table::{STATEMENTS_MAX, STATEMENTS_MIN, statement_table};
use crate::text::change_text::{
    change_word, common_text, named_first, plan_line, reasons_text, settling_text, verdict_words,
};
use crate::text::condition_text;
use crate::text::first_text::{first_text, first_texts, later_warnings};
use crate::text::line::{one_line, statement_name, wrapped};
use crate::text::rows_text::{
    rows_change_text, rows_columns_text, rows_reason_text, uncompared_rows_text,
};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::targets_text;
use crate::text::time_text;
use crate::text::times_text::{name_of, p50, p99};
use crate::text::units::{count, counted, duration_change, duration_ns, rate};

/// Approximate maximum number of lines: the height of a screen.
const LINES: usize = 40;
/// Lines of the table other than statements: title, heads, all statements, connecting, the rest.
const TABLE_LINES: usize = 9;
/// Maximum number of causes and suspects before the table.
const CHANGED_MAX: usize = 3;
/// Maximum number of errors.
const ERRORS_MAX: usize = 6;
/// Maximum number of statements with different rows.
const ROWS_MAX: usize = 6;
/// Columns of an error's direction, code and counts, with their gaps.
const ERROR_COLUMNS: usize = 5 + 2 + 5 + 2 + 2;

/// Renders the comparison, ending with a line feed.
pub fn render_text(view: &Comparison, style: &TextStyle) -> String {
    let first = first_texts(&view.warnings).into_iter();
    let mut lines: Vec<String> = first
        .flat_map(|text| wrapped(&format!("! {text}."), "", "  ", style.columns()))
        .map(|line| style.paint(Tone::Bad, &line))
        .collect();
    lines.push(verdict(view, *style));
    lines.extend(changed_lines(view, *style));
    lines.extend(settling_text(view).map(|text| style.paint(Tone::Aside, &format!("  {text}."))));
    lines.push(String::new());
    lines.extend(header(view, *style));
    lines.extend(warnings(view, *style));
    lines.push(String::new());
    let mut closing_lines = errors(view, *style);
    closing_lines.extend(rows(view, *style));
    closing_lines.extend(condition_text::lines(&view.conditions, *style));
    if let Some(targets) = &view.targets {
        closing_lines.extend(targets_text::lines(targets, *style));
    }
    if let Some(time) = &view.time {
        closing_lines.extend(time_text::change_lines(time, *style));
    }
    if let Some(observed) = &view.observed {
        let changed = observed
            .numbers
            .iter()
            .filter(|one| one.share() > 0.1)
            .count();
        closing_lines.push(format!(
            "  {} observed of the targets changed by more than a tenth (--html, --json)",
            counted(changed as u64, "number")
        ));
    }
    closing_lines.push(String::new());
    closing_lines.extend(legend(view, *style));
    closing_lines.push(String::new());
    // Statements take the remaining lines.
    let each = 2 + usize::from(view.statements.iter().any(|one| plan_line(one).is_some()));
    let left = LINES.saturating_sub(lines.len() + closing_lines.len() + TABLE_LINES);
    let room = (left / each).clamp(STATEMENTS_MIN, STATEMENTS_MAX);
    lines.extend(statement_table(view, room, *style));
    if let Some(contexts) = &view.contexts {
        lines.extend(contexts::lines(contexts, *style));
    }
    lines.extend(closing_lines);
    lines.join("\n")
}

fn verdict(view: &Comparison, style: TextStyle) -> String {
    let tone = match view.verdict {
        Verdict::Regression { .. } => Tone::Bad,
        Verdict::NoRegression { .. } => Tone::Good,
        Verdict::Inconclusive { .. } => Tone::Care,
    };
    let (head, why) = verdict_words(view);
    let text = match (view.verdict, why.as_str()) {
        (_, "") => format!("{head}."),
        (Verdict::Regression { .. }, why) => format!("{}: {why}.", head.to_uppercase()),
        (Verdict::NoRegression { .. }, why) => format!("{head}. {why}."),
        (Verdict::Inconclusive { .. }, why) => format!("{head}: {why}."),
    };
    style.paint(tone, &text)
}

/// Lists the causes, and what looks like one.
fn changed_lines(view: &Comparison, style: TextStyle) -> Vec<String> {
    let all = named_first(view);
    let width = style.columns().saturating_sub(4);
    let mut lines = Vec::new();
    for one in all.iter().take(CHANGED_MAX) {
        let title = format!("{}: {}", change_word(one), name_of(one));
        lines.push(format!("  {}", one_line(&title, width + 2)));
        lines.push(format!("    {}", one_line(&reasons_text(one), width)));
    }
    if all.len() > CHANGED_MAX {
        let more = counted((all.len() - CHANGED_MAX) as u64, "more statement");
        lines.push(format!("  and {more}"));
    }
    lines
}

fn header(view: &Comparison, style: TextStyle) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
    for (name, side) in [("before", &view.before), ("after", &view.after)] {
        for (at, run) in side.runs.iter().enumerate() {
            table.row([
                format!("  {}", if at == 0 { name } else { "" }),
                one_line(&run.name, 40),
                one_line(&side_facts(run), style.columns().saturating_sub(20)),
            ]);
        }
    }
    let mut lines = table.lines();
    lines.extend(
        view.common
            .as_ref()
            .map(|common| format!("  common  {}", common_text(common))),
    );
    lines.extend(noise(view));
    lines
}

/// Describes the noise between runs of the same server.
fn noise(view: &Comparison) -> Option<String> {
    let noise = view.noise.as_ref()?;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let tail = noise
        .p99
        .map_or_else(String::new, |p99| format!(", p99 {}", percent(p99)));
    let (median, mean) = (percent(noise.median), percent(noise.mean));
    Some(match noise.source {
        NoiseSource::Given => format!(
            "  noise   {} of one server surely differ by: median {median}, mean {mean}{tail} (95 % of statements)",
            counted(noise.runs.len() as u64, "run")
        ),
        NoiseSource::Repeats => format!(
            "  noise   runs of one side differ as a whole by: median {median}, mean {mean}{tail} (standard deviation)"
        ),
    })
}

fn side_facts(run: &RunFacts) -> String {
    let mut facts = vec![
        format!("{} done", count(run.done)),
        format!("{} failed", count(run.failed)),
        format!("{} skipped", count(run.skipped)),
        format!("in {}", duration_ns(run.elapsed_ns as f64)),
    ];
    if run.elapsed_ns > 0 {
        let per_s = (run.done + run.failed) as f64 * 1e9 / run.elapsed_ns as f64;
        facts.push(format!("{} a second", rate(per_s)));
    }
    if !run.server_version.is_empty() {
        facts.push(format!("PostgreSQL {}", run.server_version));
    }
    if run.connects_failed > 0 {
        facts.push(format!(
            "{} failed to connect",
            counted(run.connects_failed, "session")
        ));
    }
    facts.join(", ")
}

fn warnings(view: &Comparison, style: TextStyle) -> Vec<String> {
    let mut warnings = later_warnings(&view.warnings).peekable();
    if warnings.peek().is_none() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.paint(Tone::Care, "Read with care:")];
    lines.extend(warnings.map(|one| format!("  ! {}", one_line(&warning_text(one), usize::MAX))));
    lines
}

/// Describes a warning in a sentence without a full stop.
pub(crate) fn warning_text(warning: &Warning) -> String {
    match warning {
        Warning::TargetNotRestored { .. }
        | Warning::ForgottenStatistics { .. }
        | Warning::UnequalBuilds { .. } => first_text(warning).unwrap_or_default(),
        Warning::DifferentWorkloads { before, after } => {
            format!(
                "the runs replayed different workloads, {before} and {after}, so that differences may be theirs: replay one of them on both servers, and compare those runs"
            )
        }
        Warning::Partial { run, status } => {
            format!(
                "the run {run} is partial: it was {} before its end",
                status.name()
            )
        }
        Warning::ShardsIncomplete {
            run,
            shards,
            statements,
        } => format!(
            "the run {run} is incomplete: its shards {shards} are missing or did not reach their end, and {} are missing; complete them with `rehearse replay … --shard I/N --resume`",
            counted(*statements, "statement")
        ),
        Warning::SpeedsDiffer { before, after } => {
            format!("the speeds differ, {before} and {after}, and so did the load")
        }
        Warning::ToolLagHigh { run, p99_ns } => format!(
            "the replaying machine was a bottleneck in the run {run}: tool lag p99 is {}",
            duration_ns(*p99_ns as f64)
        ),
        Warning::ToolStalled {
            run,
            stalls,
            longest_ns,
            total_ns,
            statements,
        } => format!(
            "the replay itself was stopped or starved in the run {run}: {}, by up to {}, {} until nothing was late because \
             of it; {} of this run are not compared",
            counted(*stalls as u64, "time"),
            duration_ns(*longest_ns as f64),
            duration_ns(*total_ns as f64),
            counted(*statements, "statement"),
        ),
        Warning::MachineBusy { run, load } => {
            let parts = [
                load.others
                    .map(|share| format!("others used {share} % of its processors")),
                (load.stolen > 0)
                    .then(|| format!("{} % was stolen by the hypervisor", load.stolen)),
                load.throttled
                    .filter(|share| *share > 0)
                    .map(|share| format!("the replay was throttled for {share} % of the time")),
                load.waited.map(|share| {
                    format!("some process waited for a processor for {share} % of the time")
                }),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!(
                "the machine was busy in the run {run}: {}",
                parts.join(", ")
            )
        }
        Warning::FellBehind { run, by_ns } => format!(
            "the server did not keep up in the run {run}: it ended {} late",
            duration_ns(*by_ns as f64)
        ),
        Warning::RefusedReadOnly { run, statements } => format!(
            "{} of the run {run} failed only because of --read-only, and are not compared: they count as skipped",
            counted(*statements, "statement")
        ),
        Warning::SkippedDiffer { before, after } => format!(
            "{} before and {} after were skipped",
            counted(*before, "statement"),
            count(*after)
        ),
        Warning::NoConnection { run, statements } => format!(
            "{} of the run {run} had no connection to go to",
            counted(*statements, "statement")
        ),
        Warning::NotInTurns { first } => format!(
            "all runs {} the change came first, so other changes over time look like effects of the change; \
             replay in pairs: rehearse replay NAME.workload --against BEFORE --against AFTER",
            first.name()
        ),
        Warning::FewStatements { statements } => {
            format!("only {} to compare", counted(*statements, "statement"))
        }
    }
}

/// Describes changed plans of statements that are not shown.
pub(crate) fn other_plans(view: &Comparison, shown: &[&StatementComparison]) -> Option<String> {
    let changed = |one: &&StatementComparison| {
        let plans = one.plans.as_ref();
        plans.is_some_and(StatementPlans::is_changed)
    };
    let all = view.statements.iter().filter(changed).count();
    let rest = all - shown.iter().copied().filter(changed).count();
    (rest > 0).then(|| {
        let have = if rest == 1 { "has" } else { "have" };
        let statements = counted(rest as u64, "other statement");
        format!("{statements} {have} another plan")
    })
}

fn errors(view: &Comparison, style: TextStyle) -> Vec<String> {
    if view.errors.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        style.paint(Tone::Heading, "Errors that changed, before → after"),
    ];
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Left]);
    let shown = &view.errors[..view.errors.len().min(ERRORS_MAX)];
    for change in shown {
        let counts = format!("{} → {}", count(change.before), count(change.after));
        let taken = ERROR_COLUMNS + counts.chars().count();
        table.row([
            change.direction.name().to_owned(),
            change.sqlstate.to_string(),
            counts,
            error_text(change, style.columns().saturating_sub(taken)),
        ]);
    }
    for (line, change) in table.lines().into_iter().zip(shown) {
        lines.push(if change.regression {
            style.paint(Tone::Bad, &line)
        } else {
            line
        });
        let notes = error_notes(change);
        lines.extend(notes.iter().map(|note| format!("  {note}")));
    }
    let rest = view.errors.len() - shown.len();
    if rest > 0 {
        lines.push(format!("and {} more", count(rest as u64)));
    }
    lines
}

/// Lists statements with different row counts.
fn rows(view: &Comparison, style: TextStyle) -> Vec<String> {
    let ignored = uncompared_rows_text(&view.rows);
    if view.rows.changes.is_empty() {
        return ignored.into_iter().collect();
    }
    let title = "Rows that differ, before → after, over executions done in both runs";
    let mut lines = vec![String::new(), style.paint(Tone::Heading, title)];
    let shown = &view.rows.changes[..view.rows.changes.len().min(ROWS_MAX)];
    lines.extend(shown.iter().flat_map(|one| row_lines(one, style.columns())));
    let rest = view.rows.changes.len() - shown.len();
    if rest > 0 {
        lines.push(format!("and {} more", count(rest as u64)));
    }
    lines.extend(ignored);
    lines
}

fn row_lines(change: &RowsChange, width: usize) -> Vec<String> {
    let sql = statement_name(change.sql.as_deref(), change.fingerprint);
    let text = format!("{}: {sql}", rows_change_text(change));
    let columns = rows_columns_text(change).map(|columns| format!("  {columns}"));
    let reason = format!("  {}", rows_reason_text(change));
    let lines = std::iter::once(text).chain(columns).chain([reason]);
    lines.map(|line| one_line(&line, width)).collect()
}

fn error_text(change: &ErrorChange, width: usize) -> String {
    let mut parts = Vec::new();
    if change.captured > 0 {
        parts.push(format!("(captured {})", count(change.captured)));
    }
    if let Some(message) = &change.message {
        parts.push(format!("{message}:"));
    }
    parts.push(error_subject(change));
    one_line(&parts.join(" "), width)
}

/// Describes the failures that followed from an error, and its origin; sentences without full stops.
pub(crate) fn error_notes(change: &ErrorChange) -> Vec<String> {
    let (before, after) = (change.following_before, change.following_after);
    let following = (before + after > 0).then(|| {
        let failures = counted(after, "failure");
        format!("{} → {failures} followed from it", count(before))
    });
    let origin = change.origin.explanation().map(str::to_owned);
    following.into_iter().chain(origin).collect()
}

/// Returns the name of an error's statement.
pub(crate) fn error_subject(change: &ErrorChange) -> String {
    match change.fingerprint {
        None => "connecting".to_owned(),
        Some(fingerprint) => statement_name(change.sql.as_deref(), fingerprint).into_owned(),
    }
}

fn legend(view: &Comparison, style: TextStyle) -> Vec<String> {
    let margin = view.margin * 100.0;
    let response = match (&view.before.response, &view.after.response) {
        (Some(before), Some(after)) => format!(
            "Response time (due → done): p50 {}, p99 {}. Tool lag p99 {}.",
            duration_change(Some(p50(before)), Some(p50(after))),
            duration_change(Some(p99(before)), Some(p99(after))),
            duration_change(
                view.before.tool_lag.as_ref().map(p99),
                view.after.tool_lag.as_ref().map(p99)
            ),
        ),
        _ => "Response time (due → done): not known of both runs.".to_owned(),
    };
    let meanings = [
        "added     difference of the mean times the calls of a run before: what the change costs in all"
            .to_owned(),
        format!(
            "ratio     after / before of the median (or of what the finding names), with its {} % interval",
            view.interval_level_percent
        ),
        format!(
            "finding   slower, faster: independently; with the others: the same work, as they did; looks: not proven; same: ±{margin:.0} %"
        ),
        "captured  another machine, another day; server time only".to_owned(),
    ];
    let mut lines = vec![response];
    let meanings = meanings.into_iter().chain(caveats(view));
    let meanings: Vec<String> = meanings.collect();
    lines.extend(meanings.iter().map(|line| style.paint(Tone::Aside, line)));
    lines
}

/// Describes the limits of the intervals.
pub(crate) fn caveats(view: &Comparison) -> Vec<String> {
    let failed = "Failed and skipped statements are in no time.";
    let several = view.before.runs.len().max(view.after.runs.len()) > 1;
    let given = view
        .noise
        .as_ref()
        .is_some_and(|noise| noise.source == NoiseSource::Given);
    if several {
        return vec![format!(
            "{failed} How much runs of one side differ is in the intervals."
        )];
    }
    if given {
        return vec![format!("{failed} The margin is no less than the noise.")];
    }
    vec![
        format!("{failed} One run on each side: how much two runs of"),
        "the same server differ is not in the intervals (--before A.run B.run --after …, or --noise).".to_owned(),
    ]
}
