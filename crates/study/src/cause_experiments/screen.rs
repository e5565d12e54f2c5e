//! Tries an intervention: the statement is measured without it, with it, and without it again, in one transaction that is
//! rolled back.

use std::time::Duration;

use clock::{Clock, SystemClock};

use diagnose::{ChangeTrial, TrialOutcome, TrialTimes};
use observe::Example;
use plans::MeasuredTimes;

use super::intervention::{Action, Intervention, MeasuredStatement};
use super::statement_trial::{PlanningMode, TrialConnection};

/// Part of the time that is left at most if the cause was removed.
pub(super) const REMOVED: f64 = 0.5;
/// Part of the time that is left at most if it helped.
const FASTER: f64 = 0.85;
/// Time that parameter sets lose together, as a part of the time of all, if it is slower.
const SLOWER: f64 = 0.2;
/// Blocks that a statement reads at least if they are a second witness.
const BLOCKS_MIN: f64 = 20.0;
/// Executions of each parameter set with and without the intervention, after the first.
const REPETITIONS: usize = 2;
/// Time of an execution, in milliseconds, from which one repetition is enough.
const LONG_MS: f64 = 2_000.0;
/// Shortest limit of an execution with the intervention.
const LIMIT_MIN: Duration = Duration::from_secs(1);

/// Tries an intervention that a transaction can make, until a time of the clock at most. Returns `None` if it cannot be tried.
pub(super) fn try_intervention(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
    intervention: &Intervention,
    (clock, until_ns): (&SystemClock, i64),
) -> Option<ChangeTrial> {
    let setup = intervention.setup()?;
    let failed = |reason: String| ChangeTrial::without_times(TrialOutcome::Failed, reason);
    if let Err(reason) = connection.begin() {
        return Some(failed(reason));
    }
    let mut sets = statement.sets.to_vec();
    if let Action::Rewrite(rewrite) = intervention.action {
        for example in &mut sets {
            if let Some(text) = rewrite(&example.sql) {
                example.sql = text.into();
            }
        }
    }
    let mut trial = Trial {
        connection,
        unchanged: &statement.sets,
        baseline: &statement.baseline,
        mode: statement.trial_mode,
        sets,
        action: &intervention.action,
        clock,
        until_ns,
    };
    let tried = trial.perform(&setup).unwrap_or_else(failed);
    match connection.roll_back() {
        Ok(()) => Some(tried),
        Err(reason) => Some(failed(reason)),
    }
}

struct Trial<'c, 'd, 's> {
    connection: &'c mut TrialConnection<'d>,
    /// Parameter sets with the text of the traffic.
    unchanged: &'s [Example],
    /// Times of each set before the trial.
    baseline: &'s [MeasuredTimes],
    /// Way in which the traffic would plan it.
    mode: PlanningMode,
    /// Parameter sets, with the text to execute with the intervention.
    sets: Vec<Example>,
    action: &'s Action,
    clock: &'s SystemClock,
    until_ns: i64,
}

impl Trial<'_, '_, '_> {
    fn perform(&mut self, setup: &[String]) -> Result<ChangeTrial, String> {
        let begun_ns = self.clock.now_ns();
        self.connection.query("SAVEPOINT rehearse_change")?;
        let made = self.make(setup)?;
        let without_times =
            |outcome, reason: &str| made.added_to(ChangeTrial::without_times(outcome, reason));
        let unchanged = |reason: &str| without_times(TrialOutcome::NoEffect, reason);
        let acts_on_plan = matches!(self.action, Action::OnPlan | Action::Diagnostic(_));
        if acts_on_plan && !self.changes_a_plan()? {
            return Ok(unchanged("the planner chooses the same plan with it"));
        }
        let (slowest, slowest_ms) = self.slowest_set();
        let limit = Duration::from_secs_f64(slowest_ms * 3.0 / 1e3).max(LIMIT_MIN);
        self.connection.limit(limit)?;
        // These warm the caches, and show at once whether it is worth more.
        let first = match self.execute_twice(slowest) {
            Ok(first) => first,
            Err(reason) if reason.contains("statement timeout") => {
                let reason = format!("the statement did not end within {limit:.1?} with it");
                return Ok(without_times(TrialOutcome::Slower, &reason));
            }
            Err(reason) => return Err(reason),
        };
        let before = &self.baseline[slowest];
        let is_promising = first.total_ms() <= FASTER * before.total_ms()
            || first.blocks() <= FASTER * before.blocks();
        if !is_promising && first.total_ms() < 2.0 * before.total_ms() {
            return Ok(ChangeTrial {
                sets: vec![times_of(std::slice::from_ref(before), &[first])],
                reason: None,
                ..unchanged("")
            });
        }
        if matches!(self.action, Action::Rewrite(_)) && !self.gives_equal_rows()? {
            let reason = "the rewritten statement gave other rows";
            return Ok(without_times(TrialOutcome::Failed, reason));
        }
        let changed = self.sets.clone();
        let mut after = self.repeat()?;
        let mut before = self.repeat_unchanged()?;
        for (times, first) in before.iter_mut().zip(self.baseline) {
            times.push(first.clone());
        }
        let (mut outcome, mut sets) = judge(&before, &after);
        let mut reason = None;
        if outcome.is_gain() && !is_explained_by_work(&before, &after) {
            // A machine that is busy twice looks the same: the gain has to be there in each execution of a second round.
            match self.repeat_round(setup, changed, limit, begun_ns) {
                Ok([more_before, more_after]) => {
                    add_round(&mut before, more_before);
                    add_round(&mut after, more_after);
                    (outcome, sets) = judge(&before, &after);
                }
                Err(failure) => {
                    // It confirms nothing, and clears nothing.
                    outcome = TrialOutcome::Faster;
                    reason = Some(format!(
                        "only times differ, and were not repeated: {failure}"
                    ));
                }
            }
        }
        Ok(made.added_to(ChangeTrial {
            reason,
            sets,
            ..ChangeTrial::without_times(outcome, "")
        }))
    }

    /// Makes the change again, and executes the statement with it and without it. `begun_ns` is the beginning of the first round.
    fn repeat_round(
        &mut self,
        setup: &[String],
        changed: Vec<Example>,
        limit: Duration,
        begun_ns: i64,
    ) -> Result<[Vec<Vec<MeasuredTimes>>; 2], String> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_add(now_ns - begun_ns) > self.until_ns {
            return Err("there was no time for it".to_owned());
        }
        self.sets = changed;
        self.make(setup)?;
        self.connection.limit(limit)?;
        let (slowest, _) = self.slowest_set();
        self.execute_twice(slowest)?;
        let after = self.repeat()?;
        Ok([self.repeat_unchanged()?, after])
    }

    /// Makes the change. Returns the new indexes.
    fn make(&mut self, setup: &[String]) -> Result<NewIndexes, String> {
        let left_ns = (self.until_ns - self.clock.now_ns()).max(0);
        let left = Duration::from_nanos(left_ns as u64);
        self.connection.limit(left.max(LIMIT_MIN))?;
        make_change(self.connection, setup)
    }

    /// Whether the plan of a parameter set differs from the one without the change.
    fn changes_a_plan(&mut self) -> Result<bool, String> {
        for (example, before) in self.unchanged.iter().zip(self.baseline) {
            let plan = self.connection.plan(example, self.mode)?;
            if plan.shape() != before.plan.shape() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a rewritten statement gives the same rows in any order, with each parameter set.
    fn gives_equal_rows(&mut self) -> Result<bool, String> {
        for (rewritten, original) in self.sets.iter().zip(self.unchanged) {
            let (before, after) = (
                self.connection.checksum_rows(original)?,
                self.connection.checksum_rows(rewritten)?,
            );
            if before != after {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn slowest_set(&self) -> (usize, f64) {
        let all = self.baseline.iter().enumerate();
        let times = all.map(|(set, times)| (set, times.total_ms()));
        times.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    fn execute(&mut self, set: usize) -> Result<MeasuredTimes, String> {
        let example = &self.sets[set];
        self.connection.execute(example, self.mode)
    }

    /// Executes a parameter set, and again unless it takes long. Returns the faster execution.
    fn execute_twice(&mut self, set: usize) -> Result<MeasuredTimes, String> {
        let first = self.execute(set)?;
        if first.total_ms() > LONG_MS {
            return Ok(first);
        }
        let second = self.execute(set)?;
        Ok(match second.total_ms() < first.total_ms() {
            true => second,
            false => first,
        })
    }

    /// Takes the change back, and executes the unchanged statement as [`Self::repeat`] does.
    fn repeat_unchanged(&mut self) -> Result<Vec<Vec<MeasuredTimes>>, String> {
        self.connection.query("ROLLBACK TO rehearse_change")?;
        self.sets = self.unchanged.to_vec();
        self.repeat()
    }

    /// Executes each parameter set several times, set after set.
    fn repeat(&mut self) -> Result<Vec<Vec<MeasuredTimes>>, String> {
        let mut all = vec![Vec::new(); self.unchanged.len()];
        for repetition in 0..REPETITIONS {
            for (set, times) in all.iter_mut().enumerate() {
                let is_long =
                    self.baseline[set].total_ms() > LONG_MS || self.clock.now_ns() > self.until_ns;
                if repetition == 0 || !is_long {
                    times.push(self.execute(set)?);
                }
            }
        }
        Ok(all)
    }
}

/// Adds the executions of a second round to those of the first.
fn add_round(first: &mut [Vec<MeasuredTimes>], second: Vec<Vec<MeasuredTimes>>) {
    for (times, more) in first.iter_mut().zip(second) {
        times.extend(more);
    }
}

/// Whether parameter sets that do other work gain at least half of the time.
fn is_explained_by_work(before: &[Vec<MeasuredTimes>], after: &[Vec<MeasuredTimes>]) -> bool {
    let (mut all_ms, mut explained_ms) = (0.0, 0.0);
    for (before, after) in before.iter().zip(after) {
        let [before_ms, after_ms] = [before, after].map(|one| median(one, MeasuredTimes::total_ms));
        let won_ms = before_ms - after_ms;
        all_ms += won_ms;
        if does_other_work(before, after) {
            explained_ms += won_ms;
        }
    }
    explained_ms >= 0.5 * all_ms
}

/// Whether a parameter set has another plan, far fewer blocks or temporary blocks, or is no longer compiled just in time.
fn does_other_work(before: &[MeasuredTimes], after: &[MeasuredTimes]) -> bool {
    let shape = |all: &[MeasuredTimes]| all.first().map(|times| times.plan.shape());
    let has_far_fewer =
        |of: fn(&MeasuredTimes) -> f64| has_far_fewer_blocks(median(before, of), median(after, of));
    let compilation_ms = |all| median(all, |times| times.compilation_ms);
    shape(before) != shape(after)
        || has_far_fewer(MeasuredTimes::blocks)
        || has_far_fewer(temporary_blocks)
        || compilation_ms(before) > 0.0 && compilation_ms(after) == 0.0
}

fn temporary_blocks(times: &MeasuredTimes) -> f64 {
    let actual = times.plan.root.actual.as_ref();
    actual.map_or(0.0, |actual| actual.temporary)
}

/// Whether a statement that reads enough blocks to be compared reads half of them or fewer with a change.
fn has_far_fewer_blocks(before: f64, after: f64) -> bool {
    before >= BLOCKS_MIN && after <= REMOVED * before
}

/// Indexes that a change created.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NewIndexes {
    bytes: Option<u64>,
    columns: Option<u64>,
}

impl NewIndexes {
    fn added_to(self, trial: ChangeTrial) -> ChangeTrial {
        ChangeTrial {
            index_bytes: self.bytes,
            index_columns: self.columns,
            ..trial
        }
    }
}

/// Makes a change in the open transaction. Returns the new indexes.
pub(super) fn make_change(
    connection: &mut TrialConnection<'_>,
    setup: &[String],
) -> Result<NewIndexes, String> {
    let newest =
        connection.value("SELECT max(indexrelid::oid::bigint) FROM pg_catalog.pg_index")?;
    let newest = newest.unwrap_or_default();
    for sql in setup {
        connection.query(sql)?;
    }
    let created = format!("indexrelid::oid::bigint > {newest}");
    // An index over rows with HOT updates serves later transactions only, as if it were not used. No other transaction
    // is there, which could miss a row.
    connection.query(&format!(
        "UPDATE pg_catalog.pg_index SET indcheckxmin = false WHERE indcheckxmin AND {created}"
    ))?;
    // Indexes of partitions have the columns of one.
    let rows = connection.query(&format!(
        "SELECT sum(pg_catalog.pg_relation_size(indexrelid)), max(indnatts) FROM pg_catalog.pg_index WHERE {created}"
    ))?;
    let number = |column: usize| rows.first()?.get(column)?.as_deref()?.parse().ok();
    Ok(NewIndexes {
        bytes: number(0),
        columns: number(1),
    })
}

/// Returns the outcome, and the medians of each parameter set.
fn judge(
    before: &[Vec<MeasuredTimes>],
    after: &[Vec<MeasuredTimes>],
) -> (TrialOutcome, Vec<TrialTimes>) {
    let sets: Vec<TrialTimes> = before
        .iter()
        .zip(after)
        .map(|(before, after)| times_of(before, after))
        .collect();
    let sum = |of: fn(&TrialTimes) -> f64| sets.iter().map(of).sum::<f64>();
    let before_ms = sum(|one| one.before_ms);
    let left = sum(|one| one.after_ms) / before_ms.max(f64::MIN_POSITIVE);
    let blocks_agree =
        has_far_fewer_blocks(sum(|one| one.before_blocks), sum(|one| one.after_blocks));
    let lost_ms = sum(|one| (one.after_ms - one.before_ms).max(0.0));
    let extreme = |all: &[Vec<MeasuredTimes>], choose: fn(f64, f64) -> f64| -> f64 {
        let of_set = |set: &Vec<MeasuredTimes>| {
            let times = set.iter().map(MeasuredTimes::total_ms);
            times.reduce(choose).unwrap_or(0.0)
        };
        all.iter().map(of_set).sum()
    };
    // The slowest execution with the change is faster than the fastest without it.
    let is_clear = extreme(after, f64::max) < extreme(before, f64::min);
    let is_clearly_slower = extreme(after, f64::min) > extreme(before, f64::max);
    let outcome = if lost_ms > SLOWER * before_ms && (is_clearly_slower || left < 1.0) {
        TrialOutcome::Slower
    } else if left <= REMOVED && (is_clear || blocks_agree) {
        TrialOutcome::RemovesCause
    } else if left <= FASTER && is_clear {
        TrialOutcome::Faster
    } else {
        TrialOutcome::NoEffect
    };
    (outcome, sets)
}

fn median(all: &[MeasuredTimes], of: fn(&MeasuredTimes) -> f64) -> f64 {
    let mut all: Vec<f64> = all.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the medians of a parameter set's executions.
fn times_of(before: &[MeasuredTimes], after: &[MeasuredTimes]) -> TrialTimes {
    TrialTimes {
        before_ms: median(before, MeasuredTimes::total_ms),
        after_ms: median(after, MeasuredTimes::total_ms),
        before_blocks: median(before, MeasuredTimes::blocks),
        after_blocks: median(after, MeasuredTimes::blocks),
    }
}

#[cfg(test)]
mod tests {
    use connect::login::Dialer;
    use replay::Target;

    use super::*;
    use crate::cause_experiments::TrialSession;

    fn runs(all: &[&[f64]]) -> Vec<Vec<MeasuredTimes>> {
        let of = |set: &&[f64]| {
            let times = set.iter().map(|ms| MeasuredTimes {
                execution_ms: *ms,
                ..MeasuredTimes::default()
            });
            times.collect()
        };
        all.iter().map(of).collect()
    }

    fn outcome(before: &[&[f64]], after: &[&[f64]]) -> TrialOutcome {
        judge(&runs(before), &runs(after)).0
    }

    #[test]
    fn outcome_follows_from_all_parameter_sets() {
        let before: &[&[f64]] = &[&[10.0, 11.0, 10.5], &[1.0, 1.1, 1.0]];
        let removed: &[&[f64]] = &[&[1.0, 1.2], &[1.0, 1.1]];
        assert_eq!(outcome(before, removed), TrialOutcome::RemovesCause);
        let faster: &[&[f64]] = &[&[7.0, 7.2], &[1.0, 1.1]];
        assert_eq!(outcome(before, faster), TrialOutcome::Faster);
        let same: &[&[f64]] = &[&[9.9, 10.4], &[1.0, 1.1]];
        assert_eq!(outcome(before, same), TrialOutcome::NoEffect);
        // One set gains, the other loses as much as a third of the time.
        let mixed: &[&[f64]] = &[&[1.0, 1.2], &[4.8, 5.0]];
        assert_eq!(outcome(before, mixed), TrialOutcome::Slower);
    }

    #[test]
    fn noise_confirms_nothing() {
        let before: &[&[f64]] = &[&[1.0, 9.0, 8.0]];
        assert_eq!(outcome(before, &[&[3.0, 4.0]]), TrialOutcome::NoEffect);
        assert_eq!(outcome(before, &[&[30.0, 40.0]]), TrialOutcome::Slower);
        assert_eq!(outcome(before, &[&[8.0, 40.0]]), TrialOutcome::NoEffect);
    }

    #[test]
    fn times_that_no_work_explains_need_a_second_round() {
        let before = runs(&[&[1.0, 1.1, 1.2]]);
        let mut after = runs(&[&[0.8, 0.8]]);
        assert_eq!(judge(&before, &after).0, TrialOutcome::Faster);
        assert!(!is_explained_by_work(&before, &after));
        let mut both = before.clone();
        add_round(&mut both, runs(&[&[0.9, 0.9]]));
        add_round(&mut after, runs(&[&[0.8, 0.95]]));
        assert_eq!(judge(&both, &after).0, TrialOutcome::NoEffect);
    }

    #[test]
    fn work_explains_a_gain_only_of_the_sets_that_do_other_work() {
        let before = || runs(&[&[50.0], &[0.1]]);
        let with = |set: usize, change: fn(&mut MeasuredTimes)| {
            let mut all = runs(&[&[30.0], &[0.1]]);
            change(&mut all[set][0]);
            all
        };
        let is_explained = |set, change| is_explained_by_work(&before(), &with(set, change));
        let other_plan = |times: &mut MeasuredTimes| {
            times.plan.root.kind = "Index Scan".to_owned();
        };
        assert!(is_explained(0, other_plan));
        assert!(!is_explained(1, other_plan));
        let mut compiled = before();
        compiled[0][0].compilation_ms = 5.0;
        assert!(is_explained_by_work(&compiled, &with(0, |_| ())));
        // Few blocks say little of the time.
        assert!(has_far_fewer_blocks(100.0, 20.0) && !has_far_fewer_blocks(10.0, 2.0));
    }

    /// Tries a setting that shortens a wait, which has the same plan and reads nothing. Returns the trial and the number of executions.
    fn shorten_a_wait(has_time: bool) -> (ChangeTrial, i64) {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let clock = SystemClock::start();
        let session = TrialSession::of_owner(&target, "postgres");
        let mut connection = TrialConnection::new(&dialer, session, (&clock, i64::MAX));
        connection.query("CREATE SEQUENCE executions").unwrap();
        let wait = "SELECT nextval('executions'), pg_sleep(coalesce(nullif(current_setting('a.wait', true), ''), '0.05')::float8)";
        let sets = [Example {
            session: 1,
            sequence: 1,
            database: "postgres".into(),
            user: "postgres".into(),
            settings: [].into(),
            sql: wait.into(),
            parameters: [].into(),
            types: Vec::new(),
            is_prepared: false,
            captured_us: None,
        }];
        connection.begin().unwrap();
        let mode = PlanningMode::Custom;
        let baseline = [connection.execute(&sets[0], mode).unwrap()];
        let setup = ["SET LOCAL a.wait = '0.001'".to_owned()];
        let mut trial = Trial {
            connection: &mut connection,
            unchanged: &sets,
            baseline: &baseline,
            mode,
            sets: sets.to_vec(),
            action: &Action::OnExecution,
            clock: &clock,
            until_ns: clock.now_ns() + if has_time { 60_000_000_000 } else { 1_000_000 },
        };
        let tried = trial.perform(&setup).unwrap();
        let executions = connection
            .value("SELECT last_value FROM executions")
            .unwrap();
        connection.roll_back().unwrap();
        (tried, executions.unwrap().parse().unwrap())
    }

    #[test]
    fn gain_that_only_times_show_is_confirmed_by_a_second_round_alone() {
        let (tried, executions) = shorten_a_wait(true);
        assert_eq!(tried.outcome, TrialOutcome::RemovesCause, "{tried:?}");
        // The first one measured the statement; each round has two to warm up, two with the change and two without.
        assert_eq!(executions, 1 + 6 + 6);
        let (tried, executions) = shorten_a_wait(false);
        assert_eq!(tried.outcome, TrialOutcome::Faster, "{tried:?}");
        assert!(tried.reason.unwrap().contains("no time"));
        assert!(executions < 1 + 6 + 1, "{executions}");
    }
}
