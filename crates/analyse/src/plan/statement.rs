//! The plans of one statement in two runs.

use run::{NoPlan, PlanFact, PlanOutcome};
use workload::Sqlstate;

use super::change::{PlanComparison, compare_plans};
use super::node::Plan;
use super::read::{PlanError, read_plan};

/// The plans of one statement, and what is different.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementPlans {
    /// Before.
    pub before: PlanSide,
    /// After.
    pub after: PlanSide,
    /// What is different, where both sides have a plan.
    pub comparison: Option<PlanComparison>,
}

/// One side's plan, or why it has none.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanSide {
    /// The plan, and of which execution: session and sequence in the workload.
    Planned(Box<Plan>, Option<(u64, u64)>),
    /// It was not among the statements whose plans were asked for.
    NotWanted,
    /// It was not asked for.
    Unasked(NoPlan),
    /// The server refused.
    Refused(Sqlstate, String),
    /// The server's answer could not be read.
    Unreadable(PlanError),
}

impl PlanSide {
    /// What a run has of a statement; `None` where that is nothing.
    pub fn of(fact: Option<&PlanFact>) -> Self {
        let Some(fact) = fact else {
            return PlanSide::NotWanted;
        };
        match &fact.outcome {
            PlanOutcome::Planned(text) => match read_plan(text) {
                Ok(plan) => PlanSide::Planned(Box::new(plan), fact.example),
                Err(error) => PlanSide::Unreadable(error),
            },
            PlanOutcome::Refused { sqlstate, message } => {
                PlanSide::Refused(*sqlstate, message.clone())
            }
            PlanOutcome::Unasked(reason) => PlanSide::Unasked(*reason),
        }
    }

    /// The plan, if there is one.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            PlanSide::Planned(plan, _) => Some(plan),
            _ => None,
        }
    }
}

/// Compares what two runs know of a statement's plan; `None` where neither asked for it.
pub fn statement_plans(
    before: Option<&PlanFact>,
    after: Option<&PlanFact>,
) -> Option<StatementPlans> {
    before.or(after)?;
    let (before, after) = (PlanSide::of(before), PlanSide::of(after));
    let both = before.plan().zip(after.plan());
    Some(StatementPlans {
        comparison: both.map(|(one, other)| compare_plans(one, other)),
        before,
        after,
    })
}
