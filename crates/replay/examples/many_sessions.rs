//! Memory of many sessions at once, against a stub of a server in a process of its own.
//!
//! ```text
//! cargo run --release -p replay --example many_sessions -- 10000
//! cargo run --release -p replay --example many_sessions -- 10000 tls
//! ```
//!
//! Every session connects, sends two statements some seconds apart, one simple and one prepared, and
//! ends. Prints the resident memory of this process before, and at its most while all are open.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clock::{Clock, SystemClock};
use replay::{Observer, Options, Snapshot, Target, check_target};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use workload::{
    Event, EventKind, NoRedaction, Outcome, Provenance, Session, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

/// How long all are open.
const OPEN_US: i64 = 12_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let argument = arguments.next().ok_or("give the number of sessions")?;
    let tls = match arguments.next().as_deref() {
        None => false,
        Some("tls") => true,
        Some(other) => return Err(format!("{other}: behind the number may stand tls").into()),
    };
    if argument == "stub" {
        return stub(tls);
    }
    let sessions: u64 = argument.parse()?;
    let mut server = Command::new(std::env::current_exe()?)
        .arg("stub")
        .args(tls.then_some("tls"))
        .stdout(Stdio::piped())
        .spawn()?;
    let mut port = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut port)?;
    let sslmode = if tls { "require" } else { "disable" };
    let result = replay(sessions, port.trim(), sslmode);
    server.kill()?;
    server.wait()?;
    result
}

struct Watching {
    most_open: u64,
    resident_at_most: u64,
}

impl Observer for Watching {
    fn on_progress(&mut self, snapshot: &Snapshot) {
        if snapshot.sessions_open >= self.most_open {
            self.most_open = snapshot.sessions_open;
            self.resident_at_most = self.resident_at_most.max(resident_kib());
        }
    }

    fn should_stop(&mut self) -> bool {
        false
    }
}

/// This process's resident memory in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn replay(sessions: u64, port: &str, sslmode: &str) -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("many.workload");
    write(&path, sessions)?;
    let reader = WorkloadReader::open(&path)?;
    let target = Target::parse(
        &format!("postgres://stub@127.0.0.1:{port}/stub?sslmode={sslmode}"),
        |_| None,
    )?;
    let options = Options::default();
    let info = check_target(&reader, &target, &options.logins)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let before = resident_kib();
    let mut watching = Watching {
        most_open: 0,
        resident_at_most: 0,
    };
    let run = replay::replay(
        &reader,
        &target,
        info,
        &options,
        &directory.path().join("many.run"),
        &clock,
        &mut watching,
    )?;
    let grown = watching.resident_at_most.saturating_sub(before);
    println!(
        "{sessions} sessions, sslmode {sslmode}: {} open at once, {} of {} statements done; {before} KiB before, {} KiB with all, {:.1} KiB each",
        watching.most_open,
        run.done,
        run.statements,
        watching.resident_at_most,
        grown as f64 / watching.most_open as f64,
    );
    Ok(())
}

fn write(path: &std::path::Path, sessions: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = WorkloadWriter::create(path, WriterOptions::default(), NoRedaction)?;
    let mut events: Vec<(i64, u64, u64, EventKind)> = Vec::new();
    for session in 0..sessions {
        let at_us = session as i64 * 5_000_000 / sessions as i64;
        let simple = "SELECT a FROM t WHERE id = 1".into();
        let kinds = [
            (
                0,
                EventKind::Connect {
                    database: "stub".into(),
                    user: "stub".into(),
                    application: "many".into(),
                },
            ),
            (1_000_000, EventKind::Simple { sql: simple }),
            (
                8_000_000,
                EventKind::Execute {
                    statement: "s".into(),
                    portal: "".into(),
                    sql: "SELECT b FROM t WHERE id = $1".into(),
                    parameters: vec![Some("1".into())],
                },
            ),
            (OPEN_US, EventKind::Disconnect),
        ];
        for (sequence, (behind_us, kind)) in (0..).zip(kinds) {
            events.push((at_us + behind_us, session, sequence, kind));
        }
    }
    events.sort_by_key(|(due_us, session, sequence, _)| (*due_us, *session, *sequence));
    for (due_us, session, sequence, kind) in events {
        let event = Event {
            session,
            sequence,
            due_us,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        };
        writer.event(&event.borrowed())?;
    }
    for id in 0..sessions {
        writer.session(Session {
            id,
            database: "stub".into(),
            user: "stub".into(),
            application: "many".into(),
            client: "".into(),
            start_us: 0,
            end_us: OPEN_US,
            start_seen: true,
            end_seen: true,
            statements: 2,
        })?;
    }
    writer.finish(Provenance::default())?;
    Ok(())
}

/// First message of a client that asks for TLS (`SSLRequest`).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Stub server that sends the answers a replay needs, with one thread per connection.
fn stub(tls: bool) -> Result<(), Box<dyn std::error::Error>> {
    let config = match tls {
        true => Some(Arc::new(certified()?)),
        false => None,
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept()?;
        let config = config.clone();
        std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || accept(stream, config).ok())?;
    }
}

/// With a certificate of its own making.
fn certified() -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)?;
    Ok(config)
}

fn accept(mut stream: TcpStream, config: Option<Arc<ServerConfig>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(config) = config else {
        return serve(stream);
    };
    let mut first = [0; 8];
    stream.read_exact(&mut first)?;
    if first != SSL_REQUEST {
        return Err(io::Error::other("no request for TLS"));
    }
    stream.write_all(b"S")?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    serve(StreamOwned::new(connection, stream))
}

fn serve(mut stream: impl Read + Write) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut startup)?;
    // AuthenticationOk, ParameterStatus, BackendKeyData, ReadyForQuery.
    stream.write_all(
        b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0015.0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I",
    )?;
    loop {
        let mut header = [0; 5];
        stream.read_exact(&mut header)?;
        let bytes = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        let mut body = vec![0; bytes as usize - 4];
        stream.read_exact(&mut body)?;
        match header[0] {
            b'Q' => stream.write_all(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I")?,
            // ParseComplete, BindComplete, NoData, CommandComplete, ReadyForQuery.
            b'S' => stream
                .write_all(b"1\0\0\0\x042\0\0\0\x04n\0\0\0\x04C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I")?,
            b'X' => return Ok(()),
            _ => {}
        }
    }
}
