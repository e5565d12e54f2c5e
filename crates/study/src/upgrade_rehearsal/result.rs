//! Report of a rehearsal.

use std::collections::BTreeMap;

use compare::proof::{Effect, Verdict};
use compare::{ErrorChange, StatementComparison};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_comparison::DataComparison;
use super::evidence::RehearsalEvidence;
use super::major_of;
use super::time_needed::AdvisedTime;
use crate::plan_check::PlanCheck;
use crate::upgrade_inspect::UpgradeInspection;
use crate::upgrade_remedies::UpgradeRegression;

/// Decision of a rehearsal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeDecision {
    /// Nothing speaks against the upgrade.
    Go,
    /// The upgrade can be done with the listed remedies.
    GoWithRemedies,
    /// Something got worse for which there is no remedy yet.
    NoGo,
    /// The measurements do not suffice.
    #[default]
    Undecided,
}

/// Way in which the new side of a rehearsal is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RehearsalMethod {
    /// Dump and restore into private servers.
    Dump,
    /// Dump and restore into a private server of the old version, and pg_upgrade of a copy of it.
    PgUpgrade,
    /// The user upgraded a copy.
    Target,
}

/// Part of the workload that was replayed on the new version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpgradeCoverage {
    /// Number of statements of the workload.
    pub statements: u64,
    /// Number of them that were sent to the new version.
    pub sent: u64,
    /// Captured duration of all statements, in microseconds; 0 if the capture has none.
    pub captured_us: u64,
    /// Captured duration of those that were sent.
    pub sent_captured_us: u64,
    /// Number of statements that succeeded, or failed as captured. Of all runs of both versions, the one with fewest
    /// successful statements counts.
    pub rehearsed: u64,
    /// Captured duration of these.
    pub rehearsed_captured_us: u64,
    /// Numbers of statements that failed in this run and not in the capture, by SQLSTATE.
    pub failed: BTreeMap<String, u64>,
    /// Numbers of statements that were not sent, by reason.
    pub not_sent: BTreeMap<String, u64>,
}

/// Action that the upgrade needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpgradeRemedy {
    /// Check that found it.
    pub check: String,
    /// Whether it is to be done before the upgrade.
    pub before: bool,
    /// Whether the rehearsal did it, so that the result holds only if it is done.
    pub performed: bool,
    /// Sentence on what was found.
    pub problem: String,
    /// Action.
    pub remedy: String,
    /// Objects, with database and detail.
    pub objects: Vec<String>,
    /// Statements and commands.
    pub statements: Vec<String>,
}

/// Replays of the old version and of the new one with all remedies of regressions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RemedyProof {
    /// Statements that were executed on the new server before the replays.
    pub statements: Vec<String>,
    /// Verdict on the response time of all statements.
    pub verdict: Verdict,
    /// Response time of all statements, new with remedies / old.
    pub effect: Option<Effect>,
    /// Blocks of tables and indexes that a run reads, new with remedies / old; `null` if it was not measured.
    pub work: Option<Effect>,
    /// Number of completed blocks of runs.
    pub blocks: u32,
    /// Statements that are slower in spite of the remedies.
    pub slower: Vec<StatementComparison>,
    /// Statements that look slower, for which chance could not be ruled out.
    pub suspected: Vec<StatementComparison>,
    /// Those of both lists that are no regression without the remedies, with what was seen of them alone. No remedy was searched.
    pub slower_only_with_remedies: Vec<UpgradeRegression>,
    /// Fingerprints of statements that were or looked slower without the remedies, and that the search did not compare. Their ratios
    /// are within the margin here.
    pub settled: Vec<String>,
    /// Errors that changed.
    pub errors: Vec<ErrorChange>,
    /// Number of statements with other rows or values.
    pub other_rows: u64,
    /// Extent of the comparison.
    pub evidence: RehearsalEvidence,
    /// Directory of the proof.
    pub proof: String,
}

/// Result of `upgrade WORKLOAD`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct UpgradeReport {
    /// Decision.
    pub decision: UpgradeDecision,
    /// Reasons for it, in sentences.
    pub reasons: Vec<String>,
    /// Remedies, those before the upgrade first.
    pub remedies: Vec<UpgradeRemedy>,
    /// Workload.
    pub workload: String,
    /// Database that was copied.
    pub database: String,
    /// Way in which the new side was made.
    pub method: RehearsalMethod,
    /// Address of the old server.
    pub from_server: String,
    /// Address of the new server; `null` for a private one.
    pub to_server: Option<String>,
    /// Version of the old side.
    pub from_version: String,
    /// Version of the new side.
    pub to_version: String,
    /// Coverage; `null` without a complete replay on the new version.
    pub coverage: Option<UpgradeCoverage>,
    /// Differences up to this share count as none: 0.05 is 5 %.
    pub margin: f64,
    /// Whether each run begins with the same data.
    pub is_restored: bool,
    /// Comparison of the data that both servers began with; `null` for private servers, which have the same dump.
    pub data: Option<DataComparison>,
    /// Differences of the copy from the data that the capture began with.
    pub other_data: Vec<String>,
    /// Extent of the comparison.
    pub evidence: RehearsalEvidence,
    /// Verdict on the response time of all statements; `null` without a measurement.
    pub verdict: Option<Verdict>,
    /// Response time of all statements, after / before.
    pub effect: Option<Effect>,
    /// Blocks of tables and indexes that a run reads, after / before; `null` if it was not measured. It does not depend on
    /// the load of the machine.
    pub work: Option<Effect>,
    /// Number of completed blocks of runs.
    pub blocks: u32,
    /// Time that another rehearsal of this workload needs for a decision; `null` without a run.
    pub advised_time: Option<AdvisedTime>,
    /// Statements that got slower.
    pub slower: Vec<StatementComparison>,
    /// Statements that look slower, for which chance could not be ruled out.
    pub suspected: Vec<StatementComparison>,
    /// Number of statements that got faster.
    pub faster: u64,
    /// Errors that changed.
    pub errors: Vec<ErrorChange>,
    /// Number of statements with other rows or values.
    pub other_rows: u64,
    /// Statements that are worse on the new version, with cause and remedy.
    pub regressions: Vec<UpgradeRegression>,
    /// Proof of all remedies together; `null` if there are none, or no replays with them.
    pub remedied: Option<RemedyProof>,
    /// Plans of all statements on both versions; `null` if they could not be compared.
    pub plans: Option<PlanCheck>,
    /// Errors of the restore into the new version that the old one did not report.
    pub restore_errors: Vec<String>,
    /// Errors of the restore into both versions. The objects are missing on both, so that statements on them prove nothing.
    pub restore_errors_of_both: Vec<String>,
    /// Findings of the inspection.
    pub inspection: UpgradeInspection,
    /// Directory of the proof, with a page and a comparison.
    pub proof: String,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl UpgradeReport {
    /// Whether both sides have one major version, so that nothing is shown of an upgrade to another.
    pub fn has_one_major_version(&self) -> bool {
        let majors = [&self.from_version, &self.to_version].map(|version| major_of(version).ok());
        majors[0].is_some() && majors[0] == majors[1]
    }

    /// Whether an action is needed before the upgrade, without which it fails.
    pub fn is_blocked(&self) -> bool {
        self.remedies.iter().any(|one| one.before)
    }
}
