//! Comparison of synthetic runs.

mod made_up;

use compare::{
    CompareOptions, Comparison, Finding, InconclusiveReason, InsufficientData, NoiseSource,
    RunStats, Runs, Side, StatementChange, Verdict, Warning, WhichRun, compare,
};
use made_up::{Chance, done, failed, info, skipped, text};
use run::{Execution, RunInfo, RunStatus, SkipReason};
use statistics::Measure;

/// Creates 60 s of traffic of three statements, whose median times are 1 ms, 0.2 ms and 5 ms times
/// the given factors.
fn traffic(seed: u64, factors: [f64; 3]) -> Vec<Execution> {
    let mut chance = Chance::new(seed);
    let mut executions = Vec::new();
    for number in 0..6_000u64 {
        let which = (number % 3) as usize;
        let middle_ns = [1e6, 2e5, 5e6][which] * factors[which];
        let service_ns = middle_ns * chance.skewed();
        executions.push(done(
            which as u64 + 1,
            number,
            number as i64 * 10_000_000,
            service_ns,
        ));
    }
    executions
}

fn profile(info: RunInfo, executions: Vec<Execution>) -> RunStats {
    let texts = (1..=3).map(|id| Ok(text(id, &format!("select {id} from t where id = $1"))));
    RunStats::collect::<()>(info, executions.into_iter().map(Ok), texts).unwrap()
}

fn one_each(before: RunStats, after: RunStats) -> Runs {
    Runs {
        before: vec![before],
        after: vec![after],
        noise: Vec::new(),
    }
}

fn compared(before: Vec<Execution>, after: Vec<Execution>) -> Comparison {
    compare(
        one_each(profile(info(), before), profile(info(), after)),
        CompareOptions::default(),
    )
}

#[test]
fn equal_runs_compare_as_the_same() {
    let comparison = compared(traffic(1, [1.0; 3]), traffic(2, [1.0; 3]));
    assert_eq!(comparison.verdict, Verdict::NoRegression { faster: 0 });
    assert!(!comparison.has_regression());
    assert!(comparison.paired);
    assert_eq!(comparison.warnings, []);
    assert_eq!(comparison.errors, []);
    assert!(
        comparison
            .statements
            .iter()
            .all(|one| one.service.finding == Finding::Same)
    );
}

#[test]
fn equal_runs_rarely_give_findings() {
    let mut alarms = 0;
    for seed in 0..20 {
        let comparison = compared(traffic(2 * seed, [1.0; 3]), traffic(2 * seed + 1, [1.0; 3]));
        alarms += u32::from(comparison.verdict != Verdict::NoRegression { faster: 0 });
    }
    assert_eq!(alarms, 0);
}

#[test]
fn slower_statement_is_listed_first_with_its_sql() {
    let comparison = compared(traffic(1, [1.0; 3]), traffic(2, [1.0, 4.0, 1.0]));
    // One run a side without the server's statistics proves nothing, and names it all the same.
    assert_eq!(
        comparison.verdict,
        Verdict::Inconclusive {
            reason: InconclusiveReason::Suspects,
            suspects: 1,
            along: 0
        }
    );
    let worst = &comparison.statements[0];
    assert_eq!(worst.fingerprint.0, 2);
    assert_eq!(worst.sql.as_deref(), Some("select 2 from t where id = $1"));
    assert_eq!(
        worst.service.finding,
        Finding::Slower {
            measure: Measure::Median
        }
    );
    assert!(worst.change.is_suspected());
    let median = worst.service.median_ratio.unwrap();
    let interval = median.interval.unwrap();
    assert!(interval.low < 4.0 && 4.0 < interval.high, "{median:?}");
    // 2,000 calls, each about 0.6 ms longer (times the mean of the skew, which is above its
    // median).
    let added_ns = worst.service.added_ns.unwrap();
    assert!((1.2e9..1.5e9).contains(&added_ns), "{added_ns}");
}

#[test]
fn swapped_runs_give_inverse_findings() {
    let (one, other) = (traffic(1, [1.0; 3]), traffic(2, [0.5, 4.0, 1.0]));
    let there = compared(one.clone(), other.clone());
    let back = compared(other, one);
    for forth in &there.statements {
        let found = back
            .statements
            .iter()
            .find(|one| one.fingerprint == forth.fingerprint);
        let found = found.unwrap();
        for (a, b) in [
            (forth.service.median_ratio, found.service.median_ratio),
            (forth.service.mean_ratio, found.service.mean_ratio),
            (forth.service.p99_ratio, found.service.p99_ratio),
        ] {
            let (a, b) = (a.unwrap(), b.unwrap());
            assert!((a.value * b.value - 1.0).abs() < 1e-9);
            let (a, b) = (a.interval.unwrap(), b.interval.unwrap());
            assert!((a.low * b.high - 1.0).abs() < 1e-9);
            assert!((a.high * b.low - 1.0).abs() < 1e-9);
        }
        let turned = match forth.service.finding {
            Finding::Slower { measure } => Finding::Faster { measure },
            Finding::Faster { measure } => Finding::Slower { measure },
            other => other,
        };
        assert_eq!(found.service.finding, turned);
    }
}

#[test]
fn slower_tail_alone_is_found() {
    let calls = |seed, tail_factor: f64| -> Vec<Execution> {
        let mut chance = Chance::new(seed);
        (0..6_000)
            .map(|number| {
                let slow = if number % 50 == 7 { tail_factor } else { 1.0 };
                done(
                    1,
                    number,
                    number as i64 * 10_000_000,
                    1e6 * slow * chance.skewed(),
                )
            })
            .collect()
    };
    let comparison = compared(calls(1, 1.0), calls(2, 6.0));
    assert_eq!(
        comparison.statements[0].service.finding,
        Finding::Slower {
            measure: Measure::P99
        }
    );
    assert!(comparison.statements[0].change.is_suspected());
}

#[test]
fn slower_statement_without_cost_is_no_regression() {
    let mut before = traffic(1, [1.0; 3]);
    let mut after = traffic(2, [1.0; 3]);
    for number in 0..100u64 {
        let due_ns = number as i64 * 600_000_000;
        before.push(done(9, number, due_ns, 5_000.0));
        after.push(done(9, number, due_ns, 10_000.0));
    }
    let comparison = compared(before, after);
    let tiny = comparison
        .statements
        .iter()
        .find(|one| one.fingerprint.0 == 9)
        .unwrap();
    assert_eq!(
        tiny.service.finding,
        Finding::Slower {
            measure: Measure::Median
        }
    );
    assert_eq!(tiny.change, StatementChange::None);
    assert!(!comparison.has_regression());
}

#[test]
fn too_few_calls_are_insufficient_data() {
    let few = |count: u64, step_ns: i64| -> Vec<Execution> {
        (0..count)
            .map(|number| done(1, number, number as i64 * step_ns, 1e6))
            .collect()
    };
    let finding = |before, after| compared(before, after).statements[0].service.finding;
    let lack = |reason| Finding::InsufficientData { reason };
    assert_eq!(
        finding(few(19, 1_000_000_000), few(500, 1_000_000_000)),
        lack(InsufficientData::FewCalls)
    );
    assert_eq!(
        finding(few(0, 1), few(500, 1_000_000_000)),
        lack(InsufficientData::OneSided)
    );
    assert_eq!(
        finding(few(500, 1), few(500, 1)),
        lack(InsufficientData::FewStretches)
    );
    let nothing = Verdict::Inconclusive {
        reason: InconclusiveReason::TooLittleData,
        suspects: 0,
        along: 0,
    };
    assert_eq!(compared(vec![], vec![]).verdict, nothing);
    assert_eq!(compared(vec![], vec![]).all.median_ratio, None);
}

#[test]
fn new_errors_are_a_regression_and_failed_calls_no_improvement() {
    let before = traffic(1, [1.0; 3]);
    let mut after = traffic(2, [1.0; 3]);
    for execution in after
        .iter_mut()
        .filter(|one| one.fingerprint.unwrap().0 == 3)
    {
        *execution = failed(execution, "42P01", 1_000.0);
    }
    let comparison = compared(before, after);
    assert!(comparison.has_regression());
    let change = &comparison.errors[0];
    assert_eq!(
        (change.before, change.after, change.captured),
        (0, 2_000, 0)
    );
    assert_eq!(change.message.as_deref(), Some("it failed with #P0#"));
    assert_eq!(change.sql.as_deref(), Some("select 3 from t where id = $1"));
    let broken = comparison
        .statements
        .iter()
        .find(|one| one.fingerprint.0 == 3)
        .unwrap();
    assert_eq!(
        broken.service.finding,
        Finding::InsufficientData {
            reason: InsufficientData::OneSided
        }
    );
    assert_eq!((broken.calls_before, broken.calls_after), (2_000, 2_000));
    assert_eq!((broken.errors_before, broken.errors_after), (0, 2_000));
}

#[test]
fn captured_errors_are_no_change() {
    let mut before = traffic(1, [1.0; 3]);
    for execution in before.iter_mut().step_by(10) {
        *execution = failed(execution, "23505", 1_000.0);
        execution.captured.sqlstate = workload::Sqlstate::parse("23505");
    }
    let comparison = compared(before.clone(), before);
    assert_eq!(comparison.errors, []);
    assert!(!comparison.has_regression());
}

#[test]
fn statements_of_one_run_do_not_slow_the_whole() {
    // The cheap statements fail after: the mean of the others is higher, no time is.
    let mut after = traffic(2, [1.0; 3]);
    for execution in after
        .iter_mut()
        .filter(|one| one.fingerprint.unwrap().0 != 3)
    {
        *execution = failed(execution, "42P01", 1_000.0);
    }
    let comparison = compared(traffic(1, [1.0; 3]), after);
    let expected = Verdict::Regression {
        causes: 0,
        along: 0,
        errors: 2,
        overall: false,
    };
    assert_eq!(comparison.verdict, expected);
    let slower = compared(traffic(1, [1.0; 3]), traffic(2, [1.5; 3]));
    let expected = Verdict::Inconclusive {
        reason: InconclusiveReason::RunAsAWhole,
        suspects: 3,
        along: 0,
    };
    assert_eq!(slower.verdict, expected);
}

#[test]
fn counts_add_up() {
    let mut after = traffic(2, [1.0; 3]);
    after[0] = failed(&after[0], "57014", 5e6);
    after[1] = skipped(&after[1], SkipReason::NoConnection);
    let comparison = compared(traffic(1, [1.0; 3]), after);
    let facts = &comparison.after;
    assert_eq!((facts.done, facts.failed, facts.skipped), (5_998, 1, 1));
    let calls: u64 = comparison
        .statements
        .iter()
        .map(|one| one.calls_after)
        .sum();
    let skipped: u64 = comparison
        .statements
        .iter()
        .map(|one| one.skipped_after)
        .sum();
    assert_eq!((calls, skipped), (5_999, 1));
    assert_eq!(comparison.all.after.unwrap().count, 5_998);
}

#[test]
fn doubtful_comparisons_have_warnings() {
    let mut before_info = info();
    before_info.status = RunStatus::Stopped;
    let mut after_info = info();
    after_info.workload.id = "another".to_owned();
    after_info.workload.name = "other.workload".to_owned();
    after_info
        .options
        .insert("speed".to_owned(), "2".to_owned());
    after_info.elapsed_ns += 10_000_000_000;
    let mut after = traffic(2, [1.0; 3]);
    for execution in &mut after {
        execution.due_ns -= 5_000_000;
    }
    after[5] = skipped(&after[5], SkipReason::NoConnection);
    let comparison = compare(
        one_each(
            profile(before_info, traffic(1, [1.0; 3])),
            profile(after_info, after),
        ),
        CompareOptions::default(),
    );
    assert!(!comparison.paired);
    let name = |warning: &Warning| {
        let json = serde_json::to_value(warning).unwrap();
        json["warning"].as_str().unwrap().to_owned()
    };
    let names: Vec<String> = comparison.warnings.iter().map(name).collect();
    assert_eq!(
        names,
        [
            "different_workloads",
            "speeds_differ",
            "partial",
            "tool_lag_high",
            "fell_behind",
            "no_connection",
            "skipped_differ"
        ]
    );
    assert!(comparison.warnings.contains(&Warning::NoConnection {
        run: WhichRun {
            side: Side::After,
            number: None
        },
        statements: 1
    }));
    let few = compared(
        traffic(1, [1.0; 3])[..150].to_vec(),
        traffic(2, [1.0; 3])[..150].to_vec(),
    );
    assert_eq!(few.warnings, [Warning::FewStatements { statements: 150 }]);
}

#[test]
fn runs_not_in_turns_have_a_warning() {
    let at = |minute: i64| {
        let mut info = info();
        info.started_wall_us = minute * 60_000_000;
        profile(info, traffic(minute as u64 + 1, [1.0; 3]))
    };
    let warnings = |before: &[i64], after: &[i64]| {
        let runs = Runs {
            before: before.iter().map(|minute| at(*minute)).collect(),
            after: after.iter().map(|minute| at(*minute)).collect(),
            noise: Vec::new(),
        };
        compare(runs, CompareOptions::default()).warnings
    };
    let told = |first| [Warning::NotInTurns { first }];
    assert_eq!(warnings(&[0, 1], &[2, 3]), told(Side::Before));
    assert_eq!(warnings(&[2, 3], &[0, 1]), told(Side::After));
    assert_eq!(warnings(&[0, 3], &[1, 2]), []);
    assert_eq!(warnings(&[0, 2], &[1, 3]), []);
    // With one run on each side it is unavoidable.
    assert_eq!(warnings(&[0], &[1]), []);
}

#[test]
fn threads_do_not_change_the_result() {
    let (before, after) = (traffic(1, [1.0; 3]), traffic(2, [1.5, 1.0, 0.4]));
    let with = |threads| {
        let options = CompareOptions {
            threads,
            ..CompareOptions::default()
        };
        compare(
            one_each(
                profile(info(), before.clone()),
                profile(info(), after.clone()),
            ),
            options,
        )
    };
    assert_eq!(with(0), with(3));
}

#[test]
fn reader_error_is_returned() {
    let broken = vec![Ok(done(1, 0, 0, 1.0)), Err("the file ends early")];
    let result = RunStats::collect(info(), broken, Vec::new());
    assert_eq!(result.err(), Some("the file ends early"));
}

/// Creates a run of [`traffic`] that is slower as a whole by a factor.
fn run_of(seed: u64, whole: f64, factors: [f64; 3]) -> RunStats {
    profile(info(), traffic(seed, factors.map(|factor| factor * whole)))
}

#[test]
fn differences_between_runs_widen_intervals() {
    let several = |factor: f64| {
        let runs = Runs {
            before: vec![run_of(1, 1.0, [1.0; 3]), run_of(2, 1.3, [1.0; 3])],
            after: vec![
                run_of(3, 1.15, [factor, 1.0, 1.0]),
                run_of(4, 1.4, [factor, 1.0, 1.0]),
            ],
            noise: Vec::new(),
        };
        compare(runs, CompareOptions::default())
    };
    let same = several(1.0);
    let noise = same.noise.as_ref().unwrap();
    assert_eq!(noise.source, NoiseSource::Repeats);
    assert!((0.05..0.35).contains(&noise.median), "{noise:?}");
    // With one run on each side these statements look slower: 1.4 to 1.
    let alone = compare(
        one_each(run_of(1, 1.0, [1.0; 3]), run_of(4, 1.4, [1.0; 3])),
        CompareOptions::default(),
    );
    assert_eq!(alone.suspected(), 3);
    assert!(!alone.has_regression(), "{:?}", alone.verdict);
    assert_eq!(alone.noise, None);
    assert!(!same.has_regression(), "{:?}", same.verdict);
    assert!(several(30.0).has_regression());
    // Both runs of a side are in its counts.
    assert_eq!(same.before.runs.len(), 2);
    assert_eq!(same.before.done, 12_000);
    assert_eq!(same.statements[0].calls_before, 4_000);
    assert_eq!(same.statements[0].service.before.unwrap().count, 4_000);
}

#[test]
fn given_noise_raises_the_margin() {
    let with_noise = |noise: Vec<RunStats>| {
        let runs = Runs {
            noise,
            ..one_each(run_of(1, 1.0, [1.0; 3]), run_of(2, 1.25, [1.0; 3]))
        };
        compare(runs, CompareOptions::default())
    };
    assert_eq!(with_noise(Vec::new()).suspected(), 3);
    let comparison = with_noise(vec![run_of(3, 1.0, [1.0; 3]), run_of(4, 1.4, [1.0; 3])]);
    let noise = comparison.noise.as_ref().unwrap();
    assert_eq!(noise.source, NoiseSource::Given);
    assert!((0.3..0.4).contains(&noise.median), "{noise:?}");
    assert!(!comparison.has_regression(), "{:?}", comparison.verdict);
    let quiet = with_noise(vec![run_of(3, 1.0, [1.0; 3]), run_of(4, 1.0, [1.0; 3])]);
    assert!(quiet.noise.as_ref().unwrap().median < 0.02);
    assert!(quiet.has_regression());
}

#[test]
fn rows_that_differ_within_a_side_are_unsteady() {
    let with_rows = |rows: u64| {
        let mut executions = traffic(1, [1.0; 3]);
        executions[0].rows = rows;
        profile(info(), executions)
    };
    let compared = |before: [u64; 2], after: [u64; 2]| {
        let runs = Runs {
            before: before.map(with_rows).into(),
            after: after.map(with_rows).into(),
            noise: Vec::new(),
        };
        compare(runs, CompareOptions::default()).rows.changes
    };
    assert_eq!(compared([1, 1], [1, 1]), []);
    let steady = compared([1, 1], [5, 5]);
    assert!(!steady[0].unsteady, "{steady:?}");
    let unsteady = compared([1, 2], [5, 5]);
    assert!(unsteady[0].unsteady, "{unsteady:?}");
}

#[test]
fn chart_data_adds_up_to_the_totals() {
    let mut after = traffic(2, [1.0, 2.0, 1.0]);
    after[5] = failed(&after[5], "57014", 5e6);
    let comparison = compared(traffic(1, [1.0; 3]), after);
    let over_time = &comparison.over_time;
    assert_eq!(over_time.before.len(), over_time.after.len());
    let sum = |side: &[compare::SideStretch]| -> (u64, u64, u64) {
        side.iter()
            .fold((0, 0, 0), |(sent, failed, done), stretch| {
                let times = stretch.service.map_or(0, |times| times.count);
                (sent + stretch.sent, failed + stretch.failed, done + times)
            })
    };
    assert_eq!(sum(&over_time.before), (6_000, 0, 6_000));
    assert_eq!(sum(&over_time.after), (6_000, 1, 5_999));
    assert!(over_time.width_ns * over_time.before.len() as u64 >= 60_000_000_000);
    for statement in &comparison.statements {
        let details = statement.details.as_ref().unwrap();
        let count = |bins: &[u64]| bins.iter().sum::<u64>();
        let done = |side: Option<statistics::LatencySummary>| side.unwrap().count;
        assert_eq!(count(&details.bins_before), done(statement.service.before));
        assert_eq!(count(&details.bins_after), done(statement.service.after));
        assert_eq!(details.medians_after_ns.len(), over_time.after.len());
        let slowest = details.slowest_after[0];
        assert_eq!(
            slowest.service_ns as u64,
            statement.service.after.unwrap().max_ns
        );
        assert!(slowest.response_ns >= slowest.service_ns);
    }
    // Response time is service time plus the 50 µs of tool lag.
    let (service, response) = (
        comparison.all.after.unwrap(),
        comparison.response.after.unwrap(),
    );
    assert_eq!(service.count, response.count);
    assert!(response.p50_ns >= service.p50_ns + 45_000);
}
