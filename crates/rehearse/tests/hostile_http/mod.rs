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
    for Refused {
        name,
        request,
        expected,
    } in refused_requests(address, path)
    {
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

/// Request that must be refused.
struct Refused {
    name: String,
    request: Vec<u8>,
    /// Statuses that it may be answered with.
    expected: Vec<Status>,
}

impl Refused {
    fn new(name: &str, request: String, expected: &[Status]) -> Self {
        Refused {
            name: name.to_owned(),
            request: request.into_bytes(),
            expected: expected.to_vec(),
        }
    }
}

/// Address of a listener, and a path that it serves.
struct Listener<'a> {
    address: &'a str,
    path: &'a str,
}

impl Listener<'_> {
    fn post(&self, headers: &str, body: &str) -> String {
        let address = self.address;
        format!("POST /nope HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n\r\n{body}")
    }

    /// Returns a GET with these headers alone.
    fn get(&self, headers: &str) -> String {
        format!("GET {} HTTP/1.1\r\n{headers}\r\n\r\n", self.path)
    }

    /// Returns a GET with the listener's host and these lines after it.
    fn get_with(&self, more: &str) -> String {
        self.get(&format!("Host: {}{more}", self.address))
    }
}

fn refused_requests(address: &str, path: &str) -> Vec<Refused> {
    let listener = Listener { address, path };
    let mut requests = requests_with_a_length(&listener);
    requests.extend(requests_with_a_transfer_coding(&listener));
    requests.extend(requests_with_a_long_head(&listener));
    requests.extend(requests_for_another_host(&listener));
    requests.extend(requests_in_another_protocol(&listener));
    requests
}

/// Returns requests with a body, or with a length that no body has.
fn requests_with_a_length(listener: &Listener<'_>) -> Vec<Refused> {
    let mut requests = Vec::new();
    for (length, expected) in [
        ("99999999999999", 413),
        ("18446744073709551613", 413),
        ("18446744073709551615", 431),
        ("99999999999999999999999", 400),
        ("-1", 400),
    ] {
        let header = format!("Content-Length: {length}");
        let request = listener.post(&header, "abc");
        requests.push(Refused::new(&header, request, &[Some(expected)]));
    }
    let two = listener.post("Content-Length: 3\r\nContent-Length: 4", "abc");
    requests.push(Refused::new("two lengths", two, &[Some(400)]));
    let body = listener.post("Content-Length: 3", "abc");
    requests.push(Refused::new("a body", body, &[Some(413)]));
    let large = "x".repeat(1 << 20);
    let large = listener.post(&format!("Content-Length: {}", large.len()), &large);
    // What was not read may reset the connection before the answer is seen.
    requests.push(Refused::new("a large body", large, &[Some(413), None]));
    requests
}

fn requests_with_a_transfer_coding(listener: &Listener<'_>) -> Vec<Refused> {
    let chunked = "Transfer-Encoding: chunked";
    let mut requests = Vec::new();
    for body in ["zz\r\n", "ffffffffffffffffff\r\nabc", "-1\r\n", "3\r\nab"] {
        let name = format!("chunks {body:?}");
        let request = listener.post(chunked, body);
        requests.push(Refused::new(&name, request, &[Some(413)]));
    }
    let both = listener.post(&format!("{chunked}\r\nContent-Length: 3"), "abc");
    let expected = [Some(413), Some(400)];
    requests.push(Refused::new("chunks with a length", both, &expected));
    let gzip = listener.post("Transfer-Encoding: gzip", "");
    requests.push(Refused::new("another coding", gzip, &[Some(400)]));
    requests
}

/// Returns requests whose header, number of headers, or path exceeds a limit.
fn requests_with_a_long_head(listener: &Listener<'_>) -> Vec<Refused> {
    let header = |length| format!("\r\nX: {}", "a".repeat(length));
    let long = listener.get_with(&header(20 << 10));
    let huge = listener.get_with(&header(10 << 20));
    let many = listener.get_with(&header(1).repeat(200));
    let long_path = "a".repeat(4 << 10);
    let long_path = format!(
        "GET /{long_path} HTTP/1.1\r\nHost: {}\r\n\r\n",
        listener.address
    );
    vec![
        Refused::new("a long header", long, &[Some(431)]),
        Refused::new("a huge header", huge, &[Some(431), None]),
        Refused::new("many headers", many, &[Some(431)]),
        Refused::new("a long path", long_path, &[Some(414)]),
    ]
}

/// Returns requests that name another host, none, or two, and those of another origin.
fn requests_for_another_host(listener: &Listener<'_>) -> Vec<Refused> {
    let Listener { address, path } = listener;
    let port = address.rsplit(':').next().unwrap();
    let rebound = listener.get(&format!("Host: attacker.example:{port}"));
    let two = listener.get_with("\r\nHost: attacker.example");
    let absolute = format!("GET http://attacker.example{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut requests: Vec<Refused> = [
        (
            "a foreign host",
            listener.get("Host: attacker.example"),
            403,
        ),
        ("a rebound host", rebound, 403),
        ("a foreign address", listener.get("Host: 192.0.2.1"), 403),
        ("no host", listener.get("X: a"), 400),
        ("two hosts", two, 400),
        ("a foreign target", absolute, 403),
    ]
    .into_iter()
    .map(|(name, request, expected)| Refused::new(name, request, &[Some(expected)]))
    .collect();
    for origin in ["http://attacker.example", "null", "http://localhost:3000"] {
        let request = listener.get_with(&format!("\r\nOrigin: {origin}"));
        requests.push(Refused::new(
            &format!("from {origin}"),
            request,
            &[Some(403)],
        ));
    }
    requests
}

/// Returns requests that are not HTTP/1.1, or use what the listener does not support of it.
fn requests_in_another_protocol(listener: &Listener<'_>) -> Vec<Refused> {
    let http09 = format!("GET {}\r\n\r\n", listener.path);
    let http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned();
    let tls = "\x16\x03\x01\x02\0\x01\0".to_owned();
    let folded = listener.get_with("\r\nX: a\r\n b");
    let connect = "CONNECT a.example:1 HTTP/1.1\r\n\r\n".to_owned();
    vec![
        Refused::new("HTTP/0.9", http09, &[Some(400)]),
        Refused::new("HTTP/2", http2, &[None, Some(400)]),
        Refused::new("another protocol", tls, &[Some(400)]),
        Refused::new("a folded header", folded, &[Some(400)]),
        Refused::new("CONNECT", connect, &[Some(403)]),
    ]
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
