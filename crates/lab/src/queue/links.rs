//! The shops' web servers, as a single HTTP server on loopback. Some links are slow, missing or failing, and there
//! are periods in which every second request fails. The server counts requests, so that it can detect duplicate
//! downloads.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::schema::number;
use crate::LabError;

/// Shares of missing, failing and slow links, in a thousand.
const MISSING: u64 = 20;
const FAILING: u64 = 20;
const SLOW: u64 = 10;
/// Delay of a slow link.
const SLOWNESS: Duration = Duration::from_millis(150);
/// Interval between periods of errors, and their duration.
const SPELL_EVERY: Duration = Duration::from_millis(4_000);
const SPELL: Duration = Duration::from_millis(800);
/// Size of an image.
const IMAGE_BYTES: usize = 2_000;
/// Interval at which a connection checks whether the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Number of requests.
    pub requests: u64,
    /// Number of images that were sent.
    pub sent: u64,
    /// Number of requests of missing links.
    pub missing: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Number of requests that repeat the same attempt at the same link.
    pub duplicates: u64,
    /// Links that were requested, by their numbers.
    pub links: HashSet<u64>,
}

#[derive(Debug, Default)]
struct RequestLog {
    served: RequestCounts,
    attempts: HashSet<(u64, u32)>,
}

/// The server, which ends on drop.
#[derive(Debug)]
pub(super) struct LinkServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    log: Mutex<RequestLog>,
    ends: AtomicBool,
    begun: Instant,
    spells: bool,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, RequestLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_in_error_period(&self) -> bool {
        let within = self.begun.elapsed().as_millis() % SPELL_EVERY.as_millis();
        self.spells && within < SPELL.as_millis()
    }
}

impl LinkServer {
    /// Starts the server on a free port of loopback.
    pub(super) fn start(spells: bool) -> Result<Self, LabError> {
        let failed = |error: std::io::Error| LabError::Client {
            number: 0,
            reason: format!("the HTTP server of the links cannot begin: {error}"),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            log: Mutex::default(),
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
                // A closed connection ends its thread at the next write.
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

    /// Returns the counts so far.
    pub(super) fn served(&self) -> RequestCounts {
        self.shared.log().served.clone()
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Mixes the bits of a number (the finaliser of splitmix64).
fn mix_bits(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Answers the requests of a connection until it is closed.
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
            let kind = mix_bits(number) % 1_000;
            if (MISSING + FAILING..MISSING + FAILING + SLOW).contains(&kind) {
                thread::sleep(SLOWNESS);
            }
            let fails = (MISSING..MISSING + FAILING).contains(&kind)
                // In a period of errors every second request fails, by the link and the attempt.
                || shared.is_in_error_period() && mix_bits(number ^ (u64::from(attempt) << 40)).is_multiple_of(2);
            let mut log = shared.log();
            let is_new = log.attempts.insert((number, attempt));
            let served = &mut log.served;
            served.requests += 1;
            served.duplicates += u64::from(!is_new);
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
    use super::super::fetch::{FetchResult, Fetcher};
    use super::super::schema::link;
    use super::*;

    #[test]
    fn link_server_answers_by_kind_and_counts_duplicate_attempts() {
        let server = LinkServer::start(false).unwrap();
        let mut fetcher = Fetcher::new(server.address());
        let mut seen = [0_u64; 3];
        for number in 1..=300 {
            let place = match fetcher.fetch(&link(number), 0) {
                FetchResult::Image(bytes) => {
                    assert_eq!(bytes, IMAGE_BYTES);
                    0
                }
                FetchResult::Missing(_) => 1,
                FetchResult::Failed(_) => 2,
            };
            seen[place] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
        assert_eq!(server.served().duplicates, 0);
        fetcher.fetch(&link(7), 0);
        fetcher.fetch(&link(7), 1);
        let served = server.served();
        assert_eq!((served.requests, served.duplicates), (302, 1));
        assert_eq!(
            [served.sent, served.missing, served.failed]
                .iter()
                .sum::<u64>(),
            302
        );
        assert_eq!(served.links.len(), 300);
    }
}
