//! Reads and compares plans of real servers (made by `plans/make.sh`).

mod plan_laws;

use std::path::Path;

use plans::{Plan, PlanChange, PlanComparison, StepMark, compare_plans, read_plan};
use proptest::prelude::*;

const VERSIONS: [&str; 3] = ["13", "15", "18"];
const NAMES: [&str; 15] = [
    "by_customer",
    "by_customer-index_scan",
    "by_customer-no_index",
    "by_customer-one_row",
    "join",
    "join-loop",
    "join-merge",
    "latest",
    "month",
    "sets",
    "subplan",
    "sum",
    "sum-parallel",
    "update",
    "year",
];

fn text(version: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/plans")
        .join(version)
        .join(format!("{name}.json"));
    std::fs::read_to_string(path).unwrap()
}

fn plan(version: &str, name: &str) -> Plan {
    read_plan(&text(version, name)).unwrap()
}

/// Compares two plans in each version; the results must be equal except for estimates.
fn compared(before: &str, after: &str) -> PlanComparison {
    let all = VERSIONS.map(|version| compare_plans(&plan(version, before), &plan(version, after)));
    let plain = |found: &PlanComparison| {
        let mut changes = found.changes.clone();
        changes.retain(|change| !matches!(change, PlanChange::Rows { .. }));
        (found.same, changes, found.indexes_gone.clone())
    };
    for found in &all[1..] {
        assert_eq!(plain(found), plain(&all[0]));
    }
    let [_, _, last] = all;
    last
}

fn step(before: &str, after: &str) -> PlanChange {
    PlanChange::Step {
        before: before.to_owned(),
        after: after.to_owned(),
        more: 0,
    }
}

fn setting(name: &str, after: &str) -> PlanChange {
    PlanChange::Setting {
        name: name.to_owned(),
        before: None,
        after: Some(after.to_owned()),
    }
}

#[test]
fn index_no_longer_used_is_named() {
    let found = compared("by_customer-index_scan", "by_customer-no_index");
    assert!(!found.same);
    assert_eq!(
        found.changes,
        [
            step(
                "Index Scan using orders_customer on orders",
                "Seq Scan on orders"
            ),
            setting("enable_indexscan", "off"),
        ]
    );
    assert_eq!(found.indexes_gone, ["orders_customer"]);
    assert_eq!(found.after_marks, [StepMark::Changed]);
}

#[test]
fn bitmap_scan_includes_its_indexes() {
    let found = compared("by_customer", "by_customer-one_row");
    assert_eq!(
        found.changes[0],
        step(
            "Bitmap Heap Scan using orders_customer on orders",
            "Bitmap Heap Scan using orders_customer and orders_open on orders"
        )
    );
    assert_eq!(
        (found.indexes_gone.len(), &found.indexes_new[..]),
        (0, &["orders_open".to_owned()][..])
    );
    assert!(matches!(
        &found.changes[1],
        PlanChange::Rows {
            before: 20.0,
            after: 1.0,
            ..
        }
    ));
    // The bitmap index scans are marked like the bitmap heap scan that they belong to.
    assert_eq!(found.before_marks, [StepMark::Changed, StepMark::Changed]);
}

#[test]
fn inserted_sort_keeps_other_nodes_aligned() {
    let found = compared("join", "join-merge");
    let sort = |by: &str| {
        let by = plans::Condition {
            label: "Sort Key".to_owned(),
            text: by.to_owned(),
        };
        PlanChange::New {
            step: "Sort".to_owned(),
            by: Some(by),
        }
    };
    assert_eq!(
        found.changes[..3],
        [
            step("Hash Join", "Merge Join"),
            sort("o.customer"),
            sort("c.id")
        ]
    );
    let scans = |marks: &[StepMark], plan: &Plan| {
        let mut scans = Vec::new();
        let mut at = 0;
        plan.root.each(&mut |node, _| {
            if node.is_scan() {
                scans.push(marks[at]);
            }
            at += 1;
        });
        scans
    };
    let after = plan("18", "join-merge");
    assert_eq!(
        scans(&found.after_marks, &after),
        [StepMark::Same, StepMark::Same]
    );
}

#[test]
fn join_order_and_method_changes_are_reported() {
    let found = compared("join", "join-loop");
    assert_eq!(
        found.changes[..3],
        [
            step(
                "Seq Scan on orders o",
                "Index Scan using orders_customer on orders o"
            ),
            step("Hash Join", "Nested Loop"),
            PlanChange::JoinOrder {
                before: vec!["o".to_owned(), "c".to_owned()],
                after: vec!["c".to_owned(), "o".to_owned()],
            },
        ]
    );
    // Estimates for each loop iteration are not a changed estimate.
    let is_rows = |change: &PlanChange| matches!(change, PlanChange::Rows { .. });
    assert!(!found.changes.iter().any(is_rows), "{:?}", found.changes);
}

#[test]
fn partitions_and_workers_are_counted_not_listed() {
    let found = compared("month", "year");
    assert!(found.changes.contains(&PlanChange::Partitions {
        before: 1,
        after: 3
    }));
    assert_eq!(found.changes.len(), 2, "{:?}", found.changes);
    let found = compared("sum", "sum-parallel");
    assert!(!found.same);
    assert_eq!(
        found.changes[0],
        PlanChange::Workers {
            before: 0,
            after: 2
        }
    );
    let is_setting = |change: &PlanChange| matches!(change, PlanChange::Setting { .. });
    assert!(found.changes[1..].iter().all(is_setting));
}

#[test]
fn removed_node_is_reported_as_gone() {
    let found = compared("latest", "by_customer");
    assert!(matches!(&found.changes[0], PlanChange::Gone { step, .. } if step == "Limit"));
    assert!(
        matches!(&found.changes[1], PlanChange::Gone { step, by: Some(by) }
        if step == "Sort" && by.text == "placed DESC")
    );
    // In the reverse direction the node is new.
    let found = compared("by_customer", "latest");
    assert!(matches!(&found.changes[0], PlanChange::New { step, .. } if step == "Limit"));
}

#[test]
fn plan_shape_is_equal_across_versions_and_costs() {
    for name in NAMES {
        let newest = plan("18", name);
        for version in VERSIONS {
            let found = compare_plans(&plan(version, name), &newest);
            assert!(found.same, "{version} {name}: {:?}", found.changes);
            assert_eq!(found.changes, [], "{version} {name}");
        }
    }
}

#[test]
fn changed_values_keep_the_shape_changed_conditions_are_reported() {
    let before = plan("18", "by_customer-no_index");
    let changed = text("18", "by_customer-no_index").replace("customer = 42", "customer = 4711");
    let found = compare_plans(&before, &read_plan(&changed).unwrap());
    assert!(found.same && found.changes.is_empty());
    let changed = text("18", "by_customer-no_index").replace("customer = 42", "customer > 42");
    let found = compare_plans(&before, &read_plan(&changed).unwrap());
    assert!(found.same);
    assert!(
        matches!(&found.changes[..], [PlanChange::Condition { label, .. }] if label == "Filter")
    );
}

#[test]
fn equal_changes_of_partitions_are_reported_once() {
    let scan = |kind: &str, number: u32| {
        format!(
            r#"{{"Node Type": "{kind}", "Parent Relationship": "Member", "Relation Name": "p{number}", "Alias": "p{number}"}}"#
        )
    };
    let append = |kind: &str| {
        let members: Vec<String> = (0..40).map(|number| scan(kind, number)).collect();
        let members = members.join(",");
        read_plan(&format!(
            r#"[{{"Plan": {{"Node Type": "Append", "Plans": [{members}]}}}}]"#
        ))
        .unwrap()
    };
    let found = compare_plans(&append("Seq Scan"), &append("Index Scan"));
    assert!(
        matches!(&found.changes[..], [PlanChange::Step { more: 39, .. }]),
        "{:?}",
        found.changes
    );
}

#[test]
fn invalid_plan_is_rejected() {
    for text in [
        "",
        "[",
        "null",
        "[]",
        "[{}]",
        "{\"Plan\": 1}",
        "[{\"Plan\": {}}]",
        "7",
    ] {
        assert!(read_plan(text).is_err(), "{text}");
    }
    let deep = format!("{}1{}", "[{\"Plan\":".repeat(500), "}]".repeat(500));
    assert!(read_plan(&deep).is_err());
}

#[test]
fn fuzz_corpus_has_plan_properties() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/plan");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&data);
        let (one, other) = text.split_once('\0').unwrap_or((&text, &text));
        plan_laws::any_two(one, other);
        seen += 1;
    }
    assert!(seen >= 7);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_two_texts_have_plan_properties(
        one in (0..3_usize, 0..NAMES.len(), any::<prop::sample::Index>(), ".{0,3}"),
        other in (0..3_usize, 0..NAMES.len(), any::<prop::sample::Index>(), ".{0,3}"),
    ) {
        let damaged = |(version, name, at, with): (usize, usize, prop::sample::Index, String)| {
            let mut text = text(VERSIONS[version], NAMES[name]);
            let mut at = at.index(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, &with);
            text
        };
        plan_laws::any_two(&damaged(one), &damaged(other));
    }
}
