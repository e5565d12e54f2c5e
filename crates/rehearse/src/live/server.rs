//! `--ui`: serves a page and a stream of facts for it.
//!
//! Anyone with the page's address can read it. The address has a random part, since artifacts
//! are readable by their owner only. Other sites have no access ([`http`]), and a stop needs a
//! secret that only the page contains.
//!
//! Each viewer has a task on the listener's thread, which waits for the hub and sends. A viewer
//! that does not read is disconnected after a while, without effect on the replay.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use report::{live_page, to_json_line};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::hub::{Hub, ViewerMessage, ViewerPosition};
use http_server as http;
use http_server::header;
use http_server::header::HeaderName;
use http_server::{
    HttpServer, ListenerOptions, Method, Reply, ReplyBody, Request, Site, StatusCode,
};
use study::Failure;

/// Largest number of viewers. Further ones are refused.
const VIEWERS_MAX: usize = 16;
/// Interval of keep-alive messages when nothing changes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// Header with the secret in a stop request.
const SECRET_HEADER: &str = "x-rehearse-secret";
/// Bytes of the page's key and of the secret.
const SECRET_BYTES: usize = 16;
/// Content security policy of the page: only its own style and scripts, and connections to its
/// own origin.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Listener that answers once it has a replay to show, until it is dropped. The drop waits
/// briefly for viewers to receive the end.
pub struct PageServer {
    /// Bound socket until the server answers.
    listener: Option<TcpListener>,
    server: Option<HttpServer>,
    address: SocketAddr,
    options: ListenerOptions,
    secrets: PageSecrets,
    viewers: Arc<Semaphore>,
}

/// The secrets of a page.
#[derive(Clone)]
struct PageSecrets {
    /// Random part of the address.
    key: String,
    /// Secret that a stop needs; `None` if other machines can connect, which disables stops.
    secret: Option<String>,
}

impl PageServer {
    /// Binds the address. Requests are answered after [`show`](Self::show).
    ///
    /// # Errors
    /// If the address is in use, or is not of this machine.
    pub fn start(wanted: SocketAddr, options: ListenerOptions) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::could_not(format!(
                "cannot serve the live page at {wanted}: {error}; give another --ui=ADDRESS, or --ui alone for any free port of this machine"
            ))
        };
        let listener = TcpListener::bind(wanted).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let random = || http::random_hex::<SECRET_BYTES>().map_err(|error| failed(&error));
        let key = random()?;
        let secret = match address.ip().is_loopback() {
            true => Some(random()?),
            false => None,
        };
        Ok(PageServer {
            listener: Some(listener),
            server: None,
            address,
            options,
            secrets: PageSecrets { key, secret },
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
        })
    }

    /// Returns the page's address. Anyone who has it can read the page.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.secrets.key)
    }

    /// Returns whether other machines can connect.
    pub fn is_open(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Shows this replay, and answers requests that arrived before.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn show(&mut self, hub: &Arc<Hub>) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else {
            return Ok(());
        };
        let site = PageSite {
            secrets: self.secrets.clone(),
            hub: hub.clone(),
            viewers: self.viewers.clone(),
        };
        let server =
            HttpServer::start(listener, "page", site, self.options.clone()).map_err(|error| {
                Failure::could_not(format!("the live page cannot be served: {error}"))
            })?;
        self.server = Some(server);
        Ok(())
    }
}

/// Site of a replay: its page, its events and its stop.
struct PageSite {
    secrets: PageSecrets,
    hub: Arc<Hub>,
    viewers: Arc<Semaphore>,
}

impl Site for PageSite {
    fn answer(&self, request: &Request) -> Reply {
        let below = request.uri().path();
        let below = below.strip_prefix('/').unwrap_or_default();
        let (key, rest) = match below.split_once('/') {
            Some((key, rest)) => (key, Some(rest)),
            None => (below, None),
        };
        if !http::is_same_secret(key, &self.secrets.key) {
            return http::text_reply(
                StatusCode::NOT_FOUND,
                "there is nothing; the page's whole address was printed where the replay was started\n",
            );
        }
        match (request.method(), rest) {
            (&Method::GET | &Method::HEAD, None) => self.redirect(),
            (&Method::GET | &Method::HEAD, Some("")) => self.page(),
            (&Method::GET, Some("events")) => self.events(),
            (&Method::POST, Some("stop")) => self.stop(request),
            (_, Some("" | "events")) => not_allowed("this can be read, and no more\n"),
            (_, Some("stop")) => not_allowed("a stop is asked for by POST\n"),
            _ => http::text_reply(
                StatusCode::NOT_FOUND,
                "there are the page, its events and its stop\n",
            ),
        }
    }
}

impl PageSite {
    /// Redirects to the page's address, which ends with a slash.
    fn redirect(&self) -> Reply {
        let location = format!("/{}/", self.secrets.key);
        let location = location.parse().expect("hexadecimal digits are a header");
        let mut reply = http::text_reply(StatusCode::PERMANENT_REDIRECT, "");
        reply.headers_mut().insert(header::LOCATION, location);
        reply
    }

    fn page(&self) -> Reply {
        let html = live_page::render_html(&self.hub.replay(), self.secrets.secret.as_deref());
        let mut reply = http::typed_reply(StatusCode::OK, "text/html; charset=utf-8", &html);
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            http::set_header(&mut reply, HeaderName::from_static(name), value);
        }
        reply
    }

    /// Streams events to a viewer.
    fn events(&self) -> Reply {
        let Ok(viewer) = self.viewers.clone().try_acquire_owned() else {
            let text = format!("{VIEWERS_MAX} viewers are there already; close one\n");
            return http::text_reply(StatusCode::SERVICE_UNAVAILABLE, &text);
        };
        let (events, body) = ReplyBody::stream();
        tokio::spawn(send_events(self.hub.clone(), events, viewer));
        let mut reply = Reply::new(body);
        http::set_header(&mut reply, header::CONTENT_TYPE, "text/event-stream");
        reply
    }

    fn stop(&self, request: &Request) -> Reply {
        let given = http::single_header(request, &HeaderName::from_static(SECRET_HEADER));
        let right = self.secrets.secret.as_deref();
        let is_right = |given: &str| right.is_some_and(|right| http::is_same_secret(given, right));
        if !given.is_some_and(is_right) {
            return http::text_reply(
                StatusCode::FORBIDDEN,
                "a replay is stopped from its page, and from this machine\n",
            );
        }
        self.hub.ask_to_stop();
        http::text_reply(StatusCode::ACCEPTED, "stopping in order\n")
    }
}

fn not_allowed(text: &str) -> Reply {
    http::text_reply(StatusCode::METHOD_NOT_ALLOWED, text)
}

/// Sends server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>): `whole` first
/// and when the history was thinned, `step` otherwise, `end` at last. Returns when the viewer is gone.
async fn send_events(hub: Arc<Hub>, events: http::StreamSender, _viewer: OwnedSemaphorePermit) {
    let mut changes = hub.changes();
    let mut place = ViewerPosition::default();
    loop {
        let text = match hub.next(&mut place) {
            ViewerMessage::Whole(view) => event("whole", &to_json_line(&*view)),
            ViewerMessage::Step(view) => event("step", &to_json_line(&*view)),
            ViewerMessage::Nothing => {
                match tokio::time::timeout(SIGN_OF_LIFE, changes.changed()).await {
                    Ok(_) => continue,
                    Err(_) => ": still here\n\n".to_owned(),
                }
            }
            ViewerMessage::Over => {
                let _ = events.send(event("end", "{}").into()).await;
                return;
            }
        };
        if events.send(text.into()).await.is_err() {
            return;
        }
    }
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    use report::LiveReplayView;

    use super::*;
    use crate::live::HubParameters;

    /// A deadline that only a failure comes to.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn hub(workload: String) -> Arc<Hub> {
        Hub::new(HubParameters {
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

    fn serve(hub: &Arc<Hub>, stall_time: Duration) -> PageServer {
        let wanted = "127.0.0.1:0".parse().unwrap();
        let options = ListenerOptions {
            limits: http_server::Limits {
                stall_time,
                ..http_server::Limits::default()
            },
            allowed_hosts: Vec::new(),
            complain: |message| panic!("{message}"),
        };
        let mut server = PageServer::start(wanted, options).unwrap();
        server.show(hub).unwrap();
        server
    }

    fn come(server: &PageServer) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (key, address) = (&server.secrets.key, server.address);
        write!(
            stream,
            "GET /{key}/events HTTP/1.1\r\nHost: {address}\r\n\r\n"
        )
        .unwrap();
        stream
    }

    fn wait_for_viewers(server: &PageServer, wanted: usize) {
        let since = Instant::now();
        while VIEWERS_MAX - server.viewers.available_permits() != wanted {
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
}
