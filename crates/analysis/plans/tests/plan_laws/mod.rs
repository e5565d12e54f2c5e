//! What holds of any two texts that may be plans; also the fuzzer's.

use plans::{Mark, Plan, compare_plans, read_plan};

/// No panic; a plan is the same as itself; every step is marked; and which of two plans comes first
/// changes nothing but the direction.
pub fn any_two(one: &str, other: &str) {
    let (Ok(one), Ok(other)) = (read_plan(one), read_plan(other)) else {
        return;
    };
    for plan in [&one, &other] {
        let itself = compare_plans(plan, plan);
        assert!(itself.same && itself.changes.is_empty());
        assert!(itself.before_marks.iter().all(|mark| *mark == Mark::Same));
    }
    let (there, back) = (compare_plans(&one, &other), compare_plans(&other, &one));
    assert_eq!(there.same, back.same);
    assert_eq!(there.same, one.shape() == other.shape());
    assert_eq!(there.before_marks.len(), steps(&one));
    assert_eq!(there.after_marks.len(), steps(&other));
    assert_eq!(there.indexes_gone, back.indexes_new);
    let paired = |marks: &[Mark]| marks.iter().filter(|mark| **mark == Mark::Same).count();
    if there.same {
        assert_eq!(paired(&there.before_marks), steps(&one));
    }
}

fn steps(plan: &Plan) -> usize {
    let mut steps = 0;
    plan.root.each(&mut |_, _| steps += 1);
    steps
}
