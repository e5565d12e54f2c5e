//! What is different between two plans.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::align::{Steps, align};
use super::node::{Condition, Plan, PlanNode, PlanShape};

/// Estimated rows that differ by more than this factor are named.
pub const ESTIMATE_FACTOR: f64 = 10.0;

/// Two plans of a statement, compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanComparison {
    /// They do the same in the same order, whatever they cost.
    pub same: bool,
    /// The shape before.
    pub before_shape: PlanShape,
    /// The shape after.
    pub after_shape: PlanShape,
    /// What is different, what tells most first. Of plans that are the same: wording, estimates and
    /// settings.
    pub changes: Vec<PlanChange>,
    /// Indexes that only the plan before uses.
    pub indexes_gone: Vec<String>,
    /// Indexes that only the plan after uses.
    pub indexes_new: Vec<String>,
    /// Of each step before, from the top, what became of it.
    pub before_marks: Vec<Mark>,
    /// Of each step after, from the top, where it came from.
    pub after_marks: Vec<Mark>,
}

/// A step compared with the other plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It is in both.
    Same,
    /// It has a counterpart that does it otherwise.
    Changed,
    /// It has none.
    Alone,
}

/// A difference between two plans.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum PlanChange {
    /// A step does what another one did.
    Step {
        /// What it was.
        before: String,
        /// What it is.
        after: String,
        /// How many partitions more have the same change.
        more: usize,
    },
    /// A step that was not there.
    New {
        /// What it is.
        step: String,
        /// What it sorts, groups or filters by.
        by: Option<Condition>,
    },
    /// A step that is there no more.
    Gone {
        /// What it was.
        step: String,
        /// What it sorted, grouped or filtered by.
        by: Option<Condition>,
    },
    /// The same tables are joined in another order.
    JoinOrder {
        /// The order before.
        before: Vec<String>,
        /// The order after.
        after: Vec<String>,
    },
    /// Another number of partitions, or of what else is put together, is read.
    Partitions {
        /// How many before.
        before: u64,
        /// How many after.
        after: u64,
    },
    /// Another number of processes helps.
    Workers {
        /// How many before.
        before: u64,
        /// How many after.
        after: u64,
    },
    /// A step filters, joins, sorts or groups by something else.
    Condition {
        /// Which step.
        step: String,
        /// Which of its conditions.
        label: String,
        /// What it was; `None` where there was none.
        before: Option<String>,
        /// What it is.
        after: Option<String>,
    },
    /// Rows are estimated otherwise, by more than [`ESTIMATE_FACTOR`].
    Rows {
        /// Which step.
        step: String,
        /// Estimated before.
        before: f64,
        /// Estimated after.
        after: f64,
    },
    /// Compiled in one plan only.
    Jit {
        /// Whether the one after is.
        after: bool,
    },
    /// A setting that bears on planning.
    Setting {
        /// Which.
        name: String,
        /// Its value; `None` where it is as by default.
        before: Option<String>,
        /// Its value after.
        after: Option<String>,
    },
}

/// Compares two plans of one statement.
pub fn compare_plans(before: &Plan, after: &Plan) -> PlanComparison {
    let (a, b) = (Steps::of(&before.root), Steps::of(&after.root));
    let pairs = align(&a, &b);
    let (before_shape, after_shape) = (before.shape(), after.shape());
    let mut found = Found {
        a: &a,
        b: &b,
        parallel: before.workers() != after.workers(),
        partitions: members(&a) != members(&b),
        before_marks: vec![Mark::Alone; a.nodes.len()],
        after_marks: vec![Mark::Alone; b.nodes.len()],
    };
    let mut changes = found.steps(&pairs);
    changes.extend(found.alone());
    found.settle_parts();

    let (order_before, order_after) = (order(&before.root), order(&after.root));
    if is_reordered(&order_before, &order_after) {
        changes.push(PlanChange::JoinOrder {
            before: order_before,
            after: order_after,
        });
    }
    if found.partitions {
        let of = |steps| members(steps).max(1);
        changes.push(PlanChange::Partitions {
            before: of(&a),
            after: of(&b),
        });
    }
    if found.parallel {
        changes.push(PlanChange::Workers {
            before: before.workers(),
            after: after.workers(),
        });
    }
    changes.extend(found.conditions(&pairs));
    changes.extend(found.rows(&pairs));
    if before.jit != after.jit {
        changes.push(PlanChange::Jit { after: after.jit });
    }
    changes.extend(settings(before, after));
    let (used, uses) = (indexes(&before.root), indexes(&after.root));
    PlanComparison {
        same: before_shape == after_shape,
        before_shape,
        after_shape,
        changes,
        indexes_gone: used.difference(&uses).cloned().collect(),
        indexes_new: uses.difference(&used).cloned().collect(),
        before_marks: found.before_marks,
        after_marks: found.after_marks,
    }
}

struct Found<'p> {
    a: &'p Steps<'p>,
    b: &'p Steps<'p>,
    /// Another number of workers, which says all about the steps that come with it.
    parallel: bool,
    /// Another number of partitions.
    partitions: bool,
    before_marks: Vec<Mark>,
    after_marks: Vec<Mark>,
}

impl Found<'_> {
    /// Steps that are done otherwise; alike ones of partitions once.
    fn steps(&mut self, pairs: &[(usize, usize)]) -> Vec<PlanChange> {
        let mut changes: Vec<PlanChange> = Vec::new();
        let mut of_partitions: BTreeMap<(String, String), usize> = BTreeMap::new();
        for &(first, second) in pairs {
            let (one, other) = (self.a.nodes[first], self.b.nodes[second]);
            let differs = one.name() != other.name()
                || one.indexes() != other.indexes()
                || one.relation != other.relation;
            let mark = if differs { Mark::Changed } else { Mark::Same };
            self.before_marks[first] = mark;
            self.after_marks[second] = mark;
            if !differs || one.is_part() && other.is_part() {
                continue;
            }
            if self.parallel && serial_name(one) == serial_name(other) {
                // That it is shared, or done in parts, is what workers are for.
                if one.indexes() == other.indexes() && one.relation == other.relation {
                    continue;
                }
            }
            let is_member = |steps: &Steps<'_>, number: usize| {
                steps.parents[number].is_some_and(|parent| steps.nodes[parent].is_append())
            };
            if one.is_scan() && is_member(self.a, first) && is_member(self.b, second) {
                match of_partitions.entry((one.name(), other.name())) {
                    std::collections::btree_map::Entry::Occupied(known) => {
                        if let PlanChange::Step { more, .. } = &mut changes[*known.get()] {
                            *more += 1;
                        }
                        continue;
                    }
                    std::collections::btree_map::Entry::Vacant(new) => {
                        new.insert(changes.len());
                    }
                }
            }
            changes.push(PlanChange::Step {
                before: described(one),
                after: described(other),
                more: 0,
            });
        }
        // What is read otherwise tells most, then what is joined otherwise.
        let rank = |change: &PlanChange| match change {
            PlanChange::Step { before, .. } if before.contains(" Scan") => 0,
            PlanChange::Step { before, .. } if before.contains("Join") => 1,
            PlanChange::Step { before, .. } if before.contains("Nested Loop") => 1,
            _ => 2,
        };
        changes.sort_by_key(rank);
        changes
    }

    /// Steps without a counterpart.
    fn alone(&self) -> Vec<PlanChange> {
        let told = |steps: &Steps<'_>, marks: &[Mark]| -> Vec<(String, Option<Condition>)> {
            let alone = (0..marks.len()).filter(|&number| {
                let node = steps.nodes[number];
                let parent = steps.parents[number].map(|parent| steps.nodes[parent]);
                let of_partitions = self.partitions
                    && (node.is_append() || parent.is_some_and(PlanNode::is_append));
                let of_workers =
                    self.parallel && (node.kind.starts_with("Gather") || node.partial.is_some());
                let of_bitmap = parent.is_some_and(|parent| parent.kind.starts_with("Bitmap"));
                marks[number] == Mark::Alone
                    && !(of_partitions || of_workers || of_bitmap || node.is_part())
            });
            alone
                .map(|number| {
                    let node = steps.nodes[number];
                    let by = node
                        .conditions
                        .iter()
                        .find(|one| one.label.ends_with("Key"));
                    (described(node), by.cloned())
                })
                .collect()
        };
        let new = told(self.b, &self.after_marks);
        let gone = told(self.a, &self.before_marks);
        let new = new
            .into_iter()
            .map(|(step, by)| PlanChange::New { step, by });
        let gone = gone
            .into_iter()
            .map(|(step, by)| PlanChange::Gone { step, by });
        new.chain(gone).collect()
    }

    /// What is part of the step above is marked as that is.
    fn settle_parts(&mut self) {
        for (steps, marks) in [
            (self.a, &mut self.before_marks),
            (self.b, &mut self.after_marks),
        ] {
            for number in 0..marks.len() {
                if steps.nodes[number].is_part()
                    && let Some(parent) = steps.parents[number]
                    && steps.nodes[number].kind != "Hash"
                {
                    marks[number] = marks[parent];
                }
            }
        }
    }

    /// Conditions of steps that are the same otherwise.
    fn conditions(&self, pairs: &[(usize, usize)]) -> Vec<PlanChange> {
        let mut changes = Vec::new();
        for &(first, second) in pairs {
            let (one, other) = (self.a.nodes[first], self.b.nodes[second]);
            if self.before_marks[first] != Mark::Same {
                continue;
            }
            let all = one.conditions.iter().chain(&other.conditions);
            let labels: BTreeSet<&str> = all.map(|condition| condition.label.as_str()).collect();
            for label in labels {
                let of = |node: &PlanNode| {
                    let found = node.conditions.iter().find(|one| one.label == label);
                    found.map(|found| (found.without_values(), found.text.clone()))
                };
                let (was, is) = (of(one), of(other));
                let plain = |side: &Option<(String, String)>| {
                    side.as_ref()
                        .map(|(without_values, _)| without_values.clone())
                };
                if plain(&was) != plain(&is) {
                    changes.push(PlanChange::Condition {
                        step: described(other),
                        label: label.to_owned(),
                        before: was.map(|(_, text)| text),
                        after: is.map(|(_, text)| text),
                    });
                }
            }
        }
        changes
    }

    /// Estimates of what is read, and of the whole, that are far apart.
    fn rows(&self, pairs: &[(usize, usize)]) -> Vec<PlanChange> {
        let far = |(first, second): &(usize, usize)| {
            let (one, other) = (self.a.nodes[*first], self.b.nodes[*second]);
            // What is carried out again and again gives fewer rows each time.
            let alike = repeated(self.a, *first) == repeated(self.b, *second);
            let told = (*first, *second) == (0, 0) || alike && one.is_scan() && other.is_scan();
            // The planner knows nothing below one row.
            let (was, is) = (one.rows.max(1.0), other.rows.max(1.0));
            let far = was / is > ESTIMATE_FACTOR || is / was > ESTIMATE_FACTOR;
            (told && far).then(|| PlanChange::Rows {
                step: described(other),
                before: one.rows,
                after: other.rows,
            })
        };
        pairs.iter().filter_map(far).collect()
    }
}

/// Whether a step is carried out for each row of another one.
fn repeated(steps: &Steps<'_>, mut number: usize) -> bool {
    while let Some(parent) = steps.parents[number] {
        let relationship = steps.nodes[number].relationship.as_str();
        let is_inner = relationship == "Inner" && steps.nodes[parent].kind == "Nested Loop";
        if is_inner || relationship == "SubPlan" {
            return true;
        }
        number = parent;
    }
    false
}

/// A step in words, without its number of workers.
fn described(node: &PlanNode) -> String {
    match node.workers {
        None => node.label(),
        Some(_) => node.name(),
    }
}

/// The name that the step has where it is not shared and not done in parts.
fn serial_name(node: &PlanNode) -> String {
    let name = node.name();
    let name = name.strip_prefix("Parallel ").unwrap_or(&name);
    let name = name.strip_prefix("Finalize ").unwrap_or(name);
    name.strip_prefix("Partial ").unwrap_or(name).to_owned()
}

/// How many steps are put together, in all.
fn members(steps: &Steps<'_>) -> u64 {
    let appends = (0..steps.nodes.len()).filter(|&number| steps.nodes[number].is_append());
    appends
        .map(|number| steps.children[number].len() as u64)
        .sum()
}

/// What is read, in the order in which it is joined; members of partitions left out.
fn order(root: &PlanNode) -> Vec<String> {
    let mut order = Vec::new();
    root.each(&mut |node, _| {
        if node.is_scan()
            && node.relationship != "Member"
            && let Some(name) = node.alias.as_ref().or(node.relation.as_ref())
        {
            order.push(name.clone());
        }
    });
    order
}

fn is_reordered(before: &[String], after: &[String]) -> bool {
    let sorted = |order: &[String]| {
        let mut sorted = order.to_vec();
        sorted.sort();
        sorted
    };
    before != after && before.len() > 1 && sorted(before) == sorted(after)
}

fn indexes(root: &PlanNode) -> BTreeSet<String> {
    let mut indexes = BTreeSet::new();
    root.each(&mut |node, _| indexes.extend(node.index.clone()));
    indexes
}

fn settings(before: &Plan, after: &Plan) -> Vec<PlanChange> {
    let names: BTreeSet<&String> = before
        .settings
        .keys()
        .chain(after.settings.keys())
        .collect();
    let differ = names.into_iter().filter_map(|name| {
        let (was, is) = (before.settings.get(name), after.settings.get(name));
        (was != is).then(|| PlanChange::Setting {
            name: name.clone(),
            before: was.cloned(),
            after: is.cloned(),
        })
    });
    differ.collect()
}
