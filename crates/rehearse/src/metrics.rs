//! `--metrics`: a listener that shows what a replay counts, in Prometheus' text format.
//!
//! A thread of its own answers, one request after the other; the replay knows nothing of it. It
//! listens before the replay begins, on the address that was asked for and no other.

pub mod exposition;
mod process;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use replay::Meter;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::ending::Failure;
use crate::interrupt::Interrupt;

/// The text format's version 0.0.4.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How often Ctrl-C is looked for while metrics linger.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Answers until it is dropped.
pub struct MetricsServer {
    server: Arc<Server>,
    meter: Arc<OnceLock<Arc<Meter>>>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens, and answers from now on.
    ///
    /// # Errors
    /// Where the address is in use, or is none of this machine's.
    pub fn start(wanted: SocketAddr) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::could_not(format!(
                "cannot serve metrics at {wanted}: {error}; give another --metrics, such as 0 for any free port of this machine"
            ))
        };
        let listener = TcpListener::bind(wanted).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let server = Server::from_listener(listener, None).map_err(|error| failed(&error))?;
        let server = Arc::new(server);
        let meter = Arc::new(OnceLock::<Arc<Meter>>::new());
        let thread = {
            let (server, meter) = (server.clone(), meter.clone());
            std::thread::Builder::new()
                .name("metrics".to_owned())
                .spawn(move || {
                    // It ends when it is unblocked.
                    while let Ok(request) = server.recv() {
                        // Whoever asked and went away needs no answer.
                        let _ = answer(request, meter.get().map(Arc::as_ref));
                    }
                })
                .map_err(|error| failed(&error))?
        };
        Ok(MetricsServer {
            server,
            meter,
            address,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows this replay's counts from now on.
    pub fn show(&self, meter: &Arc<Meter>) {
        let _ = self.meter.set(meter.clone());
    }

    /// Goes on answering for a while, or until the user has enough. A signal that already ended the
    /// replay does not end this: its last values are wanted as well.
    pub fn linger(&self, time: Duration, interrupt: &Interrupt, was_stopped: bool) {
        let until = Instant::now() + time;
        while Instant::now() < until && (was_stopped || !interrupt.is_asked()) {
            std::thread::sleep(LOOK_EVERY.min(until - Instant::now().min(until)));
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(request: Request, meter: Option<&Meter>) -> io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, text) = match (request.method(), path) {
        (Method::Get | Method::Head, "/metrics") => {
            let readings = meter.map(Meter::read);
            let text = exposition::render(readings.as_ref(), process::read().as_ref());
            (200, text)
        }
        (Method::Get | Method::Head, "/healthz") => (200, "ok\n".to_owned()),
        (Method::Get | Method::Head, _) => (404, "there are /metrics and /healthz\n".to_owned()),
        _ => (405, "these can be read, and no more\n".to_owned()),
    };
    let header = Header::from_bytes("Content-Type", CONTENT_TYPE).expect("a valid header");
    let response = Response::from_string(text)
        .with_status_code(status)
        .with_header(header);
    request.respond(response)
}
