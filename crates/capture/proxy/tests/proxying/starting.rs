//! Tests how connections begin, how a proxy ends them, and what is recorded between a start and a
//! stop.

use std::time::Duration;

use protocol::frontend::StartupPacket;
use transform::SecretRedactor;
use workload::{
    EventKind, EventRef, Provenance, ServerEvent, Session, WorkloadInfo, WorkloadReader,
    WorkloadWriter, WriterOptions,
};

use capture_proxy::Recording;
use capture_sink::{EventSink, SinkError};

use super::raw::Raw;
use super::recordings::{RecordingStore, Wish, server, until};

#[test]
fn an_upstream_that_is_not_there_is_told_in_libpqs_words() {
    // A port that was free a moment ago, a missing socket and an unknown name, and the first two
    // of them together.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let port = address.port();
    // The messages of psql 15.
    let refused = format!(
        "connection to server at \"127.0.0.1\", port {port} failed: Connection refused\n\
         \tIs the server running on that host and accepting TCP/IP connections?"
    );
    let missing = format!(
        "connection to server on socket \"/nowhere/at/all/.s.PGSQL.{port}\" failed: No such file or directory\n\
         \tIs the server running locally and accepting connections on that socket?"
    );
    for (upstream, says) in [
        (format!("postgres://{address}"), refused.clone()),
        (format!("host=/nowhere/at/all port={port}"), missing.clone()),
        (
            "host=nobody.invalid".to_owned(),
            "could not translate host name \"nobody.invalid\" to address: ".to_owned(),
        ),
        (
            format!("host=127.0.0.1,/nowhere/at/all port={port}"),
            format!("{refused}\n{missing}"),
        ),
    ] {
        let proxy = Wish::to(&upstream).start(RecordingStore::default().opening());
        let mut client = Raw::connect(proxy.address());
        assert_eq!(client.ask(StartupPacket::SslRequest), b'N');
        assert_eq!(client.ask(StartupPacket::GssEncRequest), b'N');
        client.begin("a", &[]);
        let (tag, body) = client.next().unwrap();
        let decoded = protocol::backend::Message::decode(tag, &body).unwrap();
        let protocol::backend::Message::ErrorResponse(error) = decoded else {
            panic!("{decoded:?}")
        };
        assert_eq!(error.sqlstate(), Some(*b"57P03"));
        let message = error.message().unwrap();
        match says.ends_with(' ') {
            // The reason depends on the resolver.
            true => assert!(message.starts_with(&says), "{message}"),
            false => assert_eq!(message, says),
        }
        assert_eq!(client.next(), None);
        assert_eq!(proxy.end().refused, 1);
    }
}

#[test]
fn what_no_server_would_take_is_closed() {
    let proxy = Wish::to(&server(18).url("postgres")).start(RecordingStore::default().opening());
    let stuffed = b"\0\0\0\x08\x04\xd2\x16\x2fwhat stands behind it".as_slice();
    for said in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        stuffed,
        b"\x16\x03\x01",
    ] {
        let mut client = Raw::connect(proxy.address());
        client.send(said);
        let mut answer = Vec::new();
        // Closed with unread bytes, the connection may be reset.
        let _ = std::io::Read::read_to_end(&mut client, &mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    // The server itself refuses an unknown version of the protocol.
    let mut old = Raw::connect(proxy.address());
    old.send(b"\0\0\0\x0d\0\x02\0\0user\0");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut old, &mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("unsupported frontend protocol"));
}

#[test]
fn a_recording_has_what_was_sent_while_it_was_made_and_what_was_prepared_before() {
    let kept = RecordingStore::default();
    let proxy = Wish::to(&server(18).url("postgres")).start(kept.opening());
    let mut client = proxy.client();
    let prepared = client.prepare("SELECT $1::int + 1").unwrap();
    client.batch_execute("SELECT 'before'").unwrap();
    let control = proxy.proxy().control();
    assert!(control.stop_recording().is_err());
    assert_eq!(control.start_recording().unwrap(), "1.workload");
    assert!(control.start_recording().unwrap_err().contains("already"));
    client.query_one(&prepared, &[&1]).unwrap();
    client.batch_execute("SELECT 'while'").unwrap();
    assert_eq!(control.stop_recording().unwrap(), "1.workload");
    client.batch_execute("SELECT 'after'").unwrap();
    // All of it was recorded when the stop was answered.
    let statements = kept.statements();
    assert!(
        statements.contains(&"SELECT 'while'".to_owned()),
        "{statements:?}"
    );
    assert!(
        statements.contains(&"SELECT $1::int + 1".to_owned()),
        "{statements:?}"
    );
    for absent in ["SELECT 'before'", "SELECT 'after'"] {
        assert!(!statements.contains(&absent.to_owned()), "{statements:?}");
    }
    assert_eq!(control.start_recording().unwrap(), "2.workload");
    client.batch_execute("SELECT 'again'").unwrap();
    drop(client);
    let status = proxy.end();
    let names: Vec<&str> = status
        .capture
        .finished
        .iter()
        .map(|finished| finished.name.as_str())
        .collect();
    assert_eq!(names, ["1.workload", "2.workload"]);
    let provenances = kept.provenances.lock().unwrap();
    assert_eq!(provenances[0].source_kind, "proxy");
    assert_eq!(provenances[1].reconciliation["lost_bytes"], 0);
    assert!(kept.statements().contains(&"SELECT 'again'".to_owned()));
}

#[test]
fn what_is_idle_is_closed_at_the_end_and_a_transaction_may_come_to_its_own() {
    let proxy = Wish::to(&server(18).url("postgres")).start(RecordingStore::default().opening());
    let mut idle = Raw::connect(proxy.address());
    idle.begin_as_superuser(&[]);
    let mut busy = Raw::connect(proxy.address());
    busy.begin_as_superuser(&[]);
    busy.query("BEGIN");
    busy.until_ready();
    // It sends nothing, as a health check does.
    let mut silent = Raw::connect(proxy.address());
    until("all are there", || proxy.proxy().status().connections == 3);
    proxy.proxy().drain();
    let (tag, body) = idle.next().unwrap();
    assert_eq!(tag, b'E');
    assert!(String::from_utf8_lossy(&body).contains("57P01"));
    assert_eq!(idle.next(), None);
    assert_eq!(std::io::Read::read(&mut silent, &mut [0; 1]).unwrap(), 0);
    std::thread::sleep(Duration::from_millis(50));
    busy.query("SELECT 1");
    let answer = busy.until_ready();
    assert_eq!(answer.last().unwrap().1, b"T");
    busy.query("COMMIT");
    let answer = busy.until_ready();
    assert_eq!(answer.last().unwrap().1, b"I");
    let (tag, body) = busy.next().unwrap();
    assert_eq!(tag, b'E');
    assert!(String::from_utf8_lossy(&body).contains("57P01"));
    until("all are gone", || proxy.proxy().status().connections == 0);
    assert!(std::net::TcpStream::connect(proxy.address()).is_err());
}

/// A recording that writes a workload.
struct Written(String, WorkloadWriter);

impl EventSink for Written {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        EventSink::event(&mut self.1, event)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        EventSink::session(&mut self.1, session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        EventSink::server_event(&mut self.1, event)
    }
}

impl Recording for Written {
    fn name(&self) -> String {
        self.0.clone()
    }

    fn checkpoint(&mut self, up_to_us: i64) -> Result<(), SinkError> {
        self.1.checkpoint(up_to_us).map_err(SinkError::new)
    }

    fn finish(self: Box<Self>, provenance: Provenance) -> Result<WorkloadInfo, SinkError> {
        self.1.finish(provenance).map_err(SinkError::new)
    }
}

#[test]
fn a_workload_holds_what_was_sent_and_what_came_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let name = path.display().to_string();
    let made = path.clone();
    let proxy = Wish::to(&server(18).url("postgres")).start(Box::new(move |_, _| {
        let writer =
            WorkloadWriter::create(&made, WriterOptions::default(), SecretRedactor::default())
                .map_err(SinkError::new)?;
        Ok(Box::new(Written(name.clone(), writer)))
    }));
    proxy.record();
    let mut client = proxy.client();
    client.batch_execute("CREATE TABLE held (a int)").unwrap();
    client
        .execute("INSERT INTO held SELECT generate_series(1, $1::int)", &[&7])
        .unwrap();
    let rows = client.query("SELECT a FROM held", &[]).unwrap();
    assert_eq!(rows.len(), 7);
    assert!(client.batch_execute("SELECT 1 / 0").is_err());
    drop(client);
    proxy.end();
    let reader = WorkloadReader::open(&path).unwrap();
    assert_eq!(reader.info().provenance.source_kind, "proxy");
    let mut told = Vec::new();
    for event in reader.events().unwrap() {
        let (event, _) = event.unwrap();
        let rows = event.outcome.rows;
        match (&event.kind, event.kind.sql()) {
            (EventKind::Connect { user, .. }, _) => told.push(format!("connect {user}")),
            (EventKind::Disconnect, _) => told.push("disconnect".to_owned()),
            (_, Some(sql)) => {
                let failed = event.outcome.sqlstate.map(|code| format!(" {code}"));
                let failed = failed.unwrap_or_default();
                told.push(format!("{sql}: {rows:?}{failed}"));
            }
            _ => {}
        }
    }
    assert_eq!(
        told,
        [
            "connect postgres",
            "CREATE TABLE held (a int): None",
            // Prepared, and executed.
            "INSERT INTO held SELECT generate_series(1, $1::int): None",
            "INSERT INTO held SELECT generate_series(1, $1::int): Some(7)",
            "SELECT a FROM held: None",
            "SELECT a FROM held: Some(7)",
            "SELECT 1 / 0: None 22012",
            "disconnect"
        ]
    );
}
