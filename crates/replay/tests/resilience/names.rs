//! Names of statements that were taken or not prepared: a failure of the capture is repeated, so that its
//! transaction is rolled back as well.

use postgres::{Client, NoTls};
use replay::Options;
use sandbox::Endpoint;
use workload::{Boundary, EventKind, Sqlstate, Unreplayable, WireDetails};

use crate::traffic::{Traffic, server, statements};

/// Events of one session as a capture from the wire has them.
struct Wire(Traffic);

impl Wire {
    fn sent(&mut self, kind: EventKind, boundary: Boundary, code: Option<&[u8; 5]>) -> &mut Self {
        let event = self.0.at(1, 1, kind);
        event.outcome.sqlstate = code.map(|code| Sqlstate(*code));
        let particulars = WireDetails {
            boundary,
            rows_max: Some(0),
            ..WireDetails::default()
        };
        event.wire_details = Some(particulars.into());
        self
    }

    fn text(&mut self, sql: &str) -> &mut Self {
        self.sent(EventKind::Simple { sql: sql.into() }, Boundary::Sync, None)
    }

    fn prepare(&mut self, name: &str, sql: &str, code: Option<&[u8; 5]>) -> &mut Self {
        let kind = EventKind::Prepare {
            statement: name.into(),
            sql: sql.into(),
        };
        self.sent(kind, Boundary::Sync, code)
    }

    fn execute(&mut self, name: &str, sql: &str, code: Option<&[u8; 5]>) -> &mut Self {
        self.sent(executed(name, sql), Boundary::Sync, code)
    }
}

fn executed(name: &str, sql: &str) -> EventKind {
    EventKind::Execute {
        statement: name.into(),
        portal: "".into(),
        sql: sql.into(),
        parameters: Vec::new(),
    }
}

fn insert(n: i32) -> String {
    format!("INSERT INTO t VALUES ({n})")
}

fn rows(server: &Endpoint) -> Vec<i32> {
    let mut client = Client::connect(&server.url("postgres"), NoTls).unwrap();
    let rows = client.query("SELECT n FROM t ORDER BY n", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn failed_statement_name_fails_with_its_transaction() {
    const TAKEN: Option<&[u8; 5]> = Some(b"42P05");
    const UNKNOWN: Option<&[u8; 5]> = Some(b"26000");
    let (_sandbox, server) = server(&[]);
    Client::connect(&server.url("postgres"), NoTls)
        .unwrap()
        .batch_execute("CREATE TABLE t (n int PRIMARY KEY)")
        .unwrap();
    let mut wire = Wire(Traffic::new(&server));
    wire.0.connect(0, 1);
    let mut expected = Vec::new();
    // The same text again, with and without an execution; other text; and where the replay has not
    // prepared the name.
    wire.prepare("x", "SELECT 1", None);
    expected.extend([""]);
    let taken: [fn(&mut Wire); 4] = [
        |wire| _ = wire.execute("x", "SELECT 1", TAKEN),
        |wire| _ = wire.prepare("x", "SELECT 1", TAKEN),
        |wire| _ = wire.prepare("x", "SELECT 2", TAKEN),
        |wire| _ = wire.prepare("from before", "SELECT 2", TAKEN),
    ];
    for (n, take) in (10..).zip(taken) {
        wire.text("BEGIN").text(&insert(n));
        take(&mut wire);
        wire.text("COMMIT").execute("x", "SELECT 1", None);
        expected.extend(["", "", "42P05", "", ""]);
    }
    // A Parse that was passed over.
    wire.sent(
        executed("", "SELECT 1/0"),
        Boundary::Nothing,
        Some(b"22012"),
    );
    wire.sent(executed("y", &insert(20)), Boundary::Sync, None);
    expected.extend(["22012", "pipeline_aborted"]);
    let unknown: [fn(&mut Wire); 4] = [
        |wire| _ = wire.execute("y", &insert(21), UNKNOWN),
        // The unnamed one is that of another text here.
        |wire| _ = wire.execute("", &insert(22), UNKNOWN),
        // Of a name that it had never seen, a capture has no text.
        |wire| {
            wire.execute("z", "", UNKNOWN);
            wire.0.last().unreplayable = Some(Unreplayable::StatementUnknown);
        },
        |wire| {
            let fetch = EventKind::Fetch {
                statement: "".into(),
                portal: "closed".into(),
                sql: "".into(),
            };
            wire.sent(fetch, Boundary::Sync, Some(b"34000"));
            wire.0.last().unreplayable = Some(Unreplayable::StatementUnknown);
        },
    ];
    for (n, bind) in (30..).zip(unknown) {
        wire.text("BEGIN").text(&insert(n));
        wire.execute("", &insert(n + 10), None);
        bind(&mut wire);
        wire.text("COMMIT");
        let code = if n == 33 { "34000" } else { "26000" };
        expected.extend(["", "", "", code, ""]);
    }
    wire.execute("y", &insert(50), None);
    wire.text("DEALLOCATE y; BEGIN").text(&insert(51));
    wire.execute("y", &insert(52), UNKNOWN).text("COMMIT");
    wire.execute("y", &insert(53), None);
    expected.extend(["", "", "", "26000", "", ""]);
    wire.0.disconnect(2, 1);
    for connections_max in [None, Some(1)] {
        let options = Options {
            connections_max,
            ..Options::default()
        };
        let (_, executions) = wire.0.replay(&options, |_| ());
        let came: Vec<String> = statements(&executions)
            .iter()
            .map(|execution| match execution.outcome {
                run::Outcome::Done => String::new(),
                run::Outcome::Failed(sqlstate) => sqlstate.to_string(),
                run::Outcome::Skipped(reason) => reason.name().to_owned(),
            })
            .collect();
        assert_eq!(came, expected);
        assert_eq!(rows(&server), [50, 53]);
        Client::connect(&server.url("postgres"), NoTls)
            .unwrap()
            .batch_execute("TRUNCATE t")
            .unwrap();
    }
}
