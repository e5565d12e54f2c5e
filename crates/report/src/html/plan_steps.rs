//! Nodes of the plans of both sides, for pages that show them next to each other.

use plans::{PlanComparison, PlanSide, StatementPlans, StepMark};

use super::data::short;

/// Depth, label, mark, estimated rows and cost, and conditions of a node.
pub(super) type PlanStep = (usize, String, StepMark, f64, f64, Vec<String>);

/// Returns the nodes of both plans.
pub(super) fn plan_steps(plans: &StatementPlans) -> [Vec<PlanStep>; 2] {
    let marks = |of: fn(&PlanComparison) -> &Vec<StepMark>| {
        let found = plans.comparison.as_ref();
        found.map_or(&[][..], |found| of(found).as_slice())
    };
    [
        steps_of(&plans.before, marks(|found| &found.before_marks)),
        steps_of(&plans.after, marks(|found| &found.after_marks)),
    ]
}

fn steps_of(side: &PlanSide, marks: &[StepMark]) -> Vec<PlanStep> {
    let mut steps = Vec::new();
    if let Some(plan) = side.plan() {
        plan.root.each(&mut |node, depth| {
            let mark = marks.get(steps.len()).copied().unwrap_or(StepMark::Same);
            let conditions = node.conditions.iter().map(ToString::to_string).collect();
            let (rows, cost) = (short(node.rows), short(node.cost));
            steps.push((depth, node.label(), mark, rows, cost, conditions));
        });
    }
    steps
}
