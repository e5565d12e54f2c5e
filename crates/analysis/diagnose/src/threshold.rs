//! Named thresholds of the rules, each with its source.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::Severity;
use super::rules::RULES;

pub(super) const UNEXPLAINED_SHARE: Threshold = Threshold {
    name: "unexplained-share",
    value: 0.10,
    unit: "share of time",
    decides: "a statement with so much time that no finding explains heads the report",
    source: "ours",
};

pub(super) const UNEXPLAINED_CALL_MS: Threshold = Threshold {
    name: "unexplained-call-ms",
    value: 2.0,
    unit: "ms a call",
    decides: "a statement that takes less, with 10 µs a row and 0.2 ms a block that is read, needs no explanation",
    source: "ours",
};

pub(super) const UNEXPLAINED_BLOCKS: Threshold = Threshold {
    name: "unexplained-blocks",
    value: 100.0,
    unit: "blocks a row",
    decides: "a statement that reads fewer needs no explanation of its blocks",
    source: "ours: a few indexes of a few levels, and the rows themselves",
};

/// Threshold of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Threshold {
    /// Name, by which it can be set.
    pub name: &'static str,
    /// Default value.
    #[serde(rename = "default")]
    pub value: f64,
    /// Unit: `rows`, `share of time`, `calls a second` …
    pub unit: &'static str,
    /// Decision that it controls.
    pub decides: &'static str,
    /// Source; `ours` if this project chose it.
    pub source: &'static str,
}

impl Threshold {
    /// Whether it is a share, from 0 to 1.
    fn is_share(&self) -> bool {
        self.unit.starts_with("share")
    }
}

/// Threshold with its current value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdSetting {
    /// The threshold.
    #[serde(flatten)]
    pub threshold: &'static Threshold,
    /// Current value.
    pub value: f64,
    /// Rule that it belongs to; `null` if it applies to all.
    pub rule: Option<&'static str>,
}

/// Minimum gain of a problem.
pub(super) const PROBLEM: Threshold = Threshold {
    name: "problem-share",
    value: 0.10,
    unit: "share of time",
    decides: "what can win so much is a problem",
    source: "ours",
};

/// Minimum gain of a warning; findings with less are notes.
pub(super) const WARNING: Threshold = Threshold {
    name: "warning-share",
    value: 0.02,
    unit: "share of time",
    decides: "what can win so much is a warning, less is a note",
    source: "ours",
};

/// Share below which a suspect is cleared.
pub(super) const CLEARED: Threshold = Threshold {
    name: "cleared-share",
    value: 0.05,
    unit: "share of time",
    decides: "a suspect that accounts for less of every time that is known is cleared",
    source: "ours",
};

/// Thresholds that apply to all rules.
const GENERAL: [Threshold; 6] = [
    PROBLEM,
    WARNING,
    CLEARED,
    UNEXPLAINED_SHARE,
    UNEXPLAINED_CALL_MS,
    UNEXPLAINED_BLOCKS,
];

/// Reason why a threshold cannot be set.
#[derive(Debug, Clone, PartialEq)]
pub enum ThresholdError {
    /// There is no threshold of this name.
    Unknown(String),
    /// The value is not a valid number.
    NoNumber(String),
    /// The value is greater than 1, and the threshold is a share.
    NoShare {
        /// Name of the threshold.
        name: &'static str,
        /// The value.
        value: f64,
    },
}

/// All thresholds, some with values other than the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thresholds {
    set: HashMap<&'static str, f64>,
}

impl Thresholds {
    /// Returns all thresholds with their rules; those of all rules come first.
    fn all() -> impl Iterator<Item = (Option<&'static str>, &'static Threshold)> {
        let general = GENERAL.iter().map(|one| (None, one));
        let of_rules = RULES.iter().flat_map(|rule| {
            let all = rule.thresholds.iter();
            all.map(move |one| (Some(rule.name), one))
        });
        general.chain(of_rules)
    }

    /// Returns the current value.
    pub fn of(&self, threshold: &Threshold) -> f64 {
        self.set
            .get(threshold.name)
            .copied()
            .unwrap_or(threshold.value)
    }

    /// Returns all thresholds with their current values; those of all rules come first.
    pub fn settings(&self) -> impl Iterator<Item = ThresholdSetting> {
        Self::all().map(|(rule, threshold)| ThresholdSetting {
            threshold,
            value: self.of(threshold),
            rule,
        })
    }

    /// Sets a threshold from `name=value`.
    ///
    /// # Errors
    /// If there is no threshold of that name, or the value is not a number from 0 up, or to 1 for a share.
    pub fn set(&mut self, text: &str) -> Result<(), ThresholdError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let known = Self::all().find(|(_, one)| one.name == name.trim());
        let (_, threshold) =
            known.ok_or_else(|| ThresholdError::Unknown(name.trim().to_owned()))?;
        let value: f64 = value
            .trim()
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite() && *value >= 0.0)
            .ok_or_else(|| ThresholdError::NoNumber(text.to_owned()))?;
        if threshold.is_share() && value > 1.0 {
            let name = threshold.name;
            return Err(ThresholdError::NoShare { name, value });
        }
        self.set.insert(threshold.name, value);
        Ok(())
    }

    /// Returns the severity of a finding with this maximum gain.
    pub fn severity(&self, share: f64) -> Severity {
        if share >= self.of(&PROBLEM) {
            Severity::Problem
        } else if share >= self.of(&WARNING) {
            Severity::Warning
        } else {
            Severity::Note
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_names_are_unique_and_can_be_set() {
        let mut names: Vec<&str> = Thresholds::all().map(|(_, one)| one.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is there twice");
        let mut thresholds = Thresholds::default();
        assert_eq!(thresholds.severity(0.05), Severity::Warning);
        thresholds.set("problem-share=0.05").unwrap();
        assert_eq!(thresholds.severity(0.05), Severity::Problem);
        assert_eq!(thresholds.severity(0.01), Severity::Note);
        assert_eq!(
            thresholds.set("nothing=1"),
            Err(ThresholdError::Unknown("nothing".to_owned()))
        );
        for wrong in ["problem-share", "problem-share=x", "problem-share=-1"] {
            assert!(thresholds.set(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn share_above_one_is_refused_for_every_threshold_that_is_one() {
        for (_, threshold) in Thresholds::all() {
            let name = threshold.name;
            // Dead rows for each live one may be more than one.
            let is_share = name.ends_with("-share") && name != "claim-dead-share";
            assert!(
                !is_share || threshold.is_share(),
                "{name}: {}",
                threshold.unit
            );
            let mut thresholds = Thresholds::default();
            let set = thresholds.set(&format!("{name}=10"));
            let refused = ThresholdError::NoShare { name, value: 10.0 };
            match threshold.is_share() {
                true => assert_eq!(set, Err(refused)),
                false => assert_eq!(set, Ok(()), "{name}"),
            }
            assert_eq!(thresholds.set(&format!("{name}=1")), Ok(()));
        }
    }
}
