//! Divergence of a replay from its capture, with synthetic executions.

#[path = "../../compare/tests/made_up/mod.rs"]
mod made_up;

use inspect::{DifferenceKind, Divergence, DivergenceFinder, RowsDifference};
use made_up::{connect, done, failed, info, skipped, text};
use proptest::prelude::*;
use run::{Execution, Outcome, SkipReason, StatementKind};
use sql::Fingerprint;
use workload::Literals;
use workload::{Sqlstate, Unreplayable};

fn code(text: &str) -> Sqlstate {
    Sqlstate::parse(text).unwrap()
}

fn found(executions: &[Execution], failures_named: bool) -> Divergence {
    let mut finder = DivergenceFinder::new(failures_named);
    for execution in executions {
        finder.add(execution);
    }
    let texts = [Ok(text(1, "select 1")), Ok(text(2, "insert"))];
    finder
        .finish::<()>(texts, &info(), Literals::Shown)
        .unwrap()
}

/// An execution of statement `fingerprint`, captured as a success, at this sequence of one session.
fn one(fingerprint: u64, sequence: u64) -> Execution {
    Execution {
        session: 7,
        ..done(fingerprint, sequence, 0, 1e6)
    }
}

/// The same execution, captured as a failure.
fn captured(mut execution: Execution, sqlstate: &str) -> Execution {
    execution.captured.sqlstate = Some(code(sqlstate));
    execution.captured.duration_us = None;
    execution
}

fn total(found: &Divergence) -> u64 {
    found.same + found.differing() + found.unknown + found.lost_unsent + found.skipped
}

#[test]
fn each_class_has_its_first_occurrence() {
    let mut more_rows = one(1, 6);
    more_rows.captured.rows = Some(1);
    more_rows.rows = 4;
    let mut fewer_rows = one(1, 7);
    fewer_rows.captured.rows = Some(10);
    fewer_rows.rows = 1;
    let mut same_rows = one(1, 8);
    same_rows.captured.rows = Some(1);
    let found = found(
        &[
            connect(7, 0),
            one(1, 1),
            failed(&one(2, 2), "42703", 1e6),
            failed(&one(2, 3), "42703", 1e6),
            captured(one(2, 4), "23505"),
            failed(&captured(one(2, 5), "23505"), "23503", 1e6),
            more_rows,
            fewer_rows,
            same_rows,
            failed(&captured(one(1, 9), "22012"), "22012", 1e6),
            failed(&captured(one(1, 10), "?????"), "22012", 1e6),
            skipped(
                &one(1, 11),
                SkipReason::Unreplayable(Unreplayable::ParametersCut),
            ),
            failed(&one(1, 12), "57P01", 1e6),
            skipped(&one(1, 13), SkipReason::NoConnection),
        ],
        true,
    );
    assert_eq!((found.statements, total(&found)), (13, 13));
    assert_eq!((found.same, found.same_failed), (4, 2));
    assert_eq!(
        (found.errors_new, found.errors_gone, found.errors_other),
        (2, 1, 1)
    );
    assert_eq!(
        (found.rows_differ, found.rows_compared, found.lost),
        (2, 3, 1)
    );
    assert_eq!(found.lost_unsent, 1);
    let kinds: Vec<_> = found.differences.iter().map(|one| one.kind).collect();
    use DifferenceKind as Kind;
    assert_eq!(
        kinds,
        [
            Kind::Lost,
            Kind::ErrorNew,
            Kind::ErrorOther,
            Kind::Rows,
            Kind::ErrorGone
        ]
    );
    let new = &found.differences[1];
    assert_eq!(new.fingerprint, Some(Fingerprint(2)));
    assert_eq!(new.sql.as_deref(), Some("insert"));
    assert_eq!(
        (new.sqlstate, new.captured_sqlstate, new.count),
        (Some(code("42703")), None, 2)
    );
    assert_eq!((new.first.session, new.first.sequence), (7, 2));
    let place = (new.first.source.as_deref(), new.first.line);
    assert_eq!(place, (Some("shop.log"), Some(12)));
    assert_eq!(new.first.message.as_deref(), Some("it failed with 42703"));
    let other = &found.differences[2];
    assert_eq!(
        (other.sqlstate, other.captured_sqlstate),
        (Some(code("23503")), Some(code("23505")))
    );
    let rows = RowsDifference {
        more: 1,
        fewer: 1,
        rows_more: 3,
        rows_fewer: 9,
        largest_captured: 10,
        largest_replayed: 1,
    };
    assert_eq!(found.differences[3].rows, Some(rows));
    assert_eq!(found.differences[4].captured_sqlstate, Some(code("23505")));
}

#[test]
fn consequences_of_a_new_error_are_counted_with_it() {
    let found = found(
        &[
            one(1, 1),
            failed(&one(2, 2), "42703", 1e6),
            failed(&one(1, 3), "25P02", 1e6),
            // Refused both times, and one for which the log has no parameters.
            failed(&captured(one(1, 4), "25P02"), "25P02", 1e6),
            skipped(
                &one(1, 5),
                SkipReason::Unreplayable(Unreplayable::ParametersMissing),
            ),
            // Failed in the capture on its own; in the replay it was refused before that.
            failed(&captured(one(1, 6), "23505"), "25P02", 1e6),
            // The ROLLBACK; statements refused after it have another reason.
            one(1, 7),
            failed(&one(1, 8), "25P02", 1e6),
        ],
        true,
    );
    assert_eq!((found.following, found.errors_new, found.same), (2, 2, 3));
    let broke = &found.differences[0];
    assert_eq!(
        (broke.sqlstate, broke.count, broke.following),
        (Some(code("42703")), 1, 2)
    );
    let broke = &found.differences[1];
    assert_eq!(
        (broke.sqlstate, broke.count, broke.following),
        (Some(code("25P02")), 1, 0)
    );
    assert_eq!(total(&found), 8);
}

#[test]
fn captured_consequences_are_counted_with_the_gone_error() {
    let found = found(
        &[
            captured(one(2, 1), "23505"),
            captured(one(1, 2), "25P02"),
            captured(one(1, 3), "25P02"),
            one(1, 4),
            captured(one(1, 5), "25P02"),
        ],
        true,
    );
    assert_eq!(
        (found.errors_gone, found.following_gone, found.same),
        (2, 2, 1)
    );
    let gone = found
        .differences
        .iter()
        .find(|one| one.captured_sqlstate == Some(code("23505")));
    assert_eq!(gone.unwrap().following, 2);
}

#[test]
fn transaction_failing_as_captured_has_no_consequences() {
    let found = found(
        &[
            failed(&captured(one(2, 1), "23505"), "23505", 1e6),
            failed(&one(1, 2), "25P02", 1e6),
        ],
        true,
    );
    assert_eq!((found.same, found.errors_new, found.following), (1, 1, 0));
}

#[test]
fn broken_transaction_ends_with_the_session() {
    let mut end = one(1, 3);
    end.kind = StatementKind::Disconnect;
    let found = found(
        &[
            failed(&one(2, 2), "42703", 1e6),
            end,
            failed(&one(1, 4), "25P02", 1e6),
        ],
        true,
    );
    assert_eq!((found.following, found.errors_new), (0, 2));
}

#[test]
fn missing_error_is_success_only_if_the_source_names_failures() {
    let mut silent = one(1, 1);
    silent.captured.duration_us = None;
    let broken = failed(&silent, "42703", 1e6);
    let with_duration = failed(&one(1, 2), "42703", 1e6);
    let executions = [silent, broken, with_duration];
    let known = found(&executions, true);
    assert_eq!((known.same, known.errors_new, known.unknown), (1, 2, 0));
    let unknown = found(&executions, false);
    assert_eq!(
        (unknown.same, unknown.errors_new, unknown.unknown),
        (0, 1, 2)
    );
}

#[test]
fn connection_lost_both_times_is_the_same() {
    let executions = [
        failed(&captured(one(1, 1), "57P01"), "08006", 1e6),
        failed(&one(1, 2), "08P01", 1e6),
    ];
    let found = found(&executions, true);
    // Too few parameters in a Bind do not end a connection.
    assert_eq!((found.same, found.lost, found.errors_new), (1, 0, 1));
}

fn executions() -> impl Strategy<Value = Vec<Execution>> {
    let codes = prop::sample::select(vec!["23505", "25P02", "?????", "08006", "57014"]);
    let outcome = prop_oneof![
        3 => Just(None),
        3 => codes.clone().prop_map(|code| Some(Ok(code))),
        1 => prop::sample::select(vec![SkipReason::NoConnection, SkipReason::Stopped])
            .prop_map(|reason| Some(Err(reason))),
    ];
    let kind = prop::sample::select(StatementKind::ALL.to_vec());
    let known = (
        prop::option::of(codes),
        prop::option::of(0u64..3),
        prop::option::of(0u64..9),
    );
    let one = (0u64..3, 0u64..4, kind, outcome, known, 0u64..3).prop_map(
        |(session, fingerprint, kind, outcome, (sqlstate, rows, duration_us), here)| {
            let mut execution = Execution {
                session,
                kind,
                rows: here,
                ..done(fingerprint, 0, 0, 1.0)
            };
            execution.captured.sqlstate = sqlstate.map(code);
            execution.captured.rows = rows;
            execution.captured.duration_us = duration_us;
            match outcome {
                None => execution,
                Some(Ok(code)) => failed(&execution, code, 1.0),
                Some(Err(reason)) => skipped(&execution, reason),
            }
        },
    );
    prop::collection::vec(one, 0..120)
}

proptest! {
    #[test]
    fn every_statement_is_in_one_class(executions in executions(), named in any::<bool>()) {
        let found = found(&executions, named);
        let statements: Vec<&Execution> =
            executions.iter().filter(|one| one.is_statement()).collect();
        prop_assert_eq!(found.statements, statements.len() as u64);
        prop_assert_eq!(total(&found), found.statements);
        // The counts by statement add up to the totals.
        let of = |kind| {
            let these = found.differences.iter().filter(|one| one.kind == kind);
            these.map(|one| one.count).sum::<u64>()
        };
        prop_assert_eq!(of(DifferenceKind::Lost), found.lost);
        prop_assert_eq!(of(DifferenceKind::ErrorNew), found.errors_new);
        prop_assert_eq!(of(DifferenceKind::ErrorOther), found.errors_other);
        prop_assert_eq!(of(DifferenceKind::Rows), found.rows_differ);
        prop_assert_eq!(of(DifferenceKind::ErrorGone), found.errors_gone);
        let following: u64 = found.differences.iter().map(|one| one.following).sum();
        prop_assert_eq!(following, found.following + found.following_gone);
        // A failure in the replay is same, lost, new, other or a consequence; with a log nothing is
        // unknown.
        let failed = statements
            .iter()
            .filter(|one| matches!(one.outcome, Outcome::Failed(_)))
            .count() as u64;
        let told = found.same_failed + found.lost + found.errors_new + found.errors_other
            + found.following;
        prop_assert!(told <= failed);
        if named {
            prop_assert_eq!(found.unknown, 0);
            prop_assert_eq!(told, failed);
        }
    }

    #[test]
    fn replay_equal_to_capture_has_no_divergence(executions in executions()) {
        let as_captured: Vec<Execution> = executions
            .into_iter()
            .filter(|one| !matches!(one.outcome, Outcome::Skipped(_)))
            .map(|mut one| {
                one.captured.sqlstate = match one.outcome {
                    Outcome::Failed(code) => Some(code),
                    _ => None,
                };
                one.captured.rows = one.captured.rows.map(|_| one.rows);
                one
            })
            .collect();
        let found = found(&as_captured, true);
        prop_assert_eq!(found.same, found.statements);
        prop_assert_eq!(found.differences, vec![]);
    }
}

#[test]
fn equal_row_counts_with_other_values_differ() {
    let mut same = one(1, 1);
    (same.digest, same.captured.digest) = (Some(7), Some(7));
    let mut other = one(1, 2);
    (other.digest, other.captured.digest) = (Some(8), Some(7));
    let mut unasked = one(1, 3);
    unasked.captured.digest = Some(7);
    let found = found(&[connect(7, 0), same, other, unasked], true);
    assert_eq!(
        (found.same, found.values_differ, found.digests_compared),
        (2, 1, 2)
    );
    assert_eq!(total(&found), found.statements);
    let difference = &found.differences[0];
    assert_eq!(difference.kind, DifferenceKind::Values);
    assert_eq!((difference.first.sequence, difference.count), (2, 1));
}
