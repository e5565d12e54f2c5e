//! Protocol features of a session, against real servers of several versions. Each statement returns the
//! same rows and errors as to another client, and so do the statements after it.

use std::sync::{Arc, OnceLock};

use clock::Speed;
use postgres::{Client, NoTls, SimpleQueryMessage};
use replay::Options;
use run::{Execution, Outcome, SkipReason};
use sandbox::{Endpoint, Sandbox};
use test_support::connect;
use workload::{CopyIn, EventKind, Parameter, ResultFormat, Sqlstate, Unreplayable, WireDetails};

#[allow(dead_code, reason = "the other tests that are made of it use the rest")]
#[path = "resilience/traffic.rs"]
mod traffic;

use traffic::{Traffic, statements};

const MAJORS: [u16; 3] = [13, 15, 18];

/// One server of each version for all tests of this file; watchdogs stop them.
fn servers() -> &'static [(Sandbox, Endpoint)] {
    static SERVERS: OnceLock<Vec<(Sandbox, Endpoint)>> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let start = |major| {
            test_support::server()
                .major(major)
                .password("traffic")
                .start()
        };
        test_support::versions(&MAJORS)
            .iter()
            .map(|&major| start(major))
            .collect()
    })
}

fn on_each(test: impl Fn(&Endpoint)) {
    for (_, endpoint) in servers() {
        test(endpoint);
    }
}

fn at_full_speed() -> Options {
    Options {
        speed: Speed::Max,
        ..Options::default()
    }
}

fn replayed(traffic: &mut Traffic, options: &Options) -> Vec<Execution> {
    traffic.replay(options, |_| ()).1
}

/// Number of rows, or the SQLSTATE or skip reason.
type Came = Result<u64, String>;

fn came(execution: &Execution) -> Came {
    match execution.outcome {
        Outcome::Done => Ok(execution.rows),
        Outcome::Failed(sqlstate) => Err(sqlstate.to_string()),
        Outcome::Skipped(reason) => Err(reason.name().to_owned()),
    }
}

fn all_that_came(executions: &[Execution], session: u64) -> Vec<Came> {
    let of_session = |execution: &&&Execution| execution.session == session;
    let statements = statements(executions);
    statements
        .iter()
        .filter(of_session)
        .map(|execution| came(execution))
        .collect()
}

/// Runs the same text with another client and returns the results.
fn asked(client: &mut Client, sql: &str) -> Came {
    match client.simple_query(sql) {
        Ok(messages) => {
            let rows = messages.iter().map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => *rows,
                _ => 0,
            });
            Ok(rows.sum())
        }
        Err(error) => Err(error.code().unwrap().code().to_owned()),
    }
}

const TEXTS: [&str; 43] = [
    "SELECT 1; SELECT 2, 3; SELECT generate_series(1, 5)",
    "",
    ";",
    " ; ;",
    "-- nothing",
    "CREATE TEMP TABLE t (a int PRIMARY KEY)",
    "INSERT INTO t SELECT generate_series(1, 10); UPDATE t SET a = a + 100 WHERE a < 4",
    "SELECT 1; SELECT 1 / 0; SELECT 2",
    "INSERT INTO t VALUES (500); SELECT * FROM nowhere",
    "SELECT * FROM t",
    "BEGIN",
    "INSERT INTO t VALUES (1000)",
    "SAVEPOINT a",
    "INSERT INTO t VALUES (1001)",
    "INSERT INTO t VALUES (1000)",
    "SELECT 1",
    "ROLLBACK TO a",
    "SAVEPOINT b; INSERT INTO t VALUES (1002); RELEASE b",
    "SELECT * FROM t WHERE a >= 1000",
    "ROLLBACK TO b",
    "ROLLBACK TO SAVEPOINT a; SELECT * FROM t WHERE a >= 1000",
    "COMMIT",
    "SELECT * FROM t WHERE a >= 1000",
    "BEGIN; SELECT 1; COMMIT; SELECT 2; BEGIN; DELETE FROM t; ROLLBACK",
    "PREPARE p (int) AS SELECT generate_series(1, $1)",
    "EXECUTE p (7)",
    "PREPARE p AS SELECT 1",
    "EXECUTE p (8); EXECUTE p (1)",
    "DEALLOCATE p",
    "EXECUTE p (7)",
    "PREPARE q AS SELECT * FROM t",
    "DISCARD ALL",
    "EXECUTE q",
    "SELECT * FROM t",
    "DO $$ BEGIN FOR i IN 1 .. 20000 LOOP RAISE NOTICE 'notice % %', i, repeat('x', 100); END LOOP; END $$",
    "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ001'; END $$",
    "SELECT repeat('x', 1000) FROM generate_series(1, 20000)",
    "SELECT generate_series(1, 100000)",
    "FETCH 3 FROM nothing",
    "BEGIN; DECLARE c CURSOR FOR SELECT generate_series(1, 100); FETCH 7 FROM c; FETCH ALL FROM c; COMMIT",
    "CREATE TEMP TABLE made AS SELECT generate_series(1, 9)",
    "DELETE FROM made; DROP TABLE made; VALUES (1), (2)",
    "SHOW server_version",
];

#[test]
fn simple_queries_return_the_results_of_another_client() {
    on_each(|server| {
        let mut traffic = Traffic::new(server);
        traffic.connect(0, 1);
        for text in TEXTS {
            traffic.simple(1, 1, text);
        }
        traffic.disconnect(2, 1);
        let executions = replayed(&mut traffic, &at_full_speed());
        let mut other = connect(server);
        let expected: Vec<Came> = TEXTS.iter().map(|text| asked(&mut other, text)).collect();
        let came = all_that_came(&executions, 1);
        for ((text, came), expected) in TEXTS.iter().zip(&came).zip(&expected) {
            assert_eq!(came, expected, "{text}");
        }
        assert_eq!(came.len(), TEXTS.len());
        assert!(expected.iter().filter(|came| came.is_err()).count() > 8);
    });
}

#[test]
fn statements_prepared_by_sql_and_by_message_share_their_names() {
    on_each(|server| {
        let three = "SELECT $1::text FROM generate_series(1, 3)";
        let mut traffic = Traffic::new(server);
        traffic.connect(0, 1);
        traffic.simple(1, 1, "PREPARE p AS SELECT 1");
        // The name is taken, as it was for the client.
        traffic.execute(2, 1, "p", three, "x");
        traffic.simple(3, 1, "DEALLOCATE p");
        traffic.execute(4, 1, "p", three, "x");
        traffic.simple(5, 1, "EXECUTE p ('y'); SELECT 1");
        traffic.simple(6, 1, "PREPARE p AS SELECT 1");
        traffic.simple(7, 1, "DEALLOCATE p");
        traffic.execute(8, 1, "p", three, "x");
        traffic.simple(9, 1, "DISCARD ALL");
        traffic.execute(10, 1, "p", three, "x");
        traffic.execute(11, 1, "p", "SELECT $1::int", "no number");
        traffic.execute(12, 1, "p", "SELECT $1::int", "5");
        traffic.execute(13, 1, "", three, "x");
        traffic.simple(14, 1, "DEALLOCATE ALL; SELECT 1");
        traffic.execute(15, 1, "p", "SELECT $1::int", "5");
        traffic.disconnect(16, 1);
        let executions = replayed(&mut traffic, &at_full_speed());
        let failed = |code: &str| Err(code.to_owned());
        assert_eq!(
            all_that_came(&executions, 1),
            [
                Ok(0),
                failed("42P05"),
                Ok(0),
                Ok(3),
                Ok(4),
                failed("42P05"),
                Ok(0),
                Ok(3),
                Ok(0),
                Ok(3),
                failed("22P02"),
                Ok(1),
                Ok(3),
                Ok(1),
                Ok(1),
            ]
        );
    });
}

#[test]
fn notifications_do_not_disturb_sessions() {
    on_each(|server| {
        let mut traffic = Traffic::new(server);
        traffic.connect(0, 1);
        traffic.connect(0, 2);
        traffic.simple(50, 1, "LISTEN news");
        traffic.simple(60, 2, "LISTEN news");
        let many =
            "SELECT pg_notify('news', repeat('x', 7000) || i) FROM generate_series(1, 500) i";
        // While the other is idle; while it runs; and a session's own.
        traffic.simple(150, 2, many);
        traffic.simple(400, 1, "SELECT pg_sleep(0.4)");
        traffic.simple(500, 2, many);
        traffic.simple(900, 1, "NOTIFY news, 'own'; SELECT generate_series(1, 3)");
        traffic.simple(1_000, 1, "UNLISTEN *");
        traffic.simple(1_010, 1, "SELECT 1 / 0");
        traffic.simple(1_020, 1, "SELECT 1");
        traffic.disconnect(1_100, 1);
        traffic.disconnect(1_100, 2);
        let executions = replayed(&mut traffic, &Options::default());
        let failed = Err("22012".to_owned());
        assert_eq!(
            all_that_came(&executions, 1),
            [Ok(0), Ok(1), Ok(3), Ok(0), failed, Ok(1)]
        );
        assert_eq!(all_that_came(&executions, 2), [Ok(0), Ok(500), Ok(500)]);
    });
}

fn known(change: impl FnOnce(&mut WireDetails)) -> Option<Arc<WireDetails>> {
    let mut particulars = WireDetails::default();
    change(&mut particulars);
    Some(Arc::new(particulars))
}

fn opened(portal: &str, sql: &str) -> EventKind {
    EventKind::Execute {
        statement: "cursor".into(),
        portal: portal.into(),
        sql: sql.into(),
        parameters: vec![Some("35".into())],
    }
}

fn fetch(portal: &str, sql: &str) -> EventKind {
    EventKind::Fetch {
        statement: "cursor".into(),
        portal: portal.into(),
        sql: sql.into(),
    }
}

const MANY: &str = "SELECT generate_series(1, $1::int)";

#[test]
fn portals_return_the_rows_that_are_asked_for() {
    on_each(|server| {
        let mut traffic = Traffic::new(server);
        traffic.connect(0, 1);
        traffic.simple(1, 1, "BEGIN");
        let ten = known(|known| known.rows_max = Some(10));
        traffic.at(2, 1, opened("c", MANY)).wire_details = ten.clone();
        traffic.at(3, 1, fetch("c", MANY)).wire_details = ten.clone();
        traffic.simple(4, 1, "SELECT 1; SELECT 2");
        traffic.at(5, 1, fetch("c", MANY)).wire_details = ten.clone();
        traffic.at(6, 1, fetch("c", MANY)).wire_details = ten.clone();
        // All of what is left of another.
        traffic.at(7, 1, opened("d", MANY)).wire_details = ten.clone();
        traffic.at(8, 1, fetch("d", MANY)).wire_details = known(|known| known.rows_max = Some(0));
        traffic.simple(9, 1, "COMMIT");
        // Its transaction is over.
        traffic.at(10, 1, fetch("d", MANY)).wire_details = ten;
        traffic.simple(11, 1, "SELECT 1");
        traffic.disconnect(12, 1);
        let executions = replayed(&mut traffic, &at_full_speed());
        let failed = Err("34000".to_owned());
        assert_eq!(
            all_that_came(&executions, 1),
            [
                Ok(0),
                Ok(10),
                Ok(10),
                Ok(2),
                Ok(10),
                Ok(5),
                Ok(10),
                Ok(25),
                Ok(0),
                failed,
                Ok(1),
            ]
        );
    });
}

#[test]
fn fetches_of_a_log_use_the_given_fetch_size() {
    let (_, server) = servers().last().unwrap();
    let mut traffic = Traffic::new(server);
    traffic.connect(0, 1);
    traffic.simple(1, 1, "BEGIN");
    for (at, portal) in [(2, "c"), (4, "")] {
        traffic.at(at, 1, opened(portal, MANY));
        for _ in 0..2 {
            traffic.at(at + 1, 1, fetch(portal, MANY)).unreplayable =
                Some(Unreplayable::PortalFetch);
        }
    }
    traffic.disconnect(6, 1);
    let options = Options {
        fetch_size: Some(20),
        ..at_full_speed()
    };
    let executions = replayed(&mut traffic, &options);
    let skipped = || Err("portal_fetch".to_owned());
    assert_eq!(
        all_that_came(&executions, 1),
        [Ok(0), Ok(20), Ok(15), Ok(0), Ok(35), skipped(), skipped()]
    );
    let executions = replayed(&mut traffic, &at_full_speed());
    let reason = Outcome::Skipped(SkipReason::Unreplayable(Unreplayable::PortalFetch));
    let skipped = statements(&executions)
        .into_iter()
        .filter(|execution| execution.outcome == reason);
    assert_eq!(skipped.count(), 4);
}

/// Rows of a table of numbers and texts, a few MB of them.
fn lines(count: u64) -> Vec<u8> {
    (0..count)
        .flat_map(|number| format!("{number}\t{}\n", "data ".repeat(20)).into_bytes())
        .collect()
}

fn copy_in(data: &[u8], failed: Option<&str>) -> Option<Arc<WireDetails>> {
    known(|known| {
        known.copy = Some(CopyIn {
            data: data.into(),
            failed: failed.map(Into::into),
        });
    })
}

/// Number of rows of the data that COPY can load.
const ROWS: u64 = 40_000;

const COPY: &str = "COPY copied (n, t) FROM STDIN";
const COPY_CANCELLED: &str = "COPY copied (n, t) FROM STDIN -- cancelled";
const COPY_GUARDED: &str = "COPY guarded FROM STDIN";

/// Data of the COPY statements: one can be loaded, the other has an invalid first row.
struct CopyData {
    good: Vec<u8>,
    bad: Vec<u8>,
}

impl CopyData {
    fn new() -> Self {
        let good = lines(ROWS);
        assert!(good.len() > 4_000_000);
        let mut bad = b"no number\tx\n".to_vec();
        bad.extend(&good);
        CopyData { good, bad }
    }

    /// Statements of a session, with the data that they send.
    fn statements(&self) -> Vec<(&'static str, Option<Arc<WireDetails>>)> {
        vec![
            (COPY, copy_in(&self.good, None)),
            ("SELECT generate_series(1, 3)", None),
            (COPY, copy_in(&self.good, Some("the client thought again"))),
            ("SELECT generate_series(1, 4)", None),
            // It was cancelled while its data came.
            (COPY_CANCELLED, copy_in(&self.good, None)),
            ("SELECT generate_series(1, 4)", None),
            // The server does not want most of it.
            (COPY, copy_in(&self.bad, None)),
            ("SELECT generate_series(1, 5)", None),
            // It asks for data, and fails before it has looked at what came.
            (COPY_GUARDED, copy_in(&self.good, None)),
            ("SELECT generate_series(1, 6)", None),
            // It does not even ask.
            ("COPY nowhere FROM STDIN", copy_in(&self.good, None)),
            ("SELECT generate_series(1, 7)", None),
            (COPY, copy_in(b"", None)),
            // Nobody has the data.
            (COPY, None),
            ("COPY copied TO STDOUT", None),
            ("SELECT generate_series(1, 8)", None),
        ]
    }
}

#[test]
fn copy_data_arrive_complete_or_fail_as_captured() {
    let data = CopyData::new();
    on_each(|server| {
        let mut client = connect(server);
        create_copy_tables(&mut client);
        let mut traffic = Traffic::new(server);
        add_copy_session(&mut traffic, 1, simple_kind, &data);
        add_copy_session(&mut traffic, 2, execute_kind, &data);
        let executions = replayed(&mut traffic, &at_full_speed());
        for session in [1, 2] {
            assert_copies_came(&executions, session);
        }
        assert_copied_rows_are_complete(&mut client, &data.good);
    });
}

fn create_copy_tables(client: &mut Client) {
    client
        .batch_execute(
            "DROP TABLE IF EXISTS copied, guarded;
             CREATE TABLE copied (protocol text, n int, t text);
             CREATE TABLE guarded (n int, t text);
             CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ002'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON guarded EXECUTE FUNCTION refuse();
             ALTER TABLE copied ALTER protocol SET DEFAULT 'simple'",
        )
        .unwrap();
}

fn simple_kind(sql: &str) -> EventKind {
    EventKind::Simple { sql: sql.into() }
}

fn execute_kind(sql: &str) -> EventKind {
    EventKind::Execute {
        statement: "".into(),
        portal: "".into(),
        sql: sql.into(),
        parameters: Vec::new(),
    }
}

fn add_copy_session(
    traffic: &mut Traffic,
    session: u64,
    kind: fn(&str) -> EventKind,
    data: &CopyData,
) {
    traffic.connect(0, session);
    for (sql, wire_details) in data.statements() {
        let event = traffic.at(1, session, kind(sql));
        event.wire_details = wire_details;
        if sql == COPY_CANCELLED {
            event.outcome.sqlstate = Some(Sqlstate(*b"57014"));
        }
    }
    traffic.disconnect(900, session);
}

fn assert_copies_came(executions: &[Execution], session: u64) {
    let failed = |code: &str| Err(code.to_owned());
    let came = all_that_came(executions, session);
    let out = came[14].clone();
    assert!(out == Ok(ROWS) || out == Ok(2 * ROWS), "{out:?}");
    assert_eq!(
        came,
        [
            Ok(ROWS),
            Ok(3),
            failed("57014"),
            Ok(4),
            failed("57014"),
            Ok(4),
            failed("22P02"),
            Ok(5),
            failed("ZZ002"),
            Ok(6),
            failed("42P01"),
            Ok(7),
            Ok(0),
            failed("57014"),
            out,
            Ok(8),
        ],
        "session {session}"
    );
}

/// Checks the sums of the rows, which each of the two sessions loaded once.
fn assert_copied_rows_are_complete(client: &mut Client, good: &[u8]) {
    let sums = client
        .query_one("SELECT count(*), sum(n), sum(length(t)) FROM copied", &[])
        .unwrap();
    let texts = good.iter().filter(|byte| **byte == b' ').count() as i64 * 5;
    assert_eq!(sums.get::<_, i64>(0), 2 * ROWS as i64);
    assert_eq!(sums.get::<_, i64>(1), (ROWS * (ROWS - 1)) as i64);
    assert_eq!(sums.get::<_, i64>(2), 2 * texts);
}

fn binary(parts: &[&[u8]]) -> Option<Parameter> {
    Some(Parameter::from(&parts.concat()[..]))
}

#[test]
fn binary_values_arrive_with_their_types() {
    const INT4: u32 = 23;
    const TEXT: u32 = 25;
    const TEXT_ARRAY: u32 = 1009;
    const TIMESTAMPTZ: u32 = 1184;
    let number = |number: u32| number.to_be_bytes();
    let array = binary(&[
        &number(1),
        &number(1),
        &number(TEXT),
        &number(3),
        &number(1),
        &number(1),
        b"a",
        &number(u32::MAX),
        &number(2),
        "ü".as_bytes(),
    ]);
    // 2000-01-01 and a day and a microsecond.
    let time = binary(&[&86_400_000_001_i64.to_be_bytes()]);
    on_each(|server| {
        let mut client = connect(server);
        client
            .batch_execute(
                "DROP TABLE IF EXISTS kept;
                 CREATE TABLE kept (a int, b text[], c timestamptz, d text, e text)",
            )
            .unwrap();
        let mut traffic = Traffic::new(server);
        traffic.connect(0, 1);
        let insert = EventKind::Execute {
            statement: "keep".into(),
            portal: "".into(),
            sql: "INSERT INTO kept VALUES ($1, $2, $3, $4, $5)".into(),
            parameters: vec![
                binary(&[&number(7)]),
                array.clone(),
                time.clone(),
                Some("as text".into()),
                None,
            ],
        };
        let types = vec![INT4, TEXT_ARRAY, TIMESTAMPTZ, 0, TEXT];
        let with_types = known(|known| known.parameter_types = types);
        for _ in 0..2 {
            traffic.at(1, 1, insert.clone()).wire_details = with_types.clone();
        }
        let is_null = |statement: &str| EventKind::Execute {
            statement: statement.into(),
            portal: "".into(),
            sql: "SELECT $1 IS NULL".into(),
            parameters: vec![None],
        };
        // No server can tell, and a log does not know.
        traffic.at(2, 1, is_null(""));
        traffic.at(3, 1, is_null("n")).wire_details = known(|known| {
            known.parameter_types = vec![TEXT];
            known.result_formats = vec![ResultFormat::Binary];
        });
        // Of another type it is another statement.
        traffic.at(4, 1, is_null("n")).wire_details =
            known(|known| known.parameter_types = vec![INT4]);
        let types_of_n = "SELECT 1 FROM pg_prepared_statements
            WHERE name = 'n' AND parameter_types = '{integer}'";
        traffic.simple(5, 1, types_of_n);
        traffic.disconnect(6, 1);
        let executions = replayed(&mut traffic, &at_full_speed());
        assert_eq!(
            all_that_came(&executions, 1),
            [Ok(1), Ok(1), Err("42P18".to_owned()), Ok(1), Ok(1), Ok(1)]
        );
        let kept = client
            .query(
                "SELECT a, b::text, (c AT TIME ZONE 'UTC')::text, d, e IS NULL FROM kept",
                &[],
            )
            .unwrap();
        assert_eq!(kept.len(), 2);
        for row in kept {
            assert_eq!(row.get::<_, i32>(0), 7);
            assert_eq!(row.get::<_, &str>(1), "{a,NULL,ü}");
            assert_eq!(row.get::<_, &str>(2), "2000-01-02 00:00:00.000001");
            assert_eq!(row.get::<_, &str>(3), "as text");
            assert!(row.get::<_, bool>(4));
        }
    });
}

fn encoded(server: &Endpoint, encoding: &str) -> Client {
    let mut client = connect(server);
    for sql in [
        "DROP DATABASE IF EXISTS encoded".to_owned(),
        format!("CREATE DATABASE encoded TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"),
    ] {
        client.simple_query(&sql).unwrap();
    }
    let mut client = Client::connect(&server.url("encoded"), NoTls).unwrap();
    client
        .simple_query("CREATE TABLE t (session int, a text)")
        .unwrap();
    client
}

fn connect_encoded(traffic: &mut Traffic, session: u64) -> &mut workload::Event {
    let kind = EventKind::Connect {
        database: "encoded".into(),
        user: "postgres".into(),
        application: "".into(),
    };
    traffic.at(0, session, kind)
}

/// Each session's bytes, as the database has them.
fn kept(client: &mut Client) -> Vec<(i32, String)> {
    let bytes = "SELECT session, encode(convert_to(a, getdatabaseencoding()), 'hex') FROM t ORDER BY session";
    let rows = client.query(bytes, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn wire_capture_keeps_the_encoding_of_its_bytes() {
    on_each(|server| {
        for (encoding, taken_as_utf8) in [("LATIN1", "e9"), ("SQL_ASCII", "c3a9"), ("UTF8", "c3a9")]
        {
            let mut client = encoded(server, encoding);
            let mut traffic = Traffic::new(server);
            // The encoding that the client requested.
            let said: [&[(&str, &str)]; 4] = [
                &[],
                &[("TimeZone", "UTC")],
                &[("client_encoding", "UTF8")],
                &[("options", "-c client_encoding=UTF8")],
            ];
            for (session, settings) in (1..).zip(said) {
                connect_encoded(&mut traffic, session).wire_details = known(|known| {
                    let settings = settings.iter();
                    known.settings = settings.map(|(n, v)| ((*n).into(), (*v).into())).collect();
                });
                let sql = format!("INSERT INTO t VALUES ({session}, 'é')");
                traffic
                    .at(1, session, EventKind::Simple { sql: sql.into() })
                    .wire_details = known(|_| ());
                traffic.disconnect(2, session);
            }
            replayed(&mut traffic, &at_full_speed());
            let expected = ["c3a9", "c3a9", taken_as_utf8, taken_as_utf8];
            let expected: Vec<_> = (1..).zip(expected.map(str::to_owned)).collect();
            assert_eq!(kept(&mut client), expected, "{encoding}");
        }
    });
}

#[test]
fn log_texts_are_utf_8_in_every_database() {
    let (_, server) = servers().last().unwrap();
    let mut client = encoded(server, "LATIN1");
    let mut traffic = Traffic::new(server);
    connect_encoded(&mut traffic, 1);
    traffic.simple(1, 1, "INSERT INTO t VALUES (1, 'é')");
    traffic.simple(2, 1, "INSERT INTO t VALUES (2, '€')");
    traffic.disconnect(3, 1);
    let (info, executions) = traffic.replay(&at_full_speed(), |_| ());
    let untranslatable = Err("22P05".to_owned());
    assert_eq!(all_that_came(&executions, 1), [Ok(1), untranslatable]);
    assert_eq!(kept(&mut client), [(1, "e9".to_owned())]);
    assert_eq!(info.target.encodings["encoded"], "LATIN1");
}
