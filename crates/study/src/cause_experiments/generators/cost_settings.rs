//! Proposes costs that fit the server: cached data are as cheap to read in any order.

use diagnose::Change;
use plans::PlanNode;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};

const RISK: &str = "it changes the plans of all statements: prove it on the whole traffic before it is set for all";

/// `random_page_cost` of PostgreSQL's own configuration.
const RANDOM_PAGE_COST: f64 = 4.0;
/// The same of data that are cached or on flash storage.
const CACHED_PAGE_COST: f64 = 1.1;
/// `effective_cache_size` of PostgreSQL's own configuration, in blocks: 4 GB.
const CACHE_BLOCKS: f64 = 524_288.0;

/// Proposes them for scans of whole tables and of bitmaps. Those come first whose present value is worse than PostgreSQL's own; the
/// others come second.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> (Vec<Intervention>, Vec<Intervention>) {
    let (mut worsened, mut usual) = (Vec::new(), Vec::new());
    if !has_expensive_scan(statement) {
        return (worsened, usual);
    }
    let cost = statement.setting("random_page_cost");
    let cost = cost.unwrap_or(RANDOM_PAGE_COST);
    if cost > CACHED_PAGE_COST * 1.3 {
        let all = match cost > RANDOM_PAGE_COST {
            true => &mut worsened,
            false => &mut usual,
        };
        all.push(Intervention {
            cause: format!(
                "random_page_cost is {cost}, which makes index scans look more expensive than they are: the planner avoids an index that is faster"
            ),
            change: Change::setting("costs of cached data or of flash storage", "random_page_cost", "1.1"),
            action: Action::OnPlan,
            risk: RISK.to_owned(),
        });
    }
    let blocks = statement.setting("effective_cache_size");
    let blocks = blocks.unwrap_or(CACHE_BLOCKS);
    if blocks < CACHE_BLOCKS {
        worsened.push(Intervention {
            cause: format!(
                "effective_cache_size is {:.0} MB, less than the cache: the planner expects reads from disk, and avoids an index that is \
                 faster",
                blocks * 8.0 / 1_024.0
            ),
            change: Change::setting(
                "the size of the cache: about three quarters of the memory",
                "effective_cache_size",
                "4GB",
            ),
            action: Action::OnPlan,
            risk: RISK.to_owned(),
        });
    }
    (worsened, usual)
}

fn has_expensive_scan(statement: &MeasuredStatement<'_>) -> bool {
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
    is_expensive
}
