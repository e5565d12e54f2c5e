//! Accounts of executed statements: their parts add up to the whole.

use plans::{PartKind, TimePart, account_time, read_measured_times};
use proptest::prelude::*;
use serde_json::{Value, json};

fn account(text: &str) -> TimePart {
    account_time(&read_measured_times(text).unwrap())
}

fn own_ms(account: &TimePart, name: &str) -> f64 {
    let all = account.all();
    let found = all.iter().find(|one| one.name == name);
    found
        .unwrap_or_else(|| panic!("{name}: {account:#?}"))
        .own_ms
}

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

#[test]
fn loops_of_an_inner_side_are_multiplied() {
    let all = account(
        r#"[{"Plan": {"Node Type": "Nested Loop", "Actual Total Time": 50, "Actual Loops": 1, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "a", "Parent Relationship": "Outer",
             "Actual Total Time": 5, "Actual Loops": 1},
            {"Node Type": "Index Scan", "Relation Name": "b", "Parent Relationship": "Inner",
             "Actual Total Time": 0.04, "Actual Loops": 1000}]},
            "Planning Time": 2, "Execution Time": 51}]"#,
    );
    assert_near(own_ms(&all, "Nested Loop"), 5.0);
    assert_near(own_ms(&all, "Index Scan on b"), 40.0);
    assert_near(own_ms(&all, "start and end of the execution"), 1.0);
    assert_near(all.total_ms(), 53.0);
}

#[test]
fn time_of_parallel_processes_is_counted_once() {
    let all = account(
        r#"[{"Plan": {"Node Type": "Gather", "Actual Total Time": 30, "Actual Loops": 1, "Workers Launched": 2, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "a", "Parent Relationship": "Outer",
             "Actual Total Time": 24, "Actual Loops": 3}]},
            "Planning Time": 0, "Execution Time": 30}]"#,
    );
    assert_near(own_ms(&all, "Seq Scan on a"), 24.0);
    assert_near(own_ms(&all, "Gather"), 6.0);
}

#[test]
fn init_plan_and_cte_belong_to_the_node_that_used_them() {
    for (subplan, reference) in [
        ("InitPlan 1 (returns $0)", "(x > $0)"),
        ("InitPlan 1", "(x > (InitPlan 1).col1)"),
    ] {
        let plan = json!([{"Plan": {"Node Type": "Aggregate", "Actual Total Time": 100, "Actual Loops": 1, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "limits", "Parent Relationship": "InitPlan",
             "Subplan Name": subplan, "Actual Total Time": 60, "Actual Loops": 1},
            {"Node Type": "Seq Scan", "Relation Name": "a", "Parent Relationship": "Outer", "Filter": reference,
             "Actual Total Time": 95, "Actual Loops": 1}]}, "Planning Time": 0, "Execution Time": 100}]);
        let all = account(&plan.to_string());
        assert_near(own_ms(&all, "Seq Scan on limits"), 60.0);
        assert_near(own_ms(&all, "Seq Scan on a"), 35.0);
        assert_near(own_ms(&all, "Aggregate"), 5.0);
    }
    let all = account(
        r#"[{"Plan": {"Node Type": "Aggregate", "Actual Total Time": 50, "Actual Loops": 1, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "a", "Parent Relationship": "InitPlan",
             "Subplan Name": "CTE due", "Actual Total Time": 30, "Actual Loops": 1},
            {"Node Type": "CTE Scan", "CTE Name": "due", "Alias": "due", "Parent Relationship": "Outer",
             "Actual Total Time": 40, "Actual Loops": 1}]}, "Planning Time": 0, "Execution Time": 50}]"#,
    );
    assert_near(own_ms(&all, "Seq Scan on a"), 30.0);
    assert_near(own_ms(&all, "CTE Scan on due"), 10.0);
    assert_near(own_ms(&all, "Aggregate"), 10.0);
}

#[test]
fn triggers_before_a_row_are_taken_from_the_node_that_writes_it() {
    let all = account(
        r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Insert", "Relation Name": "a",
            "Actual Total Time": 40, "Actual Loops": 1},
            "Triggers": [{"Trigger Name": "stamp", "Relation": "a", "Time": 35, "Calls": 1},
            {"Trigger Name": "RI_1", "Constraint Name": "a_b_fkey", "Relation": "a", "Time": 8, "Calls": 1}],
            "Planning Time": 0, "Execution Time": 49}]"#,
    );
    assert_near(own_ms(&all, "stamp of a"), 35.0);
    assert_near(own_ms(&all, "a_b_fkey of a"), 8.0);
    assert_near(own_ms(&all, "Insert on a"), 5.0);
    assert_near(own_ms(&all, "start and end of the execution"), 1.0);
}

#[test]
fn compilation_is_taken_from_the_node_that_ran_first() {
    let all = account(
        r#"[{"Plan": {"Node Type": "Aggregate", "Actual Total Time": 100, "Actual Loops": 1, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "a", "Actual Total Time": 90, "Actual Loops": 1}]},
            "JIT": {"Timing": {"Generation": 2, "Total": 82}}, "Planning Time": 1, "Execution Time": 103}]"#,
    );
    assert_near(own_ms(&all, "just-in-time compilation"), 82.0);
    assert_near(own_ms(&all, "Seq Scan on a"), 10.0);
    assert_near(all.total_ms(), 104.0);
    let kinds: Vec<PartKind> = all.children.iter().map(|one| one.kind).collect();
    assert_eq!(kinds[0], PartKind::Planning);
}

/// Plans with any times, which may contradict each other.
fn plan() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "Seq Scan",
        "Gather",
        "Nested Loop",
        "ModifyTable",
        "CTE Scan",
        "Hash",
        "Append",
    ]);
    let relationships =
        prop::sample::select(vec!["Outer", "Inner", "InitPlan", "SubPlan", "Member"]);
    let names = prop::sample::select(vec![
        "CTE x",
        "InitPlan 1 (returns $0)",
        "InitPlan 2",
        "SubPlan 1",
    ]);
    let filters = prop::sample::select(vec!["(a = $0)", "(a = (InitPlan 2).col1)", "(a = 1)"]);
    let node = move || {
        let times = (0.0..50.0_f64, prop::sample::select(vec![0, 1, 3, 1000]));
        (kinds.clone(), relationships.clone(), names.clone(), filters.clone(), times).prop_map(
            |(kind, relationship, name, filter, (ms, loops))| {
                json!({"Node Type": kind, "Parent Relationship": relationship, "Subplan Name": name,
                    "CTE Name": "x", "Filter": filter, "Actual Total Time": ms, "Actual Loops": loops})
            },
        )
    };
    let inner = node.clone();
    node().prop_recursive(4, 24, 4, move |below| {
        (inner(), prop::collection::vec(below, 0..4)).prop_map(|(mut node, below)| {
            node["Plans"] = Value::Array(below);
            node
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn parts_add_up_to_the_whole_and_none_is_negative(
        plan in plan(),
        planning in 0.0..10.0_f64,
        execution in 0.0..200.0_f64,
        (compilation, generation) in (0.0..100.0_f64, 0.0..20.0_f64),
        triggers in prop::collection::vec((0.0..100.0_f64, prop::bool::ANY), 0..3),
    ) {
        let triggers: Vec<Value> = triggers.into_iter().map(|(ms, is_constraint)| {
            let mut trigger = json!({"Trigger Name": "t", "Relation": "r", "Time": ms, "Calls": 1});
            if is_constraint {
                trigger["Constraint Name"] = json!("c");
            }
            trigger
        }).collect();
        let top = json!([{"Plan": plan, "Planning Time": planning, "Execution Time": execution, "Triggers": triggers,
            "JIT": {"Timing": {"Generation": generation, "Total": generation + compilation}}}]);
        let account = account(&top.to_string());
        let all_ms = planning + execution;
        prop_assert!((account.total_ms() - all_ms).abs() < 1e-6 * all_ms.max(1.0), "{account:#?}");
        prop_assert!(account.all().iter().all(|one| one.own_ms >= 0.0), "{account:#?}");
        let nodes = account.all().iter().filter(|one| one.kind == PartKind::Node).count();
        let planned = top[0]["Plan"].to_string().matches("Node Type").count();
        prop_assert_eq!(nodes, planned);
    }
}
