//! Changes of a plan that often make a statement slower.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::change::{PlanChange, PlanComparison};
use super::node::Plan;

/// Change of a plan that often makes a statement slower.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "risk", rename_all = "snake_case")]
pub enum PlanRisk {
    /// A relation that was read by an index, or in part, is read sequentially.
    SequentialScan {
        /// The relation.
        relation: String,
        /// Estimated rows that the scan returns.
        rows: f64,
    },
    /// An index is not used any more.
    LostIndex {
        /// The index.
        index: String,
    },
    /// More partitions are read.
    LostPruning {
        /// Number before.
        before: u64,
        /// Number after.
        after: u64,
    },
    /// The statement would be JIT-compiled.
    Jit,
}

/// Returns the risks of the plan after, compared with the plan before.
pub fn plan_risks(before: &Plan, after: &Plan, comparison: &PlanComparison) -> Vec<PlanRisk> {
    let mut risks = Vec::new();
    let (scanned, scans) = (sequential_scans(before), sequential_scans(after));
    let read = relations(before);
    for (relation, (count, rows)) in &scans {
        let known = scanned.get(relation).map_or(0, |(count, _)| *count);
        if *count > known && read.contains_key(relation) {
            risks.push(PlanRisk::SequentialScan {
                relation: relation.clone(),
                rows: *rows,
            });
        }
    }
    let lost = comparison.indexes_gone.iter().cloned();
    risks.extend(lost.map(|index| PlanRisk::LostIndex { index }));
    for change in &comparison.changes {
        match change {
            PlanChange::Partitions { before, after } if after > before => {
                risks.push(PlanRisk::LostPruning {
                    before: *before,
                    after: *after,
                });
            }
            PlanChange::Jit { after: true } => risks.push(PlanRisk::Jit),
            _ => {}
        }
    }
    risks
}

/// Counts the sequential scans of each relation, with the largest estimate of rows.
fn sequential_scans(plan: &Plan) -> BTreeMap<String, (usize, f64)> {
    let mut scans: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    plan.root.each(&mut |node, _| {
        if node.kind.ends_with("Seq Scan")
            && let Some(relation) = &node.relation
        {
            let (count, rows) = scans.entry(relation.clone()).or_default();
            *count += 1;
            *rows = rows.max(node.rows);
        }
    });
    scans
}

fn relations(plan: &Plan) -> BTreeMap<String, ()> {
    let mut found = BTreeMap::new();
    plan.root.each(&mut |node, _| {
        if node.is_scan() {
            found.extend(node.relation.clone().map(|name| (name, ())));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::{compare_plans, read_plan};
    use super::*;

    fn plan(root: &str) -> Plan {
        read_plan(&format!("[{{\"Plan\": {root}}}]")).unwrap()
    }

    fn risks(before: &str, after: &str) -> Vec<PlanRisk> {
        let (before, after) = (plan(before), plan(after));
        plan_risks(&before, &after, &compare_plans(&before, &after))
    }

    const INDEX: &str = r#"{"Node Type": "Index Scan", "Relation Name": "t", "Index Name": "i", "Total Cost": 8.0}"#;
    const SEQUENTIAL: &str =
        r#"{"Node Type": "Seq Scan", "Relation Name": "t", "Plan Rows": 900, "Total Cost": 99.0}"#;

    #[test]
    fn index_scan_that_becomes_sequential_is_a_risk_and_the_reverse_is_none() {
        let expected = [
            PlanRisk::SequentialScan {
                relation: "t".to_owned(),
                rows: 900.0,
            },
            PlanRisk::LostIndex {
                index: "i".to_owned(),
            },
        ];
        assert_eq!(risks(INDEX, SEQUENTIAL), expected);
        assert_eq!(risks(SEQUENTIAL, INDEX), []);
        assert_eq!(risks(SEQUENTIAL, SEQUENTIAL), []);
    }

    #[test]
    fn more_partitions_are_lost_pruning_without_scans_of_new_relations() {
        let member = |name: &str| {
            format!(
                r#"{{"Node Type": "Seq Scan", "Relation Name": "{name}", "Parent Relationship": "Member"}}"#
            )
        };
        let append = |names: &[&str]| {
            let members: Vec<String> = names.iter().map(|name| member(name)).collect();
            format!(
                r#"{{"Node Type": "Append", "Plans": [{}]}}"#,
                members.join(",")
            )
        };
        let found = risks(&append(&["p1", "p2"]), &append(&["p1", "p2", "p3"]));
        let expected = PlanRisk::LostPruning {
            before: 2,
            after: 3,
        };
        assert_eq!(found, [expected]);
    }
}
