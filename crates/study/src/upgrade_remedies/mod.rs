//! Search for remedies after a major upgrade: statements that are worse on the new server are executed alone on both, and on
//! the new one with each difference between the servers taken away.
//!
//! ```text
//! statements that got slower, plan that does more work, other answers
//!   ─► state of both servers ─► differences that may be the cause ─► each tried in a transaction that is rolled back
//!   ─► the first that restores the work of the old server
//! ```
//!
//! No object, row or setting stays on a server. A rollback keeps used sequence values, dead rows, and the numbers of rows and
//! changes that `ANALYZE` and `CREATE INDEX` note. `ANALYZE` and `CREATE STATISTICS` lock their table against schema changes, `CREATE INDEX` and
//! `REINDEX` against writes, until the rollback. Statements that reach outside of their transaction are not executed.

mod answers;
mod candidates;
mod plan_advice;
mod planning_state;
mod result;
mod sample_dependence;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::login::Dialer;
use observe::{Example, StatementExamples};
use plans::Plan;
use replay::{LoginMap, Target};
use serde::{Deserialize, Serialize};
use sql::{Fingerprint, StatementClass};
use workload::{StatementText, WorkloadReader};

use crate::cause_experiments::{
    PlanningMode, TrialConnection, TrialPlace, TrialSession, is_executable,
};
use crate::environment::quote_literal;
use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use answers::compare_answers;
use candidates::{Candidate, SlowStatement, candidates};
use planning_state::{PlanningState, read_settings};
pub use result::{
    MeasuredFactor, RegressionRemedy, RegressionSign, RemedyKind, RemedyStatus, SampleDependence,
    TrialWork, TriedRemedy, UpgradeRegression,
};
use sample_dependence::{describe, examine_samples};
pub(crate) use trial::has_more_blocks;
use trial::{
    Baseline, Effect, MeasuredSets, effect, is_risk_only, is_worse, may_be_worse, measure,
    try_candidate,
};

/// First version in which a prepared statement can be planned for any values on request.
const VERSION_12: u32 = 120_000;

/// Parameters of a search.
pub(crate) struct RemedySearch<'a> {
    /// Old server.
    pub(crate) old: &'a Target,
    /// New server.
    pub(crate) new: &'a Target,
    /// Captured database. Statements of others are not examined.
    pub(crate) captured: &'a str,
    /// Database to name in statements. The targets may name the one that it is created from.
    pub(crate) named: &'a str,
    /// Statements that the replays showed as slower, with the sign.
    pub(crate) slower: &'a HashMap<Fingerprint, RegressionSign>,
    /// Time for all executions.
    pub(crate) limit: Duration,
    /// Stop request.
    pub(crate) interrupt: &'a Interrupt,
}

/// Result of a search.
#[derive(Debug, Default)]
pub(crate) struct RemedySearchResult {
    /// Statements that are worse.
    pub(crate) regressions: Vec<UpgradeRegression>,
    /// Plans on the new server with the remedies.
    pub(crate) plans: Vec<ExpectedPlans>,
    /// Limits of the search, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Plans of a statement on the new server, with its remedy and with all settings of remedies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedPlans {
    pub(crate) fingerprint: String,
    pub(crate) sql: String,
    pub(crate) plans: Vec<ExpectedPlan>,
}

/// Plan for the values of one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedPlan {
    /// Session and sequence of the execution in the workload.
    pub(crate) execution: (u64, u64),
    /// Role of its session; `None` if the capture does not know it.
    pub(crate) role: Option<String>,
    /// Hash of its operations ([`Plan::lasting_shape`]).
    pub(crate) shape: String,
    /// Its scans and joins.
    pub(crate) summary: String,
}

/// Searches the remedies.
///
/// # Errors
/// If a server cannot be reached, or the workload cannot be read.
pub(crate) fn search_remedies(
    request: &RemedySearch<'_>,
    workload: &WorkloadReader,
) -> Result<RemedySearchResult, Failure> {
    let mut texts: Vec<StatementText> = Vec::new();
    for text in workload.statements()? {
        let text = text?;
        if text.class.is_planned() {
            texts.push(text);
        }
    }
    let wanted: HashSet<Fingerprint> = texts.iter().map(|text| text.fingerprint).collect();
    let mut examples = observe::example_sets(workload, &wanted)?;
    let time = |text: &StatementText| {
        let known = examples.get(&text.fingerprint);
        known.map_or(0, |one: &StatementExamples| one.captured_us)
    };
    // The known ones first, then by time.
    texts.sort_by_cached_key(|text| {
        let is_known = request.slower.contains_key(&text.fingerprint);
        (!is_known, std::cmp::Reverse(time(text)))
    });
    let clock = SystemClock::start();
    let deadline_ns = clock.now_ns() + i64::try_from(request.limit.as_nanos()).unwrap_or(i64::MAX);
    let dialers = [Dialer::new(request.old), Dialer::new(request.new)];
    let [old_dialer, new_dialer] = dialers.map(|one| one.map_err(ExperimentError::from));
    let (old_dialer, new_dialer) = (old_dialer?, new_dialer?);
    let [old_logins, new_logins] = [request.old, request.new].map(|target| LoginMap {
        database: target.database.clone(),
        ..LoginMap::default()
    });
    let time = (&clock, deadline_ns);
    let mut servers = Servers {
        old: Side::new(&old_dialer, (request.old, &old_logins), time),
        new: Side::new(&new_dialer, (request.new, &new_logins), time),
        named: request.named,
        states: None,
        chosen: Vec::new(),
        trials: HashMap::new(),
        risks: Vec::new(),
        uncompared: 0,
    };
    let mut examined: Vec<(StatementText, Vec<Example>)> = Vec::new();
    let mut result = RemedySearchResult::default();
    let mut left_out = 0;
    for text in texts {
        let found = examples.remove(&text.fingerprint).unwrap_or_default();
        let mut sets: Vec<Example> = found.examples;
        sets.retain(|one| one.database.is_empty() || *one.database == *request.captured);
        let sign = request.slower.get(&text.fingerprint).copied();
        if request.interrupt.is_requested() || servers.new.connection.is_time_over() {
            left_out += 1;
            result.regressions.extend(sign.map(|sign| {
                let reason = "There was no time to execute it alone; give more with --within.";
                regression(&text, sign, Some(reason.to_owned()))
            }));
            continue;
        }
        let found = servers.examine(&text, &sets, sign);
        result.regressions.extend(found);
        examined.push((text, sets));
    }
    for (text, sets) in examined {
        result.plans.extend(servers.expected_plans(&text, &sets));
    }
    result.notes.append(&mut servers.risks);
    if servers.uncompared > 0 {
        result.notes.push(format!(
            "the answers of {} queries were not compared alone, since the servers refuse them within another query",
            servers.uncompared
        ));
    }
    if left_out > 0 {
        result.notes.push(format!(
            "the time for the search of remedies was over before {left_out} statements; give more with --within"
        ));
    }
    Ok(result)
}

fn regression(
    text: &StatementText,
    sign: RegressionSign,
    note: Option<String>,
) -> UpgradeRegression {
    UpgradeRegression {
        fingerprint: text.fingerprint.to_string(),
        sql: text.sql.clone(),
        sign,
        before: None,
        after: None,
        old_work: None,
        new_work: None,
        remedied_work: None,
        note,
        sample_dependence: None,
        remedy: None,
        status: RemedyStatus::NotFound,
        tried: Vec::new(),
    }
}

/// Connection to one server.
struct Side<'a> {
    connection: TrialConnection<'a>,
    place: TrialPlace<'a>,
}

impl<'a> Side<'a> {
    fn new(
        dialer: &'a Dialer,
        (target, logins): (&'a Target, &'a LoginMap),
        clock: (&'a SystemClock, i64),
    ) -> Self {
        let database = logins.database.as_deref().unwrap_or_default();
        let session = TrialSession::of_owner(target, database);
        Side {
            connection: TrialConnection::new(dialer, session, clock),
            place: TrialPlace::new(target, logins),
        }
    }
}

/// Both servers, and what was chosen so far.
struct Servers<'a> {
    old: Side<'a>,
    new: Side<'a>,
    /// Database to name in statements.
    named: &'a str,
    /// States of both, as they were before the first trial: a rolled back ANALYZE leaves traces.
    states: Option<(PlanningState, PlanningState)>,
    /// Remedies of the statements before.
    chosen: Vec<RegressionRemedy>,
    /// Statements with the effect of a statement's own remedy in a transaction.
    trials: HashMap<Fingerprint, Vec<String>>,
    /// Statements that read more blocks in about the same time, and have no remedy, in sentences.
    risks: Vec<String>,
    /// Number of queries whose answers were not compared.
    uncompared: u64,
}

impl Servers<'_> {
    /// Examines one statement. Returns its regressions; none if it does the same work with the same answer.
    fn examine(
        &mut self,
        text: &StatementText,
        sets: &[Example],
        sign: Option<RegressionSign>,
    ) -> Vec<UpgradeRegression> {
        let unexecuted = |reason: String| {
            let known = sign.map(|sign| regression(text, sign, Some(reason)));
            known.into_iter().collect()
        };
        let Some(first) = sets.first().filter(|first| is_executable(first)) else {
            return unexecuted(
                "The workload has no execution of it that can be repeated.".to_owned(),
            );
        };
        for side in [&mut self.old, &mut self.new] {
            if let Err(reason) = side.place.enter(&mut side.connection, first) {
                return unexecuted(format!("It was not executed alone: {reason}."));
            }
        }
        match self.compare(text, sets, sign) {
            Ok(found) => found,
            Err(reason) => unexecuted(format!("It was not executed alone: {reason}.")),
        }
    }

    fn compare(
        &mut self,
        text: &StatementText,
        sets: &[Example],
        sign: Option<RegressionSign>,
    ) -> Result<Vec<UpgradeRegression>, String> {
        let states = match self.states.take() {
            // Settings are those of the statement's role.
            Some((mut old, mut new)) => {
                old.settings = read_settings(&mut self.old.connection)?;
                new.settings = read_settings(&mut self.new.connection)?;
                (old, new)
            }
            None => {
                let old = PlanningState::read(&mut self.old.connection)?;
                let mut new = PlanningState::read(&mut self.new.connection)?;
                self.named.clone_into(&mut new.database);
                (old, new)
            }
        };
        let found = self.compare_with((&states.0, &states.1), text, sets, sign);
        self.states = Some(states);
        found
    }

    fn compare_with(
        &mut self,
        states: (&PlanningState, &PlanningState),
        text: &StatementText,
        sets: &[Example],
        sign: Option<RegressionSign>,
    ) -> Result<Vec<UpgradeRegression>, String> {
        let mut found = Vec::new();
        found.extend(self.compare_work(states, text, sets, sign)?);
        // Rows of catalogues, and values such as `ctid` and `version()`, differ between any two servers.
        if text.class == StatementClass::Select && compare::server_dependence(&text.sql).is_none() {
            let connections = (&mut self.old.connection, &mut self.new.connection);
            // A query that cannot be embedded in another one, such as with FOR UPDATE of a view, is not compared.
            let compared = compare_answers(connections, states, sets);
            self.uncompared += u64::from(compared.is_err());
            if let Ok(Some(difference)) = compared {
                let mut other = regression(text, difference.sign, Some(difference.cause));
                if let Some(remedy) = difference.remedy {
                    self.choose(&remedy);
                    other.status = RemedyStatus::Screened;
                    other.remedy = Some(remedy);
                }
                found.push(other);
            }
        }
        Ok(found)
    }

    /// Compares the work of a statement, and tries candidates if it is worse.
    fn compare_work(
        &mut self,
        states: (&PlanningState, &PlanningState),
        text: &StatementText,
        sets: &[Example],
        sign: Option<RegressionSign>,
    ) -> Result<Option<UpgradeRegression>, String> {
        let mode = self.mode(sets)?;
        if sign.is_none() && !self.has_other_plan(sets, mode)? {
            return Ok(None);
        }
        let old = measure(&mut self.old.connection, sets, mode)?;
        let new = measure(&mut self.new.connection, &old.sets, mode)?;
        if new.sets.len() != old.sets.len() {
            return Err("an execution fails on the new server".to_owned());
        }
        let (old_work, new_work) = (old.work(), new.work());
        let sign = match (sign, is_worse(old_work, new_work)) {
            (None, false) => return Ok(None),
            (sign, _) => sign.unwrap_or(RegressionSign::Work),
        };
        let mut found = regression(text, sign, None);
        (found.old_work, found.new_work) = (Some(old_work), Some(new_work));
        if !may_be_worse(old_work, new_work) {
            let note = "Executed alone, it does the same work in the same time as on the old server. The difference depends on \
                        what else runs.";
            found.note = Some(note.to_owned());
            return Ok(Some(found));
        }
        let baseline = Baseline {
            old: &old,
            new: &new,
            mode,
        };
        if let Some(trial) = self.try_candidates(states, &baseline, &mut found) {
            self.trials.insert(text.fingerprint, trial);
        }
        if found.remedy.is_none() {
            self.examine_samples(states, &baseline, &mut found);
        }
        let is_risk = sign == RegressionSign::Work && is_risk_only(old_work, new_work);
        if found.remedy.is_none() && is_risk {
            self.risks.push(format!(
                "with another plan, a statement reads {:.0} blocks, and {:.0} on the old server, in about the same time; it may be \
                 slower if they are not in memory: {}",
                new_work.blocks, old_work.blocks, text.sql
            ));
            return Ok(None);
        }
        if found.remedy.is_none() && found.note.is_none() {
            let note = match found.tried.is_empty() {
                true => "The servers do not differ in anything that affects its plan.",
                false => "None of the differences between the servers explains it.",
            };
            found.note = Some(note.to_owned());
        }
        Ok(Some(found))
    }

    /// Notes whether the plan of a statement without a remedy depends on the sample of `ANALYZE`.
    fn examine_samples(
        &mut self,
        (old, new): (&PlanningState, &PlanningState),
        baseline: &Baseline<'_>,
        found: &mut UpgradeRegression,
    ) {
        let connections = [&mut self.old.connection, &mut self.new.connection];
        match examine_samples(connections, [old, new], baseline) {
            Ok(Some((dependence, tables))) => {
                found.note = Some(describe(&dependence, &tables));
                found.sample_dependence = Some(dependence);
            }
            Ok(None) => {}
            Err(reason) => {
                let note = format!(
                    "Whether its plan depends on the sample of ANALYZE is not known: {reason}."
                );
                found.note.get_or_insert(note);
            }
        }
    }

    /// Returns how the traffic plans a statement.
    fn mode(&mut self, sets: &[Example]) -> Result<PlanningMode, String> {
        let is_prepared = sets
            .iter()
            .any(|one| one.is_prepared && !one.parameters.is_empty());
        let is_new = self.old.connection.version()? >= VERSION_12;
        Ok(match is_prepared && is_new {
            true => PlanningMode::Prepared,
            false => PlanningMode::Custom,
        })
    }

    fn has_other_plan(&mut self, sets: &[Example], mode: PlanningMode) -> Result<bool, String> {
        let plans = |side: &mut Side<'_>| -> Result<Vec<_>, String> {
            side.connection.begin()?;
            let shapes = sets.iter().map(|example| {
                let plan = side.connection.plan(example, mode)?;
                Ok(plan.shape())
            });
            let shapes = shapes.collect();
            side.connection.roll_back()?;
            shapes
        };
        Ok(plans(&mut self.old)? != plans(&mut self.new)?)
    }

    /// Tries the candidates until one restores the work of the old server. Of those that only help, the best counts. Returns
    /// the statements with its effect in a transaction.
    fn try_candidates(
        &mut self,
        states: (&PlanningState, &PlanningState),
        baseline: &Baseline<'_>,
        found: &mut UpgradeRegression,
    ) -> Option<Vec<String>> {
        let (old, new) = baseline.works();
        let newly_compiled =
            baseline.new.compilation_ms() > 0.0 && baseline.old.compilation_ms() == 0.0;
        let plan_of = |measured: &MeasuredSets| measured.times[baseline.new.slowest()].plan.clone();
        let (old_plan, new_plan) = (plan_of(baseline.old), plan_of(baseline.new));
        let statement = SlowStatement {
            old: &old_plan,
            new: &new_plan,
            newly_compiled,
            chosen: &self.chosen,
        };
        let mut best: Option<(f64, Candidate, TrialWork)> = None;
        for candidate in candidates(states, &statement) {
            if self.new.connection.is_time_over() {
                found.note = Some(
                    "There was no time to try all candidates; give more with --within.".to_owned(),
                );
                break;
            }
            let tried = try_candidate(&mut self.new.connection, &candidate, baseline);
            let (work, has_old_plan) = (tried.work, tried.has_old_plan);
            found.tried.push(tried);
            let Some(work) = work else { continue };
            let effect = effect((old, new), work, has_old_plan);
            if effect == Effect::Useless {
                continue;
            }
            let left = match new.blocks > 1.15 * old.blocks {
                true => work.blocks / new.blocks.max(1.0),
                false => work.ms / new.ms.max(f64::MIN_POSITIVE),
            };
            if best.as_ref().is_none_or(|(least, ..)| left < 0.85 * least) {
                best = Some((left, candidate, work));
            }
            if effect == Effect::Restored {
                break;
            }
        }
        let (_, candidate, work) = best?;
        self.choose(&candidate.remedy);
        found.remedy = Some(candidate.remedy);
        found.remedied_work = Some(work);
        found.status = RemedyStatus::Screened;
        Some(candidate.trial)
    }

    /// Returns the plans of a statement with its own remedy and all settings; `None` if it cannot be planned.
    fn expected_plans(&mut self, text: &StatementText, sets: &[Example]) -> Option<ExpectedPlans> {
        let first = sets.first().filter(|first| is_executable(first))?;
        let side = &mut self.new;
        side.place.enter(&mut side.connection, first).ok()?;
        let settings = self.chosen.iter().filter_map(|one| one.setting.as_ref());
        let settings =
            settings.map(|(name, value)| format!("SET LOCAL {name} = {}", quote_literal(value)));
        let own = self.trials.get(&text.fingerprint).cloned();
        let setup: Vec<String> = settings.chain(own.into_iter().flatten()).collect();
        side.connection.begin().ok()?;
        let ready = setup
            .iter()
            .all(|statement| side.connection.query(statement).is_ok());
        let plans = sets.iter().map(|example| {
            let plan = side.connection.plan(example, PlanningMode::Custom).ok()?;
            Some(ExpectedPlan {
                execution: (example.session, example.sequence),
                role: (!example.user.is_empty()).then(|| side.connection.role().to_owned()),
                shape: plan.lasting_shape().to_string(),
                summary: summary(&plan),
            })
        });
        let plans: Option<Vec<ExpectedPlan>> = plans.collect();
        side.connection.roll_back().ok()?;
        Some(ExpectedPlans {
            fingerprint: text.fingerprint.to_string(),
            sql: text.sql.clone(),
            plans: plans.filter(|_| ready)?,
        })
    }

    fn choose(&mut self, remedy: &RegressionRemedy) {
        if !self.chosen.contains(remedy) {
            self.chosen.push(remedy.clone());
        }
    }
}

/// Names the scans and joins of a plan, the outermost first.
pub(crate) fn summary(plan: &Plan) -> String {
    let mut nodes = Vec::new();
    plan.root.each(&mut |node, _| {
        if node.is_join() || node.relation.is_some() || node.index.is_some() {
            nodes.push(node.label());
        }
    });
    match nodes.is_empty() {
        true => plan.root.label(),
        false => nodes.join(", "),
    }
}

/// Returns the statements of all remedies without repetitions, in an order in which they can be executed: objects and settings
/// first, then ANALYZE, which fills them.
pub(crate) fn remedy_script(regressions: &[UpgradeRegression]) -> Vec<String> {
    let remedies = regressions.iter().filter_map(|one| one.remedy.as_ref());
    let mut statements: Vec<&String> = Vec::new();
    for statement in remedies.flat_map(|remedy| &remedy.statements) {
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    statements.sort_by_key(|statement| statement.starts_with("ANALYZE"));
    statements.into_iter().cloned().collect()
}
