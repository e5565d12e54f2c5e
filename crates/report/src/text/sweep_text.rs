//! A sweep, for people.

use crate::text::amount::{count, counted, duration, percent, rate, ratio};
use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::sweep::{
    SweepCurveView, SweepEstimateView, SweepPointView, SweepTrialNameView, SweepView, level_number,
};

/// The most trials that are named of those that were not done, and of those that failed.
const NAMED_MAX: usize = 8;

/// The sweep as text, ending with a line feed.
pub fn render_text(view: &SweepView, style: &TextStyle) -> String {
    let mut lines = vec![format!(
        "{}: {} on {}",
        style.paint(Tone::Heading, &one_line(&view.name, 60)),
        one_line(&view.load, 80),
        one_line(&view.place, 80)
    )];
    lines.push(format!("  {}", extent(view)));
    let axis = view.axis.unwrap_or("clients");
    for curve in &view.curves {
        lines.push(String::new());
        if !curve.name.is_empty() {
            lines.push(style.paint(Tone::Heading, &one_line(&curve.name, style.columns())));
        }
        lines.extend(
            points(view, curve)
                .lines()
                .into_iter()
                .map(|line| format!("  {line}")),
        );
        if let Some(sentence) = curve.sentence(axis) {
            let tone = if curve.knee.is_some() {
                Tone::Good
            } else {
                Tone::Care
            };
            let (first, rest) = sentence.split_once(':').unwrap_or((&sentence, ""));
            let rest = if rest.is_empty() {
                String::new()
            } else {
                format!(":{rest}")
            };
            lines.push(format!("  {}{rest}", style.paint(tone, first)));
        }
    }
    if !view.notes.is_empty() {
        lines.push(String::new());
        lines.extend(view.notes.iter().map(|note| format!("  {note}")));
    }
    lines.extend(failed(view));
    lines.extend(not_done(view));
    lines.push(String::new());
    lines.join("\n")
}

fn extent(view: &SweepView) -> String {
    let mut text = format!(
        "{} of {} trials, {} of each combination, in an order of chance (seed {})",
        count(view.trials_done),
        count(view.trials_planned),
        view.repeat,
        view.seed
    );
    if let (Some(time), Some(warm_up)) = (view.options.get("time"), view.options.get("warm-up")) {
        text.push_str(&format!("; {time} each behind {warm_up} of warm-up"));
    }
    text
}

/// What a point's column is called.
pub(crate) fn heads(view: &SweepView) -> Vec<&'static str> {
    let mut heads = vec![
        match view.axis {
            Some("rate") => "asked for",
            Some("speed") => "speed",
            _ => "clients",
        },
        match view.unit {
            "transactions" => "transactions/s",
            _ => "statements/s",
        },
        "p50",
        "p99",
        "server CPU",
        "our CPU",
        "machine",
    ];
    if has_counted(view) {
        heads.extend(["plans / calls", "planning"]);
    }
    heads
}

fn has_counted(view: &SweepView) -> bool {
    let mut points = view.curves.iter().flat_map(|curve| &curve.points);
    points.any(|point| point.calls.is_some())
}

/// A point's cells, as [`heads`] names them.
pub(crate) fn cells(
    view: &SweepView,
    curve: &SweepCurveView,
    point: &SweepPointView,
) -> Vec<String> {
    let dash = || "–".to_owned();
    let level = match (view.axis, curve.clients) {
        (Some(_), _) => level_number(point.level),
        (None, Some(clients)) => count(clients.into()),
        (None, None) => dash(),
    };
    let time = |estimate: Option<SweepEstimateView>| {
        estimate.map_or_else(dash, |estimate| duration(estimate.centre))
    };
    let mut cells = vec![
        level,
        point
            .per_s
            .map_or_else(dash, |estimate| with_interval(&estimate)),
        time(point.p50_us),
        time(point.p99_us),
        time(point.server_cpu_us),
        time(point.client_cpu_us),
        point
            .machine_busy
            .map_or_else(dash, |share| percent(share, 1.0)),
    ];
    if has_counted(view) {
        cells.push(match (point.plans, point.calls) {
            (Some(plans), Some(calls)) => format!("{} / {}", count(plans), count(calls)),
            (None, Some(calls)) => format!("not tracked / {}", count(calls)),
            _ => dash(),
        });
        cells.push(
            point
                .plan_share
                .map_or_else(dash, |share| percent(share, 1.0)),
        );
    }
    cells
}

fn points(view: &SweepView, curve: &SweepCurveView) -> Table {
    let heads = heads(view);
    let mut table = Table::new(&vec![Align::Right; heads.len()]);
    table.line(heads.iter().map(|head| (*head).to_owned()).collect());
    for point in &curve.points {
        table.line(cells(view, curve, point));
    }
    table
}

/// `12,345 (12,100 – 12,600)`, or the number alone.
fn with_interval(estimate: &SweepEstimateView) -> String {
    let centre = rate(estimate.centre);
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{centre} ({} – {})", rate(low), rate(high)),
        _ => centre,
    }
}

/// A combination in words: `4 clients, prepared, closed loop, work_mem=64MB`.
pub fn trial_text(name: &SweepTrialNameView) -> String {
    let mut parts = Vec::new();
    if let Some(clients) = name.clients {
        parts.push(counted(clients.into(), "client"));
    }
    parts.push(name.mode.clone());
    parts.push(name.pace.clone());
    if !name.variant.is_empty() {
        parts.push(name.variant.clone());
    }
    parts.join(", ")
}

/// What a trial came to, in a few words.
pub fn numbers_text(numbers: &crate::SweepNumbersView, unit: &str) -> String {
    let mut text = format!("{} {unit} a second", rate(numbers.per_s));
    if let (Some(p50), Some(p99)) = (numbers.p50_us, numbers.p99_us) {
        text.push_str(&format!(", p50 {}, p99 {}", duration(p50), duration(p99)));
    }
    if let Some(cpu) = numbers.server_cpu_us {
        text.push_str(&format!(", server CPU {} a statement", duration(cpu)));
    }
    let failed: u64 = numbers.failed.values().sum();
    if failed > 0 {
        let all = failed + numbers.statements;
        let share = ratio(100.0 * failed as f64 / all as f64);
        text.push_str(&format!(", {} failed ({share} %)", count(failed)));
    }
    text
}

fn failed(view: &SweepView) -> Vec<String> {
    let failed: Vec<_> = view
        .trials
        .iter()
        .filter(|trial| trial.failed.is_some())
        .collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!("  {} failed:", counted(failed.len() as u64, "trial")),
    ];
    for trial in failed.iter().take(NAMED_MAX) {
        let why = trial.failed.as_deref().unwrap_or_default();
        lines.push(format!(
            "    {} ({}): {}",
            trial.name.number,
            trial_text(&trial.name),
            one_line(why, 300)
        ));
    }
    more(&mut lines, failed.len());
    lines
}

fn not_done(view: &SweepView) -> Vec<String> {
    let count = view.not_done.len();
    if count == 0 {
        return Vec::new();
    }
    let why = view.why_not_done.as_deref().unwrap_or("it was not ended");
    let mut lines = vec![
        String::new(),
        format!(
            "  Not done, since {why}: {}",
            counted(count as u64, "trial")
        ),
    ];
    for name in view.not_done.iter().take(NAMED_MAX) {
        lines.push(format!(
            "    {} (repetition {}): {}",
            name.number,
            name.block,
            trial_text(name)
        ));
    }
    more(&mut lines, count);
    lines
}

fn more(lines: &mut Vec<String>, count: usize) {
    if count > NAMED_MAX {
        lines.push(format!("    and {} more", count - NAMED_MAX));
    }
}
