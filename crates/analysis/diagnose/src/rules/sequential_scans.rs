//! Sequential scans of growing tables, which take longer with every row. The gain of an index is
//! reported by `missing-index` and not counted again here.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::statement_text::tables;
use crate::threshold::{Threshold, Thresholds};
use plans::{Plan, PlanNode};
use statistics::Unit;

const ROWS: Threshold = Threshold {
    name: "sequential-scan-rows",
    value: 5_000.0,
    unit: "rows a scan",
    decides: "scans that read fewer are no matter",
    source: "ours",
};

const SCANS: Threshold = Threshold {
    name: "sequential-scans",
    value: 10.0,
    unit: "scans",
    decides: "fewer are not looked at",
    source: "ours",
};

const GROWTH: Threshold = Threshold {
    name: "sequential-scan-growth",
    value: 100.0,
    unit: "rows",
    decides: "a table that gained this number of rows more than it lost grows",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "sequential-scans",
    looks_at: "tables that grow and are read as a whole again and again",
    thresholds: &[ROWS, SCANS, GROWTH],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    let view = "pg_stat_user_tables";
    let mut findings = Vec::new();
    for scans in observed
        .counters
        .iter()
        .filter(|one| one.source == view && one.name == "seq_scan")
    {
        let name = scans.object.as_str();
        let of = |counter: &str| evidence.increase(view, name, counter);
        let growth = of("n_tup_ins") - of("n_tup_del");
        if scans.delta < thresholds.of(&SCANS) || growth < thresholds.of(&GROWTH) {
            continue;
        }
        let (schema, table) = name.split_once('.').unwrap_or(("", name));
        // Judged by the plan if there is one, else by the text.
        let reads = |one: &&StatementEvidence| match &one.plan {
            Some(plan) => scanning_processes(plan, table).is_some(),
            None => tables(&one.sql).iter().any(|(in_schema, of)| {
                of == table && in_schema.as_ref().is_none_or(|one| one == schema)
            }),
        };
        let guilty: Vec<_> = evidence.statements.iter().filter(reads).collect();
        let processes = processes_per_scan(&guilty, table);
        let each = of("seq_tup_read") / scans.delta.max(1.0) * processes.unwrap_or(1.0);
        if each < thresholds.of(&ROWS) {
            continue;
        }
        let by_each = match processes {
            Some(_) => "each time",
            None => "by each process of a scan",
        };
        let speaks = |one: &StatementEvidence| {
            super::missing_index::reports_scan(evidence, thresholds, one, table)
        };
        let (told, rest): (Vec<_>, Vec<_>) = guilty.iter().partition(|one| speaks(one));
        let sum = |all: &[&&StatementEvidence]| all.iter().map(|one| one.ns).sum::<f64>();
        let (told_ns, ns) = (sum(&told), sum(&rest));
        let share = evidence.share(ns);
        findings.push(Finding {
            rule: "",
            status: Default::default(),
            severity: thresholds.severity(share),
            subject: Subject::table(name.to_owned()),
            title: {
                let by = match (rest.first(), told.first()) {
                    (Some(one), _) => format!(", by statements such as {}", one.fingerprint),
                    // The bound belongs to none of them.
                    (None, Some(one)) => {
                        format!(", by {}, of which missing-index speaks", one.fingerprint)
                    }
                    (None, None) => String::new(),
                };
                format!("{name} grows and is read as a whole, {each:.0} rows {by_each}{by}")
            },
            evidence: vec![
                Fact::new("sequential scans (each parallel worker counts as one)", scans.delta, Unit::Count, view).check(format!(
                    "SELECT seq_scan, seq_tup_read, n_live_tup FROM {view} WHERE relid = '{name}'::regclass"
                )),
                match processes {
                    Some(_) => Fact::new("rows read each time", each, Unit::Count, "pg_stat_user_tables and plans"),
                    None => Fact::new("rows read by each process of a scan", each, Unit::Count, view),
                },
                Fact::new("rows that it gained", growth, Unit::Count, view),
                Fact::new(
                    "time of statements that missing-index names, in addition to this",
                    told_ns,
                    Unit::Nanoseconds,
                    "the statements' own times",
                ),
            ],
            cost: Some(evidence.cost_of(ns)),
            max_gain: Some(share),
            changes: vec![Change::manual(
                "where few rows are wanted, an index for the condition (`rehearse indexes` looks for one and measures it); a report that needs all rows may run elsewhere or seldom",
            )],
            risk: "an index has to be kept up to date by every write to this table".to_owned(),
        });
    }
    Ok(findings)
}

/// Returns the number of processes that share a sequential scan of a table; `None` if the plan has no such scan.
fn scanning_processes(plan: &Plan, table: &str) -> Option<u64> {
    let mut processes = None;
    // Ancestors of the visited node.
    let mut above: Vec<&PlanNode> = Vec::new();
    plan.root.each(&mut |node, depth| {
        above.truncate(depth);
        if node.kind == "Seq Scan" && node.relation.as_deref() == Some(table) {
            let gather = above.iter().rev().find_map(|step| step.workers);
            let workers = gather.filter(|_| node.parallel).unwrap_or(0);
            processes = processes.max(Some(workers + 1));
        }
        above.push(node);
    });
    processes
}

/// Returns the mean number of processes of a scan, since `seq_scan` counts each process of a parallel one
/// (`pgstat_count_heap_scan`); `None` if no plan is known.
fn processes_per_scan(statements: &[&StatementEvidence], table: &str) -> Option<f64> {
    let (mut calls, mut all) = (0.0, 0.0);
    for one in statements {
        let Some(processes) = one
            .plan
            .as_ref()
            .and_then(|plan| scanning_processes(plan, table))
        else {
            continue;
        };
        let counted = one.counted.unwrap_or_default();
        let launched = match counted.workers_planned.zip(counted.workers_launched) {
            Some((planned, launched)) if planned > 0 => launched as f64 / planned as f64,
            _ => 1.0,
        };
        calls += one.calls as f64;
        all += one.calls as f64 * (1.0 + (processes - 1) as f64 * launched);
    }
    (calls > 0.0).then(|| all / calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn with(each: f64, inserted: f64) -> EvidenceBuilder {
        let view = "pg_stat_user_tables";
        EvidenceBuilder::new()
            .statement(statement(1, "select * from orders where note = $1").took(100, 6.0))
            .statement(statement(2, "select $1").took(100, 4.0))
            .counter(view, "public.orders", "seq_scan", 5.0, 105.0)
            .counter(view, "public.orders", "seq_tup_read", 0.0, 100.0 * each)
            .counter(view, "public.orders", "n_tup_ins", 0.0, inserted)
    }

    #[test]
    fn growing_table_with_scans_is_found() {
        let found = with(20_000.0, 500.0).findings(&RULE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].max_gain, Some(0.6));
        assert!(found[0].title.contains("0000000000000001"));
    }

    #[test]
    fn gain_of_an_index_is_not_counted_twice() {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "orders", "Plan Rows": 10,
            "Filter": "(note = 'x'::text)"}}]"#;
        let all = with(20_000.0, 500.0)
            .statement(
                statement(3, "select id from orders where note = $1")
                    .took(100, 90.0)
                    .with_plan(plan),
            )
            .table(table("orders", 20_000, &["id int8", "note text"]));
        let found = all.findings(&RULE);
        assert_eq!(found[0].max_gain, Some(0.06), "{found:#?}");
        assert!(
            found[0].title.ends_with("such as 0000000000000001"),
            "{found:#?}"
        );
        assert_eq!(found[0].evidence.last().unwrap().number, 90e9);
    }

    #[test]
    fn rows_of_a_parallel_scan_are_those_of_all_its_processes() {
        let plan = r#"[{"Plan": {"Node Type": "Gather", "Workers Planned": 2, "Plan Rows": 30, "Plans": [
            {"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Parallel Aware": true, "Relation Name": "orders",
            "Plan Rows": 10}]}}]"#;
        let parallel = statement(3, "select id from orders where total > 5").took(100, 50.0);
        let title = |parallel| {
            let evidence = EvidenceBuilder::new().statement(parallel);
            let view = "pg_stat_user_tables";
            let evidence = evidence
                .counter(view, "public.orders", "seq_scan", 0.0, 300.0)
                .counter(view, "public.orders", "seq_tup_read", 0.0, 150e6)
                .counter(view, "public.orders", "n_tup_ins", 0.0, 500.0);
            evidence.findings(&RULE)[0].title.clone()
        };
        let all = parallel.clone().with_plan(plan);
        assert!(title(all.clone()).contains("1500000 rows each time"));
        // Half of the planned workers were there.
        let fewer = all.with_counted(|counted| {
            counted.workers_planned = Some(200);
            counted.workers_launched = Some(100);
        });
        assert!(title(fewer).contains("1000000 rows each time"));
        assert!(title(parallel).contains("500000 rows by each process of a scan"));
    }

    #[test]
    fn small_or_constant_tables_are_no_finding() {
        assert_eq!(with(1_000.0, 500.0).findings(&RULE), []);
        assert_eq!(with(20_000.0, 10.0).findings(&RULE), []);
    }
}
