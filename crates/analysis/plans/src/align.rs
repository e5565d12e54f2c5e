//! Aligns the nodes of two plans by minimum tree edit distance: nodes are exchanged, inserted and
//! deleted without separating the nodes below them (Tai, "The Tree-to-Tree Correction Problem",
//! 1979, restricted to ordered lists of children, except that the two inputs of a join may be
//! swapped).

use super::node::PlanNode;

/// Maximum number of node pairs to compare. Larger plans are aligned by position.
const PAIRS_MAX: usize = 1_000_000;
/// Cost above which nodes count as unrelated, so that they are deleted and inserted instead of
/// exchanged.
const UNRELATED: u32 = 30;

/// Nodes of a plan in preorder, each with the numbers of its children.
pub(super) struct Steps<'p> {
    pub(super) nodes: Vec<&'p PlanNode>,
    pub(super) children: Vec<Vec<usize>>,
    pub(super) parents: Vec<Option<usize>>,
    /// Cost of deleting a node and its subtree.
    subtree: Vec<u32>,
}

impl<'p> Steps<'p> {
    pub(super) fn collect(root: &'p PlanNode) -> Self {
        let mut steps = Steps {
            nodes: Vec::new(),
            children: Vec::new(),
            parents: Vec::new(),
            subtree: Vec::new(),
        };
        let mut waiting = vec![(root, None)];
        while let Some((node, parent)) = waiting.pop() {
            let number = steps.nodes.len();
            steps.nodes.push(node);
            steps.children.push(Vec::new());
            steps.parents.push(parent);
            if let Some(parent) = parent {
                let above: &mut Vec<usize> = &mut steps.children[parent];
                above.push(number);
            }
            waiting.extend(
                node.children
                    .iter()
                    .rev()
                    .map(|child| (child, Some(number))),
            );
        }
        steps.subtree = steps.nodes.iter().map(|node| deletion_cost(node)).collect();
        for number in (1..steps.nodes.len()).rev() {
            if let Some(parent) = steps.parents[number] {
                steps.subtree[parent] = steps.subtree[parent].saturating_add(steps.subtree[number]);
            }
        }
        steps
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn below(&self, number: usize) -> u32 {
        self.subtree[number] - deletion_cost(self.nodes[number])
    }
}

/// Returns the cost of deleting or inserting a node.
fn deletion_cost(node: &PlanNode) -> u32 {
    match node.kind.as_str() {
        _ if node.is_part() => 1,
        _ if node.is_scan() => 12,
        _ if node.is_join() => 8,
        "ModifyTable" => 20,
        "Append" | "Merge Append" | "Aggregate" | "Group" | "WindowAgg" => 4,
        _ => 3,
    }
}

/// Returns the cost of exchanging one node for another.
fn substitution_cost(a: &PlanNode, b: &PlanNode) -> u32 {
    let same_thing = a.relation == b.relation && a.alias == b.alias;
    let family = |node: &PlanNode| match node.kind.as_str() {
        _ if node.is_scan() => 1,
        _ if node.is_join() => 2,
        _ if node.is_append() => 3,
        "Aggregate" | "Group" | "Unique" => 4,
        "Sort" | "Incremental Sort" => 5,
        "Gather" | "Gather Merge" => 6,
        "Materialize" | "Memoize" => 7,
        _ => 0,
    };
    let aside = |node: &PlanNode| matches!(node.relationship.as_str(), "InitPlan" | "SubPlan");
    let misplaced = if aside(a) == aside(b) { 0 } else { 6 };
    misplaced
        + match (family(a), family(b)) {
            (1, 1) if same_thing => {
                2 * u32::from(a.kind != b.kind) + u32::from(a.indexes() != b.indexes())
            }
            (1, 1) if a.relation == b.relation && a.relation.is_some() => 5,
            (1, 1) => UNRELATED,
            (0, 0) if a.kind == b.kind => u32::from(!same_thing) * 4,
            (0, 0) => UNRELATED,
            (one, other) if one == other => 2 * u32::from(a.name() != b.name()),
            _ => UNRELATED,
        }
}

/// Alignment decision for a pair of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlignmentStep {
    /// The nodes correspond, and their children in order.
    Pair,
    /// The nodes correspond, and their two children are swapped.
    Swapped,
    /// The first node is deleted; its given child continues.
    WithoutFirst(u32),
    /// The second node is inserted.
    WithoutSecond(u32),
}

/// Returns the pairs of corresponding nodes.
pub(super) fn align(a: &Steps<'_>, b: &Steps<'_>) -> Vec<(usize, usize)> {
    if a.len().saturating_mul(b.len()) > PAIRS_MAX {
        return align_by_position(a, b);
    }
    let width = b.len();
    let mut costs = vec![0_u32; a.len() * width];
    let mut ways = vec![AlignmentStep::Pair; a.len() * width];
    // Children have higher numbers than their parents.
    for first in (0..a.len()).rev() {
        for second in (0..width).rev() {
            let cost = |one: usize, other: usize| costs[one * width + other];
            let (below, children) = (&a.children[first], &b.children[second]);
            let own = substitution_cost(a.nodes[first], b.nodes[second]);
            let mut best = (
                own + lists(a, b, below, children, &cost),
                AlignmentStep::Pair,
            );
            let mut offer = |cost: u32, way: AlignmentStep| {
                if cost < best.0 {
                    best = (cost, way);
                }
            };
            if let (&[outer, inner], &[left, right]) = (&below[..], &children[..])
                && a.nodes[first].is_join()
                && b.nodes[second].is_join()
            {
                let swapped = cost(outer, right) + cost(inner, left) + 1;
                offer(own.saturating_add(swapped), AlignmentStep::Swapped);
            }
            for (place, &child) in below.iter().enumerate() {
                let others = a.below(first) - a.subtree[child];
                let all = deletion_cost(a.nodes[first]) + others + cost(child, second);
                offer(all, AlignmentStep::WithoutFirst(place as u32));
            }
            for (place, &child) in children.iter().enumerate() {
                let others = b.below(second) - b.subtree[child];
                let all = deletion_cost(b.nodes[second]) + others + cost(first, child);
                offer(all, AlignmentStep::WithoutSecond(place as u32));
            }
            costs[first * width + second] = best.0;
            ways[first * width + second] = best.1;
        }
    }
    let mut pairs = Vec::new();
    let mut waiting = vec![(0, 0)];
    while let Some((first, second)) = waiting.pop() {
        match ways[first * width + second] {
            AlignmentStep::Pair => {
                pairs.push((first, second));
                let cost = |one: usize, other: usize| costs[one * width + other];
                let (below, children) = (&a.children[first], &b.children[second]);
                waiting.extend(list_pairs(a, b, below, children, &cost));
            }
            AlignmentStep::Swapped => {
                pairs.push((first, second));
                waiting.push((a.children[first][0], b.children[second][1]));
                waiting.push((a.children[first][1], b.children[second][0]));
            }
            AlignmentStep::WithoutFirst(place) => {
                waiting.push((a.children[first][place as usize], second))
            }
            AlignmentStep::WithoutSecond(place) => {
                waiting.push((first, b.children[second][place as usize]))
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Returns the edit costs for all prefixes of two lists of nodes.
fn list_costs(
    a: &Steps<'_>,
    b: &Steps<'_>,
    first: &[usize],
    second: &[usize],
    cost: &impl Fn(usize, usize) -> u32,
) -> Vec<u32> {
    let width = second.len() + 1;
    let mut table = vec![0_u32; (first.len() + 1) * width];
    for row in 0..=first.len() {
        for column in 0..=second.len() {
            let mut best = match (row, column) {
                (0, 0) => 0,
                _ => u32::MAX,
            };
            if row > 0 {
                best = best.min(table[(row - 1) * width + column] + a.subtree[first[row - 1]]);
            }
            if column > 0 {
                best = best.min(table[row * width + column - 1] + b.subtree[second[column - 1]]);
            }
            if row > 0 && column > 0 {
                let pair = cost(first[row - 1], second[column - 1]);
                best = best.min(table[(row - 1) * width + column - 1] + pair);
            }
            table[row * width + column] = best;
        }
    }
    table
}

fn lists(
    a: &Steps<'_>,
    b: &Steps<'_>,
    first: &[usize],
    second: &[usize],
    cost: &impl Fn(usize, usize) -> u32,
) -> u32 {
    match (first, second) {
        ([], []) => 0,
        (&[one], &[other]) => cost(one, other).min(a.subtree[one].saturating_add(b.subtree[other])),
        _ => *list_costs(a, b, first, second, cost)
            .last()
            .expect("it has a corner"),
    }
}

fn list_pairs(
    a: &Steps<'_>,
    b: &Steps<'_>,
    first: &[usize],
    second: &[usize],
    cost: &impl Fn(usize, usize) -> u32,
) -> Vec<(usize, usize)> {
    let table = list_costs(a, b, first, second, cost);
    let width = second.len() + 1;
    let (mut row, mut column) = (first.len(), second.len());
    let mut pairs = Vec::new();
    while row > 0 && column > 0 {
        let here = table[row * width + column];
        let pair = cost(first[row - 1], second[column - 1]);
        if here == table[(row - 1) * width + column - 1] + pair {
            pairs.push((first[row - 1], second[column - 1]));
            (row, column) = (row - 1, column - 1);
        } else if here == table[(row - 1) * width + column] + a.subtree[first[row - 1]] {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    pairs
}

/// Pairs nodes at the same position.
fn align_by_position(a: &Steps<'_>, b: &Steps<'_>) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut waiting = vec![(0, 0)];
    while let Some((first, second)) = waiting.pop() {
        pairs.push((first, second));
        let both = a.children[first].iter().zip(&b.children[second]);
        waiting.extend(both.map(|(&one, &other)| (one, other)));
    }
    pairs.sort_unstable();
    pairs
}
