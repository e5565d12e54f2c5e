//! Proposes plans for the values of a prepared statement, if the plan for any values is slower.

use diagnose::{Change, PlanningMode};

use super::super::intervention::{Action, Intervention, MeasuredStatement};

/// Proposes them if the traffic plans for any values, and the plans differ.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Option<Intervention> {
    if statement.mode == PlanningMode::Custom || statement.custom.is_empty() {
        return None;
    }
    // The default decides by costs. If it chose the slower plan, only the setting helps.
    let current = statement.evidence.setting("plan_cache_mode");
    let value = match current {
        Some("force_generic_plan") => "auto",
        _ => "force_custom_plan",
    };
    Some(Intervention {
        cause: "the prepared statement has a plan for any values, and the plan for its own values is faster".to_owned(),
        change: Change::setting(
            "plan for the values; better for the role or the session that needs it than for all",
            "plan_cache_mode",
            value,
        ),
        action: Action::OnExecution,
        risk: "each execution is planned: short statements that are sent often take longer".to_owned(),
    })
}
