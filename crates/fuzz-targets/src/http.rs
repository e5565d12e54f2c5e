//! HTTP listeners: what reaches a site, and what comes back.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use http_server::{
    HttpServer, Limits, ListenerOptions, Reply, Request, Site, StatusCode, header, text_reply,
};

/// A deadline that only a failure comes to.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time without an answer after which a request is taken as incomplete.
const SILENCE: Duration = Duration::from_millis(5);
const LIMITS: Limits = Limits {
    connections: 8,
    head_time: Duration::from_millis(500),
    head_bytes: 16 << 10,
    headers: 64,
    path_bytes: 1 << 10,
    answer_time: Duration::from_secs(5),
    stall_time: Duration::from_secs(5),
};

/// Checks the bytes of a client. They arrive in two parts.
pub fn check(data: &[u8]) {
    static SERVER: LazyLock<HttpServer> = LazyLock::new(start);
    let address = SERVER.address();
    REACHED.lock().expect("no check failed").clear();
    let answer = exchange(address, data, SILENCE);
    check_answer(&answer);
    let reached = std::mem::take(&mut *REACHED.lock().expect("no check failed"));
    assert!(
        reached.len() <= count(data, b"\r\n\r\n").max(count(data, b"\n")),
        "requests appear"
    );
    for request in &reached {
        check_request(request);
    }
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = exchange(address, request, PATIENCE);
    assert!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "the listener no longer answers"
    );
}

/// Requests that reached the site.
static REACHED: Mutex<Vec<Request>> = Mutex::new(Vec::new());

struct RecordingSite;

impl Site for RecordingSite {
    fn answer(&self, request: &Request) -> Reply {
        REACHED
            .lock()
            .expect("no check failed")
            .push(request.clone());
        match request.uri().path() {
            // A fuzzer ends at each panic, also at one that is caught.
            "/panic" if !cfg!(fuzzing) => panic!("a handler that fails"),
            _ => text_reply(StatusCode::OK, "here"),
        }
    }
}

fn start() -> HttpServer {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let options = ListenerOptions {
        limits: LIMITS,
        allowed_hosts: vec!["allowed.example".to_owned()],
        complain: |message| panic!("{message}"),
    };
    HttpServer::start(listener, "fuzz", RecordingSite, options).expect("a listener")
}

/// Sends the bytes, and the end of the stream if nothing more comes back for a while. Returns all that comes back.
fn exchange(address: SocketAddr, data: &[u8], silence: Duration) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    // Otherwise the ports of many connections would stay occupied for a minute.
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .expect("an option");
    let (first, rest) = data.split_at(data.len() / 2);
    for part in [first, rest] {
        // The listener may have closed the connection.
        let _ = stream.write_all(part);
    }
    let mut answer = Vec::new();
    // At the end of the stream the listener gives up requests that it is answering.
    stream.set_read_timeout(Some(silence)).expect("a timeout");
    if let Err(error) = stream.read_to_end(&mut answer)
        && error.kind() == std::io::ErrorKind::WouldBlock
    {
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        if let Err(error) = stream.read_to_end(&mut answer) {
            let is_end = error.kind() == std::io::ErrorKind::ConnectionReset;
            assert!(is_end, "the connection stays open: {error}");
        }
    }
    answer
}

/// An answer begins with a status line, and is not larger than an answer to each request.
fn check_answer(answer: &[u8]) {
    let is_answer = answer.is_empty() || answer.starts_with(b"HTTP/1.");
    assert!(is_answer, "{:?}", String::from_utf8_lossy(answer));
    let answers = count(answer, b"HTTP/1.");
    assert!(answer.len() <= 1_000 * answers, "{} bytes", answer.len());
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes
        .windows(part.len())
        .filter(|window| *window == part)
        .count()
}

/// A request that reached the site names this machine, comes from no other site, and has no body.
fn check_request(request: &Request) {
    let values = |name| request.headers().get_all(name).iter().collect::<Vec<_>>();
    let path = request
        .uri()
        .path_and_query()
        .map_or("", |path| path.as_str());
    assert!(path.len() <= LIMITS.path_bytes, "{request:?}");
    assert!(request.headers().len() <= LIMITS.headers, "{request:?}");
    assert!(values(header::TRANSFER_ENCODING).is_empty(), "{request:?}");
    let lengths = values(header::CONTENT_LENGTH);
    assert!(
        lengths
            .iter()
            .all(|length| length.as_bytes().iter().all(|byte| *byte == b'0'))
    );
    let hosts = values(header::HOST);
    assert!(hosts.len() <= 1, "{request:?}");
    let host = hosts
        .first()
        .map(|host| host.to_str().expect("a host is text"));
    assert!(host.is_none_or(names_this_machine), "{request:?}");
    if let [origin, more @ ..] = &values(header::ORIGIN)[..] {
        let own = host.map(|host| format!("http://{host}").to_lowercase());
        let origin = origin.to_str().expect("an origin is text").to_lowercase();
        assert!(more.is_empty() && own == Some(origin), "{request:?}");
    }
}

fn names_this_machine(host: &str) -> bool {
    let is_own = |name: &str| {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
        let names = ["localhost", "allowed.example"];
        address.is_ok_and(|address| address.is_loopback())
            || names.iter().any(|own| own.eq_ignore_ascii_case(name))
    };
    is_own(host) || host.rsplit_once(':').is_some_and(|(name, _)| is_own(name))
}
