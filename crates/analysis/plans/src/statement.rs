//! Plans of one statement in two runs.

use run::{NoPlan, PlanFact, PlanOutcome};
use schemars::JsonSchema;
use serde::Serialize;
use workload::Sqlstate;

use super::change::{PlanComparison, compare_plans};
use super::node::{Plan, PlanShape};
use super::read::{PlanError, read_plan};
use workload::{Literals, redact_message};

/// Plans of one statement, and their differences.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementPlans {
    /// Plan before.
    pub before: PlanSide,
    /// Plan after.
    pub after: PlanSide,
    /// The differences; `null` unless both sides have a plan.
    pub comparison: Option<PlanComparison>,
}

/// One side's plan, or the reason why it has none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum PlanSide {
    /// The plan is known.
    Planned {
        /// The shape of the plan.
        shape: PlanShape,
        /// The plan itself.
        plan: Box<Plan>,
        /// The execution whose values were planned, if known.
        example: Option<PlanExample>,
    },
    /// It is not among the statements whose plans were requested.
    NotRequested,
    /// The server was not asked.
    NotAsked {
        /// The reason.
        reason: NoPlan,
    },
    /// The server refused.
    Refused {
        /// The error.
        sqlstate: Sqlstate,
        /// The server's message, redacted unless literals were asked for.
        message: String,
    },
    /// The server's answer could not be read.
    Unreadable {
        /// The reason.
        reason: PlanError,
    },
}

/// Execution in the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanExample {
    /// Number of the session.
    pub session: u64,
    /// Sequence of the event in its session.
    pub sequence: u64,
}

impl PlanSide {
    /// Converts the record of a statement's plan in a run.
    pub fn of(fact: Option<&PlanFact>, literals: Literals) -> Self {
        let Some(fact) = fact else {
            return PlanSide::NotRequested;
        };
        match &fact.outcome {
            PlanOutcome::Planned(text) => match read_plan(text) {
                Ok(mut plan) => {
                    if literals == Literals::Hidden {
                        plan.root.redact();
                    }
                    PlanSide::Planned {
                        shape: plan.shape(),
                        plan: Box::new(plan),
                        example: fact
                            .example
                            .map(|(session, sequence)| PlanExample { session, sequence }),
                    }
                }
                Err(reason) => PlanSide::Unreadable { reason },
            },
            PlanOutcome::Refused { sqlstate, message } => PlanSide::Refused {
                sqlstate: *sqlstate,
                message: redact_message(*sqlstate, message, literals),
            },
            PlanOutcome::Unasked(reason) => PlanSide::NotAsked { reason: *reason },
        }
    }

    /// Returns the plan, if there is one.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            PlanSide::Planned { plan, .. } => Some(plan),
            _ => None,
        }
    }
}

impl StatementPlans {
    /// Whether both plans are known and differ in shape.
    pub fn is_changed(&self) -> bool {
        self.comparison.as_ref().is_some_and(|found| !found.same)
    }
}

/// Compares the plans of a statement in two runs; `None` if neither run requested one.
pub fn statement_plans(
    before: Option<&PlanFact>,
    after: Option<&PlanFact>,
    literals: Literals,
) -> Option<StatementPlans> {
    before.or(after)?;
    let [before, after] = [before, after].map(|fact| PlanSide::of(fact, literals));
    let both = before.plan().zip(after.plan());
    Some(StatementPlans {
        comparison: both.map(|(one, other)| compare_plans(one, other)),
        before,
        after,
    })
}
