//! Read-only replays of sessions that try to write: they change nothing, and reading continues.

use postgres::Client;
use run::{Execution, Outcome, RunInfo, SkipReason};
use sandbox::Endpoint;
use workload::Boundary::{Nothing, Sync};
use workload::{Boundary, EventKind, Sqlstate, WireDetails};

use super::{Options, ReadOnly, Script, Speed, database_on, server, statements};

/// Functions that write or permit writing, for a role whose transactions may write.
const SCHEMA: &str = "
    CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE SEQUENCE s;
    CREATE FUNCTION opens() RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN PERFORM set_config('default_transaction_' || 'read_only', 'off', false); END $$;
    CREATE FUNCTION writes() RETURNS void LANGUAGE sql AS $$ INSERT INTO t VALUES (2) $$;
    CREATE FUNCTION turns() RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN PERFORM set_config('transaction_' || 'read_only', 'off', false); INSERT INTO t VALUES (3); END $$;
    CREATE PROCEDURE p() LANGUAGE plpgsql AS
        $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO t VALUES (4); END $$;
    ALTER ROLE postgres SET default_transaction_read_only = off";

const INSERT: &str = "INSERT INTO t VALUES (9)";

/// Permits writing in later transactions of the session.
const OPENS: &str = "SELECT opens()";

/// Statements of one session each; nearly all write.
const ATTEMPTS: &[&[&str]] = &[
    &[INSERT, "UPDATE t SET a = 5", "DELETE FROM t", "TRUNCATE t"],
    &["WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x"],
    &["SELECT writes()", "SELECT turns()", "SELECT nextval('s')"],
    &["DO $$ BEGIN INSERT INTO t VALUES (9); END $$", "CALL p()"],
    &["DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; DELETE FROM t; END $$"],
    &["BEGIN READ WRITE", INSERT, "COMMIT"],
    &["BEGIN READ WRITE; DELETE FROM t; COMMIT"],
    &["BEGIN", "SET TRANSACTION READ WRITE", INSERT, "COMMIT"],
    &[
        "BEGIN",
        "SET LOCAL transaction_read_only = off",
        INSERT,
        "COMMIT",
    ],
    &["BEGIN", "RESET transaction_read_only", INSERT, "COMMIT"],
    &[
        "BEGIN",
        "SET U&\"transaction\\005fread_only\" = off",
        INSERT,
        "COMMIT",
    ],
    &[
        "BEGIN",
        "SELECT set_config('transaction_read_only', 'off', false)",
        INSERT,
        "COMMIT",
    ],
    &["BEGIN", "SELECT turns()", "ROLLBACK"],
    &["SET default_transaction_read_only = off", INSERT],
    &[
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        INSERT,
    ],
    &[
        "SELECT opens()",
        INSERT,
        "SELECT opens()",
        "BEGIN",
        INSERT,
        "COMMIT",
    ],
    &[
        "BEGIN",
        "SELECT opens()",
        "COMMIT",
        INSERT,
        "BEGIN",
        INSERT,
        "COMMIT",
    ],
    &["BEGIN", "SELECT opens()", "SELECT 1/0", "COMMIT", INSERT],
    &[
        "BEGIN",
        "SAVEPOINT a",
        "SELECT opens()",
        "ROLLBACK TO a",
        "COMMIT AND CHAIN",
        INSERT,
    ],
    &[
        "BEGIN",
        "SELECT opens()",
        "SAVEPOINT a",
        "SELECT 1/0",
        "ROLLBACK TO a",
        "COMMIT",
        INSERT,
    ],
    &["SELECT opens(); COMMIT; INSERT INTO t VALUES (9)"],
    &["RESET ALL", INSERT, "DISCARD ALL", INSERT],
    &[
        "CREATE TABLE u (a int)",
        "CREATE TEMP TABLE v (a int)",
        "DROP TABLE t",
    ],
    &[
        "SELECT * FROM t FOR UPDATE",
        "ALTER ROLE postgres SET work_mem = '1MB'",
    ],
    &[
        "SELECT lo_create(4711)",
        "ALTER SYSTEM SET work_mem = '7MB'",
    ],
    &[
        "SET ROLE postgres",
        INSERT,
        "SET SESSION AUTHORIZATION DEFAULT",
        INSERT,
    ],
    &[
        "UPDATE pg_settings SET setting = 'off' WHERE name = 'default_transaction_read_only'",
        INSERT,
    ],
];

/// Statements of one session each, with the boundary after each. They are sent without waiting, so the
/// effect of the first one is not known when the next one could be sent.
const PIPELINES: &[&[(&str, Boundary)]] = &[
    &[(OPENS, Sync), (INSERT, Sync)],
    &[(OPENS, Nothing), ("COMMIT", Nothing), (INSERT, Sync)],
    &[
        (OPENS, Sync),
        ("BEGIN", Nothing),
        (INSERT, Sync),
        ("COMMIT", Sync),
    ],
    &[
        (OPENS, Sync),
        ("BEGIN", Sync),
        (INSERT, Sync),
        ("COMMIT", Sync),
    ],
];

/// Startup parameters of clients that ask for permission to write.
const STARTUP: [(&str, &str); 4] = [
    ("default_transaction_read_only", "off"),
    ("DEFAULT_TRANSACTION_READ_ONLY", "off"),
    (
        "options",
        "-c default_transaction_read_only=off -c work_mem=5MB",
    ),
    ("options", "--default-transaction-read-only=off"),
];

/// Session whose answers are compared one by one.
const ANSWERED_SESSION: u64 = 3_000;

#[test]
fn read_only_changes_no_row() {
    nothing_is_written(server());
}

#[test]
fn read_only_works_on_a_server_that_does_not_report_changes() {
    let (_sandbox, server) = test_support::server().major(13).password("pace").start();
    nothing_is_written(&server);
}

fn nothing_is_written(server: &Endpoint) {
    let mut client = database_on(server, "read_only");
    client.batch_execute(SCHEMA).unwrap();
    let mut script = Script::new("read_only");
    script.server = server.url("postgres");
    add_attempts(&mut script);
    add_pipelines(&mut script);
    add_simple_statement_without_waiting(&mut script);
    add_answered_session(&mut script);
    add_sessions_with_startup_parameters(&mut script);
    let reading = Options {
        speed: Speed::Max,
        read_only: ReadOnly::Sessions,
        ..Options::default()
    };
    let (info, executions) = script.replay(&reading);
    assert_eq!(info.options["read_only"], "true");
    assert_nothing_is_changed(&mut client, &info);
    assert_attempts_are_refused(&info);
    assert_answers_belong_to_their_statements(&executions);
    assert_reading_continues(&executions);
    // The test can fail: without the option all of this writes.
    let writing = Options {
        read_only: ReadOnly::Off,
        ..reading
    };
    script.replay(&writing);
    let made: bool = client
        .query_one("SELECT to_regclass('u') IS NOT NULL", &[])
        .unwrap()
        .get(0);
    assert!(made);
    let _ = client.batch_execute("ALTER SYSTEM RESET work_mem");
}

fn add_attempts(script: &mut Script) {
    for (session, texts) in (0..).zip(ATTEMPTS) {
        script.connect(0, session);
        for text in *texts {
            script.simple(1, session, text);
            // The same by messages, at a name and without.
            for name in ["", "n"] {
                let kind = EventKind::Execute {
                    statement: name.into(),
                    portal: "".into(),
                    sql: "INSERT INTO t VALUES ($1)".into(),
                    parameters: vec![Some("8".into())],
                };
                if *text == INSERT {
                    script.at(1, session, kind);
                }
            }
        }
        script.simple(1, session, "SELECT count(*) FROM t");
        script.at(2, session, EventKind::Disconnect);
    }
}

fn add_pipelines(script: &mut Script) {
    for (session, pipeline) in (1_000..).zip(PIPELINES) {
        script.connect(0, session);
        for (number, (sql, boundary)) in pipeline.iter().enumerate() {
            script.piece(session, sql, number == 0, *boundary);
        }
        script.at(2, session, EventKind::Disconnect);
    }
}

fn add_simple_statement_without_waiting(script: &mut Script) {
    script.connect(0, 2_000);
    script.simple(1, 2_000, OPENS);
    script.simple(1, 2_000, INSERT).wire_details = Some(Script::particulars(false, Sync));
}

/// Adds a pipeline with different answers after a statement that makes the replay restore read-only mode.
fn add_answered_session(script: &mut Script) {
    script.connect(0, ANSWERED_SESSION);
    script.simple(1, ANSWERED_SESSION, OPENS);
    for (sql, boundary) in [
        ("SELECT 1 WHERE false", Nothing),
        ("SELECT 1", Nothing),
        ("SELECT 1/0", Sync),
    ] {
        script.piece(ANSWERED_SESSION, sql, false, boundary);
    }
}

fn add_sessions_with_startup_parameters(script: &mut Script) {
    for (session, (name, value)) in (4_000..).zip(STARTUP) {
        script.connect(0, session).wire_details = Some(
            WireDetails {
                settings: vec![(name.into(), value.into())],
                ..WireDetails::default()
            }
            .into(),
        );
        script.simple(1, session, INSERT);
        script.simple(1, session, "SELECT count(*) FROM t");
        script.at(2, session, EventKind::Disconnect);
    }
}

fn assert_nothing_is_changed(client: &mut Client, info: &RunInfo) {
    let rows: Vec<i32> = client
        .query("SELECT a FROM t", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(rows, [1], "{:?}", info.failed);
    let called: bool = client
        .query_one("SELECT is_called FROM s", &[])
        .unwrap()
        .get(0);
    assert!(!called);
    let objects: i64 = client
        .query_one("SELECT count(*) FROM pg_largeobject_metadata", &[])
        .unwrap()
        .get(0);
    assert_eq!(objects, 0);
}

fn assert_attempts_are_refused(info: &RunInfo) {
    assert!(info.failed["25006"] > 40, "{:?}", info.failed);
    assert_eq!(
        info.skipped.keys().collect::<Vec<_>>(),
        [SkipReason::ReadOnly.name()]
    );
}

/// Checks that each answer belongs to its own statement, also after the statement that restores
/// read-only mode.
fn assert_answers_belong_to_their_statements(executions: &[Execution]) {
    let answers: Vec<(Outcome, u64)> = statements(executions)
        .iter()
        .filter(|execution| execution.session == ANSWERED_SESSION)
        .map(|execution| (execution.outcome, execution.rows))
        .collect();
    assert_eq!(
        answers[1..4],
        [
            (Outcome::Done, 0),
            (Outcome::Done, 1),
            (Outcome::Failed(Sqlstate(*b"22012")), 0)
        ]
    );
}

/// Checks that each session reads on: rows and bytes are those of the statement, not of the guard.
fn assert_reading_continues(executions: &[Execution]) {
    let counts: Vec<&Execution> = statements(executions)
        .into_iter()
        .filter(|execution| execution.outcome == Outcome::Done && execution.rows == 1)
        .collect();
    assert!(counts.len() >= ATTEMPTS.len(), "{}", counts.len());
}
