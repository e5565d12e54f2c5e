//! `--remap-generated`: the server generates other values in the replay than in the capture.

use postgres::{Client, NoTls};
use replay::Options;
use run::{Execution, Outcome, RunInfo};
use sandbox::Endpoint;
use workload::{Boundary, EventKind, FirstRows, Parameter, ResultFormat, WireDetails};

use crate::traffic::{Traffic, server, statements};

/// The sequence is 5,000 ahead of the capture's.
const TABLES: &str = "DROP TABLE IF EXISTS t;
    CREATE TABLE t (
        id bigint GENERATED ALWAYS AS IDENTITY (START 6001),
        token uuid DEFAULT gen_random_uuid(),
        payload text,
        done text DEFAULT '');";

const INSERT: &str = "INSERT INTO t (payload) VALUES ($1) RETURNING id, token, payload";
const UPDATE: &str = "UPDATE t SET done = done || 'x' WHERE id = $1";
const TOKEN: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";

fn captured(values: Vec<Option<Parameter>>, formats: Vec<ResultFormat>) -> WireDetails {
    let columns = ["id", "token", "payload"];
    WireDetails {
        result_formats: formats,
        first_rows: Some(FirstRows {
            columns: columns.map(Box::from).to_vec(),
            values,
        }),
        ..WireDetails::default()
    }
}

fn texts(id: &str) -> WireDetails {
    let values = [id, TOKEN, "p"].map(|value| Some(Parameter::from(value)));
    captured(values.to_vec(), Vec::new())
}

/// One session inserts and comes back to what it inserted, and so does another one.
fn traffic(server: &Endpoint) -> Traffic {
    Client::connect(&server.url("postgres"), NoTls)
        .unwrap()
        .batch_execute(TABLES)
        .unwrap();
    let mut traffic = Traffic::new(server);
    traffic.connect(0, 1);
    traffic.connect(0, 2);
    traffic.execute(1, 1, "i", INSERT, "p").wire_details = Some(texts("1001").into());
    traffic.execute(300, 2, "u", UPDATE, "1001");
    traffic.execute(300, 1, "u", UPDATE, "1001");
    // Already prepared, and with a number that was not learned.
    traffic.execute(301, 1, "u", UPDATE, "1002");
    let by_token = "UPDATE t SET done = done || 'y' WHERE token = $1";
    traffic.execute(302, 1, "", by_token, TOKEN);
    traffic.disconnect(310, 1);
    traffic.disconnect(310, 2);
    traffic
}

fn options(remap_generated: bool) -> Options {
    Options {
        remap_generated,
        // The row waits on disk, too.
        queue_statements_max: 1,
        ..Options::default()
    }
}

fn rows_of(executions: &[Execution], session: u64) -> Vec<u64> {
    statements(executions)
        .into_iter()
        .filter(|execution| execution.session == session)
        .map(|execution| {
            assert_eq!(execution.outcome, Outcome::Done, "{execution:?}");
            execution.rows
        })
        .collect()
}

fn count<'i>(info: &'i RunInfo, name: &str) -> Option<&'i str> {
    info.options.get(name).map(String::as_str)
}

/// Returns the marks of each row, sorted: two sessions set them.
fn done(server: &Endpoint) -> Vec<(i64, String)> {
    let mut client = Client::connect(&server.url("postgres"), NoTls).unwrap();
    let rows = client.query("SELECT id, done FROM t ORDER BY id", &[]);
    let rows = rows.unwrap();
    let sorted = |marks: &str| {
        let mut marks: Vec<char> = marks.chars().collect();
        marks.sort_unstable();
        marks.into_iter().collect()
    };
    rows.iter()
        .map(|row| (row.get(0), sorted(row.get(1))))
        .collect()
}

#[test]
fn remap_hits_the_row_that_the_replay_made() {
    let (_sandbox, server) = server(&[]);
    let (info, executions) = traffic(&server).replay(&options(true), |_| ());
    assert_eq!(rows_of(&executions, 1), [1, 1, 0, 1]);
    assert_eq!(rows_of(&executions, 2), [1]);
    assert_eq!(done(&server), [(6001, "xxy".to_owned())]);
    assert_eq!(count(&info, "remap_generated"), Some("true"));
    assert_eq!(count(&info, "learnt"), Some("2"));
    assert_eq!(count(&info, "remapped"), Some("3"));

    let (info, executions) = traffic(&server).replay(&options(false), |_| ());
    assert_eq!(rows_of(&executions, 1), [1, 0, 0, 0]);
    assert_eq!(done(&server), [(6001, String::new())]);
    assert_eq!(count(&info, "remap_generated"), None);
    assert_eq!(count(&info, "learnt"), None);
}

#[test]
fn remap_reads_binary_rows_in_pipelines_and_through_reconnects() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = traffic(&server);
    traffic.connect(400, 3);
    // A pipeline, whose second insert is answered after the first.
    for (awaited, id, boundary) in [
        (true, 1001i64, Boundary::Nothing),
        (false, 1002, Boundary::Sync),
    ] {
        let values = vec![
            Some(Parameter::from(&id.to_be_bytes()[..])),
            None,
            Some(Parameter::from(&b"p"[..])),
        ];
        let mut particulars = captured(values, vec![ResultFormat::Binary]);
        particulars.awaited = awaited;
        particulars.boundary = boundary;
        traffic.execute(401, 3, "i", INSERT, "p").wire_details = Some(particulars.into());
    }
    // Rows that are longer than what is read teach nothing, and are no harm.
    let long = "SELECT n, NULL, repeat('x', 100000) FROM generate_series(7001, 7003) n";
    let event = traffic.at(402, 3, EventKind::Simple { sql: long.into() });
    event.wire_details = Some(texts("1003").into());
    // Of several rows the first is read.
    let many = "SELECT n, NULL, NULL FROM generate_series(8001, 8100) n";
    let event = traffic.at(403, 3, EventKind::Simple { sql: many.into() });
    event.wire_details = Some(texts("1004").into());
    // The connection goes, and what was learnt stays.
    let end = "SELECT pg_terminate_backend(pg_backend_pid()) WHERE $1 = '1'";
    traffic.execute(404, 3, "", end, "1");
    let update = traffic.execute(600, 3, "u", UPDATE, "");
    if let EventKind::Execute { parameters, .. } = &mut update.kind {
        *parameters = vec![Some(Parameter::from(&1002i64.to_be_bytes()[..]))];
    }
    traffic.execute(601, 3, "u", UPDATE, "1001");
    for (id, name) in [("1003", "a"), ("1004", "b")] {
        let sql = format!("SELECT generate_series(8000, $1::int) AS {name}");
        traffic.execute(602, 3, "", &sql, id);
    }
    traffic.disconnect(610, 3);
    let (info, executions) = traffic.replay(&options(true), |_| ());
    let rows: Vec<u64> = statements(&executions)
        .into_iter()
        .filter(|execution| execution.session == 3)
        .map(|execution| execution.rows)
        .collect();
    // 1003 is sent as it was, 1004 as 8001.
    assert_eq!(rows, [1, 1, 3, 100, 0, 1, 1, 0, 2]);
    let expected = [(6001, "xxy"), (6002, "x"), (6003, "x")];
    assert_eq!(
        done(&server),
        expected.map(|(id, done)| (id, done.to_owned()))
    );
    assert_eq!(count(&info, "learnt"), Some("5"));
    assert_eq!(count(&info, "remapped"), Some("6"));
    assert_eq!(info.connections_reopened, 1);
}
