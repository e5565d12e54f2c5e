//! Collects schema, settings, statistics, a CPU profile and plans from the target of a replay.
//!
//! Facts are read before the first statement. Counters are read before the first and after the last statement. Plans
//! of the costliest statements are read at the end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use clock::Clock;
use connect::login::Login;
use cpu_profile::{ProfileOptions, Profiling};
use observe::{Example, PlanResults};
use replay::{LoginMap, Target};
use run::{Artefact, Moment, NoPlan, PlanOutcome, RunWriter};
use workload::{ArchiveError, WorkloadReader};

use crate::notes;

/// Kinds of data that are collected from a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationPlan {
    /// Collects schema and settings before the first statement, and counters before the first and after the last one.
    pub facts: bool,
    /// Number of statements whose plans are collected at the end, the costliest first.
    pub plans: Option<usize>,
    /// Takes a CPU profile during the replay.
    pub profile: Option<ProfileOptions>,
    /// Samples statistics and waits during the replay.
    pub watch: Option<observe::MonitorOptions>,
}

/// Collects data from a target, with the logins of the replay's sessions.
pub struct TargetQuestions<'a> {
    /// The kinds of data to collect.
    pub plan: ObservationPlan,
    /// The workload. It has examples of statements.
    pub reader: &'a WorkloadReader,
    /// The server.
    pub target: Target,
    /// Maps sessions to logins at the target.
    pub logins: &'a LoginMap,
    /// The clock of the run.
    pub clock: Arc<dyn Clock>,
    /// Counters that were collected before the first statement.
    pub earlier_evidence: Vec<Artefact>,
}

impl TargetQuestions<'_> {
    /// Collects facts and counters before the first statement.
    ///
    /// # Errors
    /// If the workload cannot be read or the run cannot be written.
    pub fn begin(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.plan.plans.is_some() {
            run.sum_up_service_times();
        }
        if self.plan.facts {
            let facts = observe::facts(&self.target, &self.list_logins()?, &*self.clock);
            run.facts(&facts)?;
            self.earlier_evidence = self.gather(run, Moment::Before)?;
        }
        Ok(())
    }

    fn gather(&self, run: &mut RunWriter, moment: Moment) -> Result<Vec<Artefact>, ArchiveError> {
        let logins = self.list_logins()?;
        let gathered = observe::evidence(
            &self.target,
            &logins,
            &self.clock,
            moment,
            &self.earlier_evidence,
        );
        run.evidence(moment, &gathered)?;
        Ok(gathered)
    }

    /// Starts a CPU profile, if one is requested, and notes whether it runs or why it cannot.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn start_profile(&self, run: &RunWriter) -> Result<Option<Profiling>, ArchiveError> {
        let Some(options) = &self.plan.profile else {
            return Ok(None);
        };
        let Some(login) = self.list_logins()?.into_iter().next() else {
            return Ok(None);
        };
        let writer = run.profile()?;
        let profiling = Profiling::start(&self.target, &login, options, writer, self.clock.clone());
        notes::note(&profiling.describe());
        Ok(Some(profiling))
    }

    /// Collects counters and plans after the last statement.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn end(&self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.plan.facts {
            self.gather(run, Moment::After)?;
        }
        match self.plan.plans {
            Some(most) => self.end_with_plans(run, most),
            None => Ok(()),
        }
    }

    fn end_with_plans(&self, run: &mut RunWriter, most: usize) -> Result<(), ArchiveError> {
        let place = (&self.target, self.logins);
        match collect_plans(run, self.reader, place, &*self.clock, most) {
            Ok(answers) => {
                notes::note(&summarize_plans(&answers));
                run.plans(&answers.plans)
            }
            Err(error) => {
                notes::note(&format!("There are no plans: {error}."));
                Ok(())
            }
        }
    }

    /// Returns each login once, ordered by the number of statements of its sessions, greatest first.
    pub fn list_logins(&self) -> Result<Vec<Login>, ArchiveError> {
        let mut statements: HashMap<Login, u64> = HashMap::new();
        for used in self.reader.logins()? {
            let login = self
                .logins
                .login(&self.target, &used.user, &used.database, "");
            *statements.entry(login).or_default() += used.statements;
        }
        let mut logins: Vec<(Login, u64)> = statements.into_iter().collect();
        logins.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        Ok(logins.into_iter().map(|(login, _)| login).collect())
    }
}

/// Asks the target for the plans of the statements with the most time. `place` is the target, with the logins of sessions.
///
/// # Errors
/// If the examples cannot be read from the workload.
pub(crate) fn collect_plans(
    run: &RunWriter,
    reader: &WorkloadReader,
    place: (&Target, &LoginMap),
    clock: &dyn Clock,
    most: usize,
) -> Result<PlanResults, ArchiveError> {
    let (target, logins) = place;
    let costliest = run.most_expensive_statements(most);
    let requested: HashSet<_> = costliest.iter().map(|one| one.fingerprint).collect();
    let mut examples = observe::examples(reader, &requested)?;
    let requested: Vec<_> = costliest
        .into_iter()
        .map(|time| {
            let example = examples.remove(&time.fingerprint);
            (time, example)
        })
        .collect();
    let login_of = |example: &Example| example_login(target, logins, example);
    Ok(observe::plans(target, &requested, &login_of, clock))
}

/// Returns the login that the session of an example has at the target.
pub fn example_login(target: &Target, logins: &LoginMap, example: &Example) -> Login {
    let mut login = logins.login(target, &example.user, &example.database, "");
    login.settings = example.settings.clone();
    login
}

/// Summarises the collected plans in one line.
pub fn summarize_plans(answers: &PlanResults) -> String {
    let plans = &answers.plans;
    let mut without: BTreeMap<&str, u64> = BTreeMap::new();
    for plan in plans {
        let why = match &plan.outcome {
            PlanOutcome::Planned(_) => continue,
            PlanOutcome::Refused { .. } => "refused by the server",
            PlanOutcome::Unasked(NoPlan::Utility) => "of a kind without one",
            PlanOutcome::Unasked(NoPlan::SeveralStatements) => "in one text with others",
            PlanOutcome::Unasked(NoPlan::NoExample) => "without an example",
            PlanOutcome::Unasked(NoPlan::OutOfTime) => "out of time",
            PlanOutcome::Unasked(NoPlan::NoConnection) => "without a connection",
        };
        *without.entry(why).or_default() += 1;
    }
    let reasons: Vec<String> = without
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    let planned = plans.len() as u64 - without.values().sum::<u64>();
    let mut told = match reasons.is_empty() {
        true => format!("Plans: of {planned} statements."),
        false => format!(
            "Plans: of {planned} of {} statements ({}).",
            plans.len(),
            reasons.join(", ")
        ),
    };
    if !answers.failures.is_empty() {
        told.push_str(&format!(" No connection: {}.", answers.failures.join("; ")));
    }
    told
}
