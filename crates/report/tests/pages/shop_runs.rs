//! Two runs of a shop, made up: of a dozen statements one got much slower, one a little faster, one
//! has few calls, one fails now, one returns other rows.

use analyse::{CompareOptions, RunProfile, Runs, compare};
use report::{
    CompareView, IndexView, Literals, PlanChangeView, PlanSideView, PlanStepView, RunNames,
    SettingSideView, SettingView, TargetNoteView, TargetsView,
};
use run::{Execution, RunStatus};

use crate::made_up_runs::{Chance, connect, done, failed, info, text};

/// Statements of the shop, with their usual service time in nanoseconds and what the change makes
/// of it.
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
        // A checkpoint, in either run.
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

fn profile(executions: Vec<Execution>, status: RunStatus) -> RunProfile {
    let texts = (1..)
        .zip(STATEMENTS)
        .map(|(id, (sql, ..))| Ok(text(id, sql)));
    let mut info = info();
    info.status = status;
    RunProfile::collect::<()>(info, executions.into_iter().map(Ok), texts).unwrap()
}

/// The comparison without the change, or with it.
pub fn compared(change: bool) -> CompareView {
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
        view.statements[0].plan = Some(plans());
    }
    view
}

fn targets() -> TargetsView {
    let side = |value: &str, default| {
        Some(SettingSideView {
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
    TargetsView {
        same: false,
        version_before: Some("17.2".to_owned()),
        version_after: Some("17.2".to_owned()),
        settings: vec![SettingView {
            name: "random_page_cost".to_owned(),
            bearing: "planner",
            by_version: false,
            before: side("4", true),
            after: side("1.1", false),
        }],
        settings_gone: 0,
        settings_new: 0,
        databases: Vec::new(),
        extensions: Vec::new(),
        relations: Vec::new(),
        indexes: vec![IndexView {
            database: "shop".to_owned(),
            table: "public.orders".to_owned(),
            name: "orders_customer".to_owned(),
            renamed: None,
            presence: "only before",
            definition:
                "CREATE INDEX orders_customer ON public.orders USING btree (customer_id, placed_at)"
                    .to_owned(),
            details: Vec::new(),
        }],
        invalid_indexes: Vec::new(),
        sizes: Vec::new(),
        notes: vec![TargetNoteView {
            side: "after",
            about: "settings".to_owned(),
            text: "some may be seen by a superuser only".to_owned(),
            count: Some(3),
        }],
    }
}

fn plans() -> PlanChangeView {
    let step = |depth, label: &str, mark, rows, cost, conditions: &[&str]| PlanStepView {
        depth,
        label: label.to_owned(),
        mark,
        rows,
        cost,
        conditions: conditions.iter().map(|one| (*one).to_owned()).collect(),
    };
    let side = |steps| PlanSideView {
        steps,
        ..PlanSideView::default()
    };
    let scan = "Index Scan using orders_customer on orders";
    PlanChangeView {
        verdict: "changed",
        words: vec![
            format!("{scan} → Seq Scan on orders"),
            "a Sort comes in".to_owned(),
        ],
        indexes_gone: vec!["orders_customer".to_owned()],
        indexes_new: Vec::new(),
        before: side(vec![
            step(0, "Limit", "same", 20.0, 8.4, &[]),
            step(
                1,
                scan,
                "changed",
                43.0,
                17.2,
                &["Index Cond: (customer_id = $1) AND (placed_at > $2)"],
            ),
        ]),
        after: side(vec![
            step(0, "Limit", "same", 20.0, 4_130.0, &[]),
            step(
                1,
                "Sort",
                "alone",
                43.0,
                4_130.0,
                &["Sort Key: placed_at DESC"],
            ),
            step(
                2,
                "Seq Scan on orders",
                "changed",
                43.0,
                4_129.0,
                &["Filter: (customer_id = $1) AND (placed_at > $2)"],
            ),
        ]),
    }
}

fn view(before: Vec<Execution>, after: Vec<Execution>, status: RunStatus) -> CompareView {
    let runs = Runs {
        before: vec![profile(before, RunStatus::Complete)],
        after: vec![profile(after, status)],
        noise: Vec::new(),
    };
    let comparison = compare(runs, CompareOptions::default());
    let names = RunNames {
        before: vec!["shop-15.run".to_owned()],
        after: vec!["shop-without-index.run".to_owned()],
        noise: Vec::new(),
    };
    CompareView::new(&names, &comparison, Literals::Hidden)
}

/// Nothing was done at all.
pub fn nothing() -> CompareView {
    view(Vec::new(), Vec::new(), RunStatus::Complete)
}

/// The same with 5,000 statements: those of the shop, each under many names.
pub fn many() -> CompareView {
    let mut view = compared(true);
    let few = std::mem::take(&mut view.statements);
    for number in 0..5_000 {
        let mut one = few[number % few.len()].clone();
        one.fingerprint = format!(
            "{:016x}",
            0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1)
        );
        one.sql = format!("{} and shard_{number:04} = $9", one.sql);
        view.statements.push(one);
    }
    view
}
