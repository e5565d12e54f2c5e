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

mod captured_times;
mod expectations;
mod known_findings;
mod observed_times;
mod plans;
mod remedies;
mod remedy_objects;
mod result;
mod session;
mod times;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use connect::login::Dialer;
use observe::MonitorOptions;
use replay::{LoginMap, Target};
use run::{ProbeNote, RunReader};
use sql::Fingerprint;
use time_breakdown::observed::StatementTotals;
use workload::WorkloadReader;

use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::observation::summarize_observations;
use crate::observe_server::observe_server;
use crate::upgrade_inspect::{UncheckedPart, UpgradeSeverity};
use crate::upgrade_rehearsal::{UpgradeDecision, major_of};
pub use expectations::UpgradeExpectations;
pub(crate) use known_findings::{KnownFindings, inspect_alone};
use plans::{VerifiedPlans, verify_plans};
pub use result::{
    DifferingPlan, TimeJudgement, UncomparedPlans, UpgradeVerification, VerificationVerdict,
    VerifiedRemedy, VerifiedStatement,
};
use session::{ROLE_ADVICE, VerifierSession};

/// Unchecked parts that no finding to mend depends on if a server is inspected alone. Only superusers and monitoring roles read them.
const UNJUDGED_PARTS: [&str; 2] = ["passwords of roles", "settings that only some roles see"];

/// Statistics that row security and ownership hide also from a role with all rights of the advice.
const HIDDEN_STATISTICS: [&str; 2] = [
    "planner statistics of tables",
    "data of extended statistics",
];

/// Note on [`HIDDEN_STATISTICS`] that count as read.
const HIDDEN_STATISTICS_NOTE: &str = "some planner statistics could not be read, although the role is a member of pg_read_all_data: row security hides \
     them, or only the owner of a table sees them; see the notes of the inspection, and ANALYZE these tables if in doubt";

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
    let mut inspection = inspect_alone(target, request.find, interrupt)?;
    expected.refuse_other_version(&inspection.to_version)?;
    let known = expected.known.remove_from(&mut inspection);
    let dialer = Dialer::new(target).map_err(ExperimentError::from)?;
    let login = LoginMap::default().login(target, "", "", "rehearse upgrade");
    let mut notes: Vec<String> = known.into_iter().collect();
    let mut connection = dialer.open_query_connection(&login).map_err(|error| {
        Failure::could_not(format!("cannot connect to {}: {error}", target.address()))
    })?;
    let session = VerifierSession::read(&mut connection).map_err(|error| {
        Failure::could_not(format!(
            "cannot read the database and the role of the session on {}: {error}",
            target.address()
        ))
    })?;
    let major = major_of(&inspection.to_version)?;
    let remedies = remedies::verify_remedies(&mut connection, major, &expected.remedies);
    drop(connection);
    let plans = expected.statements.iter().flat_map(|one| &one.plans);
    let plans_expected: u64 = plans.map(|one| one.plans.len() as u64).sum();
    let planned = open_workload(request, &expected)
        .and_then(|workload| verify_plans((target, &workload), &expected, interrupt));
    let planned = planned.unwrap_or_else(|failure| {
        notes.push(format!("plans were not compared: {}", failure.message));
        VerifiedPlans::default()
    });
    notes.extend(session.note_on_plans(planned.sets_role));
    let observed = observe(request, &session.database, interrupt, progress)?;
    notes.extend(observed.notes.into_iter().map(|note| note.text));
    let statements = times::verify_times(&expected, &observed.totals);
    let mut result = UpgradeVerification {
        verdict: VerificationVerdict::AsRehearsed,
        reasons: Vec::new(),
        rehearsal: request.rehearsal.display().to_string(),
        rehearsal_decision: expected.decision,
        server: target.address(),
        observed_s: observed.elapsed_s,
        remedies,
        plans_expected,
        plans_checked: planned.checked,
        uncompared_plans: planned.uncompared(),
        differing_plans: planned.differing,
        statements_expected: expected.statements.len() as u64,
        statements,
        inspection,
        notes,
    };
    let unread = unread_parts(&mut result, session.reads_all_data);
    (result.verdict, result.reasons) = judge(&result, unread);
    let caution = caution(result.rehearsal_decision);
    result.reasons.splice(0..0, caution);
    Ok(result)
}

/// Observation of the server.
struct ServerObservation {
    /// Statistics of the statements that clients sent in the database of the target.
    totals: HashMap<Fingerprint, StatementTotals>,
    notes: Vec<ProbeNote>,
    elapsed_s: f64,
}

/// Observes the server.
fn observe(
    request: &UpgradeVerifyRequest<'_>,
    database: &str,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Option<i64>),
) -> Result<ServerObservation, Failure> {
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
    Ok(ServerObservation {
        totals: observed_times::observed_totals(run.statement_statistics()?, database)?,
        notes: summarize_observations(&run)?.notes,
        elapsed_s: run.info().elapsed_ns as f64 / 1e9,
    })
}

/// Opens the workload of the rehearsal.
fn open_workload(
    request: &UpgradeVerifyRequest<'_>,
    expected: &UpgradeExpectations,
) -> Result<WorkloadReader, Failure> {
    let path = Path::new(&expected.workload);
    let workload = keys::open_workload(request.workload.unwrap_or(path))?;
    match workload.id() == expected.workload_id {
        true => Ok(workload),
        false => Err(Failure::usage(format!(
            "{} is not the workload of the rehearsal; give that one to --workload",
            workload.path().display()
        ))),
    }
}

/// Returns the number of unread parts of the inspection that may hide a finding. Statistics that the role of the advice cannot
/// read are none of these, and get a note.
fn unread_parts(result: &mut UpgradeVerification, reads_all_data: bool) -> usize {
    let unread = result.inspection.unchecked.iter();
    let unread = unread.filter(|part| can_hide_finding(part));
    let (hidden, unread): (Vec<_>, Vec<_>) =
        unread.partition(|part| reads_all_data && is_hidden_statistics(part));
    let number = unread.len();
    if !hidden.is_empty() {
        result.notes.push(HIDDEN_STATISTICS_NOTE.to_owned());
    }
    number
}

/// Returns the verdict and its reasons. `unread` is the number of [`unread_parts`].
fn judge(result: &UpgradeVerification, unread: usize) -> (VerificationVerdict, Vec<String>) {
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
        "finding of the inspection is to be mended, and was not there before the upgrade.",
        "findings of the inspection are to be mended, and were not there before the upgrade.",
    );
    if !reasons.is_empty() {
        return (VerificationVerdict::Differs, reasons);
    }
    let seen = judged(TimeJudgement::AsExpected);
    let unseen = unseen(result, seen, unread);
    if !unseen.is_empty() {
        return (VerificationVerdict::NotObserved, unseen);
    }
    let unclear = judged(TimeJudgement::Unclear);
    (
        VerificationVerdict::AsRehearsed,
        agreements(result, (seen, unclear)),
    )
}

/// Returns the sentence on a rehearsal that did not approve the upgrade.
fn caution(decision: UpgradeDecision) -> Option<String> {
    let decided = match decision {
        UpgradeDecision::Go | UpgradeDecision::GoWithRemedies => return None,
        UpgradeDecision::NoGo => "a no-go",
        UpgradeDecision::Undecided => "undecided",
    };
    Some(format!(
        "The rehearsal itself was {decided}: a server that agrees with it is not shown to be good. See its report.html."
    ))
}

/// Returns the sentences on a server of which nothing differs, with the numbers of times as expected and of unclear ones.
fn agreements(result: &UpgradeVerification, (seen, unclear): (usize, usize)) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.push(match result.remedies.len() {
        0 => "The rehearsal has no remedies.".to_owned(),
        1 => "The remedy of the rehearsal is in place.".to_owned(),
        number => format!("All {number} remedies of the rehearsal are in place."),
    });
    let (checked, expected) = (result.plans_checked, result.plans_expected);
    reasons.push(match expected.saturating_sub(checked) {
        _ if expected == 0 => "The rehearsal has no plans to compare.".to_owned(),
        0 if expected == 1 => "The plan is the one of the rehearsal.".to_owned(),
        0 => format!("All {expected} plans are those of the rehearsal."),
        left => {
            format!("Plans as in the rehearsal: {checked} of {expected}. Not compared: {left}.")
        }
    });
    reasons.push(format!(
        "Statements with times as expected: {seen} of {}.",
        result.statements_expected
    ));
    if unclear > 0 {
        reasons.push(format!(
            "Statements with longer times than expected, for which chance is not ruled out: {unclear}. Observe longer with --for."
        ));
    }
    reasons
}

/// Returns what was not seen, so that nothing can be stated of it.
fn unseen(result: &UpgradeVerification, seen: usize, unread: usize) -> Vec<String> {
    let mut reasons = Vec::new();
    if seen == 0 {
        reasons.push(format!(
            "No statement of the rehearsal has a time as expected, with {} executions captured and observed; observe longer with \
             --for, and see the notes.",
            times::CALLS_MIN
        ));
    }
    if result.plans_expected > 0 && result.plans_checked == 0 {
        reasons.push("No plan could be compared; see the reasons.".to_owned());
    }
    let unknown = result.remedies.iter().filter(|one| one.in_place.is_none());
    match unknown.count() {
        0 => {}
        number => reasons.push(format!(
            "Remedies that could not be checked: {number}; see the reasons. For lack of rights, use {ROLE_ADVICE}."
        )),
    }
    match unread {
        0 => {}
        number => reasons.push(format!(
            "Parts of the inspection that could not be read: {number}; see the notes. For lack of rights, use {ROLE_ADVICE}."
        )),
    }
    reasons
}

/// Whether findings that are to be mended may be missing without this part.
fn can_hide_finding(part: &UncheckedPart) -> bool {
    !part.is_of_service() && !UNJUDGED_PARTS.contains(&part.part.as_str())
}

/// Whether a part is of [`HIDDEN_STATISTICS`]. The names of relations follow the kind.
fn is_hidden_statistics(part: &UncheckedPart) -> bool {
    let kind = part.part.split(": ").next();
    kind.is_some_and(|kind| HIDDEN_STATISTICS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rehearsal_without_a_go_is_no_approval() {
        assert_eq!(caution(UpgradeDecision::Go), None);
        assert_eq!(caution(UpgradeDecision::GoWithRemedies), None);
        for (decision, words) in [
            (UpgradeDecision::NoGo, "was a no-go"),
            (UpgradeDecision::Undecided, "was undecided"),
        ] {
            let text = caution(decision).unwrap();
            assert!(text.contains(words), "{text}");
        }
    }

    use crate::upgrade_inspect::{NewServerKind, UpgradeInspection, UpgradeMethod};

    fn remedy(in_place: Option<bool>) -> VerifiedRemedy {
        VerifiedRemedy {
            statement: String::new(),
            in_place,
            found: String::new(),
        }
    }

    /// Returns a verification that saw everything, and no difference.
    fn complete() -> UpgradeVerification {
        let statement = VerifiedStatement {
            fingerprint: String::new(),
            sql: String::new(),
            calls: 100,
            mean_us: 1.0,
            expected_us: None,
            limit_us: None,
            p_value: None,
            judgement: TimeJudgement::AsExpected,
        };
        UpgradeVerification {
            verdict: VerificationVerdict::AsRehearsed,
            reasons: Vec::new(),
            rehearsal: String::new(),
            rehearsal_decision: UpgradeDecision::Go,
            server: String::new(),
            observed_s: 1.0,
            remedies: vec![remedy(Some(true))],
            plans_expected: 2,
            plans_checked: 2,
            uncompared_plans: Vec::new(),
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
        }
    }

    /// Returns the verdict for a role without the rights of `pg_read_all_data`.
    fn verdict(one: &UpgradeVerification) -> VerificationVerdict {
        let mut one = one.clone();
        let unread = unread_parts(&mut one, false);
        judge(&one, unread).0
    }

    #[test]
    fn verdict_is_as_rehearsed_only_if_times_plans_and_remedies_were_seen() {
        let seen = complete();
        let agreed = judge(&seen, 0).1.join(" ");
        assert!(agreed.contains("All 2 plans"), "{agreed}");
        assert!(!agreed.contains("ot compared"), "{agreed}");
        let mut partly = seen.clone();
        partly.plans_checked = 1;
        let agreed = judge(&partly, 0).1.join(" ");
        assert!(agreed.contains("1 of 2. Not compared: 1."), "{agreed}");
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
    fn unread_part_decides_unless_the_role_of_the_advice_cannot_read_it() {
        for (database, part, expected) in [
            (
                Some("shop"),
                "planner statistics of tables: public.t",
                VerificationVerdict::NotObserved,
            ),
            (
                Some("shop"),
                "the whole database",
                VerificationVerdict::NotObserved,
            ),
            (None, "offered extensions", VerificationVerdict::NotObserved),
            // No customer of the service can read them.
            (
                Some("rdsadmin"),
                "the whole database",
                VerificationVerdict::AsRehearsed,
            ),
            (None, "passwords of roles", VerificationVerdict::AsRehearsed),
        ] {
            let mut other = complete();
            other.inspection.unchecked = vec![UncheckedPart {
                on_new_server: true,
                database: database.map(str::to_owned),
                part: part.to_owned(),
                reason: String::new(),
            }];
            assert_eq!(verdict(&other), expected, "{database:?}: {part}");
            // A role with the rights of the advice.
            let unread = unread_parts(&mut other, true);
            let is_hidden = part.starts_with("planner statistics");
            let expected = match is_hidden {
                true => VerificationVerdict::AsRehearsed,
                false => expected,
            };
            assert_eq!(judge(&other, unread).0, expected, "{database:?}: {part}");
            let notes: &[&str] = match is_hidden {
                true => &[HIDDEN_STATISTICS_NOTE],
                false => &[],
            };
            assert_eq!(other.notes, notes);
        }
    }
}
