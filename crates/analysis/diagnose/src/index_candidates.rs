//! Indexes that may serve what plans ask: columns, their orders, conditions of their own, columns beside.
//!
//! That equality goes first is a belief (documentation, 11.3): it holds for one statement and a planner that knows its
//! table. So of up to three columns every order of every part of them is a candidate, and the planner is asked; what
//! writes pay for it is known only from a replay. Nothing here says that a candidate is good.
//!
//! Deliberately absent: other methods than b-trees, expressions, and operator classes.

use std::collections::BTreeMap;

use run::RelationFact;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::{Fingerprint, StatementClass};

use super::asked::{Asked, asked, is_there, shapes};
use super::conditions::order;
use super::evidence::{Evidence, StatementEvidence};
use super::rules::INDEX_ROWS;
use super::statement_text::{plain_select_list, quoted, set_columns, written};
use super::threshold::{Thresholds, WARNING};
use plans::PlanNode;

/// Of so many columns every order is tried.
const PERMUTED_MAX: usize = 3;
/// A select list of more columns is not narrow.
const BESIDE_MAX: usize = 4;
/// Candidates of one step.
const OF_A_STEP_MAX: usize = 80;

/// An index that may serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexCandidate {
    /// The database of its table.
    pub database: String,
    /// The schema of its table.
    pub schema: String,
    /// Its table.
    pub table: String,
    /// Its keys, in order.
    pub columns: Vec<String>,
    /// What it has beside, so that the table need not be read.
    pub include: Vec<String>,
    /// The conditions that its rows fulfil, in SQL; none of a whole index.
    pub predicate: Vec<String>,
    /// The columns of these conditions.
    pub hangs_on: Vec<String>,
    /// Columns of it that statements of the workload update: such an update cannot be HOT with it.
    pub updated: Vec<String>,
    /// It is in the order that is taught: equality, order, ranges.
    pub is_classical: bool,
    /// The statements for whose plans it was made.
    pub serves: Vec<Fingerprint>,
}

/// How the planner is asked about an index that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScreeningMethod {
    /// With a hypothetical index of the extension HypoPG.
    Hypopg,
    /// The index is built, and dropped.
    Built,
}

impl IndexCandidate {
    /// `(a, b) INCLUDE (c) WHERE d IS NULL`
    pub fn shape(&self) -> String {
        let list = |columns: &[String]| -> String {
            let all: Vec<String> = columns.iter().map(|one| quoted(one)).collect();
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

    /// Its table, as a name in SQL.
    pub fn table_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }

    /// The statement that makes it, without a name for it.
    pub fn sql(&self) -> String {
        format!("CREATE INDEX ON {} {}", self.table_name(), self.shape())
    }

    /// In few words: the table and its shape.
    pub fn name(&self) -> String {
        let table = match self.schema.as_str() {
            "public" => quoted(&self.table),
            _ => self.table_name(),
        };
        format!("{table} {}", self.shape())
    }
}

/// What was made of the plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexCandidates {
    /// Each once.
    pub candidates: Vec<IndexCandidate>,
    /// Statements whose plans were looked at.
    pub statements: Vec<Fingerprint>,
    /// So many more were thought of, and left out since there are too many.
    pub left_out: u64,
}

/// Candidates for the statements that take a noticeable share of the time (`warning-share`), on tables with rows enough
/// (`missing-index-rows`).
pub fn index_candidates(evidence: &Evidence, thresholds: &Thresholds) -> IndexCandidates {
    let mut made = IndexCandidates::default();
    for one in &evidence.statements {
        let Some(plan) = &one.plan else { continue };
        if evidence.share(one.ns) < thresholds.of(&WARNING) {
            continue;
        }
        made.statements.push(one.fingerprint);
        // The steps above the one that is visited.
        let mut above: Vec<&PlanNode> = Vec::new();
        plan.root.each(&mut |node, depth| {
            above.truncate(depth);
            if let Some(table) = large_table(evidence, thresholds, node) {
                of_step(evidence, one, table, node, &above, &mut made);
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

fn of_step(
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
    let mut asked = asked(evidence, table, node, sort.map(|one| one.text.as_str()));
    for column in joined(table, node, above) {
        if !asked.equal.contains(&column) {
            asked.equal.push(column);
        }
    }
    let beside = beside(one, table, &asked);
    let there = shapes(evidence, table);
    let classical = asked.classical(true);
    let mut count = 0;
    let mut take = |columns: Vec<String>, include: Vec<String>, is_partial: bool| {
        if columns.is_empty() || include.is_empty() && is_there(&there, &columns, is_partial) {
            return;
        }
        count += 1;
        if count > OF_A_STEP_MAX {
            made.left_out += 1;
            return;
        }
        let (predicate, hangs_on) = match is_partial {
            true => (asked.predicate.clone(), asked.hangs_on.clone()),
            false => (Vec::new(), Vec::new()),
        };
        let candidate = IndexCandidate {
            database: table.database.clone(),
            schema: table.schema.clone(),
            table: table.name.clone(),
            updated: updated(
                evidence,
                table,
                columns.iter().chain(&include).chain(&hangs_on),
            ),
            is_classical: columns == classical,
            columns,
            include,
            predicate,
            hangs_on,
            serves: vec![one.fingerprint],
        };
        add(&mut made.candidates, candidate);
    };
    let is_partial = !asked.predicate.is_empty();
    for columns in orders(&classical) {
        take(columns.clone(), Vec::new(), false);
        if is_partial {
            take(columns, Vec::new(), true);
        }
    }
    if let Some(beside) = beside {
        let whole = orders(&classical);
        let whole = whole
            .into_iter()
            .filter(|order| order.len() == classical.len());
        for columns in whole {
            let include: Vec<String> = beside
                .iter()
                .filter(|one| !columns.contains(one))
                .cloned()
                .collect();
            if !include.is_empty() && include.len() <= BESIDE_MAX {
                take(columns, include, false);
            }
        }
    }
    if classical.is_empty() && is_partial {
        take(vec![asked.hangs_on[0].clone()], Vec::new(), true);
    }
}

/// Put among them, or its statement with the one that is alike.
fn add(all: &mut Vec<IndexCandidate>, candidate: IndexCandidate) {
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

/// Every order of every part of these columns, up to three; of more, the beginnings of them, each once with every
/// column first.
fn orders(columns: &[String]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    if columns.len() <= PERMUTED_MAX {
        // The whole ones first, since these are the ones that matter most.
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

/// The columns that a narrow `SELECT` needs besides, so that an index could answer it alone.
fn beside(one: &StatementEvidence, table: &RelationFact, asked: &Asked) -> Option<Vec<String>> {
    if one.class != StatementClass::Select || asked.has_others {
        return None;
    }
    let mut columns = plain_select_list(&one.sql)?;
    columns.extend(asked.hangs_on.iter().cloned());
    let all = columns
        .iter()
        .all(|column| table.column_names.contains(column));
    let mut seen = Vec::new();
    columns.retain(|column| {
        let is_new = !seen.contains(column);
        seen.push(column.clone());
        is_new
    });
    all.then_some(columns)
}

/// Columns by which the steps above join this table: an index on them would make a nested loop of it.
fn joined(table: &RelationFact, node: &PlanNode, above: &[&PlanNode]) -> Vec<String> {
    let Some(alias) = &node.alias else {
        return Vec::new();
    };
    let prefixes = [format!("{alias}."), format!("\"{alias}\".")];
    let mut found = Vec::new();
    for step in above.iter().rev().filter(|step| step.is_join()) {
        let texts = step
            .conditions
            .iter()
            .filter(|one| matches!(one.label.as_str(), "Hash Cond" | "Merge Cond"));
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

/// Those of these columns that the workload's updates of the table set.
fn updated<'c>(
    evidence: &Evidence,
    table: &RelationFact,
    columns: impl Iterator<Item = &'c String>,
) -> Vec<String> {
    let mut set: BTreeMap<String, ()> = BTreeMap::new();
    for one in &evidence.statements {
        let Some((schema, name)) = written(&one.sql) else {
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
    use crate::made_up::{MadeUp, statement, table};

    const CLAIM: &str = "update image_links set queued_at = now() from (select id from image_links where \
        download_after < now() and queued_at is null and referenced_at > now() - $1 order by download_after \
        limit $2 for update skip locked) as due where image_links.id = due.id returning image_links.id";

    fn queue() -> MadeUp {
        let plan = r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "image_links",
            "Plans": [{"Node Type": "Limit", "Plan Rows": 100, "Plans": [{"Node Type": "Sort",
            "Sort Key": ["image_links_1.download_after"], "Plans": [{"Node Type": "Seq Scan",
            "Relation Name": "image_links", "Alias": "image_links_1", "Plan Rows": 400,
            "Filter": "((queued_at IS NULL) AND (download_after < now()) AND (referenced_at > (now() - '36:00:00'::interval)))"
            }]}]}]}}]"#;
        MadeUp::new()
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
    fn every_order_of_a_claims_columns_is_a_candidate_whole_and_partial() {
        let made = index_candidates(&queue().evidence(), &Thresholds::default());
        let shapes: Vec<String> = made.candidates.iter().map(IndexCandidate::shape).collect();
        assert_eq!(
            shapes,
            [
                "(download_after, referenced_at)",
                "(download_after, referenced_at) WHERE queued_at IS NULL",
                "(referenced_at, download_after)",
                "(referenced_at, download_after) WHERE queued_at IS NULL",
                // One on download_after alone is there.
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
    fn a_narrow_select_list_makes_covering_ones() {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "orders",
            "Plan Rows": 20, "Filter": "(customer = 5)"}}]"#;
        let of = |sql: &str| -> Vec<String> {
            let made_up = MadeUp::new()
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
    fn what_joins_a_table_is_a_key_and_small_tables_are_left_alone() {
        let plan = r#"[{"Plan": {"Node Type": "Hash Join", "Hash Cond": "(o.customer = c.id)", "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "orders", "Alias": "o", "Plan Rows": 90000},
            {"Node Type": "Hash", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "customers",
            "Alias": "c", "Plan Rows": 1, "Filter": "(name = 'x'::text)"}]}]}}]"#;
        let sql = "select sum(o.total) from orders o join customers c on o.customer = c.id where c.name = $1";
        let made_up = MadeUp::new()
            .statement(statement(1, sql).took(10, 9.0).with_plan(plan))
            .table(table("orders", 90_000, &["customer int", "total int"]))
            .table(table("customers", 100, &["id int", "name text"]));
        let made = index_candidates(&made_up.evidence(), &Thresholds::default());
        let names: Vec<String> = made.candidates.iter().map(IndexCandidate::name).collect();
        assert_eq!(names, ["orders (customer)"]);
    }

    #[test]
    fn of_four_columns_each_comes_first_once() {
        let columns: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let all = orders(&columns);
        for first in &columns {
            assert!(all.iter().any(|one| one.len() == 4 && one[0] == *first));
        }
        assert_eq!(orders(&columns[..3]).len(), 15);
    }
}
