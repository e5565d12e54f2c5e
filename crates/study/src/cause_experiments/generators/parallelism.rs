//! Proposes to do without parallel workers if starting them takes longer than their work, or to allow them.

use diagnose::Change;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};

/// Time of a statement, in milliseconds, from which parallel workers may pay.
const LONG_MS: f64 = 200.0;

/// Proposes it for a plan with a Gather, or for a long statement on a server that allows no workers.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Option<Intervention> {
    let is_parallel = statement.plan().workers() > 0;
    let gather = |name: &str| statement.node_share(name);
    let mut share: f64 = 0.0;
    statement.plan().root.each(&mut |node, _| {
        if node.kind.starts_with("Gather") {
            share += gather(&node.label());
        }
    });
    let setting = "max_parallel_workers_per_gather";
    if is_parallel && share >= EXPENSIVE {
        return Some(Intervention {
            cause: "starting parallel workers takes longer than the work that they do".to_owned(),
            change: Change::setting("no parallel workers for it", setting, "0"),
            action: Action::OnPlan,
            risk: "long statements lose their parallel plans: set it for the role that sends short ones".to_owned(),
        });
    }
    let is_off = statement.setting(setting) == Some(0.0);
    (!is_parallel && is_off && statement.total_ms() >= LONG_MS).then(|| Intervention {
        cause: "parallel workers are off, and they would share the work".to_owned(),
        change: Change::setting("parallel workers", setting, "2"),
        action: Action::OnPlan,
        risk: "each worker takes a processor and work_mem of its own".to_owned(),
    })
}
