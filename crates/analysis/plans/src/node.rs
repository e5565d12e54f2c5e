//! Tree of an execution plan.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use sql::Fingerprinter;

use super::actual::ActualWork;

/// Execution plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Top node.
    pub root: PlanNode,
    /// Settings that affect planning and differ from their defaults (`SETTINGS`, from version 12).
    pub settings: BTreeMap<String, String>,
    /// Whether parts of it would be JIT-compiled.
    pub jit: bool,
}

/// Node of a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PlanNode {
    /// `Node Type` as the server writes it: `Seq Scan`, `Hash Join`, `Sort` …
    pub kind: String,
    /// Relationship to the parent: `Outer`, `Inner`, `Member`, `InitPlan`, `SubPlan`, `Subquery`.
    pub relationship: String,
    /// Table, function, CTE or other relation that it reads or writes.
    pub relation: Option<String>,
    /// Alias of the relation in the statement.
    pub alias: Option<String>,
    /// Index that it uses.
    pub index: Option<String>,
    /// Join type: `Inner`, `Left`, `Semi` …
    pub join: Option<String>,
    /// Strategy of an aggregate: `Plain`, `Sorted`, `Hashed`, `Mixed`.
    pub strategy: Option<String>,
    /// Partial mode of an aggregate: `Partial` or `Finalize`; `None` if it is complete.
    pub partial: Option<String>,
    /// Operation of a node that writes: `Insert`, `Update`, `Delete`, `Merge`.
    pub operation: Option<String>,
    /// Whether an index is scanned backward.
    pub backward: bool,
    /// Whether parallel processes share the node.
    pub parallel: bool,
    /// Parallel workers planned, in addition to the session's own process.
    pub workers: Option<u64>,
    /// Partitions pruned at executor startup (`Subplans Removed`).
    pub removed: u64,
    /// Whether the planner used a disabled node type because it had no alternative (`Disabled`,
    /// from version 18).
    pub disabled: bool,
    /// Total cost, in the planner's units.
    pub cost: f64,
    /// Estimated rows for each execution.
    pub rows: f64,
    /// Conditions that it filters, joins, sorts and groups by, in the server's order.
    pub conditions: Vec<Condition>,
    /// Counts of an execution, if the plan is that of one (`ANALYZE`).
    #[serde(skip)]
    pub actual: Option<ActualWork>,
    /// Child nodes.
    pub children: Vec<PlanNode>,
}

/// Condition by which a node filters, joins, sorts or groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Condition {
    /// Label as the server writes it: `Index Cond`, `Filter`, `Sort Key` …
    pub label: String,
    /// Text as the server wrote it, including values unless they were redacted.
    pub text: String,
}

impl Condition {
    /// Returns the text with values replaced by placeholders, as in normalised SQL.
    pub fn without_values(&self) -> String {
        Fingerprinter::new().normalise(&self.text).to_owned()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label, self.text)
    }
}

/// Hash of a plan's operations and their order. Equal shapes mean equal plans, regardless of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(inline)]
pub struct PlanShape(#[schemars(with = "String")] pub u64);

impl Serialize for PlanShape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for PlanShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Plan {
    /// Returns the shape of the plan.
    pub fn shape(&self) -> PlanShape {
        let mut hash = Fnv::default();
        self.root.add_shape(&mut hash);
        PlanShape(hash.0)
    }

    /// Returns the node with the greatest cost of its own, and its share of the plan's cost.
    pub fn dominant_node(&self) -> (&PlanNode, f64) {
        let mut dominant = (&self.root, 0.0);
        self.root.each(&mut |node, _| {
            let below: f64 = node.children.iter().map(|child| child.cost).sum();
            let own = (node.cost - below).max(0.0);
            if own > dominant.1 {
                dominant = (node, own);
            }
        });
        let (node, own) = dominant;
        (node, (own / self.root.cost.max(f64::MIN_POSITIVE)).min(1.0))
    }

    /// Returns the total number of parallel workers.
    pub fn workers(&self) -> u64 {
        let mut workers = 0;
        self.root
            .each(&mut |node, _| workers += node.workers.unwrap_or(0));
        workers
    }
}

impl PlanNode {
    /// Returns the number by which the planner divides the rows of the nodes below, since parallel processes share them;
    /// 1 if this node gathers nothing. The session's own process reads less the more workers it waits for
    /// (`get_parallel_divisor` in PostgreSQL's `costsize.c`).
    pub fn parallel_divisor(&self) -> f64 {
        let workers = self.workers.unwrap_or(0) as f64;
        workers + (1.0 - 0.3 * workers).max(0.0)
    }

    /// Replaces the values in all conditions.
    pub(super) fn redact(&mut self) {
        for condition in &mut self.conditions {
            condition.text = condition.without_values();
        }
        self.children.iter_mut().for_each(PlanNode::redact);
    }

    /// Calls `visit` for this node and all nodes below it, in preorder, with their depth from 0.
    pub fn each<'n>(&'n self, visit: &mut impl FnMut(&'n PlanNode, usize)) {
        fn below<'n>(
            node: &'n PlanNode,
            depth: usize,
            visit: &mut impl FnMut(&'n PlanNode, usize),
        ) {
            visit(node, depth);
            for child in &node.children {
                below(child, depth + 1, visit);
            }
        }
        below(self, 0, visit);
    }

    /// Whether it reads a relation itself.
    pub fn is_scan(&self) -> bool {
        self.kind.ends_with("Scan") && self.kind != "Bitmap Index Scan"
    }

    /// Whether it joins its two children.
    pub fn is_join(&self) -> bool {
        self.kind == "Nested Loop" || self.kind.ends_with("Join")
    }

    /// Whether it concatenates the results of its children.
    pub fn is_append(&self) -> bool {
        self.kind == "Append" || self.kind == "Merge Append"
    }

    /// Whether it belongs to its parent's operation: the hash table of a hash join, or the index
    /// scans of a bitmap scan.
    pub fn is_part(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "Hash" | "Bitmap Index Scan" | "BitmapAnd" | "BitmapOr"
        )
    }

    /// Returns the indexes that it uses, directly or by its bitmap.
    pub fn indexes(&self) -> Vec<&str> {
        let mut indexes: Vec<&str> = self.index.as_deref().into_iter().collect();
        if self.kind == "Bitmap Heap Scan" {
            self.each(&mut |node, _| indexes.extend(node.index.as_deref()));
        }
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }

    /// Returns its label in the text format of `EXPLAIN`: `Index Scan using orders_customer on
    /// orders o`.
    pub fn label(&self) -> String {
        let mut label = self.name();
        let indexes = self.indexes();
        if self.kind != "Bitmap Index Scan" && !indexes.is_empty() {
            label.push_str(&format!(" using {}", indexes.join(" and ")));
        } else if let Some(index) = &self.index {
            label.push_str(&format!(" on {index}"));
        }
        if let Some(relation) = &self.relation {
            label.push_str(&format!(" on {relation}"));
            if let Some(alias) = self.alias.as_ref().filter(|alias| *alias != relation) {
                label.push_str(&format!(" {alias}"));
            }
        } else if let (None, Some(alias)) = (&self.relation, &self.alias) {
            label.push_str(&format!(" on {alias}"));
        }
        if let Some(workers) = self.workers {
            let s = if workers == 1 { "" } else { "s" };
            label.push_str(&format!(" with {workers} worker{s}"));
        }
        label
    }

    /// Returns its name without the relation.
    pub fn name(&self) -> String {
        let mut name = String::new();
        if self.parallel {
            name.push_str("Parallel ");
        }
        if let Some(partial) = &self.partial {
            name.push_str(partial);
            name.push(' ');
        }
        name.push_str(&self.method());
        name
    }

    /// Returns its name without the relation and without its part in a parallel plan.
    pub(super) fn method(&self) -> String {
        let mut name = match (self.kind.as_str(), self.strategy.as_deref()) {
            ("ModifyTable", _) => self.operation.clone().unwrap_or_else(|| self.kind.clone()),
            ("Aggregate", Some("Sorted")) => "GroupAggregate".to_owned(),
            ("Aggregate", Some("Hashed")) => "HashAggregate".to_owned(),
            ("Aggregate", Some("Mixed")) => "MixedAggregate".to_owned(),
            ("SetOp", Some("Hashed")) => "HashSetOp".to_owned(),
            ("Nested Loop", _) => match self.join.as_deref() {
                None | Some("Inner") => self.kind.clone(),
                Some(join) => format!("Nested Loop {join} Join"),
            },
            (kind, _) => match (self.join.as_deref(), kind.strip_suffix(" Join")) {
                (None | Some("Inner"), _) | (_, None) => kind.to_owned(),
                (Some(join), Some(method)) => format!("{method} {join} Join"),
            },
        };
        if self.backward {
            name.push_str(" Backward");
        }
        name
    }

    fn add_shape(&self, hash: &mut Fnv) {
        hash.text(&self.name());
        // The relationship follows from the position among siblings, except for init plans and
        // subplans.
        let aside = matches!(self.relationship.as_str(), "InitPlan" | "SubPlan");
        hash.text(if aside { &self.relationship } else { "" });
        hash.text(self.relation.as_deref().unwrap_or_default());
        // Versions number the aliases of members differently.
        let alias = self
            .alias
            .as_deref()
            .filter(|_| self.relationship != "Member");
        hash.text(alias.unwrap_or_default());
        hash.text(self.index.as_deref().unwrap_or_default());
        hash.number(self.workers.map_or(0, |workers| workers + 1));
        // Versions word conditions differently, so only the presence of a condition counts.
        for condition in &self.conditions {
            hash.text(&condition.label);
        }
        hash.number(self.children.len() as u64);
        for child in &self.children {
            child.add_shape(hash);
        }
    }
}

/// Fowler-Noll-Vo hash 1a of 64 bits: small, and equal on every machine.
pub(super) struct Fnv(pub(super) u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}
