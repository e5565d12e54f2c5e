//! Text on a sweep.

use compare::sweep::{Estimate, GROWTH_MIN, NoKnee};
use study::sweep::{Numbers, Trial, Variant};

use crate::text::line::one_line;
use crate::text::proof_text::more;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted, duration, percent, rate, ratio};
use study::sweep::{Axis, LoadUnit, SweepCurve, SweepPoint, SweepReport};

/// Maximum number of failed trials, and of trials not done, that are listed.
const NAMED_MAX: usize = 8;

/// Renders the sweep, ending with a line feed.
pub fn render_text(view: &SweepReport, style: &TextStyle) -> String {
    let mut lines = vec![format!(
        "{}: {} on {}",
        style.paint(Tone::Heading, &one_line(&view.name, 60)),
        one_line(&view.load, 80),
        one_line(&view.place, 80)
    )];
    lines.push(format!("  {}", extent(view)));
    let axis = view.axis.unwrap_or(Axis::Clients);
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
        if let Some(sentence) = knee_sentence(curve, axis) {
            let tone = if curve.bend.as_ref().is_some_and(|bend| bend.knee.is_some()) {
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

fn extent(view: &SweepReport) -> String {
    let mut text = format!(
        "{} of {} trials, {} of each combination, in random order (seed {})",
        count(view.trials_done),
        count(view.trials_planned),
        view.repeat,
        view.seed
    );
    if let (Some(time), Some(warm_up)) = (view.options.get("time"), view.options.get("warm-up")) {
        text.push_str(&format!("; {time} each after {warm_up} of warm-up"));
    }
    text
}

/// Returns the column heads of points.
pub(crate) fn heads(view: &SweepReport) -> Vec<&'static str> {
    let mut heads = vec![
        match view.axis {
            Some(Axis::Rate) => "asked for",
            Some(Axis::Speed) => "speed",
            Some(Axis::Clients) | None => "clients",
        },
        match view.unit {
            LoadUnit::Transactions => "transactions/s",
            LoadUnit::Statements => "statements/s",
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

fn has_counted(view: &SweepReport) -> bool {
    let mut points = view.curves.iter().flat_map(|curve| &curve.points);
    points.any(|point| point.calls.is_some())
}

/// Returns the cells of a point in the order of [`heads`].
pub(crate) fn cells(view: &SweepReport, curve: &SweepCurve, point: &SweepPoint) -> Vec<String> {
    let dash = || "–".to_owned();
    let level = match (view.axis, curve.clients) {
        (Some(_), _) => level_number(point.level),
        (None, Some(clients)) => count(clients.into()),
        (None, None) => dash(),
    };
    let time = |estimate: Option<Estimate>| {
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

fn points(view: &SweepReport, curve: &SweepCurve) -> Table {
    let heads = heads(view);
    let mut table = Table::new(&vec![Align::Right; heads.len()]);
    table.line(heads.iter().map(|head| (*head).to_owned()).collect());
    for point in &curve.points {
        table.line(cells(view, curve, point));
    }
    table
}

/// Formats an estimate with its interval: `12,345 (12,100 – 12,600)`, or the number alone.
fn with_interval(estimate: &Estimate) -> String {
    let centre = rate(estimate.centre);
    match estimate.interval {
        Some((low, high)) => format!("{centre} ({} – {})", rate(low), rate(high)),
        None => centre,
    }
}

/// Describes a trial: `4 clients, prepared, closed loop, work_mem=64MB`.
pub fn trial_text(trial: &Trial, variants: &[Variant]) -> String {
    let cell = &trial.cell;
    let clients = cell
        .clients
        .map(|clients| counted(clients.into(), "client"));
    let variant = variants.get(cell.variant).map(|one| one.name.clone());
    let mut parts: Vec<String> = clients.into_iter().collect();
    parts.push(cell.mode.name().to_owned());
    parts.push(cell.pace.to_string());
    parts.extend(variant.filter(|name| !name.is_empty()));
    parts.join(", ")
}

/// Describes the result of a trial in a few words.
pub fn numbers_text(numbers: &Numbers, unit: &str) -> String {
    let mut text = format!("{} {unit} a second", rate(numbers.per_s));
    if let Some(times) = numbers.response {
        let (p50, p99) = (duration(times.p50_us), duration(times.p99_us));
        text.push_str(&format!(", p50 {p50}, p99 {p99}"));
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

fn failed(view: &SweepReport) -> Vec<String> {
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
            trial.trial.number,
            trial_text(&trial.trial, &view.variants),
            one_line(why, 300)
        ));
    }
    more(&mut lines, failed.len(), NAMED_MAX);
    lines
}

fn not_done(view: &SweepReport) -> Vec<String> {
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
    for trial in view.not_done.iter().take(NAMED_MAX) {
        lines.push(format!(
            "    {} (repetition {}): {}",
            trial.number,
            trial.block,
            trial_text(trial, &view.variants)
        ));
    }
    more(&mut lines, count, NAMED_MAX);
    lines
}

/// Describes the knee of a curve in a sentence; `None` if it has no levels.
pub(crate) fn knee_sentence(curve: &SweepCurve, axis: Axis) -> Option<String> {
    let bend = curve.bend.as_ref()?;
    let at = |level: f64| level_text(axis, level);
    let mut text = match (bend.knee, bend.no_knee) {
        (Some(knee), _) => {
            let mut text = format!("The knee is at {}: beyond it a step brings", at(knee.level));
            text.push_str(&format!(
                " less than {:.0} % of what it asks for, and responses take longer",
                GROWTH_MIN * 100.0
            ));
            match knee.between {
                Some((low, Some(high))) if low == high => {
                    text.push_str("; the intervals leave no other level");
                }
                Some((low, Some(high))) => {
                    text.push_str(&format!("; by the intervals it may be from {} to {}", at(low), at(high)));
                }
                Some((low, None)) => {
                    text.push_str(&format!("; by the intervals it may be from {} on, or beyond the range", at(low)));
                }
                None => text.push_str("; one trial a point says nothing of how sure that is"),
            }
            if knee.is_lowest {
                text.push_str(". It is the lowest level that was tried: the knee may be below it");
            }
            text
        }
        (None, Some(NoKnee::StillGrows)) => {
            "No knee within the range: throughput still grows at its end".to_owned()
        }
        (None, Some(NoKnee::NotAsked)) => {
            "No knee to name: neither throughput nor response times grow, so it is not the server that holds back"
                .to_owned()
        }
        (None, Some(NoKnee::Collapses { .. })) => {
            "No knee to name: at a level nothing was done in some trial, and throughput ends there".to_owned()
        }
        (None, Some(NoKnee::Unclear)) => {
            "No knee to name: by the intervals it may be at any level, or at none; more repetitions would tell"
                .to_owned()
        }
        (None, None | Some(NoKnee::OneLevel)) => return None,
    };
    if let (Some(peak), Some(share)) = (bend.peak, bend.falls_to) {
        text.push_str(&format!(
            ". Throughput is highest at {} and falls to {} of that at the end of the range",
            at(peak),
            percent(share, 1.0)
        ));
    }
    text.push('.');
    Some(text)
}

/// Formats a level with its unit: `8 clients`, `500/s`, `speed 2`.
pub(crate) fn level_text(axis: Axis, level: f64) -> String {
    let number = level_number(level);
    match axis {
        Axis::Clients if level == 1.0 => "1 client".to_owned(),
        Axis::Clients => format!("{number} clients"),
        Axis::Rate => format!("{number}/s"),
        Axis::Speed => format!("speed {number}"),
    }
}

/// Formats a level without its unit.
pub(crate) fn level_number(level: f64) -> String {
    match level.fract() == 0.0 {
        true => count(level as u64),
        false => format!("{level}"),
    }
}
