//! One form for plans that write several partitions or inheriting tables.
//!
//! Up to version 13 the scans are children of the node that writes. From 14 on they are members of an `Append`, and an update
//! of inheriting tables has a `Result` without a condition above it (`create_modifytable_plan` in PostgreSQL's
//! `createplan.c`, `inheritance_planner` in `planner.c` of 13).

use super::node::PlanNode;

/// Gives all nodes that write the form of version 14, without that `Result`. A plan with counts of an execution stays, since
/// its times are those of its nodes.
pub(super) fn unify(node: &mut PlanNode) {
    node.children.iter_mut().for_each(unify);
    if node.kind != "ModifyTable" || node.actual.is_some() {
        return;
    }
    let is_member = |child: &PlanNode| child.relationship == "Member";
    if node.children.iter().any(is_member) {
        append_members(node);
    }
    for child in &mut node.children {
        let is_above_append = matches!(&child.children[..], [below] if below.is_append());
        if child.kind == "Result" && child.conditions.is_empty() && is_above_append {
            let below = child.children.remove(0);
            let relationship = std::mem::take(&mut child.relationship);
            *child = PlanNode {
                relationship,
                ..below
            };
        }
    }
}

/// Moves the members of a node to an `Append` below it; a single one becomes its input.
fn append_members(node: &mut PlanNode) {
    let children = std::mem::take(&mut node.children);
    let (mut members, others): (Vec<_>, Vec<_>) = children
        .into_iter()
        .partition(|child| child.relationship == "Member");
    let input = match members.len() {
        1 => members.remove(0),
        _ => PlanNode {
            kind: "Append".to_owned(),
            cost: members.iter().map(|member| member.cost).sum(),
            rows: members.iter().map(|member| member.rows).sum(),
            children: members,
            ..PlanNode::default()
        },
    };
    node.children = others;
    node.children.push(PlanNode {
        relationship: "Outer".to_owned(),
        ..input
    });
}

#[cfg(test)]
mod tests {
    use super::super::{compare_plans, read_plan, risk::plan_risks};

    fn scan(relation: &str, alias: &str, relationship: &str) -> String {
        format!(
            r#"{{"Node Type": "Seq Scan", "Parent Relationship": "{relationship}", "Relation Name": "{relation}",
                "Alias": "{alias}", "Total Cost": 38.28, "Plan Rows": 11, "Filter": "(c = 3)"}}"#
        )
    }

    fn node(kind: &str, more: &str, children: &[String]) -> String {
        format!(
            r#"{{"Node Type": "{kind}", {more} "Plans": [{}]}}"#,
            children.join(", ")
        )
    }

    const DELETE: &str = r#""Operation": "Delete", "Relation Name": "t", "Alias": "t","#;
    const OUTER: &str = r#""Parent Relationship": "Outer","#;

    #[test]
    fn writes_of_several_partitions_are_equal_before_and_from_version_14_on() {
        let old = [scan("t", "t", "Member"), scan("t1", "t_1", "Member")];
        let new = [scan("t", "t_1", "Member"), scan("t1", "t_2", "Member")];
        let append = node("Append", OUTER, &new);
        let result = node("Result", OUTER, std::slice::from_ref(&append));
        let plan = |children: &[String]| {
            let text = node("ModifyTable", DELETE, children);
            read_plan(&format!(r#"[{{"Plan": {text}}}]"#)).unwrap()
        };
        let old_plan = plan(&old);
        for new in [append, result] {
            let new = plan(&[new]);
            let found = compare_plans(&old_plan, &new);
            assert!(
                found.same && found.changes.is_empty(),
                "{:?}",
                found.changes
            );
            assert_eq!(plan_risks(&old_plan, &new, &found), []);
        }
        let one = plan(&[scan("t1", "t_1", "Member")]);
        let same = plan(&[scan("t1", "t_1", "Outer")]);
        assert!(compare_plans(&one, &same).same);
        assert!(!compare_plans(&one, &old_plan).same);
    }
}
