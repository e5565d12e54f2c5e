//! Times and work of an executed statement, as `EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON)` reports them.

use serde_json::Value;

use super::node::Plan;
use super::read::{PlanError, read_top};

/// Times and work of an executed statement. Times are in milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MeasuredTimes {
    /// Planning.
    pub planning_ms: f64,
    /// Execution, including compilation and triggers.
    pub execution_ms: f64,
    /// Just-in-time compilation.
    pub compilation_ms: f64,
    /// Part of the compilation before the plan ran: the generation of code.
    pub generation_ms: f64,
    /// Triggers and checks of constraints.
    pub triggers: Vec<TriggerTime>,
    /// The plan that ran.
    pub plan: Plan,
}

/// Time of a trigger, which is in no node of the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TriggerTime {
    /// Name of the trigger.
    pub name: String,
    /// Constraint that it enforces.
    pub constraint: Option<String>,
    /// Table that it belongs to.
    pub relation: String,
    /// Time of all calls, in milliseconds.
    pub ms: f64,
    /// Number of calls.
    pub calls: f64,
}

impl MeasuredTimes {
    /// Returns planning and execution, in milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.planning_ms + self.execution_ms
    }

    /// Returns the blocks that it read, triggers not counted.
    pub fn blocks(&self) -> f64 {
        self.plan.root.actual.as_ref().map_or(0.0, |all| all.blocks)
    }
}

/// Reads the times of an executed statement.
///
/// # Errors
/// If the text is not JSON, or has no execution time.
pub fn read_measured_times(text: &str) -> Result<MeasuredTimes, PlanError> {
    let value: Value = serde_json::from_str(text).map_err(|_| PlanError::NoJson)?;
    let top = value.get(0).ok_or(PlanError::NoPlan)?;
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64);
    let triggers = top.get("Triggers").and_then(Value::as_array);
    let text_of = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let timing = |path: &str| top.pointer(path).and_then(Value::as_f64);
    Ok(MeasuredTimes {
        planning_ms: number(top, "Planning Time").unwrap_or(0.0),
        execution_ms: number(top, "Execution Time").ok_or(PlanError::NoPlan)?,
        compilation_ms: timing("/JIT/Timing/Total").unwrap_or(0.0),
        // From 17 on, the deformation of rows is a part of it.
        generation_ms: timing("/JIT/Timing/Generation")
            .or_else(|| timing("/JIT/Timing/Generation/Total"))
            .unwrap_or(0.0),
        triggers: triggers
            .into_iter()
            .flatten()
            .map(|one| TriggerTime {
                name: text_of(one, "Trigger Name").unwrap_or_default(),
                constraint: text_of(one, "Constraint Name"),
                relation: text_of(one, "Relation").unwrap_or_default(),
                ms: number(one, "Time").unwrap_or(0.0),
                calls: number(one, "Calls").unwrap_or(0.0),
            })
            .collect(),
        plan: read_top(top.as_object().ok_or(PlanError::NoPlan)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_triggers_and_compilation_are_read() {
        let text = r#"[{"Plan": {"Node Type": "ModifyTable"}, "Planning Time": 0.5,
            "Triggers": [{"Trigger Name": "RI_ConstraintTrigger_a_16400", "Constraint Name": "line_basket_fkey",
            "Relation": "basket", "Time": 129.5, "Calls": 1}],
            "JIT": {"Functions": 3, "Timing": {"Generation": 1.0, "Total": 12.25}}, "Execution Time": 130.5}]"#;
        let times = read_measured_times(text).unwrap();
        assert_eq!(times.total_ms(), 131.0);
        assert_eq!((times.compilation_ms, times.generation_ms), (12.25, 1.0));
        let trigger = &times.triggers[0];
        assert_eq!(trigger.constraint.as_deref(), Some("line_basket_fkey"));
        assert_eq!((trigger.ms, trigger.relation.as_str()), (129.5, "basket"));
        assert_eq!(
            read_measured_times(r#"[{"Plan": {}}]"#),
            Err(PlanError::NoPlan)
        );
        assert_eq!(read_measured_times("no"), Err(PlanError::NoJson));
    }

    #[test]
    fn work_of_a_node_is_that_of_all_its_executions() {
        let text = r#"[{"Plan": {"Node Type": "Seq Scan", "Actual Total Time": 2.5, "Actual Loops": 4,
            "Actual Rows": 3, "Rows Removed by Filter": 1000, "Shared Hit Blocks": 70, "Shared Read Blocks": 7},
            "JIT": {"Timing": {"Generation": {"Deform": 0.1, "Total": 0.5}, "Total": 2.0}},
            "Execution Time": 11}]"#;
        let times = read_measured_times(text).unwrap();
        let work = times.plan.root.actual.as_ref().unwrap();
        assert_eq!((work.ms, work.rows, work.removed), (10.0, 12.0, 4000.0));
        assert_eq!((times.blocks(), times.generation_ms), (77.0, 0.5));
    }
}
