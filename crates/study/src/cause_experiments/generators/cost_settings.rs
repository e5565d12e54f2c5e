//! Proposes costs that fit the server: cached data are as cheap to read in any order.

use diagnose::Change;
use plans::PlanNode;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};

const RISK: &str = "it changes the plans of all statements: prove it on the whole traffic before it is set for all";

/// Proposes them for scans of whole tables and of bitmaps.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Vec<Intervention> {
    // A join takes time by the rows that a scan gives it.
    let mut joins = 0.0;
    statement.plan().root.each(&mut |node: &PlanNode, _| {
        if node.is_join() {
            joins += statement.node_share(&node.label());
        }
    });
    let least = match joins >= EXPENSIVE {
        true => EXPENSIVE / 10.0,
        false => EXPENSIVE,
    };
    let mut is_expensive = false;
    statement.plan().root.each(&mut |node: &PlanNode, _| {
        let reads_all = matches!(node.kind.as_str(), "Seq Scan" | "Bitmap Heap Scan")
            || node.kind == "Index Only Scan";
        is_expensive |= reads_all && statement.scan_share(node) >= least;
    });
    if !is_expensive {
        return Vec::new();
    }
    let mut all = Vec::new();
    if statement.setting("random_page_cost").unwrap_or(4.0) > 1.5 {
        all.push(Intervention {
            cause: "the planner takes reads in any order for expensive, and avoids an index that is faster".to_owned(),
            change: Change::setting("costs of cached data or of flash storage", "random_page_cost", "1.1"),
            action: Action::OnPlan,
            risk: RISK.to_owned(),
        });
    }
    let blocks = statement
        .setting("effective_cache_size")
        .unwrap_or(524_288.0);
    if blocks < 524_288.0 {
        all.push(Intervention {
            cause: "the planner takes the cache for smaller than it is, and avoids an index that is faster".to_owned(),
            change: Change::setting(
                "the size of the cache: about three quarters of the memory",
                "effective_cache_size",
                "4GB",
            ),
            action: Action::OnPlan,
            risk: RISK.to_owned(),
        });
    }
    all
}
