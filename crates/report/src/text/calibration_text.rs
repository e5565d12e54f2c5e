//! Text on a calibration.

use study::calibration::{Calibration, Estimate, LimitKind, Measurement};

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{bytes, count, counted, duration, duration_ns, ratio};

/// Renders the calibration, ending with a line feed.
pub fn render_text(view: &Calibration, style: &TextStyle) -> String {
    let heading = format!(
        "Calibration of {} at speed {}: no statement was sent to the target.",
        one_line(&view.workload, 60),
        view.speed
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let width = style.columns();
    lines.extend(demand_table(view).lines(width));
    lines.push(style.paint(Tone::Heading, "This machine"));
    lines.extend(machine_table(view).lines(width));
    if let Some(reason) = &view.unmeasured {
        lines.push(format!("  Not all was measured: {reason}."));
    }
    lines.push(style.paint(Tone::Heading, "Needed"));
    lines.extend(needs_table(view).lines(width));
    for limit in &view.limits {
        match limit.remedy.is_empty() {
            true => lines.push(format!("  ! {}", limit.message)),
            false => {
                lines.push(format!("  ! {}:", limit.message));
                lines.push(format!("      {}", limit.remedy));
            }
        }
    }
    lines.push(style.paint(Tone::Heading, &verdict(view)));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the conclusion, in one sentence.
fn verdict(view: &Calibration) -> String {
    let exceeds = |kind| view.limits.iter().any(|limit| limit.kind == kind);
    let lacks_connections = exceeds(LimitKind::TargetConnections);
    if exceeds(LimitKind::Division) {
        return format!(
            "Not as it is: {} machines like this one are needed, and the sessions cannot be divided among them, see above.",
            view.workers
        );
    }
    match (view.workers, lacks_connections) {
        (1, true) => {
            "Not as it is: the target allows too few connections. One machine can send this replay."
                .to_owned()
        }
        (1, false) if !view.one_machine_is_enough => {
            "Not as it is: this machine exceeds a limit, see above.".to_owned()
        }
        (1, false) => {
            let unknown = match (view.full_speed.is_some(), view.target.is_some()) {
                (true, true) => return "One machine is enough.".to_owned(),
                (false, true) => "its CPU time was not measured",
                (true, false) => "the target's max_connections is unknown",
                (false, false) => {
                    "its CPU time was not measured, and the target's max_connections is unknown"
                }
            };
            format!("One machine is enough, as far as known: {unknown}.")
        }
        (workers, true) => format!(
            "{workers} machines like this one are needed, and the target allows too few connections."
        ),
        (workers, false) => format!("{workers} machines like this one are needed."),
    }
}

fn demand_table(view: &Calibration) -> AccountTable {
    let demand = &view.demand;
    let mut table = AccountTable::new();
    let over = match view.speed == "max" {
        true => format!("over {} in the capture", duration_ns(demand.span_ns as f64)),
        false => format!("over {}", duration_ns(demand.span_ns as f64)),
    };
    table.row("statements", count(demand.statements), over);
    if !demand.not_sent.is_empty() {
        let reasons = demand.not_sent.iter();
        let reasons: Vec<String> = reasons
            .map(|(reason, number)| format!("{} {reason}", count(*number)))
            .collect();
        let sum: u64 = demand.not_sent.values().sum();
        let reasons = format!("in addition: {}", reasons.join(", "));
        table.row("not sent", count(sum), reasons);
    }
    table.row(
        "peak rate",
        count(demand.statements_in_1s),
        format!(
            "in a second, {} in 100 ms",
            count(demand.statements_in_100ms)
        ),
    );
    table.row(
        "sessions",
        count(demand.sessions),
        format!(
            "up to {} at once, {} in a second",
            count(demand.sessions_at_once),
            counted(demand.connects_in_1s, "connect")
        ),
    );
    let known = demand.statements_with_known_bytes;
    table.row("sent", bytes(demand.sent_bytes), "");
    table.row(
        "received",
        bytes(demand.received_bytes),
        match known {
            0 => "without rows, whose size the capture does not have".to_owned(),
            known if known == demand.statements => String::new(),
            known => format!("with the rows of {}", counted(known, "statement")),
        },
    );
    table
}

fn machine_table(view: &Calibration) -> AccountTable {
    let mut table = AccountTable::new();
    let mut add = |name: &str, measured: &Option<Measurement>| {
        let Some(measured) = measured else {
            return;
        };
        table.row(
            name,
            duration(measured.cost.mean_us),
            format!(
                "of CPU a statement ({} to {}), {} statements at {} a second",
                duration(measured.cost.min_us),
                duration(measured.cost.max_us),
                count(measured.statements),
                count(measured.statements_per_second.round() as u64)
            ),
        );
        if let (Some(p50), Some(p99)) = (measured.lag_p50_us, measured.lag_p99_us) {
            table.row(
                "lag",
                duration(p99),
                format!("at most, for 99 %; {} for 50 %", duration(p50)),
            );
        }
    };
    add("at this speed", &view.paced);
    add("at full speed", &view.full_speed);
    table
}

fn needs_table(view: &Calibration) -> AccountTable {
    let needs = &view.needs;
    let mut table = AccountTable::new();
    let range = |estimate: &Estimate, of: fn(f64) -> String| {
        format!("{} to {}", of(estimate.low), of(estimate.high))
    };
    if let Some(cpu) = &needs.cpu_seconds {
        let seconds = |seconds: f64| duration(seconds * 1e6);
        table.row("CPU time", seconds(cpu.expected), range(cpu, seconds));
    }
    if let Some(cores) = &needs.peak_cores {
        let text = format!("processors at the peak, {}", range(cores, ratio));
        table.row("", ratio(cores.expected), text);
    }
    if let Some(wait) = needs.longest_wait_ns.filter(|wait| *wait > 0) {
        table.row(
            "longest wait",
            duration_ns(wait as f64),
            "added to the lag at the peak, at the rate that was measured at full speed",
        );
    }
    let connections = match view.target {
        Some(room) => format!("of the target's max_connections {}", room.max_connections),
        None => "the target's max_connections is unknown".to_owned(),
    };
    table.row("connections", count(needs.connections), connections);
    table.row("open files", count(needs.descriptors), "");
    let bits = needs.peak_bits_per_second as f64 / 1e6;
    table.row("network", format!("{bits:.1} Mbit/s"), "at the peak");
    table.row("memory", bytes(needs.memory_bytes), "");
    table
}
