//! Captures the same traffic five times: through the proxy, by probes in the server, from a packet file, and
//! from the server's logs in stderr and csvlog. All have the same statements, in the same order within each session. The
//! captures from the wire also have the same rows, bytes and times.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use test_support::CaptureAttach;
use workload::{Event, EventKind, WorkloadReader};

use super::*;

/// Returns whether packets can be captured, as REHEARSE_TEST_PACKETS tells.
fn has_packets() -> bool {
    std::env::var_os("REHEARSE_TEST_PACKETS").is_some()
}

fn rehearse(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

/// Program that is interrupted and awaited.
struct Running(Child);

impl Running {
    fn end(mut self) {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(killed.success());
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program, and waits for a line that contains this word.
fn start(command: &mut Command, word: &str) -> (Running, String) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let line = said.find_map(|line| line.ok().filter(|line| line.contains(word)));
    let line = line.unwrap_or_else(|| panic!("it never said '{word}'"));
    // What it says later must have somewhere to go.
    std::thread::spawn(move || said.for_each(drop));
    (running, line)
}

/// Attaches to a server, if this host allows that.
fn attach(server: &Endpoint, output: &Path) -> Option<CaptureAttach> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command
        .args(["capture", "attach", "--checksum-results", "rows", "--port"])
        .arg(server.port.to_string())
        .arg("-o")
        .arg(output);
    CaptureAttach::start(&mut command)
}

fn proxy(upstream: &Endpoint, parameters: &str, output: &Path) -> (Running, Endpoint) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command
        .args(["capture", "proxy", "--listen", "127.0.0.1:0"])
        .args(["--checksum-results", "rows", "--upstream"])
        .arg(format!("{}{parameters}", upstream.url("postgres")))
        .arg("-o")
        .arg(output);
    let (running, line) = start(&mut command, "listening at");
    let address = line.split("listening at ").nth(1).unwrap();
    let address = address.split(',').next().unwrap();
    let port = address.rsplit(':').next().unwrap().trim();
    let endpoint = Endpoint {
        port: port.parse().unwrap(),
        ..upstream.clone()
    };
    (running, endpoint)
}

/// Returns each session's events by its application.
fn sessions(path: &Path) -> BTreeMap<String, Vec<Event>> {
    let reader = WorkloadReader::open(path).unwrap();
    reader.verify().unwrap();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut sessions: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for item in reader.events().unwrap() {
        let (event, _) = item.unwrap();
        if let EventKind::Connect { application, .. } = &event.kind {
            names.insert(event.session, application.to_string());
        }
        let name = &names[&event.session];
        sessions.entry(name.clone()).or_default().push(event);
    }
    sessions.remove("control");
    sessions
}

/// Returns the facts about a session's statements that are in both a log and the packets. The log has values
/// as text, the packets in the form that the client chose. Their number and the NULLs are the same.
fn asked(events: &[Event]) -> Vec<String> {
    let statements = events.iter().filter(|event| {
        // A log shows what was prepared and used only with its use.
        let unused = matches!(event.kind, EventKind::Prepare { .. });
        event.kind.is_statement() && (!unused || event.outcome.sqlstate.is_some())
    });
    statements
        .map(|event| {
            let values = match &event.kind {
                // Of a failed one the server does not always log them.
                EventKind::Execute { parameters, .. } if event.outcome.sqlstate.is_none() => {
                    let null = |value: &Option<_>| if value.is_none() { 'n' } else { 'v' };
                    parameters.iter().map(null).collect()
                }
                _ => String::new(),
            };
            let sql = event.kind.sql().unwrap();
            let sqlstate = event.outcome.sqlstate;
            // A log does not say in which protocol a statement came that did not parse.
            let kind = match sqlstate {
                Some(_) => "failed",
                None => event.kind.name(),
            };
            format!("{kind} {sql} {values} {sqlstate:?}")
        })
        .collect()
}

/// Captures from all sources, without TLS between the proxy and the server or with it. Packets with TLS cannot be read.
fn all_sources(major: u16, has_tls: bool) {
    let builder = server(major).tcp();
    let (builder, parameters) = match has_tls {
        true => (builder.tls(), "?sslmode=require"),
        false => (builder, "?sslmode=disable"),
    };
    let mut server = builder.create();
    let has_packets = has_packets() && !has_tls;
    let endpoint = server.start().unwrap();
    let logs = server.data_dir().join("log");
    control(&endpoint).batch_execute(script::SCHEMA).unwrap();
    let mixture = &mixture::ALL[0];
    set(&endpoint, mixture, &logs);
    let directory = tempfile::tempdir().unwrap();
    let [proxied, attached, packets] = ["proxied", "attached", "packets"]
        .map(|name| directory.path().join(format!("{name}.workload")));
    let file = directory.path().join("packets.pcap");
    let tcpdump = has_packets.then(|| {
        let mut command = Command::new("tcpdump");
        // As whom it runs must not decide whether it may write the file.
        command
            .args([
                "-i", "lo", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w",
            ])
            .arg(&file)
            .arg(format!("tcp port {}", endpoint.port));
        start(&mut command, "listening on").0
    });
    let attach = attach(&endpoint, &attached);
    let (proxy, through) = proxy(&endpoint, parameters, &proxied);
    let driven = drive(&through);
    over(&endpoint, mixture, &logs, driven.len());
    proxy.end();
    let is_attached = attach.is_some();
    if let Some(attach) = attach {
        let (code, account) = attach.interrupt();
        assert_eq!(code, Some(0), "{account}");
    }
    if let Some(tcpdump) = tcpdump {
        // Packets are delivered a little later than they are captured.
        std::thread::sleep(Duration::from_millis(1_500));
        tcpdump.end();
    }
    server.stop(Stop::Fast).unwrap();
    let (proxied, attached) = (sessions(&proxied), is_attached.then(|| sessions(&attached)));
    assert_eq!(proxied.len(), driven.len());
    for extension in ["log", "csv"] {
        let log = logs.join(format!("{}.{extension}", mixture.name));
        let logged = directory.path().join(format!("{extension}.workload"));
        let output = logged.to_str().unwrap();
        rehearse(&["capture", "log", log.to_str().unwrap(), "-o", output]);
        let logged = sessions(&logged);
        for wire in [Some(&proxied), attached.as_ref()].into_iter().flatten() {
            same_in_log(wire, &logged, &driven);
        }
    }
    if let Some(attached) = &attached {
        // The server reads what a client sent too early only after its answer.
        same_on_the_wire(&proxied, attached);
    }
    if has_packets {
        let port = endpoint.port.to_string();
        let (file, output) = (file.to_str().unwrap(), packets.to_str().unwrap());
        let capture = ["capture", "pcap", "--checksum-results", "rows", file];
        rehearse(&[&capture[..], &["--port", &port, "-o", output]].concat());
        let (mut apart_us, raced) = same_on_the_wire(&proxied, &sessions(&packets));
        assert!(raced * 20 < apart_us.len() as u64, "{raced}");
        // A thread that waits for a processor is late: nearly all are as near as they must be.
        apart_us.sort_unstable();
        let most = apart_us[apart_us.len() / 2];
        assert!(most <= 1_000, "{most} µs apart");
    }
}

/// Checks that a capture from the wire and one of a log have the same statements of each session, in the same order.
fn same_in_log(
    wire: &BTreeMap<String, Vec<Event>>,
    logged: &BTreeMap<String, Vec<Event>>,
    driven: &[Session],
) {
    let mut compared = 0;
    for session in driven {
        let name = &session.application;
        let (wire, log) = (asked(&wire[name]), asked(&logged[name]));
        compared += wire.len();
        let differ = wire.iter().zip(&log).position(|(one, other)| one != other);
        let from = differ.unwrap_or(wire.len().min(log.len()));
        let differs = (wire.get(from), log.get(from));
        assert_eq!(differs, (None, None), "{name}: from statement {from} on");
    }
    assert!(compared > 300, "{compared}");
}

/// Checks that the proxy and another source recorded the same bytes. Returns how far their times are apart, in
/// microseconds, and how many requests only one of them saw after the reply.
fn same_on_the_wire(
    proxied: &BTreeMap<String, Vec<Event>>,
    packets: &BTreeMap<String, Vec<Event>>,
) -> (Vec<i64>, u64) {
    assert_eq!(
        proxied.keys().collect::<Vec<_>>(),
        packets.keys().collect::<Vec<_>>()
    );
    let mut apart_us = Vec::new();
    let mut raced = 0;
    for (name, events) in proxied {
        let others = &packets[name];
        assert_eq!(events.len(), others.len(), "{name}");
        let start_us = events[0].due_us - others[0].due_us;
        for (one, other) in events.iter().zip(others) {
            // A client that does not wait may send before the reply is seen in one place, and after it in
            // the other.
            let mut particulars = other.wire_details.as_deref().cloned();
            if let (Some(known), Some(awaited)) = (
                &mut particulars,
                one.wire_details.as_ref().map(|known| known.awaited),
            ) {
                raced += u64::from(known.awaited != awaited);
                known.awaited = awaited;
            }
            // Which machine's clock was first is not the point, nor are packets' numbers.
            let like = Event {
                session: one.session,
                due_us: one.due_us,
                line: one.line,
                outcome: workload::Outcome {
                    duration_us: one.outcome.duration_us,
                    ..other.outcome
                },
                wire_details: particulars.map(Into::into),
                ..other.clone()
            };
            assert_eq!(one, &like, "{name}");
            apart_us.push((one.due_us - other.due_us - start_us).abs());
        }
    }
    (apart_us, raced)
}

#[test]
fn all_sources_of_version_15_are_the_same() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    all_sources(15, false);
}

#[test]
fn all_sources_of_version_18_are_the_same() {
    all_sources(18, false);
}

#[test]
fn all_sources_of_version_13_are_the_same() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    all_sources(13, false);
}

#[test]
fn all_sources_with_tls_are_the_same() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    for major in [13, 15, 18] {
        all_sources(major, true);
    }
}
