//! Proposes indexes for the scans that take the time.

use diagnose::proposed_indexes;
use plans::PlanNode;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};

/// Largest number of indexes for one statement.
const INDEXES_MAX: usize = 12;

/// Proposes indexes for the scans of the plan. If sorting or joining takes the time, all scans count.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Vec<Intervention> {
    let mut others = 0.0;
    statement.plan().root.each(&mut |node, _| {
        let is_other = node.is_join()
            || matches!(
                node.kind.as_str(),
                "Sort" | "Incremental Sort" | "Hash" | "Aggregate" | "Unique" | "WindowAgg"
            );
        if is_other {
            others += statement.node_share(&node.label());
        }
    });
    let is_expensive = |node: &PlanNode| {
        let share = statement.scan_share(node);
        share >= EXPENSIVE || (others >= EXPENSIVE && share >= EXPENSIVE / 10.0)
    };
    let fingerprint = statement.statement.fingerprint;
    // Plans of several parameter sets may ask for different indexes.
    let mut all: Vec<Intervention> = Vec::new();
    let plans = [statement.plan()]
        .into_iter()
        .chain(statement.baseline.iter().map(|times| &times.plan));
    for plan in plans {
        let proposed = proposed_indexes(statement.evidence, fingerprint, plan, &is_expensive);
        for one in proposed {
            if all.iter().any(|known| known.change.form == one.change.form) {
                continue;
            }
            all.push(Intervention {
                cause: format!(
                    "no index serves the {}, which takes {:.0} % of the statement's time",
                    one.scan,
                    (statement.node_share(&one.scan) * 100.0).min(100.0)
                ),
                risk: format!(
                    "every write to {} keeps it up to date, and it takes room; on a live server build it with \
                     CREATE INDEX CONCURRENTLY",
                    one.table
                ),
                change: one.change,
                action: Action::OnPlan,
            });
        }
    }
    all.truncate(INDEXES_MAX);
    all
}
