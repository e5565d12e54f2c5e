//! Finds changed plans that depend on the sample of `ANALYZE`.
//!
//! Each server has statistics of its own random sample, so that a plan near the border between two can differ without a
//! fault. Both servers therefore plan the statement with several new samples, in transactions that are rolled back. If the old
//! server then chooses the plan of the new one, or the new server that of the old one, the upgrade need not be the cause.

use std::collections::BTreeSet;

use plans::PlanShape;

use super::TrialAccess;
use super::planning_state::PlanningState;
use super::result::{RemedyStatus, SampleDependence, UpgradeRegression};
use super::statement_search::StatementSearch;
use super::trial::Baseline;
use crate::cause_experiments::{PlanTables, PlanningMode, TrialConnection};

/// Number of new samples on each server. With a plan that one sample in five gives, 5 samples show it with a probability of
/// 67 %, and 5 of each server with 89 %.
const SAMPLES: u32 = 5;

/// Describes a dependence in sentences.
fn describe(found: &SampleDependence, tables: &BTreeSet<String>) -> String {
    let names: Vec<&str> = tables.iter().map(String::as_str).collect();
    format!(
        "Its plan depends on the sample of ANALYZE on both versions: with {} new samples each, the old server chose the plan of \
         the new one {}, and the new server that of the old one {}. So the upgrade need not be the cause. Collect larger \
         statistics of {} (ALTER TABLE … ALTER COLUMN … SET STATISTICS 1000 for the columns of its conditions, then \
         ANALYZE), or create extended statistics on columns that its conditions use together.",
        found.samples,
        times(found.old_with_new_plan),
        times(found.new_with_old_plan),
        names.join(", ")
    )
}

fn times(number: u32) -> String {
    match number {
        1 => "once".to_owned(),
        number => format!("{number} times"),
    }
}

impl StatementSearch<'_> {
    /// Notes whether the plan of a statement without a remedy depends on the sample of `ANALYZE`. If that cannot be found out, its
    /// status is that of a statement with candidates that were not tried.
    pub(super) fn examine_samples(
        &mut self,
        (old, new): (&PlanningState, &PlanningState),
        (baseline, tables): (&Baseline<'_>, &PlanTables),
        found: &mut UpgradeRegression,
    ) {
        // A rolled back ANALYZE leaves traces.
        if self.request.access == TrialAccess::ReadOnly {
            return;
        }
        let connections = [&mut self.old.connection, &mut self.new.connection];
        match plan_with_samples(connections, [old, new], (baseline, tables)) {
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
                found.status = RemedyStatus::Untried;
            }
        }
    }
}

/// Plans the statement with new samples on both servers; `None` if its plan does not depend on them.
///
/// # Errors
/// If a server refuses `ANALYZE` or a plan, or the time is over before all samples.
fn plan_with_samples(
    connections: [&mut TrialConnection<'_>; 2],
    states: [&PlanningState; 2],
    (baseline, tables): (&Baseline<'_>, &PlanTables),
) -> Result<Option<(SampleDependence, BTreeSet<String>)>, String> {
    let changed = ChangedPlans::of(baseline);
    let mut all = BTreeSet::new();
    let mut found = [0; 2];
    if changed.pairs.iter().all(|[old, new]| old == new) {
        return Ok(None);
    }
    for (side, (connection, state)) in connections.into_iter().zip(states).enumerate() {
        let tables = quoted_tables(state, tables);
        for _ in 0..SAMPLES {
            if connection.is_time_over() {
                return Err("the time of the search was over".to_owned());
            }
            connection.begin()?;
            let shapes = plan_analyzed(connection, &tables, baseline);
            connection.roll_back()?;
            found[side] += u32::from(changed.has_plan_of_other(side, &shapes?));
        }
        all.extend(tables);
    }
    let [old_with_new_plan, new_with_old_plan] = found;
    let dependence = SampleDependence {
        samples: SAMPLES,
        old_with_new_plan,
        new_with_old_plan,
    };
    Ok((found != [0; 2]).then_some((dependence, all)))
}

/// Plans of each parameter set on the old server and on the new one.
struct ChangedPlans {
    pairs: Vec<[PlanShape; 2]>,
}

impl ChangedPlans {
    fn of(baseline: &Baseline<'_>) -> Self {
        let pairs = baseline.old.shapes().into_iter().zip(baseline.new.shapes());
        ChangedPlans {
            pairs: pairs.map(|(old, new)| [old, new]).collect(),
        }
    }

    /// Whether the plan of a set on this side is the one of the other side, although both differed.
    fn has_plan_of_other(&self, side: usize, shapes: &[PlanShape]) -> bool {
        let mut sets = self.pairs.iter().zip(shapes);
        sets.any(|(pair, shape)| pair[0] != pair[1] && *shape == pair[1 - side])
    }
}

/// Returns the tables of the plans, quoted.
fn quoted_tables(state: &PlanningState, tables: &PlanTables) -> BTreeSet<String> {
    let all = state.tables.iter();
    let all = all.filter(|one| tables.contains(&(one.schema.clone(), one.plain.clone())));
    all.map(|table| table.name.clone()).collect()
}

fn plan_analyzed(
    connection: &mut TrialConnection<'_>,
    tables: &BTreeSet<String>,
    baseline: &Baseline<'_>,
) -> Result<Vec<PlanShape>, String> {
    for table in tables {
        connection.query(&format!("ANALYZE {table}"))?;
    }
    let mode: PlanningMode = baseline.mode;
    let plans = baseline.new.sets.iter();
    plans
        .map(|example| Ok(connection.plan(example, mode)?.shape()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use clock::SystemClock;
    use connect::login::Dialer;
    use plans::MeasuredTimes;
    use replay::{LoginMap, Target};
    use workload::Literals;

    use super::super::coverage::Examination;
    use super::super::result::RegressionSign;
    use super::super::statement_search::{Side, examination_of};
    use super::super::trial::MeasuredSets;
    use super::super::{RemedySearch, RemedySearchResult};
    use super::*;
    use crate::interrupt::Interrupt;

    #[test]
    fn only_the_plan_of_the_other_server_in_a_set_with_different_plans_counts() {
        let shape = PlanShape;
        let changed = ChangedPlans {
            pairs: vec![[shape(1), shape(1)], [shape(2), shape(3)]],
        };
        // Both sets as before; the first one changes; the second has a third plan; it has the other server's plan.
        for (shapes, old, new) in [
            ([1, 2], false, true),
            ([1, 3], true, false),
            ([3, 4], false, false),
            ([2, 4], false, false),
        ] {
            let shapes = shapes.map(shape);
            assert_eq!(changed.has_plan_of_other(0, &shapes), old, "{shapes:?}");
            assert_eq!(changed.has_plan_of_other(1, &shapes), new, "{shapes:?}");
        }
    }

    #[test]
    fn dependence_for_which_there_was_no_time_is_open() {
        let target = Target::parse("postgres://a@127.0.0.1:1/shop", |_| None).unwrap();
        let (logins, clock) = (LoginMap::default(), SystemClock::start());
        let dialer = Dialer::new(&target).unwrap();
        let request = RemedySearch {
            old: &target,
            new: &target,
            logins: &logins,
            access: TrialAccess::Disposable,
            captured: "shop",
            slower: &HashMap::new(),
            limit: Duration::ZERO,
            literals: Literals::Hidden,
            interrupt: &Interrupt::default(),
        };
        let side = || Side::new(&request, &dialer, (&target, &logins), (&clock, i64::MIN));
        let known = RemedySearchResult::default();
        let mut search = StatementSearch::new(&request, (side(), side()), known);
        let measured = |kind: &str| {
            let mut times = MeasuredTimes::default();
            kind.clone_into(&mut times.plan.root.kind);
            MeasuredSets {
                sets: Vec::new(),
                times: vec![times],
            }
        };
        let (old, new) = (measured("Seq Scan"), measured("Index Scan"));
        let baseline = Baseline {
            old: &old,
            new: &new,
            mode: PlanningMode::Custom,
        };
        let state = PlanningState::default();
        let mut found = UpgradeRegression::new("", "", RegressionSign::Work);
        search.examine_samples(
            (&state, &state),
            (&baseline, &PlanTables::new()),
            &mut found,
        );
        assert_eq!(found.status, RemedyStatus::Untried);
        let note = found.note.as_deref().unwrap_or_default();
        assert!(note.contains("the time of the search was over"), "{note}");
        // A search with more time continues with it.
        let found = [found];
        assert_eq!(examination_of(&found, false, true), Examination::NoTime);
        assert_eq!(examination_of(&found, false, false), Examination::Examined);
        assert_eq!(examination_of(&[], true, true), Examination::NoTime);
    }

    #[test]
    fn description_has_the_numbers_of_both_servers_and_the_tables() {
        let one = SampleDependence {
            samples: 5,
            old_with_new_plan: 1,
            new_with_old_plan: 3,
        };
        let text = describe(&one, &BTreeSet::from(["public.t".to_owned()]));
        assert!(
            text.contains("plan of the new one once") && text.contains("old one 3 times"),
            "{text}"
        );
        assert!(text.contains("statistics of public.t "), "{text}");
    }
}
