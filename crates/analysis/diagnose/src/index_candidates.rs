//! Suggests indexes that may serve the plans: key columns in all orders, predicates, included
//! columns.
//!
//! The recommended order (equality first; documentation, 11.3) is only a heuristic. So for up to
//! three columns, every order of every subset is a candidate, and the planner is asked to choose.
//! The cost for writes is only known from a replay. This module does not judge candidates.
//!
//! It suggests only B-trees on plain columns, without operator classes.

use std::collections::BTreeMap;

use run::RelationFact;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::{Fingerprint, StatementClass};

use super::access_predicates::{AccessPredicates, access_predicates, btree_shapes, has_index};
use super::conditions::order;
use super::evidence::{Evidence, StatementEvidence};
use super::rules::INDEX_ROWS;
use super::statement_text::{quote_identifier, selected_columns, set_columns, written_table};
use super::threshold::{Thresholds, WARNING};
use plans::PlanNode;

/// Maximum number of columns of which every order is tried.
const PERMUTED_MAX: usize = 3;
/// Maximum number of select-list columns for a covering index.
const INCLUDE_MAX: usize = 4;
/// Maximum number of candidates for one plan node.
const CANDIDATES_PER_STEP_MAX: usize = 80;

/// Candidate index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexCandidate {
    /// Database of its table.
    pub database: String,
    /// Schema of its table.
    pub schema: String,
    /// Its table.
    pub table: String,
    /// Key columns, in order.
    pub columns: Vec<String>,
    /// Included columns, which allow index-only scans.
    pub include: Vec<String>,
    /// Conditions of a partial index, in SQL; empty for a full index.
    pub predicate: Vec<String>,
    /// Columns of these conditions.
    pub predicate_columns: Vec<String>,
    /// Columns of the index that statements of the workload update; such an update cannot be HOT.
    pub updated: Vec<String>,
    /// Whether the keys are in the recommended order: equality, sort columns, ranges.
    pub is_classical: bool,
    /// Statements whose plans suggested it.
    pub serves: Vec<Fingerprint>,
}

/// Method by which the planner evaluates an index that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreeningMethod {
    /// A hypothetical index of the extension HypoPG.
    Hypopg,
    /// Building the index and dropping it afterwards.
    Built,
}

impl IndexCandidate {
    /// Formats keys, included columns and conditions: `(a, b) INCLUDE (c) WHERE d IS NULL`.
    pub fn shape(&self) -> String {
        let list = |columns: &[String]| -> String {
            let all: Vec<String> = columns.iter().map(|one| quote_identifier(one)).collect();
            all.join(", ")
        };
        let mut text = format!("({})", list(&self.columns));
        if !self.include.is_empty() {
            text.push_str(&format!(" INCLUDE ({})", list(&self.include)));
        }
        if !self.predicate.is_empty() {
            text.push_str(&format!(" WHERE {}", self.predicate.join(" AND ")));
        }
        text
    }

    /// Returns the qualified name of its table in SQL.
    pub fn table_name(&self) -> String {
        format!(
            "{}.{}",
            quote_identifier(&self.schema),
            quote_identifier(&self.table)
        )
    }

    /// Returns the CREATE INDEX statement, without an index name.
    pub fn sql(&self) -> String {
        format!("CREATE INDEX ON {} {}", self.table_name(), self.shape())
    }

    /// Returns a short name: the table and the shape.
    pub fn name(&self) -> String {
        let table = match self.schema.as_str() {
            "public" => quote_identifier(&self.table),
            _ => self.table_name(),
        };
        format!("{table} {}", self.shape())
    }
}

/// Candidates from the plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexCandidates {
    /// Distinct candidates.
    pub candidates: Vec<IndexCandidate>,
    /// Statements whose plans were examined.
    pub statements: Vec<Fingerprint>,
    /// Number of candidates left out because there are too many.
    pub left_out: u64,
}

/// Suggests indexes for statements with a noticeable share of the time (`warning-share`), on tables
/// with enough rows (`missing-index-rows`).
pub fn index_candidates(evidence: &Evidence, thresholds: &Thresholds) -> IndexCandidates {
    let mut made = IndexCandidates::default();
    for one in &evidence.statements {
        let Some(plan) = &one.plan else { continue };
        if evidence.share(one.ns) < thresholds.of(&WARNING) {
            continue;
        }
        made.statements.push(one.fingerprint);
        // Ancestors of the visited node.
        let mut above: Vec<&PlanNode> = Vec::new();
        plan.root.each(&mut |node, depth| {
            above.truncate(depth);
            if let Some(table) = large_table(evidence, thresholds, node) {
                add_step_candidates(evidence, one, table, node, &above, &mut made);
            }
            above.push(node);
        });
    }
    made
}

fn large_table<'e>(
    evidence: &'e Evidence,
    thresholds: &Thresholds,
    node: &PlanNode,
) -> Option<&'e RelationFact> {
    if !node.is_scan() {
        return None;
    }
    let table = evidence.table(&(None, node.relation.clone()?))?;
    let rows = table.rows.unwrap_or(0) as f64;
    let is_stored = matches!(
        table.kind.as_str(),
        "table" | "partitioned table" | "materialized view"
    );
    (is_stored && rows >= thresholds.of(&INDEX_ROWS)).then_some(table)
}

pub(super) fn add_step_candidates(
    evidence: &Evidence,
    one: &StatementEvidence,
    table: &RelationFact,
    node: &PlanNode,
    above: &[&PlanNode],
    made: &mut IndexCandidates,
) {
    let sort = above.iter().rev().take_while(|step| !step.is_join());
    let sort = sort.flat_map(|step| &step.conditions);
    let sort = sort.into_iter().find(|one| one.label == "Sort Key");
    let mut asked = access_predicates(evidence, table, node, sort.map(|one| one.text.as_str()));
    for column in join_columns(table, node, above) {
        if !asked.equal.contains(&column) {
            asked.equal.push(column);
        }
    }
    let include_columns = covering_columns(one, table, &asked);
    let there = btree_shapes(evidence, table);
    let classical = asked.classical_key_order(true);
    let mut count = 0;
    let mut take = |columns: Vec<String>, include: Vec<String>, is_partial: bool| {
        if columns.is_empty() || include.is_empty() && has_index(&there, &columns, is_partial) {
            return;
        }
        count += 1;
        if count > CANDIDATES_PER_STEP_MAX {
            made.left_out += 1;
            return;
        }
        let (predicate, hangs_on) = match is_partial {
            true => (asked.predicate.clone(), asked.predicate_columns.clone()),
            false => (Vec::new(), Vec::new()),
        };
        let candidate = IndexCandidate {
            database: table.database.clone(),
            schema: table.schema.clone(),
            table: table.name.clone(),
            updated: updated_columns(
                evidence,
                table,
                columns.iter().chain(&include).chain(&hangs_on),
            ),
            is_classical: columns == classical,
            columns,
            include,
            predicate,
            predicate_columns: hangs_on,
            serves: vec![one.fingerprint],
        };
        add_candidate(&mut made.candidates, candidate);
    };
    let is_partial = !asked.predicate.is_empty();
    for columns in column_orders(&classical) {
        take(columns.clone(), Vec::new(), false);
        if is_partial {
            take(columns, Vec::new(), true);
        }
    }
    if let Some(include_columns) = include_columns {
        let whole = column_orders(&classical);
        let whole = whole
            .into_iter()
            .filter(|order| order.len() == classical.len());
        for columns in whole {
            let include: Vec<String> = include_columns
                .iter()
                .filter(|one| !columns.contains(one))
                .cloned()
                .collect();
            if !include.is_empty() && include.len() <= INCLUDE_MAX {
                take(columns, include, false);
            }
        }
    }
    if classical.is_empty() && is_partial {
        take(vec![asked.predicate_columns[0].clone()], Vec::new(), true);
    }
}

/// Adds a candidate, or adds its statement to an equal one.
fn add_candidate(all: &mut Vec<IndexCandidate>, candidate: IndexCandidate) {
    let alike = all.iter_mut().find(|one| {
        one.database == candidate.database
            && one.table_name() == candidate.table_name()
            && one.shape() == candidate.shape()
    });
    match alike {
        None => all.push(candidate),
        Some(alike) => {
            alike.is_classical |= candidate.is_classical;
            for one in candidate.serves {
                if !alike.serves.contains(&one) {
                    alike.serves.push(one);
                }
            }
        }
    }
}

/// Returns every order of every subset of up to three columns. With more columns, it returns
/// prefixes, with each column first once.
fn column_orders(columns: &[String]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    if columns.len() <= PERMUTED_MAX {
        // Full-length orders come first, because they matter most.
        for length in (1..=columns.len()).rev() {
            permute(columns, length, &mut Vec::new(), &mut all);
        }
        return all;
    }
    all.push(columns.to_vec());
    for first in 0..columns.len() {
        let mut turned = vec![columns[first].clone()];
        let rest = columns.iter().enumerate().filter(|(at, _)| *at != first);
        turned.extend(rest.map(|(_, column)| column.clone()));
        for length in [turned.len(), PERMUTED_MAX, 2, 1] {
            let part = turned[..length].to_vec();
            if !all.contains(&part) {
                all.push(part);
            }
        }
    }
    all
}

fn permute(columns: &[String], length: usize, begun: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    if begun.len() == length {
        all.push(begun.clone());
        return;
    }
    for column in columns {
        if !begun.contains(column) {
            begun.push(column.clone());
            permute(columns, length, begun, all);
            begun.pop();
        }
    }
}

/// Returns the additional columns that a narrow `SELECT` needs for an index-only scan.
fn covering_columns(
    one: &StatementEvidence,
    table: &RelationFact,
    asked: &AccessPredicates,
) -> Option<Vec<String>> {
    if one.class != StatementClass::Select || asked.has_others {
        return None;
    }
    let mut columns = selected_columns(&one.sql, &table.column_names)?;
    columns.extend(asked.predicate_columns.iter().cloned());
    let mut seen = Vec::new();
    columns.retain(|column| {
        let is_new = !seen.contains(column);
        seen.push(column.clone());
        is_new
    });
    Some(columns)
}

/// Returns the columns by which ancestors join this table; an index on them allows a nested loop.
pub(super) fn join_columns(
    table: &RelationFact,
    node: &PlanNode,
    above: &[&PlanNode],
) -> Vec<String> {
    let Some(alias) = &node.alias else {
        return Vec::new();
    };
    let prefixes = [format!("{alias}."), format!("\"{alias}\".")];
    let mut found = Vec::new();
    for step in above.iter().rev().filter(|step| step.is_join()) {
        let texts = step.conditions.iter().filter(|one| {
            matches!(
                one.label.as_str(),
                "Hash Cond" | "Merge Cond" | "Join Filter"
            )
        });
        for text in texts {
            let words = text
                .text
                .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '"')));
            for word in words {
                let column = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix));
                let column = column.and_then(|column| order(column, table).into_iter().next());
                if let Some(column) = column.filter(|column| !found.contains(column)) {
                    found.push(column);
                }
            }
        }
    }
    found
}

/// Returns the columns that the workload's updates of the table set.
fn updated_columns<'c>(
    evidence: &Evidence,
    table: &RelationFact,
    columns: impl Iterator<Item = &'c String>,
) -> Vec<String> {
    let mut set: BTreeMap<String, ()> = BTreeMap::new();
    for one in &evidence.statements {
        let Some((schema, name)) = written_table(&one.sql) else {
            continue;
        };
        let is_of = name == table.name && schema.is_none_or(|schema| schema == table.schema);
        if is_of && one.class == StatementClass::Update {
            set.extend(set_columns(&one.sql).into_iter().map(|column| (column, ())));
        }
    }
    let mut updated: Vec<String> = Vec::new();
    for column in columns {
        if set.contains_key(column) && !updated.contains(column) {
            updated.push(column.clone());
        }
    }
    updated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    const CLAIM: &str = "update image_links set queued_at = now() from (select id from image_links where \
        download_after < now() and queued_at is null and referenced_at > now() - $1 order by download_after \
        limit $2 for update skip locked) as due where image_links.id = due.id returning image_links.id";

    fn queue() -> EvidenceBuilder {
        let plan = r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "image_links",
            "Plans": [{"Node Type": "Limit", "Plan Rows": 100, "Plans": [{"Node Type": "Sort",
            "Sort Key": ["image_links_1.download_after"], "Plans": [{"Node Type": "Seq Scan",
            "Relation Name": "image_links", "Alias": "image_links_1", "Plan Rows": 400,
            "Filter": "((queued_at IS NULL) AND (download_after < now()) AND (referenced_at > (now() - '36:00:00'::interval)))"
            }]}]}]}}]"#;
        EvidenceBuilder::new()
            .statement(statement(1, CLAIM).took(100, 9.0).with_plan(plan))
            .statement(statement(2, "select $1").took(100, 1.0))
            .table(table(
                "image_links",
                1_000_000,
                &[
                    "id int8",
                    "download_after timestamptz",
                    "queued_at timestamptz",
                    "referenced_at timestamptz",
                ],
            ))
            .index("CREATE INDEX due ON public.image_links USING btree (download_after)")
    }

    #[test]
    fn every_column_order_of_a_claim_is_a_full_and_partial_candidate() {
        let made = index_candidates(&queue().evidence(), &Thresholds::default());
        let shapes: Vec<String> = made.candidates.iter().map(IndexCandidate::shape).collect();
        assert_eq!(
            shapes,
            [
                "(download_after, referenced_at)",
                "(download_after, referenced_at) WHERE queued_at IS NULL",
                "(referenced_at, download_after)",
                "(referenced_at, download_after) WHERE queued_at IS NULL",
                // An index on download_after alone exists.
                "(download_after) WHERE queued_at IS NULL",
                "(referenced_at)",
                "(referenced_at) WHERE queued_at IS NULL",
            ]
        );
        let of = |shape: &str| {
            let found = made.candidates.iter().find(|one| one.shape() == shape);
            found.unwrap()
        };
        assert!(of("(download_after, referenced_at)").is_classical);
        assert!(!of("(referenced_at, download_after)").is_classical);
        assert_eq!(of("(download_after, referenced_at)").updated, [""; 0]);
        assert_eq!(
            of("(referenced_at) WHERE queued_at IS NULL").updated,
            ["queued_at"]
        );
        assert_eq!(
            of("(referenced_at)").sql(),
            "CREATE INDEX ON public.image_links (referenced_at)"
        );
        assert_eq!(made.left_out, 0);
    }

    #[test]
    fn narrow_select_list_gives_covering_candidates() {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "orders",
            "Plan Rows": 20, "Filter": "(customer = 5)"}}]"#;
        let of = |sql: &str| -> Vec<String> {
            let made_up = EvidenceBuilder::new()
                .statement(statement(1, sql).took(10, 9.0).with_plan(plan))
                .table(table(
                    "orders",
                    1_000_000,
                    &["customer int", "total int", "state text"],
                ));
            let made = index_candidates(&made_up.evidence(), &Thresholds::default());
            made.candidates.iter().map(IndexCandidate::shape).collect()
        };
        assert_eq!(
            of("select total from orders where customer = $1"),
            ["(customer)", "(customer) INCLUDE (total)"]
        );
        assert_eq!(
            of("select * from orders where customer = $1"),
            ["(customer)"]
        );
    }

    #[test]
    fn join_columns_are_keys_and_small_tables_are_skipped() {
        let plan = r#"[{"Plan": {"Node Type": "Hash Join", "Hash Cond": "(o.customer = c.id)", "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "o", "Plan Rows": 90000},
            {"Node Type": "Hash", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "customers",
            "Alias": "c", "Plan Rows": 1, "Filter": "(name = 'x'::text)"}]}]}}]"#;
        let sql = "select sum(o.total) from orders o join customers c on o.customer = c.id where c.name = $1";
        let made_up = EvidenceBuilder::new()
            .statement(statement(1, sql).took(10, 9.0).with_plan(plan))
            .table(table("orders", 90_000, &["customer int", "total int"]))
            .table(table("customers", 100, &["id int", "name text"]));
        let made = index_candidates(&made_up.evidence(), &Thresholds::default());
        let names: Vec<String> = made.candidates.iter().map(IndexCandidate::name).collect();
        assert_eq!(names, ["orders (customer)"]);
    }

    #[test]
    fn each_of_four_columns_is_first_once() {
        let columns: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let all = column_orders(&columns);
        for first in &columns {
            assert!(all.iter().any(|one| one.len() == 4 && one[0] == *first));
        }
        assert_eq!(column_orders(&columns[..3]).len(), 15);
    }
}
