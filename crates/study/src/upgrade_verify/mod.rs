//! Verification of a real upgrade: a production server is compared with what its rehearsal leads to expect.
//!
//! ```text
//! expectations of the rehearsal ─┬─► remedies in place?
//!                                ├─► plans for values of the workload (EXPLAIN, never executed)
//! server ─► inspection ──────────┤
//! server ─► observation ─────────┴─► mean time of each statement: captured × ratio of the rehearsal?
//! ```
//!
//! The server is only read.

mod expectations;
mod remedies;
mod result;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use connect::login::{Dialer, Login};
use observe::{Example, ExplainSession, MonitorOptions};
use plans::read_plan;
use replay::{LoginMap, Target};
use run::RunReader;
use sql::Fingerprint;
use time_breakdown::observed::Observed;

use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::observation::summarize_observations;
use crate::observe_server::observe_server;
use crate::upgrade_inspect::{
    NewServer, UpgradeInspectRequest, UpgradeMethod, UpgradeSeverity, inspect_upgrade,
};
use crate::upgrade_remedies::summary;
use expectations::ExpectedStatement;
pub use expectations::UpgradeExpectations;
pub use result::{
    DifferingPlan, TimeJudgement, UpgradeVerification, VerificationVerdict, VerifiedRemedy,
    VerifiedStatement,
};

/// Executions of a statement from which its mean is judged.
const CALLS_MIN: u64 = 20;
/// Factor above the expected interval from which a mean is longer. Another time of the day has other values.
const TOLERANCE: f64 = 1.25;
/// Difference that is none, in microseconds.
const NOISE_US: f64 = 50.0;

/// Parameters of a verification.
pub struct UpgradeVerifyRequest<'a> {
    /// Directory of the rehearsal.
    pub rehearsal: &'a Path,
    /// Upgraded server, and its database.
    pub target: &'a Target,
    /// Workload with the values to plan, if it is not where the rehearsal found it.
    pub workload: Option<&'a Path>,
    /// Time of the observation.
    pub duration: Duration,
    /// Finds installations.
    pub find: crate::environment::FindInstallation,
}

/// Verifies the upgrade. Calls `progress` as [`observe_server`] does.
///
/// # Errors
/// If the directory is no rehearsal, or the server cannot be reached.
pub fn verify_upgrade(
    request: &UpgradeVerifyRequest<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Option<i64>),
) -> Result<UpgradeVerification, Failure> {
    let expected = UpgradeExpectations::read(request.rehearsal)?;
    let target = request.target;
    // A server is its own old side: what an upgrade forgets shows without the old one.
    let inspection = inspect_upgrade(
        &UpgradeInspectRequest {
            from: target,
            to: NewServer::Upgraded {
                target,
                major: None,
            },
            method: UpgradeMethod::PgUpgrade,
            find: request.find,
        },
        interrupt,
    )?;
    let dialer = Dialer::new(target).map_err(ExperimentError::from)?;
    let login = LoginMap::default().login(target, "", "", "rehearse upgrade");
    let mut notes = Vec::new();
    let mut connection = dialer.open_query_connection(&login).map_err(|error| {
        Failure::could_not(format!("cannot connect to {}: {error}", target.address()))
    })?;
    let remedies = remedies::verify_remedies(&mut connection, &expected.remedies);
    drop(connection);
    let plans = expected.statements.iter().flat_map(|one| &one.plans);
    let plans_expected: u64 = plans.map(|one| one.plans.len() as u64).sum();
    let (plans_checked, differing_plans) = match verify_plans(request, &expected, (&dialer, &login))
    {
        Ok((checked, differing, refused)) => {
            notes.extend(refused.map(|message| {
                format!(
                    "the server does not plan some statements for the role of --target: {message}"
                )
            }));
            (checked, differing)
        }
        Err(failure) => {
            notes.push(format!("plans were not compared: {}", failure.message));
            (0, Vec::new())
        }
    };
    let (observed, observed_s) = observe(request, interrupt, progress)?;
    notes.extend(observed.notes.iter().map(|note| note.text.clone()));
    let statements = verify_times(&expected, &observed);
    let mut result = UpgradeVerification {
        verdict: VerificationVerdict::AsRehearsed,
        reasons: Vec::new(),
        rehearsal: request.rehearsal.display().to_string(),
        server: target.address(),
        observed_s,
        remedies,
        plans_expected,
        plans_checked,
        differing_plans,
        statements_expected: expected.statements.len() as u64,
        statements,
        inspection,
        notes,
    };
    (result.verdict, result.reasons) = judge(&result);
    Ok(result)
}

/// Observes the server. Returns what it found, and the seconds that it took.
fn observe(
    request: &UpgradeVerifyRequest<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Option<i64>),
) -> Result<(Observed, f64), Failure> {
    let place = tempfile::tempdir().map_err(Failure::could_not)?;
    let output = place.path().join("observed.run");
    observe_server(
        request.target,
        &MonitorOptions::default(),
        Some(request.duration),
        &output,
        interrupt,
        progress,
    )?;
    let run = RunReader::open(&output)?;
    let observed_s = run.info().elapsed_ns as f64 / 1e9;
    Ok((summarize_observations(&run)?, observed_s))
}

/// Plans the values of the rehearsal. Returns the number of plans, those that differ, and the first message of a statement
/// that the server does not plan.
fn verify_plans(
    request: &UpgradeVerifyRequest<'_>,
    expected: &UpgradeExpectations,
    (dialer, login): (&Dialer, &Login),
) -> Result<(u64, Vec<DifferingPlan>, Option<String>), Failure> {
    let path = Path::new(&expected.workload);
    let workload = keys::open_workload(request.workload.unwrap_or(path))?;
    if workload.id() != expected.workload_id {
        return Err(Failure::usage(format!(
            "{} is not the workload of the rehearsal; give that one to --workload",
            workload.path().display()
        )));
    }
    let wanted = expected.statements.iter();
    let wanted: HashSet<Fingerprint> = wanted
        .filter(|one| one.plans.is_some())
        .filter_map(|one| one.fingerprint())
        .collect();
    let mut examples: HashMap<(u64, u64), Example> = HashMap::new();
    for found in observe::example_sets(&workload, &wanted)?.into_values() {
        for example in found.examples {
            examples.insert((example.session, example.sequence), example);
        }
    }
    let (mut checked, mut differing, mut refused) = (0, Vec::new(), None);
    let mut open: Option<(Login, ExplainSession<'_>)> = None;
    for statement in &expected.statements {
        for plan in statement.plans.iter().flat_map(|one| &one.plans) {
            let Some(example) = examples.get(&plan.execution) else {
                continue;
            };
            let login = Login {
                settings: [&login.settings[..], &example.settings[..]].concat().into(),
                ..login.clone()
            };
            let session = match open.take() {
                Some((known, session)) if known == login && !session.is_closed() => session,
                _ => ExplainSession::open(dialer, &login)
                    .map_err(|error| Failure::could_not(error.to_string()))?,
            };
            let (_, session) = open.insert((login, session));
            let found = match session.custom_plan(example) {
                Err(error) => Err(error.message),
                Ok(text) => read_plan(&text).map_err(|error| error.explanation().to_owned()),
            };
            let found = match found {
                Ok(found) => found,
                // The role of the verification may lack rights or a search_path that the statement has.
                Err(message) => {
                    refused.get_or_insert(message);
                    continue;
                }
            };
            checked += 1;
            if found.shape().to_string() == plan.shape {
                continue;
            }
            differing.push(DifferingPlan {
                fingerprint: statement.fingerprint.clone(),
                sql: statement.sql.clone(),
                session: example.session,
                sequence: example.sequence,
                expected: plan.summary.clone(),
                found: summary(&found),
            });
        }
    }
    Ok((checked, differing, refused))
}

/// Compares the mean times of the observed statements with the expected ones.
fn verify_times(expected: &UpgradeExpectations, observed: &Observed) -> Vec<VerifiedStatement> {
    let known = expected.statements.iter();
    let known: HashMap<&str, &ExpectedStatement> =
        known.map(|one| (one.fingerprint.as_str(), one)).collect();
    let mut all = Vec::new();
    for one in &observed.statements {
        let Some(fingerprint) = one.fingerprint.map(|one| one.to_string()) else {
            continue;
        };
        let counted = one.counted.filter(|counted| counted.calls > 0);
        let (Some(counted), Some(known)) = (counted, known.get(fingerprint.as_str())) else {
            continue;
        };
        let mean_us = one.total_ns() as f64 / counted.calls as f64 / 1e3;
        let factor = known.factor.as_ref();
        let captured = known.captured_us.filter(|captured| *captured > 0.0);
        let expected_us = captured
            .zip(factor)
            .map(|(captured, one)| captured * one.ratio);
        let high = factor.map(|one| one.high.unwrap_or(one.ratio));
        let limit_us = captured
            .zip(high)
            .map(|(captured, high)| captured * high.max(1.0) * TOLERANCE + NOISE_US);
        all.push(VerifiedStatement {
            fingerprint,
            sql: known.sql.clone(),
            calls: counted.calls,
            mean_us,
            expected_us,
            limit_us,
            judgement: judge_time(counted.calls, mean_us, limit_us),
        });
    }
    all.sort_by_key(|one| {
        let is_slower = one.judgement == TimeJudgement::Slower;
        (!is_slower, std::cmp::Reverse(one.calls))
    });
    all
}

fn judge_time(calls: u64, mean_us: f64, limit_us: Option<f64>) -> TimeJudgement {
    match limit_us {
        None => TimeJudgement::NoExpectation,
        Some(_) if calls < CALLS_MIN => TimeJudgement::TooFew,
        Some(limit_us) if mean_us > limit_us => TimeJudgement::Slower,
        Some(_) => TimeJudgement::AsExpected,
    }
}

impl ExpectedStatement {
    fn fingerprint(&self) -> Option<Fingerprint> {
        let number = u64::from_str_radix(&self.fingerprint, 16).ok()?;
        Some(Fingerprint(number))
    }
}

/// Returns the verdict and its reasons.
fn judge(result: &UpgradeVerification) -> (VerificationVerdict, Vec<String>) {
    let mut reasons = Vec::new();
    let mut add = |number: usize, one: &str, many: &str| match number {
        0 => {}
        1 => reasons.push(format!("1 {one}")),
        number => reasons.push(format!("{number} {many}")),
    };
    let missing = result.remedies.iter();
    let missing = missing.filter(|one| one.in_place == Some(false));
    add(
        missing.count(),
        "remedy of the rehearsal is not in place.",
        "remedies of the rehearsal are not in place.",
    );
    add(
        result.differing_plans.len(),
        "plan differs from the one of the rehearsal.",
        "plans differ from those of the rehearsal.",
    );
    let judged = |wanted: TimeJudgement| {
        let all = result.statements.iter();
        all.filter(|one| one.judgement == wanted).count()
    };
    add(
        judged(TimeJudgement::Slower),
        "statement takes longer than the rehearsal leads to expect.",
        "statements take longer than the rehearsal leads to expect.",
    );
    let findings = result.inspection.findings.iter();
    let findings = findings.filter(|one| one.severity == UpgradeSeverity::MendAfter);
    add(
        findings.count(),
        "finding of the inspection is to be mended.",
        "findings of the inspection are to be mended.",
    );
    if !reasons.is_empty() {
        return (VerificationVerdict::Differs, reasons);
    }
    let seen = judged(TimeJudgement::AsExpected);
    let unseen = unseen(result, seen);
    if !unseen.is_empty() {
        return (VerificationVerdict::NotObserved, unseen);
    }
    let reason = format!(
        "The remedies are in place, {} of {} plans are those of the rehearsal and the others were not compared, and {seen} of {} \
         statements were observed with times as expected.",
        result.plans_checked, result.plans_expected, result.statements_expected
    );
    (VerificationVerdict::AsRehearsed, vec![reason])
}

/// Returns what was not seen, so that nothing can be stated of it.
fn unseen(result: &UpgradeVerification, seen: usize) -> Vec<String> {
    let mut reasons = Vec::new();
    if seen == 0 {
        reasons.push(format!(
            "No statement of the rehearsal was executed {CALLS_MIN} times with a time to compare; observe longer with --for, and \
             see the notes."
        ));
    }
    if result.plans_expected > 0 && result.plans_checked == 0 {
        reasons.push("No plan could be compared; see the notes.".to_owned());
    }
    let unknown = result.remedies.iter().filter(|one| one.in_place.is_none());
    match unknown.count() {
        0 => {}
        number => reasons.push(format!(
            "Whether {number} remedies are in place cannot be seen by the role of --target; use a superuser."
        )),
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_inspect::{NewServerKind, UpgradeInspection};

    #[test]
    fn verdict_is_as_rehearsed_only_if_times_plans_and_remedies_were_seen() {
        let statement = VerifiedStatement {
            fingerprint: String::new(),
            sql: String::new(),
            calls: 100,
            mean_us: 1.0,
            expected_us: None,
            limit_us: None,
            judgement: TimeJudgement::AsExpected,
        };
        let remedy = |in_place| VerifiedRemedy {
            statement: String::new(),
            in_place,
            found: String::new(),
        };
        let seen = UpgradeVerification {
            verdict: VerificationVerdict::AsRehearsed,
            reasons: Vec::new(),
            rehearsal: String::new(),
            server: String::new(),
            observed_s: 1.0,
            remedies: vec![remedy(Some(true))],
            plans_expected: 2,
            plans_checked: 2,
            differing_plans: Vec::new(),
            statements_expected: 1,
            statements: vec![statement],
            inspection: UpgradeInspection {
                from_version: String::new(),
                to_version: String::new(),
                new_server: NewServerKind::Private,
                method: UpgradeMethod::PgUpgrade,
                databases: Vec::new(),
                findings: Vec::new(),
                unchecked: Vec::new(),
            },
            notes: Vec::new(),
        };
        let verdict = |one: &UpgradeVerification| judge(one).0;
        assert_eq!(verdict(&seen), VerificationVerdict::AsRehearsed);
        let mut other = seen.clone();
        other.plans_checked = 0;
        assert_eq!(verdict(&other), VerificationVerdict::NotObserved);
        other = seen.clone();
        other.remedies = vec![remedy(None)];
        assert_eq!(verdict(&other), VerificationVerdict::NotObserved);
        other.remedies = vec![remedy(Some(false)), remedy(None)];
        assert_eq!(verdict(&other), VerificationVerdict::Differs);
        other = seen;
        other.statements.clear();
        assert_eq!(verdict(&other), VerificationVerdict::NotObserved);
    }

    #[test]
    fn mean_time_is_judged_from_enough_executions_against_the_limit() {
        for (calls, mean_us, limit_us, judgement) in [
            (100, 900.0, Some(1_000.0), TimeJudgement::AsExpected),
            (100, 1_100.0, Some(1_000.0), TimeJudgement::Slower),
            (19, 1_100.0, Some(1_000.0), TimeJudgement::TooFew),
            (100, 1_100.0, None, TimeJudgement::NoExpectation),
        ] {
            assert_eq!(judge_time(calls, mean_us, limit_us), judgement);
        }
    }
}
