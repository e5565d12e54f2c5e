//! Conditions of `--fail-on` on checked plans.

use super::result::{
    CheckedStatement, ConditionHolds, Coverage, PlanPair, PlanVerdict, UncheckedStatement,
};
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
    /// The statements that could not be checked have more than this share of the captured time, in percent. Without captured
    /// times, of the executions.
    UncheckedAbove(f64),
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
        let number = |name: &str, unit: char| {
            let rest = text.trim().strip_prefix(name)?;
            let number = rest.trim().strip_prefix('>')?.trim();
            let number = number.strip_suffix(unit).unwrap_or(number).trim();
            number.parse::<f64>().ok().filter(|one| one.is_finite())
        };
        match (number("cost", 'x'), number("unchecked", '%')) {
            (Some(factor), _) if factor > 0.0 => Ok(PlanCondition::CostAbove(factor)),
            (_, Some(percent)) if (0.0..100.0).contains(&percent) => {
                Ok(PlanCondition::UncheckedAbove(percent))
            }
            _ => {
                let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "'{text}' is no condition on plans; give {}, 'unchecked > 20%', or 'cost > 2x'",
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
                PlanCondition::UncheckedAbove(percent) => write!(f, "unchecked > {percent}%"),
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
        let is_unchecked = match self {
            PlanCondition::Unchecked => true,
            PlanCondition::UncheckedAbove(percent) => {
                unchecked_percent(&Coverage::of(statements, unchecked, 0)) > *percent
            }
            _ => false,
        };
        let unchecked = unchecked.iter().filter(|_| is_unchecked);
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
            PlanCondition::Unchecked | PlanCondition::UncheckedAbove(_) => false,
            PlanCondition::CostAbove(factor) => {
                any(&|pair| pair.cost_ratio.is_some_and(|ratio| ratio > *factor))
            }
        }
    }
}

/// Returns the share of the captured time that was not checked, in percent. Without captured times, that of the executions.
fn unchecked_percent(coverage: &Coverage) -> f64 {
    let (unchecked, all) = match coverage.all_captured_us() {
        0 => (
            coverage.unchecked_executions,
            coverage.executions + coverage.unchecked_executions,
        ),
        all => (coverage.unchecked_captured_us, all),
    };
    #[expect(clippy::cast_precision_loss, reason = "a share in percent")]
    let percent = unchecked as f64 * 100.0 / all.max(1) as f64;
    percent
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
            "unchecked > 20%",
            "unchecked > 0%",
        ] {
            assert_eq!(text.parse::<PlanCondition>().unwrap().to_string(), text);
        }
        assert_eq!("cost>3".parse(), Ok(PlanCondition::CostAbove(3.0)));
        for text in [
            "",
            "cost",
            "cost > 0x",
            "cost < 2x",
            "p99 > 2x",
            "unchecked > 100%",
            "unchecked > -1%",
        ] {
            assert!(text.parse::<PlanCondition>().is_err(), "{text}");
        }
    }
}
