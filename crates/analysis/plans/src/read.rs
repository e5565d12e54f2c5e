//! Reads the output of `EXPLAIN (FORMAT JSON)` of PostgreSQL 10 to 18.
//!
//! Unknown keys and node types are ignored, because versions and extensions add them. Required is a
//! `Plan` with a `Node Type`.
//!
//! Source: `ExplainNode` in `explain.c` of these versions.

use serde_json::{Map, Value};

use schemars::JsonSchema;
use serde::Serialize;

use super::actual::ActualWork;
use super::node::{Condition, Plan, PlanNode};
use super::written_partitions::unify;

/// Reason why a plan cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanError {
    /// The text is not JSON, or it is nested too deeply: about 60 levels of nodes.
    NoJson,
    /// The text is JSON but not a plan.
    NoPlan,
}

impl PlanError {
    /// Returns the reason in words.
    pub fn explanation(&self) -> &'static str {
        match self {
            PlanError::NoJson => "the server's answer is no JSON, or a plan too deep to be read",
            PlanError::NoPlan => "the server's answer is no plan",
        }
    }
}

/// Keys of conditions, in display order.
const CONDITIONS: [&str; 17] = [
    "Index Cond",
    "Recheck Cond",
    "TID Cond",
    "Order By",
    "Hash Cond",
    "Merge Cond",
    "Join Filter",
    "One-Time Filter",
    "Filter",
    "Run Condition",
    "Sort Key",
    "Presorted Key",
    "Group Key",
    "Cache Key",
    "Conflict Resolution",
    "Conflict Arbiter Indexes",
    "Conflict Filter",
];

/// Keys that name what a node reads, if it is not a table.
const RELATIONS: [&str; 5] = [
    "Relation Name",
    "Function Name",
    "Table Function Name",
    "CTE Name",
    "Tuplestore Name",
];

/// Reads a plan.
///
/// # Errors
/// If the text is not a plan.
pub fn read_plan(text: &str) -> Result<Plan, PlanError> {
    let value: Value = serde_json::from_str(text).map_err(|_| PlanError::NoJson)?;
    // The top level is a list of plans, one for each statement of the text.
    let top = match &value {
        Value::Array(plans) => plans.first(),
        other => Some(other),
    };
    read_top(top.and_then(Value::as_object).ok_or(PlanError::NoPlan)?)
}

/// Reads the plan of one statement.
pub(super) fn read_top(top: &Map<String, Value>) -> Result<Plan, PlanError> {
    let mut root = top
        .get("Plan")
        .and_then(Value::as_object)
        .and_then(node)
        .ok_or(PlanError::NoPlan)?;
    unify(&mut root);
    let settings = top.get("Settings").and_then(Value::as_object);
    Ok(Plan {
        root,
        settings: settings
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), words(value)))
            .collect(),
        jit: top.contains_key("JIT"),
    })
}

fn node(fields: &Map<String, Value>) -> Option<PlanNode> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| fields.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let count = |name: &str| fields.get(name).and_then(Value::as_u64);
    let flag = |name: &str| fields.get(name).and_then(Value::as_bool) == Some(true);
    let mut conditions: Vec<Condition> = CONDITIONS
        .iter()
        .filter_map(|label| {
            Some(Condition {
                label: (*label).to_owned(),
                text: words(fields.get(*label)?),
            })
        })
        .collect();
    // GROUPING SETS, CUBE, ROLLUP: lists of lists.
    if let Some(sets) = fields.get("Grouping Sets") {
        conditions.push(Condition {
            label: "Grouping Sets".to_owned(),
            text: words(sets),
        });
    }
    let children = fields.get("Plans").and_then(Value::as_array);
    Some(PlanNode {
        kind: text("Node Type")?,
        relationship: text("Parent Relationship").unwrap_or_default(),
        relation: RELATIONS.iter().find_map(|name| text(name)),
        alias: text("Alias"),
        index: text("Index Name"),
        join: text("Join Type"),
        strategy: text("Strategy"),
        partial: text("Partial Mode").filter(|mode| mode != "Simple"),
        operation: text("Operation"),
        backward: text("Scan Direction").as_deref() == Some("Backward"),
        parallel: flag("Parallel Aware"),
        workers: count("Workers Planned"),
        removed: count("Subplans Removed").unwrap_or(0),
        disabled: flag("Disabled"),
        cost: number("Total Cost"),
        rows: number("Plan Rows"),
        conditions,
        actual: ActualWork::read(fields),
        children: children
            .into_iter()
            .flatten()
            .filter_map(|child| node(child.as_object()?))
            .collect(),
    })
}

/// Formats a value; lists are joined with commas.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| format!("{name}: {}", words(value)));
            fields.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}
