//! Text on the server's processor time.

use time_breakdown::time_model::{
    CpuCounter, PlanningShare, ProcessorBreakdown, ProcessorCategory, ProcessorRemark,
    StatementCpuTime, TimePart,
};

use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::time_text::basis;
use crate::text::units::{count, counted, duration_ns, percent, ratio};

/// Maximum number of parts; the rest is summed.
const PARTS_MAX: usize = 10;
/// Minimum share of a part; smaller parts are summed.
const PART_SHARE_MIN: f64 = 0.005;
/// Maximum number of statements, each with its largest parts.
const STATEMENTS_MAX: usize = 3;
const PARTS_OF_STATEMENT: usize = 4;

/// Returns the lines, starting with a blank one.
pub(crate) fn lines(view: &ProcessorBreakdown, style: TextStyle) -> Vec<String> {
    let by = match view.counted_by {
        CpuCounter::Tasks => "by the kernel's count of tasks",
        CpuCounter::Scheduler => "by the kernel's count",
        CpuCounter::Stacks => "by stacks",
    };
    let title = format!(
        "Where the server's processor time went: {}, {by}",
        duration_ns(view.whole.cpu_ns)
    );
    let whole_ns = view.whole.cpu_ns;
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    // The unattributed part is always shown.
    let all = view.whole.parts.iter();
    let (apart, parts): (Vec<_>, Vec<_>) =
        all.partition(|part| part.category == ProcessorCategory::Unattributed);
    let notable = |part: &&&TimePart<ProcessorCategory>| part.ns >= PART_SHARE_MIN * whole_ns;
    let shown = parts.iter().take(PARTS_MAX).take_while(notable).count();
    for part in &parts[..shown] {
        row(&mut table, part, whole_ns);
    }
    let rest = &parts[shown..];
    if !rest.is_empty() {
        let ns: f64 = rest.iter().map(|part| part.ns).sum();
        table.row([
            format!("  {} more", count(rest.len() as u64)),
            percent(ns, whole_ns),
            duration_ns(ns),
            String::new(),
        ]);
    }
    apart
        .into_iter()
        .for_each(|part| row(&mut table, part, whole_ns));
    lines.extend(table.lines());
    for one in view.statements.iter().take(STATEMENTS_MAX) {
        lines.extend(statement(one, whole_ns, style.columns()));
    }
    for remark in remarks(view) {
        lines.extend(wrapped(&remark, "  ", "  ", style.columns()));
    }
    lines
}

fn row(table: &mut Table, part: &TimePart<ProcessorCategory>, whole_ns: f64) {
    table.row([
        format!("  {}", category(&part.category)),
        percent(part.ns, whole_ns),
        duration_ns(part.ns),
        basis(part.basis),
    ]);
}

/// Describes a category.
pub(crate) fn category(category: &ProcessorCategory) -> String {
    match category {
        ProcessorCategory::Client(None) => "clients' sessions".to_owned(),
        ProcessorCategory::Client(Some(phase)) => phase.clone(),
        ProcessorCategory::Server(kind) => format!("process: {kind}"),
        ProcessorCategory::Own => "Rehearse's own queries".to_owned(),
        ProcessorCategory::Unattributed => "counted, not attributed".to_owned(),
    }
}

fn statement(one: &StatementCpuTime, whole_ns: f64, width: usize) -> Vec<String> {
    let sql = one.sql.as_deref().unwrap_or("a statement without its text");
    let head = format!(
        "  {}, {}: ",
        percent(one.cpu_ns, whole_ns),
        duration_ns(one.cpu_ns)
    );
    let room = width.saturating_sub(head.chars().count());
    let mut lines = vec![format!("{head}{}", one_line(sql, room.max(20)))];
    let phases = one.parts.iter().filter(|part| {
        matches!(
            part.category,
            ProcessorCategory::Client(Some(_)) | ProcessorCategory::Server(_)
        )
    });
    let words: Vec<String> = phases
        .take(PARTS_OF_STATEMENT)
        .map(|part| {
            let share = percent(part.ns, one.cpu_ns);
            format!("{} {share}", category(&part.category))
        })
        .collect();
    if !words.is_empty() {
        lines.extend(wrapped(&words.join(", "), "    ", "    ", width));
    }
    lines
}

fn remarks(view: &ProcessorBreakdown) -> Vec<String> {
    let remark = |remark: &ProcessorRemark| match remark {
        ProcessorRemark::NotCounted => {
            "The kernel's count could not be read: all of it is what stacks stand for.".to_owned()
        }
        ProcessorRemark::NoStacks => {
            "No stacks were taken (--profile), so there are no phases, and a statement's part is \
             inferred from how often it was found running or ready to run."
                .to_owned()
        }
        ProcessorRemark::MoreThanCounted { factor } => format!(
            "Stacks stood for {} times what the kernel counted, and were scaled down to that.",
            ratio(*factor)
        ),
        ProcessorRemark::FewerThanCounted { factor } => format!(
            "Stacks stood for {} times what the kernel counted, and were scaled up to that.",
            ratio(*factor)
        ),
    };
    let mut all: Vec<String> = view.remarks.iter().map(remark).collect();
    if view.unassigned.cpu_ns > 0.0 {
        all.push(format!(
            "{} of clients' sessions belong to no statement that is known: between statements, beginning \
             and ending sessions, workers, other clients.",
            duration_ns(view.unassigned.cpu_ns)
        ));
    }
    if view.samples > 0 && view.counted_by != CpuCounter::Stacks {
        all.push(format!(
            "{} stand for {}, {:.1} % of what the kernel counted.",
            counted(view.samples, "stack"),
            duration_ns(view.sampled_ns),
            100.0 * view.sampled_ns / view.whole.cpu_ns.max(1e3)
        ));
    }
    all
}

/// Describes both measurements of planning, if both exist.
pub(crate) fn planning_line(view: &PlanningShare) -> Option<String> {
    let (by_statistics, by_stacks) = (view.by_statistics?, view.by_stacks?);
    Some(format!(
        "  Planning's share of planning and execution: {} by pg_stat_statements' clocks, {} ± {:.1} by stacks.",
        percent(by_statistics, 1.0),
        percent(by_stacks, 1.0),
        100.0 * view.by_stacks_error.unwrap_or(0.0)
    ))
}

#[cfg(test)]
mod tests {
    use time_breakdown::time_model::Basis;

    use super::*;

    fn part(
        category: ProcessorCategory,
        ns: f64,
        samples: Option<u64>,
    ) -> TimePart<ProcessorCategory> {
        TimePart {
            category,
            ns,
            basis: samples.map_or(Basis::Inferred, |samples| Basis::Sampled { samples }),
        }
    }

    #[test]
    fn unattributed_part_is_listed_last() {
        let client = |phase: &str| ProcessorCategory::Client(Some(phase.to_owned()));
        let checkpointer = ProcessorCategory::Server("checkpointer".to_owned());
        let time = |cpu_ns, parts| StatementCpuTime {
            sql: Some("select $1".to_owned()),
            cpu_ns,
            parts,
            ..StatementCpuTime::default()
        };
        let view = ProcessorBreakdown {
            whole: time(
                1e9,
                vec![
                    part(client("scans"), 700e6, Some(1_421)),
                    part(client("planning"), 200e6, Some(24)),
                    part(checkpointer, 57e6, Some(2)),
                    part(ProcessorCategory::Unattributed, 40e6, None),
                    part(client("network"), 3e6, Some(1)),
                ],
            ),
            statements: vec![time(600e6, vec![part(client("scans"), 600e6, Some(400))])],
            unassigned: time(303e6, Vec::new()),
            counted_by: CpuCounter::Scheduler,
            samples: 95,
            sampled_ns: 959_596e3,
            scale: 1.0,
            remarks: vec![],
        };
        let text = lines(&view, TextStyle::default()).join("\n");
        assert_eq!(
            text,
            "
Where the server's processor time went: 1.00 s, by the kernel's count
  scans                    70.0 %   700 ms  sampled ± 5 %
  planning                 20.0 %   200 ms  sampled ± 40 %
  process: checkpointer     5.7 %  57.0 ms  sampled, too few samples to tell
  1 more                    0.3 %  3.00 ms
  counted, not attributed   4.0 %  40.0 ms  inferred
  60.0 %, 600 ms: select $1
    scans 100 %
  303 ms of clients' sessions belong to no statement that is known: between statements, beginning
  and ending sessions, workers, other clients.
  95 stacks stand for 960 ms, 96.0 % of what the kernel counted."
        );
    }

    #[test]
    fn planning_is_shown_if_both_measurements_exist() {
        let both = PlanningShare::new(Some((300.0, 700.0)), (33, 67)).unwrap();
        assert_eq!(
            planning_line(&both).unwrap(),
            "  Planning's share of planning and execution: 30.0 % by pg_stat_statements' clocks, 33.0 % ± 9.2 by stacks."
        );
        let one = PlanningShare::new(None, (0, 10)).unwrap();
        assert_eq!(planning_line(&one), None);
        assert!(one.by_stacks == Some(0.0) && one.by_stacks_error.unwrap() > 0.1);
        assert_eq!(PlanningShare::new(None, (0, 0)), None);
    }
}
