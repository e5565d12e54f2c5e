//! Text on a history: its runs, and the trends of statements.

use history::{History, Trend};

use crate::text::line::{cut, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted, duration_ns, ratio};

/// Number of runs that are listed, the last ones.
const RUNS_MAX: usize = 10;

/// Number of values in a drawing, the last ones.
const DRAWN_MAX: usize = 30;

/// Heights of a value in a drawing.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders the history, ending with a line feed.
pub fn render_text(name: &str, history: &History, style: &TextStyle) -> String {
    let (Some(first), Some(last)) = (history.runs.first(), history.runs.last()) else {
        return format!(
            "{name}: no run yet; add one with `rehearse history add {name} NAME.run`\n"
        );
    };
    let heading = format!(
        "{name}: {} of {} at speed {} from {} to {}",
        counted(history.runs.len() as u64, "run"),
        one_line(&history.workload, 60),
        history.speed,
        clock::utc_text(first.started_us),
        clock::utc_text(last.started_us),
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.extend(runs(history));
    lines.push(style.paint(
        Tone::Heading,
        "Mean of an execution: usual (median of the runs before), last",
    ));
    lines.extend(trends(&history.trends, *style));
    let notable = history
        .trends
        .iter()
        .filter(|trend| trend.is_notable)
        .count();
    if notable > 0 {
        lines.push(format!(
            "{} of the last run differ from the usual; `rehearse compare` an earlier run with the last to learn the cause.",
            counted(notable as u64, "value"),
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn runs(history: &History) -> Vec<String> {
    let left_out = history.runs.len().saturating_sub(RUNS_MAX);
    let mut table = Table::new(&[
        Align::Left,
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
    ]);
    for run in &history.runs[left_out..] {
        table.row([
            format!("  {}", clock::utc_text(run.started_us)),
            one_line(&run.label, 24),
            run.server_version.clone(),
            format!("{} done", count(run.done)),
            format!("{} failed", count(run.failed)),
        ]);
    }
    let mut lines = Vec::new();
    if left_out > 0 {
        lines.push(format!("  {} before", counted(left_out as u64, "run")));
    }
    lines.extend(table.lines());
    lines
}

fn trends(trends: &[Trend], style: TextStyle) -> Vec<String> {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
    ]);
    for trend in trends {
        let value = |value: Option<f64>| match value {
            None => "–".to_owned(),
            Some(value) if trend.measure.is_time() => duration_ns(value),
            Some(value) => format!("{value:.1}"),
        };
        let of = match trend.fingerprint {
            None => "all statements".to_owned(),
            Some(_) => one_line(&trend.sql, style.columns()),
        };
        let mark = if trend.is_notable { "!" } else { " " };
        let pair = trend
            .usual
            .zip(trend.last)
            .filter(|(usual, _)| *usual > 0.0);
        table.row([
            format!("{mark} {}", trend.measure.name()),
            value(trend.usual),
            value(trend.last),
            pair.map_or(String::new(), |(usual, last)| {
                format!("× {}", ratio(last / usual))
            }),
            drawing(&trend.values),
            of,
        ]);
    }
    let lines = table.lines();
    lines
        .iter()
        .map(|line| cut(line, style.columns()))
        .collect()
}

/// Draws the last values, from zero to the greatest of them.
fn drawing(values: &[Option<f64>]) -> String {
    let shown = &values[values.len().saturating_sub(DRAWN_MAX)..];
    let greatest = shown.iter().flatten().copied().fold(0.0, f64::max);
    let height = |value: &Option<f64>| match value {
        Some(value) if greatest > 0.0 => {
            let step = (value / greatest * (HEIGHTS.len() - 1) as f64).round();
            HEIGHTS[step as usize]
        }
        Some(_) => HEIGHTS[0],
        None => ' ',
    };
    shown.iter().map(height).collect()
}
