//! Text on the processor time of a profile, by phase.

use cpu_profile::phases::PhaseReport;

use crate::text::line::{cut, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted, duration_ns};

/// Maximum number of phases of a statement.
const PHASES_OF_STATEMENT: usize = 3;

/// Renders the phases, ending with a line feed.
pub fn render_text(view: &PhaseReport, style: &TextStyle) -> String {
    let width = style.columns();
    let heading = format!("Processor time of {} by phase", one_line(&view.run, 60));
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.extend(profile_lines(view));
    lines.push(String::new());
    lines.extend(phase_lines(view, width));
    if !view.statements.is_empty() {
        lines.push(String::new());
        let heading = format!(
            "Statements: {} of {} are known to be one's; shares of the server's processor time",
            count(view.statement_samples),
            counted(view.samples, "sample")
        );
        lines.push(style.paint(Tone::Heading, &heading));
        lines.extend(statement_lines(view, width));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole.max(1.0)
}

/// Describes the sampling: rate, scope, and how complete the samples are.
fn profile_lines(view: &PhaseReport) -> Vec<String> {
    let profile = &view.profile;
    let mut lines = Vec::new();
    let kernel = match profile.kernel {
        true => "",
        false => ", without the kernel's part",
    };
    let complete = match profile.unwound {
        0 => String::new(),
        unwound => format!(
            " ({:.0} % of them reach main)",
            percent(profile.complete as f64, unwound as f64)
        ),
    };
    lines.push(format!(
        "  {} samples a second of {} ({}){kernel}, stacks by {}{complete}",
        profile.frequency_hz, profile.scope, profile.event, profile.unwinding
    ));
    let sampled = duration_ns(profile.sampled_ns());
    let of = |ns: u64| duration_ns(ns as f64);
    let scheduler = profile
        .cpu_ns
        .map_or_else(String::new, |ns| format!(", {} by its scheduler's", of(ns)));
    let kernel = match (profile.task_clock_ns, profile.cpu_ns) {
        (Some(ns), _) => Some((ns, "count of tasks", &*scheduler)),
        (None, Some(ns)) => Some((ns, "count", "")),
        (None, None) => None,
    };
    lines.push(match kernel.filter(|(ns, ..)| *ns > 0) {
        Some((ns, count, by_scheduler)) => format!(
            "  The server's processes: {sampled} by samples, {} by the kernel's {count} ({:.1} %){by_scheduler}",
            of(ns),
            percent(profile.sampled_ns(), ns as f64)
        ),
        None => format!("  The server's processes: {sampled} by samples"),
    });
    if view.is_weighed {
        lines.push(format!(
            "  Each sample stands for {}: all together for what the counters of tasks counted",
            duration_ns(view.sample_ns)
        ));
    }
    if profile.lost > 0 {
        lines.push(format!("  perf lost {}", counted(profile.lost, "event")));
    }
    if profile.left_out > 0 {
        lines.push(format!(
            "  {} came past the most that a run keeps",
            counted(profile.left_out, "sample")
        ));
    }
    lines.extend(profile.notes.iter().map(|note| format!("  {note}")));
    lines
}

/// Lists the phases, the number of samples, and the spin locks.
fn phase_lines(view: &PhaseReport, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["  phase", "share", "CPU", "samples"].map(str::to_owned));
    for phase in &view.phases {
        table.row([
            format!("  {}", phase.phase.title()),
            format!(
                "{:.1} %",
                percent(phase.samples as f64, view.samples as f64)
            ),
            duration_ns(phase.cpu_ns),
            count(phase.samples),
        ]);
    }
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    if view.samples == 0 && view.others > 0 {
        lines.push(
            "  No sample is of what was chosen; without a choice, `phases` shows clients' backends, and --all-processes all."
                .to_owned(),
        );
    }
    let of = counted(view.samples, "sample");
    lines.push(match view.others {
        0 => format!("  of {of}"),
        others => format!(
            "  of {of}; {} of the server's processes are not among them",
            count(others)
        ),
    });
    for lock in &view.spin_locks {
        lines.push(format!(
            "  spin lock of {}: {}",
            lock.taken_by,
            counted(lock.samples, "sample")
        ));
    }
    lines
}

/// Returns two lines for each statement: its time, and its largest phases.
fn statement_lines(view: &PhaseReport, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for one in &view.statements {
        let largest: Vec<String> = one
            .phases
            .iter()
            .take(PHASES_OF_STATEMENT)
            .map(|phase| {
                let share = percent(phase.samples as f64, one.samples as f64);
                format!("{} {share:.0} %", phase.phase.title())
            })
            .collect();
        let share = one
            .processor_share
            .map_or_else(|| "?".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let line = format!(
            "  {share:>7}  {:>8}  {}  {}",
            duration_ns(one.cpu_ns),
            one.fingerprint,
            one_line(one.sql.as_deref().unwrap_or("(text not known)"), width)
        );
        lines.push(cut(&line, width));
        lines.push(cut(&format!("           {}", largest.join(", ")), width));
    }
    lines
}
