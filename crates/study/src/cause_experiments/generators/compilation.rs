//! Proposes to do without just-in-time compilation.

use diagnose::{COMPILATION_RISK, Change};

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};

/// Proposes it for a statement that spends a noticeable part of its time compiling.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Option<Intervention> {
    let times = statement.times();
    let share = times.compilation_ms / times.total_ms().max(f64::MIN_POSITIVE);
    (share >= EXPENSIVE).then(|| Intervention {
        cause: format!(
            "just-in-time compilation takes {:.0} % of the statement",
            share.min(1.0) * 100.0
        ),
        change: Change::without_compilation(),
        action: Action::OnExecution,
        risk: COMPILATION_RISK.to_owned(),
    })
}
