//! `--admin-listen`: a loopback listener that shows the status of a proxy, or of probes, and starts and stops
//! recordings.
//!
//! Any user of this machine can read the status. A start or a stop needs the token.

use std::net::{SocketAddr, TcpListener};

use serde_json::json;

use super::control_token::ControlToken;
use super::starting_point::RecordingSwitch;
use http_server as http;
use http_server::{HttpServer, ListenerOptions, Method, Reply, Request, Site, StatusCode, header};
use study::Failure;

/// Starts or stops a recording.
type Action = fn(&RecordingSwitch) -> Result<String, String>;

/// Listener that answers until it is dropped.
pub struct ControlServer(HttpServer);

impl ControlServer {
    /// Binds the address and starts to answer.
    ///
    /// # Errors
    /// If the address is in use.
    pub fn start(
        (wanted, options): (SocketAddr, ListenerOptions),
        token: ControlToken,
        control: RecordingSwitch,
        status: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let site = ControlSite {
            token,
            control,
            status: Box::new(status),
        };
        TcpListener::bind(wanted)
            .and_then(|listener| HttpServer::start(listener, "control", site, options))
            .map(ControlServer)
            .map_err(|error| {
                Failure::could_not(format!(
                    "cannot listen at {wanted}: {error}; give another --admin-listen, such as 0 for any free port of this machine"
                ))
            })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// Status of a capture, and control of its recordings.
struct ControlSite {
    token: ControlToken,
    control: RecordingSwitch,
    /// Renders the current status as JSON.
    status: Box<dyn Fn() -> String + Send + Sync>,
}

impl Site for ControlSite {
    fn answer(&self, request: &Request) -> Reply {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/") => json_reply(StatusCode::OK, (self.status)()),
            (&Method::POST, "/start") => self.run_action(request, RecordingSwitch::start_recording),
            (&Method::POST, "/stop") => self.run_action(request, RecordingSwitch::stop_recording),
            _ => self.refuse(
                StatusCode::NOT_FOUND,
                "there are GET /, POST /start and POST /stop",
            ),
        }
    }

    fn refuse(&self, status: StatusCode, reason: &str) -> Reply {
        json_reply(status, json!({ "error": reason }).to_string())
    }
}

impl ControlSite {
    fn run_action(&self, request: &Request, action: Action) -> Reply {
        let given = http::single_header(request, &header::AUTHORIZATION);
        if !given
            .and_then(parse_bearer)
            .is_some_and(|it| self.token.matches(it))
        {
            let mut reply = self.refuse(
                StatusCode::UNAUTHORIZED,
                "this needs the token in the file that the capture named when it started; send it as Authorization: Bearer TOKEN",
            );
            http::set_header(&mut reply, header::WWW_AUTHENTICATE, "Bearer");
            return reply;
        }
        match action(&self.control) {
            Ok(workload) => json_reply(StatusCode::OK, json!({ "workload": workload }).to_string()),
            Err(error) => self.refuse(StatusCode::CONFLICT, &error),
        }
    }
}

/// Returns the credentials of the scheme `Bearer` (RFC 6750).
fn parse_bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start_matches(' '))
}

fn json_reply(status: StatusCode, json: String) -> Reply {
    http::typed_reply(status, "application/json", &(json + "\n"))
}
