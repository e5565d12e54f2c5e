//! Where the server's processor time went, in a few lines.

use crate::text::amount::{count, counted, duration, duration_change, percent, ratio};
use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::processor::{
    PlanningShareView, ProcessorPartView, ProcessorRemarkView, ProcessorStatementView,
    ProcessorView,
};
use crate::view::time_change::ProcessorChangeView;

/// Parts that are shown; the rest is summed up.
const PARTS_MAX: usize = 10;
/// Parts of less than this share of it are summed up, too.
const PART_SHARE_MIN: f64 = 0.005;
/// Statements that are shown, each with its largest parts.
const STATEMENTS_MAX: usize = 3;
const PARTS_OF_STATEMENT: usize = 4;
/// Parts of a comparison that are shown.
const CHANGES_MAX: usize = 4;

/// The lines, with a blank one before them.
pub(crate) fn lines(view: &ProcessorView, style: TextStyle) -> Vec<String> {
    let by = match view.counted_by {
        "tasks" => "by the kernel's count of tasks",
        "kernel" => "by the kernel's count",
        _ => "by stacks",
    };
    let title = format!(
        "Where the server's processor time went: {}, {by}",
        duration(view.cpu_us)
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    // What was not met is always told.
    let (apart, parts): (Vec<_>, Vec<_>) =
        view.parts.iter().partition(|part| part.what == "not_met");
    let notable = |part: &&&ProcessorPartView| part.us >= PART_SHARE_MIN * view.cpu_us;
    let shown = parts.iter().take(PARTS_MAX).take_while(notable).count();
    for part in &parts[..shown] {
        row(&mut table, part);
    }
    let rest = &parts[shown..];
    if !rest.is_empty() {
        let us: f64 = rest.iter().map(|part| part.us).sum();
        table.row([
            format!("  {} more", count(rest.len() as u64)),
            percent(us, view.cpu_us),
            duration(us),
            String::new(),
        ]);
    }
    apart.into_iter().for_each(|part| row(&mut table, part));
    lines.extend(table.lines());
    for one in view.statements.iter().take(STATEMENTS_MAX) {
        lines.extend(statement(one, view.cpu_us, style.columns()));
    }
    for remark in remarks(view) {
        lines.extend(wrapped(&remark, "  ", "  ", style.columns()));
    }
    lines
}

fn row(table: &mut Table, part: &ProcessorPartView) {
    let known = match part.error {
        Some(error) if error < 1.0 => format!("{} ± {:.0} %", part.known, 100.0 * error),
        Some(_) => format!("{}, too few samples to tell", part.known),
        None => part.known.to_owned(),
    };
    table.row([
        format!("  {}", part_name(part.what, part.of.as_deref())),
        percent(part.share, 1.0),
        duration(part.us),
        known,
    ]);
}

/// What a part is, in words.
pub(crate) fn part_name(what: &str, of: Option<&str>) -> String {
    match what {
        "client" => of.map_or_else(|| "clients' sessions".to_owned(), str::to_owned),
        "server" => format!("process: {}", of.unwrap_or_default()),
        "own" => "our own questions".to_owned(),
        _ => "counted and not met".to_owned(),
    }
}

fn statement(one: &ProcessorStatementView, whole_us: f64, width: usize) -> Vec<String> {
    let sql = one.sql.as_deref().unwrap_or("a statement without its text");
    let head = format!(
        "  {}, {}: ",
        percent(one.cpu_us, whole_us),
        duration(one.cpu_us)
    );
    let room = width.saturating_sub(head.chars().count());
    let mut lines = vec![format!("{head}{}", one_line(sql, room.max(20)))];
    let phases = one.parts.iter().filter(|part| part.of.is_some());
    let words: Vec<String> = phases
        .take(PARTS_OF_STATEMENT)
        .map(|part| {
            let name = part_name(part.what, part.of.as_deref());
            format!("{name} {}", percent(part.share, 1.0))
        })
        .collect();
    if !words.is_empty() {
        lines.extend(wrapped(&words.join(", "), "    ", "    ", width));
    }
    lines
}

fn remarks(view: &ProcessorView) -> Vec<String> {
    let remark = |remark: &ProcessorRemarkView| match remark {
        ProcessorRemarkView::NotCounted => {
            "The kernel's count could not be read: all of it is what stacks stand for.".to_owned()
        }
        ProcessorRemarkView::NoStacks => {
            "No stacks were taken (--profile), so there are no phases, and a statement's part is \
             inferred from how often it was met running or ready to run."
                .to_owned()
        }
        ProcessorRemarkView::MoreThanCounted { factor } => format!(
            "Stacks stood for {} times what the kernel counted, and were scaled down to that.",
            ratio(*factor)
        ),
        ProcessorRemarkView::FewerThanCounted { factor } => format!(
            "Stacks stood for {} times what the kernel counted, and were scaled up to that.",
            ratio(*factor)
        ),
    };
    let mut all: Vec<String> = view.remarks.iter().map(remark).collect();
    if view.unassigned_us > 0.0 {
        all.push(format!(
            "{} of clients' sessions belong to no statement that is known: between statements, beginning \
             and ending sessions, workers, other clients.",
            duration(view.unassigned_us)
        ));
    }
    if view.samples > 0 && view.counted_by != "stacks" {
        all.push(format!(
            "{} stand for {}, {:.1} % of what the kernel counted.",
            counted(view.samples, "stack"),
            duration(view.sampled_us),
            100.0 * view.sampled_us / view.cpu_us.max(1.0)
        ));
    }
    all
}

/// What both witnesses say of planning, where both do.
pub(crate) fn planning_line(view: &PlanningShareView) -> Option<String> {
    let (by_statistics, by_stacks) = (view.by_statistics?, view.by_stacks?);
    Some(format!(
        "  Planning's share of planning and execution: {} by pg_stat_statements' clocks, {} ± {:.1} by stacks.",
        percent(by_statistics, 1.0),
        percent(by_stacks, 1.0),
        100.0 * view.by_stacks_error.unwrap_or(0.0)
    ))
}

/// What processor time was made of before and after.
pub(crate) fn change_lines(view: &ProcessorChangeView, style: TextStyle) -> Vec<String> {
    let title = format!(
        "The server's processor time of a run, before → after: {}",
        duration_change(Some(view.before_us), Some(view.after_us))
    );
    let mut lines = vec![style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    for part in view.parts.iter().take(CHANGES_MAX) {
        table.row([
            format!("  {}", part_name(part.what, part.of.as_deref())),
            duration_change(Some(part.before_us), Some(part.after_us)),
            crate::text::amount::added(part.after_us - part.before_us),
            part.known.to_owned(),
        ]);
    }
    lines.extend(table.lines());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(
        what: &'static str,
        of: Option<&str>,
        us: f64,
        error: Option<f64>,
    ) -> ProcessorPartView {
        ProcessorPartView {
            what,
            of: of.map(str::to_owned),
            us,
            share: us / 1e6,
            known: if error.is_some() {
                "sampled"
            } else {
                "inferred"
            },
            error,
        }
    }

    #[test]
    fn parts_are_told_with_what_was_not_met_last() {
        let view = ProcessorView {
            cpu_us: 1e6,
            counted_by: "kernel",
            samples: 95,
            sampled_us: 959_596.0,
            parts: vec![
                part("client", Some("scans"), 700_000.0, Some(0.052)),
                part("client", Some("planning"), 200_000.0, Some(0.4)),
                part("server", Some("checkpointer"), 57_000.0, Some(1.4)),
                part("not_met", None, 40_000.0, None),
                part("client", Some("network"), 3_000.0, Some(1.9)),
            ],
            statements: vec![ProcessorStatementView {
                fingerprint: "01".to_owned(),
                sql: Some("select $1".to_owned()),
                cpu_us: 600_000.0,
                parts: vec![part("client", Some("scans"), 600_000.0, Some(0.1))],
            }],
            statements_count: 1,
            unassigned_us: 303_000.0,
            remarks: vec![],
        };
        let text = lines(&view, TextStyle::default()).join("\n");
        assert_eq!(
            text,
            "
Where the server's processor time went: 1.00 s, by the kernel's count
  scans                  70.0 %   700 ms  sampled ± 5 %
  planning               20.0 %   200 ms  sampled ± 40 %
  process: checkpointer   5.7 %  57.0 ms  sampled, too few samples to tell
  1 more                  0.3 %  3.00 ms
  counted and not met     4.0 %  40.0 ms  inferred
  60.0 %, 600 ms: select $1
    scans 60.0 %
  303 ms of clients' sessions belong to no statement that is known: between statements, beginning
  and ending sessions, workers, other clients.
  95 stacks stand for 960 ms, 96.0 % of what the kernel counted."
        );
    }

    #[test]
    fn planning_is_told_where_both_witnesses_saw_it() {
        let both = PlanningShareView::new(Some((300.0, 700.0)), (33, 67)).unwrap();
        assert_eq!(
            planning_line(&both).unwrap(),
            "  Planning's share of planning and execution: 30.0 % by pg_stat_statements' clocks, 33.0 % ± 9.2 by stacks."
        );
        let one = PlanningShareView::new(None, (0, 10)).unwrap();
        assert_eq!(planning_line(&one), None);
        assert!(one.by_stacks == Some(0.0) && one.by_stacks_error.unwrap() > 0.1);
        assert_eq!(PlanningShareView::new(None, (0, 0)), None);
    }
}
