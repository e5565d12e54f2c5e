//! Text on a running replay: a few lines that are redrawn, or one line at intervals.

use crate::text::line::{cut, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::units::{count, duration, rate};
use crate::view::live::{LiveErrorView, LiveNowView, LiveQuantilesView, LiveState};

/// Maximum number of error codes.
const CODES_MAX: usize = 3;
/// Maximum length of the progress bar.
const BAR_MAX: usize = 40;

/// Renders the lines to be redrawn: position, rate, times, lag, and errors.
pub fn render_lines(now: &LiveNowView, style: &TextStyle) -> Vec<String> {
    let width = style.columns();
    let mut lines = vec![position(now, *style)];
    let mut line = |name: &str, text: String, tone: Option<Tone>| {
        let text = format!("  {name:<9} {}", one_line(&text, width - 12));
        lines.push(match tone {
            Some(tone) => style.paint(tone, &text),
            None => text,
        });
    };
    line("rate", rates(now), None);
    line("sessions", sessions(now), None);
    line("response", quantiles(now.lately.times.response), None);
    line("lag", lag(now), None);
    let wrong = now.failed + now.skipped > 0;
    line("errors", errors(now), wrong.then_some(Tone::Care));
    if let Some(note) = &now.note {
        let tone = (now.state != LiveState::Running).then_some(Tone::Care);
        line("", note.clone(), tone);
    }
    lines
}

/// Renders one line for a log.
pub fn render_line(now: &LiveNowView) -> String {
    let percent = percent(now).map_or_else(String::new, |percent| format!("{percent} "));
    let mut parts = vec![format!(
        "{percent}{}{}",
        elapsed(now),
        match now.state {
            LiveState::Running => String::new(),
            state => format!(", {}", state.words()),
        }
    )];
    parts.push(format!("{}/s", rate(now.lately.answered_per_s)));
    if let Some(times) = now.lately.times.response {
        let (p50, p99) = (duration(times.p50_us), duration(times.p99_us));
        parts.push(format!("p50 {p50} p99 {p99}"));
    }
    if let Some(lag) = now.lately.times.tool_lag {
        parts.push(format!("tool lag p99 {}", duration(lag.p99_us)));
    }
    parts.push(format!("{} failed", count(now.failed)));
    parts.push(format!("{} sessions", count(now.sessions_open)));
    if let Some(left) = left(now) {
        parts.push(left);
    }
    parts.join(" · ")
}

fn position(now: &LiveNowView, style: TextStyle) -> String {
    let percent = percent(now).unwrap_or_default();
    let mut after = match now.state {
        LiveState::Running => elapsed(now),
        state => format!("{}, {}", state.words(), elapsed(now)),
    };
    if let Some(left) = left(now) {
        after.push_str(&format!(", {left}"));
    }
    let taken = percent.chars().count() + after.chars().count() + 4;
    let length = style.columns().saturating_sub(taken).min(BAR_MAX);
    if length < 8 {
        return cut(&format!("{percent}  {after}"), style.columns());
    }
    let full = ((now.position * length as f64) as usize).min(length);
    format!(
        "{}{} {percent}  {after}",
        "█".repeat(full),
        "░".repeat(length - full)
    )
}

/// Returns the position in percent; `None` in a series that is followed, whose end is not known.
fn percent(now: &LiveNowView) -> Option<String> {
    let is_endless = now.position >= 1.0
        && now.left_us.is_none()
        && now.overdue_us.is_none()
        && !now.state.is_over();
    (!is_endless).then(|| format!("{:>3.0} %", (now.position * 100.0).floor()))
}

fn elapsed(now: &LiveNowView) -> String {
    whole_seconds(now.elapsed_us)
}

fn left(now: &LiveNowView) -> Option<String> {
    if let Some(overdue_us) = now.overdue_us {
        return Some(format!("{} past its time", whole_seconds(overdue_us)));
    }
    let left_us = now.left_us.filter(|_| !now.state.is_over())?;
    Some(format!("{} left", whole_seconds(left_us)))
}

/// Formats a duration without digits that would flicker.
fn whole_seconds(us: f64) -> String {
    let seconds = (us / 1e6).max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

fn rates(now: &LiveNowView) -> String {
    let mut text = format!("{}/s answered", rate(now.lately.answered_per_s));
    if let Some(due) = now.lately.due_per_s {
        text.push_str(&format!(" of {}/s due", rate(due)));
    }
    text
}

fn sessions(now: &LiveNowView) -> String {
    let mut text = format!("{} open", count(now.sessions_open));
    if now.sessions_connecting > 0 {
        text.push_str(&format!(", {} connecting", count(now.sessions_connecting)));
    }
    text.push_str(&format!(" · {} statements in flight", count(now.in_flight)));
    text
}

fn quantiles(times: Option<LiveQuantilesView>) -> String {
    match times {
        None => "no statement ended in the last seconds".to_owned(),
        Some(times) => format!(
            "p50 {} · p95 {} · p99 {}",
            duration(times.p50_us),
            duration(times.p95_us),
            duration(times.p99_us)
        ),
    }
}

fn lag(now: &LiveNowView) -> String {
    let p99 = |times: Option<LiveQuantilesView>| {
        times.map_or_else(|| "–".to_owned(), |times| duration(times.p99_us))
    };
    format!(
        "tool p99 {} · session p99 {}",
        p99(now.lately.times.tool_lag),
        p99(now.lately.times.session_lag)
    )
}

fn errors(now: &LiveNowView) -> String {
    if now.failed + now.skipped == 0 {
        return "none failed, none skipped".to_owned();
    }
    let mut text = format!("{} failed", count(now.failed));
    let code = |one: &LiveErrorView| format!("{} {}", one.sqlstate, count(one.count));
    let mut codes: Vec<String> = now.errors.iter().take(CODES_MAX).map(code).collect();
    if now.errors.len() > CODES_MAX {
        codes.push(format!("{} more codes", now.errors.len() - CODES_MAX));
    }
    if !codes.is_empty() {
        text.push_str(&format!(" ({})", codes.join(", ")));
    }
    text.push_str(&format!(", {} skipped", count(now.skipped)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::live::{LiveRates, LiveTimesView};

    fn now() -> LiveNowView {
        let times = |p50_us: f64| {
            Some(LiveQuantilesView {
                p50_us,
                p95_us: p50_us * 5.0,
                p99_us: p50_us * 20.0,
            })
        };
        LiveNowView {
            state: LiveState::Running,
            elapsed_us: 62.3e6,
            left_us: Some(37.7e6),
            position: 0.629,
            failed: 900,
            skipped: 3,
            lately: LiveRates {
                due_per_s: Some(12_345.6),
                sent_per_s: 12_340.0,
                answered_per_s: 12_339.0,
                failed_per_s: 2.0,
                times: LiveTimesView {
                    response: times(1_234.0),
                    tool_lag: times(3.0),
                    session_lag: times(600.0),
                },
            },
            sessions_open: 1_064,
            sessions_connecting: 12,
            in_flight: 900,
            errors: [("23505", 500), ("40001", 300), ("57014", 60), ("55P03", 40)]
                .map(|(code, count)| LiveErrorView::new(code, count, 1))
                .into(),
            ..LiveNowView::default()
        }
    }

    #[test]
    fn live_lines_fit_into_eighty_columns() {
        let style = TextStyle {
            width: 80,
            colour: false,
        };
        let lines = render_lines(&now(), &style);
        assert_eq!(
            lines,
            [
                "█████████████████████████░░░░░░░░░░░░░░░  62 %  1 min 02 s, 38 s left",
                "  rate      12,339/s answered of 12,346/s due",
                "  sessions  1,064 open, 12 connecting · 900 statements in flight",
                "  response  p50 1.23 ms · p95 6.17 ms · p99 24.7 ms",
                "  lag       tool p99 60.0 µs · session p99 12.0 ms",
                "  errors    900 failed (23505 500, 40001 300, 57014 60, 1 more codes), 3 skipped",
            ]
        );
        for width in [60, 80, 100] {
            for line in render_lines(&now(), &TextStyle { width, ..style }) {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
        let line = render_line(&now());
        assert_eq!(
            line,
            " 62 % 1 min 02 s · 12,339/s · p50 1.23 ms p99 24.7 ms · tool lag p99 60.0 µs · 900 failed · 1,064 sessions · 38 s left"
        );
    }

    #[test]
    fn unknown_facts_are_left_out() {
        let quiet = LiveNowView {
            state: LiveState::Waiting,
            note: Some("Nothing has come from the target for 12 s.".to_owned()),
            left_us: Some(0.0),
            overdue_us: Some(12e6),
            position: 1.0,
            failed: 0,
            skipped: 0,
            errors: Vec::new(),
            lately: LiveRates::default(),
            sessions_connecting: 0,
            ..now()
        };
        let style = TextStyle {
            width: 80,
            colour: true,
        };
        let lines = render_lines(&quiet, &style);
        assert!(lines[0].contains("waiting for the target, 1 min 02 s, 12 s past its time"));
        assert!(lines[1].ends_with("0.00/s answered"), "{lines:?}");
        assert!(lines[3].contains("no statement ended"));
        assert!(lines[4].contains("tool p99 –"));
        assert!(lines[5].contains("none failed, none skipped"));
        // Colours carry no information that the words lack.
        assert!(lines[6].starts_with("\x1b[33m") && lines[6].contains("for 12 s."));
    }
}
