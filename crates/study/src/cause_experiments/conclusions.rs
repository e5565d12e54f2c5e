//! Concludes from the trials of a statement: which findings are confirmed, what they suggest first, and what was tried
//! without an effect.

use diagnose::{
    CauseStatus, Change, ChangeTrial, Cost, Diagnosis, Evidence, Fact, Finding, Form, Severity,
    StatementAccount, Thresholds, TimeAccount, TrialOutcome, Unit,
};
use plans::{PartKind, TimePart};

use super::intervention::{Intervention, MeasuredStatement};

/// Name that stands in place of a rule in findings of experiments.
pub(super) const EXPERIMENT: &str = "experiment";
/// Rule whose findings may take indexes that it did not suggest.
const MISSING_INDEX: &str = "missing-index";
/// Part of another trial's time that one leaves at most if it is clearly better.
const CLEARLY_BETTER: f64 = 0.7;
/// Difference of two parts that are left, of the time without a change, that is within the noise.
const NOISE: f64 = 0.02;
/// Part of a statement's time that a finding must promise at least if a trial can refute it.
const VISIBLE: f64 = 0.15;
/// Largest number of parts of the time in the evidence.
const PARTS_MAX: usize = 4;
/// Origin of the numbers.
const FROM: &str = "EXPLAIN (ANALYZE) in the sandbox, rolled back";

/// Words in the title of a finding whose changes were tried in vain.
const TRIED: &str = " (tried on a copy: ";

/// Trials of a statement, from which to conclude.
pub(super) struct Conclusion<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) thresholds: &'a Thresholds,
    pub(super) account: &'a StatementAccount,
    pub(super) statement: &'a MeasuredStatement<'a>,
    pub(super) trials: Vec<(Intervention, ChangeTrial)>,
}

/// Returns the index of the best trial. Among those that leave about the same time as the best, the first one counts, since earlier
/// interventions are simpler. If that creates an index, the index with the fewest columns counts, and of several the smallest.
pub(super) fn best_trial(trials: &[(Intervention, ChangeTrial)]) -> Option<usize> {
    let gains = || {
        let all = trials.iter().enumerate();
        all.filter(|(_, (intervention, trial))| {
            trial.outcome.is_gain() && !intervention.is_diagnostic()
        })
    };
    let least = gains()
        .map(|(_, (_, trial))| trial.left())
        .min_by(f64::total_cmp)?;
    let equal = || {
        gains().filter(move |(_, (_, trial))| {
            trial.left() * CLEARLY_BETTER <= least || trial.left() - least <= NOISE
        })
    };
    let (first, (_, trial)) = equal().next()?;
    if trial.index_columns.is_none() {
        return Some(first);
    }
    let indexes = equal().filter(|(_, (_, trial))| trial.index_columns.is_some());
    let smallest = indexes.min_by_key(|(_, (_, trial))| (trial.index_columns, trial.index_bytes));
    smallest.map(|(place, _)| place)
}

/// Changes the findings of the statement by its trials.
pub(super) fn conclude(conclusion: Conclusion<'_>, findings: &mut Vec<Finding>) {
    let fingerprint = Some(conclusion.account.fingerprint);
    let best = best_trial(&conclusion.trials);
    let own = |one: &Finding| one.subject.fingerprint == fingerprint && !one.is_unexplained();
    for finding in findings.iter_mut().filter(|one| own(one)) {
        conclusion.annotate(finding);
    }
    let Some(best) = best else {
        conclusion.name_cause(findings);
        return;
    };
    let (intervention, trial) = &conclusion.trials[best];
    let has_change = |one: &Finding| {
        let mut changes = one.changes.iter();
        changes.any(|change| change.form == intervention.change.form && change.form != Form::ByHand)
    };
    let mut place = findings.iter().position(|one| own(one) && has_change(one));
    if place.is_none() && kind_of(&intervention.change.form) == ChangeKind::Index {
        place = findings
            .iter()
            .position(|one| own(one) && one.rule == MISSING_INDEX);
    }
    let place = place.unwrap_or_else(|| {
        findings.push(conclusion.finding(intervention));
        findings.len() - 1
    });
    conclusion.decide(&mut findings[place], intervention, trial);
    conclusion.add_alternatives(&mut findings[place], intervention);
    let decided = findings[place].clone();
    let gain = decided.max_gain.unwrap_or(0.0);
    for (other, finding) in findings.iter_mut().enumerate() {
        if other != place && own(finding) {
            // What the experiment won is not to be won again.
            let left = (conclusion.account.share - gain).max(0.0);
            finding.max_gain = finding.max_gain.map(|gain| gain.min(left));
            let severity = conclusion.thresholds.severity(left);
            finding.severity = finding.severity.max(severity);
        }
    }
}

impl Conclusion<'_> {
    /// Adds the trials to the changes of a finding, and puts those first that helped. Changes that make the statement
    /// slower are left out. A finding whose changes were all tried in vain becomes a note.
    fn annotate(&self, finding: &mut Finding) {
        for change in &mut finding.changes {
            let tried = self.trials.iter().find(|(intervention, _)| {
                intervention.change.form == change.form && change.form != Form::ByHand
            });
            change.trial = tried.map(|(_, trial)| trial.clone());
        }
        let outcome = |change: &Change| change.trial.as_ref().map(|trial| trial.outcome);
        let tried = finding
            .changes
            .iter()
            .filter_map(outcome)
            .collect::<Vec<_>>();
        if tried.is_empty() {
            return;
        }
        if tried.contains(&TrialOutcome::RemovesCause) {
            finding.status = CauseStatus::Confirmed;
        }
        let in_vain = tried
            .iter()
            .all(|one| matches!(one, TrialOutcome::NoEffect | TrialOutcome::Slower));
        let is_visible = finding
            .max_gain
            .is_none_or(|gain| gain >= VISIBLE * self.account.share);
        if in_vain && is_visible && self.statement.is_reproduced() {
            let slower = tried.contains(&TrialOutcome::Slower);
            let words = if slower {
                "slower with it"
            } else {
                "no effect"
            };
            finding.title = format!("{}{TRIED}{words})", finding.title);
            finding.severity = Severity::Note;
        }
        for change in &finding.changes {
            if let Some(trial) = change
                .trial
                .as_ref()
                .filter(|trial| !trial.outcome.is_gain())
            {
                let what = change.form.text().unwrap_or_default().replace('\n', " ");
                let ms = trial
                    .total()
                    .map_or(0.0, |total| total.after_ms / trial.sets.len() as f64);
                finding
                    .evidence
                    .push(milliseconds(format!("time with {what}"), ms));
            }
        }
        finding
            .changes
            .retain(|one| outcome(one) != Some(TrialOutcome::Slower));
        finding
            .changes
            .sort_by(|a, b| order_of_change(a).total_cmp(&order_of_change(b)));
        if finding.changes.is_empty() {
            let words = "what the rule suggests made the statement slower on a copy: see the parts of its time";
            finding.changes.push(Change::manual(words));
        }
    }

    /// Makes the finding of a cause that no rule found.
    fn finding(&self, intervention: &Intervention) -> Finding {
        let one = self.statement.statement;
        Finding {
            rule: EXPERIMENT,
            status: CauseStatus::Hypothesis,
            severity: Severity::Note,
            subject: diagnose::Subject::statement(one.fingerprint, one.sql.clone()),
            title: intervention.cause.clone(),
            evidence: Vec::new(),
            cost: None,
            max_gain: None,
            changes: Vec::new(),
            risk: intervention.risk.clone(),
        }
    }

    /// Puts the best change first, and sets what the finding can win by what was measured.
    fn decide(&self, finding: &mut Finding, intervention: &Intervention, trial: &ChangeTrial) {
        let won = (1.0 - trial.left()).max(0.0);
        let one = self.statement.statement;
        let gain = self.account.share * won;
        finding.max_gain = Some(gain);
        finding.cost = Some(Cost {
            ns: one.ns * won,
            ..self.evidence.cost(one, one.ns * won)
        });
        finding.severity = self.thresholds.severity(gain);
        // Other changes of it were tried in vain.
        let title = finding.title.split(TRIED).next();
        finding.title = title.unwrap_or_default().to_owned();
        if trial.outcome == TrialOutcome::RemovesCause {
            finding.status = CauseStatus::Confirmed;
        }
        finding
            .changes
            .retain(|one| one.form != intervention.change.form || one.form == Form::ByHand);
        let mut change = intervention.change.clone();
        change.trial = Some(trial.clone());
        finding.changes.insert(0, change);
        finding.risk.clone_from(&intervention.risk);
        let mut evidence = trial_facts(trial);
        evidence.extend(part_facts(&self.statement.parts));
        evidence.append(&mut finding.evidence);
        finding.evidence = evidence;
    }

    /// Adds the best change of each other kind that removed the cause as well: an index, a setting, other SQL. Only one of them is needed.
    fn add_alternatives(&self, finding: &mut Finding, chosen: &Intervention) {
        let mut kinds = vec![kind_of(&chosen.change.form)];
        let mut others: Vec<&(Intervention, ChangeTrial)> = self
            .trials
            .iter()
            .filter(|(other, trial)| {
                trial.outcome == TrialOutcome::RemovesCause && !other.is_diagnostic()
            })
            .collect();
        others.sort_by(|(_, a), (_, b)| a.left().total_cmp(&b.left()));
        for (other, trial) in others {
            let kind = kind_of(&other.change.form);
            if kinds.contains(&kind) {
                continue;
            }
            kinds.push(kind);
            finding
                .changes
                .retain(|one| one.form != other.change.form || one.form == Form::ByHand);
            let mut change = other.change.clone();
            change.trial = Some(trial.clone());
            finding.changes.insert(kinds.len() - 1, change);
        }
    }

    /// Adds a finding if only an intervention that is no advice made the statement faster.
    fn name_cause(&self, findings: &mut Vec<Finding>) {
        let forced = self.trials.iter().filter(|(intervention, trial)| {
            intervention.is_diagnostic() && trial.outcome == TrialOutcome::RemovesCause
        });
        let best = forced.min_by(|(_, a), (_, b)| a.left().total_cmp(&b.left()));
        let Some((intervention, trial)) = best else {
            return;
        };
        let mut finding = self.finding(intervention);
        self.decide(&mut finding, intervention, trial);
        findings.push(finding);
    }
}

/// Kind of a change. Changes of one kind are variants of each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Index,
    Setting,
    OtherSql,
    ByHand,
}

fn kind_of(form: &Form) -> ChangeKind {
    match form {
        Form::Sql(sql) if sql.contains("CREATE INDEX") => ChangeKind::Index,
        Form::Sql(_) => ChangeKind::OtherSql,
        Form::Setting(..) => ChangeKind::Setting,
        Form::Rewrite(_) | Form::ByHand => ChangeKind::ByHand,
    }
}

/// Orders changes: those that helped by the time that they leave, then those not tried, then those without an effect.
fn order_of_change(change: &Change) -> f64 {
    match &change.trial {
        Some(trial) if trial.outcome.is_gain() => trial.left(),
        None => 2.0,
        Some(_) => 3.0,
    }
}

fn milliseconds(what: impl Into<String>, ms: f64) -> Fact {
    Fact::new(what, ms * 1e6, Unit::Nanoseconds, FROM)
}

/// Returns the times and blocks with and without a change, on average of the parameter sets.
fn trial_facts(trial: &ChangeTrial) -> Vec<Fact> {
    let Some(total) = trial.total() else {
        return Vec::new();
    };
    let sets = trial.sets.len() as f64;
    vec![
        milliseconds("time without the change", total.before_ms / sets),
        milliseconds("time with the change", total.after_ms / sets),
        Fact::new(
            "blocks without the change",
            total.before_blocks / sets,
            Unit::Count,
            FROM,
        ),
        Fact::new(
            "blocks with the change",
            total.after_blocks / sets,
            Unit::Count,
            FROM,
        ),
    ]
}

/// Returns the parts that take most of a statement's time.
fn part_facts(parts: &TimePart) -> Vec<Fact> {
    let mut all = parts.all();
    all.retain(|one| one.kind != PartKind::Statement && one.own_ms > 0.0);
    all.sort_by(|a, b| b.own_ms.total_cmp(&a.own_ms));
    let largest = all.into_iter().take(PARTS_MAX);
    largest
        .map(|one| {
            let what = match one.kind {
                PartKind::Trigger => format!("of it the trigger {}", one.name),
                PartKind::Constraint => format!("of it the constraint {}", one.name),
                _ => format!("of it {}", one.name),
            };
            milliseconds(what, one.own_ms)
        })
        .collect()
}

/// Adds the parts of the time to the findings on statements that nothing explains.
pub(super) fn describe_unexplained(diagnosis: &mut Diagnosis) {
    for finding in diagnosis
        .findings
        .iter_mut()
        .filter(|one| one.is_unexplained())
    {
        let account = diagnosis
            .accounts
            .iter()
            .find(|one| Some(one.fingerprint) == finding.subject.fingerprint);
        if let Some(TimeAccount::Measured(measured)) = account.and_then(|one| one.measured.as_ref())
        {
            let mut facts = vec![milliseconds(
                "time in the experiment",
                measured.parts.total_ms(),
            )];
            facts.extend(part_facts(&measured.parts));
            facts.append(&mut finding.evidence);
            finding.evidence = facts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::intervention::Action;
    use super::*;
    use diagnose::TrialTimes;

    /// Returns a trial that leaves a part of the time, with the columns and the size of its index.
    fn trial(left: f64, index: Option<(u64, u64)>) -> (Intervention, ChangeTrial) {
        let intervention = Intervention {
            cause: String::new(),
            change: Change::manual("change"),
            action: Action::OnPlan,
            risk: String::new(),
        };
        let times = TrialTimes {
            before_ms: 10.0,
            after_ms: left * 10.0,
            before_blocks: 0.0,
            after_blocks: 0.0,
        };
        let trial = ChangeTrial {
            sets: vec![times],
            index_columns: index.map(|(columns, _)| columns),
            index_bytes: index.map(|(_, bytes)| bytes),
            ..ChangeTrial::without_times(TrialOutcome::RemovesCause, "")
        };
        (intervention, trial)
    }

    #[test]
    fn ties_between_indexes_are_decided_by_columns_then_size() {
        let best = |all: &[(f64, Option<(u64, u64)>)]| {
            let trials: Vec<_> = all
                .iter()
                .map(|(left, index)| trial(*left, *index))
                .collect();
            best_trial(&trials)
        };
        // Noise does not decide.
        let indexes = [
            (0.020, Some((3, 5))),
            (0.018, Some((2, 9))),
            (0.021, Some((2, 8))),
        ];
        assert_eq!(best(&indexes), Some(2));
        // A clear difference does.
        assert_eq!(best(&[(0.40, Some((1, 5))), (0.10, Some((2, 9)))]), Some(1));
        // An earlier change without an index is simpler.
        assert_eq!(best(&[(0.30, None), (0.25, Some((1, 1)))]), Some(0));
        assert_eq!(
            best(&[(0.30, Some((2, 1))), (0.25, None), (0.29, Some((1, 1)))]),
            Some(2)
        );
        assert_eq!(best(&[]), None);
    }
}
