//! The shops' web servers, as one: a small HTTP server on loopback, with links that are slow, missing or failing, and
//! spells in which every second request fails. It keeps what was asked for, so that it can tell what was
//! downloaded twice.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::schema::number;
use crate::LabError;

/// Of a thousand links: so many are not there, fail always, and are slow.
const MISSING: u64 = 20;
const FAILING: u64 = 20;
const SLOW: u64 = 10;
/// How long a slow one takes.
const SLOWNESS: Duration = Duration::from_millis(150);
/// A spell of errors begins so often, and lasts so long.
const SPELL_EVERY: Duration = Duration::from_millis(4_000);
const SPELL: Duration = Duration::from_millis(800);
/// How long an image is.
const IMAGE_BYTES: usize = 2_000;
/// How often a connection looks whether the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests.
    pub requests: u64,
    /// Images that were sent.
    pub sent: u64,
    /// Links that were not there.
    pub missing: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The same attempt at the same link once more.
    pub twice: u64,
    /// Links, by their numbers.
    pub links: HashSet<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    served: Served,
    attempts: HashSet<(u64, u32)>,
}

/// The server; it ends with this.
#[derive(Debug)]
pub(super) struct LinkServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    ends: AtomicBool,
    begun: Instant,
    spells: bool,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_a_spell(&self) -> bool {
        let within = self.begun.elapsed().as_millis() % SPELL_EVERY.as_millis();
        self.spells && within < SPELL.as_millis()
    }
}

impl LinkServer {
    /// Begins to serve, on a free port of loopback.
    pub(super) fn start(spells: bool) -> Result<Self, LabError> {
        let failed = |error: std::io::Error| LabError::Client {
            number: 0,
            reason: format!("the HTTP server of the links cannot begin: {error}"),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            kept: Mutex::default(),
            ends: AtomicBool::new(false),
            begun: Instant::now(),
            spells,
        });
        let mine = shared.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if mine.ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = mine.clone();
                // A client that goes away ends its thread, whatever it was about to be sent.
                thread::spawn(move || {
                    let _ = answer_all(&stream, &shared);
                });
            }
        });
        Ok(LinkServer {
            address,
            shared,
            accepting: Some(accepting),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was asked for until now.
    pub(super) fn served(&self) -> Served {
        self.shared.kept().served.clone()
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Digits in no order (the finaliser of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Answers one connection until it is closed.
fn answer_all(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let mut request: Option<String> = None;
    loop {
        match reader.read_line(&mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                match shared.ends.load(Ordering::Acquire) {
                    true => return Ok(()),
                    false => continue,
                }
            }
            Err(error) => return Err(error),
        }
        if !line.trim().is_empty() {
            request.get_or_insert_with(|| line.trim().to_owned());
        } else if let Some(request) = request.take() {
            answer(stream, shared, &request)?;
        }
        line.clear();
    }
}

fn answer(mut stream: &TcpStream, shared: &Shared, request: &str) -> std::io::Result<()> {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let attempt = query
        .strip_prefix("attempt=")
        .and_then(|attempt| attempt.parse().ok());
    let status = match (number(path), attempt) {
        (Some(number), Some(attempt)) => {
            let kind = mixed(number) % 1_000;
            if (MISSING + FAILING..MISSING + FAILING + SLOW).contains(&kind) {
                thread::sleep(SLOWNESS);
            }
            let fails = (MISSING..MISSING + FAILING).contains(&kind)
                // Of a spell's requests every second fails, by the link and the attempt at it.
                || shared.in_a_spell() && mixed(number ^ (u64::from(attempt) << 40)).is_multiple_of(2);
            let mut kept = shared.kept();
            let is_new = kept.attempts.insert((number, attempt));
            let served = &mut kept.served;
            served.requests += 1;
            served.twice += u64::from(!is_new);
            served.links.insert(number);
            match (kind < MISSING, fails) {
                (true, _) => {
                    served.missing += 1;
                    "404 Not Found"
                }
                (_, true) => {
                    served.failed += 1;
                    "503 Service Unavailable"
                }
                _ => {
                    served.sent += 1;
                    "200 OK"
                }
            }
        }
        _ => "400 Bad Request",
    };
    let length = if status.starts_with("200") {
        IMAGE_BYTES
    } else {
        0
    };
    let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + length, 0xd8);
    stream.write_all(&answer)
}

#[cfg(test)]
mod tests {
    use super::super::fetch::{Fetched, Fetcher};
    use super::super::schema::link;
    use super::*;

    #[test]
    fn links_are_there_missing_or_failing_and_what_comes_twice_is_told() {
        let server = LinkServer::start(false).unwrap();
        let mut fetcher = Fetcher::new(server.address());
        let mut seen = [0_u64; 3];
        for number in 1..=300 {
            let place = match fetcher.fetch(&link(number), 0) {
                Fetched::Image(bytes) => {
                    assert_eq!(bytes, IMAGE_BYTES);
                    0
                }
                Fetched::Missing(_) => 1,
                Fetched::Failed(_) => 2,
            };
            seen[place] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
        assert_eq!(server.served().twice, 0);
        fetcher.fetch(&link(7), 0);
        fetcher.fetch(&link(7), 1);
        let served = server.served();
        assert_eq!((served.requests, served.twice), (302, 1));
        assert_eq!(
            [served.sent, served.missing, served.failed]
                .iter()
                .sum::<u64>(),
            302
        );
        assert_eq!(served.links.len(), 300);
    }
}
