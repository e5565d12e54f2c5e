//! Pairs of synthetic runs with known differences and known noise.

#![allow(dead_code)] // the tests and the example use a part of it each

use compare::{CompareOptions, Comparison, Finding, RunStats, Runs, compare};
use run::Execution;

use crate::made_up::{Chance, done, info, text};

/// Default number of statements of a workload.
pub const STATEMENTS: u64 = 200;
/// Number of the statement that changes, if one does.
pub const CHANGED: u64 = 22;
/// Number of the unsteady statement, if there is one.
const UNSTEADY: u64 = 31;
const SPAN_NS: i64 = 60_000_000_000;

/// Differences of the runs after, and noise of all runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Truth {
    /// Factor on every call of the changed statement; 0 is 1.
    pub factor: f64,
    /// Factor on one in fifty calls of the changed statement; 0 is 1.
    pub tail: f64,
    /// Factor that the changed statement reaches in the course of the run after; 0 is 1.
    pub grows_to: f64,
    /// Factor that all statements reach in the course of every run; 0 is 1.
    pub all_grow_to: f64,
    /// Whether statements have few calls.
    pub few_calls: bool,
    /// Maximum factor on all calls during disturbances of several seconds, at different times in
    /// each run; 0 is 1.
    pub disturbed: f64,
    /// Standard deviation of the logarithm by which runs of the same server differ as a whole, and
    /// each statement separately.
    pub between_runs: f64,
    /// Standard deviation of the logarithm by which one unchanged statement differs from run to
    /// run: its plan flips, for example.
    pub unsteady: f64,
    /// Whether the changed statement has only 25 calls, in ten stretches.
    pub clustered: bool,
    /// Runs on each side; 0 is 1.
    pub runs: usize,
    /// Factor after on every call of all other statements; 0 is 1.
    pub others: f64,
    /// Statements of the workload; 0 is [`STATEMENTS`].
    pub statements: u64,
}

fn or_one(factor: f64) -> f64 {
    if factor == 0.0 { 1.0 } else { factor }
}

/// Returns the number of calls of a statement: some have many, most have few.
fn calls_of(statement: u64, truth: &Truth) -> u64 {
    if truth.few_calls {
        return 20 + statement % 20;
    }
    match statement {
        CHANGED if truth.clustered => 25,
        CHANGED => 1_200,
        _ if statement.is_multiple_of(50) => 1_200,
        _ => 60 + (statement * 7) % 200,
    }
}

/// Creates one run. The workload (calls, times and expensive parameters) is the same for all runs
/// of a repetition; each run adds noise.
fn executions(truth: &Truth, workload: u64, seed: u64, after: bool) -> Vec<Execution> {
    let mut parameters = Chance::new(workload);
    let mut noise = Chance::new(seed ^ 0x00c0_ffee);
    let normal = |chance: &mut Chance| (0..12).map(|_| chance.uniform()).sum::<f64>() - 6.0;
    // Six disturbances of one to five seconds.
    let disturbances: Vec<(f64, f64)> = (0..6)
        .map(|_| {
            let start = noise.uniform();
            (start, start + (1.0 + 4.0 * noise.uniform()) / 60.0)
        })
        .collect();
    let shift = truth.between_runs * normal(&mut noise);
    let mut found = Vec::new();
    let statements = if truth.statements == 0 {
        STATEMENTS
    } else {
        truth.statements
    };
    for statement in 0..statements {
        let unsteady = if statement == UNSTEADY {
            truth.unsteady
        } else {
            0.0
        };
        let own = truth.between_runs.hypot(unsteady) * normal(&mut noise);
        let middle_ns = 1e5 * (1.0 + (statement % 30) as f64);
        let spread = 0.2 + 0.8 * ((statement % 9) as f64 / 8.0);
        let calls = calls_of(statement, truth);
        let changed = after && statement == CHANGED;
        for number in 0..calls {
            let mut place = (number as f64 + parameters.uniform()) / calls as f64;
            if truth.clustered && statement == CHANGED {
                place = (place * 10.0).floor() / 10.0 + 0.001;
            }
            let dear = parameters.uniform() < 0.1;
            let mut log = shift + own + spread * normal(&mut noise);
            if dear {
                log += 1.0;
            }
            let mut factor = 1.0 + (or_one(truth.all_grow_to) - 1.0) * place;
            if disturbances
                .iter()
                .any(|(start, end)| (*start..*end).contains(&place))
            {
                factor *= or_one(truth.disturbed);
            }
            if after && !changed {
                factor *= or_one(truth.others);
            }
            if changed {
                factor *= or_one(truth.factor) * (1.0 + (or_one(truth.grows_to) - 1.0) * place);
                if noise.uniform() < 0.02 {
                    factor *= or_one(truth.tail);
                }
            }
            let due_ns = (place * SPAN_NS as f64) as i64;
            let service_ns = middle_ns * factor * log.exp();
            found.push(done(statement + 1, number, due_ns, service_ns));
        }
    }
    found.sort_by_key(|one| one.done_ns);
    found
}

fn profile(executions: Vec<Execution>) -> RunStats {
    let texts = (1..=STATEMENTS).map(|id| Ok(text(id, &format!("select {id}"))));
    RunStats::collect::<()>(info(), executions.into_iter().map(Ok), texts).unwrap()
}

/// Returns the total response time of each run of one side, as a proof reads it.
pub fn totals(truth: &Truth, repetition: u64, after: bool) -> Vec<f64> {
    let total = |run: u64| {
        let seed = repetition * 1_000 + run * 2 + u64::from(after);
        let executions = executions(truth, repetition, seed, after);
        let response = executions.iter().filter_map(Execution::response_ns);
        response.map(|ns| ns as f64).sum::<f64>()
    };
    (0..truth.runs.max(1) as u64).map(total).collect()
}

/// Compares the runs of a repetition.
pub fn compared(truth: &Truth, repetition: u64, margin: f64) -> Comparison {
    let runs = truth.runs.max(1) as u64;
    let side = |after: bool| -> Vec<RunStats> {
        (0..runs)
            .map(|run| {
                let seed = repetition * 1_000 + run * 2 + u64::from(after);
                profile(executions(truth, repetition, seed, after))
            })
            .collect()
    };
    let runs = Runs {
        before: side(false),
        after: side(true),
        noise: Vec::new(),
    };
    let options = CompareOptions {
        margin,
        ..CompareOptions::default()
    };
    compare(runs, options)
}

/// Correct and wrong findings of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallCounts {
    /// Statements called slower or faster that are neither.
    pub wrong: usize,
    /// Whether the changed statement was called slower.
    pub found: bool,
    /// Whether all statements together, or opening connections, were called slower or faster.
    pub as_a_whole: bool,
}

/// Compares the findings with the truth.
pub fn count_calls(comparison: &Comparison) -> CallCounts {
    let differs = |finding| matches!(finding, Finding::Slower { .. } | Finding::Faster { .. });
    let statements = || comparison.statements.iter();
    let is_changed = |fingerprint: u64| fingerprint == CHANGED + 1;
    CallCounts {
        wrong: statements()
            .filter(|one| !is_changed(one.fingerprint.0) && differs(one.service.finding))
            .count(),
        found: statements().any(|one| {
            is_changed(one.fingerprint.0) && matches!(one.service.finding, Finding::Slower { .. })
        }),
        as_a_whole: differs(comparison.all.finding),
    }
}
