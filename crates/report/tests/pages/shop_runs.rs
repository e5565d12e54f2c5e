//! Two synthetic runs of a shop: of a dozen statements one got much slower, one a little faster,
//! one has few calls, one fails now, and one returns other rows.

use compare::targets::{
    IndexDifference, Presence, SettingArea, SettingDifference, SettingSide, TargetNote,
    TargetsComparison,
};
use compare::{CompareOptions, Comparison, RunStats, Runs, Side, compare};
use plans::{StatementPlans, statement_plans};
use run::{Execution, FactNote, PlanFact, PlanOutcome, RunStatus};
use serde_json::{Value, json};
use sql::Fingerprint;
use workload::Literals;

use crate::synthetic_runs::{Chance, connect, counted, done, failed, info, text};

/// Statements of the shop, with their usual service time in nanoseconds and the factor of the
/// change.
const STATEMENTS: [(&str, f64, f64); 12] = [
    ("select * from customers where id = $1", 2e5, 1.0),
    (
        "select o.id, o.total, o.placed_at, o.state from orders o where o.customer_id = $1 and o.placed_at > $2 order by o.placed_at desc limit $3",
        4e5,
        16.0,
    ),
    (
        "insert into orders (customer_id, total) values ($1, $2) returning id",
        5e6,
        0.6,
    ),
    (
        "update stock set amount = amount - $1 where product_id = $2",
        1e6,
        1.02,
    ),
    ("select count(*) from orders where state = $1", 3e6, 1.4),
    (
        "select p.* from products p join product_tags t on t.product_id = p.id where t.tag = $1",
        8e5,
        1.0,
    ),
    ("delete from carts where touched_at < $1", 2e6, 1.0),
    ("select 1", 3e4, 1.0),
    ("begin", 2.5e4, 1.0),
    ("commit", 6e5, 1.05),
    (
        "insert into audit (what, who, at) values ($1, $2, $3)",
        3e5,
        1.0,
    ),
    (
        "select sum(total) from orders where placed_at between $1 and $2 group by date_trunc($3, placed_at)",
        9e7,
        1.0,
    ),
];

fn traffic(seed: u64, change: bool) -> Vec<Execution> {
    let mut chance = Chance::new(seed);
    let mut executions: Vec<Execution> = (0..24)
        .map(|session| connect(session, session as i64))
        .collect();
    for number in 0..12_000u64 {
        // The last is rare.
        let which = match number % 997 {
            0 => 11,
            _ => (number % 11) as usize,
        };
        let (_, usual_ns, factor) = STATEMENTS[which];
        let mut factor = if change { factor } else { 1.0 };
        // A checkpoint, in both runs.
        if (4_000..4_300).contains(&number) {
            factor *= 2.5;
        }
        let mut one = done(
            which as u64 + 1,
            number,
            number as i64 * 5_000_000,
            usual_ns * factor * chance.skewed(),
        );
        if change && which == 10 && number % 40 == 0 {
            one = failed(&one, "23505", 2e5);
            one.message =
                Some("duplicate key value violates unique constraint \"audit_pkey\"".to_owned());
        }
        if change && which == 5 && number % 3 == 0 {
            one.rows = 0;
        }
        executions.push(one);
    }
    executions
}

fn profile(name: &str, executions: Vec<Execution>, status: RunStatus) -> RunStats {
    let texts = (1..)
        .zip(STATEMENTS)
        .map(|(id, (sql, ..))| Ok(text(id, sql)));
    let mut info = info();
    info.status = status;
    let statistics = counted(&executions);
    let executions = executions.into_iter().map(Ok);
    let mut profile = RunStats::collect::<()>(info, executions, texts).unwrap();
    profile.add_statistics(statistics).unwrap();
    profile.name = name.to_owned();
    profile
}

/// Compares the runs, with or without the change.
pub fn compared(change: bool) -> Comparison {
    let (before, after) = (traffic(1, false), traffic(2, change));
    let mut view = view(
        before,
        after,
        if change {
            RunStatus::Stopped
        } else {
            RunStatus::Complete
        },
    );
    if change {
        view.targets = Some(targets());
        let first = view.statements[0].fingerprint;
        view.set_plans(|statement| (statement.fingerprint == first).then(plans));
    }
    view
}

fn targets() -> TargetsComparison {
    let side = |value: &str, default| {
        Some(SettingSide {
            value: Some(value.to_owned()),
            source: if default {
                "default"
            } else {
                "configuration file"
            }
            .to_owned(),
            default,
            pending_restart: false,
        })
    };
    TargetsComparison {
        version_before: Some("17.2".to_owned()),
        version_after: Some("17.2".to_owned()),
        settings: vec![SettingDifference {
            name: "random_page_cost".to_owned(),
            bearing: SettingArea::Planner,
            by_version: false,
            before: side("4", true),
            after: side("1.1", false),
        }],
        indexes: vec![IndexDifference {
            database: "shop".to_owned(),
            table: "public.orders".to_owned(),
            name: "orders_customer".to_owned(),
            renamed: None,
            presence: Presence::OnlyBefore,
            definition:
                "CREATE INDEX orders_customer ON public.orders USING btree (customer_id, placed_at)"
                    .to_owned(),
            details: Vec::new(),
        }],
        notes: vec![TargetNote {
            side: Side::After,
            note: FactNote {
                about: "settings".to_owned(),
                text: "some may be seen by a superuser only".to_owned(),
                count: Some(3),
                database: None,
            },
        }],
        ..TargetsComparison::default()
    }
}

fn plans() -> StatementPlans {
    let fact = |plan: Value| PlanFact {
        fingerprint: Fingerprint(2),
        service_ns: 0,
        calls: 0,
        example: None,
        database: String::new(),
        user: String::new(),
        outcome: PlanOutcome::Planned(json!([{ "Plan": plan }]).to_string()),
    };
    let condition = "(customer_id = 7) AND (placed_at > '2026-01-01'::date)";
    let limit = |cost: f64, below: Value| {
        fact(json!({
            "Node Type": "Limit", "Plan Rows": 20, "Total Cost": cost, "Plans": [below]
        }))
    };
    let before = json!({
        "Node Type": "Index Scan", "Relation Name": "orders", "Index Name": "orders_customer",
        "Plan Rows": 43, "Total Cost": 17.2, "Index Cond": condition
    });
    let scan = json!({
        "Node Type": "Seq Scan", "Relation Name": "orders", "Plan Rows": 43, "Total Cost": 4_129.0,
        "Filter": condition
    });
    let after = json!({
        "Node Type": "Sort", "Plan Rows": 43, "Total Cost": 4_130.0, "Sort Key": ["placed_at DESC"],
        "Plans": [scan]
    });
    let (before, after) = (limit(8.4, before), limit(4_130.0, after));
    statement_plans(Some(&before), Some(&after), Literals::Hidden).unwrap()
}

fn view(before: Vec<Execution>, after: Vec<Execution>, status: RunStatus) -> Comparison {
    let runs = Runs {
        before: vec![profile("shop-15.run", before, RunStatus::Complete)],
        after: vec![profile("shop-without-index.run", after, status)],
        noise: Vec::new(),
    };
    compare(runs, CompareOptions::default())
}

/// Compares runs without any execution.
pub fn nothing() -> Comparison {
    view(Vec::new(), Vec::new(), RunStatus::Complete)
}

/// Compares runs of 5,000 statements: those of the shop, each under many names.
pub fn many() -> Comparison {
    let mut view = compared(true);
    let few = std::mem::take(&mut view.statements);
    for number in 0..5_000 {
        let mut one = few[number % few.len()].clone();
        let number = number as u64;
        one.fingerprint = Fingerprint(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number + 1));
        let sql = one.sql.unwrap_or_default();
        one.sql = Some(format!("{sql} and shard_{number:04} = $9"));
        view.statements.push(one);
    }
    view
}
