//! Forbids the kinds of nodes that take the time, to see whether the planner chose the wrong plan. It is never advice.

use diagnose::Change;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};

/// Kinds of nodes, and the settings that forbid them.
const FORBIDDEN: [(&str, &str); 7] = [
    ("Nested Loop", "enable_nestloop"),
    ("Hash Join", "enable_hashjoin"),
    ("Merge Join", "enable_mergejoin"),
    ("Seq Scan", "enable_seqscan"),
    ("Bitmap Heap Scan", "enable_bitmapscan"),
    ("Index Scan", "enable_indexscan"),
    ("Sort", "enable_sort"),
];

/// Forbids each kind of node that takes a noticeable part of the time, with the nodes below it for joins.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Vec<Intervention> {
    let mut all = Vec::new();
    for (kind, setting) in FORBIDDEN {
        let mut is_expensive = false;
        statement.plan().root.each(&mut |node, _| {
            let work = node.actual.as_ref().map_or(0.0, |work| work.ms);
            let share = match node.is_join() {
                true => work / statement.total_ms().max(f64::MIN_POSITIVE),
                false => statement.scan_share(node),
            };
            is_expensive |= node.kind == kind && share >= EXPENSIVE;
        });
        if is_expensive {
            all.push(Intervention {
                cause: format!("the planner chose a {kind}, and another plan is faster"),
                change: Change::manual(format!(
                    "find out why the planner estimates the other plan wrongly: with {setting} = off the statement is as fast as \
                     measured, but that is no advice for a server"
                )),
                action: Action::Diagnostic(vec![format!("SET LOCAL {setting} = off")]),
                risk: "none; nothing is changed".to_owned(),
            });
        }
    }
    all
}
