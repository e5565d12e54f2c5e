//! Properties of any two texts that may be plans; also used by the fuzz target.

use plans::{Plan, StepMark, compare_plans, read_plan};

/// Checks that comparing does not panic, a plan equals itself, every node has a mark, and swapping
/// the plans only reverses the direction of the changes.
pub fn any_two(one: &str, other: &str) {
    let (Ok(one), Ok(other)) = (read_plan(one), read_plan(other)) else {
        return;
    };
    for plan in [&one, &other] {
        let itself = compare_plans(plan, plan);
        assert!(itself.same && itself.changes.is_empty());
        assert!(
            itself
                .before_marks
                .iter()
                .all(|mark| *mark == StepMark::Same)
        );
    }
    let (there, back) = (compare_plans(&one, &other), compare_plans(&other, &one));
    assert_eq!(there.same, back.same);
    assert_eq!(there.same, one.shape() == other.shape());
    assert_eq!(there.before_marks.len(), steps(&one));
    assert_eq!(there.after_marks.len(), steps(&other));
    assert_eq!(there.indexes_gone, back.indexes_new);
    let paired = |marks: &[StepMark]| marks.iter().filter(|mark| **mark == StepMark::Same).count();
    if there.same {
        assert_eq!(paired(&there.before_marks), steps(&one));
    }
}

fn steps(plan: &Plan) -> usize {
    let mut steps = 0;
    plan.root.each(&mut |_, _| steps += 1);
    steps
}
