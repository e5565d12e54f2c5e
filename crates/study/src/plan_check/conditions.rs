//! Conditions of `--fail-on` on checked plans.

use super::result::{CheckedStatement, ConditionHolds, PlanPair, PlanVerdict, UncheckedStatement};
use plans::PlanRisk;

/// Condition on a statement's plans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlanCondition {
    /// The plan changed.
    Changed,
    /// The plan changed, and does in every perturbed copy of the statistics.
    StableChange,
    /// The statement is refused after, and was planned before.
    Error,
    /// [`PlanRisk::SequentialScan`]
    SequentialScan,
    /// [`PlanRisk::LostIndex`]
    LostIndex,
    /// [`PlanRisk::LostPruning`]
    LostPruning,
    /// A new nested loop is another join in a perturbed copy of the statistics.
    NestedLoop,
    /// [`PlanRisk::Jit`]
    Jit,
    /// The statement could not be checked.
    Unchecked,
    /// The estimated cost grows by more than this factor.
    CostAbove(f64),
}

/// Conditions without a number, by name.
const NAMED: [(&str, PlanCondition); 9] = [
    ("changed", PlanCondition::Changed),
    ("stable-change", PlanCondition::StableChange),
    ("error", PlanCondition::Error),
    ("sequential-scan", PlanCondition::SequentialScan),
    ("lost-index", PlanCondition::LostIndex),
    ("lost-pruning", PlanCondition::LostPruning),
    ("nested-loop", PlanCondition::NestedLoop),
    ("jit", PlanCondition::Jit),
    ("unchecked", PlanCondition::Unchecked),
];

impl std::str::FromStr for PlanCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, condition)) = NAMED.iter().find(|(name, _)| *name == text.trim()) {
            return Ok(*condition);
        }
        let factor = text.trim().strip_prefix("cost").and_then(|rest| {
            let number = rest.trim().strip_prefix('>')?.trim();
            number
                .strip_suffix('x')
                .unwrap_or(number)
                .trim()
                .parse::<f64>()
                .ok()
        });
        match factor {
            Some(factor) if factor.is_finite() && factor > 0.0 => {
                Ok(PlanCondition::CostAbove(factor))
            }
            _ => {
                let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "'{text}' is no condition on plans; give {}, or 'cost > 2x'",
                    names.join(", ")
                ))
            }
        }
    }
}

impl std::fmt::Display for PlanCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match NAMED.iter().find(|(_, condition)| condition == self) {
            Some((name, _)) => f.write_str(name),
            None => match self {
                PlanCondition::CostAbove(factor) => write!(f, "cost > {factor}x"),
                _ => Ok(()),
            },
        }
    }
}

impl PlanCondition {
    /// Whether it is decided with perturbed copies of the statistics.
    pub fn needs_perturbation(&self) -> bool {
        matches!(
            self,
            PlanCondition::StableChange | PlanCondition::NestedLoop
        )
    }

    /// Finds the statements for which it holds.
    pub(super) fn check(
        &self,
        statements: &[CheckedStatement],
        unchecked: &[UncheckedStatement],
    ) -> ConditionHolds {
        let holding = statements.iter().filter(|one| self.holds(one));
        let unchecked = unchecked
            .iter()
            .filter(|_| *self == PlanCondition::Unchecked);
        let statements: Vec<String> = holding
            .map(|one| &one.fingerprint)
            .chain(unchecked.map(|one| &one.fingerprint))
            .cloned()
            .collect();
        ConditionHolds {
            condition: self.to_string(),
            holds: !statements.is_empty(),
            statements,
        }
    }

    fn holds(&self, statement: &CheckedStatement) -> bool {
        let any = |test: &dyn Fn(&PlanPair) -> bool| statement.plans.iter().any(test);
        let risk = |test: &dyn Fn(&PlanRisk) -> bool| any(&|pair| pair.risks.iter().any(test));
        match self {
            PlanCondition::Changed => statement.verdict == PlanVerdict::Changed,
            PlanCondition::StableChange => any(&PlanPair::is_stable_change),
            PlanCondition::NestedLoop => any(&PlanPair::is_uncertain_nested_loop),
            PlanCondition::Error => statement.verdict == PlanVerdict::Error,
            PlanCondition::SequentialScan => {
                risk(&|risk| matches!(risk, PlanRisk::SequentialScan { .. }))
            }
            PlanCondition::LostIndex => risk(&|risk| matches!(risk, PlanRisk::LostIndex { .. })),
            PlanCondition::LostPruning => {
                risk(&|risk| matches!(risk, PlanRisk::LostPruning { .. }))
            }
            PlanCondition::Jit => risk(&|risk| *risk == PlanRisk::Jit),
            PlanCondition::Unchecked => false,
            PlanCondition::CostAbove(factor) => {
                any(&|pair| pair.cost_ratio.is_some_and(|ratio| ratio > *factor))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_back_as_they_are_written() {
        for text in [
            "changed",
            "lost-index",
            "unchecked",
            "cost > 2x",
            "cost > 1.5x",
        ] {
            assert_eq!(text.parse::<PlanCondition>().unwrap().to_string(), text);
        }
        assert_eq!("cost>3".parse(), Ok(PlanCondition::CostAbove(3.0)));
        for text in ["", "cost", "cost > 0x", "cost < 2x", "p99 > 2x"] {
            assert!(text.parse::<PlanCondition>().is_err(), "{text}");
        }
    }
}
