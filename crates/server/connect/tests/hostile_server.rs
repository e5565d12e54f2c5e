//! Servers that answer with what no PostgreSQL server sends, or without end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use connect::login::{Dialer, Login};
use connect::{Target, set_warning_listener};

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn read_packet(client: &mut TcpStream) {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut rest).unwrap();
}

fn log_in(client: &mut TcpStream) {
    let ready = message(b'Z', b"I");
    let answer = [message(b'R', &[0; 4]), ready].concat();
    client.write_all(&answer).unwrap();
}

/// Starts a server that serves each connection with `serve`. Returns a dialer to it.
fn dialer(parameters: &str, serve: fn(&mut TcpStream)) -> Dialer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            std::thread::spawn(move || serve(&mut client));
        }
    });
    let target = format!("postgres://app:secret@{address}/shop?{parameters}");
    Dialer::new(&Target::parse(&target, |_| None).unwrap()).unwrap()
}

fn login() -> Login {
    Login {
        user: "app".into(),
        database: "shop".into(),
        application: "".into(),
        role: None,
        settings: [].into(),
    }
}

#[test]
fn error_before_tls_is_not_shown_and_leads_to_no_attempt_without_tls() {
    let dialer = dialer("sslmode=prefer", |client| {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        read_packet(client);
        let error = message(b'E', b"SFATAL\0C28000\0Mtrust me\0\0");
        client.write_all(&error).unwrap();
    });
    let error = dialer.probe(&login()).unwrap_err().to_string();
    let reason = "answered with an error when asked for TLS";
    assert!(error.contains(reason), "{error}");
    assert!(!error.contains("trust me"), "{error}");
    assert_eq!(CONNECTIONS.load(Ordering::Relaxed), 1);
}

/// Logs a client in, and sends rows of this size until the client is gone.
fn send_rows(client: &mut TcpStream, bytes: usize, pause: Duration) {
    read_packet(client);
    log_in(client);
    let length = (bytes as u32).to_be_bytes();
    let row = message(b'D', &[&[0, 1], &length[..], &vec![b'z'; bytes]].concat());
    while client.write_all(&row).is_ok() {
        std::thread::sleep(pause);
    }
}

#[test]
fn answer_without_end_is_refused_by_its_size_or_its_time() {
    let large = dialer("sslmode=disable&connect_timeout=60", |client| {
        send_rows(client, 60_000, Duration::ZERO);
    });
    let error = large.query(&login(), "select 1").err().unwrap().to_string();
    assert!(error.contains("larger than 256 MiB"), "{error}");
    let slow = dialer("sslmode=disable&connect_timeout=2", |client| {
        send_rows(client, 1, Duration::from_millis(20));
    });
    let begun = Instant::now();
    let error = slow.query(&login(), "select 1").err().unwrap().to_string();
    assert!(error.contains("no answer within"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

fn ask_for_password(client: &mut TcpStream) {
    read_packet(client);
    let question = message(b'R', &3u32.to_be_bytes());
    client.write_all(&question).unwrap();
    let mut tag = [0];
    if client.read_exact(&mut tag).is_ok() && tag == *b"p" {
        read_packet(client);
        log_in(client);
    }
}

#[test]
fn password_in_clear_text_without_tls_has_a_warning_and_can_be_refused() {
    set_warning_listener(|text| WARNINGS.lock().unwrap().push(text.to_owned()));
    let refusing = "sslmode=disable&require_auth=scram-sha-256";
    let refused = dialer(refusing, ask_for_password).probe(&login());
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("require_auth does not allow"), "{error}");
    assert!(WARNINGS.lock().unwrap().is_empty());
    let warning = dialer("sslmode=disable", ask_for_password);
    warning.probe(&login()).unwrap();
    warning.probe(&login()).unwrap();
    let warnings = WARNINGS.lock().unwrap().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("in clear text"), "{warnings:?}");
    assert!(!warnings[0].contains("secret"), "{warnings:?}");
}
