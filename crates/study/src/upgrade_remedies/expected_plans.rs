//! Plans on the new server with the remedies, which the upgraded server is expected to have.

use observe::Example;
use workload::StatementText;

use super::result::RemedyKind;
use super::statement_search::StatementSearch;
use super::{ExpectedPlan, ExpectedPlans, summary};
use crate::cause_experiments::{PlanningMode, is_executable};

impl StatementSearch<'_> {
    /// Returns the plans of a statement with its own remedy and all settings; `None` if it cannot be planned.
    pub(super) fn expected_plans(
        &mut self,
        text: &StatementText,
        sets: &[Example],
    ) -> Option<ExpectedPlans> {
        sets.first().filter(|first| is_executable(first))?;
        let fingerprint = text.fingerprint.to_string();
        let own = self.result.regressions.iter();
        let own = own.filter(|one| one.fingerprint == fingerprint);
        // Sessions do not have advice.
        let own = own
            .filter_map(|one| one.remedy.as_ref())
            .filter(|remedy| remedy.setting.is_none() && remedy.kind != RemedyKind::PlanAdvice)
            .flat_map(|remedy| remedy.statements.iter().cloned());
        let missing = self.result.missing.iter();
        let in_place: Vec<&String> = missing.flat_map(|one| &one.statements).collect();
        let own: Vec<String> = own.filter(|text| !in_place.contains(&text)).collect();
        let has_one_session =
            |a: &Example, b: &Example| (&a.user, &a.settings) == (&b.user, &b.settings);
        let mut plans = Vec::new();
        for group in sets.chunk_by(has_one_session) {
            plans.extend(self.plans_in_session(group, &own)?);
        }
        Some(ExpectedPlans {
            fingerprint,
            sql: text.sql.clone(),
            plans,
        })
    }

    /// Plans executions of sessions with the same role and settings, with the remedies of settings and the statements `own`.
    fn plans_in_session(&mut self, sets: &[Example], own: &[String]) -> Option<Vec<ExpectedPlan>> {
        let side = &mut self.new;
        side.place.enter(&mut side.connection, sets.first()?).ok()?;
        let mut setup = self.accepted_settings();
        setup.extend_from_slice(own);
        let side = &mut self.new;
        side.connection.begin().ok()?;
        let ready = side.connection.set_up(&setup).is_ok();
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
        plans.filter(|_| ready)
    }
}
