//! Text on a workload: contents, course over time, and time by statement.

mod clients;
mod contexts;
mod messages;
mod server;
mod statements;
mod waits_and_files;

pub(crate) use clients::length_range;
pub(crate) use messages::pattern_label;
pub(crate) use server::{server_lines, upkeep};
pub(crate) use statements::{name_of, share};
pub(crate) use waits_and_files::files_beyond;

use std::collections::BTreeMap;

use inspect::{DurationBin, Inspection, NameTotals, OverTime, StatementOrder, TimeBucket};
use sql::ContextKey;
use statistics::Arrivals;

use crate::sqlstate::code_label;
use crate::text::chart::bars;
use crate::text::line::{listed, one_line};
use crate::text::run_text::codes;
use crate::text::starting_point_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{bytes, count, duration, duration_ns, percent, rate};
use crate::text::unrepeatable_text;

/// Height of the chart in lines.
const CHART_LINES: usize = 3;
/// Maximum number of lines of the histogram of durations.
const DURATIONS_MAX: usize = 9;
/// Maximum length of a bar of the histogram.
const DURATION_BAR: usize = 40;

/// Options of the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InspectTextOptions {
    /// Only list statements in this order, instead of one list for each order.
    pub order: Option<StatementOrder>,
    /// List the values of this key instead of statements.
    pub by: Option<ContextKey>,
    /// Number of statements in a list.
    pub top: Option<usize>,
}

/// Renders the workload, ending with a line feed.
pub fn render_text(view: &Inspection, options: InspectTextOptions, style: &TextStyle) -> String {
    let mut lines = vec![heading(view, *style)];
    lines.extend(facts(view, style.columns()));
    lines.extend(arrivals(view, *style));
    lines.extend(durations(view, *style));
    lines.extend(match options.by {
        Some(key) => contexts::list(view, key, options.top, *style),
        None => statements::lists(view, options.order, options.top, *style),
    });
    lines.extend(unrepeatable_text::lines(&view.unrepeatable, *style));
    lines.extend(server::errors(view, *style));
    lines.extend(messages::list(view, *style));
    lines.extend(waits_and_files::lock_waits(view, *style));
    lines.extend(waits_and_files::temporary_files(view, *style));
    lines.extend(server::activity(view, *style));
    lines.push(String::new());
    lines.join("\n")
}

fn heading(view: &Inspection, style: TextStyle) -> String {
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

fn facts(view: &Inspection, width: usize) -> Vec<String> {
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
    let writes = percent(view.writes() as f64, view.statements as f64);
    row(
        "statements",
        format!("{}{per_s}; {writes} may write", count(view.statements)),
    );
    if let Some(point) = &view.starting_point {
        let text = starting_point_text::describe(point);
        let text = text.trim_start_matches("Starting point: ");
        row("starting point", format!("{text} (--copy-commands)"));
    }
    if view.prelude > 0 {
        let what = "done before this slice and put at its start, to bring sessions to it";
        row("of these", format!("{} {what}", count(view.prelude)));
    }
    let classes = view.classes.iter().map(|(class, all)| (class.name(), *all));
    row("classes", listing(by_count(classes), room));
    let kinds = view.kinds.iter().map(|(kind, all)| (*kind, *all));
    row("sent as", listing(by_count(kinds), room));
    row("prepared", clients::protocol_steps(view));
    row("databases", totals(&view.databases.names(), room));
    row("users", totals(&view.users.names(), room));
    row("applications", totals(&view.applications.names(), room));
    row("hosts", clients::hosts(view, room));
    row("session times", clients::session_lengths(view, room));
    for breakdown in &view.contexts {
        let values = breakdown.values.iter();
        let values = values.map(|stats| (stats.value.as_str(), stats.calls));
        let name = breakdown.key.name();
        row(&format!("by {name}"), listing(by_count(values), room));
    }
    row("durations", known_durations(view));
    let errors: BTreeMap<&str, u64> = (view.errors.iter())
        .map(|(code, error)| (code_label(code.as_str()), error.count))
        .collect();
    row("errors", codes(&errors, room));
    let mut name = "not replayable";
    for (reason, all) in &view.unreplayable {
        row(name, format!("{}: {}", count(*all), reason.explanation()));
        name = "";
    }
    table.lines()
}

fn known_durations(view: &Inspection) -> String {
    let Some(captured) = view.captured else {
        return match view.statements {
            0 => String::new(),
            _ => "none in the log, so no times are known; set log_min_duration_statement = 0"
                .to_owned(),
        };
    };
    let known = percent(view.with_duration() as f64, view.statements as f64);
    format!(
        "known of {known}: {} in all; p50 {}, p95 {}, p99 {}, max {}",
        duration_ns(captured.total_ns),
        duration_ns(captured.p50_ns as f64),
        duration_ns(captured.p95_ns as f64),
        duration_ns(captured.p99_ns as f64),
        duration_ns(captured.max_ns as f64)
    )
}

fn sessions(view: &Inspection) -> String {
    let mut text = format!(
        "{}, at most {} at once",
        count(view.sessions.count),
        count(view.sessions.at_once)
    );
    if view.sessions.start_unseen > 0 {
        text.push_str(&format!(
            "; {} began before the capture",
            count(view.sessions.start_unseen)
        ));
    }
    if view.sessions.end_unseen > 0 {
        text.push_str(&format!(
            "; {} did not end in it",
            count(view.sessions.end_unseen)
        ));
    }
    text
}

/// Sorts by descending count; the sort is stable.
pub(crate) fn by_count<'a>(
    names: impl Iterator<Item = (&'a str, u64)>,
) -> impl Iterator<Item = (&'a str, u64)> {
    let mut all: Vec<_> = names.collect();
    all.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    all.into_iter()
}

fn totals(names: &[NameTotals], width: usize) -> String {
    let names = names.iter();
    let names = names.map(|one| (one.name.as_str(), one.totals.statements));
    listing(names, width)
}

fn listing<'a>(names: impl Iterator<Item = (&'a str, u64)>, width: usize) -> String {
    let items: Vec<String> = names
        .map(|(name, statements)| {
            let name = match name {
                "" => "(none)".to_owned(),
                name => one_line(name, 40),
            };
            format!("{name} {}", count(statements))
        })
        .collect();
    listed(&items, width)
}

fn arrivals(view: &Inspection, style: TextStyle) -> Vec<String> {
    let Arrivals { width_us, counts } = &view.arrivals;
    let Some(most) = counts.iter().max() else {
        return Vec::new();
    };
    let width_us = *width_us as f64;
    let top = rate(*most as f64 * 1e6 / width_us);
    let strips = strips(&view.over_time, view.arrivals.width_us, counts.len());
    let names = strips
        .iter()
        .map(|(name, most, _)| name.len() + most.len() + 1);
    let left = names.chain([top.chars().count()]).max().unwrap_or(0);
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
    for (name, most, values) in strips {
        let blanks = left - name.len();
        let bar = bars(&values, 1).remove(0);
        lines.push(format!("  {name}{most:>blanks$} ┤{bar}"));
    }
    lines.push(format!(
        "  {:>left$}  0{end:>width$}",
        "",
        width = blanks + end.chars().count() - 1
    ));
    lines
}

/// Merges two values into one.
type Fold = fn(u64, u64) -> u64;

/// Name, value of a time bucket, merge function, and format of a value.
type Strip = (
    &'static str,
    fn(&TimeBucket) -> u64,
    Fold,
    fn(u64) -> String,
);

/// Returns other activity over time in the same columns: name, maximum of a column, columns. Kinds
/// that never occurred are left out.
fn strips(over: &OverTime, width_us: i64, columns: usize) -> Vec<(&'static str, String, Vec<u64>)> {
    let fold = |value: fn(&TimeBucket) -> u64, add: Fold| {
        let mut folded = vec![0; columns];
        for (place, moment) in over.moments.iter().enumerate() {
            let at_us = over.start_us + place as i64 * over.width_us;
            let column = (at_us.max(0) / width_us) as usize;
            let cell = &mut folded[column.min(columns - 1)];
            *cell = add(*cell, value(moment));
        }
        folded
    };
    let sum: Fold = |a, b| a + b;
    let most: Fold = u64::max;
    let all: [Strip; 6] = [
        ("sessions open", |one| one.open_max, most, count),
        ("errors", TimeBucket::errors, sum, count),
        ("temporary files", |one| one.temporary_bytes, sum, bytes),
        ("lock waits", |one| one.lock_waits, sum, count),
        ("checkpoints", |one| one.checkpoints, sum, count),
        ("autovacuum", |one| one.autovacuums, sum, count),
    ];
    all.into_iter()
        .filter(|(_, value, ..)| over.moments.iter().any(|one| value(one) > 0))
        .map(|(name, value, add, text)| {
            let folded = fold(value, add);
            let most = folded.iter().copied().max().unwrap_or(0);
            (name, text(most), folded)
        })
        .collect()
}

fn durations(view: &Inspection, style: TextStyle) -> Vec<String> {
    let bins = folded(&view.durations.bins());
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return Vec::new();
    }
    let total_us = view
        .captured
        .map_or(0.0, |captured| captured.total_ns / 1e3);
    let title = "How long statements took, and their part of the time";
    let mut lines = vec![String::new(), style.paint(Tone::Heading, title)];
    let mut table = Table::new(&[
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    for bin in &bins {
        let part = bin.count as f64 / most as f64 * DURATION_BAR as f64;
        let range = match bin.to_us {
            Some(to_us) => format!("under {}", duration(to_us as f64)),
            None => format!("from {} on", duration(bin.from_us as f64)),
        };
        table.row([
            format!("  {range}"),
            count(bin.count),
            percent(bin.count as f64, view.with_duration() as f64),
            percent(bin.time_us as f64, total_us),
            match bin.count {
                0 => String::new(),
                _ => "█".repeat((part.round() as usize).max(1)),
            },
        ]);
    }
    lines.extend(table.lines());
    lines
}

/// Returns the bins, merged by decade if there are many.
fn folded(bins: &[DurationBin]) -> Vec<DurationBin> {
    let mut folded: Vec<DurationBin> = Vec::new();
    for bin in bins {
        let decade_ends = |to_us: u64| to_us.to_string().trim_end_matches('0') == "1";
        match folded.last_mut() {
            Some(last)
                if bins.len() > DURATIONS_MAX && last.to_us.is_some_and(|to| !decade_ends(to)) =>
            {
                last.to_us = bin.to_us;
                last.count += bin.count;
                last.time_us += bin.time_us;
            }
            _ => folded.push(*bin),
        }
    }
    folded
}
