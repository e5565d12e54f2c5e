//! Text on the time breakdown of a run.

use time_breakdown::time_model::{
    Basis, PartsChange, StatementTime, TimeBreakdown, TimeCategory, TimeChange, TimePart,
    TimeRemark,
};

use crate::text::line::{one_line, wrapped};
use crate::text::processor_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{added, count, counted, duration_change, duration_ns, percent, ratio};

/// Maximum number of parts of the service time; the rest is summed.
const PARTS_MAX: usize = 10;
/// Minimum share of a part; smaller parts are summed.
const PART_SHARE_MIN: f64 = 0.005;
/// Maximum number of statements, each with its largest parts.
const STATEMENTS_MAX: usize = 3;
const PARTS_OF_STATEMENT: usize = 4;

/// Returns the lines, starting with a blank one.
pub(crate) fn lines(view: &TimeBreakdown, style: TextStyle) -> Vec<String> {
    let whole = &view.whole;
    if whole.parts.is_empty() {
        return Vec::new();
    }
    let title = format!(
        "Where the time went: {} of response time (due → done), summed over {}",
        duration_ns(whole.response_ns),
        counted(whole.calls, "statement")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    for lag in whole.parts.iter().filter(|part| is_lag(part)) {
        table.row([
            format!("  {}", category(&lag.category)),
            percent(lag.ns, whole.response_ns),
            duration_ns(lag.ns),
            basis(lag.basis),
        ]);
    }
    table.row([
        "  service time (sent → done)".to_owned(),
        percent(whole.service_ns, whole.response_ns),
        duration_ns(whole.service_ns),
        "measured; of this".to_owned(),
    ]);
    let parts = of_service(whole);
    let notable = |part: &&&TimePart<TimeCategory>| part.ns >= PART_SHARE_MIN * whole.service_ns;
    let shown = parts.iter().take(PARTS_MAX).take_while(notable).count();
    for part in &parts[..shown] {
        table.row([
            format!("    {}", category(&part.category)),
            percent(part.ns, whole.service_ns),
            duration_ns(part.ns),
            basis(part.basis),
        ]);
    }
    let rest = &parts[shown..];
    if !rest.is_empty() {
        let ns: f64 = rest.iter().map(|part| part.ns).sum();
        table.row([
            format!("    {} more", count(rest.len() as u64)),
            percent(ns, whole.service_ns),
            duration_ns(ns),
            String::new(),
        ]);
    }
    lines.extend(table.lines());
    if view.statements.len() > 1 {
        for one in view.statements.iter().take(STATEMENTS_MAX) {
            lines.extend(statement(one, whole.service_ns, style.columns()));
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

fn is_lag(part: &TimePart<TimeCategory>) -> bool {
    matches!(
        part.category,
        TimeCategory::ToolLag | TimeCategory::SessionLag
    )
}

/// Returns the parts of the service time in descending order.
fn of_service(time: &StatementTime) -> Vec<&TimePart<TimeCategory>> {
    let mut parts: Vec<_> = time.parts.iter().filter(|part| !is_lag(part)).collect();
    parts.sort_by(|one, other| other.ns.total_cmp(&one.ns));
    parts
}

fn statement(one: &StatementTime, whole_ns: f64, width: usize) -> Vec<String> {
    let sql = one.sql.as_deref().unwrap_or("a statement without its text");
    let head = format!(
        "  {} of service time, {}: ",
        percent(one.service_ns, whole_ns),
        counted(one.calls, "call")
    );
    let room = width.saturating_sub(head.chars().count());
    let mut lines = vec![format!("{head}{}", one_line(sql, room.max(20)))];
    let words: Vec<String> = of_service(one)
        .into_iter()
        .take(PARTS_OF_STATEMENT)
        .map(|part| {
            format!(
                "{} {}",
                category(&part.category),
                percent(part.ns, one.service_ns)
            )
        })
        .collect();
    lines.extend(wrapped(&words.join(", "), "    ", "    ", width));
    lines
}

/// Maximum number of parts of a comparison.
const CHANGES_MAX: usize = 4;

/// Describes the components of response times before and after, starting with a blank line.
pub(crate) fn change_lines(view: &TimeChange, style: TextStyle) -> Vec<String> {
    let response = &view.response;
    let title = format!(
        "Where the time of a run went, before → after: {} of response time, summed over all statements",
        duration_change(Some(response.before_ns), Some(response.after_ns))
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    lines.extend(changes(response, category));
    if let Some(processor) = &view.processor {
        let title = format!(
            "The server's processor time of a run, before → after: {}",
            duration_change(Some(processor.before_ns), Some(processor.after_ns))
        );
        lines.push(style.paint(Tone::Heading, &title));
        lines.extend(changes(processor, processor_text::category));
    }
    lines
}

/// Lists the parts that changed most.
fn changes<C>(change: &PartsChange<C>, category: fn(&C) -> String) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    for part in change.parts.iter().take(CHANGES_MAX) {
        table.row([
            format!("  {}", category(&part.category)),
            duration_change(Some(part.before_ns), Some(part.after_ns)),
            added(part.after_ns - part.before_ns),
            part.basis.name().to_owned(),
        ]);
    }
    table.lines()
}

/// Describes a category.
pub(crate) fn category(category: &TimeCategory) -> String {
    match category {
        TimeCategory::ToolLag => "tool lag".to_owned(),
        TimeCategory::SessionLag => "session lag".to_owned(),
        TimeCategory::OutsideServer => "network and scheduling".to_owned(),
        TimeCategory::Planning => "planning".to_owned(),
        TimeCategory::Processor(None) => "on the processor".to_owned(),
        TimeCategory::Processor(Some(phase)) => format!("processor: {phase}"),
        TimeCategory::Wait { kind, event } => format!("wait: {kind} {event}").trim_end().to_owned(),
        TimeCategory::Execution => "execution, without samples".to_owned(),
        TimeCategory::Unobserved => "service time, not observed".to_owned(),
    }
}

/// Describes the basis of a part and its error.
pub(crate) fn basis(basis: Basis) -> String {
    match basis.error() {
        Some(error) if error < 1.0 => format!("{} ± {:.0} %", basis.name(), 100.0 * error),
        Some(_) => format!("{}, too few samples to tell", basis.name()),
        None => basis.name().to_owned(),
    }
}

fn remarks(view: &TimeBreakdown) -> Vec<String> {
    let mut all: Vec<String> = view
        .remarks
        .iter()
        .map(|remark| match remark {
            TimeRemark::NotSampled => {
                "The server's activity was not sampled, so waits and processor are not told apart."
                    .to_owned()
            }
            TimeRemark::PlanningUnknown => {
                "Planning is not told from execution: set pg_stat_statements.track_planning = on, \
                 or take profiles."
                    .to_owned()
            }
            TimeRemark::MoreThanSeen { factor } => format!(
                "Samples found {} times what clients saw, and were scaled down to that.",
                ratio(*factor)
            ),
            TimeRemark::Unwatched { share } => format!(
                "In {} of the service time nobody sampled the server (what did was killed, or could not reach it): of that time only the server's own statistics, if any, are known.",
                percent(*share, 1.0)
            ),
            TimeRemark::SamplesMissed { share } => format!(
                "{} of the samples that were due were not taken.",
                percent(*share, 1.0)
            ),
            TimeRemark::OthersCalls { factor } => format!(
                "The server counted {} times the calls of this run: others sent the same statements, \
                 and planning is this run's share of it.",
                ratio(*factor)
            ),
        })
        .collect();
    if view.others_ns > 0.0 {
        all.push(format!(
            "In addition, {} of other statements: other clients, or what functions ran.",
            duration_ns(view.others_ns)
        ));
    }
    if view.hidden_ns > 0.0 {
        all.push(format!(
            "Sessions that the role may not look into, idle or not: {}; one with pg_monitor sees what they do.",
            duration_ns(view.hidden_ns)
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(category: TimeCategory, ns: f64, samples: Option<u64>) -> TimePart<TimeCategory> {
        TimePart {
            category,
            ns,
            basis: samples.map_or(Basis::Measured, |samples| Basis::Sampled { samples }),
        }
    }

    #[test]
    fn largest_parts_come_first_and_small_ones_are_summed() {
        let on = |phase: &str| TimeCategory::Processor(Some(phase.to_owned()));
        let lock = TimeCategory::Wait {
            kind: "Lock".to_owned(),
            event: "transactionid".to_owned(),
        };
        let whole = StatementTime {
            fingerprint: None,
            sql: None,
            calls: 1_200,
            response_ns: 1e9,
            service_ns: 999e6,
            parts: vec![
                part(TimeCategory::ToolLag, 1e6, None),
                part(TimeCategory::Planning, 299e6, None),
                part(lock, 600e6, Some(1_421)),
                part(on("scan"), 99e6, Some(2)),
                part(on("wal"), 1e6, Some(1)),
            ],
            scale: 1.0,
        };
        let one = StatementTime {
            sql: Some("update t set n = n + $1".to_owned()),
            ..whole.clone()
        };
        let other = StatementTime {
            sql: Some("select $1".to_owned()),
            service_ns: 99.9e6,
            calls: 1,
            parts: vec![part(TimeCategory::Planning, 99.9e6, None)],
            ..whole.clone()
        };
        let view = TimeBreakdown {
            whole,
            statements: vec![one, other],
            others_ns: 2e9,
            others_running_ns: 0.0,
            planned_and_executed_ns: None,
            hidden_ns: 0.0,
            remarks: vec![TimeRemark::SamplesMissed { share: 0.25 }],
            planning: None,
            processor: None,
        };
        let text = lines(&view, TextStyle::default()).join("\n");
        assert_eq!(
            text,
            "
Where the time went: 1.00 s of response time (due → done), summed over 1,200 statements
  tool lag                     0.1 %  1.00 ms  measured
  service time (sent → done)  99.9 %   999 ms  measured; of this
    wait: Lock transactionid  60.1 %   600 ms  sampled ± 5 %
    planning                  29.9 %   299 ms  measured
    processor: scan            9.9 %  99.0 ms  sampled, too few samples to tell
    1 more                     0.1 %  1.00 ms
  100 % of service time, 1,200 calls: update t set n = n + $1
    wait: Lock transactionid 60.1 %, planning 29.9 %, processor: scan 9.9 %, processor: wal 0.1 %
  10.0 % of service time, 1 call: select $1
    planning 100 %
  25.0 % of the samples that were due were not taken.
  In addition, 2.00 s of other statements: other clients, or what functions ran."
        );
    }
}
