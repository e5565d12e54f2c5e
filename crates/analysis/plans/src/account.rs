//! Account of an executed statement's time: a tree of parts whose own times add up to the whole.
//!
//! `EXPLAIN (ANALYZE)` reports the time of a node with all nodes below it. It reports the average of
//! parallel processes, and the time of an init plan or a CTE in the node that used it first. Compilation is a part of the
//! nodes that ran first, except for the generation of code. Triggers before a row are a part of the node that
//! writes it; others, and constraints, run after the plan (`InstrEndLoop`, `ExecSetParamPlan`,
//! `AfterTriggerEndQuery` in the server's source).
//!
//! No part is negative, and none is counted twice. If reported times contradict each other, since they are rounded or
//! measured by several processes, the time of the parent is divided among its children.

use schemars::JsonSchema;
use serde::Serialize;

use super::measured::MeasuredTimes;
use super::node::PlanNode;

/// Kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The whole statement.
    Statement,
    /// Planning.
    Planning,
    /// A node of the plan.
    Node,
    /// Just-in-time compilation.
    Compilation,
    /// A trigger.
    Trigger,
    /// A check of a constraint.
    Constraint,
    /// Start and end of the execution, and what is in no other part.
    Rest,
}

/// Part of a statement's time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimePart {
    /// Kind.
    pub kind: PartKind,
    /// Name: the label of a node, or the name of a trigger or a constraint with its table.
    pub name: String,
    /// Time of this part without those below, in milliseconds.
    pub own_ms: f64,
    /// Rows of all executions of a node.
    pub rows: Option<f64>,
    /// Rows that the planner expected of all executions.
    pub estimated_rows: Option<f64>,
    /// Number of executions of a node, or calls of a trigger.
    pub loops: Option<f64>,
    /// Blocks that a node read, without those below.
    pub blocks: Option<f64>,
    /// Parts below.
    pub children: Vec<TimePart>,
}

impl TimePart {
    fn new(kind: PartKind, name: impl Into<String>, own_ms: f64) -> Self {
        TimePart {
            kind,
            name: name.into(),
            own_ms,
            rows: None,
            estimated_rows: None,
            loops: None,
            blocks: None,
            children: Vec::new(),
        }
    }

    /// Returns the time of this part and those below.
    pub fn total_ms(&self) -> f64 {
        self.own_ms + self.children.iter().map(TimePart::total_ms).sum::<f64>()
    }

    /// Returns this part and all below it, in preorder.
    pub fn all(&self) -> Vec<&TimePart> {
        let below = self.children.iter().flat_map(TimePart::all);
        std::iter::once(self).chain(below).collect()
    }
}

/// Node of the plan, at the place whose time it is a part of.
struct AccountNode<'p> {
    plan: &'p PlanNode,
    /// Index of the node whose time includes its time; `None` for the root and for what runs after it.
    parent: Option<usize>,
    /// Time with the nodes below, in milliseconds, as far as one process waited for it.
    elapsed_ms: f64,
    own_ms: f64,
}

/// Divides the time of an executed statement among its parts.
pub fn account_time(times: &MeasuredTimes) -> TimePart {
    let mut nodes = Vec::new();
    collect_nodes(&times.plan.root, None, 1.0, &mut nodes);
    move_init_plans(&mut nodes);
    let execution_ms = times.execution_ms.max(0.0);
    // Time that is in no node.
    let mut outside_ms = divide_among_nodes(&mut nodes, execution_ms);
    let generation_ms = take(&mut outside_ms, times.generation_ms);
    let triggers = account_triggers(times, &mut nodes, &mut outside_ms);
    let compilation_ms =
        generation_ms + take_compilation(&mut nodes, times.compilation_ms - times.generation_ms);

    let mut whole = TimePart::new(PartKind::Statement, "statement", 0.0);
    let planning_ms = times.planning_ms.max(0.0);
    let planning = TimePart::new(PartKind::Planning, "planning", planning_ms);
    whole.children.push(planning);
    let roots = (0..nodes.len()).filter(|place| nodes[*place].parent.is_none());
    whole
        .children
        .extend(roots.map(|root| part_of_node(&nodes, root)));
    if times.compilation_ms > 0.0 {
        let name = "just-in-time compilation";
        let compilation = TimePart::new(PartKind::Compilation, name, compilation_ms);
        whole.children.push(compilation);
    }
    whole.children.extend(triggers);
    let name = "start and end of the execution";
    whole
        .children
        .push(TimePart::new(PartKind::Rest, name, outside_ms.max(0.0)));
    whole
}

/// Takes as much of a time as is left.
fn take(left_ms: &mut f64, ms: f64) -> f64 {
    let taken = ms.clamp(0.0, left_ms.max(0.0));
    *left_ms -= taken;
    taken
}

fn collect_nodes<'p>(
    plan: &'p PlanNode,
    parent: Option<usize>,
    processes: f64,
    nodes: &mut Vec<AccountNode<'p>>,
) {
    let work = plan.actual.as_ref();
    let elapsed_ms = work.map_or(0.0, |work| work.ms / processes);
    let own = nodes.len();
    nodes.push(AccountNode {
        plan,
        parent,
        elapsed_ms: elapsed_ms.max(0.0),
        own_ms: 0.0,
    });
    for child in &plan.children {
        // Below a Gather, each process executes the node, and their times add up.
        let gathers = plan.kind.starts_with("Gather") && child.relationship == "Outer";
        let loops = |node: &PlanNode| node.actual.as_ref().map_or(0.0, |work| work.loops);
        let processes = match gathers && loops(plan) > 0.0 {
            true => (loops(child) / loops(plan)).max(1.0),
            false => processes,
        };
        collect_nodes(child, Some(own), processes, nodes);
    }
}

/// Moves init plans and CTEs below the node that used them first, since its time includes theirs. A CTE that writes, and
/// that no node reads, runs after the plan.
fn move_init_plans(nodes: &mut [AccountNode<'_>]) {
    for place in 0..nodes.len() {
        let plan = nodes[place].plan;
        if plan.relationship != "InitPlan" {
            continue;
        }
        let name = plan
            .actual
            .as_ref()
            .and_then(|work| work.subplan.as_deref())
            .unwrap_or_default();
        let is_below = |mut other: usize| loop {
            if other == place {
                break true;
            }
            match nodes[other].parent {
                Some(parent) => other = parent,
                None => break false,
            }
        };
        let user = (0..nodes.len())
            .filter(|other| uses_plan(nodes[*other].plan, name) && !is_below(*other))
            .filter(|other| nodes[*other].elapsed_ms >= nodes[place].elapsed_ms)
            // Of several users, the one with the most time paid for it.
            .max_by(|a, b| nodes[*a].elapsed_ms.total_cmp(&nodes[*b].elapsed_ms));
        let writes = name.starts_with("CTE ") && plan.kind == "ModifyTable";
        match user {
            Some(user) => nodes[place].parent = Some(user),
            None if writes => nodes[place].parent = None,
            None => {}
        }
    }
}

/// Whether a node reads a CTE (`CTE due`), or refers to an init plan: `InitPlan 1 (returns $0)`, from 17 on `InitPlan 1`.
fn uses_plan(node: &PlanNode, name: &str) -> bool {
    if let Some(cte) = name.strip_prefix("CTE ") {
        return node.kind == "CTE Scan" && node.relation.as_deref() == Some(cte);
    }
    let reference = match name.split_once("(returns ") {
        Some((_, returned)) => returned.trim_end_matches(')').to_owned(),
        None => format!("({name})."),
    };
    let names = || reference.split(',');
    let mut all = node.conditions.iter();
    all.any(|one| names().any(|name| mentions(&one.text, name)))
}

/// Whether a text has a name that no digit follows.
fn mentions(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let next = text[at + name.len()..].chars().next();
            next.is_none_or(|next| !next.is_ascii_digit())
        })
}

/// Sets the own time of each node. Returns the time that is in no node.
fn divide_among_nodes(nodes: &mut [AccountNode<'_>], execution_ms: f64) -> f64 {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut roots = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent].push(place),
            None => roots.push(place),
        }
    }
    let mut outside_ms = execution_ms;
    let mut open: Vec<(usize, f64)> = Vec::new();
    for root in roots {
        open.push((root, take(&mut outside_ms, nodes[root].elapsed_ms)));
    }
    while let Some((place, all_ms)) = open.pop() {
        let below_ms: f64 = children[place]
            .iter()
            .map(|child| nodes[*child].elapsed_ms)
            .sum();
        let factor = match below_ms > all_ms {
            true => all_ms / below_ms,
            false => 1.0,
        };
        nodes[place].own_ms = (all_ms - below_ms * factor).max(0.0);
        let below = children[place].iter();
        open.extend(below.map(|child| (*child, nodes[*child].elapsed_ms * factor)));
    }
    outside_ms
}

/// Takes the times of triggers from the node that writes the rows, or from what is outside of the nodes.
fn account_triggers(
    times: &MeasuredTimes,
    nodes: &mut [AccountNode<'_>],
    outside_ms: &mut f64,
) -> Vec<TimePart> {
    let mut all: Vec<_> = times.triggers.iter().collect();
    // Those of constraints always run after the plan.
    all.sort_by_key(|one| one.constraint.is_none());
    let parts = all.into_iter().map(|one| {
        let is_after = one.constraint.is_some() || one.ms <= *outside_ms;
        let mut own_ms = take(outside_ms, if is_after { one.ms } else { 0.0 });
        if !is_after {
            for node in nodes
                .iter_mut()
                .filter(|one| one.plan.kind == "ModifyTable")
            {
                own_ms += take(&mut node.own_ms, one.ms - own_ms);
            }
            own_ms += take(outside_ms, one.ms - own_ms);
        }
        let (kind, name) = match &one.constraint {
            Some(constraint) => (PartKind::Constraint, constraint),
            None => (PartKind::Trigger, &one.name),
        };
        TimePart {
            loops: Some(one.calls),
            ..TimePart::new(kind, format!("{name} of {}", one.relation), own_ms)
        }
    });
    parts.collect()
}

/// Takes the compilation that happened in nodes from the deepest node that had the time, or else from those with the most.
fn take_compilation(nodes: &mut [AccountNode<'_>], ms: f64) -> f64 {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|a, b| nodes[*b].own_ms.total_cmp(&nodes[*a].own_ms));
    // Nodes are in preorder, so the last one is the deepest of the last branch.
    if let Some(paid) = (0..nodes.len())
        .rev()
        .find(|place| nodes[*place].own_ms >= ms)
    {
        order.insert(0, paid);
    }
    let mut taken_ms = 0.0;
    for place in order {
        taken_ms += take(&mut nodes[place].own_ms, ms - taken_ms);
    }
    taken_ms
}

fn part_of_node(nodes: &[AccountNode<'_>], place: usize) -> TimePart {
    let node = &nodes[place];
    let children = (0..nodes.len()).filter(|other| nodes[*other].parent == Some(place));
    let work = node.plan.actual.as_ref();
    let below: f64 = {
        let all = node.plan.children.iter();
        all.filter_map(|child| Some(child.actual.as_ref()?.blocks))
            .sum()
    };
    TimePart {
        rows: work.map(|work| work.rows),
        estimated_rows: work.map(|work| node.plan.rows * work.loops),
        loops: work.map(|work| work.loops),
        blocks: work.map(|work| (work.blocks - below).max(0.0)),
        children: children.map(|child| part_of_node(nodes, child)).collect(),
        ..TimePart::new(PartKind::Node, node.plan.label(), node.own_ms)
    }
}
