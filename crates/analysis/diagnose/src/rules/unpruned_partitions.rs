//! Statements that look into every partition for few rows, since their condition does not have the partition key.

use super::Rule;
use super::wasteful_steps::BLOCKS;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::statement_text::quote_identifier;
use crate::threshold::{Threshold, Thresholds};
use plans::{Plan, PlanNode};
use run::RelationFact;
use statistics::Unit;

const PARTITIONS: Threshold = Threshold {
    name: "unpruned-partitions",
    value: 8.0,
    unit: "partitions",
    decides: "reading all of fewer is no matter",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "unpruned-partitions",
    looks_at: "plans that read every partition of a table for few rows",
    thresholds: &[PARTITIONS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.plans.clone()?;
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| finding(evidence, thresholds, one, one.plan.as_ref()?))
        .collect())
}

/// Returns the partitions that an append reads, and whether a condition on each names a column of the partition key.
fn partitions<'e>(evidence: &'e Evidence, append: &PlanNode) -> Vec<(&'e RelationFact, bool)> {
    let all = append.children.iter().filter_map(|child| {
        let mut scan = None;
        child.each(&mut |node, _| {
            if scan.is_none() && node.relation.is_some() {
                scan = Some(node);
            }
        });
        let table = evidence.table(&(None, scan?.relation.clone()?))?;
        table.partition_of.as_ref()?;
        let key = parent(evidence, table)?.partition_key.clone()?;
        let columns = table.column_names.iter();
        let of_key: Vec<&String> = columns.filter(|name| names_word(&key, name)).collect();
        let mut names_key = false;
        child.each(&mut |node, _| {
            let mut texts = node.conditions.iter().map(|one| &one.text);
            names_key |= texts.any(|text| of_key.iter().any(|column| names_word(text, column)));
        });
        Some((table, names_key))
    });
    all.collect()
}

fn names_word(text: &str, word: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|one| one == word)
}

fn parent<'e>(evidence: &'e Evidence, table: &RelationFact) -> Option<&'e RelationFact> {
    let name = table.partition_of.as_ref()?;
    let name = match name.split_once('.') {
        Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
        None => (None, name.clone()),
    };
    evidence.table(&name)
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    plan: &Plan,
) -> Option<Finding> {
    let mut append = None;
    plan.root.each(&mut |node, _| {
        if append.is_none() && node.is_append() {
            append = Some(node);
        }
    });
    let all = partitions(evidence, append?);
    let (table, _) = all.first()?;
    if (all.len() as f64) < thresholds.of(&PARTITIONS)
        || all.iter().any(|(_, names_key)| *names_key)
    {
        return None;
    }
    let counted = one.counted.filter(|counted| counted.calls > 0)?;
    let blocks = (counted.shared_hit + counted.shared_read) as f64;
    let each = blocks / counted.rows.max(counted.calls) as f64;
    if each < thresholds.of(&BLOCKS) {
        return None;
    }
    let parent = parent(evidence, table)?;
    let key = parent.partition_key.clone()?;
    let name = format!(
        "{}.{}",
        quote_identifier(&parent.schema),
        quote_identifier(&parent.name)
    );
    // Planning is left to its own rule.
    let won_ns = one.ns.min(counted.exec_ns as f64);
    let share = evidence.share(won_ns);
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "it looks into all {} partitions of {name}: its condition has nothing of the partition key, {key}",
            all.len()
        ),
        evidence: vec![
            Fact::new(
                "partitions read",
                all.len() as f64,
                Unit::Count,
                "plan (EXPLAIN)",
            ),
            Fact::new(
                "blocks for each row given",
                each,
                Unit::Count,
                "pg_stat_statements",
            ),
            Fact::new(
                "time a call",
                one.ns_per_call(),
                Unit::Nanoseconds,
                "the statement's own times",
            ),
        ],
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![Change::manual(format!(
            "add the partition key, {key}, to the condition if the application knows it; otherwise partition by what statements \
             look for, or into fewer partitions"
        ))],
        risk: "another partition key must serve the other statements of the table, too".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn with(condition: &str, blocks: u64) -> Vec<Finding> {
        let scans: Vec<String> = (0..20)
            .map(|number| {
                format!(
                    r#"{{"Node Type": "Index Scan", "Relation Name": "meter_{number}", "Index Name": "i{number}",
                    "Index Cond": "{condition}", "Plan Rows": 1}}"#
                )
            })
            .collect();
        let plan = format!(
            r#"[{{"Plan": {{"Node Type": "Append", "Plan Rows": 20, "Plans": [{}]}}}}]"#,
            scans.join(", ")
        );
        let columns = ["id int8", "depot int4"];
        let mut made = EvidenceBuilder::new()
            .statement(
                statement(1, "select * from meter where id = $1")
                    .took(100, 9.0)
                    .with_rows(100)
                    .with_counted(|counted| {
                        counted.shared_hit = 100 * blocks;
                        counted.exec_ns = 8_000_000_000;
                    })
                    .with_plan(&plan),
            )
            .table(RelationFact {
                kind: "partitioned table".to_owned(),
                partition_key: Some("HASH (depot)".to_owned()),
                ..table("meter", 1_000, &columns)
            });
        for number in 0..20 {
            made = made.table(RelationFact {
                partition_of: Some("public.meter".to_owned()),
                ..table(&format!("meter_{number}"), 50, &columns)
            });
        }
        made.findings(&RULE)
    }

    #[test]
    fn condition_without_the_partition_key_is_found() {
        let found = with("(id = 5)", 60);
        assert!(found[0].title.contains("HASH (depot)"), "{found:#?}");
        assert_eq!(with("((id = 5) AND (depot > 3))", 60), []);
        assert_eq!(with("(id = 5)", 20), []);
    }
}
