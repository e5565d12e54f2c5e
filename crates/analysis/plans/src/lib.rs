//! Execution plans (`EXPLAIN (FORMAT JSON)`): reads them into trees and compares them node by node.
//!
//! Two plans have the same [`PlanShape`] if they do the same operations in the same order. Costs,
//! estimates and the values in conditions do not count. If shapes differ, the trees are aligned so
//! that an inserted node (a Sort, a Gather) does not separate the nodes below it, and each
//! difference is described ([`PlanChange`]).

mod account;
mod actual;
mod align;
mod change;
mod lasting_shape;
mod measured;
mod node;
mod read;
mod risk;
mod statement;
mod written_partitions;

pub use account::{PartKind, TimePart, account_time};
pub use actual::{ActualWork, SpillPlace};
pub use change::{ESTIMATE_FACTOR, PlanChange, PlanComparison, StepMark, compare_plans};
pub use measured::{MeasuredTimes, TriggerTime, read_measured_times};
pub use node::{Condition, Plan, PlanNode, PlanShape};
pub use read::{PlanError, read_plan};
pub use risk::{PlanRisk, plan_risks};
pub use statement::{PlanExample, PlanSide, StatementPlans, statement_plans};
