//! Executes a statement alone on both servers, and on the new one with a candidate. Everything is rolled back.

use observe::Example;
use plans::{MeasuredTimes, PlanShape};

use super::TrialAccess;
use super::candidates::Candidate;
use super::result::{TrialWork, TriedRemedy};
use crate::cause_experiments::{PlanningMode, TrialConnection};

/// Time of an execution, in milliseconds, from which it is not repeated.
const LONG_MS: f64 = 1_000.0;
/// Executions of a parameter set, the fastest of which counts.
const REPETITIONS: usize = 3;
/// Difference of blocks that is none.
const BLOCKS_NOISE: f64 = 20.0;
/// Difference of times that is none, in milliseconds.
const MS_NOISE: f64 = 0.5;

/// Executions of a statement on one server.
#[derive(Debug, Clone)]
pub(super) struct MeasuredSets {
    pub(super) sets: Vec<Example>,
    pub(super) times: Vec<MeasuredTimes>,
}

impl MeasuredSets {
    /// Returns the sum over the parameter sets.
    pub(super) fn work(&self) -> TrialWork {
        TrialWork {
            ms: self.times.iter().map(MeasuredTimes::total_ms).sum(),
            blocks: self.times.iter().map(MeasuredTimes::blocks).sum(),
        }
    }

    pub(super) fn shapes(&self) -> Vec<PlanShape> {
        self.times.iter().map(|times| times.plan.shape()).collect()
    }

    /// Returns the time of just-in-time compilation, in milliseconds.
    pub(super) fn compilation_ms(&self) -> f64 {
        self.times.iter().map(|times| times.compilation_ms).sum()
    }

    /// Whether plans, their executions, blocks, temporary files and just-in-time compilation are those of `other`. Then another time
    /// is noise.
    pub(super) fn does_the_same_as(&self, other: &MeasuredSets) -> bool {
        let is_near = |a: f64, b: f64| (a - b).abs() <= BLOCKS_NOISE + 0.02 * a.max(b);
        let (one, two) = (self.compilation_ms(), other.compilation_ms());
        let compiles_alike = one.max(two) <= 2.0 * one.min(two) + MS_NOISE;
        let [own, others] = [self, other].map(MeasuredSets::totals);
        // A parallel worker more executes nodes once more.
        self.shapes() == other.shapes()
            && compiles_alike
            && (own.loops - others.loops).abs() < 0.5
            && is_near(own.temporary, others.temporary)
            && is_near(self.work().blocks, other.work().blocks)
    }

    /// Returns the sums over the parameter sets: executions of all nodes, and temporary blocks.
    fn totals(&self) -> NodeTotals {
        let mut totals = NodeTotals::default();
        for times in &self.times {
            times.plan.root.each(&mut |node, depth| {
                let Some(actual) = &node.actual else { return };
                totals.loops += actual.loops;
                totals.temporary += if depth == 0 { actual.temporary } else { 0.0 };
            });
        }
        totals
    }

    /// Returns the index of the slowest set.
    pub(super) fn slowest(&self) -> usize {
        let all = self.times.iter().map(MeasuredTimes::total_ms).enumerate();
        all.max_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(0, |one| one.0)
    }
}

/// Sums over the nodes of plans.
#[derive(Debug, Clone, Copy, Default)]
struct NodeTotals {
    loops: f64,
    temporary: f64,
}

/// Executes the parameter sets. Those that fail are left out.
///
/// # Errors
/// If all fail, with the message of the last one.
pub(super) fn measure(
    connection: &mut TrialConnection<'_>,
    sets: &[Example],
    mode: PlanningMode,
) -> Result<MeasuredSets, String> {
    connection.begin()?;
    let measured = execute_sets(connection, sets, mode);
    connection.roll_back()?;
    measured
}

fn execute_sets(
    connection: &mut TrialConnection<'_>,
    sets: &[Example],
    mode: PlanningMode,
) -> Result<MeasuredSets, String> {
    let mut all = MeasuredSets {
        sets: Vec::new(),
        times: Vec::new(),
    };
    let mut refused = None;
    for example in sets {
        match execute(connection, example, mode) {
            Ok(times) => {
                all.sets.push(example.clone());
                all.times.push(times);
            }
            Err(reason) => refused = Some(reason),
        }
    }
    match refused {
        Some(reason) if all.sets.is_empty() => Err(reason),
        _ => Ok(all),
    }
}

fn execute(
    connection: &mut TrialConnection<'_>,
    example: &Example,
    mode: PlanningMode,
) -> Result<MeasuredTimes, String> {
    let mut fastest = connection.execute(example, mode)?;
    for _ in 1..REPETITIONS {
        if fastest.total_ms() > LONG_MS {
            break;
        }
        let next = connection.execute(example, mode)?;
        if next.total_ms() < fastest.total_ms() {
            fastest = next;
        }
    }
    Ok(fastest)
}

/// Whether a statement does clearly more on the new server.
pub(super) fn is_worse(old: TrialWork, new: TrialWork) -> bool {
    has_more_blocks(old, new) || new.ms > 1.5 * old.ms + MS_NOISE
}

/// Whether a statement reads no more and takes about the time of the old server, as far as a few executions show it.
pub(crate) fn is_near(old: TrialWork, new: TrialWork) -> bool {
    !has_more_blocks(old, new) && new.ms <= 1.5 * old.ms + MS_NOISE / 5.0
}

/// Whether a statement that the replays showed as slower may be slower alone, too.
pub(crate) fn may_be_worse(old: TrialWork, new: TrialWork) -> bool {
    has_more_blocks(old, new) || new.ms > 1.1 * old.ms + MS_NOISE / 5.0
}

/// Whether a statement reads clearly more blocks on the new server.
pub(crate) fn has_more_blocks(old: TrialWork, new: TrialWork) -> bool {
    new.blocks > 1.15 * old.blocks + BLOCKS_NOISE
}

/// Whether a statement reads more blocks in about the same time. It is a risk only: with a cold cache, the time may differ.
pub(super) fn is_risk_only(old: TrialWork, new: TrialWork) -> bool {
    has_more_blocks(old, new) && new.ms <= 1.2 * old.ms + MS_NOISE / 5.0
}

/// Effect of a candidate on the work of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The work is that of the old server.
    Restored,
    /// The work is clearly less than without it.
    Better,
    /// The work is not clearly less.
    Useless,
}

/// Compares the work with a candidate to that without it. Blocks decide if they differ, since they do not depend on the
/// machine. The plan of the old server with its blocks is accepted in any time.
pub(super) fn effect(
    (old, new): (TrialWork, TrialWork),
    with: TrialWork,
    has_old_plan: bool,
) -> Effect {
    let more_time = with.ms > 1.2 * new.ms + MS_NOISE;
    let less_time = with.ms < 0.85 * new.ms - MS_NOISE / 5.0;
    let is_restored = match has_more_blocks(old, new) {
        true => with.blocks <= 1.1 * old.blocks + BLOCKS_NOISE && (has_old_plan || !more_time),
        false => {
            with.ms <= (old.ms + 0.3 * (new.ms - old.ms)).max(old.ms + MS_NOISE / 2.0)
                || has_old_plan && less_time && is_near(old, with)
        }
    };
    let less_blocks = with.blocks + BLOCKS_NOISE < new.blocks / 1.15;
    match (is_restored, less_time || less_blocks && !more_time) {
        (true, _) => Effect::Restored,
        (false, true) => Effect::Better,
        (false, false) => Effect::Useless,
    }
}

/// Statement as it was measured on both servers.
pub(super) struct Baseline<'a> {
    pub(super) old: &'a MeasuredSets,
    pub(super) new: &'a MeasuredSets,
    pub(super) mode: PlanningMode,
}

impl Baseline<'_> {
    /// Returns the work on the old and on the new server.
    pub(super) fn works(&self) -> (TrialWork, TrialWork) {
        (self.old.work(), self.new.work())
    }
}

/// Executes the statement with a candidate.
pub(super) fn try_candidate(
    (connection, access): (&mut TrialConnection<'_>, TrialAccess),
    candidate: &Candidate,
    baseline: &Baseline<'_>,
) -> TriedRemedy {
    let mut tried = TriedRemedy {
        statements: candidate.remedy.statements.clone(),
        work: None,
        has_old_plan: false,
        is_judged: true,
        result: String::new(),
    };
    if access == TrialAccess::ReadOnly && candidate.trial.iter().any(|one| leaves_traces(one)) {
        tried.is_judged = false;
        tried.result = "It was not tried: a rollback does not undo all of it, and nothing restores the data; give --restore \
                        or --template."
            .to_owned();
        return tried;
    }
    let measured = connection
        .begin()
        .and_then(|()| measure_with(connection, candidate, baseline));
    let ended = connection.roll_back();
    match (measured, ended) {
        (Err(reason), _) | (_, Err(reason)) => {
            tried.is_judged = false;
            tried.result = format!("It failed: {reason}");
        }
        (Ok(None), Ok(())) => "The plan stays the same.".clone_into(&mut tried.result),
        (Ok(Some(measured)), Ok(())) if measured.does_the_same_as(baseline.new) => {
            "The plan, its pages read and its temporary files stay the same."
                .clone_into(&mut tried.result);
        }
        (Ok(Some(measured)), Ok(())) => {
            let work = measured.work();
            tried.work = Some(work);
            tried.has_old_plan = measured.shapes() == baseline.old.shapes();
            let text = match effect(baseline.works(), work, tried.has_old_plan) {
                Effect::Restored => "The statement does the work of the old server.",
                Effect::Better => "The statement is faster, but not as on the old server.",
                Effect::Useless => "It does not help.",
            };
            text.clone_into(&mut tried.result);
        }
    }
    tried
}

/// Whether a rollback leaves something of a statement of a candidate. Settings leave nothing. `ANALYZE`, `CREATE INDEX` and
/// `REINDEX` write `pg_class` in place (`vac_update_relstats` in `vacuum.c`, `index_update_stats` in `catalog/index.c`).
fn leaves_traces(statement: &str) -> bool {
    !["SET LOCAL ", "LOAD "]
        .iter()
        .any(|prefix| statement.starts_with(prefix))
}

/// Returns `None` if the plans stay the same with a candidate that acts on plans only.
fn measure_with(
    connection: &mut TrialConnection<'_>,
    candidate: &Candidate,
    baseline: &Baseline<'_>,
) -> Result<Option<MeasuredSets>, String> {
    connection.set_up(&candidate.trial)?;
    let sets = &baseline.new.sets;
    if !candidate.acts_on_execution {
        let mut changes = false;
        for (example, shape) in sets.iter().zip(baseline.new.shapes()) {
            changes |= connection.plan(example, baseline.mode)?.shape() != shape;
        }
        if !changes {
            return Ok(None);
        }
    }
    let measured = execute_sets(connection, sets, baseline.mode)?;
    match measured.sets.len() == sets.len() {
        true => Ok(Some(measured)),
        false => Err("an execution failed with it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ms: f64, blocks: f64) -> TrialWork {
        TrialWork { ms, blocks }
    }

    #[test]
    fn blocks_decide_whether_the_work_is_restored_if_they_differ() {
        let (old, new) = (work(1.0, 100.0), work(20.0, 5_000.0));
        assert!(is_worse(old, new));
        let effect = |with| effect((old, new), with, false);
        assert_eq!(effect(work(3.0, 105.0)), Effect::Restored);
        assert_eq!(effect(work(1.0, 2_000.0)), Effect::Better);
        assert_eq!(effect(work(8.0, 2_000.0)), Effect::Better);
        assert_eq!(effect(work(30.0, 2_000.0)), Effect::Useless);
    }

    #[test]
    fn blocks_of_the_old_plan_are_accepted_in_more_time() {
        let works = (work(8.0, 730.0), work(8.0, 6_385.0));
        let slow = work(12.0, 730.0);
        assert_eq!(effect(works, slow, true), Effect::Restored);
        assert_eq!(effect(works, slow, false), Effect::Useless);
        assert_eq!(effect(works, work(12.0, 3_000.0), true), Effect::Useless);
    }

    #[test]
    fn more_blocks_in_the_same_time_are_a_risk_only() {
        let old = work(8.0, 730.0);
        assert!(is_risk_only(old, work(8.5, 6_385.0)));
        assert!(!is_risk_only(old, work(12.0, 6_385.0)));
        assert!(!is_risk_only(old, work(8.0, 740.0)));
        assert!(!is_risk_only(work(0.05, 3.0), work(0.5, 300.0)));
    }

    #[test]
    fn time_decides_if_the_blocks_are_equal() {
        let (old, new) = (work(10.0, 100.0), work(60.0, 100.0));
        assert!(is_worse(old, new));
        let effect = |with| effect((old, new), with, false);
        assert_eq!(effect(work(12.0, 100.0)), Effect::Restored);
        assert_eq!(effect(work(40.0, 100.0)), Effect::Better);
        assert_eq!(effect(work(58.0, 100.0)), Effect::Useless);
        assert!(!is_worse(old, work(12.0, 105.0)));
        // The time of the old plan is noise up to a half.
        let works = (old, work(20.0, 100.0));
        for (has_old_plan, found) in [(true, Effect::Restored), (false, Effect::Better)] {
            assert_eq!(super::effect(works, work(14.5, 100.0), has_old_plan), found);
        }
    }

    #[test]
    fn less_time_for_the_same_plan_and_blocks_is_no_effect() {
        let measured = |ms: f64, blocks: f64, temporary: f64, compilation_ms: f64| {
            let mut times = MeasuredTimes {
                execution_ms: ms,
                compilation_ms,
                ..MeasuredTimes::default()
            };
            times.plan.root.actual = Some(plans::ActualWork {
                loops: 1.0,
                blocks,
                temporary,
                ..plans::ActualWork::default()
            });
            MeasuredSets {
                sets: Vec::new(),
                times: vec![times],
            }
        };
        let slow = measured(40.0, 886.0, 0.0, 0.0);
        assert!(measured(6.8, 884.0, 0.0, 0.0).does_the_same_as(&slow));
        assert!(!measured(6.8, 300.0, 0.0, 0.0).does_the_same_as(&slow));
        assert!(!measured(6.8, 886.0, 500.0, 0.0).does_the_same_as(&slow));
        assert!(!measured(6.8, 886.0, 0.0, 20.0).does_the_same_as(&slow));
    }
}
