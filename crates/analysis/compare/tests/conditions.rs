//! Conditions on comparisons of synthetic runs.

mod made_up;

use compare::condition::{Condition, ConditionOutcome, Kind};
use compare::{CompareOptions, Comparison, RunStats, Runs, compare};
use made_up::{Chance, done, failed, info, text};
use run::{Execution, StatementStatistics};
use sql::Fingerprint;

/// Creates 60 s of traffic of three statements with about 1 ms, 0.2 ms and 5 ms times a factor
/// each; a fourth has four calls, and a fifth is in this run only if `alone` is given.
fn traffic(seed: u64, factors: [f64; 3], alone: Option<u64>) -> Vec<Execution> {
    let mut chance = Chance::new(seed);
    let mut executions = Vec::new();
    for number in 0..6_000u64 {
        let which = (number % 3) as usize;
        let service_ns = [1e6, 2e5, 5e6][which] * factors[which] * chance.skewed();
        let due_ns = number as i64 * 10_000_000;
        executions.push(done(which as u64 + 1, number, due_ns, service_ns));
        if number % 1_500 == 0 {
            executions.push(done(4, 10_000 + number, due_ns, 1e6 * number as f64));
            executions.extend(alone.map(|id| done(id, 20_000 + number, due_ns, 1e6)));
        }
    }
    executions
}

/// Creates a run in which an execution of the second statement takes this number of blocks.
fn profile(executions: Vec<Execution>, blocks: u64) -> RunStats {
    let texts = (1..=6).map(|id| Ok(text(id, &format!("select {id} from t where id = $1"))));
    let mut run = RunStats::collect::<()>(info(), executions.into_iter().map(Ok), texts).unwrap();
    let work = StatementStatistics {
        fingerprint: Some(Fingerprint(2)),
        calls: 2_000,
        exec_ns: 4_000_000 * blocks,
        shared_hit: 2_000 * blocks,
        ..StatementStatistics::default()
    };
    run.add_statistics([Ok::<_, ()>(work)]).unwrap();
    run
}

fn compared(before: Vec<Execution>, after: Vec<Execution>) -> Comparison {
    let runs = Runs {
        before: vec![profile(before, 100)],
        after: vec![profile(after, 200)],
        noise: Vec::new(),
    };
    compare(runs, CompareOptions::default())
}

/// The second statement takes twice the time, one fails that did not, and one is new.
fn changed() -> Comparison {
    let mut after = traffic(2, [1.0, 2.0, 1.0], Some(5));
    after[7] = failed(&after[7], "42P01", 1e5);
    compared(traffic(1, [1.0; 3], Some(6)), after)
}

fn check(condition: &str, comparison: &Comparison) -> ConditionOutcome {
    let condition = Condition::parse(condition).unwrap_or_else(|error| panic!("{error}"));
    condition.check(comparison)
}

/// Returns the numbers of the statements for which the condition holds.
fn held(condition: &str, comparison: &Comparison) -> Vec<u64> {
    let outcome = check(condition, comparison);
    let statements = outcome.statements.iter();
    let mut found: Vec<u64> = statements.map(|held| held.fingerprint.0).collect();
    assert_eq!(outcome.holds, !found.is_empty(), "{condition}");
    found.sort_unstable();
    found
}

#[test]
fn statement_conditions_are_checked_for_each_statement() {
    let comparison = changed();
    for (condition, statements) in [
        ("median > 1.5x", vec![2]),
        ("median > 50%", vec![2]),
        ("median.low > 1.5x", vec![2]),
        ("median.high > 2.5x", vec![]),
        ("p99 > 1.5x and calls > 100", vec![2]),
        ("p99 > 1.5x and calls > 100000", vec![]),
        ("p95 > 1.5x", vec![2]),
        ("mean > 3ms and calls > 100", vec![3]),
        (
            "before.median > 0.9ms and before.median < 1100us and calls > 0",
            vec![1],
        ),
        ("total > 9s", vec![3]),
        ("added > 100ms", vec![2]),
        ("added < 1s and added > 0.1 s", vec![2]),
        ("failures > 0", vec![3]),
        ("failure_rate > 0.01%", vec![3]),
        ("failure_rate > 1%", vec![]),
        ("before.failures > 0", vec![]),
        ("calls = 4 and before.calls = 0", vec![5]),
        ("calls = 0", vec![6]),
        ("regressed", vec![2]),
        ("sql ~ 'SELECT 3  from' and class = select", vec![3]),
        ("sql !~ 'select 3' and calls > 1000", vec![1, 2]),
        ("class != 'select'", vec![]),
        ("fingerprint = '0000000000000003'", vec![3]),
        ("not sql ~ 'select'", vec![]),
        ("max > 4s and calls < 20", vec![4]),
    ] {
        assert_eq!(held(condition, &comparison), statements, "{condition}");
    }
    let outcome = check("median > 1.5x and calls > 100", &comparison);
    let measured = &outcome.statements[0].measured;
    assert_eq!(measured.len(), 2);
    assert_eq!(
        (measured[0].quantity.as_str(), measured[0].unit),
        ("median", Kind::Ratio)
    );
    let ratio = measured[0].value.unwrap();
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
    assert_eq!(
        (measured[1].quantity.as_str(), measured[1].value),
        ("calls", Some(2_000.0))
    );
}

#[test]
fn whole_conditions_are_checked_once() {
    let comparison = changed();
    for (condition, holds) in [
        ("regression", true),
        ("not regression", false),
        ("slower = 1", true),
        ("slower > 3", false),
        ("faster", false),
        ("new_errors", true),
        ("new_errors > 1", false),
        ("gone_errors or more_errors", false),
        ("errors > 5", false),
        ("after.errors = 1 and before.errors = 0", true),
        ("all.failures = 1 and all.calls = 6008", true),
        ("all.p95 > 1.1x", false),
        ("all.total > 9s and all.median < 3ms", true),
        ("all.added > 100ms", true),
        ("response.p95 > 1.1x or response.low.median > 1.1x", false),
        ("response.median > 100us and response.before.max > 1s", true),
        ("rows_differ > 0", false),
        ("throughput < 0.9x", false),
        ("throughput > 99 and before.throughput < 101", true),
        ("elapsed > 59s and elapsed < 1.1x", true),
    ] {
        let outcome = check(condition, &comparison);
        assert_eq!(
            (outcome.holds, outcome.unknown, outcome.statements_checked),
            (holds, 0, None),
            "{condition}"
        );
        assert!(outcome.statements.is_empty());
        assert!(holds || outcome.measured.is_empty());
    }
    // If a test of the whole decides, no statement is named.
    let outcome = check("new_errors or median > 1.5x", &comparison);
    assert_eq!((outcome.holds, outcome.statements.len()), (true, 0));
    let measured = outcome.measured;
    assert_eq!((measured.len(), measured[0].value), (1, Some(1.0)));
    let outcome = check("new_errors and median > 1.5x", &comparison);
    assert_eq!((outcome.measured.len(), outcome.statements.len()), (0, 1));
}

#[test]
fn unknown_quantities_never_hold_and_are_counted() {
    let comparison = changed();
    let outcome = check("median > 0.1x", &comparison);
    assert_eq!(held("median > 0.1x", &comparison), [1, 2, 3]);
    assert_eq!((outcome.statements_checked, outcome.unknown), (Some(6), 3));
    // Its negation is unknown as well.
    let outcome = check("not median > 1.5x", &comparison);
    assert_eq!(held("not median > 1.5x", &comparison), [1, 3]);
    assert_eq!(outcome.unknown, 3);
    // A test that decides alone needs no ratio.
    assert_eq!(
        check("median > 0.1x and calls > 100", &comparison).unknown,
        0
    );
    assert_eq!(check("median > 9x or calls = 4", &comparison).unknown, 1);
    // With too few calls for an interval of the tail there is no ratio of it.
    let short = |seed| {
        traffic(seed, [1.0; 3], None)
            .into_iter()
            .take(1_500)
            .collect()
    };
    let comparison = compared(short(1), short(2));
    assert_eq!(
        check("p99 > 0.1x", &comparison).unknown,
        comparison.statements.len()
    );
    assert_eq!(check("connects.p99 > 2x", &comparison).unknown, 1);
    assert_eq!(check("digests_differ", &comparison).unknown, 1);
    let nothing = compared(Vec::new(), Vec::new());
    for condition in [
        "regression",
        "all.median > 1x",
        "throughput < 1x",
        "rows_differ",
    ] {
        let outcome = check(condition, &nothing);
        assert_eq!((outcome.holds, outcome.unknown), (false, 1), "{condition}");
    }
    let outcome = check("median > 1x", &nothing);
    assert_eq!(
        (outcome.holds, outcome.statements_checked, outcome.unknown),
        (false, Some(0), 0)
    );
}

#[test]
fn divergence_counts_what_ended_otherwise_than_captured() {
    let captured = |mut executions: Vec<Execution>| {
        for one in &mut executions {
            one.captured.rows = Some(one.rows);
        }
        executions
    };
    let before = captured(traffic(1, [1.0; 3], None));
    let mut after = captured(traffic(2, [1.0; 3], None));
    let code = workload::Sqlstate(*b"23505");
    // New error; the same error as captured; another one; one that is gone; other rows. A statement that was
    // refused since its transaction had failed follows from another.
    after[1] = failed(&after[1], "23505", 1e5);
    for at in [2, 3, 4] {
        after[at].captured.sqlstate = Some(code);
        after[at].captured.rows = None;
    }
    after[2] = failed(&after[2], "23505", 1e5);
    after[3] = failed(&after[3], "23503", 1e5);
    after[5].captured.rows = Some(after[5].rows + 1);
    after[6] = failed(&after[6], "25P02", 1e5);
    let comparison = compared(before, after);
    assert_eq!(comparison.after.diverged, 4);
    for (condition, holds) in [
        ("divergence", true),
        ("divergence = 4", true),
        ("before.divergence", false),
        ("divergence > 0.05%", true),
        ("divergence > 1%", false),
    ] {
        assert_eq!(check(condition, &comparison).holds, holds, "{condition}");
    }
}
