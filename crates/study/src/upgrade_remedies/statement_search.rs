//! Compares one statement after the other alone on both servers, and tries candidates for those that are worse.

use std::collections::{HashMap, HashSet};

use clock::SystemClock;
use connect::login::Dialer;
use observe::Example;
use plans::Plan;
use replay::{LoginMap, Target};
use sql::{Fingerprint, StatementClass};
use workload::StatementText;

use super::answers::compare_answers;
use super::coverage::{Examination, SearchedStatement};
use super::planning_state::{PlanningState, read_settings};
use super::result::{RegressionRemedy, RegressionSign, RemedyStatus, TrialWork, UpgradeRegression};
use super::trial::{
    Baseline, MeasuredSets, is_near, is_risk_only, is_worse, may_be_worse, measure,
};
use super::work_of_both::WorkOfBoth;
use super::{CapturedStatement, RemedySearch, RemedySearchResult, TrialAccess};
use crate::cause_experiments::{
    PlanTables, PlanningMode, TrialConnection, TrialPlace, TrialSession, is_executable,
};

/// First version in which a prepared statement can be planned for any values on request.
const VERSION_12: u32 = 120_000;
/// Limit of a search that only reads.
const READ_ONLY_NOTE: &str = "nothing restores the data of the servers, so the search of remedies only read: statements that write or advance \
     sequences were planned and not executed, and only settings were tried as remedies, not ANALYZE, CREATE or REINDEX; give --restore or --template";

/// Connection to one server.
pub(super) struct Side<'a> {
    pub(super) connection: TrialConnection<'a>,
    pub(super) place: TrialPlace<'a>,
}

impl<'a> Side<'a> {
    pub(super) fn new(
        request: &RemedySearch<'_>,
        dialer: &'a Dialer,
        (target, logins): (&'a Target, &'a LoginMap),
        clock: (&'a SystemClock, i64),
    ) -> Self {
        let database = logins.database.as_deref().unwrap_or_default();
        let session = TrialSession::of_owner(target, database);
        let mut connection =
            TrialConnection::new(dialer, session, clock).with_literals(request.literals);
        if request.access == TrialAccess::ReadOnly {
            connection = connection.read_only();
        }
        Side {
            connection,
            place: TrialPlace::new(target, logins),
        }
    }
}

/// Both servers, and what was found so far.
pub(super) struct StatementSearch<'a> {
    pub(super) request: &'a RemedySearch<'a>,
    pub(super) old: Side<'a>,
    pub(super) new: Side<'a>,
    /// States of both, as they were before the first trial: a rolled back ANALYZE leaves traces.
    pub(super) states: Option<(PlanningState, PlanningState)>,
    /// States of both before missing objects were put in place.
    pub(super) initial: Option<(PlanningState, PlanningState)>,
    /// Executions on the new server before that.
    pub(super) measured_before: HashMap<Fingerprint, MeasuredSets>,
    /// Remedies of the statements before.
    pub(super) chosen: Vec<RegressionRemedy>,
    pub(super) result: RemedySearchResult,
    /// Statements that a search before examined.
    known: HashSet<String>,
    /// Number of queries whose answers were not compared.
    uncompared: u64,
    /// Whether the time ended before the statement was examined completely.
    pub(super) has_lacked_time: bool,
}

impl<'a> StatementSearch<'a> {
    /// Begins with the result of a search that ended early.
    pub(super) fn new(
        request: &'a RemedySearch<'a>,
        (old, new): (Side<'a>, Side<'a>),
        mut known: RemedySearchResult,
    ) -> Self {
        let is_final = |one: &SearchedStatement| one.examination != Examination::NoTime;
        known.statements.retain(is_final);
        let statements = known.statements.iter();
        let fingerprints: HashSet<String> = statements.map(|one| one.fingerprint.clone()).collect();
        known
            .regressions
            .retain(|one| fingerprints.contains(&one.fingerprint));
        known.works.retain(|one, _| fingerprints.contains(one));
        let mut search = StatementSearch {
            request,
            old,
            new,
            states: None,
            initial: None,
            measured_before: HashMap::new(),
            chosen: Vec::new(),
            result: RemedySearchResult {
                regressions: known.regressions,
                statements: known.statements,
                findings: known.findings,
                works: known.works,
                ..RemedySearchResult::default()
            },
            known: fingerprints,
            uncompared: 0,
            has_lacked_time: false,
        };
        let remedies = search.result.regressions.iter();
        let remedies: Vec<_> = remedies.filter_map(|one| one.remedy.clone()).collect();
        for remedy in &remedies {
            search.choose(remedy);
        }
        search
    }

    /// Examines one statement, unless a search before did, or the time is over.
    pub(super) fn examine(&mut self, statement: &CapturedStatement) {
        let fingerprint = statement.text.fingerprint.to_string();
        if self.known.contains(&fingerprint) {
            return;
        }
        let is_over = self.request.interrupt.is_requested() || self.new.connection.is_time_over();
        self.has_lacked_time = false;
        let compared = match is_over {
            true => Err(Examination::NoTime),
            false => self.enter_and_compare(statement),
        };
        let without_work = |note: String| {
            let sign = statement.sign?;
            Some(regression(&statement.text, sign, Some(note)))
        };
        let (found, examination) = match compared {
            Ok(found) => {
                let is_time_over = self.new.connection.is_time_over();
                let examination = examination_of(&found, self.has_lacked_time, is_time_over);
                (found, examination)
            }
            Err(Examination::Refused(reason)) => {
                let found = without_work(format!("It was not executed alone: {reason}."));
                (found.into_iter().collect(), Examination::Refused(reason))
            }
            Err(other) => {
                let note = "There was no time to execute it alone; give more with --within.";
                let found = without_work(note.to_owned());
                (found.into_iter().collect(), other)
            }
        };
        self.result.regressions.extend(found);
        self.result.statements.push(SearchedStatement {
            fingerprint,
            captured_us: statement.captured_us,
            examination,
        });
    }

    /// Returns the regressions of a statement; none if it does the same work with the same answer.
    ///
    /// # Errors
    /// With the state of a statement that was not compared.
    fn enter_and_compare(
        &mut self,
        statement: &CapturedStatement,
    ) -> Result<Vec<UpgradeRegression>, Examination> {
        let first = statement.sets.first();
        let Some(first) = first.filter(|first| is_executable(first)) else {
            let reason = "the workload has no execution of it that can be repeated";
            return Err(Examination::Refused(reason.to_owned()));
        };
        self.enter(first).map_err(Examination::Refused)?;
        let compared = self.compare(statement).map(|mut found| {
            let others = self.compare_other_values(statement, &mut found);
            if let Err(reason) = others {
                self.has_lacked_time |= self.new.connection.is_time_over();
                self.result.findings.push(format!(
                    "other executions of a statement were not compared ({reason}): {}",
                    statement.text.sql
                ));
            }
            found
        });
        // A statement that the end of the time cancelled was not refused.
        compared.map_err(|reason| match self.new.connection.is_time_over() {
            true => Examination::NoTime,
            false => Examination::Refused(reason),
        })
    }

    /// Takes the role and the settings of the session of an execution on both servers.
    pub(super) fn enter(&mut self, example: &Example) -> Result<(), String> {
        for side in [&mut self.old, &mut self.new] {
            side.place.enter(&mut side.connection, example)?;
        }
        Ok(())
    }

    /// Takes the states of both servers, or reads them.
    pub(super) fn take_states(&mut self) -> Result<(PlanningState, PlanningState), String> {
        if let Some(states) = self.states.take() {
            return Ok(states);
        }
        let old = PlanningState::read(&mut self.old.connection)?;
        let mut new = PlanningState::read(&mut self.new.connection)?;
        self.request.captured.clone_into(&mut new.database);
        Ok((old, new))
    }

    fn compare(&mut self, statement: &CapturedStatement) -> Result<Vec<UpgradeRegression>, String> {
        self.with_states(|search, states| search.compare_with(states, statement))
    }

    /// Compares the work of further executions of a statement, and tries candidates if it is more.
    pub(super) fn compare_executions(
        &mut self,
        text: &StatementText,
        sets: &[Example],
    ) -> Result<Option<UpgradeRegression>, String> {
        self.with_states(|search, states| search.compare_work(states, text, sets, None))
    }

    /// Calls with the states of both servers for the role of the session.
    fn with_states<T>(
        &mut self,
        compare: impl FnOnce(&mut Self, (&PlanningState, &PlanningState)) -> Result<T, String>,
    ) -> Result<T, String> {
        let (old_settings, new_settings) = (
            read_settings(&mut self.old.connection)?,
            read_settings(&mut self.new.connection)?,
        );
        let (mut old, mut new) = self.take_states()?;
        // Settings are those of the statement's role.
        self.new.connection.role().clone_into(&mut new.role);
        (old.settings, new.settings) = (old_settings, new_settings);
        let compared = compare(self, (&old, &new));
        self.states = Some((old, new));
        compared
    }

    fn compare_with(
        &mut self,
        states: (&PlanningState, &PlanningState),
        statement: &CapturedStatement,
    ) -> Result<Vec<UpgradeRegression>, String> {
        let (text, sets) = (&statement.text, &statement.sets);
        let mut found = Vec::new();
        found.extend(self.compare_work(states, text, sets, statement.sign)?);
        // Rows of catalogues, and values such as `ctid` and `version()`, differ between any two servers.
        if text.class == StatementClass::Select && compare::server_dependence(&text.sql).is_none() {
            let connections = (&mut self.old.connection, &mut self.new.connection);
            // A query that cannot be embedded in another one, such as with FOR UPDATE of a view, is not compared.
            let compared = compare_answers(connections, states, sets);
            if compared.is_err() {
                match self.new.connection.is_time_over() || self.old.connection.is_time_over() {
                    true => self.has_lacked_time = true,
                    false => self.uncompared += 1,
                }
            }
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
        let before = self.measured_before.remove(&text.fingerprint);
        if sign.is_none() && before.is_none() && !self.has_other_plan(sets, mode)? {
            self.keep_work(text, None);
            return Ok(None);
        }
        let old = measure(&mut self.old.connection, sets, mode)?;
        let new = measure(&mut self.new.connection, &old.sets, mode)?;
        if new.sets.len() != old.sets.len() {
            return Err("an execution fails on the new server".to_owned());
        }
        self.keep_work(text, Some(WorkOfBoth::new(&old, &new)));
        let (old_work, new_work) = (old.work(), new.work());
        let before = before.filter(|one| one.sets.len() == old.sets.len());
        let first_work = before.as_ref().map_or(new_work, MeasuredSets::work);
        let sign = match (
            sign,
            is_worse(old_work, new_work) || is_worse(old_work, first_work),
        ) {
            (None, false) => return Ok(None),
            (sign, _) => sign.unwrap_or(RegressionSign::Work),
        };
        let mut found = regression(text, sign, None);
        (found.old_work, found.new_work) = (Some(old_work), Some(first_work));
        let in_place = before.map_or(Ok(None), |before| {
            self.remedy_in_place(&old, (&before, &new))
        })?;
        if let Some(remedy) = in_place {
            found.remedy = Some(remedy);
            found.remedied_work = Some(new_work);
            found.has_old_plan = new.shapes() == old.shapes();
            found.status = RemedyStatus::Screened;
            return Ok(Some(found));
        }
        // The objects that were put in place are no remedy: what they changed is a part of the upgrade, too.
        found.new_work = Some(new_work);
        found.has_old_plan = new.does_the_same_as(&old);
        // No candidate changes a statement that does the same. A few executions do not show equal times.
        let is_equal = found.has_old_plan && is_near(old_work, new_work);
        if is_equal || !may_be_worse(old_work, new_work) {
            if sign == RegressionSign::Work {
                // What was put in place removed a risk, or the first measurement was noise: nothing is worse.
                if is_risk_only(old_work, first_work) {
                    self.note_risk(text, old_work, first_work);
                }
                return Ok(None);
            }
            let note = match may_be_worse(old_work, new_work) {
                false => {
                    "Executed alone, it does the same work in the same time as on the old server. The difference depends on what \
                     else runs."
                }
                true => {
                    "Executed alone, it has the plan of the old server and reads the same pages. A few executions show no \
                     difference of times."
                }
            };
            found.note = Some(note.to_owned());
            return Ok(Some(found));
        }
        let baseline = Baseline {
            old: &old,
            new: &new,
            mode,
        };
        let slowest = &new.sets[new.slowest()];
        let tables = self.plan_tables(slowest)?;
        self.try_candidates(states, (&baseline, &tables), &mut found);
        let is_untried = found.note.is_some() || found.tried.iter().any(|one| !one.is_judged);
        if found.remedy.is_none() {
            self.examine_samples(states, (&baseline, &tables), &mut found);
        }
        let is_risk = sign == RegressionSign::Work && is_risk_only(old_work, new_work);
        if found.remedy.is_none() && is_risk && !self.has_lacked_time {
            self.note_risk(text, old_work, new_work);
            return Ok(None);
        }
        if found.remedy.is_none() && is_untried {
            found.status = RemedyStatus::Untried;
        }
        if found.remedy.is_none() && found.note.is_none() {
            let note = match (found.tried.is_empty(), is_untried) {
                (true, _) => "The servers do not differ in anything that affects its plan.",
                (_, true) => {
                    "Whether a difference between the servers explains it is open: a candidate failed or was not tried."
                }
                _ => "None of the differences between the servers explains it.",
            };
            found.note = Some(note.to_owned());
        }
        Ok(Some(found))
    }

    /// Keeps what was seen of a statement. That of its first executions counts.
    fn keep_work(&mut self, text: &StatementText, work: Option<WorkOfBoth>) {
        let fingerprint = text.fingerprint.to_string();
        self.result.works.entry(fingerprint).or_insert(work);
    }

    /// Notes that a statement reads more blocks in about the same time.
    fn note_risk(&mut self, text: &StatementText, old: TrialWork, new: TrialWork) {
        self.result.findings.push(format!(
            "with another plan, a statement reads {:.0} pages, and {:.0} on the old server, in about the same time; it may be \
             slower if they are not in memory: {}",
            new.blocks, old.blocks, text.sql
        ));
    }

    /// Returns the tables that a statement reads or writes with its values on either server.
    pub(super) fn plan_tables(&mut self, example: &Example) -> Result<PlanTables, String> {
        let mut tables = self.old.connection.plan_tables(example)?;
        tables.extend(self.new.connection.plan_tables(example)?);
        Ok(tables)
    }

    /// Returns how the traffic plans a statement.
    pub(super) fn mode(&mut self, sets: &[Example]) -> Result<PlanningMode, String> {
        let is_prepared = sets
            .iter()
            .any(|one| one.is_prepared && !one.parameters.is_empty());
        let is_new = self.old.connection.version()? >= VERSION_12;
        Ok(match is_prepared && is_new {
            true => PlanningMode::Prepared,
            false => PlanningMode::Custom,
        })
    }

    pub(super) fn has_other_plan(
        &mut self,
        sets: &[Example],
        mode: PlanningMode,
    ) -> Result<bool, String> {
        let pairs = self.plans_of_both(sets, mode)?;
        let mut pairs = pairs.iter();
        Ok(pairs.any(|(old, new)| old.shape() != new.shape()))
    }

    /// Plans executions on both servers. Returns a pair for each.
    pub(super) fn plans_of_both(
        &mut self,
        sets: &[Example],
        mode: PlanningMode,
    ) -> Result<Vec<(Plan, Plan)>, String> {
        let plans = |side: &mut Side<'_>| -> Result<Vec<Plan>, String> {
            side.connection.begin()?;
            let plans = sets.iter().map(|one| side.connection.plan(one, mode));
            let plans = plans.collect();
            side.connection.roll_back()?;
            plans
        };
        let old = plans(&mut self.old)?;
        Ok(old.into_iter().zip(plans(&mut self.new)?).collect())
    }

    /// Gives the following steps the time until then.
    pub(super) fn extend_time(&mut self, deadline_ns: i64) {
        self.old.connection.set_deadline(deadline_ns);
        self.new.connection.set_deadline(deadline_ns);
    }

    /// Plans all statements on the new server with the remedies, and returns the result.
    pub(super) fn finish(mut self, captured: &[CapturedStatement]) -> RemedySearchResult {
        for one in captured {
            let is_over =
                self.request.interrupt.is_requested() || self.new.connection.is_time_over();
            if !is_over {
                let plans = self.expected_plans(&one.text, &one.sets);
                self.result.plans.extend(plans);
            }
        }
        if self.uncompared > 0 {
            self.result.findings.push(format!(
                "the answers of {} queries were not compared alone, since the servers refuse them within another query",
                self.uncompared
            ));
        }
        let mut notes = self.result.findings.clone();
        if self.request.access == TrialAccess::ReadOnly {
            notes.push(READ_ONLY_NOTE.to_owned());
        }
        for (reason, number) in self.result.coverage().not_examined {
            notes.push(format!(
                "{number} statements were not examined alone in the search of remedies: {reason}"
            ));
        }
        self.result.notes = notes;
        self.result
    }
}

/// Returns the state of a statement that was compared. If the time ended before all candidates were tried, or before the answers
/// were compared, a search with more time examines it again.
pub(super) fn examination_of(
    found: &[UpgradeRegression],
    has_lacked_time: bool,
    is_time_over: bool,
) -> Examination {
    let is_open = found.iter().any(|one| one.status == RemedyStatus::Untried);
    match has_lacked_time || is_time_over && is_open {
        true => Examination::NoTime,
        false => Examination::Examined,
    }
}

fn regression(
    text: &StatementText,
    sign: RegressionSign,
    note: Option<String>,
) -> UpgradeRegression {
    UpgradeRegression {
        note,
        ..UpgradeRegression::new(text.fingerprint.to_string(), text.sql.as_str(), sign)
    }
}
