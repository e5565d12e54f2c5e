//! Plans of a server (`EXPLAIN (FORMAT JSON)`): read into a tree, and compared node by node.
//!
//! Two plans have the same [`PlanShape`] if they do the same things in the same order: costs, estimates,
//! and the values in conditions do not count. Where shapes differ, the trees are aligned so that a
//! node that came in between (a Sort, a Gather) does not tear apart what is below it, and each
//! difference is named ([`PlanChange`]).

mod align;
mod change;
mod node;
mod read;
mod statement;

pub use change::{ESTIMATE_FACTOR, Mark, PlanChange, PlanComparison, compare_plans};
pub use node::{Condition, Plan, PlanNode, PlanShape};
pub use read::{PlanError, read_plan};
pub use statement::{PlanExample, PlanSide, StatementPlans, statement_plans};
