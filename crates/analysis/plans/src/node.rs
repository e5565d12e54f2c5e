//! A plan as a tree.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use sql::Fingerprinter;

/// A plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// Its top.
    pub root: PlanNode,
    /// Settings that bear on planning and are not as they are by default (`SETTINGS`, from 12).
    pub settings: BTreeMap<String, String>,
    /// Some of it would be compiled.
    pub jit: bool,
}

/// A step of a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PlanNode {
    /// `Node Type` in the server's words: `Seq Scan`, `Hash Join`, `Sort` …
    pub kind: String,
    /// What it is to the step above: `Outer`, `Inner`, `Member`, `InitPlan`, `SubPlan`, `Subquery`.
    pub relationship: String,
    /// The table, function, CTE or the like that it reads or writes.
    pub relation: Option<String>,
    /// The name that the statement gives it.
    pub alias: Option<String>,
    /// The index that it uses.
    pub index: Option<String>,
    /// `Inner`, `Left`, `Semi` …
    pub join: Option<String>,
    /// Of an aggregate: `Plain`, `Sorted`, `Hashed`, `Mixed`.
    pub strategy: Option<String>,
    /// Of an aggregate: `Partial` or `Finalize`; `None` is all of it.
    pub partial: Option<String>,
    /// Of one that writes: `Insert`, `Update`, `Delete`, `Merge`.
    pub operation: Option<String>,
    /// `Backward` where an index is read so.
    pub backward: bool,
    /// Several processes share it.
    pub parallel: bool,
    /// Processes that are to be started beside the session's own.
    pub workers: Option<u64>,
    /// Partitions that were left out when planning began to run (`Subplans Removed`).
    pub removed: u64,
    /// The planner was told not to use such a step, and found no other way (`Disabled`, from 18).
    pub disabled: bool,
    /// The planner's units of cost, up to the last row.
    pub cost: f64,
    /// The planner's estimate of rows, each time that it is carried out.
    pub rows: f64,
    /// What it filters, joins, sorts and groups by, in the server's order.
    pub conditions: Vec<Condition>,
    /// The steps below.
    pub children: Vec<PlanNode>,
}

/// What a step filters, joins, sorts or groups by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Condition {
    /// In the server's words: `Index Cond`, `Filter`, `Sort Key` …
    pub label: String,
    /// As the server wrote it, with values unless they were redacted.
    pub text: String,
}

impl Condition {
    /// It without values, as fingerprints have statements.
    pub fn without_values(&self) -> String {
        Fingerprinter::new().normalise(&self.text).to_owned()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label, self.text)
    }
}

/// Equal for plans that do the same in the same order.
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
    /// Equal for plans that do the same in the same order, whatever they cost.
    pub fn shape(&self) -> PlanShape {
        let mut hash = Fnv::default();
        self.root.add_shape(&mut hash);
        PlanShape(hash.0)
    }

    /// All processes that are to be started.
    pub fn workers(&self) -> u64 {
        let mut workers = 0;
        self.root
            .each(&mut |node, _| workers += node.workers.unwrap_or(0));
        workers
    }
}

impl PlanNode {
    /// Replaces the values in all conditions.
    pub(super) fn redact(&mut self) {
        for condition in &mut self.conditions {
            condition.text = condition.without_values();
        }
        self.children.iter_mut().for_each(PlanNode::redact);
    }

    /// Calls `visit` for this and all steps below, from the top, with the depth of each from 0.
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

    /// Whether it reads something by itself.
    pub fn is_scan(&self) -> bool {
        self.kind.ends_with("Scan") && self.kind != "Bitmap Index Scan"
    }

    /// Whether it joins what two steps below give.
    pub fn is_join(&self) -> bool {
        self.kind == "Nested Loop" || self.kind.ends_with("Join")
    }

    /// Whether it puts together what several steps below give.
    pub fn is_append(&self) -> bool {
        self.kind == "Append" || self.kind == "Merge Append"
    }

    /// Whether it is a part of the step above rather than one of its own: the table that a hash join
    /// builds, the indexes behind a bitmap.
    pub fn is_part(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "Hash" | "Bitmap Index Scan" | "BitmapAnd" | "BitmapOr"
        )
    }

    /// The indexes that it uses: its own, or those of its bitmap.
    pub fn indexes(&self) -> Vec<&str> {
        let mut indexes: Vec<&str> = self.index.as_deref().into_iter().collect();
        if self.kind == "Bitmap Heap Scan" {
            self.each(&mut |node, _| indexes.extend(node.index.as_deref()));
        }
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }

    /// What it is, as the text form of `EXPLAIN` has it: `Index Scan using orders_customer on orders o`.
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

    /// What it is, without what it reads.
    pub fn name(&self) -> String {
        let kind = match (self.kind.as_str(), self.strategy.as_deref()) {
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
        let mut name = String::new();
        if self.parallel {
            name.push_str("Parallel ");
        }
        if let Some(partial) = &self.partial {
            name.push_str(partial);
            name.push(' ');
        }
        name.push_str(&kind);
        if self.backward {
            name.push_str(" Backward");
        }
        name
    }

    fn add_shape(&self, hash: &mut Fnv) {
        hash.text(&self.name());
        // The relationship is the place among its like, but for what hangs on the side.
        let aside = matches!(self.relationship.as_str(), "InitPlan" | "SubPlan");
        hash.text(if aside { &self.relationship } else { "" });
        hash.text(self.relation.as_deref().unwrap_or_default());
        hash.text(self.alias.as_deref().unwrap_or_default());
        hash.text(self.index.as_deref().unwrap_or_default());
        hash.number(self.workers.map_or(0, |workers| workers + 1));
        // Versions word conditions differently; that there is one is what a plan does.
        for condition in &self.conditions {
            hash.text(&condition.label);
        }
        hash.number(self.children.len() as u64);
        for child in &self.children {
            child.add_shape(hash);
        }
    }
}

/// Fowler, Noll and Vo's hash, 1a, of 64 bits: small, and the same on every machine.
struct Fnv(u64);

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

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}
