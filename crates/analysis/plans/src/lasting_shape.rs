//! Shape of a plan without what the growth of its tables changes: parallel processes and the number of partitions.
//!
//! A plan gets another worker each time a table triples above `min_parallel_table_scan_size` (`compute_parallel_worker` in
//! PostgreSQL's `allpaths.c`), and another child for each new partition. Neither is a choice between methods.

use std::collections::BTreeMap;

use super::node::{Fnv, Plan, PlanNode, PlanShape};

impl Plan {
    /// Returns a shape that ignores parallel processes and the number and the names of partitions. Of the partitions of a
    /// parent, the method with the greatest cost counts.
    pub fn lasting_shape(&self) -> PlanShape {
        PlanShape(shape(&self.root, PartitionContext::default()))
    }
}

/// Position of a node with respect to partitions.
#[derive(Debug, Clone, Copy, Default)]
struct PartitionContext<'p> {
    /// Whether an Append is above it.
    is_in_append: bool,
    /// Partition whose bitmap it is part of.
    partition: Option<&'p str>,
}

/// Node without those that only combine parallel processes.
struct SerialNode<'p> {
    /// Node that does the work.
    node: &'p PlanNode,
    /// Node whose conditions count: the upper half of a divided aggregate filters its groups.
    conditions: &'p PlanNode,
    /// Its children, and the init plans of the nodes that were left out.
    children: Vec<&'p PlanNode>,
}

impl<'p> SerialNode<'p> {
    fn new(top: &'p PlanNode) -> Self {
        let (mut node, mut children, mut finalize) = (top, Vec::new(), None);
        loop {
            let is_gather = matches!(node.kind.as_str(), "Gather" | "Gather Merge");
            let is_final = node.partial.as_deref() == Some("Finalize");
            // The upper half of an aggregate sorts what it gathers.
            let is_between = finalize.is_some() && node.partial.is_none();
            let (aside, inputs): (Vec<_>, Vec<_>) =
                node.children.iter().partition(|child| is_aside(child));
            let [input] = inputs[..] else { break };
            if !is_gather && !is_final && !is_between {
                break;
            }
            if is_final {
                finalize = Some(node);
            }
            children.extend(aside);
            node = input;
        }
        children.extend(&node.children);
        SerialNode {
            node,
            conditions: finalize.unwrap_or(node),
            children,
        }
    }
}

/// Whether a child is computed separately from the rows of its parent.
fn is_aside(node: &PlanNode) -> bool {
    matches!(node.relationship.as_str(), "InitPlan" | "SubPlan")
}

fn shape<'p>(top: &'p PlanNode, mut context: PartitionContext<'p>) -> u64 {
    let SerialNode {
        node,
        conditions,
        children,
    } = SerialNode::new(top);
    let mut hash = Fnv::default();
    hash.text(&node.method());
    hash.text(if is_aside(top) { &top.relationship } else { "" });
    let relation = node.relation.as_deref().unwrap_or_default();
    let alias = node.alias.as_deref().unwrap_or_default();
    let index = node.index.as_deref().unwrap_or_default();
    let parent = partitioned_alias(node).filter(|_| context.is_in_append);
    if parent.is_some() {
        context.partition = Some(relation);
    } else if !relation.is_empty() {
        context.partition = None;
    }
    hash.text(parent.unwrap_or(alias));
    match context.partition {
        // Indexes of partitions are named after their table, unless the name is cut to 63 bytes or was chosen.
        Some(partition) => hash.text(index.strip_prefix(partition).unwrap_or_default()),
        None => {
            hash.text(relation);
            hash.text(index);
        }
    }
    // Versions word conditions differently, so only the presence of a condition counts.
    for condition in &conditions.conditions {
        hash.text(&condition.label);
    }
    if node.is_append() || node.kind == "ModifyTable" {
        // A parallel Append orders its children by cost.
        add_members(&mut hash, &children);
    } else {
        hash.number(children.len() as u64);
        for child in children {
            hash.number(shape(child, context));
        }
    }
    hash.0
}

/// Adds the children of an Append or of a node that writes: each alone, and the partitions of a parent as one.
fn add_members(hash: &mut Fnv, children: &[&PlanNode]) {
    let mut members: Vec<u64> = Vec::new();
    let mut partitions: BTreeMap<Vec<&str>, BTreeMap<u64, f64>> = BTreeMap::new();
    for child in children {
        let mut parents = Vec::new();
        child.each(&mut |node, _| parents.extend(partitioned_alias(node)));
        parents.sort_unstable();
        let context = PartitionContext {
            is_in_append: true,
            partition: None,
        };
        let shape = shape(child, context);
        match parents.is_empty() || is_aside(child) {
            true => members.push(shape),
            false => {
                let costs = partitions.entry(parents).or_default();
                *costs.entry(shape).or_default() += child.cost;
            }
        }
    }
    for costs in partitions.into_values() {
        let greatest = costs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        members.extend(greatest.map(|(shape, _)| shape));
    }
    members.sort_unstable();
    hash.number(members.len() as u64);
    for member in members {
        hash.number(member);
    }
}

/// Returns the alias of the parent, if the node reads a partition: `EXPLAIN` numbers the aliases of partitions
/// (`set_rtable_names` in `ruleutils.c`).
fn partitioned_alias(node: &PlanNode) -> Option<&str> {
    let alias = node.alias.as_deref()?;
    let (parent, number) = alias.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && node.relation.as_deref() != Some(alias)).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_plan;

    fn lasting(plan: &str) -> PlanShape {
        let text = format!(r#"[{{"Plan": {plan}}}]"#);
        read_plan(&text).unwrap().lasting_shape()
    }

    fn scan(kind: &str, partition: &str, alias: &str, cost: f64) -> String {
        let index = match kind {
            "Index Scan" => format!(
                r#", "Index Name": "{partition}_customer_idx", "Index Cond": "(customer = 1)""#
            ),
            _ => String::new(),
        };
        format!(
            r#"{{"Node Type": "{kind}", "Parent Relationship": "Member", "Relation Name": "{partition}", "Alias": "{alias}",
               "Total Cost": {cost}{index}}}"#
        )
    }

    fn append(children: &[String]) -> String {
        format!(
            r#"{{"Node Type": "Append", "Plans": [{}]}}"#,
            children.join(", ")
        )
    }

    #[test]
    fn parallel_aggregate_has_the_lasting_shape_of_the_serial_one() {
        let serial = lasting(
            r#"{"Node Type": "Aggregate", "Strategy": "Hashed", "Partial Mode": "Simple", "Group Key": ["a"], "Filter": "(count(*) > 1)",
                "Plans": [{"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Relation Name": "t", "Alias": "t"}]}"#,
        );
        let parallel = |workers: u64, method: &str| {
            lasting(&format!(
                r#"{{"Node Type": "Aggregate", "Strategy": "Sorted", "Partial Mode": "Finalize", "Group Key": ["a"], "Filter": "(count(*) > 1)",
                    "Plans": [{{"Node Type": "Gather Merge", "Parent Relationship": "Outer", "Workers Planned": {workers},
                    "Plans": [{{"Node Type": "Sort", "Parent Relationship": "Outer", "Sort Key": ["a"],
                    "Plans": [{{"Node Type": "Aggregate", "Strategy": "Hashed", "Partial Mode": "Partial", "Group Key": ["a"],
                      "Parent Relationship": "Outer",
                    "Plans": [{{"Node Type": "{method}", "Parallel Aware": true, "Parent Relationship": "Outer",
                      "Relation Name": "t", "Alias": "t"}}]}}]}}]}}]}}"#
            ))
        };
        assert_eq!(parallel(2, "Seq Scan"), serial);
        assert_eq!(parallel(3, "Seq Scan"), serial);
        assert_ne!(parallel(2, "Index Only Scan"), serial);
    }

    #[test]
    fn init_plan_of_a_gather_counts_as_that_of_the_node_below() {
        let init = r#"{"Node Type": "Result", "Parent Relationship": "InitPlan"}"#;
        let scan = |above: &str, plans: &str| {
            format!(
                r#"{{"Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t"{above}, "Plans": [{plans}]}}"#
            )
        };
        let serial = lasting(&scan("", init));
        let below = scan(
            r#", "Parallel Aware": true, "Parent Relationship": "Outer""#,
            "",
        );
        let gathered = lasting(&format!(
            r#"{{"Node Type": "Gather", "Plans": [{init}, {below}]}}"#
        ));
        assert_eq!(gathered, serial);
        assert_ne!(lasting(&scan("", "")), serial);
    }

    #[test]
    fn partitions_count_once_by_the_method_with_the_greatest_cost() {
        let monday = lasting(&append(&[
            scan("Index Scan", "orders_1101", "o_1", 8.0),
            scan("Index Scan", "orders_1102", "o_2", 8.0),
            scan("Seq Scan", "orders_1103", "o_3", 1.0),
        ]));
        let tuesday = lasting(&append(&[
            scan("Seq Scan", "orders_1104", "o_3", 1.0),
            scan("Index Scan", "orders_1102", "o_1", 8.0),
            scan("Index Scan", "orders_1103", "o_2", 9.0),
            scan("Seq Scan", "orders_1105", "o_4", 1.0),
        ]));
        assert_eq!(monday, tuesday);
        let without_index = lasting(&append(&[
            scan("Seq Scan", "orders_1102", "o_1", 900.0),
            scan("Index Scan", "orders_1103", "o_2", 9.0),
        ]));
        assert_ne!(monday, without_index);
    }

    #[test]
    fn branches_of_a_union_count_each() {
        let [a, b] = ["a", "b"].map(|table| scan("Seq Scan", table, table, 1.0));
        let both = lasting(&append(&[a.clone(), b.clone()]));
        assert_eq!(lasting(&append(&[b, a.clone()])), both);
        assert_ne!(lasting(&append(&[a.clone(), a])), both);
    }
}
