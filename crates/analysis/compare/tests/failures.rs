//! Failures: races, consequences of earlier failures, and copies of another moment.

mod made_up;

use compare::targets::{IndexDifference, ObjectDifference, Presence, TargetsComparison};
use compare::{
    CompareOptions, Comparison, ErrorDirection, ErrorOrigin, InconclusiveReason, RunStats, Runs,
    Verdict, Warning, compare,
};
use made_up::{done, failed, info, text};
use run::Execution;
use sql::StatementClass;
use workload::{Sqlstate, StatementText};

const CALLS: u64 = 2_000;

/// Creates executions of statement 1, of which the first ones fail with these codes.
fn failing(codes: &[(&str, u64)]) -> Vec<Execution> {
    let mut executions: Vec<_> = (0..CALLS)
        .map(|number| done(1, number, number as i64 * 10_000_000, 1e6))
        .collect();
    let mut at = executions.iter_mut();
    for (code, count) in codes {
        for execution in at.by_ref().take(*count as usize) {
            *execution = failed(execution, code, 1e6);
        }
    }
    executions
}

fn run(executions: Vec<Execution>, texts: &[StatementText]) -> RunStats {
    let texts = texts.iter().cloned().map(Ok);
    RunStats::collect::<()>(info(), executions.into_iter().map(Ok), texts).unwrap()
}

fn compared(before: Vec<RunStats>, after: Vec<RunStats>) -> Comparison {
    let noise = Vec::new();
    let runs = Runs {
        before,
        after,
        noise,
    };
    compare(runs, CompareOptions::default())
}

fn codes(before: &[(&str, u64)], after: &[(&str, u64)]) -> Comparison {
    let one = |codes| {
        vec![run(
            failing(codes),
            &[text(1, "insert into child values ($1)")],
        )]
    };
    compared(one(before), one(after))
}

fn summary(comparison: &Comparison) -> Vec<(String, ErrorDirection, u64, u64, bool)> {
    let errors = comparison.errors.iter();
    let summary = errors.map(|one| {
        (
            one.sqlstate.to_string(),
            one.direction,
            one.before,
            one.after,
            one.regression,
        )
    });
    summary.collect()
}

#[test]
fn codes_that_trade_places_by_race_are_no_finding() {
    let (one, other) = ([("23503", 40), ("23505", 0)], [("23505", 37), ("23503", 1)]);
    for (before, after) in [(&one[..], &other[..]), (&other[..], &one[..])] {
        let comparison = codes(before, after);
        assert_eq!(summary(&comparison), []);
        assert_eq!(comparison.verdict, Verdict::NoRegression { faster: 0 });
    }
    // A missing table is no race, whatever it replaces.
    let comparison = codes(&[("23505", 40)], &[("42P01", 40)]);
    assert!(comparison.has_regression());
}

#[test]
fn racy_error_within_the_dispersion_is_listed_and_no_regression() {
    let comparison = codes(&[], &[("23505", 3)]);
    let new = ("23505".to_owned(), ErrorDirection::New, 0, 3, false);
    assert_eq!(summary(&comparison), [new]);
    assert_eq!(comparison.verdict, Verdict::NoRegression { faster: 0 });
    assert!(codes(&[], &[("23505", 40)]).has_regression());
    // The runs of a side differ as much.
    let side = |counts: &[u64]| -> Vec<RunStats> {
        let texts = [text(1, "insert into child values ($1)")];
        let one = |count: &u64| run(failing(&[("23505", *count)]), &texts);
        counts.iter().map(one).collect()
    };
    let wild = compared(side(&[2, 60, 20]), side(&[70, 80, 110]));
    assert_eq!(summary(&wild), []);
    let calm = compared(side(&[28, 30, 29]), side(&[70, 80, 75]));
    assert!(calm.has_regression());
}

#[test]
fn failures_that_follow_count_once_at_their_root() {
    let texts = [
        text(1, "insert into parent values ($1)"),
        text(2, "insert into child values ($1)"),
        StatementText {
            class: StatementClass::Ddl,
            ..text(3, "create temp table work (a int)")
        },
        text(4, "select a from work where a = $1"),
    ];
    let session = |number: u64, fails: bool| -> Vec<Execution> {
        let at = |step: u64| {
            let due_ns = (number * 40 + step) as i64 * 1_000_000;
            let fingerprint = [1, 2, 2, 3, 4, 4][step as usize];
            let one = done(fingerprint, step, due_ns, 1e6);
            Execution {
                session: number,
                ..one
            }
        };
        let codes = ["23514", "25P02", "25P02", "42501", "42P01", "42P01"];
        let one = |step: u64| match fails {
            false => at(step),
            true => Execution {
                message: Some("relation \"work\" does not exist".to_owned()),
                ..failed(&at(step), codes[step as usize], 1e6)
            },
        };
        (0..6).map(one).collect()
    };
    let side = |failing: u64| {
        let sessions = (0..100).flat_map(|number| session(number, number < failing));
        vec![run(sessions.collect(), &texts)]
    };
    let comparison = compared(side(0), side(10));
    let new = |code: &str| (code.to_owned(), ErrorDirection::New, 0, 10, true);
    assert_eq!(summary(&comparison), [new("23514"), new("42501")]);
    for one in &comparison.errors {
        assert_eq!((one.following_before, one.following_after), (0, 20));
    }
    let errors = comparison.statements.iter().map(|one| one.errors_after);
    assert_eq!(errors.sum::<u64>(), 60, "the counts of statements have all");
    // The same failures on both sides are nothing.
    assert_eq!(summary(&compared(side(10), side(10))), []);
}

#[test]
fn missing_table_that_nothing_failed_to_create_is_an_error_of_its_own() {
    let missing = |number: u64| {
        let one = done(4, number, number as i64 * 1_000_000, 1e6);
        Execution {
            message: Some("relation \"work\" does not exist".to_owned()),
            ..failed(&one, "42P01", 1e6)
        }
    };
    let exists = Execution {
        session: 3,
        ..failed(&done(3, 0, 0, 1e6), "42P07", 1e6)
    };
    let texts = [
        text(3, "create table work (a int)"),
        text(4, "select a from work where a = $1"),
    ];
    let after = [exists.clone()].into_iter().chain((1..50).map(missing));
    let before = [exists]
        .into_iter()
        .chain((1..50).map(|number| done(4, number, number as i64 * 1_000_000, 1e6)));
    let comparison = compared(
        vec![run(before.collect(), &texts)],
        vec![run(after.collect(), &texts)],
    );
    let new = ("42P01".to_owned(), ErrorDirection::New, 0, 49, true);
    assert_eq!(summary(&comparison), [new]);
}

#[test]
fn new_error_whose_root_was_as_frequent_before_is_counted_itself() {
    let texts = [
        text(1, "insert into t values ($1)"),
        text(2, "select currval($1)"),
    ];
    let run_of = |insert_code: &str, has_value: bool| {
        let executions = (0..50).flat_map(|session| {
            let at = |id: u64| done(id, id, (session * 2 + id) as i64 * 1_000_000, 1e6);
            let currval = Execution {
                message: Some("currval of sequence \"s\" is not yet defined".to_owned()),
                ..failed(&at(2), "55000", 1e6)
            };
            let insert = match insert_code {
                "" => at(1),
                code => failed(&at(1), code, 1e6),
            };
            let currval = if has_value { at(2) } else { currval };
            [insert, currval].map(|one| Execution { session, ..one })
        });
        vec![run(executions.collect(), &texts)]
    };
    let new = |code: &str| (code.to_owned(), ErrorDirection::New, 0, 50, true);
    let comparison = compared(run_of("23505", true), run_of("23505", false));
    assert_eq!(summary(&comparison), [new("55000")]);
    let comparison = compared(run_of("", true), run_of("42501", false));
    assert_eq!(summary(&comparison), [new("42501")]);
}

#[test]
fn key_that_both_targets_have_shows_a_copy_of_another_moment() {
    let judge_with = |targets: TargetsComparison, count: u64| {
        let mut after = failing(&[("23505", count)]);
        for execution in &mut after[..count as usize] {
            let message = "duplicate key value violates unique constraint \"child_pkey\"";
            execution.message = Some(message.to_owned());
        }
        let texts = [text(1, "insert into child values ($1)")];
        let mut comparison = compared(vec![run(failing(&[]), &texts)], vec![run(after, &texts)]);
        comparison.targets = Some(targets);
        comparison.set_plans(|_| None);
        comparison
    };
    let judge = |indexes: Vec<IndexDifference>, count: u64| {
        let targets = TargetsComparison {
            indexes,
            ..TargetsComparison::default()
        };
        judge_with(targets, count)
    };
    let comparison = judge(Vec::new(), 500);
    assert_eq!(comparison.errors[0].origin, ErrorOrigin::OtherMoment);
    let Verdict::Inconclusive { reason, .. } = comparison.verdict else {
        panic!("{:?}", comparison.verdict);
    };
    assert_eq!(reason, InconclusiveReason::RowsOfAnotherMoment);
    // The change may have pointed the key's default at a new sequence.
    let relation = ObjectDifference {
        database: "app".to_owned(),
        name: "public.child".to_owned(),
        presence: Presence::Differs,
        details: Vec::new(),
    };
    let targets = TargetsComparison {
        relations: vec![relation],
        ..TargetsComparison::default()
    };
    let comparison = judge_with(targets, 500);
    let origin = comparison.errors[0].origin;
    assert_eq!(origin, ErrorOrigin::OtherMomentOrConstraint);
    assert!(comparison.has_regression());
    // A single one may be a race.
    let single = judge(Vec::new(), 1);
    assert_eq!(single.verdict, Verdict::NoRegression { faster: 0 });
    // A constraint of the change is its doing, even once.
    let index = IndexDifference {
        database: "app".to_owned(),
        table: "public.child".to_owned(),
        name: "child_pkey".to_owned(),
        renamed: None,
        presence: Presence::OnlyAfter,
        definition: String::new(),
        details: Vec::new(),
    };
    let comparison = judge(vec![index.clone()], 1);
    assert_eq!(comparison.errors[0].origin, ErrorOrigin::NewConstraint);
    assert!(comparison.has_regression());
    // Another schema has an index of this name on both sides.
    let targets = TargetsComparison {
        indexes: vec![index],
        repeated_index_names: ["child_pkey".to_owned()].into(),
        ..TargetsComparison::default()
    };
    let comparison = judge_with(targets, 1);
    let origin = comparison.errors[0].origin;
    assert_eq!(origin, ErrorOrigin::OtherMomentOrConstraint);
    assert!(!comparison.has_regression());
}

#[test]
fn error_of_the_capture_is_not_new() {
    let known = |code: &str| -> Vec<RunStats> {
        let mut executions = failing(&[("23505", 40)]);
        for execution in &mut executions[..40] {
            execution.captured.sqlstate = Sqlstate::parse(code);
        }
        vec![run(executions, &[])]
    };
    let before = || {
        let mut executions = failing(&[]);
        for execution in &mut executions[..40] {
            execution.captured.sqlstate = Sqlstate::parse("23503");
        }
        vec![run(executions, &[])]
    };
    assert_eq!(summary(&compared(before(), known("23503"))), []);
}

#[test]
fn refused_writes_of_a_read_only_run_are_skipped_and_counted() {
    let texts = [
        text(1, "select 1"),
        text(2, "update items set n = n + $1"),
        text(3, "select n from items where id = $1"),
    ];
    let executions = |codes: [Option<&str>; 3]| -> Vec<Execution> {
        (0..3 * CALLS)
            .map(|number| {
                let at = (number % 3) as usize;
                let one = done(at as u64 + 1, number, number as i64 * 5_000_000, 1e6);
                let one = Execution { session: 1, ..one };
                codes[at].map_or_else(|| one.clone(), |code| failed(&one, code, 1e5))
            })
            .collect()
    };
    let compared_with = |codes, mode: Option<&str>| {
        let before = run(executions([None; 3]), &texts);
        let mut info = info();
        let mode = mode.map(|mode| ("read_only".to_owned(), mode.to_owned()));
        info.options.extend(mode);
        let texts = texts.iter().cloned().map(Ok);
        let after = executions(codes).into_iter().map(Ok);
        let after = RunStats::collect::<()>(info, after, texts).unwrap();
        compared(vec![before], vec![after])
    };
    let refused = [None, Some("25006"), Some("25P02")];
    let comparison = compared_with(refused, Some("true"));
    assert_eq!(summary(&comparison), []);
    assert!(!comparison.has_regression());
    assert_eq!(comparison.after.failed, 0);
    assert_eq!(
        (comparison.after.skipped, comparison.after.diverged),
        (2 * CALLS, 0)
    );
    let counted = comparison.warnings.iter().any(|warning| {
        matches!(warning, Warning::RefusedReadOnly { statements, .. } if *statements == 2 * CALLS)
    });
    assert!(counted, "{:?}", comparison.warnings);
    // Without --read-only, a server that refuses writes is a regression. So are other errors with it.
    assert!(compared_with(refused, None).has_regression());
    let lacks_right = [None, Some("42501"), Some("25P02")];
    assert!(compared_with(lacks_right, Some("true")).has_regression());
    // A role without rights to write lacks them.
    let by_role = compared_with(lacks_right, Some("role"));
    assert!(!by_role.has_regression() && by_role.after.failed == 0);
}
