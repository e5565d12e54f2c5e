//! `--ui`: a listener that serves one page and a stream of facts for it.
//!
//! Whoever has the page's address may look; a part of it cannot be guessed, as the artefacts are
//! readable by their owner alone. What is asked in the name of another site is refused: a request has
//! to name an IP address or `localhost` (a name could be led here by DNS rebinding), nothing is allowed
//! to other origins, and a stop needs a secret that stands in the page only.
//!
//! Each viewer has a thread, which waits for the hub and writes. One that does not read is given up by
//! its time-out; the replay knows nothing of it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use report::{live_page, to_json_line};

use super::http::{Listening, Request};
use super::hub::{Hub, Next, Place};
use crate::asked_host::is_no_strangers_name;
use crate::ending::Failure;
use crate::interrupt::Interrupt;

/// More viewers are turned away.
const VIEWERS_MAX: usize = 16;
/// A viewer that takes nothing for so long is given up.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Where nothing is new for so long, a viewer is told that this is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// How long the end waits for viewers to have taken their last event.
const LAST_EVENT: Duration = Duration::from_secs(1);
/// How often is looked for Ctrl-C and for viewers meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The header that a stop is asked with.
const SECRET_HEADER: &str = "x-rehearse-secret";
/// What a page may do: its own style and scripts, and to listen to where it came from.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Listens, and answers from when it has something to show until it is dropped.
pub struct PageServer {
    /// Until it answers.
    listener: Option<TcpListener>,
    listening: Option<Listening>,
    site: Arc<Site>,
    address: SocketAddr,
    patience: Duration,
}

struct Site {
    /// The part of the address that cannot be guessed.
    key: String,
    /// What a stop needs; none is taken where others than this machine's users may come.
    secret: Option<String>,
    viewers: AtomicUsize,
}

impl PageServer {
    /// Listens; what comes now is answered when there is something to show.
    ///
    /// # Errors
    /// Where the address is in use, or is none of this machine's.
    pub fn start(wanted: SocketAddr) -> Result<Self, Failure> {
        Self::start_with(wanted, WRITE_PATIENCE)
    }

    fn start_with(wanted: SocketAddr, patience: Duration) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::could_not(format!(
                "cannot serve the live page at {wanted}: {error}; give another --ui=ADDRESS, or --ui alone for any free port of this machine"
            ))
        };
        let listener = TcpListener::bind(wanted).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let key = random_word().map_err(|error| failed(&error))?;
        let secret = match address.ip().is_loopback() {
            true => Some(random_word().map_err(|error| failed(&error))?),
            false => None,
        };
        Ok(PageServer {
            listener: Some(listener),
            listening: None,
            site: Arc::new(Site {
                key,
                secret,
                viewers: AtomicUsize::new(0),
            }),
            address,
            patience,
        })
    }

    /// The page's address. Whoever has it may look.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.site.key)
    }

    /// Whether others than this machine's users can come.
    pub fn is_open(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Shows this replay from now on; what was asked before is answered now.
    ///
    /// # Errors
    /// Where the system has no room for a thread.
    pub fn show(&mut self, hub: &Arc<Hub>) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else {
            return Ok(());
        };
        let (site, hub) = (self.site.clone(), hub.clone());
        let answer = move |request| {
            // Whoever asked and went away needs no answer.
            let _ = site.answer(request, &hub);
        };
        let listening = Listening::start(listener, self.patience, answer).map_err(|error| {
            Failure::could_not(format!("the live page cannot be served: {error}"))
        })?;
        self.listening = Some(listening);
        Ok(())
    }

    /// Goes on answering for a while, or until the user has enough. A signal that already ended the
    /// replay does not end this.
    pub fn linger(&self, time: Duration, interrupt: &Interrupt, was_stopped: bool) {
        let until = Instant::now() + time;
        while Instant::now() < until && (was_stopped || !interrupt.is_asked()) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for PageServer {
    /// Waits for viewers to have taken the end, a moment at most.
    fn drop(&mut self) {
        let until = Instant::now() + LAST_EVENT;
        let is_watched = || self.site.viewers.load(Ordering::Acquire) > 0;
        while is_watched() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// 128 bits as hexadecimal digits.
fn random_word() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether texts are the same, in a time that does not tell where they differ.
fn same(given: &str, right: &str) -> bool {
    let pairs = given.bytes().zip(right.bytes());
    given.len() == right.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

impl Site {
    fn answer(&self, request: Request, hub: &Hub) -> io::Result<()> {
        let host = request.header("host").to_owned();
        if !is_no_strangers_name(&host) {
            let text = "ask for this page by an IP address or as localhost: names could be led here by others\n";
            return say(request, "403 Forbidden", text);
        }
        let path = request.path.clone();
        let below = path.strip_prefix('/').unwrap_or_default();
        let (key, rest) = match below.split_once('/') {
            Some((key, rest)) => (key, Some(rest)),
            None => (below, None),
        };
        if !same(key, &self.key) {
            let text = "there is nothing; the page's whole address was printed where the replay was started\n";
            return say(request, "404 Not Found", text);
        }
        match (request.method.as_str(), rest) {
            ("GET" | "HEAD", None) => {
                let location = format!("/{}/", self.key);
                request.answer("308 Permanent Redirect", &[("Location", &location)], "")
            }
            ("GET" | "HEAD", Some("")) => {
                let html = live_page::render_html(&hub.replay(), self.secret.as_deref());
                let headers = [
                    ("Content-Type", "text/html; charset=utf-8"),
                    ("Content-Security-Policy", POLICY),
                    ("Cache-Control", "no-store"),
                    ("X-Content-Type-Options", "nosniff"),
                    ("X-Frame-Options", "DENY"),
                    ("Referrer-Policy", "no-referrer"),
                    ("Cross-Origin-Opener-Policy", "same-origin"),
                    ("Cross-Origin-Resource-Policy", "same-origin"),
                ];
                request.answer("200 OK", &headers, &html)
            }
            ("GET", Some("events")) => self.stream(request, hub),
            ("POST", Some("stop")) => {
                let own = format!("http://{host}");
                let is_ours = ["", &own].contains(&request.header("origin"));
                let secret = request.header(SECRET_HEADER);
                let is_right = self.secret.as_ref().is_some_and(|it| same(secret, it));
                if !is_ours || !is_right {
                    let text = "a replay is stopped from its page, and from this machine\n";
                    return say(request, "403 Forbidden", text);
                }
                hub.ask_to_stop();
                say(request, "202 Accepted", "stopping in order\n")
            }
            (_, Some("" | "events")) => {
                say(request, NOT_ALLOWED, "this can be read, and no more\n")
            }
            (_, Some("stop")) => say(request, NOT_ALLOWED, "a stop is asked for by POST\n"),
            _ => {
                let text = "there are the page, its events and its stop\n";
                say(request, "404 Not Found", text)
            }
        }
    }

    /// Streams to a viewer, on the thread that its connection has.
    fn stream(&self, request: Request, hub: &Hub) -> io::Result<()> {
        let others = self.viewers.fetch_add(1, Ordering::AcqRel);
        let result = match others >= VIEWERS_MAX {
            true => {
                let text = format!("{VIEWERS_MAX} viewers are there already; close one\n");
                say(request, "503 Service Unavailable", &text)
            }
            false => write_events(request, hub),
        };
        self.viewers.fetch_sub(1, Ordering::AcqRel);
        result
    }
}

const NOT_ALLOWED: &str = "405 Method Not Allowed";

fn say(request: Request, status: &str, text: &str) -> io::Result<()> {
    let headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("X-Content-Type-Options", "nosniff"),
    ];
    request.answer(status, &headers, text)
}

/// Server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>): `whole` first and
/// where the history was thinned, `step` else, `end` at last.
fn write_events(request: Request, hub: &Hub) -> io::Result<()> {
    let headers = [
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ];
    let mut stream = request.begin("200 OK", &headers)?;
    let mut place = Place::default();
    loop {
        let text = match hub.next(&mut place, SIGN_OF_LIFE) {
            Next::Whole(view) => event("whole", &to_json_line(&*view)),
            Next::Step(view) => event("step", &to_json_line(&*view)),
            Next::Nothing => ": still here\n\n".to_owned(),
            Next::Over => return stream.write_all(event("end", "{}").as_bytes()),
        };
        stream.write_all(text.as_bytes())?;
    }
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream;

    use report::LiveReplayView;

    use super::*;
    use crate::live::About;

    /// A deadline that only a failure comes to.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn hub(workload: String) -> Arc<Hub> {
        Hub::new(About {
            replay: LiveReplayView {
                workload,
                run: "a.run".to_owned(),
                target: "127.0.0.1:5432".to_owned(),
                server_version: String::new(),
                options: Vec::new(),
                started_wall_us: 0,
                span_us: None,
                is_timed: false,
                statements: 1,
            },
            statements: None,
        })
    }

    fn serve(hub: &Arc<Hub>, patience: Duration) -> PageServer {
        let wanted = "127.0.0.1:0".parse().unwrap();
        let mut server = PageServer::start_with(wanted, patience).unwrap();
        server.show(hub).unwrap();
        server
    }

    fn come(server: &PageServer) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (key, address) = (&server.site.key, server.address);
        write!(
            stream,
            "GET /{key}/events HTTP/1.1\r\nHost: {address}\r\n\r\n"
        )
        .unwrap();
        stream
    }

    fn wait_for_viewers(server: &PageServer, wanted: usize) {
        let since = Instant::now();
        while server.site.viewers.load(Ordering::Acquire) != wanted {
            assert!(since.elapsed() < PATIENCE, "never {wanted} viewers");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_viewer_that_does_not_read_is_given_up_and_delays_nobody() {
        // More than the system takes in for a connection, so that writing it waits for the viewer.
        let hub = hub("w".repeat(16 << 20));
        let server = serve(&hub, Duration::from_millis(300));
        let _deaf = come(&server);
        wait_for_viewers(&server, 1);
        // Another comes, and has all; the hub answers meanwhile.
        let mut lines = BufReader::new(come(&server));
        let mut until = |what: &str| {
            let mut line = String::new();
            while !line.starts_with(what) {
                line.clear();
                assert!(lines.read_line(&mut line).unwrap() > 0, "no {what}");
            }
            line.len()
        };
        assert!(until("data: ") > 16 << 20);
        hub.stopping();
        until("event: step");
        // The one that read is left.
        wait_for_viewers(&server, 1);
        hub.finish(Err("enough".to_owned()));
        until("event: end");
        wait_for_viewers(&server, 0);
    }

    #[test]
    fn more_viewers_than_there_is_room_for_are_turned_away() {
        let hub = hub("w".to_owned());
        let server = serve(&hub, PATIENCE);
        let viewers: Vec<TcpStream> = (0..VIEWERS_MAX).map(|_| come(&server)).collect();
        wait_for_viewers(&server, VIEWERS_MAX);
        let mut line = String::new();
        BufReader::new(come(&server)).read_line(&mut line).unwrap();
        assert!(line.contains(" 503 "), "{line}");
        // The end frees all places.
        hub.finish(Err("enough".to_owned()));
        wait_for_viewers(&server, 0);
        drop(viewers);
    }

    #[test]
    fn only_the_whole_secret_is_the_secret() {
        let (one, other) = (random_word().unwrap(), random_word().unwrap());
        assert_eq!(one.len(), 32);
        assert!(same(&one, &one) && !same(&one, &other));
        assert!(!same("", &one) && !same(&one[..31], &one) && !same(&format!("{one}0"), &one));
    }
}
