//! Transactions that failed in the capture, as a log has them: they are rolled back here as well, whatever made
//! them fail.

use clock::Speed;
use postgres::{Client, NoTls};
use replay::Options;
use workload::{EventKind, Sqlstate, Unreplayable};

use crate::traffic::{Traffic, server, statements};

const REFUSED: &str = "25P02";

/// Sends a text that succeeded (no code) or failed.
fn text(log: &mut Traffic, sql: &str, code: &str) {
    let event = log.at(1, 1, EventKind::Simple { sql: sql.into() });
    event.outcome.sqlstate = Sqlstate::parse(code);
}

/// Sends an execution of a text with `$1`, which the log has without values.
fn without_values(log: &mut Traffic, code: &str) {
    let event = log.execute(1, 1, "", "INSERT INTO t VALUES ($1)", "0");
    event.outcome.sqlstate = Sqlstate::parse(code);
    event.unreplayable = Some(Unreplayable::ParametersMissing);
}

#[test]
fn transaction_that_failed_in_the_capture_is_not_committed() {
    let (_sandbox, server) = server(&[]);
    let mut client = Client::connect(&server.url("postgres"), NoTls).unwrap();
    client.batch_execute("CREATE TABLE t (n int)").unwrap();
    let full_speed = Options {
        speed: Speed::Max,
        ..Options::default()
    };
    for options in [Options::default(), full_speed] {
        client.batch_execute("TRUNCATE t").unwrap();
        let mut log = Traffic::new(&server);
        log.connect(0, 1);
        // The failure is not sent, then something is refused.
        text(&mut log, "BEGIN", "");
        text(&mut log, "INSERT INTO t VALUES (1)", "");
        without_values(&mut log, "22P02");
        text(&mut log, "INSERT INTO t VALUES (2)", REFUSED);
        text(&mut log, "COMMIT", "");
        // Directly the end; the second time the failure succeeds here.
        text(&mut log, "BEGIN", "");
        text(&mut log, "INSERT INTO t VALUES (3)", "");
        without_values(&mut log, "?????");
        text(&mut log, "END", "");
        text(&mut log, "BEGIN", "");
        text(&mut log, "INSERT INTO t VALUES (4)", "57014");
        text(&mut log, "COMMIT", "");
        // Back to a savepoint.
        text(&mut log, "BEGIN", "");
        text(&mut log, "SAVEPOINT s", "");
        without_values(&mut log, "23505");
        text(&mut log, "ROLLBACK TO s", "");
        text(&mut log, "INSERT INTO t VALUES (10)", "");
        text(&mut log, "COMMIT", "");
        // The capture began within the transaction.
        text(&mut log, "INSERT INTO t VALUES (5)", REFUSED);
        text(&mut log, "INSERT INTO t VALUES (11)", "");
        log.disconnect(2, 1);
        let (info, executions) = log.replay(&options, |_| ());
        let outcomes: Vec<String> = statements(&executions)
            .iter()
            .map(|execution| match execution.outcome {
                run::Outcome::Done => "".to_owned(),
                run::Outcome::Failed(code) => code.to_string(),
                run::Outcome::Skipped(reason) => reason.name().to_owned(),
            })
            .collect();
        let missing = "parameters_missing";
        assert_eq!(
            outcomes,
            [
                ["", "", missing, REFUSED, ""].as_slice(),
                &["", "", missing, ""],
                &["", "", ""],
                &["", "", missing, "", "", ""],
                &["transaction_failed", ""],
            ]
            .concat()
        );
        let rows = client.query("SELECT n FROM t ORDER BY n", &[]).unwrap();
        let rows: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(rows, [10, 11]);
        assert_eq!(info.options["transactions_aborted"], "3");
    }
}

#[test]
fn names_that_a_log_shows_as_unknown_or_taken_fail_again() {
    let (_sandbox, server) = server(&[]);
    let mut client = Client::connect(&server.url("postgres"), NoTls).unwrap();
    client.batch_execute("CREATE TABLE t (n int)").unwrap();
    let mut log = Traffic::new(&server);
    log.connect(0, 1);
    let kinds = [
        EventKind::Execute {
            statement: "never".into(),
            portal: "".into(),
            sql: "".into(),
            parameters: Vec::new(),
        },
        EventKind::Fetch {
            statement: "".into(),
            portal: "never".into(),
            sql: "".into(),
        },
        EventKind::Prepare {
            statement: "taken".into(),
            sql: "INSERT INTO t VALUES (1)".into(),
        },
    ];
    for (kind, code) in kinds.into_iter().zip(["26000", "34000", "42P05"]) {
        text(&mut log, "BEGIN", "");
        text(&mut log, "INSERT INTO t VALUES (1)", "");
        let event = log.at(1, 1, kind);
        event.outcome.sqlstate = Sqlstate::parse(code);
        event.unreplayable = (code != "42P05").then_some(Unreplayable::StatementUnknown);
        text(&mut log, "COMMIT", "");
    }
    log.disconnect(2, 1);
    let (_, executions) = log.replay(&Options::default(), |_| ());
    let failed = statements(&executions)
        .iter()
        .filter_map(|execution| match execution.outcome {
            run::Outcome::Failed(code) => Some(code.to_string()),
            _ => None,
        })
        .collect::<Vec<_>>();
    assert_eq!(failed, ["26000", "34000", "42P05"]);
    let count: i64 = client
        .query_one("SELECT count(*) FROM t", &[])
        .unwrap()
        .get(0);
    assert_eq!(count, 0);
}
