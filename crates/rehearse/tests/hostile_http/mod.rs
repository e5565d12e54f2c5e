//! Requests that a listener must refuse or tolerate, without effect on the rest of the program.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);
/// More connections than a listener keeps open.
const SLOW_CLIENTS: usize = 200;

/// Sends hostile requests to a listener that answers a GET of this path with 200, and checks that each is refused
/// and that the next client is served.
pub fn assert_survived(address: &str, path: &str) {
    let mut wrong = Vec::new();
    for (name, request, expected) in refused_requests(address, path) {
        let (status, answer) = exchange(address, &request);
        if !expected.contains(&status) {
            wrong.push(format!("{name}: {status:?}, not {expected:?}: {answer}"));
        }
        assert_eq!(get(address, path), Some(200), "after {name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_pipelined_requests_are_answered(address, path);
    assert_slow_clients_shut_out_nobody(address, path);
}

/// The status of an answer; `None` if the connection was closed without one.
type Status = Option<u16>;

/// Names, requests, and the statuses that they may be answered with.
fn refused_requests(address: &str, path: &str) -> Vec<(String, Vec<u8>, Vec<Status>)> {
    let mut cases = Vec::new();
    let mut add = |name: &str, request: String, expected: &[Status]| {
        cases.push((name.to_owned(), request.into_bytes(), expected.to_vec()));
    };
    let post = |headers: &str, body: &str| {
        format!("POST /nope HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n\r\n{body}")
    };
    let get = |headers: &str| format!("GET {path} HTTP/1.1\r\n{headers}\r\n\r\n");
    let own = format!("Host: {address}");

    for (length, expected) in [
        ("99999999999999", 413),
        ("18446744073709551613", 413),
        ("18446744073709551615", 431),
        ("99999999999999999999999", 400),
        ("-1", 400),
    ] {
        let header = format!("Content-Length: {length}");
        add(&header, post(&header, "abc"), &[Some(expected)]);
    }
    let two = "Content-Length: 3\r\nContent-Length: 4";
    add("two lengths", post(two, "abc"), &[Some(400)]);
    add("a body", post("Content-Length: 3", "abc"), &[Some(413)]);
    let large = "x".repeat(1 << 20);
    let header = format!("Content-Length: {}", large.len());
    // What was not read may reset the connection before the answer is seen.
    add("a large body", post(&header, &large), &[Some(413), None]);
    let chunked = "Transfer-Encoding: chunked";
    for body in ["zz\r\n", "ffffffffffffffffff\r\nabc", "-1\r\n", "3\r\nab"] {
        add(
            &format!("chunks {body:?}"),
            post(chunked, body),
            &[Some(413)],
        );
    }
    let both = format!("{chunked}\r\nContent-Length: 3");
    add(
        "chunks with a length",
        post(&both, "abc"),
        &[Some(413), Some(400)],
    );
    add(
        "another coding",
        post("Transfer-Encoding: gzip", ""),
        &[Some(400)],
    );

    let long = "a".repeat(20 << 10);
    add(
        "a long header",
        get(&format!("{own}\r\nX: {long}")),
        &[Some(431)],
    );
    let longer = "a".repeat(10 << 20);
    let longer = get(&format!("{own}\r\nX: {longer}"));
    add("a huge header", longer, &[Some(431), None]);
    let many = get(&format!("{own}{}", "\r\nX: a".repeat(200)));
    add("many headers", many, &[Some(431)]);
    let long_path = format!("GET /{} HTTP/1.1\r\n{own}\r\n\r\n", "a".repeat(4 << 10));
    add("a long path", long_path, &[Some(414)]);

    add(
        "a foreign host",
        get("Host: attacker.example"),
        &[Some(403)],
    );
    let port = address.rsplit(':').next().unwrap();
    let rebound = get(&format!("Host: attacker.example:{port}"));
    add("a rebound host", rebound, &[Some(403)]);
    add("a foreign address", get("Host: 192.0.2.1"), &[Some(403)]);
    add("no host", get("X: a"), &[Some(400)]);
    let hosts = get(&format!("{own}\r\nHost: attacker.example"));
    add("two hosts", hosts, &[Some(400)]);
    let absolute = format!("GET http://attacker.example{path} HTTP/1.1\r\n{own}\r\n\r\n");
    add("a foreign target", absolute, &[Some(403)]);
    for origin in ["http://attacker.example", "null", "http://localhost:3000"] {
        let header = format!("{own}\r\nOrigin: {origin}");
        add(&format!("from {origin}"), get(&header), &[Some(403)]);
    }

    add("HTTP/0.9", format!("GET {path}\r\n\r\n"), &[Some(400)]);
    let http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    add("HTTP/2", http2.to_owned(), &[None, Some(400)]);
    add(
        "another protocol",
        "\x16\x03\x01\x02\0\x01\0".into(),
        &[Some(400)],
    );
    add(
        "a folded header",
        get(&format!("{own}\r\nX: a\r\n b")),
        &[Some(400)],
    );
    add(
        "CONNECT",
        "CONNECT a.example:1 HTTP/1.1\r\n\r\n".into(),
        &[Some(403)],
    );
    cases
}

/// Several requests in one piece, the last of them with a body: answers come in their order.
fn assert_pipelined_requests_are_answered(address: &str, path: &str) {
    let one = |method: &str, more: &str| {
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n")
    };
    let last = one("GET", "Connection: close\r\n");
    let requests = one("GET", "").repeat(20) + &one("HEAD", "") + &last;
    let (_, answer) = exchange(address, requests.as_bytes());
    assert_eq!(
        answer.matches("HTTP/1.1 200 OK\r\n").count(),
        22,
        "{answer}"
    );
    // Nothing that follows a refused request is taken for one.
    let refused = one("POST", "Content-Length: 5\r\n");
    let (status, answer) = exchange(address, format!("{refused}{last}").as_bytes());
    assert_eq!(status, Some(413), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

/// Clients that never end a request's head do not keep others from being served, and are disconnected.
fn assert_slow_clients_shut_out_nobody(address: &str, path: &str) {
    let slow = || {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nX: ");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| slow()).collect();
    for _ in 0..10 {
        assert_eq!(get(address, path), Some(200));
    }
    for stream in &mut slow {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

/// The status of a GET, on a connection of its own.
fn get(address: &str, path: &str) -> Status {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    exchange(address, request.as_bytes()).0
}

/// Sends bytes, and reads until the listener closes the connection.
fn exchange(address: &str, request: &[u8]) -> (Status, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // It may be refused before all of it is written.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.strip_prefix("HTTP/1.1 ");
    let status = status.and_then(|rest| rest.get(..3)?.parse().ok());
    (status, answer)
}
