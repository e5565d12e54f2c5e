//! What is much: numbers with names, each with where it comes from.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::Severity;
use super::rules::RULES;

/// A number that a rule goes by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Threshold {
    /// Its name, by which it can be set.
    pub name: &'static str,
    /// Its value if no other is set.
    #[serde(rename = "default")]
    pub value: f64,
    /// Its unit: `rows`, `share of time`, `calls a second` …
    pub unit: &'static str,
    /// What it decides.
    pub decides: &'static str,
    /// Its origin; `ours` if this project chose it.
    pub source: &'static str,
}

/// A threshold with its value now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdSetting {
    /// The threshold.
    #[serde(flatten)]
    pub threshold: &'static Threshold,
    /// Its value now.
    pub value: f64,
    /// Its rule; `null` if it belongs to all.
    pub rule: Option<&'static str>,
}

/// A finding that can win at least this share is a problem.
pub(super) const PROBLEM: Threshold = Threshold {
    name: "problem-share",
    value: 0.10,
    unit: "share of time",
    decides: "what can win so much is a problem",
    source: "ours",
};

/// A finding that can win at least this share is a warning, and less a note.
pub(super) const WARNING: Threshold = Threshold {
    name: "warning-share",
    value: 0.02,
    unit: "share of time",
    decides: "what can win so much is a warning, less is a note",
    source: "ours",
};

/// Below this a suspect is cleared.
pub(super) const CLEARED: Threshold = Threshold {
    name: "cleared-share",
    value: 0.05,
    unit: "share of time",
    decides: "a suspect that accounts for less of every time that is known is cleared",
    source: "ours",
};

/// Those that belong to no rule.
const GENERAL: [Threshold; 3] = [PROBLEM, WARNING, CLEARED];

/// Why a threshold cannot be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThresholdError {
    /// There is none of this name.
    Unknown(String),
    /// It is no number that can be one.
    NoNumber(String),
}

/// All thresholds, some of them set otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thresholds {
    set: HashMap<&'static str, f64>,
}

impl Thresholds {
    /// All there are, with the rule that each belongs to; those of all rules first.
    fn all() -> impl Iterator<Item = (Option<&'static str>, &'static Threshold)> {
        let general = GENERAL.iter().map(|one| (None, one));
        let of_rules = RULES.iter().flat_map(|rule| {
            let all = rule.thresholds.iter();
            all.map(move |one| (Some(rule.name), one))
        });
        general.chain(of_rules)
    }

    /// Its value now.
    pub fn of(&self, threshold: &Threshold) -> f64 {
        self.set
            .get(threshold.name)
            .copied()
            .unwrap_or(threshold.value)
    }

    /// Returns all of them with their values now; those of all rules first.
    pub fn settings(&self) -> impl Iterator<Item = ThresholdSetting> {
        Self::all().map(|(rule, threshold)| ThresholdSetting {
            threshold,
            value: self.of(threshold),
            rule,
        })
    }

    /// Sets one, as `name=value`.
    ///
    /// # Errors
    /// Where there is none of that name, or the value is no number from 0 on.
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
        self.set.insert(threshold.name, value);
        Ok(())
    }

    /// How bad something is that can win this share of the time.
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
    fn thresholds_have_names_of_their_own_and_can_be_set() {
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
}
