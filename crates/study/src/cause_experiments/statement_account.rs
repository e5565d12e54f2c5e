//! Account of a statement that was measured, as the diagnosis reports it.

use diagnose::{ChangeTrial, MeasuredAccount, MeasuredExecution, PlanningMode, TriedChange};
use plans::MeasuredTimes;

use super::intervention::{Intervention, MeasuredStatement};

/// Returns a trial as the account lists it.
pub(super) fn tried_change((intervention, trial): &(Intervention, ChangeTrial)) -> TriedChange {
    let change = &intervention.change;
    TriedChange {
        change: change.form.text().unwrap_or_else(|| change.words.clone()),
        outcome: trial.outcome,
        left: trial.left(),
    }
}

/// Returns the account of a statement that was measured.
pub(super) fn measured_account(statement: &MeasuredStatement<'_>) -> MeasuredAccount {
    let of = |times: &[MeasuredTimes], mode: PlanningMode| -> Vec<MeasuredExecution> {
        let sets = statement.sets.iter().zip(times);
        sets.map(|(example, times)| MeasuredExecution {
            session: example.session,
            sequence: example.sequence,
            captured_ms: example.captured_us.map(|us| us as f64 / 1e3),
            mode,
            ms: times.total_ms(),
            blocks: times.blocks(),
        })
        .collect()
    };
    let mut executions = of(&statement.baseline, statement.mode);
    executions.extend(of(&statement.custom, PlanningMode::Custom));
    let waiting = statement.evidence.waiting_shares(statement.statement);
    let (locks, flush) = waiting.unwrap_or_default();
    let measured = statement.total_ms() * 1e6 / statement.statement.ns_per_call().max(1.0);
    MeasuredAccount {
        executions,
        parts: statement.parts.clone(),
        lock_wait_share: waiting.map(|(locks, _)| locks),
        flush_share: waiting.map(|(_, flush)| flush),
        unmeasured_share: (1.0 - measured - locks - flush).clamp(0.0, 1.0),
        tried: Vec::new(),
        untried: 0,
    }
}
