//! Which step of one plan is which of the other: the cheapest way to make one tree of the other by
//! exchanging steps for others, and by putting steps in and leaving steps out without tearing apart
//! what is below them (Tai, "The Tree-to-Tree Correction Problem", 1979, restricted to ordered lists of
//! children, of which a join's two may be swapped).

use super::node::PlanNode;

/// Pairs of steps that are compared at most; beyond, steps are set beside each other by their places.
const PAIRS_MAX: usize = 1_000_000;
/// Steps that have nothing to do with each other are left out and put in rather than exchanged.
const UNRELATED: u32 = 30;

/// A plan's steps in the order from the top, each with the numbers of those below.
pub(super) struct Steps<'p> {
    pub(super) nodes: Vec<&'p PlanNode>,
    pub(super) children: Vec<Vec<usize>>,
    pub(super) parents: Vec<Option<usize>>,
    /// What it costs to leave out a step, and all below it.
    subtree: Vec<u32>,
}

impl<'p> Steps<'p> {
    pub(super) fn of(root: &'p PlanNode) -> Self {
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
        steps.subtree = steps.nodes.iter().map(|node| weight(node)).collect();
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
        self.subtree[number] - weight(self.nodes[number])
    }
}

/// What it costs to leave a step out, or to put it in.
fn weight(node: &PlanNode) -> u32 {
    match node.kind.as_str() {
        _ if node.is_part() => 1,
        _ if node.is_scan() => 12,
        _ if node.is_join() => 8,
        "ModifyTable" => 20,
        "Append" | "Merge Append" | "Aggregate" | "Group" | "WindowAgg" => 4,
        _ => 3,
    }
}

/// What it costs to take one step for another.
fn exchange(a: &PlanNode, b: &PlanNode) -> u32 {
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

/// How a pair is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One is the other; the steps below in their order.
    Pair,
    /// One is the other, and the two below are swapped.
    Swapped,
    /// The first has no counterpart; this step below it goes on.
    WithoutFirst(u32),
    /// The second has none.
    WithoutSecond(u32),
}

/// Each step of the first plan with its counterpart in the second.
pub(super) fn align(a: &Steps<'_>, b: &Steps<'_>) -> Vec<(usize, usize)> {
    if a.len().saturating_mul(b.len()) > PAIRS_MAX {
        return by_place(a, b);
    }
    let width = b.len();
    let mut costs = vec![0_u32; a.len() * width];
    let mut ways = vec![Way::Pair; a.len() * width];
    // Steps below have higher numbers.
    for first in (0..a.len()).rev() {
        for second in (0..width).rev() {
            let cost = |one: usize, other: usize| costs[one * width + other];
            let (below, children) = (&a.children[first], &b.children[second]);
            let own = exchange(a.nodes[first], b.nodes[second]);
            let mut best = (own + lists(a, b, below, children, &cost), Way::Pair);
            let mut offer = |cost: u32, way: Way| {
                if cost < best.0 {
                    best = (cost, way);
                }
            };
            if let (&[outer, inner], &[left, right]) = (&below[..], &children[..])
                && a.nodes[first].is_join()
                && b.nodes[second].is_join()
            {
                let swapped = cost(outer, right) + cost(inner, left) + 1;
                offer(own.saturating_add(swapped), Way::Swapped);
            }
            for (place, &child) in below.iter().enumerate() {
                let others = a.below(first) - a.subtree[child];
                let all = weight(a.nodes[first]) + others + cost(child, second);
                offer(all, Way::WithoutFirst(place as u32));
            }
            for (place, &child) in children.iter().enumerate() {
                let others = b.below(second) - b.subtree[child];
                let all = weight(b.nodes[second]) + others + cost(first, child);
                offer(all, Way::WithoutSecond(place as u32));
            }
            costs[first * width + second] = best.0;
            ways[first * width + second] = best.1;
        }
    }
    let mut pairs = Vec::new();
    let mut waiting = vec![(0, 0)];
    while let Some((first, second)) = waiting.pop() {
        match ways[first * width + second] {
            Way::Pair => {
                pairs.push((first, second));
                let cost = |one: usize, other: usize| costs[one * width + other];
                let (below, children) = (&a.children[first], &b.children[second]);
                waiting.extend(list_pairs(a, b, below, children, &cost));
            }
            Way::Swapped => {
                pairs.push((first, second));
                waiting.push((a.children[first][0], b.children[second][1]));
                waiting.push((a.children[first][1], b.children[second][0]));
            }
            Way::WithoutFirst(place) => waiting.push((a.children[first][place as usize], second)),
            Way::WithoutSecond(place) => waiting.push((first, b.children[second][place as usize])),
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The costs of making one list of steps the other, for each beginning of both.
fn table(
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
        _ => *table(a, b, first, second, cost)
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
    let table = table(a, b, first, second, cost);
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

/// Each step with the one at the same place.
fn by_place(a: &Steps<'_>, b: &Steps<'_>) -> Vec<(usize, usize)> {
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
