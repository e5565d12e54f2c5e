//! Executions with other values, for a statement whose plan depends on them: those that were chosen by captured time can have
//! the plan of the old server, while others do not.

use observe::Example;
use plans::Plan;

use super::result::{RegressionSign, UpgradeRegression};
use super::statement_search::StatementSearch;
use super::{CapturedStatement, summary};
use crate::cause_experiments::PlanningMode;

/// Most executions with another plan that are measured.
const MEASURED_MAX: usize = 3;

/// Executions with another plan on the new server.
struct OtherPlans {
    examples: Vec<Example>,
    /// Number of executions that were planned.
    planned: usize,
    /// Plans of the first one on the old server and on the new one.
    first: (Plan, Plan),
}

impl StatementSearch<'_> {
    /// Compares a statement that is worse with other values. `found` is the result with the first ones. If they did not lead to
    /// another plan, and others do, what these show is added to it.
    ///
    /// # Errors
    /// If a server cannot plan or execute the statement.
    pub(super) fn compare_other_values(
        &mut self,
        statement: &CapturedStatement,
        found: &mut Vec<UpgradeRegression>,
    ) -> Result<(), String> {
        let is_worse = statement.sign.is_some() || !found.is_empty();
        let is_explained = |one: &UpgradeRegression| match &one.remedy {
            Some(remedy) => !self.is_in_place(remedy),
            None => !one.tried.is_empty(),
        };
        if !is_worse || found.iter().any(is_explained) || statement.others.is_empty() {
            return Ok(());
        }
        let mode = self.mode(&statement.sets)?;
        let Some(other) = self.with_other_plans(statement, mode)? else {
            return Ok(());
        };
        let measured = &other.examples[..other.examples.len().min(MEASURED_MAX)];
        let regression = self.compare_executions(&statement.text, measured)?;
        let Some(mut regression) = regression else {
            return Ok(());
        };
        // Few of its executions need be so, hence they are no objection of their own.
        regression.is_of_other_values = true;
        regression.sign = statement.sign.unwrap_or(RegressionSign::Suspected);
        let (old, new) = (summary(&other.first.0), summary(&other.first.1));
        let note = regression.note.take();
        let note = note.map_or_else(String::new, |note| format!(" {note}"));
        regression.note = Some(format!(
            "It has another plan for {} of {} other executions: {new} instead of {old}.{note}",
            other.examples.len(),
            other.planned
        ));
        // An entry of the replays that the first values do not explain. Others are findings of their own.
        let is_explained_now = |one: &UpgradeRegression| {
            matches!(one.sign, RegressionSign::Slower | RegressionSign::Suspected)
                && one.remedy.is_none()
                && one.sample_dependence.is_none()
        };
        found.retain(|one| !is_explained_now(one));
        found.push(regression);
        Ok(())
    }

    /// Returns the executions with another plan than on the old server; `None` without any.
    fn with_other_plans(
        &mut self,
        statement: &CapturedStatement,
        mode: PlanningMode,
    ) -> Result<Option<OtherPlans>, String> {
        let first = statement.sets.first();
        // The session is that of the first execution.
        let is_of_session = |one: &&Example| {
            first.is_some_and(|first| one.user == first.user && one.settings == first.settings)
        };
        let others: Vec<Example> = (statement.others.iter())
            .filter(is_of_session)
            .cloned()
            .collect();
        let planned = others.len();
        let pairs = self.plans_of_both(&others, mode)?;
        let mut differing =
            (others.into_iter().zip(pairs)).filter(|(_, (old, new))| old.shape() != new.shape());
        let Some((example, first)) = differing.next() else {
            return Ok(None);
        };
        let mut examples = vec![example];
        examples.extend(differing.map(|(example, _)| example));
        Ok(Some(OtherPlans {
            examples,
            planned,
            first,
        }))
    }
}
