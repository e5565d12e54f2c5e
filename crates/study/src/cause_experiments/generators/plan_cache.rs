//! Proposes plans for the values of a prepared statement, if the plan for any values is slower.

use diagnose::{Change, PlanningMode};

use super::super::intervention::{Action, Intervention, MeasuredStatement};

/// Proposes it if the plan for any values differs. Where that plan is forced, the choice of the server comes first, which is cheaper to plan;
/// it is by estimated costs, so it may be the same plan.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Vec<Intervention> {
    if statement.mode == PlanningMode::Custom || statement.custom.is_empty() {
        return Vec::new();
    }
    let values: &[&str] = match statement.evidence.setting("plan_cache_mode") {
        Some("force_generic_plan") => &["auto", "force_custom_plan"],
        _ => &["force_custom_plan"],
    };
    let made = values.iter().map(|value| Intervention {
        cause: "the generic plan of the prepared statement is slower than a plan for its values"
            .to_owned(),
        change: Change::setting(
            "plan for the values; better for the role or the session that needs it than for all",
            "plan_cache_mode",
            *value,
        ),
        action: Action::OnExecution,
        risk: "each execution is planned: short statements that are sent often take longer"
            .to_owned(),
    });
    made.collect()
}
