//! Table of the rules, each in its own file.
//!
//! A rule evaluates the evidence. It returns its findings, nothing if all is well, and [`Unavailable`]
//! if its evidence is unavailable.

mod checkpoints;
mod claims;
mod commit_flush;
mod connection_churn;
mod deep_paging;
mod discarded_rows;
mod evictions;
mod fast_path;
mod generic_plan;
mod hot_updates;
mod index_open_tax;
mod jit;
mod keys;
mod lock_chains;
mod lock_waits;
mod misestimates;
mod missing_index;
mod n_plus_one;
mod old_snapshots;
mod parallel_start;
mod planning_blind_spot;
mod planning_dominated;
mod regex_cache;
mod sequential_scans;
mod spills;
mod starved_queue;
mod statistics_cliff;
mod suggested_indexes;
mod transactions;
mod unpruned_partitions;
mod unused_index;
mod useless_indexes;
mod wasteful_steps;
mod whole_counts;

pub(crate) use commit_flush::flush_ns;
pub(crate) use lock_waits::explained_waits;
pub(crate) use suggested_indexes::candidates as suggested_indexes;
pub(crate) use wasteful_steps::ROWS as INDEX_ROWS;

use schemars::JsonSchema;
use serde::Serialize;

use super::evidence::{Evidence, Unavailable};
use super::finding::Finding;
use super::threshold::{Threshold, Thresholds};

/// A rule.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rule {
    /// Name of the rule, as `docs/reference/diagnosis-rules.md` has it.
    #[serde(rename = "rule")]
    pub name: &'static str,
    /// Short description of what it examines.
    pub looks_at: &'static str,
    /// Thresholds that it uses.
    #[serde(skip)]
    pub thresholds: &'static [Threshold],
    /// Evaluates the rule.
    #[serde(skip)]
    pub evaluate: fn(&Evidence, &Thresholds) -> Result<Vec<Finding>, Unavailable>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All rules.
pub const RULES: &[Rule] = &[
    index_open_tax::RULE,
    missing_index::RULE,
    unpruned_partitions::RULE,
    discarded_rows::RULE,
    deep_paging::RULE,
    whole_counts::RULE,
    planning_dominated::RULE,
    planning_blind_spot::RULE,
    jit::RULE,
    parallel_start::RULE,
    generic_plan::RULE,
    statistics_cliff::RULE,
    starved_queue::RULE,
    claims::RULE,
    keys::RULE,
    regex_cache::RULE,
    lock_waits::RULE,
    commit_flush::RULE,
    fast_path::RULE,
    hot_updates::RULE,
    spills::RULE,
    n_plus_one::RULE,
    transactions::RULE,
    old_snapshots::RULE,
    useless_indexes::RULE,
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
        let guide = include_str!("../../../../../docs/reference/diagnosis-rules.md");
        let rules = guide.split("\n## ").next().unwrap_or_default();
        let sections: Vec<&str> = rules
            .lines()
            .filter_map(|line| line.strip_prefix("### "))
            .collect();
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(sections, names);
    }

    /// Missing evidence must be reported, and must not count as well.
    #[test]
    fn rule_without_evidence_reports_it() {
        let mut made_up = crate::synthetic::EvidenceBuilder::new();
        let missing = || Unavailable::because("nobody looked");
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
            let looked = (rule.evaluate)(evidence, &Thresholds::default());
            assert!(
                looked.is_err(),
                "{} looked at nothing and found all well",
                rule.name
            );
        }
    }
}
