//! Tries the candidates for a statement that is worse, and keeps the remedies that were chosen.

use super::candidates::{Candidate, SlowStatement, candidates};
use super::planning_state::PlanningState;
use super::result::{RegressionRemedy, RemedyStatus, TrialWork, UpgradeRegression};
use super::statement_search::StatementSearch;
use super::trial::{Baseline, Effect, MeasuredSets, effect, try_candidate};
use crate::cause_experiments::PlanTables;
use crate::environment::quote_literal;

impl StatementSearch<'_> {
    /// Tries the candidates until one restores the work of the old server. Of those that only help, the best counts.
    pub(super) fn try_candidates(
        &mut self,
        states: (&PlanningState, &PlanningState),
        (baseline, tables): (&Baseline<'_>, &PlanTables),
        found: &mut UpgradeRegression,
    ) {
        let (old, new) = baseline.works();
        let newly_compiled =
            baseline.new.compilation_ms() > 0.0 && baseline.old.compilation_ms() == 0.0;
        let plan_of = |measured: &MeasuredSets| measured.times[baseline.new.slowest()].plan.clone();
        let (old_plan, new_plan) = (plan_of(baseline.old), plan_of(baseline.new));
        let statement = SlowStatement {
            old: &old_plan,
            new: &new_plan,
            tables,
            newly_compiled,
            chosen: &self.chosen,
        };
        let mut best: Option<(f64, Candidate, TrialWork, bool)> = None;
        let accepted = self.accepted_settings();
        for mut candidate in candidates(states, &statement) {
            if self.new.connection.is_time_over() {
                self.has_lacked_time = true;
                found.note = Some(
                    "There was no time to try all candidates; give more with --within.".to_owned(),
                );
                break;
            }
            let access = self.request.access;
            candidate.trial.splice(0..0, accepted.iter().cloned());
            let tried = try_candidate((&mut self.new.connection, access), &candidate, baseline);
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
                best = Some((left, candidate, work, has_old_plan));
            }
            if effect == Effect::Restored {
                break;
            }
        }
        if let Some((_, candidate, work, has_old_plan)) = best {
            self.choose(&candidate.remedy);
            found.has_old_plan = has_old_plan;
            found.remedy = Some(candidate.remedy);
            found.remedied_work = Some(work);
            found.status = RemedyStatus::Screened;
        }
    }

    /// Returns the settings of accepted remedies that are in force for the role of the session.
    pub(super) fn accepted_settings(&self) -> Vec<String> {
        let role = self.new.connection.role();
        let is_in_force =
            |one: &&RegressionRemedy| one.role.as_deref().is_none_or(|wanted| wanted == role);
        let mut settings: Vec<&RegressionRemedy> = self.chosen.iter().filter(is_in_force).collect();
        // Those of a role override those of the database.
        settings.sort_by_key(|one| one.role.is_some());
        let settings = settings.iter().filter_map(|one| one.setting.as_ref());
        settings
            .map(|(name, value)| format!("SET LOCAL {name} = {}", quote_literal(value)))
            .collect()
    }

    pub(super) fn choose(&mut self, remedy: &RegressionRemedy) {
        if !self.chosen.contains(remedy) {
            self.chosen.push(remedy.clone());
        }
    }
}
