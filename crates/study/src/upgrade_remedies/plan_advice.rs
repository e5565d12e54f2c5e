//! Plan of the old server as advice for `pg_plan_advice`.
//!
//! Source: PostgreSQL 19, documentation of `pg_plan_advice`: scan methods and join methods name relations by their alias, and
//! `JOIN_ORDER` lists them from the outermost to the innermost.

use plans::{Plan, PlanNode};

use crate::environment::quote_identifier;

/// Returns advice for the scans, the join order and the join methods; `None` for a plan that reads no table.
pub(super) fn advice_of(plan: &Plan) -> Option<String> {
    let mut advice = Vec::new();
    plan.root.each(&mut |node, _| advice.extend(scan(node)));
    if advice.is_empty() {
        return None;
    }
    let mut joins = Vec::new();
    plan.root.each(&mut |node, _| joins.extend(method(node)));
    if let Some(order) = first_join(&plan.root).and_then(order) {
        joins.insert(0, format!("JOIN_ORDER({})", order.join(" ")));
    }
    joins.extend(advice);
    Some(joins.join(" "))
}

fn alias(node: &PlanNode) -> Option<String> {
    let name = node.alias.as_ref().or(node.relation.as_ref())?;
    Some(quoted(name))
}

/// Quotes a name, unless it is a plain one.
fn quoted(name: &str) -> String {
    let is_plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain {
        true => name.to_owned(),
        false => quote_identifier(name),
    }
}

fn scan(node: &PlanNode) -> Option<String> {
    node.relation.as_ref()?;
    let alias = alias(node)?;
    let index = node.index.as_deref().map(quoted);
    Some(match (node.kind.as_str(), index) {
        ("Seq Scan", _) => format!("SEQ_SCAN({alias})"),
        ("Index Scan", Some(index)) => format!("INDEX_SCAN({alias} {index})"),
        ("Index Only Scan", Some(index)) => format!("INDEX_ONLY_SCAN({alias} {index})"),
        ("Bitmap Heap Scan", _) => format!("BITMAP_HEAP_SCAN({alias})"),
        _ => return None,
    })
}

/// Returns the method of a join, with the relations of its inner side.
fn method(node: &PlanNode) -> Option<String> {
    if !node.is_join() {
        return None;
    }
    let inner = node
        .children
        .iter()
        .find(|child| child.relationship == "Inner")?;
    let below = |kind: &str| inner.kind == kind;
    let name = match node.kind.as_str() {
        "Hash Join" => "HASH_JOIN",
        "Merge Join" if below("Materialize") => "MERGE_JOIN_MATERIALIZE",
        "Merge Join" => "MERGE_JOIN_PLAIN",
        _ if below("Materialize") => "NESTED_LOOP_MATERIALIZE",
        _ if below("Memoize") => "NESTED_LOOP_MEMOIZE",
        _ => "NESTED_LOOP_PLAIN",
    };
    let inner = relations(inner);
    Some(match &inner[..] {
        [] => return None,
        [one] => format!("{name}({one})"),
        several => format!("{name}(({}))", several.join(" ")),
    })
}

fn first_join(node: &PlanNode) -> Option<&PlanNode> {
    match node.is_join() {
        true => Some(node),
        false => node.children.iter().find_map(first_join),
    }
}

fn relations(node: &PlanNode) -> Vec<String> {
    let mut found = Vec::new();
    node.each(&mut |one, _| {
        if one.relation.is_some() && one.is_scan() {
            found.extend(alias(one));
        }
    });
    found
}

/// Returns the relations of a join from the outermost; those of a joined inner side in brackets.
fn order(join: &PlanNode) -> Option<Vec<String>> {
    let side = |name: &str| join.children.iter().find(|one| one.relationship == name);
    let (outer, inner) = (side("Outer")?, side("Inner")?);
    let mut all = match first_join(outer) {
        Some(join) => order(join)?,
        None => relations(outer),
    };
    match first_join(inner) {
        Some(join) => all.push(format!("({})", order(join)?.join(" "))),
        None => all.extend(relations(inner)),
    }
    Some(all)
}
