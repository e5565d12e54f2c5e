//! Describes the differences between two plans.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::align::{Steps, align};
use super::node::{Condition, Plan, PlanNode, PlanShape};

/// Estimated rows that differ by more than this factor are reported.
pub const ESTIMATE_FACTOR: f64 = 10.0;

/// Comparison of two plans of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanComparison {
    /// Whether both do the same operations in the same order, regardless of cost.
    pub same: bool,
    /// Shape of the plan before.
    pub before_shape: PlanShape,
    /// Shape of the plan after.
    pub after_shape: PlanShape,
    /// Differences, the most significant first. For plans of the same shape: wording of conditions,
    /// estimates and settings.
    pub changes: Vec<PlanChange>,
    /// Indexes that only the plan before uses.
    pub indexes_gone: Vec<String>,
    /// Indexes that only the plan after uses.
    pub indexes_new: Vec<String>,
    /// Mark of each node before, in preorder.
    pub before_marks: Vec<StepMark>,
    /// Mark of each node after, in preorder.
    pub after_marks: Vec<StepMark>,
}

/// Correspondence of a node with the other plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepMark {
    /// The node is in both plans.
    Same,
    /// The counterpart does the operation in another way.
    Changed,
    /// The node has no counterpart.
    Alone,
}

/// A difference between two plans.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum PlanChange {
    /// A node is replaced by another one.
    Step {
        /// The node before.
        before: String,
        /// The node after.
        after: String,
        /// Number of further partitions with the same change.
        more: usize,
    },
    /// A node is new.
    New {
        /// The new node.
        step: String,
        /// Its sort, group or filter condition.
        by: Option<Condition>,
    },
    /// A node is gone.
    Gone {
        /// The former node.
        step: String,
        /// Its sort, group or filter condition.
        by: Option<Condition>,
    },
    /// The same tables are joined in a different order.
    JoinOrder {
        /// The order before.
        before: Vec<String>,
        /// The order after.
        after: Vec<String>,
    },
    /// The number of partitions, or of other appended inputs, differs.
    Partitions {
        /// Number before.
        before: u64,
        /// Number after.
        after: u64,
    },
    /// The number of parallel workers differs.
    Workers {
        /// Number before.
        before: u64,
        /// Number after.
        after: u64,
    },
    /// The condition by which a node filters, joins, sorts or groups differs.
    Condition {
        /// The node.
        step: String,
        /// Label of the condition.
        label: String,
        /// Condition before; `None` if there was none.
        before: Option<String>,
        /// Condition after; `None` if there is none.
        after: Option<String>,
    },
    /// The estimated rows differ by more than [`ESTIMATE_FACTOR`].
    Rows {
        /// The node.
        step: String,
        /// Estimate before.
        before: f64,
        /// Estimate after.
        after: f64,
    },
    /// JIT compilation is used in one plan only.
    Jit {
        /// Whether the plan after uses it.
        after: bool,
    },
    /// A setting that affects planning differs.
    Setting {
        /// Name of the setting.
        name: String,
        /// Value before; `None` if it is the default.
        before: Option<String>,
        /// Value after; `None` if it is the default.
        after: Option<String>,
    },
}

/// Compares two plans of one statement.
pub fn compare_plans(before: &Plan, after: &Plan) -> PlanComparison {
    let (a, b) = (Steps::collect(&before.root), Steps::collect(&after.root));
    let pairs = align(&a, &b);
    let (before_shape, after_shape) = (before.shape(), after.shape());
    let mut found = AlignedPlans {
        a: &a,
        b: &b,
        parallel: before.workers() != after.workers(),
        partitions: count_members(&a) != count_members(&b),
        before_marks: vec![StepMark::Alone; a.nodes.len()],
        after_marks: vec![StepMark::Alone; b.nodes.len()],
    };
    let mut changes = found.changed_steps(&pairs);
    changes.extend(found.unmatched_steps());
    found.copy_marks_to_parts();

    let (order_before, order_after) = (join_order(&before.root), join_order(&after.root));
    if is_reordered(&order_before, &order_after) {
        changes.push(PlanChange::JoinOrder {
            before: order_before,
            after: order_after,
        });
    }
    if found.partitions {
        let of = |steps| count_members(steps).max(1);
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
    changes.extend(found.changed_conditions(&pairs));
    changes.extend(found.changed_estimates(&pairs));
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

struct AlignedPlans<'p> {
    a: &'p Steps<'p>,
    b: &'p Steps<'p>,
    /// The number of workers differs; this explains the nodes that come with it.
    parallel: bool,
    /// The number of partitions differs.
    partitions: bool,
    before_marks: Vec<StepMark>,
    after_marks: Vec<StepMark>,
}

impl AlignedPlans<'_> {
    /// Returns the nodes that are exchanged; equal changes of partitions are merged.
    fn changed_steps(&mut self, pairs: &[(usize, usize)]) -> Vec<PlanChange> {
        let mut changes: Vec<PlanChange> = Vec::new();
        let mut of_partitions: BTreeMap<(String, String), usize> = BTreeMap::new();
        for &(first, second) in pairs {
            let (one, other) = (self.a.nodes[first], self.b.nodes[second]);
            let differs = one.name() != other.name()
                || one.indexes() != other.indexes()
                || one.relation != other.relation;
            let mark = if differs {
                StepMark::Changed
            } else {
                StepMark::Same
            };
            self.before_marks[first] = mark;
            self.after_marks[second] = mark;
            if !differs || one.is_part() && other.is_part() {
                continue;
            }
            if self.parallel && serial_name(one) == serial_name(other) {
                // Parallel and partial variants are explained by the number of workers.
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
                before: describe_step(one),
                after: describe_step(other),
                more: 0,
            });
        }
        // Changed scans are the most significant, then changed joins.
        let rank = |change: &PlanChange| match change {
            PlanChange::Step { before, .. } if before.contains(" Scan") => 0,
            PlanChange::Step { before, .. } if before.contains("Join") => 1,
            PlanChange::Step { before, .. } if before.contains("Nested Loop") => 1,
            _ => 2,
        };
        changes.sort_by_key(rank);
        changes
    }

    /// Returns the nodes without a counterpart.
    fn unmatched_steps(&self) -> Vec<PlanChange> {
        let told = |steps: &Steps<'_>, marks: &[StepMark]| -> Vec<(String, Option<Condition>)> {
            let alone = (0..marks.len()).filter(|&number| {
                let node = steps.nodes[number];
                let parent = steps.parents[number].map(|parent| steps.nodes[parent]);
                let of_partitions = self.partitions
                    && (node.is_append() || parent.is_some_and(PlanNode::is_append));
                let of_workers =
                    self.parallel && (node.kind.starts_with("Gather") || node.partial.is_some());
                let of_bitmap = parent.is_some_and(|parent| parent.kind.starts_with("Bitmap"));
                marks[number] == StepMark::Alone
                    && !(of_partitions || of_workers || of_bitmap || node.is_part())
            });
            alone
                .map(|number| {
                    let node = steps.nodes[number];
                    let by = node
                        .conditions
                        .iter()
                        .find(|one| one.label.ends_with("Key"));
                    (describe_step(node), by.cloned())
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

    /// Marks nodes that are part of their parent like the parent.
    fn copy_marks_to_parts(&mut self) {
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

    /// Returns the changed conditions of nodes that otherwise correspond.
    fn changed_conditions(&self, pairs: &[(usize, usize)]) -> Vec<PlanChange> {
        let mut changes = Vec::new();
        for &(first, second) in pairs {
            let (one, other) = (self.a.nodes[first], self.b.nodes[second]);
            if self.before_marks[first] != StepMark::Same {
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
                        step: describe_step(other),
                        label: label.to_owned(),
                        before: was.map(|(_, text)| text),
                        after: is.map(|(_, text)| text),
                    });
                }
            }
        }
        changes
    }

    /// Returns the estimates of scans and of the whole plan that differ greatly.
    fn changed_estimates(&self, pairs: &[(usize, usize)]) -> Vec<PlanChange> {
        let far = |(first, second): &(usize, usize)| {
            let (one, other) = (self.a.nodes[*first], self.b.nodes[*second]);
            // A node that is executed repeatedly returns fewer rows each time.
            let alike = is_repeated(self.a, *first) == is_repeated(self.b, *second);
            // From version 14 on, a node that writes has no rows unless the statement returns some.
            let is_root = (*first, *second) == (0, 0) && one.kind != "ModifyTable";
            let told = is_root || alike && one.is_scan() && other.is_scan();
            // The planner never estimates less than one row.
            let (was, is) = (one.rows.max(1.0), other.rows.max(1.0));
            let far = was / is > ESTIMATE_FACTOR || is / was > ESTIMATE_FACTOR;
            (told && far).then(|| PlanChange::Rows {
                step: describe_step(other),
                before: one.rows,
                after: other.rows,
            })
        };
        pairs.iter().filter_map(far).collect()
    }
}

/// Whether a node is executed once for each row of another node.
fn is_repeated(steps: &Steps<'_>, mut number: usize) -> bool {
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

/// Describes a node without its number of workers.
fn describe_step(node: &PlanNode) -> String {
    match node.workers {
        None => node.label(),
        Some(_) => node.name(),
    }
}

/// Returns the node's name without `Parallel` and `Partial`.
fn serial_name(node: &PlanNode) -> String {
    let name = node.name();
    let name = name.strip_prefix("Parallel ").unwrap_or(&name);
    let name = name.strip_prefix("Finalize ").unwrap_or(name);
    name.strip_prefix("Partial ").unwrap_or(name).to_owned()
}

/// Counts the appended inputs.
fn count_members(steps: &Steps<'_>) -> u64 {
    let appends = (0..steps.nodes.len()).filter(|&number| steps.nodes[number].is_append());
    appends
        .map(|number| steps.children[number].len() as u64)
        .sum()
}

/// Returns the scanned relations in join order, without members of partitioned tables.
fn join_order(root: &PlanNode) -> Vec<String> {
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
