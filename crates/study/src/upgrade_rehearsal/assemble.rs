//! Report from the parts of a rehearsal.

use compare::proof::Effect;
use run::{Captured, Outcome, RunReader};
use workload::WorkloadReader;

use super::data_comparison::DataComparison;
use super::decision;
use super::private_servers;
use super::rehearsal_plan::RehearsalPlan;
use super::remedy_proof::FoundRemedies;
use super::result::{UpgradeCoverage, UpgradeDecision, UpgradeReport};
use super::server_limits;
use super::time_needed::AdvisedTime;
use super::{MARGIN, PreparedServers, RehearsalServers, UpgradeRequest};
use crate::failure::Failure;
use crate::plan_check::PlanCheck;
use crate::proof::{ProofJournal, ProofReport, ProofSideReport};
use crate::upgrade_inspect::UpgradeInspection;

/// Largest number of statements with rows of the server that a note names.
const SERVER_ROWS_NAMED_MAX: usize = 5;

/// Assembles the report, and decides.
///
/// # Errors
/// If a run cannot be read.
pub(super) fn assemble(
    request: &UpgradeRequest<'_>,
    (plan, whole): (&RehearsalPlan, &WorkloadReader),
    (inspection, servers, data): (UpgradeInspection, &PreparedServers, Option<DataComparison>),
    (journal, proof, remedies): (&ProofJournal, ProofReport, FoundRemedies),
    plans: Result<PlanCheck, Failure>,
) -> Result<UpgradeReport, Failure> {
    let coverage = coverage(journal)?;
    let mut notes = proof.notes.clone();
    notes.extend(remedies.notes);
    if let Err(failure) = &plans {
        notes.push(format!("plans were not compared: {}", failure.message));
    }
    let mut restore_errors = Vec::new();
    let mut restore_errors_of_both = Vec::new();
    if let Some(copy) = &servers.copy {
        let errors = copy.errors();
        restore_errors = errors.new;
        restore_errors_of_both = errors.both;
        notes.extend(copy.differences());
        let old = errors.old.iter();
        notes.extend(old.map(|error| format!("the restore failed on the old version: {error}")));
    }
    if let Some(data) = data.as_ref().filter(|data| !data.uncounted.is_empty()) {
        notes.push(format!(
            "rows were not counted, and sizes compared instead: {}",
            data.uncounted.join(", ")
        ));
    }
    notes.extend(note_on_server_rows(&remedies.evidence.rows_of_server));
    let side = proof.sides.into_iter().next();
    let mut report = UpgradeReport {
        decision: UpgradeDecision::Undecided,
        reasons: Vec::new(),
        remedies: decision::remedies(&inspection),
        workload: whole.path().display().to_string(),
        database: plan.database.clone(),
        method: request.method(),
        from_server: request.from.address(),
        to_server: match &request.servers {
            RehearsalServers::Private { .. } => None,
            RehearsalServers::Own(own) => Some(own.target.address()),
        },
        from_version: inspection.from_version.clone(),
        to_version: inspection.to_version.clone(),
        coverage,
        margin: MARGIN,
        is_restored: is_restored(&request.servers, whole),
        data,
        other_data: servers.checks.other_data.clone(),
        evidence: remedies.evidence,
        verdict: side.as_ref().map(|side| side.verdict),
        effect: side.as_ref().and_then(|side| side.effect),
        work: side.as_ref().and_then(work),
        blocks: side.as_ref().map_or(0, |side| side.blocks),
        advised_time: AdvisedTime::new(journal, request.within),
        slower: Vec::new(),
        suspected: Vec::new(),
        faster: 0,
        errors: Vec::new(),
        other_rows: 0,
        regressions: remedies.regressions,
        remedied: remedies.proof,
        plans: plans.ok(),
        restore_errors,
        restore_errors_of_both,
        inspection,
        proof: request.output.join("replays.proof").display().to_string(),
        notes,
    };
    if let Some(side) = side {
        report.slower = side.slower;
        report.suspected = side.suspected;
        report.faster = side.faster.len() as u64;
        report.errors = side.errors;
        report.other_rows = report.evidence.other_rows;
    }
    let unequal_hosts = servers.unequal_hosts.as_deref();
    (report.decision, report.reasons) = decision::decide(&report, unequal_hosts);
    limit_by_builds(&mut report, servers);
    if let Some(same) = &servers.same_version {
        report.reasons.insert(0, same.clone());
    }
    add_refusal(
        &mut report,
        &private_servers::upgrade_refusal(request.output),
    );
    Ok(report)
}

/// Adds what the builds and the data of the servers do not allow to conclude.
fn limit_by_builds(report: &mut UpgradeReport, servers: &PreparedServers) {
    let is_private = servers.copy.is_some();
    let jit = server_limits::jit(&report.evidence.builds, &servers.checks).filter(|_| is_private);
    if let Some(jit) = jit {
        report.reasons.insert(0, jit);
        report.decision = match report.decision {
            UpgradeDecision::Go | UpgradeDecision::GoWithRemedies => UpgradeDecision::Undecided,
            other => other,
        };
    }
    let builds = server_limits::builds(&report.evidence.builds);
    let data = server_limits::other_data(&report.other_data);
    report.reasons.extend(builds.into_iter().chain(data));
}

/// Adds that pg_upgrade refuses the old server, in front of the reasons. The replays were on a restored dump then.
fn add_refusal(report: &mut UpgradeReport, messages: &[String]) {
    if !messages.is_empty() {
        report.decision = UpgradeDecision::NoGo;
        let reason = format!(
            "pg_upgrade --check refuses the old version's private server, so the replays are on one restored from the dump: {}",
            messages.join(" ")
        );
        report.reasons.insert(0, reason);
    }
}

/// Names the statements with other rows that read only catalogues, settings or the version.
fn note_on_server_rows(statements: &[String]) -> Option<String> {
    let shown = statements.iter().take(SERVER_ROWS_NAMED_MAX);
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    let more = match statements.len() - shown.len() {
        0 => String::new(),
        more => format!("; and {more} more, see the JSON file"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "statements that read only catalogues, settings or the version of the server return other rows on the new one, as they \
             should; check that drivers and monitoring accept them: {}{more}",
            shown.join("; ")
        )
    })
}

/// Returns the effect on the work of whole runs.
pub(super) fn work(side: &ProofSideReport) -> Option<Effect> {
    let blocks = side.numbers.iter().find(|one| one.name == "blocks");
    blocks.and_then(|one| one.effect)
}

/// Whether each run begins with the same data.
fn is_restored(servers: &RehearsalServers, whole: &WorkloadReader) -> bool {
    match servers {
        RehearsalServers::Private { .. } => true,
        RehearsalServers::Own(own) => {
            let place = &own.place;
            place.restore.is_some() || place.template.is_some() || whole.info().writes == 0
        }
    }
}

/// Counts the statements that were sent and that had the captured outcome, in the run with fewest successful statements
/// of both versions; `None` without a run on the new version.
fn coverage(journal: &ProofJournal) -> Result<Option<UpgradeCoverage>, Failure> {
    let worst = |side: usize| {
        let runs = journal.records().filter(|one| one.trial.side == side);
        runs.min_by_key(|one| one.numbers.done)
    };
    let Some(new) = worst(1) else {
        return Ok(None);
    };
    let of = |number: u32| -> Result<UpgradeCoverage, Failure> {
        let run = RunReader::open(&journal.run_path(number))?;
        let mut coverage = UpgradeCoverage::default();
        for execution in run.executions()? {
            let execution = execution?;
            if execution.fingerprint.is_some() {
                add(&mut coverage, execution.outcome, &execution.captured);
            }
        }
        Ok(coverage)
    };
    let mut coverage = of(new.trial.number)?;
    if let Some(old) = worst(0).filter(|old| old.numbers.done < new.numbers.done) {
        let old = of(old.trial.number)?;
        coverage.rehearsed = old.rehearsed;
        coverage.rehearsed_captured_us = old.rehearsed_captured_us;
        coverage.failed = old.failed;
    }
    Ok(Some(coverage))
}

/// Adds the execution of a statement.
fn add(coverage: &mut UpgradeCoverage, outcome: Outcome, captured: &Captured) {
    let captured_us = captured.duration_us.unwrap_or(0);
    coverage.statements += 1;
    coverage.captured_us += captured_us;
    if let Outcome::Skipped(reason) = outcome {
        *coverage
            .not_sent
            .entry(reason.name().to_owned())
            .or_default() += 1;
        return;
    }
    coverage.sent += 1;
    coverage.sent_captured_us += captured_us;
    match outcome {
        Outcome::Failed(sqlstate) if captured.sqlstate != Some(sqlstate) => {
            *coverage.failed.entry(sqlstate.to_string()).or_default() += 1;
        }
        _ => {
            coverage.rehearsed += 1;
            coverage.rehearsed_captured_us += captured_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use workload::Sqlstate;

    use super::*;

    #[test]
    fn statement_that_fails_and_did_not_fail_in_the_capture_is_not_rehearsed() {
        let captured = |sqlstate: Option<Sqlstate>| Captured {
            duration_us: Some(10),
            sqlstate,
            ..Captured::default()
        };
        let gone = Sqlstate(*b"42P01");
        let mut coverage = UpgradeCoverage::default();
        add(&mut coverage, Outcome::Done, &captured(None));
        add(&mut coverage, Outcome::Failed(gone), &captured(None));
        add(&mut coverage, Outcome::Failed(gone), &captured(Some(gone)));
        assert_eq!((coverage.statements, coverage.sent), (3, 3));
        assert_eq!(
            (coverage.rehearsed, coverage.rehearsed_captured_us),
            (2, 20)
        );
        assert_eq!(coverage.failed, BTreeMap::from([("42P01".to_owned(), 1)]));
    }
}
