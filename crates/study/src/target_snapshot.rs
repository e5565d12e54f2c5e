//! What the target is asked beside the workload's statements: facts before the first, plans behind the
//! last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use clock::Clock;
use connect::login::Login;
use cpu_profile::{ProfileOptions, Profiling};
use observe::{Answers, Example};
use replay::{LoginMap, Target};
use run::{Artefact, Moment, NoPlan, PlanOutcome, RunWriter};
use workload::{ArchiveError, WorkloadReader};

use crate::notes;

/// What is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Facts before the first statement, and evidence before it and behind the last.
    pub facts: bool,
    /// Plans at the end, of so many statements.
    pub plans: Option<usize>,
    /// A CPU profile meanwhile.
    pub profile: Option<ProfileOptions>,
    /// What it counts and waits for meanwhile.
    pub watch: Option<observe::WatchOptions>,
}

/// Asks a target, as the sessions of a replay log in there.
pub struct Asking<'a> {
    /// What is asked.
    pub asked: Asked,
    /// The workload, which has examples of statements.
    pub reader: &'a WorkloadReader,
    /// The server.
    pub target: Target,
    /// How sessions log in there.
    pub logins: &'a LoginMap,
    /// The clock of the run.
    pub clock: Arc<dyn Clock>,
    /// What was gathered before the first statement.
    pub evidence: Vec<Artefact>,
}

impl Asking<'_> {
    /// Before the first statement.
    ///
    /// # Errors
    /// Where the workload cannot be read or the run not be written.
    pub fn begin(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.asked.plans.is_some() {
            run.sum_up_service_times();
        }
        if self.asked.facts {
            let facts = observe::facts(&self.target, &self.all_logins()?, &*self.clock);
            run.facts(&facts)?;
            self.evidence = self.gather(run, Moment::Before)?;
        }
        Ok(())
    }

    fn gather(&self, run: &mut RunWriter, moment: Moment) -> Result<Vec<Artefact>, ArchiveError> {
        let logins = self.all_logins()?;
        let gathered =
            observe::evidence(&self.target, &logins, &self.clock, moment, &self.evidence);
        run.evidence(moment, &gathered)?;
        Ok(gathered)
    }

    /// Begins a profile, if one is asked for, and says what it does or why it cannot.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn profile(&self, run: &RunWriter) -> Result<Option<Profiling>, ArchiveError> {
        let Some(options) = &self.asked.profile else {
            return Ok(None);
        };
        let Some(login) = self.all_logins()?.into_iter().next() else {
            return Ok(None);
        };
        let writer = run.profile()?;
        let profiling = Profiling::start(&self.target, &login, options, writer, self.clock.clone());
        notes::note(&profiling.told());
        Ok(Some(profiling))
    }

    /// Behind the last one.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn end(&self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.asked.facts {
            self.gather(run, Moment::After)?;
        }
        let Some(most) = self.asked.plans else {
            return Ok(());
        };
        let costliest = run.costliest(most);
        let wanted: HashSet<_> = costliest.iter().map(|one| one.fingerprint).collect();
        // The run is worth more than its plans: it is finished without them.
        let mut examples = match observe::examples(self.reader, &wanted) {
            Ok(examples) => examples,
            Err(error) => {
                notes::note(&format!("There are no plans: {error}."));
                return Ok(());
            }
        };
        let wanted: Vec<_> = costliest
            .into_iter()
            .map(|time| {
                let example = examples.remove(&time.fingerprint);
                (time, example)
            })
            .collect();
        let login_of = |example: &Example| login_of(&self.target, self.logins, example);
        let answers = observe::plans(&self.target, &wanted, &login_of, &*self.clock);
        notes::note(&told(&answers));
        run.plans(&answers.plans)
    }

    /// Each login once, those first whose sessions have the most statements.
    pub fn all_logins(&self) -> Result<Vec<Login>, ArchiveError> {
        let mut statements: HashMap<Login, u64> = HashMap::new();
        for session in self.reader.sessions()? {
            let session = session?;
            let login = self
                .logins
                .login(&self.target, &session.user, &session.database, "");
            *statements.entry(login).or_default() += session.statements;
        }
        let mut logins: Vec<(Login, u64)> = statements.into_iter().collect();
        logins.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        Ok(logins.into_iter().map(|(login, _)| login).collect())
    }
}

/// As the session of an example logs in at the target.
pub fn login_of(target: &Target, logins: &LoginMap, example: &Example) -> Login {
    let mut login = logins.login(target, &example.user, &example.database, "");
    login.settings = example.settings.clone();
    login
}

/// What came of asking for plans, in a line.
pub fn told(answers: &Answers) -> String {
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
