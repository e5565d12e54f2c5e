//! Finds the causes of statements' times by experiment, in a leased sandbox.
//!
//! ```text
//! statements that make up 95 % of the time ─► executed with several parameter sets ─► account of each
//!   statement that takes more than its rows need, or has a finding
//!     ─► changes that rules propose, interventions of the generators ─► each tried ─► findings
//! ```
//!
//! Each statement is executed with values of the workload, in transactions that are rolled back. An intervention is made in
//! such a transaction, too. A cause is confirmed if its intervention leaves half of the time or less.

mod conclusions;
mod generators;
mod intervention;
mod outside_effects;
mod screen;
mod shared_settings;
mod statement_account;
mod statement_trial;
mod suspects;
mod trial_place;
mod trial_session;
mod write_cost;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::login::Dialer;
use diagnose::{
    ChangeTrial, Diagnosis, Evidence, Finding, Form, Severity, StatementAccount, Suspect,
    Thresholds, TimeAccount, TrialOutcome, is_fast_alone,
};
use observe::Example;
use plans::{MeasuredTimes, account_time};
use sql::Fingerprint;
use workload::WorkloadReader;

use crate::baseline_run;
use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::notes;
use crate::prove_findings::FindingsRequest;
use conclusions::{Conclusion, conclude};
pub(crate) use intervention::STATEMENT_RESOURCES;
use intervention::{Action, Intervention, MeasuredStatement, acts_on_statement};
use screen::try_intervention;
use shared_settings::join_shared_settings;
use statement_account::{measured_account, tried_change};
pub(crate) use statement_trial::{PlanTables, PlanningMode, TrialConnection, is_executable};
use suspects::examine_suspects;
pub(crate) use trial_place::TrialPlace;
pub(crate) use trial_session::TrialSession;
use write_cost::measure_writes;

/// Maximum number of statements.
const STATEMENTS_MAX: usize = 50;
/// Time for all experiments, if the time budget allows it.
const TIME_MAX: Duration = Duration::from_secs(300);
/// Part of the time budget that experiments may take if findings are to be proved after them.
const BUDGET_SHARE: u32 = 2;
/// Shortest time for the experiments with a statement, if there is any left.
const STATEMENT_TIME_MIN: Duration = Duration::from_secs(10);
/// Maximum number of interventions for each statement.
const INTERVENTIONS_MAX: usize = 24;
/// Number of writing statements whose values are kept, to measure what an index costs them.
const WRITES_MAX: usize = 20;
/// Share of the time from which a statement is worth interventions.
const SHARE_MIN: f64 = 0.01;
/// Share of the time from which a statement is worth interventions although its work fits its rows.
const HEAVY_SHARE: f64 = 0.1;
/// Time of such a statement in milliseconds.
const HEAVY_MS: f64 = 0.3;
/// Share of the observed time that such a statement takes at least; an idle server needs no diagnosis.
const BUSY: f64 = 0.01;
/// Time of an execution, in milliseconds, from which it is not repeated.
const LONG_MS: f64 = 1_000.0;
/// First version in which `plan_cache_mode` exists.
const VERSION_12: u32 = 120_000;

/// Measures where the time of statements goes, tries interventions, and replaces the findings whose cause was found. Decides
/// suspects that are an index or a setting.
///
/// # Errors
/// If the sandbox cannot be leased, or the workload cannot be read.
pub fn find_causes(
    request: &FindingsRequest<'_>,
    workload: &WorkloadReader,
    evidence: &Evidence,
    thresholds: &Thresholds,
    (diagnosis, suspects): (&mut Diagnosis, &mut [Suspect]),
) -> Result<(), Failure> {
    let accounted = diagnosis.accounts.iter().filter(|account| {
        evidence
            .statement(account.fingerprint)
            .is_some_and(|one| one.is_work())
    });
    let accounted: Vec<Fingerprint> = accounted.map(|one| one.fingerprint).collect();
    if accounted.is_empty() {
        return Ok(());
    }
    let writes = evidence
        .statements
        .iter()
        .filter(|one| one.class.may_write());
    let writes = writes.take(WRITES_MAX).map(|one| one.fingerprint);
    let wanted: HashSet<Fingerprint> = accounted.iter().copied().chain(writes).collect();
    let examples = observe::example_sets(workload, &wanted)?.into_iter();
    let examples = examples.map(|(fingerprint, found)| (fingerprint, found.examples));
    let examples: HashMap<Fingerprint, Vec<Example>> = examples.collect();

    let place = &request.proof.place;
    let database = baseline_run::choose_database(workload, place.database.as_deref())?;
    let mut lease = baseline_run::lease_sandbox(place.sandbox.as_deref(), &database)?;
    let tried = try_all(
        request,
        &mut lease,
        &examples,
        (evidence, thresholds),
        (diagnosis, suspects),
    );
    lease.release()?;
    tried
}

fn try_all(
    request: &FindingsRequest<'_>,
    lease: &mut crate::SandboxLease,
    examples: &HashMap<Fingerprint, Vec<Example>>,
    (evidence, thresholds): (&Evidence, &Thresholds),
    (diagnosis, suspects): (&mut Diagnosis, &mut [Suspect]),
) -> Result<(), Failure> {
    let count = diagnosis.accounts.len().min(STATEMENTS_MAX);
    notes::note(&format!(
        "Executing the {count} statements that take 95 % of the time, and trying what could make them faster, in transactions \
         that are rolled back.",
    ));
    let engine = &request.proof.replay;
    let target = engine.target_with_settings(&lease.restart_clean(&[])?);
    let dialer = Dialer::new(&target).map_err(ExperimentError::from)?;
    let deadline_ns = request.clock.now_ns() + experiment_time(request).as_nanos() as i64;
    let session = TrialSession::of_owner(&target, target.database.as_deref().unwrap_or_default());
    let connection = TrialConnection::new(&dialer, session, (request.clock, deadline_ns));
    let mut experiments = Experiments {
        evidence,
        examples,
        connection,
        place: TrialPlace::new(&target, &engine.logins),
        clock: request.clock,
        deadline_ns,
    };
    let database = target.database.clone().unwrap_or_default();
    // The user asked for these, so they come first, with half of the time at most.
    let now_ns = request.clock.now_ns();
    let until_ns = now_ns + (deadline_ns - now_ns) / 2;
    examine_suspects(
        &mut experiments,
        &diagnosis.accounts,
        (&database, until_ns),
        suspects,
    );
    let mut accounts = std::mem::take(&mut diagnosis.accounts);
    let mut left = accounts.len() as i64;
    for (place, account) in accounts.iter_mut().enumerate() {
        if request.interrupt.is_requested() {
            break;
        }
        let now_ns = request.clock.now_ns();
        let time_ns = (experiments.deadline_ns - now_ns).max(0);
        // The statement may take twice its part, since most take less.
        let own_ns = (time_ns * 2 / left.max(1)).max(STATEMENT_TIME_MIN.as_nanos() as i64);
        left -= 1;
        let until_ns = now_ns + own_ns.min(time_ns);
        let measured = match place < STATEMENTS_MAX {
            true => experiments.examine(account, until_ns, thresholds, &mut diagnosis.findings),
            false => Err(format!(
                "only the first {STATEMENTS_MAX} statements are executed"
            )),
        };
        account.measured =
            Some(measured.unwrap_or_else(|reason| TimeAccount::NotMeasured { reason }));
    }
    diagnosis.accounts = accounts;
    diagnosis.account_again(evidence, thresholds);
    conclusions::describe_unexplained(diagnosis);
    join_shared_settings(diagnosis, thresholds);
    Ok(())
}

/// Returns the time for all experiments: what is left of the time budget, or a part of it if findings are to be proved.
fn experiment_time(request: &FindingsRequest<'_>) -> Duration {
    let left = request.time_left();
    let part = match request.max_findings {
        0 => left,
        _ => left / BUDGET_SHARE,
    };
    part.min(TIME_MAX)
}

/// Experiments with the statements of a diagnosis.
struct Experiments<'a> {
    evidence: &'a Evidence,
    examples: &'a HashMap<Fingerprint, Vec<Example>>,
    connection: TrialConnection<'a>,
    place: TrialPlace<'a>,
    clock: &'a SystemClock,
    /// Time at which they end.
    deadline_ns: i64,
}

impl<'a> Experiments<'a> {
    /// Measures a statement, tries interventions if it needs them, and changes its findings. Returns its account, or
    /// the reason why it was not measured.
    fn examine(
        &mut self,
        account: &StatementAccount,
        until_ns: i64,
        thresholds: &Thresholds,
        findings: &mut Vec<Finding>,
    ) -> Result<TimeAccount, String> {
        let sets = self.executable_sets(account.fingerprint)?;
        let statement = self.measure(account.fingerprint, sets)?;
        let mut measured = measured_account(&statement);
        let is_fast = is_fast_alone(
            thresholds,
            statement.statement,
            &measured.executions,
            &measured.parts,
        );
        let is_suspicious = account.needs_explanation && !is_fast
            || findings.iter().any(|one| {
                one.subject.fingerprint == Some(account.fingerprint)
                    && one.severity != Severity::Note
                    && !one.is_unexplained()
            });
        // One whose work fits its rows may still be twice as fast, such as by an index with all its columns.
        let is_heavy = account.share >= HEAVY_SHARE
            && statement.total_ms() >= HEAVY_MS
            && account.ns >= BUSY * self.evidence.elapsed_s * 1e9;
        if account.share >= SHARE_MIN && is_suspicious || is_heavy {
            let proposed = self.propose(&statement, findings);
            let (mut trials, untried) = self.try_interventions(&statement, proposed, until_ns);
            if !is_suspicious {
                trials.retain(|(_, trial)| trial.outcome != TrialOutcome::Faster);
            }
            measured.untried = untried;
            measured.tried = trials.iter().map(tried_change).collect();
            let conclusion = Conclusion {
                evidence: self.evidence,
                thresholds,
                account,
                statement: &statement,
                trials,
            };
            conclude(conclusion, findings);
        }
        Ok(TimeAccount::Measured(Box::new(measured)))
    }

    /// Returns the parameter sets of a statement that may be executed, or the reason why there are none.
    fn executable_sets(&mut self, fingerprint: Fingerprint) -> Result<Vec<Example>, String> {
        if self.connection.is_time_over() {
            return Err(
                "the time for experiments was over; give more with --time-budget".to_owned(),
            );
        }
        let sets = self.examples.get(&fingerprint);
        let Some(first) = sets.and_then(|sets| sets.first()) else {
            return Err("the workload has no execution of it with all its values".to_owned());
        };
        if !is_executable(first) {
            return Err("EXPLAIN takes one SELECT, INSERT, UPDATE, DELETE or MERGE".to_owned());
        }
        self.place.enter(&mut self.connection, first)?;
        Ok(sets.cloned().unwrap_or_default())
    }

    /// Executes each parameter set. Sets that fail are left out.
    fn measure(
        &mut self,
        fingerprint: Fingerprint,
        sets: Vec<Example>,
    ) -> Result<MeasuredStatement<'a>, String> {
        let statement = self.evidence.statement(fingerprint);
        let statement = statement.ok_or("nothing else is known about it")?;
        let version = self.connection.version()?;
        let cache_mode = self.evidence.setting("plan_cache_mode");
        let is_prepared = version >= VERSION_12 && may_have_generic_plan(&sets, cache_mode);
        let (sets, custom) = self.execute_sets(sets, PlanningMode::Custom)?;
        let (mut mode, mut trial_mode) = (PlanningMode::Custom, PlanningMode::Custom);
        let (mut sets, mut baseline, mut own) = (sets, custom, Vec::new());
        if is_prepared
            && let Ok((prepared_sets, prepared)) =
                self.execute_sets(sets.clone(), PlanningMode::Prepared)
        {
            let shapes = |all: &[MeasuredTimes]| -> Vec<_> {
                all.iter().map(|times| times.plan.shape()).collect()
            };
            // A change may make the server choose a generic plan although it does not without the change.
            if prepared_sets.len() == sets.len() {
                trial_mode = PlanningMode::Prepared;
            }
            // If the server chooses the same plans, they need not be told apart.
            if trial_mode == PlanningMode::Prepared && shapes(&prepared) != shapes(&baseline) {
                mode = PlanningMode::Prepared;
                own = std::mem::replace(&mut baseline, prepared);
                sets = prepared_sets;
            }
        }
        let mut order: Vec<usize> = (0..baseline.len()).collect();
        order.sort_by(|a, b| baseline[*a].total_ms().total_cmp(&baseline[*b].total_ms()));
        let representative = order[order.len() / 2];
        Ok(MeasuredStatement {
            evidence: self.evidence,
            statement,
            parts: account_time(&baseline[representative]),
            sets,
            mode,
            trial_mode,
            baseline,
            custom: own,
            representative,
        })
    }

    /// Executes parameter sets in a transaction that is rolled back. Returns those that did not fail, with the fastest
    /// execution of each.
    fn execute_sets(
        &mut self,
        sets: Vec<Example>,
        mode: PlanningMode,
    ) -> Result<(Vec<Example>, Vec<MeasuredTimes>), String> {
        self.connection.begin()?;
        let (mut done, mut times, mut refused) = (Vec::new(), Vec::new(), None);
        for example in sets {
            match self.execute_twice(&example, mode) {
                Ok(fastest) => {
                    times.push(fastest);
                    done.push(example);
                }
                Err(reason) => refused = Some(reason),
            }
        }
        self.connection.roll_back()?;
        match refused {
            Some(reason) if done.is_empty() => Err(format!("it could not be executed: {reason}")),
            _ => Ok((done, times)),
        }
    }

    /// Executes a statement twice, since the first execution warms the caches. A long one is executed once.
    fn execute_twice(
        &mut self,
        example: &Example,
        mode: PlanningMode,
    ) -> Result<MeasuredTimes, String> {
        let first = self.connection.execute(example, mode)?;
        if first.total_ms() > LONG_MS {
            return Ok(first);
        }
        let second = self.connection.execute(example, mode)?;
        Ok(match second.total_ms() < first.total_ms() {
            true => second,
            false => first,
        })
    }

    /// Returns the changes that rules suggest for a statement, and the interventions of the generators.
    fn propose(
        &mut self,
        statement: &MeasuredStatement<'_>,
        findings: &[Finding],
    ) -> Vec<Intervention> {
        let fingerprint = Some(statement.statement.fingerprint);
        let of_rules = findings
            .iter()
            .filter(|one| one.subject.fingerprint == fingerprint);
        let of_rules = of_rules.flat_map(|finding| {
            finding.changes.iter().map(|change| Intervention {
                cause: finding.title.clone(),
                change: change.clone(),
                action: match &change.form {
                    Form::Sql(sql) if sql.to_ascii_uppercase().contains("CREATE INDEX") => {
                        Action::OnPlan
                    }
                    _ => Action::OnExecution,
                },
                risk: finding.risk.clone(),
            })
        });
        let mut all: Vec<Intervention> = of_rules.collect();
        for proposed in generators::propose_all(&mut self.connection, statement) {
            let is_known = all.iter().any(|one| {
                one.change.form == proposed.change.form && one.change.form != Form::ByHand
            });
            if !is_known {
                all.push(proposed);
            }
        }
        all.retain(|one| one.setup().is_some() && acts_on_statement(&mut self.connection, one));
        all
    }

    /// Tries interventions until the time is over. Returns the trials, and the number of interventions that were not tried.
    fn try_interventions(
        &mut self,
        statement: &MeasuredStatement<'_>,
        proposed: Vec<Intervention>,
        until_ns: i64,
    ) -> (Vec<(Intervention, ChangeTrial)>, u64) {
        let mut trials: Vec<(Intervention, ChangeTrial)> = Vec::new();
        let mut untried = 0;
        for intervention in proposed {
            let least = trials.iter().filter(|(_, trial)| trial.outcome.is_gain());
            let least = least.map(|(_, trial)| trial.left()).fold(1.0, f64::min);
            let is_needless = match intervention.action {
                Action::Diagnostic(_) | Action::Removal(_) => least <= screen::REMOVED,
                _ => is_more_than_new_statistics(&intervention, &trials),
            };
            if is_needless {
                continue;
            }
            if trials.len() == INTERVENTIONS_MAX || self.clock.now_ns() > until_ns {
                untried += 1;
                continue;
            }
            if let Some(trial) = try_intervention(
                &mut self.connection,
                statement,
                &intervention,
                (self.clock, until_ns),
            ) {
                trials.push((intervention, trial));
            }
        }
        if let Some(best) = conclusions::best_trial(&trials) {
            let (intervention, trial) = &mut trials[best];
            trial.writes = measure_writes(
                &mut self.connection,
                self.evidence,
                (intervention, statement.statement.fingerprint),
                self.examples,
                &mut self.place,
            );
        }
        (trials, untried)
    }
}

/// Whether a change includes an ANALYZE that removed the cause alone.
fn is_more_than_new_statistics(
    intervention: &Intervention,
    trials: &[(Intervention, ChangeTrial)],
) -> bool {
    let sql = |one: &Intervention| match &one.change.form {
        Form::Sql(sql) => Some(sql.clone()),
        _ => None,
    };
    let Some(own) = sql(intervention) else {
        return false;
    };
    let removing = trials
        .iter()
        .filter(|(_, trial)| trial.outcome == TrialOutcome::RemovesCause);
    removing
        .filter_map(|(other, _)| sql(other))
        .any(|other| other.starts_with("ANALYZE ") && own != other && own.contains(&other))
}

/// Whether the server may plan the executions for any values. If that is forced, it holds for unnamed statements, too.
fn may_have_generic_plan(sets: &[Example], cache_mode: Option<&str>) -> bool {
    let is_forced = cache_mode == Some("force_generic_plan");
    sets.iter()
        .all(|one| (one.is_prepared || is_forced) && !one.parameters.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_generic_plans_hold_for_unnamed_statements() {
        let example = |is_prepared, parameters| Example {
            session: 1,
            sequence: 1,
            database: "".into(),
            user: "".into(),
            settings: [].into(),
            sql: "SELECT $1".into(),
            parameters,
            types: Vec::new(),
            is_prepared,
            captured_us: None,
        };
        let forced = Some("force_generic_plan");
        let unnamed = [example(false, vec![None])];
        assert!(may_have_generic_plan(&unnamed, forced));
        assert!(!may_have_generic_plan(&unnamed, Some("auto")));
        assert!(may_have_generic_plan(&[example(true, vec![None])], None));
        assert!(!may_have_generic_plan(&[example(true, Vec::new())], forced));
    }
}
