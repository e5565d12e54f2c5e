//! Joins the findings on several statements whose cause is one setting: the setting is one cause, and changing it wins for all.

use diagnose::{
    CauseStatus, Change, ChangeTrial, Cost, Diagnosis, Fact, Finding, Form, Severity, Subject,
    Thresholds, TrialOutcome, TrialTimes, Unit,
};

use super::conclusions::EXPERIMENT;

/// Origin of the numbers.
const FROM: &str = "EXPLAIN (ANALYZE) in the sandbox, rolled back";
/// Longest text of a statement in the evidence, in characters.
const STATEMENT_MAX: usize = 60;

/// Effect of a setting on a statement.
struct Effect {
    /// Index of the finding on the statement.
    finding: usize,
    trial: ChangeTrial,
    /// Share of the whole that it wins.
    gain: f64,
}

/// Adds a finding for each setting that removes the cause of several statements' time. Of their own findings only what is left to win
/// remains. If another change of one of them wins more than the setting for all, that one keeps its finding.
pub(super) fn join_shared_settings(diagnosis: &mut Diagnosis, thresholds: &Thresholds) {
    let mut settings: Vec<Change> = Vec::new();
    for change in diagnosis.findings.iter().flat_map(|one| &one.changes) {
        let is_setting = matches!(change.form, Form::Setting(..));
        if is_setting && !settings.iter().any(|one| one.form == change.form) {
            settings.push(change.clone());
        }
    }
    for setting in settings {
        let mut effects = effects_of(diagnosis, &setting.form);
        let total: f64 = effects.iter().map(|one| one.gain).sum();
        let own = effects.iter().map(|one| &diagnosis.findings[one.finding]);
        let most = own.filter_map(|one| one.max_gain).fold(0.0, f64::max);
        if total < most {
            // Another change of one statement wins more, and comes first.
            effects.retain(|one| diagnosis.findings[one.finding].changes[0].form == setting.form);
        }
        if effects.len() > 1 {
            join(diagnosis, thresholds, &setting, &effects);
        }
    }
    diagnosis.sort();
}

fn effects_of(diagnosis: &Diagnosis, setting: &Form) -> Vec<Effect> {
    let findings = diagnosis.findings.iter().enumerate();
    let found = findings.filter(|(_, one)| one.severity != Severity::Note);
    found
        .filter_map(|(finding, one)| {
            let change = one.changes.iter().find(|change| change.form == *setting)?;
            let trial = change.trial.clone()?;
            let account = diagnosis
                .accounts
                .iter()
                .find(|account| Some(account.fingerprint) == one.subject.fingerprint)?;
            let gain = account.share * (1.0 - trial.left()).max(0.0);
            (trial.outcome == TrialOutcome::RemovesCause).then_some(Effect {
                finding,
                trial,
                gain,
            })
        })
        .collect()
}

fn join(diagnosis: &mut Diagnosis, thresholds: &Thresholds, setting: &Change, effects: &[Effect]) {
    let Form::Setting(name, value) = &setting.form else {
        return;
    };
    let total: f64 = effects.iter().map(|one| one.gain).sum();
    // Some statement has it as its first change, with the cause in words.
    let own = effects.iter().map(|one| &diagnosis.findings[one.finding]);
    let named = own
        .clone()
        .find(|one| one.rule == EXPERIMENT && one.changes[0].form == setting.form);
    let cause = named.map_or_else(
        || format!("{name} does not fit the load"),
        |one| one.title.clone(),
    );
    let risk = named.or(own.clone().next());
    let risk = risk.map_or_else(String::new, |one| one.risk.clone());
    let (mut evidence, mut cost_ns) = (Vec::new(), 0.0);
    for effect in effects {
        let finding = &mut diagnosis.findings[effect.finding];
        let text: String = finding.subject.name.chars().take(STATEMENT_MAX).collect();
        let sets = effect.trial.sets.len() as f64;
        if let Some(total) = effect.trial.total() {
            for (what, ms) in [
                (format!("time of {text}"), total.before_ms),
                (format!("with {name} = {value}"), total.after_ms),
            ] {
                evidence.push(Fact::new(what, ms / sets * 1e6, Unit::Nanoseconds, FROM));
            }
        }
        let account = diagnosis
            .accounts
            .iter()
            .find(|account| Some(account.fingerprint) == finding.subject.fingerprint);
        cost_ns += account.map_or(0.0, |account| account.ns * (1.0 - effect.trial.left()));
        let left = (finding.max_gain.unwrap_or(0.0) - effect.gain).max(0.0);
        finding.max_gain = Some(left);
        finding.severity = finding.severity.max(thresholds.severity(left));
        finding.title = format!(
            "{} ({name} = {value} wins {:.0} % of its time)",
            finding.title,
            (1.0 - effect.trial.left()) * 100.0
        );
    }
    let sets: Vec<TrialTimes> = effects
        .iter()
        .flat_map(|one| one.trial.sets.clone())
        .collect();
    let trial = ChangeTrial {
        sets,
        ..ChangeTrial::without_times(TrialOutcome::RemovesCause, "")
    };
    let left = trial.left();
    let change = Change {
        trial: Some(ChangeTrial {
            reason: None,
            ..trial
        }),
        ..setting.clone()
    };
    diagnosis.findings.push(Finding {
        rule: EXPERIMENT,
        status: CauseStatus::Confirmed,
        severity: thresholds.severity(total),
        subject: Subject::setting(name.clone()),
        title: format!(
            "{cause}: with {value} {} statements take {:.0} % of their time",
            effects.len(),
            left * 100.0
        ),
        evidence,
        cost: Some(Cost {
            ns: cost_ns,
            share: total,
            cpu_share: None,
        }),
        max_gain: Some(total),
        changes: vec![change],
        risk,
    });
}
