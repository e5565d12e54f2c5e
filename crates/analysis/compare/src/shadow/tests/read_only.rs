//! Shadow comparison of read-only replays.

use super::*;

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
