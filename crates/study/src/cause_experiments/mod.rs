//! Finds the causes of statements that no rule explains, by experiment in a leased sandbox.
//!
//! Each statement is executed with values of the workload, in a transaction that is rolled back.
//! `EXPLAIN ANALYZE` reports its planning, compilation and triggers. Generators propose
//! interventions for the expensive parts, and each is tried: made, measured, and rolled back. An
//! intervention that halves the time becomes a finding; without one, the measured parts are added to
//! the finding that nothing explains the statement.

mod compilation;
mod foreign_keys;
mod statement_trial;

use std::collections::HashSet;

use connect::login::Dialer;
use diagnose::{Change, Cost, Diagnosis, Fact, Finding, StatementAccount, Unit};
use observe::Example;
use plans::MeasuredTimes;
use sql::Fingerprint;
use workload::WorkloadReader;

use crate::baseline_run;
use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::notes;
use crate::prove_findings::FindingsRequest;
use statement_trial::{TrialConnection, execute_trial, is_executable};

/// Name that stands in place of a rule in findings of experiments.
const EXPERIMENT: &str = "experiment";
/// Maximum number of statements.
const STATEMENTS_MAX: usize = 5;
/// Maximum number of interventions for each statement.
const INTERVENTIONS_MAX: usize = 8;
/// Share of the time up to which an intervention leaves so little that it is the cause.
const CONFIRMED: f64 = 0.5;
/// Share of a statement's time from which a part of it is worth an intervention.
const EXPENSIVE: f64 = 0.2;

/// Proposed cause of a statement's time, and what removes it.
struct Intervention {
    /// The cause, a sentence without a full stop.
    cause: String,
    /// Change that removes it.
    change: Change,
    /// Statements that make the change in a transaction.
    trial: Vec<String>,
    /// Risk or cost of the change.
    risk: &'static str,
}

/// Tries interventions for the statements that no finding explains, and replaces the findings whose cause was found.
///
/// # Errors
/// If the sandbox cannot be leased, or the workload cannot be read.
pub fn find_causes(
    request: &FindingsRequest<'_>,
    workload: &WorkloadReader,
    diagnosis: &mut Diagnosis,
) -> Result<(), Failure> {
    let unexplained: HashSet<Fingerprint> = diagnosis
        .findings
        .iter()
        .filter(|one| one.is_unexplained())
        .filter_map(|one| one.subject.fingerprint)
        .take(STATEMENTS_MAX)
        .collect();
    if unexplained.is_empty() {
        return Ok(());
    }
    let place = &request.proof.place;
    let database = baseline_run::choose_database(workload, place.database.as_deref())?;
    let mut lease = baseline_run::lease_sandbox(place.sandbox.as_deref(), &database)?;
    let tried = try_all(request, workload, &mut lease, &unexplained, diagnosis);
    lease.release()?;
    tried?;
    diagnosis.sort();
    Ok(())
}

fn try_all(
    request: &FindingsRequest<'_>,
    workload: &WorkloadReader,
    lease: &mut crate::SandboxLease,
    unexplained: &HashSet<Fingerprint>,
    diagnosis: &mut Diagnosis,
) -> Result<(), Failure> {
    notes::note(&format!(
        "Executing {} statements that no finding explains, in transactions that are rolled back.",
        unexplained.len()
    ));
    let engine = &request.proof.replay;
    let target = engine.target_with_settings(&lease.restart_clean(&[])?);
    let examples = observe::examples(workload, unexplained)?;
    let dialer = Dialer::new(&target).map_err(ExperimentError::from)?;
    // As the owner, who may create indexes.
    let login = engine.logins.login(&target, "", "", "rehearse");
    let mut connection = TrialConnection::new(&dialer, &login);
    for finding in &mut diagnosis.findings {
        let fingerprint = finding
            .subject
            .fingerprint
            .filter(|one| unexplained.contains(one));
        let Some(fingerprint) = fingerprint.filter(|_| finding.is_unexplained()) else {
            continue;
        };
        if request.interrupt.is_requested() {
            break;
        }
        let example = match examples.get(&fingerprint) {
            Some(example) if is_executable(example) => example,
            found => {
                let reason = match found {
                    Some(_) => "EXPLAIN takes one SELECT, INSERT, UPDATE, DELETE or MERGE",
                    None => "the workload has no execution of it with all its values",
                };
                notes::note(&format!(
                    "The statement {} was not executed for the experiment: {reason}.",
                    finding.subject.name
                ));
                continue;
            }
        };
        if let Some(found) = find_cause(&mut connection, example, finding) {
            let account = diagnosis
                .accounts
                .iter_mut()
                .find(|one| Some(one.fingerprint) == finding.subject.fingerprint);
            if let (Some(account), Some(cost)) = (account, found.cost) {
                credit_experiment(account, cost);
            }
            *finding = found;
        }
    }
    Ok(())
}

/// Adds the time that a confirmed cause explains to what findings explained before.
fn credit_experiment(account: &mut StatementAccount, cost: Cost) {
    let share = cost.ns / account.ns.max(1.0);
    account.explained_share = (account.explained_share + share).min(1.0);
    account.explained_by.push(EXPERIMENT);
}

/// Tries interventions for a statement. Returns the finding of the best one that confirms a cause; otherwise
/// adds the measured parts to the given finding.
fn find_cause(
    connection: &mut TrialConnection<'_>,
    example: &Example,
    finding: &mut Finding,
) -> Option<Finding> {
    let before = match execute_trial(connection, example, &[]) {
        Ok(before) => before,
        Err(reason) => {
            notes::note(&format!(
                "The statement {} could not be executed for the experiment: {reason}.",
                finding.subject.name
            ));
            return None;
        }
    };
    let mut proposed = foreign_keys::propose(connection, &before);
    proposed.extend(compilation::propose(&before));
    if proposed.len() > INTERVENTIONS_MAX {
        notes::note(&format!(
            "Of {} proposed causes of the statement {}, the first {INTERVENTIONS_MAX} are tried.",
            proposed.len(),
            finding.subject.name
        ));
        proposed.truncate(INTERVENTIONS_MAX);
    }
    let mut best: Option<(f64, Intervention, MeasuredTimes)> = None;
    for intervention in proposed {
        let after = match execute_trial(connection, example, &intervention.trial) {
            Ok(after) => after,
            Err(reason) => {
                notes::note(&format!(
                    "The experiment '{}' failed, so that its cause is neither confirmed nor excluded: {reason}.",
                    intervention.change.words
                ));
                continue;
            }
        };
        let left = after.total_ms() / before.total_ms().max(f64::MIN_POSITIVE);
        let is_best = best.as_ref().is_none_or(|(least, ..)| left < *least);
        if left <= CONFIRMED && is_best {
            best = Some((left, intervention, after));
        }
    }
    match best {
        Some((left, intervention, after)) => {
            Some(confirmed(finding, intervention, (&before, &after), left))
        }
        None => {
            finding.evidence.extend(measured_parts(&before));
            None
        }
    }
}

const FROM: &str = "EXPLAIN (ANALYZE) in the sandbox, rolled back";

fn milliseconds(what: impl Into<String>, ms: f64) -> Fact {
    Fact::new(what, ms * 1e6, Unit::Nanoseconds, FROM)
}

/// Returns the parts of a statement's time.
fn measured_parts(times: &MeasuredTimes) -> Vec<Fact> {
    let mut facts = vec![
        milliseconds("execution in the experiment", times.execution_ms),
        milliseconds("planning in the experiment", times.planning_ms),
    ];
    if times.compilation_ms > 0.0 {
        facts.push(milliseconds(
            "of it just-in-time compilation",
            times.compilation_ms,
        ));
    }
    for trigger in &times.triggers {
        let what = match &trigger.constraint {
            Some(constraint) => format!("of it the constraint {constraint}"),
            None => format!("of it the trigger {} of {}", trigger.name, trigger.relation),
        };
        facts.push(milliseconds(what, trigger.ms));
    }
    facts
}

/// Makes the finding of a confirmed cause.
fn confirmed(
    unexplained: &Finding,
    intervention: Intervention,
    (before, after): (&MeasuredTimes, &MeasuredTimes),
    left: f64,
) -> Finding {
    let won = 1.0 - left;
    let mut evidence = vec![
        milliseconds("time without the change", before.total_ms()),
        milliseconds("time with the change", after.total_ms()),
    ];
    evidence.extend(measured_parts(before));
    Finding {
        rule: EXPERIMENT,
        severity: unexplained.severity,
        subject: unexplained.subject.clone(),
        title: format!(
            "{}; without it the statement takes {:.1} ms in place of {:.1} ms",
            intervention.cause,
            after.total_ms(),
            before.total_ms()
        ),
        evidence,
        cost: unexplained.cost.map(|cost| Cost {
            ns: cost.ns * won,
            share: cost.share * won,
            cpu_share: cost.cpu_share.map(|share| share * won),
        }),
        max_gain: unexplained.max_gain.map(|share| share * won),
        changes: vec![intervention.change],
        risk: intervention.risk.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmed_cause_adds_to_the_explained_share() {
        let mut account = StatementAccount {
            fingerprint: Fingerprint(1),
            sql: "delete from basket where id = $1".to_owned(),
            ns: 10e9,
            share: 0.5,
            explained_share: 0.4,
            explained_by: vec!["lock-waits"],
            needs_explanation: true,
        };
        let cost = |ns| Cost {
            ns,
            share: 0.0,
            cpu_share: None,
        };
        credit_experiment(&mut account, cost(5e9));
        assert!((account.explained_share - 0.9).abs() < 1e-9);
        credit_experiment(&mut account, cost(5e9));
        assert!((account.explained_share - 1.0).abs() < 1e-9);
    }
}
