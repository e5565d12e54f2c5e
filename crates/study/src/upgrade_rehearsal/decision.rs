//! Decision from the parts of a report.

mod unclear;
mod unsettled;

use std::collections::BTreeMap;

use compare::proof::{Effect, Verdict};
use compare::{ErrorChange, StatementComparison};

use super::evidence::RehearsalEvidence;
use super::result::{RemedyProof, UpgradeDecision, UpgradeRemedy, UpgradeReport};
use crate::upgrade_inspect::{
    NewServerKind, UpgradeCheck, UpgradeFinding, UpgradeInspection, UpgradeObject, UpgradeSeverity,
};
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedyStatus, UpgradeRegression, has_more_blocks,
};

/// Checks whose remedy the rehearsal performs on private servers: the restore is followed by ANALYZE. The real upgrade
/// needs it, too, or the result does not hold.
const PERFORMED: [UpgradeCheck; 2] = [UpgradeCheck::Statistics, UpgradeCheck::ExtendedStatistics];

/// Largest number of objects that a reason names.
const NAMED_MAX: usize = 5;

/// Returns the remedies that the findings name.
pub(super) fn remedies(inspection: &UpgradeInspection) -> Vec<UpgradeRemedy> {
    let is_private = inspection.new_server == NewServerKind::Private;
    let findings = inspection
        .findings
        .iter()
        .filter(|one| one.severity != UpgradeSeverity::Note);
    findings
        .map(|one| {
            let mut statements: Vec<String> = Vec::new();
            for statement in one
                .objects
                .iter()
                .filter_map(|object| object.statement.as_ref())
            {
                if !statements.contains(statement) {
                    statements.push(statement.clone());
                }
            }
            UpgradeRemedy {
                check: one.check.name().to_owned(),
                before: one.severity == UpgradeSeverity::Blocks,
                performed: is_private && PERFORMED.contains(&one.check),
                problem: one.message.clone(),
                remedy: one.remedy.clone(),
                objects: one.objects.iter().map(named).collect(),
                statements,
            }
        })
        .collect()
}

/// Names an object with its database and the fact about it.
fn named(object: &UpgradeObject) -> String {
    let database = object.database.as_deref();
    let database = database.map_or_else(String::new, |name| format!("{name}: "));
    let detail = object.detail.as_deref();
    let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
    format!("{database}{}{detail}", object.name)
}

/// Outcome of paired replays: those with all remedies if they were completed, else those without.
struct Outcome<'a> {
    verdict: Option<Verdict>,
    effect: Option<&'a Effect>,
    work: Option<&'a Effect>,
    evidence: &'a RehearsalEvidence,
    slower: &'a [StatementComparison],
    suspected: &'a [StatementComparison],
    errors: &'a [ErrorChange],
    other_rows: u64,
}

impl<'a> Outcome<'a> {
    fn of(report: &'a UpgradeReport) -> Self {
        match replayed_remedies(report) {
            Some(with) => Outcome {
                verdict: Some(with.verdict),
                effect: with.effect.as_ref(),
                evidence: &with.evidence,
                work: with.work.as_ref(),
                slower: &with.slower,
                suspected: &with.suspected,
                errors: &with.errors,
                other_rows: with.other_rows,
            },
            None => Outcome {
                verdict: report.verdict,
                effect: report.effect.as_ref(),
                evidence: &report.evidence,
                work: report.work.as_ref(),
                slower: &report.slower,
                suspected: &report.suspected,
                errors: &report.errors,
                other_rows: report.other_rows,
            },
        }
    }
}

impl Outcome<'_> {
    /// Whether the total response time exceeds that of the old version by the margin at most, as a share. Runs in which this
    /// program stalled do not show it.
    fn is_no_slower(&self, margin: f64) -> bool {
        let effect = self.effect.filter(|_| !self.evidence.is_disturbed);
        effect.is_some_and(|effect| effect.high <= 1.0 + margin)
    }
}

/// Returns the replays with all remedies if they were completed.
fn replayed_remedies(report: &UpgradeReport) -> Option<&RemedyProof> {
    report.remedied.as_ref().filter(|one| one.blocks > 0)
}

/// Decides, and gives the reasons. On unequal hosts, with this reason, times decide nothing.
pub(super) fn decide(
    report: &UpgradeReport,
    unequal_hosts: Option<&str>,
) -> (UpgradeDecision, Vec<String>) {
    let (decision, mut reasons) = judge(report, unequal_hosts.is_none());
    let Some(unequal) = unequal_hosts else {
        return (decision, reasons);
    };
    reasons.insert(0, unequal.to_owned());
    match decision {
        UpgradeDecision::NoGo => (UpgradeDecision::NoGo, reasons),
        _ => (UpgradeDecision::Undecided, reasons),
    }
}

/// Decides as on equal hosts, except that times are no reason against the upgrade without them.
fn judge(report: &UpgradeReport, has_equal_hosts: bool) -> (UpgradeDecision, Vec<String>) {
    let outcome = Outcome::of(report);
    let with_remedies = with_remedies(report);
    if has_only_screened(report) && is_otherwise_good(report, &outcome) {
        let reason = unclear::unproved(report).join(" ");
        let reason = format!("{with_remedies}{reason}");
        let unrestored = unclear::unrestored(report);
        return (
            UpgradeDecision::Undecided,
            std::iter::once(reason).chain(unrestored).collect(),
        );
    }
    let objections = against(report, &outcome);
    if !objections.is_empty() {
        let is_proved = has_equal_hosts || objections.iter().any(|one| !one.is_time);
        let mut reasons: Vec<String> = objections.into_iter().map(|one| one.text).collect();
        reasons.extend((!with_remedies.is_empty()).then(|| with_remedies.trim().to_owned()));
        reasons.extend(unclear::unrestored(report));
        return match is_proved {
            true => (UpgradeDecision::NoGo, reasons),
            false => (UpgradeDecision::Undecided, reasons),
        };
    }
    let mut unclear = unclear::reasons(report, &outcome);
    unclear.extend(unsettled::reasons(report));
    if !unclear.is_empty() {
        return (UpgradeDecision::Undecided, unclear);
    }
    // Statistics and indexes that are put in place first are remedies without a statement that is worse.
    let is_remedied = replayed_remedies(report).is_some() || !with_remedies.is_empty();
    let with = match is_remedied {
        true => format!("{with_remedies}With the remedies: "),
        false => String::new(),
    };
    let mut reasons = vec![format!("{with}{}", shown(&outcome, report.margin))];
    reasons.extend(unclear::plan_risks(report));
    match report.remedies.len() {
        0 if !is_remedied => return (UpgradeDecision::Go, reasons),
        0 => {}
        1 => reasons.push("The inspection names one remedy.".to_owned()),
        number => reasons.push(format!("The inspection names {number} remedies.")),
    }
    (UpgradeDecision::GoWithRemedies, reasons)
}

/// Describes what the replays show in favour of the upgrade.
fn shown(outcome: &Outcome<'_>, margin: f64) -> String {
    let evidence = outcome.evidence;
    let judged = match evidence.judged {
        0 => "No single statement is shown to be within the margin (too few executions or too much noise): one may be slower by more."
            .to_owned(),
        judged => format!(
            "{judged} of {} statements could be judged separately.",
            evidence.statements()
        ),
    };
    let high = outcome.effect.map(|effect| format!("{:.2}", effect.high));
    let high = high.as_deref().unwrap_or("unknown");
    let is_hidden = outcome.verdict == Some(Verdict::NotProven) && !outcome.is_no_slower(margin);
    match is_hidden {
        true if evidence.judged == 0 => format!(
            "{judged} None fails more often or returns other rows, and the work of the runs is the same. Their total response \
             time, new / old, is at most × {high}; the noise of the machine hides smaller changes."
        ),
        true if evidence.is_disturbed => format!(
            "No statement that could be judged is slower, none fails more often or returns other rows, and the work of the \
             runs is the same. This program stalled in a run, so that the total response time shows nothing. {judged}"
        ),
        true => format!(
            "No statement that could be judged is slower, none fails more often or returns other rows, and the work of the \
             runs is the same. The noise of the machine is too large to show the same of their total response time, new / \
             old, which is at most × {high}. {judged}"
        ),
        false => format!(
            "Response times, errors and answers of the workload are no worse on the new server. The total response time, \
             new / old, is at most × {high}. {judged}"
        ),
    }
}

/// Introduces what was shown with the remedies of regressions; empty without any.
fn with_remedies(report: &UpgradeReport) -> String {
    // A statement can be worse in two ways, such as other rows and more time.
    let mut statements: BTreeMap<&str, bool> = BTreeMap::new();
    for one in &report.regressions {
        let is_remedied = statements.entry(&one.fingerprint).or_insert(true);
        *is_remedied &= one.remedy.is_some();
    }
    let remedied = statements.values().filter(|one| **one).count();
    match (statements.len(), remedied) {
        (_, 0) => String::new(),
        (1, _) => {
            "1 statement is worse without a remedy, and a remedy was found for it. ".to_owned()
        }
        (worse, remedied) => format!(
            "{worse} statements are worse without remedies, and remedies were found for {remedied} of them. "
        ),
    }
}

/// Whether every regression has a remedy, and there were no replays with them.
fn has_only_screened(report: &UpgradeReport) -> bool {
    let all = &report.regressions;
    let is_proved = replayed_remedies(report).is_some();
    !is_proved && !all.is_empty() && all.iter().all(|one| one.status == RemedyStatus::Screened)
}

/// Whether nothing but the regressions with remedies speaks against the upgrade.
fn is_otherwise_good(report: &UpgradeReport, outcome: &Outcome<'_>) -> bool {
    let is_known = |one: &StatementComparison| {
        let fingerprint = one.fingerprint.to_string();
        let mut known = report.regressions.iter();
        known.any(|known| known.fingerprint == fingerprint)
    };
    let rows = report.regressions.iter();
    let rows = rows
        .filter(|one| one.sign == RegressionSign::OtherRows)
        .count();
    report.restore_errors.is_empty()
        && missing_data(report).next().is_none()
        && !outcome.errors.iter().any(|one| one.regression)
        && report.slower.iter().all(is_known)
        && outcome.other_rows <= rows as u64
}

/// Returns the findings on tables and databases that the upgraded server lacks.
fn missing_data(report: &UpgradeReport) -> impl Iterator<Item = &UpgradeFinding> {
    let findings = report.inspection.findings.iter();
    findings.filter(|one| {
        one.severity == UpgradeSeverity::MendAfter
            && matches!(
                one.check,
                UpgradeCheck::MissingTables | UpgradeCheck::Databases
            )
    })
}

/// Reason against the upgrade.
struct Objection {
    text: String,
    /// Whether it rests on times, which compare the hosts of the servers, too.
    is_time: bool,
}

impl Objection {
    /// Counts what speaks against the upgrade; `None` if it is nothing.
    fn counted(number: usize, one: &str, many: &str) -> Option<Self> {
        let text = match number {
            0 => return None,
            1 => format!("1 {one}"),
            number => format!("{number} {many}"),
        };
        let is_time = false;
        Some(Objection { text, is_time })
    }

    fn by_time(self) -> Self {
        Objection {
            is_time: true,
            ..self
        }
    }
}

/// Returns what speaks against the upgrade.
fn against(report: &UpgradeReport, outcome: &Outcome<'_>) -> Vec<Objection> {
    let mut objections = Vec::new();
    objections.extend(Objection::counted(
        report.restore_errors.len(),
        "object could not be restored into the new version.",
        "objects could not be restored into the new version.",
    ));
    let errors = outcome.errors.iter().filter(|one| one.regression);
    objections.extend(Objection::counted(
        errors.count(),
        "error is new or more frequent on the new version.",
        "errors are new or more frequent on the new version.",
    ));
    objections.extend(Objection::counted(
        usize::try_from(outcome.other_rows).unwrap_or(usize::MAX),
        "statement returns other rows or values.",
        "statements return other rows or values.",
    ));
    let steady = outcome.slower.iter();
    let steady = steady.filter(|one| !has_sampled_plan(report, one));
    let steady = steady.count();
    let with = with_all(report);
    let slower = Objection::counted(
        steady,
        &format!("statement is slower{with}."),
        &format!("statements are slower{with}."),
    );
    objections.extend(slower.map(Objection::by_time));
    objections.extend(without_remedy(report));
    for finding in missing_data(report) {
        let names: Vec<String> = finding.objects.iter().take(NAMED_MAX).map(named).collect();
        let more = finding.objects.len().saturating_sub(NAMED_MAX);
        let more = match more {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        objections.push(Objection {
            text: format!(
                "Data are missing on the new server. {}: {}{more}.",
                finding.message,
                names.join(", ")
            ),
            is_time: false,
        });
    }
    // The total is not steadier than the statements that made it slower.
    let is_by_sample = steady == 0 && !outcome.slower.is_empty();
    if outcome.verdict == Some(Verdict::Lost) && !is_by_sample {
        objections.push(Objection {
            text: "All statements together got slower than the margin allows.".to_owned(),
            is_time: true,
        });
    }
    objections
}

/// Names the replays that the outcome is of, if they are those with all remedies.
fn with_all(report: &UpgradeReport) -> &'static str {
    match replayed_remedies(report) {
        Some(_) => " with all remedies",
        None => "",
    }
}

/// Returns the objections by statements without a remedy.
fn without_remedy(report: &UpgradeReport) -> impl Iterator<Item = Objection> {
    let count = |wanted: &dyn Fn(&UpgradeRegression) -> bool| {
        let all = report.regressions.iter();
        // Whether there is a remedy is open if a candidate was not tried.
        let is_open = |one: &UpgradeRegression| one.status == RemedyStatus::Untried;
        all.filter(|one| one.remedy.is_none() && one.sample_dependence.is_none())
            .filter(|one| !is_open(one) && wanted(one))
            .count()
    };
    let (one, many) = (
        "statement does more work with another plan, and no remedy was found.",
        "statements do more work with other plans, and no remedy was found.",
    );
    let is_work = |one: &UpgradeRegression| one.sign == RegressionSign::Work;
    let by_blocks = count(&|one| is_work(one) && reads_more(one));
    // The replays judge the time of a statement that they have.
    let by_time = count(&|one| is_work(one) && !reads_more(one) && replayed(one).is_none());
    let order = count(&|one| one.sign == RegressionSign::OtherOrder);
    let objections = [
        Objection::counted(by_blocks, one, many),
        Objection::counted(
            by_time,
            "statement is slower alone with another plan, and no remedy was found.",
            "statements are slower alone with other plans, and no remedy was found.",
        )
        .map(Objection::by_time),
        Objection::counted(
            order,
            "statement with ORDER BY returns its rows in another order, since the collations differ.",
            "statements with ORDER BY return their rows in another order, since the collations differ.",
        ),
    ];
    objections.into_iter().flatten()
}

/// Returns the times of a statement in the last replays.
fn replayed(one: &UpgradeRegression) -> Option<MeasuredFactor> {
    one.after.or(one.before)
}

/// Whether the plan of a slower statement depends on the sample of `ANALYZE`.
fn has_sampled_plan(report: &UpgradeReport, one: &StatementComparison) -> bool {
    let fingerprint = one.fingerprint.to_string();
    let mut all = report.regressions.iter();
    all.any(|known| known.fingerprint == fingerprint && known.sample_dependence.is_some())
}

/// Whether a statement alone reads clearly more blocks on the new server.
fn reads_more(one: &UpgradeRegression) -> bool {
    let works = one.old_work.zip(one.new_work);
    works.is_none_or(|(old, new)| has_more_blocks(old, new))
}

#[cfg(test)]
mod tests;
