//! Statistics and indexes that the new server lacks: they are put in place together before the search, since a statement may need
//! several of them.

use super::candidates::{joined_remedy, lacking};
use super::result::RegressionRemedy;
use super::statement_search::StatementSearch;
use super::trial::{Effect, MeasuredSets, effect, is_risk_only, is_worse, may_be_worse, measure};
use super::{CapturedStatement, TrialAccess};
use crate::cause_experiments::is_executable;

impl StatementSearch<'_> {
    /// Puts in place what the new server lacks, after the statements were measured without it. The copies are dropped or restored
    /// later. `deadline_ns` is the end of the search.
    pub(super) fn put_in_place(&mut self, captured: &[CapturedStatement], deadline_ns: i64) {
        let missing = match self.request.access {
            TrialAccess::Disposable => self.read_missing(captured),
            TrialAccess::ReadOnly => Vec::new(),
        };
        if !missing.is_empty() {
            for one in captured {
                self.measure_before(one);
            }
        }
        self.extend_time(deadline_ns);
        for one in missing {
            let executed = self.new.connection.execute_lasting(&one.statements);
            match executed {
                // Its absence is known, although there was no time for it.
                Err(_) if self.new.connection.is_time_over() => self.result.missing.push(one),
                Ok(()) => self.result.missing.push(one),
                Err(reason) => self.result.findings.push(format!(
                    "{} It could not be put in place ({reason}): {}",
                    one.cause,
                    one.statements.join("; ")
                )),
            }
        }
        if !self.result.missing.is_empty() {
            self.initial = self.states.take();
        }
    }

    /// Reads the states of both servers, and returns what the new one lacks.
    fn read_missing(&mut self, captured: &[CapturedStatement]) -> Vec<RegressionRemedy> {
        let mut examples = captured.iter().filter_map(|one| one.sets.first());
        let Some(example) = examples.find(|one| is_executable(one)) else {
            return Vec::new();
        };
        // A server that cannot be read is reported with each statement.
        if self.enter(example).is_err() {
            return Vec::new();
        }
        match self.take_states() {
            Ok(states) => {
                let missing = lacking((&states.0, &states.1), None);
                self.states = Some(states);
                missing
            }
            Err(_) => Vec::new(),
        }
    }

    /// Measures a statement on the new server before missing objects are put in place, if it may need them.
    fn measure_before(&mut self, statement: &CapturedStatement) {
        let is_over = self.request.interrupt.is_requested() || self.new.connection.is_time_over();
        let first = statement.sets.first().filter(|first| is_executable(first));
        let Some(first) = first.filter(|_| !is_over) else {
            return;
        };
        let mut measured = || -> Result<Option<MeasuredSets>, String> {
            self.enter(first)?;
            let mode = self.mode(&statement.sets)?;
            if statement.sign.is_none() && !self.has_other_plan(&statement.sets, mode)? {
                return Ok(None);
            }
            let new = measure(&mut self.new.connection, &statement.sets, mode)?;
            Ok(Some(new))
        };
        // The search reports the reason.
        if let Ok(Some(before)) = measured() {
            self.measured_before
                .insert(statement.text.fingerprint, before);
        }
    }

    /// Returns what was put in place for the tables of a statement, if it restored the work of the old server. `before` was
    /// executed without it, and `now` with it.
    pub(super) fn remedy_in_place(
        &mut self,
        old: &MeasuredSets,
        (before, now): (&MeasuredSets, &MeasuredSets),
    ) -> Result<Option<RegressionRemedy>, String> {
        let has_old_plan = now.shapes() == old.shapes();
        let (old_work, first, last) = (old.work(), before.work(), now.work());
        let is_equal_now = is_worse(old_work, first)
            && !is_risk_only(old_work, first)
            && !may_be_worse(old_work, last);
        let is_restored = is_equal_now
            || may_be_worse(old_work, first)
                && effect((old_work, first), last, has_old_plan) == Effect::Restored;
        if !is_restored || now.does_the_same_as(before) {
            return Ok(None);
        }
        let tables = self.plan_tables(&old.sets[old.slowest()])?;
        let Some((old_state, new_state)) = &self.initial else {
            return Ok(None);
        };
        let in_place = |tables| {
            let mut needed = lacking((old_state, new_state), tables);
            needed.retain(|one| self.is_in_place(one));
            needed
        };
        let mut needed = in_place(Some(&tables));
        // Other executions than the slowest can read other tables.
        if needed.is_empty() {
            needed = in_place(None);
        }
        Ok(joined_remedy(needed))
    }

    /// Whether all statements of a remedy were put in place.
    pub(super) fn is_in_place(&self, remedy: &RegressionRemedy) -> bool {
        let missing = self.result.missing.iter();
        let in_place: Vec<&String> = missing.flat_map(|one| &one.statements).collect();
        let mut statements = remedy.statements.iter();
        statements.all(|text| in_place.contains(&text))
    }
}
