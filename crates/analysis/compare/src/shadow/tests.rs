//! Tests of the shadow comparison on synthetic executions.

use run::{Captured, StatementKind};

use super::*;
use workload::Sqlstate;

const SECOND_NS: i64 = 1_000_000_000;

/// Creates an execution that ended at `at_ns` and took 10 ms times `factor`, 10 ms in the capture.
fn execution(statement: u64, at_ns: i64, factor: f64) -> Execution {
    let service_ns = (10_000_000.0 * factor) as i64;
    Execution {
        session: 1,
        sequence: 1,
        fingerprint: Some(Fingerprint(statement)),
        kind: StatementKind::Simple,
        outcome: Outcome::Done,
        due_ns: at_ns - service_ns,
        sent_ns: Some(at_ns - service_ns),
        first_byte_ns: Some(at_ns),
        done_ns: Some(at_ns),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 1,
        bytes: 10,
        digest: None,
        message: None,
        captured: Captured {
            duration_us: Some(10_000),
            rows: Some(1),
            ..Captured::default()
        },
    }
}

/// Adds an execution of three statements each second, and returns the names of the changed measures.
fn run_shadow(
    options: ShadowOptions,
    seconds: std::ops::Range<i64>,
    mut change: impl FnMut(u64, i64, &mut Execution),
) -> (Shadow, Vec<(u64, ShadowMeasure, bool)>) {
    let mut shadow = Shadow::new(options);
    let mut changes = Vec::new();
    for second in seconds {
        for statement in 1..=3 {
            let mut execution = execution(statement, second * SECOND_NS, 1.0);
            change(statement, second, &mut execution);
            shadow.add(&execution);
        }
        changes.extend(shadow.take_changes());
    }
    shadow.finish();
    changes.extend(shadow.take_changes());
    let changes = changes
        .into_iter()
        .map(|change| {
            let is_present = change.verdict.is_present();
            (change.statement.fingerprint.0, change.measure, is_present)
        })
        .collect();
    (shadow, changes)
}

fn slow(execution: &mut Execution, factor: f64) {
    let sent_ns = execution.sent_ns.unwrap();
    let service_ns = execution.done_ns.unwrap() - sent_ns;
    execution.sent_ns = Some(sent_ns + service_ns - (service_ns as f64 * factor) as i64);
}

#[test]
fn shadow_of_equal_sides_is_silent() {
    let (shadow, changes) = run_shadow(ShadowOptions::default(), 0..3_600, |_, second, one| {
        slow(one, 0.9 + (second * 7_919 % 100) as f64 / 500.0);
    });
    assert_eq!(changes, []);
    let report = shadow.report(10);
    assert_eq!((report.windows, report.replayed), (360, 10_800));
    assert_eq!(report.statements.len(), 3);
}

#[test]
fn shadow_with_a_slower_statement_names_it_and_its_begin() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..3_600,
        |statement, second, one| {
            if statement == 2 && second >= 1_800 {
                slow(one, 1.5);
            }
        },
    );
    assert_eq!(changes, [(2, ShadowMeasure::Slower, true)]);
    let report = shadow.report(0);
    let [statement] = &report.statements[..] else {
        panic!("{report:?}")
    };
    let ShadowVerdict::Present { since_ns, found_ns } = statement.tests[0].verdict else {
        panic!("{statement:?}")
    };
    assert_eq!(since_ns, 1_800 * SECOND_NS);
    assert!(found_ns <= 2_200 * SECOND_NS, "{found_ns}");
    assert!((1.45..1.55).contains(&statement.ratio));
}

#[test]
fn shadow_with_new_errors_names_the_statement() {
    let (_, changes) = run_shadow(
        ShadowOptions::default(),
        0..900,
        |statement, second, one| {
            if statement == 3 && second % 2 == 0 {
                one.outcome = Outcome::Failed(Sqlstate(*b"42883"));
            }
            // As many fail in the capture only as in the replay only.
            if statement == 1 && second % 4 == 1 {
                one.outcome = Outcome::Failed(Sqlstate(*b"23505"));
            }
            if statement == 1 && second % 4 == 3 {
                one.captured.sqlstate = Some(Sqlstate(*b"23505"));
            }
        },
    );
    assert_eq!(changes, [(3, ShadowMeasure::Errors, true)]);
}

#[test]
fn shadow_with_fewer_rows_names_the_statement() {
    let (_, changes) = run_shadow(ShadowOptions::default(), 0..900, |statement, _, one| {
        one.rows = if statement == 1 { 0 } else { 1 };
    });
    assert_eq!(changes, [(1, ShadowMeasure::FewerRows, true)]);
}

#[test]
fn shadow_excludes_windows_of_an_outage_and_after_it() {
    let (shadow, changes) = run_shadow(ShadowOptions::default(), 0..600, |_, second, one| {
        match second {
            // Down for 25 s, and slow for 20 s after it.
            305..330 => {
                one.outcome = Outcome::Skipped(SkipReason::NoConnection);
                (one.sent_ns, one.done_ns) = (None, None);
            }
            330..350 => slow(one, 20.0),
            _ => {}
        }
    });
    assert_eq!(changes, []);
    let report = shadow.report(10);
    let excluded = |reason| report.windows_excluded.get(&reason).copied();
    assert_eq!(excluded(WindowExclusion::Outage), Some(3));
    assert_eq!(excluded(WindowExclusion::Settling), Some(3));
    assert_eq!(report.windows, 54);
    assert_eq!(report.not_replayed["no_connection"], 75);
    let [gap] = &report.gaps[..] else {
        panic!("{report:?}")
    };
    assert_eq!(gap.not_replayed, 75);
    assert!(gap.until_ns - gap.from_ns < 26 * SECOND_NS);
}

/// A stop skips statements that are queued, with due times that the replay has not reached.
#[test]
fn shadow_with_statements_that_a_stop_skipped_holds_up_to_the_last_executed_one() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..600,
        |statement, second, one| {
            if statement == 1 && second < 300 {
                slow(one, 2.0);
            }
            if second >= 300 {
                one.outcome = Outcome::Skipped(SkipReason::Stopped);
                (one.sent_ns, one.done_ns) = (None, None);
            }
        },
    );
    // Nothing shows that it is no longer slower.
    assert_eq!(changes, [(1, ShadowMeasure::Slower, true)]);
    let report = shadow.report(10);
    assert_eq!(report.until_ns, 299 * SECOND_NS);
    assert_eq!((report.windows, report.replayed), (30, 900));
    assert!(report.windows_excluded.is_empty() && report.gaps.is_empty());
    assert_eq!(report.not_replayed["stopped"], 900);
}

/// A restart between two statements fails none. Then caches are cold.
#[test]
fn shadow_excludes_the_windows_after_a_restart_that_cut_idle_connections_only() {
    let shadow_with = |sqlstate: &str, length: i64| {
        let mut shadow = Shadow::new(ShadowOptions::default());
        for second in 0..600 {
            // All of them may be known from the beginning.
            if second == 0 {
                shadow.add_losses(ConnectionLosses {
                    from_ns: 304 * SECOND_NS,
                    until_ns: 304 * SECOND_NS + length,
                    sqlstate: Sqlstate::parse(sqlstate).unwrap(),
                    connections: 7,
                    connections_open: 10,
                });
            }
            let mut one = execution(1, second * SECOND_NS, 1.0);
            match second {
                200 => one.outcome = Outcome::Skipped(SkipReason::LagLimit),
                305..335 => slow(&mut one, 20.0),
                _ => {}
            }
            shadow.add(&one);
        }
        shadow.finish();
        shadow.report(10)
    };
    let report = shadow_with("57P01", SECOND_NS);
    let excluded = |reason| report.windows_excluded.get(&reason).copied();
    assert_eq!(excluded(WindowExclusion::Outage), Some(1));
    assert_eq!(excluded(WindowExclusion::Settling), Some(3));
    assert_eq!(report.statements[0].tests[0].windows_with_difference, 0);
    let gaps = report.gaps.iter();
    let gaps: Vec<_> = gaps
        .map(|gap| {
            (
                gap.from_ns / SECOND_NS,
                gap.not_replayed,
                gap.connections_lost,
            )
        })
        .collect();
    assert_eq!(gaps, [(199, 1, 0), (304, 0, 7)]);
    // Losses that last until the next window exclude it, too.
    let report = shadow_with("08006", 8 * SECOND_NS);
    let excluded = |reason| report.windows_excluded.get(&reason).copied();
    assert_eq!(excluded(WindowExclusion::Outage), Some(2));
    // A timeout of idle sessions is no outage.
    let report = shadow_with("57P05", SECOND_NS);
    assert!(report.windows_excluded.is_empty() && report.gap_count == 1);
}

/// One of 20 connections, which is lost at a time.
fn loss(at_ns: i64, code: &[u8; 5]) -> ConnectionLosses {
    ConnectionLosses {
        from_ns: at_ns,
        until_ns: at_ns,
        sqlstate: Sqlstate(*code),
        connections: 1,
        connections_open: 20,
    }
}

/// A pooler in front of the candidate closes an idle connection every 15 s.
#[test]
fn shadow_that_loses_single_connections_compares_all_windows() {
    let mut shadow = Shadow::new(ShadowOptions::default());
    for second in 0..900 {
        if second % 15 == 0 {
            shadow.add_losses(loss(second * SECOND_NS, b"08006"));
        }
        let mut one = execution(1, second * SECOND_NS, 1.0);
        slow(&mut one, 2.0);
        // One of the sessions was in a transaction.
        if second % 150 == 0 {
            one.outcome = Outcome::Failed(Sqlstate(*b"08006"));
        } else if second % 150 == 1 {
            one.outcome = Outcome::Skipped(SkipReason::TransactionLost);
        }
        shadow.add(&one);
    }
    shadow.finish();
    assert_eq!(shadow.take_changes().len(), 1);
    let report = shadow.report(10);
    assert!(report.windows_excluded.is_empty(), "{report:?}");
    assert_eq!((report.windows, report.connections_lost), (90, 60));
    assert!(!report.is_mostly_excluded());
}

/// A shutdown of one connection may be that of the server.
#[test]
fn shadow_that_is_mostly_excluded_says_so() {
    let mut shadow = Shadow::new(ShadowOptions::default());
    for second in 0..900 {
        if second % 60 == 0 {
            shadow.add_losses(loss(second * SECOND_NS, b"57P01"));
        }
        shadow.add(&execution(1, second * SECOND_NS, 1.0));
    }
    shadow.finish();
    let report = shadow.report(10);
    assert_eq!(report.windows_excluded[&WindowExclusion::Outage], 15);
    assert_eq!((report.windows, report.connections_lost), (30, 0));
    assert!(report.is_mostly_excluded());
}

/// A reader of a complete run has all losses at once, a follower those before the executions it has.
#[test]
fn shadow_of_a_complete_run_is_judged_as_while_it_was_written() {
    let report = |is_complete: bool| {
        let mut shadow = Shadow::new(ShadowOptions::default());
        let codes = [b"08006", b"08006", b"57P01", b"08006"];
        let losses = (0..6_000).map(|number| {
            let code = codes[number as usize % 7 % 4];
            let code = if number % 97 == 0 { code } else { b"08006" };
            loss(number * 3 * SECOND_NS, code)
        });
        let mut losses = losses.peekable();
        for second in 0..18_000 {
            let at_ns = second * SECOND_NS;
            while let Some(losses) = losses.next_if(|losses| is_complete || losses.from_ns <= at_ns)
            {
                shadow.add_losses(losses);
            }
            shadow.add(&execution(1, at_ns, 1.0));
        }
        shadow.finish();
        shadow.report(10)
    };
    let complete = report(true);
    assert_eq!(complete, report(false));
    assert!(complete.windows_excluded[&WindowExclusion::Outage] > 5);
    let in_gaps: u64 = complete.gaps.iter().map(|gap| gap.connections_lost).sum();
    assert_eq!(complete.connections_lost + in_gaps, 6_000);
}

#[test]
fn shadow_with_an_outage_in_the_baseline_measures_it_for_as_long_without_it() {
    let options = ShadowOptions {
        baseline_ns: Some(300 * SECOND_NS),
        allowance_ns: 0,
        ..ShadowOptions::default()
    };
    let with_outage = |_: u64, second: i64, one: &mut Execution| match second {
        10..250 => {
            one.outcome = Outcome::Skipped(SkipReason::NoConnection);
            (one.sent_ns, one.done_ns) = (None, None);
        }
        // What is cold after it is no baseline.
        250..280 => slow(one, 50.0),
        _ => slow(one, 2.0),
    };
    let (shadow, _) = run_shadow(options.clone(), 0..560, with_outage);
    assert!(shadow.report(10).statements[0].in_baseline);
    let (shadow, changes) = run_shadow(options, 0..1_200, with_outage);
    let statement = &shadow.report(10).statements[0];
    assert!(!statement.in_baseline && changes.is_empty());
    let reference = statement.reference.unwrap();
    assert!((1.99..2.01).contains(&reference), "{reference}");
}

#[test]
fn shadow_in_which_one_session_has_no_connection_still_judges_the_others() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..600,
        |statement, second, one| match statement {
            1 => {
                one.outcome = Outcome::Skipped(SkipReason::NoConnection);
                (one.sent_ns, one.done_ns) = (None, None);
            }
            2 if second >= 300 => slow(one, 2.0),
            _ => {}
        },
    );
    assert_eq!(changes, [(2, ShadowMeasure::Slower, true)]);
    assert_eq!(shadow.report(10).not_replayed["no_connection"], 600);
}

#[test]
fn shadow_with_new_protocol_violations_names_the_statement() {
    let (_, changes) = run_shadow(ShadowOptions::default(), 0..900, |statement, _, one| {
        if statement == 1 {
            one.outcome = Outcome::Failed(Sqlstate(*b"08P01"));
        }
    });
    assert_eq!(changes, [(1, ShadowMeasure::Errors, true)]);
}

/// A candidate that is so slow that its sessions skip statements is slower, and not excused.
#[test]
fn shadow_with_skipped_statements_names_the_slower_statement() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..600,
        |statement, second, one| {
            if second < 300 {
                return;
            }
            match second % 2 {
                0 if statement == 2 => slow(one, 20.0),
                0 => {}
                // The lag cut a transaction.
                _ if statement == 3 => {
                    one.outcome = Outcome::Skipped(SkipReason::TransactionLost);
                    (one.sent_ns, one.done_ns) = (None, None);
                }
                _ => {
                    one.outcome = Outcome::Skipped(SkipReason::LagLimit);
                    (one.sent_ns, one.done_ns) = (None, None);
                }
            }
        },
    );
    assert_eq!(changes, [(2, ShadowMeasure::Slower, true)]);
    assert!(shadow.report(10).windows_excluded.is_empty());
}

/// A candidate that is twice as slow from the beginning differs from the capture, and not from its baseline.
#[test]
fn shadow_with_a_baseline_reports_only_what_changes_after_it() {
    let twice = |_: u64, second: i64, one: &mut Execution| {
        slow(one, if second < 1_200 { 2.0 } else { 4.0 });
    };
    let (_, changes) = run_shadow(ShadowOptions::default(), 0..1_200, twice);
    assert_eq!(changes.len(), 3);
    let options = ShadowOptions {
        baseline_ns: Some(300 * SECOND_NS),
        allowance_ns: 0,
        ..ShadowOptions::default()
    };
    let (_, changes) = run_shadow(options.clone(), 0..1_200, twice);
    assert_eq!(changes, []);
    let (shadow, changes) = run_shadow(options, 0..2_000, twice);
    assert_eq!(changes.len(), 3);
    let reference = shadow.report(10).statements[0].reference.unwrap();
    assert!((1.99..2.01).contains(&reference), "{reference}");
}

/// The run knows that it was read-only. Nothing is wrong with its candidate.
#[test]
fn shadow_of_a_read_only_replay_counts_refused_writes_and_what_failed_after_them() {
    let shadow_with = |replay: &[(&str, &str)]| {
        let replay = replay.iter();
        let replay = replay.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut shadow = Shadow::of_replay(ShadowOptions::default(), &replay.collect());
        for second in 0..900 {
            // A transaction: BEGIN, UPDATE, SELECT and COMMIT, and another one that a missing function breaks.
            for (at, code) in [None, Some(b"25006"), Some(b"25P02"), None]
                .into_iter()
                .chain([None, Some(b"42883"), Some(b"25P02"), None])
                .enumerate()
            {
                let mut one = execution(at as u64, second * SECOND_NS, 1.0);
                if let Some(code) = code {
                    one.outcome = Outcome::Failed(Sqlstate(*code));
                }
                shadow.add(&one);
            }
        }
        shadow.finish();
        let changes = shadow.take_changes().into_iter();
        let changed: Vec<_> = changes
            .map(|change| (change.statement.fingerprint.0, change.measure))
            .collect();
        let report = shadow.report(10);
        (changed, report.replayed, report.refused_read_only)
    };
    let errors = |statements: &[u64]| -> Vec<_> {
        let statements = statements.iter();
        statements
            .map(|statement| (*statement, ShadowMeasure::Errors))
            .collect()
    };
    let found = shadow_with(&[("read_only", "true")]);
    assert_eq!(found, (errors(&[5, 6]), 7_200, 1_800));
    let found = shadow_with(&[("speed", "1")]);
    assert_eq!(found, (errors(&[1, 2, 5, 6]), 7_200, 0));
}

/// Statements that follow from what a read-only replay refused or withheld, and the same failures of other causes.
#[test]
fn shadow_of_a_read_only_replay_accuses_no_statement_that_follows_from_a_refusal() {
    let statements: [(&str, Option<&str>, &str); 12] = [
        ("create temp table work (a int)", Some("25006"), ""),
        (
            "select a from work",
            Some("42P01"),
            "relation \"work\" does not exist",
        ),
        ("select nextval($1)", Some("25006"), ""),
        (
            "select currval($1)",
            Some("55000"),
            "currval of sequence \"s\" is not yet defined",
        ),
        ("select a into temp copied from items", Some("25006"), ""),
        (
            "select a from copied",
            Some("42P01"),
            "relation \"copied\" does not exist",
        ),
        (
            "select a from items; select b from items",
            Some("42601"),
            "several statements",
        ),
        // It is withheld.
        ("create temp table remote as select dblink($1)", None, ""),
        (
            "select a from remote",
            Some("42P01"),
            "relation \"remote\" does not exist",
        ),
        (
            "select a from missing",
            Some("42P01"),
            "relation \"missing\" does not exist",
        ),
        ("select a frm items", Some("42601"), "syntax error"),
        (
            "select a from secrets",
            Some("42501"),
            "permission denied for table secrets",
        ),
    ];
    let changed = |mode: &str| {
        let replay = [("read_only".to_owned(), mode.to_owned())];
        let mut shadow = Shadow::of_replay(ShadowOptions::default(), &replay.into());
        for (number, (sql, ..)) in (0..).zip(&statements) {
            shadow.set_text(Fingerprint(number), sql);
        }
        for second in 0..900 {
            for (number, (_, code, message)) in (0..).zip(&statements) {
                let mut one = execution(number, second * SECOND_NS, 1.0);
                one.message = Some((*message).to_owned());
                one.outcome = match code {
                    Some(code) => Outcome::Failed(Sqlstate::parse(code).unwrap()),
                    None => Outcome::Skipped(SkipReason::ReadOnly),
                };
                shadow.add(&one);
            }
        }
        shadow.finish();
        let mut changed: Vec<_> = (shadow.take_changes().into_iter())
            .map(|change| change.statement.fingerprint.0)
            .collect();
        changed.sort_unstable();
        (changed, shadow.report(10).refused_read_only)
    };
    assert_eq!(changed("true"), (vec![9, 10, 11], 8 * 900));
    assert_eq!(changed("role"), (vec![9, 10], 9 * 900));
}

/// The preparation of a statement fails with its table, and then the statement with its preparation.
#[test]
fn shadow_of_a_read_only_replay_follows_failures_through_preparations() {
    let replay = [("read_only".to_owned(), "true".to_owned())];
    let mut shadow = Shadow::of_replay(ShadowOptions::default(), &replay.into());
    shadow.set_text(Fingerprint(1), "create temp table work (a int)");
    shadow.set_text(Fingerprint(2), "select a from work");
    let relation = "relation \"work\" does not exist";
    let name = "prepared statement \"s1\" does not exist";
    for second in 0..900 {
        for (statement, kind, code, message) in [
            (1, StatementKind::Simple, "25006", ""),
            (2, StatementKind::Prepare, "42P01", relation),
            (2, StatementKind::Execute, "26000", name),
        ] {
            let mut one = execution(statement, second * SECOND_NS, 1.0);
            one.kind = kind;
            one.outcome = Outcome::Failed(Sqlstate::parse(code).unwrap());
            one.message = Some(message.to_owned());
            shadow.add(&one);
        }
    }
    shadow.finish();
    assert_eq!(shadow.take_changes(), []);
    assert_eq!(shadow.report(10).refused_read_only, 1_800);
}

/// An order that was refused is missing in the queries of orders, not in those of items.
#[test]
fn shadow_of_a_read_only_replay_compares_no_rows_of_tables_that_lack_writes() {
    let texts = [
        "insert into s.orders values ($1)",
        "select id from orders where id = $1",
        "select id from items where id = $1",
    ];
    let replay = [("read_only".to_owned(), "true".to_owned())];
    let mut shadow = Shadow::of_replay(ShadowOptions::default(), &replay.into());
    for (number, sql) in (0..).zip(texts) {
        shadow.set_text(Fingerprint(number), sql);
    }
    for second in 0..900 {
        for number in 0..3 {
            let mut one = execution(number, second * SECOND_NS, 1.0);
            one.rows = 0;
            if number == 0 {
                one.outcome = Outcome::Failed(Sqlstate(*b"25006"));
            }
            shadow.add(&one);
        }
    }
    shadow.finish();
    let changes = shadow.take_changes().into_iter();
    let changed: Vec<_> = changes
        .map(|change| (change.statement.fingerprint.0, change.measure))
        .collect();
    assert_eq!(changed, [(2, ShadowMeasure::FewerRows)]);
    let report = shadow.report(10);
    assert_eq!(
        (report.refused_read_only, report.rows_after_refusals),
        (900, 900)
    );
}
