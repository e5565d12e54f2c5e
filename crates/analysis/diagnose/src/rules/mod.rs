//! The rules, one a file, in a table.
//!
//! A rule looks at the evidence and hands back what it found, nothing where it looked and all was well, and
//! [`Missing`] where it could not look.

mod checkpoints;
mod claims;
mod connection_churn;
mod evictions;
mod fast_path;
mod hot_updates;
mod index_open_tax;
mod indexes;
mod keys;
mod lock_waits;
mod misestimates;
mod missing_index;
mod n_plus_one;
mod old_snapshots;
mod planning_blind_spot;
mod planning_dominated;
mod regex_cache;
mod sequential_scans;
mod spills;
mod starved_queue;
mod statistics_cliff;
mod transactions;

pub(crate) use missing_index::ROWS as INDEX_ROWS;

use schemars::JsonSchema;
use serde::Serialize;

use super::evidence::{Evidence, Missing};
use super::finding::Finding;
use super::threshold::{Threshold, Thresholds};

/// A rule.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rule {
    /// Name of the rule, as `docs/diagnose.md` has it.
    #[serde(rename = "rule")]
    pub name: &'static str,
    /// What it looks at, in a few words.
    pub looks_at: &'static str,
    /// What it goes by.
    #[serde(skip)]
    pub thresholds: &'static [Threshold],
    /// Looks.
    #[serde(skip)]
    pub look: fn(&Evidence, &Thresholds) -> Result<Vec<Finding>, Missing>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All of them.
pub const RULES: &[Rule] = &[
    index_open_tax::RULE,
    missing_index::RULE,
    planning_dominated::RULE,
    planning_blind_spot::RULE,
    statistics_cliff::RULE,
    starved_queue::RULE,
    claims::RULE,
    keys::RULE,
    regex_cache::RULE,
    lock_waits::RULE,
    fast_path::RULE,
    hot_updates::RULE,
    spills::RULE,
    n_plus_one::RULE,
    transactions::RULE,
    old_snapshots::RULE,
    indexes::RULE,
    checkpoints::RULE,
    evictions::RULE,
    connection_churn::RULE,
    sequential_scans::RULE,
    misestimates::RULE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_and_threshold_is_in_the_guide() {
        let guide = include_str!("../../../../../docs/diagnose.md");
        let sections: Vec<&str> = guide
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .collect();
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(sections, names);
    }

    /// What nobody looked at is said, and never passes for well.
    #[test]
    fn a_rule_without_its_evidence_says_so() {
        let mut made_up = crate::made_up::MadeUp::new();
        let missing = || Missing::because("nobody looked");
        let evidence = &mut made_up.evidence;
        evidence.observed = Err(missing());
        evidence.counted = Err(missing());
        evidence.sample_ns = Err(missing());
        evidence.facts = Err(missing());
        evidence.plans = Err(missing());
        evidence.transactions = Err(missing());
        evidence.sessions = Err(missing());
        evidence.orders = Err(missing());
        for rule in RULES {
            let looked = (rule.look)(evidence, &Thresholds::default());
            assert!(
                looked.is_err(),
                "{} looked at nothing and found all well",
                rule.name
            );
        }
    }
}
