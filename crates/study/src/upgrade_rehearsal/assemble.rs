//! Report from the parts of a rehearsal.

use compare::StatementComparison;
use compare::proof::Effect;
use run::{Captured, Outcome, RunReader};
use workload::{Literals, Sqlstate, WorkloadReader, redact_message};

use super::asynchronous_reads::add_asynchronous_reads;
use super::data_comparison::DataComparison;
use super::decision;
use super::own_servers;
use super::private_servers;
use super::rehearsal_plan::RehearsalPlan;
use super::remedy_proof::FoundRemedies;
use super::result::{UpgradeCoverage, UpgradeDecision, UpgradeReport};
use super::server_limits::{self, MissingJit};
use super::time_needed::AdvisedTime;
use super::{MARGIN, PreparedServers, REPLAYS, RehearsalServers, UpgradeRequest};
use crate::environment::MissingSetting;
use crate::failure::Failure;
use crate::plan_check::PlanCheck;
use crate::proof::{ProofJournal, ProofReport, ProofSideReport};
use crate::upgrade_inspect::{UpgradeCheck, UpgradeFinding, UpgradeInspection};
use crate::upgrade_remedies::{RegressionSign, UpgradeRegression};

/// SQLSTATE of an error that no function raises by default.
const INTERNAL_ERROR: Sqlstate = Sqlstate(*b"XX000");
/// Largest number of statements with rows of the server that a note names.
const SERVER_ROWS_NAMED_MAX: usize = 5;

/// Largest number of tables with other data that a note names.
const TABLES_NAMED_MAX: usize = 5;

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
    notes.extend(server_limits::missing_settings(&remedies.missing_settings));
    if let Err(failure) = &plans {
        notes.push(format!("plans were not compared: {}", failure.message));
    }
    let mut restore_errors = Vec::new();
    let mut restore_errors_of_both = Vec::new();
    if let Some(copy) = &servers.copy {
        let errors = copy.errors();
        restore_errors = shown(errors.new, request.literals);
        restore_errors_of_both = shown(errors.both, request.literals);
        notes.extend(copy.differences());
        let old = shown(errors.old, request.literals).into_iter();
        notes.extend(old.map(|error| format!("the restore failed on the old version: {error}")));
    }
    if let Some(data) = data.as_ref().filter(|data| !data.uncounted.is_empty()) {
        notes.push(format!(
            "rows were not counted, and sizes compared instead: {}",
            data.uncounted.join(", ")
        ));
    }
    let data_text = data.as_ref().and_then(other_data_text);
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
        is_restored: is_restored(request, servers, whole),
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
        regressions: with_other_data(remedies.regressions, data_text.as_deref()),
        remedied: remedies.proof,
        plans: plans.ok(),
        restore_errors,
        restore_errors_of_both,
        inspection,
        proof: request.output.join(REPLAYS).display().to_string(),
        notes,
    };
    if let Some(side) = side {
        add_differences(&mut report, side);
    }
    report.notes.extend(note_on_commits(&report));
    add_asynchronous_reads(&mut report);
    decide(&mut report, servers, &remedies.missing_settings);
    if let Some(same) = &servers.same_version {
        report.reasons.insert(0, same.clone());
    }
    add_refusal(
        &mut report,
        &private_servers::upgrade_refusal(request.output),
    );
    Ok(report)
}

/// Adds what differs in the replays without remedies.
fn add_differences(report: &mut UpgradeReport, side: ProofSideReport) {
    report.slower = side.slower;
    report.suspected = side.suspected;
    report.faster = side.faster.len() as u64;
    report.errors = side.errors;
    report.other_rows = report.evidence.other_rows;
}

/// Decides, with the limits that come from the servers: their hosts, settings and builds.
fn decide(
    report: &mut UpgradeReport,
    servers: &PreparedServers,
    missing_settings: &[Vec<MissingSetting>; 2],
) {
    let unequal_settings = server_limits::unequal_settings(missing_settings);
    let is_private = servers.copy.is_some();
    let jit = server_limits::jit(&report.evidence.builds, &servers.checks).filter(|_| is_private);
    let (unequal_jit, missing_jit) = match jit {
        Some(MissingJit::OfOne(text)) => (Some(text), None),
        Some(MissingJit::OfBoth(text)) => (None, Some(text)),
        None => (None, None),
    };
    // With unequal settings or builds times decide nothing, as on unequal hosts.
    let unequal = (servers.unequal_hosts.iter())
        .chain(&unequal_settings)
        .chain(&unequal_jit);
    let unequal: Vec<&str> = unequal.map(String::as_str).collect();
    let unequal = (!unequal.is_empty()).then(|| unequal.join(" "));
    (report.decision, report.reasons) = decision::decide(report, unequal.as_deref());
    limit_by_builds(report, missing_jit);
}

/// Returns messages of a restore, without quoted texts and numbers unless they may be shown. `pg_restore` prints no SQLSTATE, so a
/// message that a function raised is not told apart: other words of it are kept.
fn shown(messages: Vec<String>, literals: Literals) -> Vec<String> {
    let messages = messages.iter();
    messages
        .map(|message| redact_message(INTERNAL_ERROR, message, literals))
        .collect()
}

/// Adds what the versions, the builds and the data of the servers do not allow to conclude.
fn limit_by_builds(report: &mut UpgradeReport, missing_jit: Option<String>) {
    if let Some(jit) = missing_jit {
        report.reasons.insert(0, jit);
        report.decision = match report.decision {
            UpgradeDecision::Go | UpgradeDecision::GoWithRemedies => UpgradeDecision::Undecided,
            other => other,
        };
    }
    let builds = server_limits::builds(&report.evidence.builds);
    let data = server_limits::other_data(&report.other_data);
    let prerelease = server_limits::prerelease(&report.to_version);
    let limits = prerelease.into_iter().chain(builds).chain(data);
    report.reasons.extend(limits);
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

/// Names the settings that explain slower commits; `None` if no commit is slower, or they are equal.
fn note_on_commits(report: &UpgradeReport) -> Option<String> {
    let is_commit = |one: &StatementComparison| {
        let sql = one.sql.as_deref().unwrap_or_default().to_ascii_lowercase();
        ["commit", "end"].contains(&sql.split_whitespace().next().unwrap_or_default())
    };
    let mut slower = report.slower.iter().chain(&report.suspected);
    slower.find(|one| is_commit(one))?;
    let settings = commit_settings(&report.inspection.findings);
    (!settings.is_empty()).then(|| {
        format!(
            "COMMIT is slower, and the servers differ in settings that act on it: {}",
            settings.join(", ")
        )
    })
}

/// Returns the differing settings that act on commits, with their values.
fn commit_settings(findings: &[UpgradeFinding]) -> Vec<String> {
    const NAMES: [&str; 5] = [
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "commit_delay",
        "commit_siblings",
    ];
    let differing = findings.iter();
    let differing = differing.filter(|one| one.check == UpgradeCheck::DifferingSettings);
    let objects = differing.flat_map(|one| &one.objects);
    let of_commits =
        objects.filter(|one| NAMES.contains(&one.name.as_str()) || one.name.starts_with("wal_"));
    of_commits
        .map(|one| match &one.detail {
            Some(detail) => format!("{} ({detail})", one.name),
            None => one.name.clone(),
        })
        .collect()
}

/// Names the tables that began with other data; `None` if there are none.
fn other_data_text(data: &DataComparison) -> Option<String> {
    let tables = data.differing.iter().take(TABLES_NAMED_MAX);
    let tables: Vec<String> = tables
        .map(|one| match one.rows {
            Some([old, new]) => format!("{} ({old} rows, {new} on the new server)", one.name),
            None => one.name.clone(),
        })
        .collect();
    let more = match data.differing.len() - tables.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!tables.is_empty()).then(|| {
        format!(
            "Tables began with other data, so that other rows are expected: {}{more}.",
            tables.join(", ")
        )
    })
}

/// States first at each statement with other rows that tables began with other data.
fn with_other_data(
    mut regressions: Vec<UpgradeRegression>,
    text: Option<&str>,
) -> Vec<UpgradeRegression> {
    let Some(text) = text else { return regressions };
    for one in &mut regressions {
        if one.sign == RegressionSign::OtherRows {
            let note = one.note.take().unwrap_or_default();
            one.note = Some(format!("{text} {note}").trim_end().to_owned());
        }
    }
    regressions
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

/// Whether each run began with the same data. Functions of a workload that seems to read only may write, which the servers count.
fn is_restored(
    request: &UpgradeRequest<'_>,
    servers: &PreparedServers,
    whole: &WorkloadReader,
) -> bool {
    match (&request.servers, servers.changed_rows) {
        (RehearsalServers::Own(own), Some(known)) => {
            let now = own_servers::changed_rows(request, own);
            whole.info().writes == 0 && now.is_ok_and(|now| now == known)
        }
        _ => true,
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

    use super::*;
    use crate::upgrade_inspect::{UpgradeObject, UpgradeSeverity};
    use crate::upgrade_rehearsal::DifferingTable;

    #[test]
    fn messages_of_a_restore_have_names_and_no_values() {
        let messages = || {
            vec![
                "invalid input syntax for type date: \"1 Elm Street\"".to_owned(),
                "extension \"postgis\" is not available".to_owned(),
            ]
        };
        let hidden = shown(messages(), Literals::Hidden);
        assert!(!hidden[0].contains("Elm"), "{hidden:?}");
        assert_eq!(hidden[1], messages()[1]);
        assert_eq!(shown(messages(), Literals::Shown), messages());
    }

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

    #[test]
    fn other_data_are_named_first_at_statements_with_other_rows_only() {
        let data = DataComparison {
            differing: vec![DifferingTable {
                name: "sales.orders".to_owned(),
                rows: Some([80_000, 80_052]),
                bytes: [1, 1],
            }],
            ..DataComparison::default()
        };
        let regression = |sign| UpgradeRegression {
            note: Some("The answers differ.".to_owned()),
            ..UpgradeRegression::new("", "", sign)
        };
        let all = [RegressionSign::OtherRows, RegressionSign::Slower].map(regression);
        let text = other_data_text(&data);
        let found = with_other_data(all.into(), text.as_deref());
        let notes = found
            .iter()
            .map(|one| one.note.as_deref().unwrap_or_default());
        let notes: Vec<&str> = notes.collect();
        assert!(
            notes[0].starts_with("Tables began with other data"),
            "{notes:?}"
        );
        assert!(notes[0].contains("sales.orders (80000 rows, 80052 on the new server)"));
        assert_eq!(notes[1], "The answers differ.");
        assert_eq!(other_data_text(&DataComparison::default()), None);
    }

    #[test]
    fn settings_that_act_on_commits_are_named_with_their_values() {
        let object = |name: &str| UpgradeObject {
            database: None,
            name: name.to_owned(),
            detail: Some("off → on".to_owned()),
            statement: None,
        };
        let finding = UpgradeFinding {
            check: UpgradeCheck::DifferingSettings,
            severity: UpgradeSeverity::MendAfter,
            message: String::new(),
            reason: String::new(),
            remedy: String::new(),
            objects: ["jit", "fsync", "wal_compression"].map(object).into(),
        };
        assert_eq!(
            commit_settings(&[finding]),
            ["fsync (off → on)", "wal_compression (off → on)"]
        );
    }
}
