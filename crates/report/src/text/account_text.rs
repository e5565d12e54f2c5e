//! Text on the measured accounts of statements, and on the experiments with changes.

use diagnose::{ChangeTrial, MeasuredAccount, PlanningMode, StatementAccount, TimeAccount};
use plans::{PartKind, TimePart};

use crate::text::line::{cut, one_line, wrapped};
use crate::text::units::{bytes, counted, duration, percent};

/// Number of statements in the short text.
const STATEMENTS_SHOWN: usize = 5;
/// Number of parts of a statement in the short text.
const PARTS_SHOWN: usize = 3;
/// Share of a statement's time below which a part is not in the short text.
const PART_MIN: f64 = 0.03;

/// Lists where the measured time of statements goes: the largest parts, or everything.
pub(super) fn measured_lines(
    accounts: &[StatementAccount],
    verbose: bool,
    width: usize,
) -> Vec<String> {
    let measured: Vec<_> = accounts
        .iter()
        .filter_map(|one| Some((one, one.measured.as_ref()?)))
        .collect();
    if measured.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        "Where the time of statements goes, measured on a copy".to_owned(),
    ];
    let shown = match verbose {
        true => measured.len(),
        false => measured.len().min(STATEMENTS_SHOWN),
    };
    for (account, time) in measured.iter().take(shown) {
        let share = percent(account.share, 1.0);
        let line = format!("  {share}  {}", one_line(&account.sql, width));
        lines.push(cut(&line, width));
        match time {
            TimeAccount::NotMeasured { reason } => {
                let line = format!("not measured: {reason}");
                lines.extend(wrapped(&line, "    ", "      ", width));
            }
            TimeAccount::Measured(measured) => {
                lines.extend(account_lines(measured, verbose, width));
            }
        }
    }
    if measured.len() > shown {
        let more = (measured.len() - shown) as u64;
        lines.push(format!("  and {}", counted(more, "more statement")));
    }
    lines
}

fn account_lines(measured: &MeasuredAccount, verbose: bool, width: usize) -> Vec<String> {
    let total_ms = measured.parts.total_ms();
    let share = |ms: f64| percent(ms / total_ms.max(f64::MIN_POSITIVE), 1.0);
    let mut lines = Vec::new();
    if verbose {
        for execution in &measured.executions {
            let mode = match execution.mode {
                PlanningMode::Custom => "planned for its values",
                PlanningMode::Prepared => "prepared, as a session plans it after five executions",
                PlanningMode::Generic => "planned for any values",
            };
            let captured = execution.captured_ms.map_or_else(String::new, |ms| {
                format!(", captured with {}", duration(ms * 1e3))
            });
            let line = format!(
                "{} ({mode}; session {}, statement {}{captured})",
                duration(execution.ms * 1e3),
                execution.session,
                execution.sequence
            );
            lines.extend(wrapped(&line, "    ", "      ", width));
        }
        tree_lines(&measured.parts, 2, &share, &mut lines);
    } else {
        let mut parts = measured.parts.all();
        parts.retain(|one| {
            one.kind != PartKind::Statement && one.own_ms >= PART_MIN * total_ms && one.own_ms > 0.0
        });
        parts.sort_by(|a, b| b.own_ms.total_cmp(&a.own_ms));
        let parts: Vec<String> = parts
            .into_iter()
            .take(PARTS_SHOWN)
            .map(|one| format!("{} {}", share(one.own_ms), part_name(one)))
            .collect();
        let line = format!("{}: {}", duration(total_ms * 1e3), parts.join(", "));
        lines.extend(wrapped(&line, "    ", "      ", width));
    }
    let mut waits = Vec::new();
    for (what, waited) in [
        ("locks", measured.lock_wait_share),
        ("the flush of the write-ahead log", measured.flush_share),
    ] {
        if let Some(waited) = waited.filter(|share| *share >= PART_MIN) {
            waits.push(format!("{} waiting for {what}", percent(waited, 1.0)));
        }
    }
    if measured.unmeasured_share >= 0.1 {
        let unmeasured = percent(measured.unmeasured_share, 1.0);
        waits.push(format!(
            "{unmeasured} outside of the server's execution: network, waits, a busy machine"
        ));
    }
    if !waits.is_empty() {
        let line = format!("of its time in the traffic {}", waits.join(", "));
        lines.extend(wrapped(&line, "    ", "      ", width));
    }
    if measured.untried > 0 {
        let untried = counted(measured.untried, "proposed change");
        lines.push(format!("    {untried} not tried: there was no time"));
    }
    lines
}

fn part_name(part: &TimePart) -> String {
    match part.kind {
        PartKind::Trigger => format!("trigger {}", part.name),
        PartKind::Constraint => format!("constraint {}", part.name),
        _ => part.name.clone(),
    }
}

fn tree_lines(
    part: &TimePart,
    depth: usize,
    share: &dyn Fn(f64) -> String,
    lines: &mut Vec<String>,
) {
    let rows = match (part.rows, part.estimated_rows) {
        (Some(rows), Some(estimated)) => format!("; {rows:.0} rows, {estimated:.0} expected"),
        _ => String::new(),
    };
    let blocks = part
        .blocks
        .filter(|blocks| *blocks > 0.0)
        .map_or_else(String::new, |blocks| format!("; {blocks:.0} blocks"));
    lines.push(format!(
        "{}{:>6}  {}{rows}{blocks}",
        "  ".repeat(depth),
        share(part.own_ms),
        part_name(part)
    ));
    for child in &part.children {
        tree_lines(child, depth + 1, share, lines);
    }
}

/// Formats the part of a time that is left.
fn factor(left: f64) -> String {
    match left < 0.01 {
        true => format!("{left:.4}"),
        false => format!("{left:.2}"),
    }
}

/// Describes the experiment with a change: the times with and without it, and what it costs others.
pub(super) fn trial_lines(trial: &ChangeTrial, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |line: String| lines.extend(wrapped(&line, "  ", "    ", width));
    let sets = trial.sets.len() as f64;
    match (trial.total(), &trial.reason) {
        (Some(total), _) => {
            let range = match trial.range() {
                Some((least, most)) if trial.sets.len() > 1 => format!(
                    "; × {} to {} over {} parameter sets",
                    factor(least),
                    factor(most),
                    trial.sets.len()
                ),
                _ => String::new(),
            };
            add(format!(
                "measured on a copy: {} → {} (× {}{range}), {:.0} → {:.0} blocks",
                duration(total.before_ms / sets * 1e3),
                duration(total.after_ms / sets * 1e3),
                factor(total.left()),
                total.before_blocks / sets,
                total.after_blocks / sets,
            ));
        }
        (None, Some(reason)) => add(format!("tried on a copy: {reason}")),
        (None, None) => {}
    }
    let mut costs = Vec::new();
    if let Some(size) = trial.index_bytes {
        costs.push(format!("{} of index", bytes(size)));
    }
    for write in &trial.writes {
        costs.push(format!(
            "{} → {}: {}",
            duration(write.before_ms * 1e3),
            duration(write.after_ms * 1e3),
            one_line(&write.sql, 60)
        ));
    }
    if !costs.is_empty() {
        add(format!("costs others: {}", costs.join("; ")));
    }
    lines
}
