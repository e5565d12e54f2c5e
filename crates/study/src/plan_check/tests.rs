//! Tests of verdicts on pairs of plans, and of undecided conditions.

use plans::{PlanSide, read_plan};

use super::examples::StatementToCheck;
use super::result::cost_ratio;
use super::*;

fn planned(cost: f64) -> PlanSide {
    let text = format!(
        r#"[{{"Plan": {{"Node Type": "Seq Scan", "Relation Name": "a", "Total Cost": {cost}}}}}]"#
    );
    let plan = read_plan(&text).unwrap();
    PlanSide::Planned {
        shape: plan.shape(),
        plan: Box::new(plan),
        example: None,
    }
}

fn refused() -> PlanSide {
    PlanSide::Refused {
        sqlstate: workload::Sqlstate(*b"22008"),
        message: "out of range".to_owned(),
    }
}

fn checked(pairs: Vec<(PlanSide, PlanSide)>) -> CheckedStatement {
    let statement = StatementToCheck {
        fingerprint: sql::Fingerprint(1),
        sql: "select".to_owned(),
        executions: 1,
        captured_us: 1,
        tasks: Vec::new(),
    };
    let pairs = pairs.into_iter();
    let pairs = pairs.map(|sides| pair(PlanValues::Generic, sides, None));
    CheckedStatement::new(&statement, pairs.collect())
}

#[test]
fn statement_with_a_set_of_values_without_two_plans_is_not_checked() {
    let same = || (planned(1.0), planned(1.0));
    assert_eq!(checked(vec![same()]).unchecked_reason(), None);
    let partly = checked(vec![same(), (refused(), refused())]);
    let reason = partly.unchecked_reason().unwrap();
    assert!(
        reason.starts_with("for 1 of 2 sets of values it is refused by both servers (22008"),
        "{reason}"
    );
    let after_only = checked(vec![(refused(), planned(1.0))]);
    assert!(after_only.is_refused_before_only());
    let reason = after_only.unchecked_reason().unwrap();
    assert!(reason.contains("by only the server before"), "{reason}");
    let slow = PlanSide::Refused {
        sqlstate: workload::Sqlstate(*b"57014"),
        message: "statement timeout".to_owned(),
    };
    let reason = checked(vec![(planned(1.0), slow)]).unchecked_reason();
    assert!(reason.unwrap().contains("only the server after (57014"));
    // A finding is reported, although another set of values has no plan.
    let error = checked(vec![(refused(), refused()), (planned(1.0), refused())]);
    assert_eq!(error.verdict, PlanVerdict::Error);
    assert_eq!(error.unchecked_reason(), None);
    assert_eq!(
        Coverage::of(&[checked(vec![same()]), error], &[], 0).plans,
        1
    );
}

#[test]
fn conditions_are_undecided_without_plans_or_if_the_server_before_lacks_parts() {
    let condition = |holds: bool| ConditionHolds {
        condition: "changed".to_owned(),
        holds,
        statements: Vec::new(),
    };
    let coverage = |pairs| Coverage::of(&[checked(pairs)], &[], 0);
    let some = coverage(vec![(planned(1.0), planned(1.0))]);
    let none = coverage(vec![(planned(1.0), refused())]);
    let decided = |holds: &[bool], coverage: &Coverage, (refused, missing, of_created)| {
        let conditions: Vec<_> = holds.iter().map(|holds| condition(*holds)).collect();
        let doubts = Doubts {
            refused_before_only: refused,
            missing_before: missing,
            of_created,
        };
        doubts.undecided(&conditions, coverage).is_none()
    };
    assert!(decided(&[false], &some, (0, 3, 0)));
    assert!(decided(&[false], &some, (3, 0, 0)));
    assert!(!decided(&[false], &some, (1, 1, 0)));
    assert!(!decided(&[false], &some, (0, 0, 1)));
    assert!(!decided(&[false], &none, (0, 0, 0)));
    assert!(decided(&[false, true], &none, (1, 1, 1)));
    assert!(decided(&[], &none, (1, 1, 1)));
}

/// Export with a partitioned table that lacks a partition, a view of it, and an index of another table.
fn export_with_gaps() -> (PlannerExport, Vec<NotRestored>) {
    let objects = [
        (
            "index",
            "app.a_x",
            "CREATE INDEX a_x ON ONLY app.a USING btree (x app.own_ops)",
        ),
        (
            "partition",
            "app.day_1",
            "ALTER TABLE ONLY app.days ATTACH PARTITION app.day_1 FOR VALUES IN (1)",
        ),
        (
            "partition",
            "app.far",
            "ALTER TABLE ONLY app.days ATTACH PARTITION app.far FOR VALUES IN (2)",
        ),
        (
            "view",
            "app.\"Recent\"",
            "CREATE VIEW app.\"Recent\" AS SELECT * FROM app.days",
        ),
        (
            "extended statistics",
            "app.s",
            "CREATE STATISTICS app.s ON EXTRACT(year FROM at), x FROM app.b",
        ),
    ];
    let objects = objects.map(|(kind, name, sql)| planner_copy::SchemaObject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        sql: sql.to_owned(),
    });
    let export = PlannerExport {
        objects: objects.to_vec(),
        ..PlannerExport::default()
    };
    let missing = [
        "index app.a_x",
        "partition app.far",
        "extended statistics app.s",
    ];
    let missing = missing.map(|subject| NotRestored {
        subject: subject.to_owned(),
        reason: "it is refused".to_owned(),
    });
    (export, missing.to_vec())
}

/// Returns the statement of a text whose plans, before and after, scan these relations.
fn scanning(text: &str, before: &str, after: &str) -> CheckedStatement {
    let side = |relation: &str| match planned(1.0) {
        PlanSide::Planned {
            mut plan, example, ..
        } => {
            plan.root.relation = Some(relation.to_owned());
            let shape = plan.shape();
            PlanSide::Planned {
                shape,
                plan,
                example,
            }
        }
        other => other,
    };
    CheckedStatement {
        sql: text.to_owned(),
        ..checked(vec![(side(before), side(after))])
    }
}

#[test]
fn statement_that_reads_a_relation_without_an_index_partition_or_statistics_is_not_checked() {
    let (export, missing) = export_with_gaps();
    let mut gaps = PlanGaps::default();
    gaps.add(&export, &missing, &[]);
    let reason = |text: &str, before: &str, after: &str| {
        Doubts::default().unchecked_reason(&scanning(text, before, after), &gaps)
    };
    for (text, relation, part) in [
        ("select 1 from a", "a", Some("index app.a_x")),
        ("select 1 from b", "b", Some("extended statistics app.s")),
        (
            "select 1 from days where n = 2",
            "",
            Some("partition app.far"),
        ),
        ("select 1 from \"Recent\"", "", Some("partition app.far")),
        ("select 1 from f(1)", "day_1", Some("partition app.far")),
        ("select 1 from c", "c", None),
    ] {
        let found = reason(text, relation, relation);
        assert_eq!(
            found,
            part.map(|part| format!("the private server lacks the {part}")),
            "{text}"
        );
    }
    // A finding stays, except one on the catalogue.
    assert_eq!(reason("select 1 from a", "a", "c"), None);
    assert!(
        reason("select 1", "pg_class", "pg_type")
            .unwrap()
            .contains("system catalogue")
    );
}

#[test]
fn table_without_several_partitions_is_reported_with_the_first() {
    let (export, _) = export_with_gaps();
    let missing = ["partition app.day_1", "partition app.far"].map(|subject| NotRestored {
        subject: subject.to_owned(),
        reason: "it is refused".to_owned(),
    });
    let mut gaps = PlanGaps::default();
    gaps.add(&export, &missing, &[]);
    for text in ["select 1 from days", "select 1 from \"Recent\""] {
        let found = Doubts::default().unchecked_reason(&scanning(text, "", ""), &gaps);
        let expected = "the private server lacks the partition app.day_1";
        assert_eq!(found.as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn statement_that_reads_a_view_without_its_owner_is_not_checked() {
    let object = |kind: &str, name: &str, sql: &str| planner_copy::SchemaObject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        sql: sql.to_owned(),
    };
    let export = PlannerExport {
        objects: vec![
            object("view", "app.mine", "CREATE VIEW app.mine AS SELECT 1"),
            object(
                "view",
                "app.outer",
                "CREATE VIEW app.outer AS SELECT * FROM app.mine",
            ),
            object(
                "owner of a view",
                "app.mine",
                "ALTER VIEW app.mine OWNER TO gone",
            ),
        ],
        ..PlannerExport::default()
    };
    let missing = [NotRestored {
        subject: "owner of a view app.mine".to_owned(),
        reason: "there is no such role".to_owned(),
    }];
    let mut gaps = PlanGaps::default();
    gaps.add(&export, &missing, &[]);
    let is_checked = |text: &str, relation: &str| {
        let statement = scanning(text, relation, relation);
        Doubts::default()
            .unchecked_reason(&statement, &gaps)
            .is_none()
    };
    assert!(!is_checked("select 1 from mine", "orders"));
    assert!(!is_checked("select 1 from app.outer", "orders"));
    assert!(is_checked("select 1 from orders", "orders"));
    // A table with the name of the view.
    assert!(is_checked("select 1 from f(1)", "mine"));
}

#[test]
fn statement_that_reads_a_table_that_the_change_creates_is_not_checked() {
    let mut gaps = PlanGaps::default();
    let created = planner_copy::CreatedTable {
        schema: "app".to_owned(),
        name: "new".to_owned(),
        is_replacement: false,
    };
    gaps.add(&PlannerExport::default(), &[], &[created]);
    let mut doubts = Doubts::default();
    let mut is_checked = |before: &str, after: &str| {
        let statement = scanning("select 1", before, after);
        doubts.unchecked_reason(&statement, &gaps).is_none()
    };
    assert!(!is_checked("old", "new") && is_checked("new", "old"));
    assert_eq!(doubts.of_created, 1);
}

#[test]
fn cost_that_grows_from_zero_has_a_factor_and_equal_costs_of_zero_have_one() {
    assert_eq!(cost_ratio(0.0, 1_694.0), 169_400.0);
    assert_eq!(cost_ratio(0.0, 0.0), 1.0);
    assert_eq!(cost_ratio(4.0, 2.0), 0.5);
    let grown = checked(vec![(planned(0.0), planned(1_694.0))]);
    let holds = PlanCondition::CostAbove(2.0).check(&[grown], &[]).holds;
    assert!(holds);
}

fn unchecked(executions: u64, captured_us: u64) -> UncheckedStatement {
    UncheckedStatement {
        fingerprint: "1".to_owned(),
        sql: String::new(),
        executions,
        captured_us,
        reason: String::new(),
    }
}

#[test]
fn condition_unchecked_holds_for_statements_that_are_not_checked() {
    let found = |unchecked: &[UncheckedStatement]| PlanCondition::Unchecked.check(&[], unchecked);
    assert_eq!(found(&[unchecked(1, 1)]).statements, ["1"]);
    assert!(!found(&[]).holds);
}

#[test]
fn condition_on_the_unchecked_share_counts_captured_time_and_without_times_executions() {
    let one = |executions, captured_us| CheckedStatement {
        executions,
        captured_us,
        ..checked(vec![(planned(1.0), planned(1.0))])
    };
    let found = |checked: CheckedStatement, unchecked: UncheckedStatement| {
        let condition = PlanCondition::UncheckedAbove(20.0);
        condition.check(&[checked], &[unchecked]).statements.len()
    };
    assert_eq!(found(one(1, 79), unchecked(1, 21)), 1);
    assert_eq!(found(one(1, 80), unchecked(99, 20)), 0);
    assert_eq!(found(one(79, 0), unchecked(21, 0)), 1);
    assert_eq!(found(one(80, 0), unchecked(20, 0)), 0);
}

#[test]
fn masked_value_that_is_no_label_has_its_cause_the_labels_and_the_option() {
    let refused = || PlanSide::Refused {
        sqlstate: workload::Sqlstate(*b"22P02"),
        message: "invalid input value for enum sales.status: \"…\"".to_owned(),
    };
    let statement = checked(vec![(refused(), refused())]);
    let mut export = PlannerExport::default();
    let without = masked_values::cause(&statement, &export).unwrap();
    assert!(
        without.contains("of the enumeration sales.status; mask"),
        "{without}"
    );
    export.objects = vec![planner_copy::SchemaObject {
        kind: "type".to_owned(),
        name: "sales.status".to_owned(),
        sql: "CREATE TYPE sales.status AS ENUM ('new', 'paid')".to_owned(),
    }];
    let cause = masked_values::cause(&statement, &export).unwrap();
    assert!(cause.contains("(labels: 'new', 'paid'); mask"), "{cause}");
    assert!(cause.contains("--mask-keep"), "{cause}");
    let planned = checked(vec![(planned(1.0), planned(1.0))]);
    assert_eq!(masked_values::cause(&planned, &export), None);
}

#[test]
fn users_that_the_export_does_not_have_are_noted() {
    let example = |user: &str| observe::Example {
        session: 0,
        sequence: 0,
        database: "".into(),
        user: user.into(),
        settings: [].into(),
        sql: "select".into(),
        parameters: Vec::new(),
        types: Vec::new(),
        is_prepared: false,
        captured_us: None,
    };
    let tasks = ["app", "shop", ""].map(|user| examples::PlanTask {
        example: example(user),
        is_generic: false,
    });
    let chosen = CheckedExamples {
        statements: vec![StatementToCheck {
            fingerprint: sql::Fingerprint(1),
            sql: String::new(),
            executions: 1,
            captured_us: 1,
            tasks: tasks.into(),
        }],
        unchecked: Vec::new(),
        without_plan: 0,
        note: None,
    };
    let mut export = PlannerExport::default();
    let role = |name: &str| planner_copy::RoleFacts {
        name: name.to_owned(),
        superuser: false,
        bypass_rls: false,
        member_of: Vec::new(),
    };
    export.roles = vec![role("app")];
    let note = chosen.unknown_users(&export).unwrap();
    assert!(note.contains("no role (not captured), shop;"), "{note}");
}
