//! Where the time of a run went, in a few lines.

use crate::text::amount::{added, count, counted, duration, duration_change, percent, ratio};
use crate::text::line::{one_line, wrapped};
use crate::text::processor_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::time::{TimeOfView, TimePartView, TimeRemarkView, TimeView};
use crate::view::time_change::TimeChangeView;

/// Parts of the service time that are shown; the rest is summed up.
const PARTS_MAX: usize = 10;
/// Parts of less than this share of it are summed up, too.
const PART_SHARE_MIN: f64 = 0.005;
/// Statements that are shown, each with its largest parts.
const STATEMENTS_MAX: usize = 3;
const PARTS_OF_STATEMENT: usize = 4;

/// The lines, with a blank one before them.
pub(crate) fn lines(view: &TimeView, style: TextStyle) -> Vec<String> {
    let whole = &view.whole;
    if whole.parts.is_empty() {
        return Vec::new();
    }
    let title = format!(
        "Where the time went: {} of response time (due → done) of {}",
        duration(whole.response_us),
        counted(whole.calls, "statement")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    for lag in whole.parts.iter().filter(|part| is_lag(part)) {
        table.row([
            format!("  {}", name(lag)),
            percent(lag.us, whole.response_us),
            duration(lag.us),
            known(lag),
        ]);
    }
    table.row([
        "  service time (sent → done)".to_owned(),
        percent(whole.service_us, whole.response_us),
        duration(whole.service_us),
        "measured; of this".to_owned(),
    ]);
    let parts = of_service(whole);
    let notable = |part: &&&TimePartView| part.us >= PART_SHARE_MIN * whole.service_us;
    let shown = parts.iter().take(PARTS_MAX).take_while(notable).count();
    for part in &parts[..shown] {
        table.row([
            format!("    {}", name(part)),
            percent(part.us, whole.service_us),
            duration(part.us),
            known(part),
        ]);
    }
    let rest = &parts[shown..];
    if !rest.is_empty() {
        let us: f64 = rest.iter().map(|part| part.us).sum();
        table.row([
            format!("    {} more", count(rest.len() as u64)),
            percent(us, whole.service_us),
            duration(us),
            String::new(),
        ]);
    }
    lines.extend(table.lines());
    if view.statements_count > 1 {
        for one in view.statements.iter().take(STATEMENTS_MAX) {
            lines.extend(statement(one, whole.service_us, style.columns()));
        }
    }
    for remark in remarks(view) {
        lines.extend(wrapped(&remark, "  ", "  ", style.columns()));
    }
    if let Some(processor) = &view.processor {
        lines.extend(processor_text::lines(processor, style));
    }
    lines.extend(
        view.planning
            .as_ref()
            .and_then(processor_text::planning_line),
    );
    lines
}

fn is_lag(part: &TimePartView) -> bool {
    matches!(part.what, "tool_lag" | "session_lag")
}

/// The parts of the service time, the largest first.
fn of_service(time: &TimeOfView) -> Vec<&TimePartView> {
    let mut parts: Vec<_> = time.parts.iter().filter(|part| !is_lag(part)).collect();
    parts.sort_by(|one, other| other.us.total_cmp(&one.us));
    parts
}

fn statement(one: &TimeOfView, whole_us: f64, width: usize) -> Vec<String> {
    let sql = one.sql.as_deref().unwrap_or("a statement without its text");
    let head = format!(
        "  {} of service time, {}: ",
        percent(one.service_us, whole_us),
        counted(one.calls, "call")
    );
    let room = width.saturating_sub(head.chars().count());
    let mut lines = vec![format!("{head}{}", one_line(sql, room.max(20)))];
    let words: Vec<String> = of_service(one)
        .into_iter()
        .take(PARTS_OF_STATEMENT)
        .map(|part| format!("{} {}", name(part), percent(part.us, one.service_us)))
        .collect();
    lines.extend(wrapped(&words.join(", "), "    ", "    ", width));
    lines
}

/// Parts of a comparison that are shown.
const CHANGES_MAX: usize = 4;

/// What response times were made of before and after, with a blank line before it.
pub(crate) fn change_lines(view: &TimeChangeView, style: TextStyle) -> Vec<String> {
    let title = format!(
        "Where the time of a run went, before → after: {} of response time",
        duration_change(Some(view.before_us), Some(view.after_us))
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    for part in view.parts.iter().take(CHANGES_MAX) {
        table.row([
            format!("  {}", part_name(part.what, part.of.as_deref())),
            duration_change(Some(part.before_us), Some(part.after_us)),
            added(part.after_us - part.before_us),
            part.known.to_owned(),
        ]);
    }
    lines.extend(table.lines());
    if let Some(processor) = &view.processor {
        lines.extend(processor_text::change_lines(processor, style));
    }
    lines
}

/// What a part is, in words.
fn name(part: &TimePartView) -> String {
    part_name(part.what, part.of.as_deref())
}

pub(crate) fn part_name(what: &str, of: Option<&str>) -> String {
    match what {
        "tool_lag" => "tool lag".to_owned(),
        "session_lag" => "session lag".to_owned(),
        "way" => "network and the way".to_owned(),
        "processor" => of.map_or_else(
            || "on the processor".to_owned(),
            |phase| format!("processor: {phase}"),
        ),
        "wait" => format!("wait: {}", of.unwrap_or_default().trim_end()),
        "execution" => "execution, not looked into".to_owned(),
        "unlooked" => "service time, not looked into".to_owned(),
        other => other.to_owned(),
    }
}

fn known(part: &TimePartView) -> String {
    match part.error {
        Some(error) if error < 1.0 => format!("{} ± {:.0} %", part.known, 100.0 * error),
        Some(_) => format!("{}, too few samples to tell", part.known),
        None => part.known.to_owned(),
    }
}

fn remarks(view: &TimeView) -> Vec<String> {
    let mut all: Vec<String> = view
        .remarks
        .iter()
        .map(|remark| match remark {
            TimeRemarkView::NotSampled => {
                "The server's activity was not sampled, so waits and processor are not told apart."
                    .to_owned()
            }
            TimeRemarkView::PlanningUnknown => {
                "Planning is not told from execution: set pg_stat_statements.track_planning = on, \
                 or take profiles."
                    .to_owned()
            }
            TimeRemarkView::MoreThanSeen { factor } => format!(
                "Samples found {} times what clients saw, and were scaled down to that.",
                ratio(*factor)
            ),
            TimeRemarkView::Unwatched { share } => format!(
                "In {} of the service time nobody sampled the server (what did was killed, or could not reach it): of that time only the server's own statistics, if any, are known.",
                percent(*share, 1.0)
            ),
            TimeRemarkView::SamplesMissed { share } => format!(
                "{} of the samples that were due were not taken.",
                percent(*share, 1.0)
            ),
            TimeRemarkView::OthersCalls { factor } => format!(
                "The server counted {} times the calls of this run: others sent the same statements, \
                 and planning is this run's share of it.",
                ratio(*factor)
            ),
        })
        .collect();
    if view.others_us > 0.0 {
        all.push(format!(
            "Beside it, {} of other statements: other clients, or what functions ran.",
            duration(view.others_us)
        ));
    }
    if view.hidden_us > 0.0 {
        all.push(format!(
            "Sessions that the role may not look into, idle or not: {}; one with pg_monitor sees what they do.",
            duration(view.hidden_us)
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(what: &'static str, of: Option<&str>, us: f64, error: Option<f64>) -> TimePartView {
        TimePartView {
            what,
            of: of.map(str::to_owned),
            us,
            share: us / 1e6,
            known: if error.is_some() {
                "sampled"
            } else {
                "measured"
            },
            error,
        }
    }

    #[test]
    fn the_largest_come_first_and_the_small_ones_are_summed_up() {
        let whole = TimeOfView {
            fingerprint: None,
            sql: None,
            calls: 1_200,
            response_us: 1e6,
            service_us: 999_000.0,
            parts: vec![
                part("tool_lag", None, 1_000.0, None),
                part("planning", None, 299_000.0, None),
                part("wait", Some("Lock transactionid"), 600_000.0, Some(0.052)),
                part("processor", Some("scan"), 99_000.0, Some(1.4)),
                part("processor", Some("wal"), 1_000.0, Some(1.9)),
            ],
        };
        let one = TimeOfView {
            sql: Some("update t set n = n + $1".to_owned()),
            ..whole.clone()
        };
        let view = TimeView {
            whole,
            statements: vec![one],
            statements_count: 2,
            others_us: 2e6,
            hidden_us: 0.0,
            remarks: vec![TimeRemarkView::SamplesMissed { share: 0.25 }],
            planning: None,
            processor: None,
        };
        let text = lines(&view, TextStyle::default()).join("\n");
        assert_eq!(
            text,
            "
Where the time went: 1.00 s of response time (due → done) of 1,200 statements
  tool lag                     0.1 %  1.00 ms  measured
  service time (sent → done)  99.9 %   999 ms  measured; of this
    wait: Lock transactionid  60.1 %   600 ms  sampled ± 5 %
    planning                  29.9 %   299 ms  measured
    processor: scan            9.9 %  99.0 ms  sampled, too few samples to tell
    1 more                     0.1 %  1.00 ms
  100 % of service time, 1,200 calls: update t set n = n + $1
    wait: Lock transactionid 60.1 %, planning 29.9 %, processor: scan 9.9 %, processor: wal 0.1 %
  25.0 % of the samples that were due were not taken.
  Beside it, 2.00 s of other statements: other clients, or what functions ran."
        );
    }
}
