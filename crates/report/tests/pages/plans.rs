//! Page of a check of plans in a browser.

use plans::{PlanRisk, statement_plans};
use report::plans_page;
use run::{PlanFact, PlanOutcome};
use sql::Fingerprint;
use study::plan_check::{
    CheckedSide, CheckedStatement, ConditionHolds, Coverage, Limitation, LimitedSide,
    PerturbedPlans, PlanCheck, PlanPair, PlanValues, PlanVerdict, PlannerSource,
    UncheckedStatement,
};
use workload::{Literals, Sqlstate};

use crate::tab::Tab;

const INDEX_SCAN: &str = r#"[{"Plan": {"Node Type": "Nested Loop", "Join Type": "Inner", "Total Cost": 12.5, "Plan Rows": 3,
    "Plans": [{"Node Type": "Index Scan", "Parent Relationship": "Outer", "Index Name": "orders_customer_idx", "Relation Name": "orders",
      "Alias": "o", "Total Cost": 8.4, "Plan Rows": 3, "Index Cond": "(customer_id = 5)"},
     {"Node Type": "Index Scan", "Parent Relationship": "Inner", "Index Name": "items_pkey", "Relation Name": "items", "Alias": "i",
      "Total Cost": 4.1, "Plan Rows": 1, "Index Cond": "(order_id = o.id)"}]}}]"#;
const SEQUENTIAL_SCAN: &str = r#"[{"Plan": {"Node Type": "Hash Join", "Join Type": "Inner", "Total Cost": 8211.5, "Plan Rows": 30000,
    "Hash Cond": "(i.order_id = o.id)",
    "Plans": [{"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Relation Name": "items", "Alias": "i",
      "Total Cost": 6000, "Plan Rows": 300000},
     {"Node Type": "Hash", "Parent Relationship": "Inner", "Total Cost": 900, "Plan Rows": 3000,
      "Plans": [{"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Relation Name": "orders", "Alias": "o",
       "Total Cost": 900, "Plan Rows": 3000, "Filter": "(customer_id = 5)"}]}]}}]"#;

fn planned(text: &str) -> PlanOutcome {
    PlanOutcome::Planned(text.to_owned())
}

fn pair(before: PlanOutcome, after: PlanOutcome, perturbed: Option<PerturbedPlans>) -> PlanPair {
    let fact = |outcome| PlanFact {
        fingerprint: Fingerprint(1),
        service_ns: 1,
        calls: 1,
        example: Some((2, 3)),
        database: String::new(),
        user: String::new(),
        outcome,
    };
    let (before, after) = (fact(before), fact(after));
    let plans = statement_plans(Some(&before), Some(&after), Literals::Hidden).unwrap();
    let cost = |side: &plans::PlanSide| side.plan().map(|plan| plan.root.cost);
    let (cost_before, cost_after) = (cost(&plans.before), cost(&plans.after));
    PlanPair {
        values: PlanValues::Captured {
            session: 2,
            sequence: 3,
        },
        cost_before,
        cost_after,
        cost_ratio: cost_before.zip(cost_after).map(|(one, other)| other / one),
        risks: Vec::new(),
        perturbed,
        plans,
    }
}

fn statement(sql: &str, pair: PlanPair) -> CheckedStatement {
    CheckedStatement {
        fingerprint: "0000000000000001".to_owned(),
        sql: sql.to_owned(),
        executions: 1_200,
        captured_us: 48_000_000,
        verdict: pair.verdict(),
        plans: vec![pair],
    }
}

fn side(version: &str) -> CheckedSide {
    CheckedSide {
        server_version: version.to_owned(),
        change: None,
        settings: Vec::new(),
        planner: None,
    }
}

/// Returns a check of these statements.
pub fn check(statements: Vec<CheckedStatement>) -> PlanCheck {
    PlanCheck {
        workload: "shop.workload".to_owned(),
        planner: PlannerSource {
            path: "shop.planner".to_owned(),
            server_version: "15.9".to_owned(),
            database: "shop".to_owned(),
            exported_at: "2026-11-28T10:00:00Z".to_owned(),
        },
        before: side("15.9"),
        after: side("18.1"),
        coverage: Coverage {
            statements: statements.len() as u64,
            plans: 3,
            executions: 3_600,
            captured_us: 144_000_000,
            unchecked_statements: 1,
            unchecked_executions: 2,
            unchecked_captured_us: 1_000,
            without_plan: 4,
        },
        limitations: vec![Limitation {
            side: LimitedSide::After,
            subject: "extension <hstore>".to_owned(),
            reason: "it is not installed".to_owned(),
        }],
        statements,
        unchecked: vec![UncheckedStatement {
            fingerprint: "0000000000000009".to_owned(),
            sql: "select * from gone".to_owned(),
            executions: 2,
            captured_us: 1_000,
            reason: "both servers refuse it".to_owned(),
        }],
        perturbed_copies: 4,
        conditions: vec![ConditionHolds {
            condition: "cost > 2x".to_owned(),
            holds: true,
            statements: Vec::new(),
        }],
        undecided: None,
    }
}

/// Returns a statement that loses its index.
pub fn changed() -> CheckedStatement {
    let perturbed = PerturbedPlans {
        copies: 4,
        changed: 3,
        other_before: 0,
        other_after: 1,
        lost_nested_loops: 0,
        cost_ratio_min: 1.2,
        cost_ratio_max: 700.0,
    };
    let mut pair = pair(
        planned(INDEX_SCAN),
        planned(SEQUENTIAL_SCAN),
        Some(perturbed),
    );
    pair.risks = vec![PlanRisk::LostIndex {
        index: "orders_customer_idx".to_owned(),
    }];
    statement(
        "select * from orders o join items i on <b>o.id</b> = i.order_id where customer_id = $1",
        pair,
    )
}

#[test]
fn plans_page_shows_changed_plans_first_and_next_to_each_other() {
    let refused = PlanOutcome::Refused {
        sqlstate: Sqlstate(*b"42703"),
        message: "column does not exist".to_owned(),
    };
    let check = check(vec![
        statement(
            "update items set price = $1",
            pair(planned(INDEX_SCAN), refused, None),
        ),
        changed(),
        statement(
            "select 1 from items",
            pair(planned(INDEX_SCAN), planned(INDEX_SCAN), None),
        ),
    ]);
    let Some(mut tab) = Tab::open(&plans_page::render_html(&check)) else {
        return;
    };
    assert!(tab.is("document.querySelector('.verdict.bad') !== null"));
    assert_eq!(
        tab.number("document.querySelectorAll('main section').length"),
        2
    );
    let second = tab.text("main section:nth-of-type(2)");
    for text in [
        "<b>o.id</b>",
        "orders_customer_idx is not used any more",
        "× 657",
        "in 3 of 4",
        "× 1.20 to 700",
        "Index Scan using orders_customer_idx on orders o",
        "Hash Join",
        "(changed)",
    ] {
        assert!(second.contains(text), "{text}: {second}");
    }
    assert!(!second.contains("customer_id = 5"), "{second}");
    let columns = "[...document.querySelectorAll('section:nth-of-type(2) figure')].map((one) => one.getBoundingClientRect().top)";
    assert!(tab.is(&format!("(([one, other]) => one === other)({columns})")));
    tab.assert_readable();
    tab.picture("plans-light", true);
    tab.colours("dark");
    tab.assert_readable();
    tab.picture("plans-dark", true);
    tab.colours("light");
    tab.size(390, 844);
    tab.assert_no_sideways_scrolling();
    assert!(tab.is(&format!("(([one, other]) => one < other)({columns})")));
    tab.picture("plans-narrow", true);
    tab.without_scripts();
    assert!(tab.text("#unchecked + ul").contains("select * from gone"));
    assert!(tab.print("plans").starts_with(b"%PDF"));
    tab.assert_clean();
}

#[test]
fn plans_page_is_good_only_if_plans_were_compared_and_none_changed() {
    let colour_if = |statements: Vec<CheckedStatement>, change: &dyn Fn(&mut PlanCheck)| {
        let mut check = check(statements);
        check.conditions.clear();
        change(&mut check);
        let page = plans_page::render_html(&check);
        let is_changed = (check.statements.iter()).any(|one| one.verdict == PlanVerdict::Changed);
        assert_eq!(
            page.contains(" changes; 1 statement not checked"),
            !is_changed
        );
        let (_, rest) = page.split_once("<div class=\"verdict ").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let colour = |statements| colour_if(statements, &|_| {});
    let same = || {
        statement(
            "select 1",
            pair(planned(INDEX_SCAN), planned(INDEX_SCAN), None),
        )
    };
    assert_eq!(same().verdict, PlanVerdict::Same);
    let mut harmless = changed();
    harmless.plans[0].risks.clear();
    assert_eq!(colour(vec![same()]), "good");
    assert_eq!(colour(Vec::new()), "unsure");
    assert_eq!(colour(vec![same(), harmless]), "unsure");
    assert_eq!(colour(vec![same(), changed()]), "bad");
    let undecided = colour_if(vec![same()], &|check| {
        check.undecided = Some("a statement was not checked".to_owned());
    });
    assert_eq!(undecided, "unsure");
    for (unchecked, expected) in [(400, "good"), (401, "unsure")] {
        let colour = colour_if(vec![same()], &|check| {
            check.coverage.unchecked_executions = unchecked;
        });
        assert_eq!(colour, expected, "{unchecked} of 3,600 more");
    }
}
