//! Reasons why a rehearsal shows too little for *go*.

use compare::proof::Verdict;
use compare::{InconclusiveReason, StatementComparison};

use super::super::data_comparison::DifferingTable;
use super::super::remedied_side::ONE_ROLE_NOTE;
use super::super::remedy_proof::NOT_PROVED_NOTE;
use super::super::result::{UpgradeCoverage, UpgradeReport};
use super::super::time_needed::AdvisedTime;
use super::{NAMED_MAX, Outcome, reads_more, replayed, replayed_remedies, with_all};
use crate::upgrade_remedies::{RegressionSign, RemedyKind, RemedyStatus, UpgradeRegression};

/// Smallest share of the statements, and of their captured time, that must be rehearsed for *go*.
const REHEARSED_MIN: f64 = 0.9;
/// Smallest share of the captured time whose statements the search of remedies must examine for *go*.
const EXAMINED_MIN: f64 = 0.9;
/// Largest share of statements whose answers differ between runs of one version.
const UNSTEADY_MAX: f64 = 0.5;
/// Upper bound of the total response time, new / old, that is accepted if the servers' counters exclude a doubling.
const DOUBLING: f64 = 2.0;
/// Largest number of characters of a statement in a reason. Lists of the report have more of it.
const NAME_MAX: usize = 120;

/// Returns what was not shown.
pub(super) fn reasons(report: &UpgradeReport, outcome: &Outcome<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(time(report, outcome));
    reasons.extend(coverage(report.coverage.as_ref()));
    reasons.extend(search(report));
    reasons.extend(answers(report, outcome));
    reasons.extend(data(report));
    reasons.extend(inspection(report));
    reasons.extend(suspected(report, outcome));
    reasons.extend(slower_alone(report));
    reasons.extend(slower_for_other_values(report));
    reasons.extend(sampled_plans(report));
    reasons.extend(unproved(report));
    let other = report.regressions.iter();
    let other = other.filter(|one| one.sign == RegressionSign::OtherRows && one.remedy.is_none());
    match other.count() {
        0 => {}
        1 => {
            reasons.push("1 statement answered differently when it was executed alone.".to_owned())
        }
        number => reasons.push(format!(
            "{number} statements answered differently when they were executed alone."
        )),
    }
    reasons
}

/// Names the statements that look slower.
fn suspected(report: &UpgradeReport, outcome: &Outcome<'_>) -> Option<String> {
    let names: Vec<String> = outcome.suspected.iter().map(name).collect();
    looks_slower(&names, with_all(report), &more_time(report))
}

/// Names the statements that read the same with another plan and took longer alone, if the replays do not show that this is
/// nothing.
fn slower_alone(report: &UpgradeReport) -> Option<String> {
    let is_open = |one: &&UpgradeRegression| {
        let limit = 1.0 + report.margin;
        one.sign == RegressionSign::Work
            && one.status == RemedyStatus::NotFound
            && one.sample_dependence.is_none()
            && !reads_more(one)
            && replayed(one).is_some_and(|factor| !factor.is_within(limit))
    };
    let replays = " alone, with another plan, but not in the replays";
    regressions_look_slower(report, is_open, replays)
}

/// Names the statements that are worse alone for a part of their values, without a remedy, and that the replays neither judge nor
/// clear.
fn slower_for_other_values(report: &UpgradeReport) -> Option<String> {
    let with = report.remedied.iter();
    let found = (report.slower.iter().chain(&report.suspected))
        .chain(with.flat_map(|with| with.slower.iter().chain(&with.suspected)));
    let found: Vec<String> = found.map(|one| one.fingerprint.to_string()).collect();
    let is_open = |one: &&UpgradeRegression| {
        let limit = 1.0 + report.margin;
        one.is_of_other_values
            && one.sign != RegressionSign::Work
            && one.status == RemedyStatus::NotFound
            && one.sample_dependence.is_none()
            && !found.contains(&one.fingerprint)
            && !replayed(one).is_some_and(|factor| factor.is_within(limit))
    };
    let replays = " alone, for a part of its values with another plan, but not in the replays";
    regressions_look_slower(report, is_open, replays)
}

/// Returns the sentence on the regressions that are open.
fn regressions_look_slower(
    report: &UpgradeReport,
    is_open: impl Fn(&&UpgradeRegression) -> bool,
    replays: &str,
) -> Option<String> {
    let names: Vec<String> = (report.regressions.iter().filter(is_open))
        .map(|one| beginning(&one.sql))
        .collect();
    looks_slower(&names, replays, &more_time(report))
}

/// Returns the sentence on statements of these names, in these replays.
pub(super) fn looks_slower(names: &[String], replays: &str, advice: &str) -> Option<String> {
    let subject = match names.len() {
        0 => return None,
        1 => "1 statement looks".to_owned(),
        number => format!("{number} statements look"),
    };
    Some(format!(
        "{subject} slower{replays}, and chance could not be ruled out: {}. To decide, {advice}.",
        joined(names)
    ))
}

/// Returns the first names of a list, and the number of the others.
pub(super) fn joined(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let named = &names[..names.len().min(NAMED_MAX)];
    format!("{}{more}", named.join("; "))
}

/// Returns the beginning of a statement, or its fingerprint if its text is not known.
pub(super) fn name(statement: &StatementComparison) -> String {
    match &statement.sql {
        Some(sql) => beginning(sql),
        None => statement.fingerprint.to_string(),
    }
}

/// Returns the beginning of a statement, in one line.
pub(super) fn beginning(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

/// States why remedies that helped statements alone are not proved.
pub(super) fn unproved(report: &UpgradeReport) -> Vec<String> {
    let all = report.regressions.iter();
    let screened = all.filter(|one| one.status == RemedyStatus::Screened);
    let (apart, replayed): (Vec<_>, Vec<_>) = screened.partition(|one| is_never_replayed(one));
    let has_replays = replayed_remedies(report).is_some();
    let replayed = remedies_of(replayed.len()).map(|subject| match has_replays {
        true => format!(
            "{subject} helped in executions alone, and the replays with all remedies do not show that this suffices; {}.",
            more_time(report)
        ),
        false => format!(
            "{subject} helped in executions alone, without a proof by replays: {}.",
            missing_replays(report)
        ),
    });
    let apart = remedies_of(apart.len()).map(|subject| {
        format!(
            "{subject} helped in executions alone, no replay can have it, and the replays do not show that it is not needed; see the \
             statement."
        )
    });
    replayed.into_iter().chain(apart).collect()
}

/// Whether the sessions of the replays cannot have a remedy.
fn is_never_replayed(one: &UpgradeRegression) -> bool {
    let is_advice = (one.remedy.as_ref()).is_some_and(|one| one.kind == RemedyKind::PlanAdvice);
    is_advice || one.note.as_deref() == Some(ONE_ROLE_NOTE)
}

fn remedies_of(statements: usize) -> Option<String> {
    match statements {
        0 => None,
        1 => Some("The remedy of 1 statement".to_owned()),
        number => Some(format!("The remedies of {number} statements")),
    }
}

/// Returns the reason why there are no replays with the remedies, without a full stop.
fn missing_replays(report: &UpgradeReport) -> String {
    let mut reasons = (report.notes.iter()).filter_map(|note| note.strip_prefix(NOT_PROVED_NOTE));
    match reasons.next() {
        Some(reason) => reason.trim_end_matches('.').to_owned(),
        None => more_time(report),
    }
}

/// Counts the statements whose worse plan depends on the sample of `ANALYZE`.
fn sampled_plans(report: &UpgradeReport) -> Option<String> {
    let all = report.regressions.iter();
    let is_cleared = |one: &UpgradeRegression| {
        replayed(one).is_some_and(|factor| factor.is_within(1.0 + report.margin))
    };
    let sampled = all.filter(|one| one.sample_dependence.is_some() && !is_cleared(one));
    let (subject, rest) = match sampled.count() {
        0 => return None,
        1 => ("1 statement is".to_owned(), "its plan depends"),
        number => (format!("{number} statements are"), "their plans depend"),
    };
    Some(format!(
        "{subject} worse, but {rest} on the sample of ANALYZE on both versions, so that the upgrade need not be the cause. \
         Collect larger statistics of the tables on both servers, as listed below, and rehearse again."
    ))
}

/// Describes changed plans with a known risk, or that plans were not compared.
pub(super) fn plan_risks(report: &UpgradeReport) -> Option<String> {
    let Some(plans) = &report.plans else {
        return Some("Plans were not compared; see the notes.".to_owned());
    };
    let statements = plans.statements.iter();
    let risky = statements.filter(|one| one.plans.iter().any(|pair| !pair.risks.is_empty()));
    match risky.count() {
        0 => None,
        1 => Some("The plan of 1 statement has a new risk; see the plans.".to_owned()),
        number => Some(format!(
            "The plans of {number} statements have new risks; see the plans."
        )),
    }
}

pub(super) fn more_time(report: &UpgradeReport) -> String {
    let advised = report.advised_time.as_ref();
    advised.map_or_else(
        || "give more time with --within".to_owned(),
        AdvisedTime::describe,
    )
}

fn time(report: &UpgradeReport, outcome: &Outcome<'_>) -> Option<String> {
    match outcome.verdict {
        None => Some("The replays on both versions were not completed.".to_owned()),
        // It may be faster: the question is whether it is slower.
        Some(Verdict::NotProven) if outcome.is_no_slower(report.margin) => None,
        // Work is compared before time.
        Some(Verdict::NotProven) if is_work_equal(report, outcome) => None,
        Some(Verdict::NotProven) if outcome.evidence.is_disturbed => Some(
            "This program stalled in a run, so that the times of the replays show nothing, and neither do counters and plans show \
             that the work is the same. Rehearse again, with another -o, on a machine that is less busy."
                .to_owned(),
        ),
        Some(Verdict::NotProven) => {
            let high = outcome.effect.map_or_else(
                || "it was not measured".to_owned(),
                |effect| format!("new / old, it is at most × {:.2}", effect.high),
            );
            Some(format!(
                "The runs do not show that the response time stays within the margin of {:.0} %: {high}. Neither do pages read, \
                 processor time, temporary files and plans show that the work is the same; {}.",
                report.margin * 100.0,
                more_time(report)
            ))
        }
        Some(Verdict::Won | Verdict::Same | Verdict::Lost) => None,
    }
}

/// Whether counters show that the new version does no more work. Blocks alone do not: a slower function, JIT compilation and
/// a sort in memory read none.
fn is_work_equal(report: &UpgradeReport, outcome: &Outcome<'_>) -> bool {
    let evidence = outcome.evidence;
    let is_within = |high: f64| high <= 1.0 + report.margin;
    let processor = evidence.processor_time.as_ref();
    let is_processor_time_equal = processor.is_some_and(|effect| is_within(effect.high));
    let total = outcome.effect.map(|effect| effect.high);
    let excludes_doubling = evidence.excludes_doubling && total.is_some_and(|high| high < DOUBLING);
    outcome.work.is_some_and(|work| is_within(work.high))
        && evidence.temporary_files.is_none_or(is_within)
        && (is_processor_time_equal || excludes_doubling)
        && evidence.inconclusive.is_none()
        && plan_risks(report).is_none()
}

fn coverage(coverage: Option<&UpgradeCoverage>) -> Vec<String> {
    let Some(coverage) = coverage.filter(|coverage| coverage.rehearsed > 0) else {
        return vec![
            "No statement of the workload was replayed on both versions with the captured outcome."
                .to_owned(),
        ];
    };
    let advice = "see the coverage; a workload of one database is made with `rehearse slice`";
    let missing = |rehearsed: u64, all: u64, name: &str| {
        let share = rehearsed as f64 / all.max(1) as f64;
        (all > 0 && share < REHEARSED_MIN).then(|| {
            format!(
                "{:.0} % of the {name} not rehearsed: not sent, or failed unlike in the capture; {advice}.",
                (1.0 - share) * 100.0
            )
        })
    };
    let statements = missing(
        coverage.rehearsed,
        coverage.statements,
        "workload's statements were",
    );
    let time = missing(
        coverage.rehearsed_captured_us,
        coverage.captured_us,
        "captured time was",
    );
    statements.into_iter().chain(time).collect()
}

/// Describes statements that the search of remedies left out, and those whose candidates are open.
fn search(report: &UpgradeReport) -> Vec<String> {
    let mut reasons = Vec::new();
    let coverage = report.evidence.search.as_ref();
    if let Some(coverage) = coverage.filter(|one| one.examined_share() < EXAMINED_MIN) {
        let measure = match coverage.captured_us {
            0 => "statements",
            _ => "captured time",
        };
        reasons.push(format!(
            "Changes of plan, work and answers were examined for {} of {} statements, which are {:.0} % of the {measure}; the \
             notes have the reasons.",
            coverage.examined,
            coverage.statements,
            (100.0 * coverage.examined_share()).floor()
        ));
    }
    let open = report.regressions.iter();
    let open = open.filter(|one| one.status == RemedyStatus::Untried);
    let untried = format!(
        "candidates for a remedy, or samples of ANALYZE, failed or were not tried; see the statements, or {}",
        more_time(report)
    );
    match open.count() {
        0 => {}
        1 => reasons.push(format!("For 1 statement that is worse, {untried}.")),
        number => reasons.push(format!(
            "For {number} statements that are worse, {untried}."
        )),
    }
    reasons
}

fn answers(report: &UpgradeReport, outcome: &Outcome<'_>) -> Vec<String> {
    let evidence = outcome.evidence;
    let mut reasons = Vec::new();
    if outcome.verdict.is_some() && evidence.answers == 0 {
        reasons.push("No answer of both versions could be compared.".to_owned());
    }
    if evidence.unsteady.len() as f64 > UNSTEADY_MAX * evidence.statements() as f64 {
        reasons.push(format!(
            "The answers of {} of {} statements differ between runs of one version, so that they could not be compared.",
            evidence.unsteady.len(),
            evidence.statements()
        ));
    }
    let unknown = &evidence.rows_of_unknown_reason;
    if let Some(first) = unknown.first() {
        let (number, verb) = match unknown.len() {
            1 => ("1 statement".to_owned(), "returns"),
            number => (format!("{number} statements"), "return"),
        };
        reasons.push(format!(
            "{number} {verb} other rows, perhaps only since a value is one of the server or the statement leaves its rows open (in \
             brackets). Compare the rows on both servers by hand: {first}{}",
            match unknown.len() {
                1 => "",
                _ => ", and others; see the JSON file",
            }
        ));
    }
    if evidence.inconclusive == Some(InconclusiveReason::RowsOfAnotherMoment) {
        reasons.push("Errors show that both servers hold rows of different moments.".to_owned());
    }
    reasons.extend(unrestored(report));
    reasons
}

/// States that runs wrote and found the data of other runs.
pub(super) fn unrestored(report: &UpgradeReport) -> Option<String> {
    let text = "The workload writes, and nothing restored the data before each run: runs on the old version and on the new one \
                found different data. Give --restore or --template.";
    (!report.is_restored).then(|| text.to_owned())
}

fn data(report: &UpgradeReport) -> Vec<String> {
    let mut reasons = Vec::new();
    match report.restore_errors_of_both.len() {
        0 => {}
        1 => reasons.push("1 object could not be restored into both versions.".to_owned()),
        number => reasons.push(format!(
            "{number} objects could not be restored into both versions."
        )),
    }
    let tables = report.data.iter().flat_map(|data| &data.differing);
    let tables: Vec<&DifferingTable> = tables.filter(|one| one.is_large()).collect();
    if !tables.is_empty() {
        let named: Vec<String> = tables
            .iter()
            .take(NAMED_MAX)
            .map(|one| match one.rows {
                Some([old, new]) => format!("{} has {old} and {new} rows", one.name),
                None => format!(
                    "{} has {} and {} bytes",
                    one.name, one.bytes[0], one.bytes[1]
                ),
            })
            .collect();
        let more = match tables.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(", and {more} more differ"),
        };
        reasons.push(format!(
            "The old server and the new one began with different data: {}{more}. Restore both from the same dump; a command \
             of `--restore` must fail if a part of it fails (`set -o pipefail`, `psql -v ON_ERROR_STOP=1`).",
            named.join(", ")
        ));
    }
    reasons
}

fn inspection(report: &UpgradeReport) -> Option<String> {
    let unchecked = report.inspection.unchecked.iter();
    let parts: Vec<String> = unchecked
        .filter(|one| one.can_block())
        .map(|one| match &one.database {
            Some(database) => format!("{} {database}", one.part),
            None => one.part.clone(),
        })
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Parts that can block the upgrade were not checked: {}; give a role that may read them.",
            parts.join(", ")
        )
    })
}
