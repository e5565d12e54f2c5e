//! `--control`: a listener of this machine that shows how far a proxy is, and starts and stops its
//! recordings. A thread of its own answers, one request after the other.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use ::capture::proxy::{Control, Watch};
use report::{ProxyStatusView, to_json};
use serde_json::json;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::asked_host::is_no_strangers_name;
use crate::ending::Failure;

/// Answers until it is dropped.
pub struct ControlServer {
    server: Arc<Server>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens, and answers from now on.
    ///
    /// # Errors
    /// Where the address is in use.
    pub fn start(wanted: SocketAddr, control: Control, watch: Watch) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::could_not(format!(
                "cannot listen at {wanted}: {error}; give another --control, such as 0 for any free port of this machine"
            ))
        };
        let listener = TcpListener::bind(wanted).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let server = Server::from_listener(listener, None).map_err(|error| failed(&error))?;
        let server = Arc::new(server);
        let thread = {
            let server = server.clone();
            std::thread::Builder::new()
                .name("control".to_owned())
                .spawn(move || {
                    // It ends when it is unblocked.
                    while let Ok(request) = server.recv() {
                        // Whoever asked and went away needs no answer.
                        let _ = answer(request, &control, &watch);
                    }
                })
                .map_err(|error| failed(&error))?
        };
        Ok(ControlServer {
            server,
            address,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(request: Request, control: &Control, watch: &Watch) -> io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    let done = |result: Result<String, String>| match result {
        Ok(workload) => (200, json!({ "workload": workload }).to_string() + "\n"),
        Err(error) => (409, json!({ "error": error }).to_string() + "\n"),
    };
    // A page in a browser of this machine could send a simple request here, and would say from where.
    let header = |name: &'static str| {
        let mut headers = request.headers().iter();
        headers.find(|header| header.field.equiv(name))
    };
    let from_a_page = header("Origin").is_some();
    // HTTP/1.0 names no host, and no browser speaks it.
    let by_a_name = header("Host").is_some_and(|host| !is_no_strangers_name(host.value.as_str()));
    let (status, text) = match (request.method(), path) {
        _ if by_a_name => {
            let error = "ask by an IP address or as localhost: names could be led here by others";
            (403, json!({ "error": error }).to_string() + "\n")
        }
        (Method::Get | Method::Head, "/") => {
            let view = ProxyStatusView::new(&watch.status());
            (200, to_json(&view) + "\n")
        }
        (Method::Post, "/start" | "/stop") if from_a_page => (
            403,
            json!({ "error": "not from a page" }).to_string() + "\n",
        ),
        (Method::Post, "/start") => done(control.start_recording()),
        (Method::Post, "/stop") => done(control.stop_recording()),
        _ => {
            let error = "there are GET /, POST /start and POST /stop";
            (404, json!({ "error": error }).to_string() + "\n")
        }
    };
    let header = Header::from_bytes("Content-Type", "application/json").expect("a valid header");
    let response = Response::from_string(text)
        .with_status_code(status)
        .with_header(header);
    request.respond(response)
}
