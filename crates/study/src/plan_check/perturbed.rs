//! Compares the plans of perturbed copies of the statistics with those of the export.

use plans::{Plan, PlanSide};

use super::result::{PerturbedPlans, cost_ratio};

/// Compares the plans of one set of values in all copies. Returns `None` if a side has no plan, or there are no copies.
pub(super) fn compare_copies(
    (before, after): (&PlanSide, &PlanSide),
    copies: &[(Option<&PlanSide>, Option<&PlanSide>)],
) -> Option<PerturbedPlans> {
    let (before, after) = (before.plan()?, after.plan()?);
    let has_new_loop = nested_loops(after) > nested_loops(before);
    let mut found = PerturbedPlans {
        copies: 0,
        changed: 0,
        other_before: 0,
        other_after: 0,
        lost_nested_loops: 0,
        cost_ratio_min: ratio(before, after),
        cost_ratio_max: ratio(before, after),
    };
    let planned = copies.iter().filter_map(|(one, other)| {
        one.and_then(PlanSide::plan)
            .zip(other.and_then(PlanSide::plan))
    });
    for (one, other) in planned {
        found.copies += 1;
        found.changed += u64::from(one.shape() != other.shape());
        found.other_before += u64::from(one.shape() != before.shape());
        found.other_after += u64::from(other.shape() != after.shape());
        found.lost_nested_loops +=
            u64::from(has_new_loop && nested_loops(other) < nested_loops(after));
        let ratio = ratio(one, other);
        found.cost_ratio_min = found.cost_ratio_min.min(ratio);
        found.cost_ratio_max = found.cost_ratio_max.max(ratio);
    }
    (found.copies > 0).then_some(found)
}

fn ratio(before: &Plan, after: &Plan) -> f64 {
    cost_ratio(before.root.cost, after.root.cost)
}

fn nested_loops(plan: &Plan) -> u64 {
    let mut count = 0;
    plan.root
        .each(&mut |node, _| count += u64::from(node.kind == "Nested Loop"));
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use plans::read_plan;

    fn side(kind: &str, cost: f64) -> PlanSide {
        let text = format!(
            r#"[{{"Plan": {{"Node Type": "{kind}", "Total Cost": {cost}, "Plans": [
                {{"Node Type": "Seq Scan", "Relation Name": "a"}}, {{"Node Type": "Seq Scan", "Relation Name": "b"}}]}}}}]"#
        );
        let plan = read_plan(&text).unwrap();
        PlanSide::Planned {
            shape: plan.shape(),
            plan: Box::new(plan),
            example: None,
        }
    }

    #[test]
    fn nested_loop_that_a_copy_replaces_is_uncertain_and_costs_have_a_range() {
        let (hash, nested) = (side("Hash Join", 100.0), side("Nested Loop", 150.0));
        let (cheap, costly) = (side("Hash Join", 50.0), side("Nested Loop", 400.0));
        let copies = [
            (Some(&hash), Some(&costly)),
            (Some(&hash), Some(&cheap)),
            (Some(&hash), None),
        ];
        let found = compare_copies((&hash, &nested), &copies).unwrap();
        let expected = PerturbedPlans {
            copies: 2,
            changed: 1,
            other_before: 0,
            other_after: 1,
            lost_nested_loops: 1,
            cost_ratio_min: 0.5,
            cost_ratio_max: 4.0,
        };
        assert_eq!(found, expected);
        // A nested loop that was there before is not new.
        let found = compare_copies((&nested, &nested), &copies).unwrap();
        assert_eq!((found.lost_nested_loops, found.other_before), (0, 2));
        assert_eq!(compare_copies((&hash, &nested), &[]), None);
        assert_eq!(
            compare_copies((&hash, &PlanSide::NotRequested), &copies),
            None
        );
    }
}
