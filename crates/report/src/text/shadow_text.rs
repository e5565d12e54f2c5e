//! Renders a shadow comparison as text: a line for each change of a verdict, and the result.

use compare::shadow::{
    LAST_WINDOWS, ShadowChange, ShadowGap, ShadowMeasure, ShadowReport, ShadowStatement,
    ShadowTest, ShadowVerdict,
};
use study::shadow_comparison::{ShadowState, ShadowView};

use super::line::{cut, one_line, statement_name, wrapped};
use super::style::{TextStyle, Tone};
use super::table::{Align, Table};
use super::units::{count, counted, duration_change, duration_ns, percent, ratio};

/// Width of a statement on a line of a change.
const STATEMENT_COLUMNS: usize = 200;
/// Most gaps that are listed.
const GAPS_MAX: usize = 10;

/// Returns the difference that a measure stands for.
pub(crate) fn difference(measure: ShadowMeasure) -> &'static str {
    match measure {
        ShadowMeasure::Slower => "slower",
        ShadowMeasure::Errors => "more errors",
        ShadowMeasure::FewerRows => "fewer rows",
        ShadowMeasure::MoreRows => "more rows",
    }
}

/// Returns a time of the replay as UTC.
pub(crate) fn time_text(started_wall_us: i64, at_ns: i64) -> String {
    clock::utc_text(started_wall_us.saturating_add(at_ns / 1_000))
}

/// Returns the name of a statement on one line.
pub(crate) fn shadow_statement_name(statement: &ShadowStatement, width: usize) -> String {
    let sql = Some(statement.sql.as_str()).filter(|sql| !sql.is_empty());
    one_line(&statement_name(sql, statement.fingerprint), width)
}

/// Returns the numbers of a difference.
pub(crate) fn numbers(statement: &ShadowStatement, measure: ShadowMeasure) -> String {
    match measure {
        ShadowMeasure::Slower => {
            let times = duration_change(
                Some(statement.captured_ns as f64),
                Some(statement.replayed_ns as f64),
            );
            match statement.reference {
                None => format!("× {}, captured → replayed {times}", ratio(statement.ratio)),
                Some(reference) => format!(
                    "× {} of the captured time, × {} in the baseline; captured → replayed {times}",
                    ratio(statement.ratio),
                    ratio(reference)
                ),
            }
        }
        ShadowMeasure::Errors => format!(
            "{} failed in the replay only, {} in the capture only",
            count(statement.new_errors),
            count(statement.vanished_errors)
        ),
        ShadowMeasure::FewerRows | ShadowMeasure::MoreRows => format!(
            "{} with another number of rows",
            counted(statement.other_rows, "execution")
        ),
    }
}

/// Renders a change of a verdict as one line.
pub fn render_change(change: &ShadowChange, started_wall_us: i64) -> String {
    let time = time_text(started_wall_us, change.at_ns);
    let name = shadow_statement_name(&change.statement, STATEMENT_COLUMNS);
    let difference = difference(change.measure);
    let numbers = numbers(&change.statement, change.measure);
    match change.verdict {
        ShadowVerdict::None => format!("{time}  no difference: {name}"),
        ShadowVerdict::Present { since_ns, .. } => {
            let since = time_text(started_wall_us, since_ns);
            format!("{time}  {difference}: {name} ({numbers}; since {since})")
        }
        ShadowVerdict::Past { .. } => {
            format!(
                "{time}  no longer {difference}: {name} ({numbers}; in fewer than half of the last {LAST_WINDOWS} windows)"
            )
        }
        ShadowVerdict::Returned { .. } => {
            format!(
                "{time}  seems {difference} again: {name} ({numbers}; in each of the last {LAST_WINDOWS} windows, which is no new proof)"
            )
        }
    }
}

/// Returns the headline.
pub fn headline(view: &ShadowView) -> String {
    let statements = view.report.findings_of(&ShadowMeasure::ALL) as u64;
    match statements {
        0 if view.report.windows == 0 => "No window was compared yet.".to_owned(),
        0 => "No difference is proven.".to_owned(),
        1 => "1 statement differs.".to_owned(),
        many => format!("{} statements differ.", count(many)),
    }
}

/// Returns the state in words.
pub(crate) fn state_text(state: ShadowState) -> &'static str {
    match state {
        ShadowState::InProgress => "the replay runs",
        ShadowState::Complete => "the run is complete",
        ShadowState::ReplayStopped => "the replay was stopped",
        ShadowState::Recovered => "the replay was killed, and its run recovered",
        ShadowState::Stopped => "the comparison was stopped before the run was complete",
        ShadowState::Abandoned => "the replay was killed",
    }
}

/// Returns up to when the result holds, in sentences; `None` while the replay runs, and if it reached its end.
pub(crate) fn validity_text(view: &ShadowView) -> Option<String> {
    let reason = match view.state {
        ShadowState::InProgress | ShadowState::Complete => return None,
        ShadowState::ReplayStopped => "The replay was stopped",
        ShadowState::Recovered => {
            "The replay was killed, and its run recovered up to the last checkpoint"
        }
        ShadowState::Stopped => "The comparison was stopped before the run was complete",
        ShadowState::Abandoned => {
            "The replay was killed, and its run has what was written up to the last checkpoint"
        }
    };
    let until = time_text(view.started_wall_us, view.report.until_ns);
    let unreached = match view.unreached {
        0 => String::new(),
        number => format!(" The run lacks {} after it.", counted(number, "statement")),
    };
    Some(format!(
        "{reason}: the result holds up to {until}, and says nothing about later statements.{unreached}"
    ))
}

/// Whether the result shows that all is well: windows were compared without a finding, and the replay was not killed.
pub(crate) fn tone(view: &ShadowView) -> Tone {
    let is_killed = matches!(view.state, ShadowState::Recovered | ShadowState::Abandoned);
    match view.report.findings_of(&ShadowMeasure::ALL) {
        0 if view.report.windows == 0 || is_killed => Tone::Care,
        0 => Tone::Good,
        _ => Tone::Bad,
    }
}

/// Returns the claim of the test in one sentence.
pub(crate) fn claim(report: &ShadowReport) -> String {
    let options = &report.options;
    let reference = match options.baseline_ns {
        None => "the captured time".to_owned(),
        Some(baseline_ns) => format!(
            "the captured time times the ratio of its first {}",
            duration_ns(baseline_ns as f64)
        ),
    };
    let allowance = match options.allowance_ns {
        0 => String::new(),
        ns => format!(" and {}", duration_ns(ns as f64)),
    };
    format!(
        "Error rate: if each compared window of each statement, whatever came before it, is at most as likely as not to be slower than {reference} by more than {}{allowance}, to have more errors, fewer rows or more rows, the probability that a difference is ever reported is {} at most. That one is over, or has returned, is read from the last {LAST_WINDOWS} windows, without an error rate.",
        percent(options.tolerance, 1.0),
        percent(options.error_rate, 1.0),
    )
}

/// Returns the numbers of windows in one sentence.
pub(crate) fn windows_text(report: &ShadowReport) -> String {
    let excluded: Vec<String> = (report.windows_excluded.iter())
        .map(|(reason, number)| format!("{} {}", count(*number), reason.explanation()))
        .collect();
    let excluded = match excluded.is_empty() {
        true => String::new(),
        false => format!("; not compared: {}", excluded.join(", ")),
    };
    let mostly = match report.is_mostly_excluded() {
        true => {
            " More than half of the windows with statements are not compared: differences may be hidden in them."
        }
        false => "",
    };
    let lost = match report.connections_lost {
        0 => String::new(),
        number => format!(
            " {} lost without an outage, which excludes no window.",
            match number {
                1 => "1 connection was".to_owned(),
                _ => format!("{} connections were", count(number)),
            }
        ),
    };
    let length = duration_ns(report.options.window_ns as f64);
    format!(
        "Windows of {length}: {} compared{excluded}.{mostly}{lost}",
        count(report.windows)
    )
}

/// Returns the numbers of statements in one sentence.
pub(crate) fn statements_text(report: &ShadowReport) -> String {
    let skipped: Vec<String> = (report.not_replayed.iter())
        .map(|(reason, number)| format!("{} {reason}", count(*number)))
        .collect();
    let skipped = match skipped.is_empty() {
        true => "all of them were sent".to_owned(),
        false => format!("not replayed: {}", skipped.join(", ")),
    };
    let refused = match report.refused_read_only {
        0 => String::new(),
        number => format!(
            " {} of them failed only because of --read-only, and are not compared.",
            count(number)
        ),
    };
    let rows = match report.rows_after_refusals {
        0 => String::new(),
        number => format!(
            " {} returned other rows, which are not compared: they name tables that these would have written.",
            count(number)
        ),
    };
    let without = match report.without_duration {
        0 => String::new(),
        number => format!(
            " {} have no captured duration, so that only errors and rows are compared.",
            count(number)
        ),
    };
    format!(
        "Statements: {} replayed; {skipped}.{refused}{rows}{without}",
        count(report.replayed)
    )
}

/// Returns a gap in words.
pub(crate) fn gap_text(gap: &ShadowGap, started_wall_us: i64) -> String {
    let lost = match gap.connections_lost {
        0 => String::new(),
        number => format!(", {} lost", counted(number, "connection")),
    };
    format!(
        "{} to {}: {} not replayed{lost}",
        time_text(started_wall_us, gap.from_ns),
        time_text(started_wall_us, gap.until_ns),
        counted(gap.not_replayed, "statement")
    )
}

/// Returns a verdict in words: `slower since 2026-11-28 09:40:10`.
pub(crate) fn verdict_text(test: &ShadowTest, started_wall_us: i64) -> String {
    let time = |at_ns| time_text(started_wall_us, at_ns);
    let difference = difference(test.measure);
    match test.verdict {
        ShadowVerdict::None => "no difference".to_owned(),
        ShadowVerdict::Present { since_ns, .. } => {
            format!("{difference} since {}", time(since_ns))
        }
        ShadowVerdict::Past {
            since_ns, until_ns, ..
        } => format!("{difference} from {} to {}", time(since_ns), time(until_ns)),
        ShadowVerdict::Returned {
            since_ns,
            returned_ns,
            ..
        } => format!(
            "{difference} since {}, over in between, and seems so again at {} (not proven anew)",
            time(since_ns),
            time(returned_ns)
        ),
    }
}

/// Renders the present state as a few lines, for a display that is redrawn.
pub fn render_progress(view: &ShadowView, style: &TextStyle) -> Vec<String> {
    let report = &view.report;
    let last = time_text(view.started_wall_us, report.until_ns);
    [
        format!("{} Read up to {last}.", headline(view)),
        windows_text(report),
        statements_text(report),
    ]
    .map(|line| cut(&line, style.columns()))
    .into()
}

/// Renders the result.
pub fn render_text(view: &ShadowView, style: &TextStyle) -> String {
    let width = style.columns();
    let report = &view.report;
    let mut lines = vec![
        style.paint(tone(view), &headline(view)),
        cut(
            &format!(
                "{} on {} (PostgreSQL {}), {} to {}; {}",
                view.workload,
                view.target,
                view.server_version,
                time_text(view.started_wall_us, 0),
                time_text(view.started_wall_us, report.until_ns),
                state_text(view.state)
            ),
            width,
        ),
        String::new(),
    ];
    let sentences = [claim(report), windows_text(report), statements_text(report)];
    for sentence in validity_text(view).into_iter().chain(sentences) {
        lines.extend(wrapped(&sentence, "", "", width));
    }
    if !view.series_gaps.is_empty() {
        let number = counted(view.series_gaps.len() as u64, "gap");
        lines.push(format!("The series has {number}, the last:"));
        let gaps = view.series_gaps.iter().rev().take(GAPS_MAX).rev();
        lines.extend(gaps.flat_map(|gap| wrapped(&gap.sentence(), "  ", "    ", width)));
    }
    if !report.gaps.is_empty() {
        let gaps = report.gaps.iter().rev().take(GAPS_MAX).rev();
        let number = counted(report.gap_count, "gap");
        lines.push(format!("The replay has {number}, the last:"));
        lines.extend(gaps.map(|gap| format!("  {}", gap_text(gap, view.started_wall_us))));
    }
    for condition in &view.conditions {
        let outcome = if condition.holds {
            "holds"
        } else {
            "does not hold"
        };
        let statements = counted(condition.statements as u64, "statement");
        lines.push(format!(
            "--fail-on {} {outcome}: {statements}",
            condition.condition
        ));
    }
    lines.push(String::new());
    lines.extend(statement_lines(view, width, style));
    lines.join("\n") + "\n"
}

fn statement_lines(view: &ShadowView, width: usize, style: &TextStyle) -> Vec<String> {
    let mut lines = Vec::new();
    let (found, others): (Vec<_>, Vec<_>) =
        (view.report.statements.iter()).partition(|statement| statement.is_finding());
    for statement in found {
        lines.push(style.paint(Tone::Heading, &shadow_statement_name(statement, width)));
        for test in statement
            .tests
            .iter()
            .filter(|test| test.verdict.is_finding())
        {
            let verdict = verdict_text(test, view.started_wall_us);
            let numbers = numbers(statement, test.measure);
            lines.extend(wrapped(
                &format!("{verdict}: {numbers}"),
                "  ",
                "    ",
                width,
            ));
        }
    }
    if others.is_empty() {
        return lines;
    }
    let mut table = Table::new(&[
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    table.row(
        [
            "calls",
            "ratio",
            "windows",
            "slower in",
            "no difference proven",
        ]
        .map(str::to_owned),
    );
    for statement in others {
        let slower = statement
            .tests
            .iter()
            .find(|test| test.measure == ShadowMeasure::Slower);
        let cell = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), count);
        let name = shadow_statement_name(statement, STATEMENT_COLUMNS);
        table.row([
            count(statement.calls),
            ratio(statement.ratio),
            cell(slower.map(|test| test.windows)),
            cell(slower.map(|test| test.windows_with_difference)),
            match statement.in_baseline {
                true => format!("{name} (baseline is measured)"),
                false => name,
            },
        ]);
    }
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    lines
}
