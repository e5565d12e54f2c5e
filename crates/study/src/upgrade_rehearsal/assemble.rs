//! Report from the parts of a rehearsal.

use std::collections::BTreeMap;
use std::path::Path;

use compare::proof::Effect;
use run::{Outcome, RunReader};
use workload::WorkloadReader;

use super::decision;
use super::rehearsal_plan::RehearsalPlan;
use super::remedy_proof::FoundRemedies;
use super::result::{UpgradeCoverage, UpgradeDecision, UpgradeReport};
use super::{PreparedServers, UpgradeRequest};
use crate::failure::Failure;
use crate::plan_check::PlanCheck;
use crate::proof::{ProofJournal, ProofReport, ProofSideReport};
use crate::upgrade_inspect::UpgradeInspection;

/// Assembles the report, and decides.
///
/// # Errors
/// If a run cannot be read.
pub(super) fn assemble(
    request: &UpgradeRequest<'_>,
    (plan, whole): (&RehearsalPlan, &WorkloadReader),
    (inspection, servers): (UpgradeInspection, &PreparedServers),
    (journal, proof, remedies): (&ProofJournal, ProofReport, FoundRemedies),
    plans: Result<PlanCheck, Failure>,
) -> Result<UpgradeReport, Failure> {
    let after = journal.records().find(|one| one.trial.side == 1);
    let coverage = match after {
        Some(record) => Some(coverage(&journal.run_path(record.trial.number))?),
        None => None,
    };
    let mut notes = proof.notes.clone();
    notes.extend(remedies.notes);
    if let Err(failure) = &plans {
        notes.push(format!("plans were not compared: {}", failure.message));
    }
    let mut restore_errors = Vec::new();
    if let Some(copy) = &servers.copy {
        let errors = copy.errors();
        restore_errors = errors.new;
        notes.extend(copy.differences());
        let same = errors.both.iter();
        notes.extend(same.map(|error| format!("the restore failed on both versions: {error}")));
        let old = errors.old.iter();
        notes.extend(old.map(|error| format!("the restore failed on the old version: {error}")));
    }
    let side = proof.sides.into_iter().next();
    let mut report = UpgradeReport {
        decision: UpgradeDecision::Undecided,
        reasons: Vec::new(),
        remedies: decision::remedies(&inspection),
        workload: whole.path().display().to_string(),
        database: plan.database.clone(),
        method: request.method(),
        from_version: inspection.from_version.clone(),
        to_version: inspection.to_version.clone(),
        coverage,
        verdict: side.as_ref().map(|side| side.verdict),
        effect: side.as_ref().and_then(|side| side.effect),
        work: side.as_ref().and_then(work),
        blocks: side.as_ref().map_or(0, |side| side.blocks),
        slower: Vec::new(),
        suspected: Vec::new(),
        faster: 0,
        errors: Vec::new(),
        other_rows: 0,
        regressions: remedies.regressions,
        remedied: remedies.proof,
        plans: plans.ok(),
        restore_errors,
        inspection,
        proof: request.output.join("replays.proof").display().to_string(),
        notes,
    };
    if let Some(side) = side {
        report.slower = side.slower;
        report.suspected = side.suspected;
        report.faster = side.faster.len() as u64;
        report.errors = side.errors;
        report.other_rows = side.other_rows;
    }
    (report.decision, report.reasons) = decision::decide(&report);
    Ok(report)
}

/// Returns the effect on the work of whole runs.
pub(super) fn work(side: &ProofSideReport) -> Option<Effect> {
    let blocks = side.numbers.iter().find(|one| one.name == "blocks");
    blocks.and_then(|one| one.effect)
}

/// Counts the statements of a run that were sent.
fn coverage(path: &Path) -> Result<UpgradeCoverage, Failure> {
    let run = RunReader::open(path)?;
    let mut coverage = UpgradeCoverage::default();
    let mut not_sent: BTreeMap<String, u64> = BTreeMap::new();
    for execution in run.executions()? {
        let execution = execution?;
        if execution.fingerprint.is_none() {
            continue;
        }
        let captured_us = execution.captured.duration_us.unwrap_or(0);
        coverage.statements += 1;
        coverage.captured_us += captured_us;
        match execution.outcome {
            Outcome::Skipped(reason) => {
                *not_sent.entry(reason.name().to_owned()).or_default() += 1;
            }
            Outcome::Done | Outcome::Failed(_) => {
                coverage.sent += 1;
                coverage.sent_captured_us += captured_us;
            }
        }
    }
    coverage.not_sent = not_sent;
    Ok(coverage)
}
