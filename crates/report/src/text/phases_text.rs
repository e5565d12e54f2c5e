//! What the processor time of a profile was for, for people.

use crate::text::amount::{count, counted, duration};
use crate::text::line::{cut, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::phases::{PhaseView, PhasesView};

/// How many phases of a statement are named.
const PHASES_OF_STATEMENT: usize = 3;

/// The phases as text, ending with a line feed.
pub fn render_text(view: &PhasesView, style: &TextStyle) -> String {
    let profile = &view.profile;
    let width = style.columns();
    let heading = format!("Processor time of {} by phase", one_line(&view.run, 60));
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let kernel = match profile.kernel {
        true => "",
        false => ", without the kernel's part",
    };
    let complete = profile
        .complete_percent
        .map_or_else(String::new, |percent| {
            format!(" ({percent:.0} % of them reach main)")
        });
    lines.push(format!(
        "  {} samples a second of {} ({}){kernel}, stacks by {}{complete}",
        profile.frequency_hz, profile.scope, profile.event, profile.unwinding
    ));
    let sampled = duration(profile.sampled_cpu_us as f64);
    let of = |us: u64| duration(us as f64);
    let scheduler = profile
        .kernel_cpu_us
        .map_or_else(String::new, |us| format!(", {} by its scheduler's", of(us)));
    let kernel = match (profile.task_clock_us, profile.kernel_cpu_us) {
        (Some(us), _) => Some((of(us), "count of tasks", &*scheduler)),
        (None, Some(us)) => Some((of(us), "count", "")),
        (None, None) => None,
    };
    lines.push(match (kernel, profile.sampled_percent) {
        (Some((time, count, beside)), Some(percent)) => format!(
            "  The server's processes: {sampled} by samples, {time} by the kernel's {count} ({percent:.1} %){beside}"
        ),
        _ => format!("  The server's processes: {sampled} by samples"),
    });
    if profile.is_weighed {
        lines.push(format!(
            "  Each sample stands for {}: all together for what the counters of tasks counted",
            duration(profile.sample_us)
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
    lines.push(String::new());
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["  phase", "share", "CPU", "samples"].map(str::to_owned));
    for phase in &view.phases {
        table.row([
            format!("  {}", phase.title),
            format!("{:.1} %", phase.share_percent),
            duration(phase.cpu_us as f64),
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
    if !view.statements.is_empty() {
        lines.push(String::new());
        let heading = format!(
            "Statements: {} of {of} are known to be one's",
            count(view.of_statements)
        );
        lines.push(style.paint(Tone::Heading, &heading));
        for one in &view.statements {
            let largest: Vec<String> = one
                .phases
                .iter()
                .take(PHASES_OF_STATEMENT)
                .map(
                    |PhaseView {
                         title,
                         share_percent,
                         ..
                     }| format!("{title} {share_percent:.0} %"),
                )
                .collect();
            let line = format!(
                "  {:>5.1} %  {:>8}  {}  {}",
                one.share_percent,
                duration(one.cpu_us as f64),
                one.fingerprint,
                one_line(one.sql.as_deref().unwrap_or("(text not known)"), 200)
            );
            lines.push(cut(&line, width));
            lines.push(cut(&format!("           {}", largest.join(", ")), width));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}
