//! `--metrics`: serves the counters of a replay or a comparison in Prometheus' text format.
//!
//! The server listens before the replay starts, on the given address only. The replay does not
//! depend on it.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};

use cpu_profile::own_process;
use replay::Metrics;
use report::{metric_families, metrics_text};

use http_server as http;
use http_server::{HttpServer, ListenerOptions, Method, Reply, Request, Site, StatusCode};
use study::Failure;
use telemetry::MetricFamily;

use crate::terminal;

/// Media type of the text format, version 0.0.4.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Listener that answers until it is dropped.
pub struct MetricsServer {
    server: HttpServer,
    meter: Arc<OnceLock<Arc<Metrics>>>,
}

impl MetricsServer {
    /// Binds the address and starts to answer.
    ///
    /// # Errors
    /// If the address is in use, or is not of this machine.
    pub fn start(wanted: SocketAddr, options: ListenerOptions) -> Result<Self, Failure> {
        let meter = Arc::new(OnceLock::<Arc<Metrics>>::new());
        let shown = meter.clone();
        let server = Self::listen(wanted, options, move || read_families(shown.get(), &[]))?;
        Ok(MetricsServer { server, meter })
    }

    /// Binds the address and answers with what `read` returns.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        wanted: SocketAddr,
        options: ListenerOptions,
        read: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let server = Self::listen(wanted, options, read)?;
        let meter = Arc::default();
        Ok(MetricsServer { server, meter })
    }

    fn listen(
        wanted: SocketAddr,
        options: ListenerOptions,
        read: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static,
    ) -> Result<HttpServer, Failure> {
        let site = MetricsSite(read);
        TcpListener::bind(wanted)
            .and_then(|listener| HttpServer::start(listener, "metrics", site, options))
            .map_err(|error| {
                Failure::could_not(format!(
                    "cannot serve metrics at {wanted}: {error}; give another --metrics, such as 0 for any free port of this machine"
                ))
            })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves this replay's counters from now on.
    pub fn show(&self, meter: &Arc<Metrics>) {
        let _ = self.meter.set(meter.clone());
    }
}

/// Reads the metrics of a replay and of the program. `waits` are those of the target's sessions.
pub fn read_families(meter: Option<&Arc<Metrics>>, waits: &[(String, f64)]) -> Vec<MetricFamily> {
    let readings = meter.map(|meter| meter.read());
    let mut families = vec![metric_families::build_info()];
    families.extend(metric_families::replay_families(readings.as_ref()));
    families.extend(metric_families::target_wait_families(waits));
    families.extend(read_process_families());
    families
}

/// Reads the metrics of the program's process.
pub fn read_process_families() -> Vec<MetricFamily> {
    let process = own_process::read();
    process
        .as_ref()
        .map(metric_families::process_families)
        .unwrap_or_default()
}

/// Reports the address of the metrics, and who can read them.
pub fn announce_metrics(address: SocketAddr) {
    terminal::note(&format!("Metrics are at http://{address}/metrics."));
    if !address.ip().is_loopback() {
        terminal::note(
            "That address can be reached from other machines: anyone who reaches it can read the metrics, which are sent in the clear. A tunnel to --metrics of 127.0.0.1 shows them to you alone.",
        );
    }
}

/// Site with the metrics that a function reads.
struct MetricsSite<R>(R);

impl<R: Fn() -> Vec<MetricFamily> + Send + Sync + 'static> Site for MetricsSite<R> {
    fn answer(&self, request: &Request) -> Reply {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let text = metrics_text::render_text(&(self.0)());
                http::typed_reply(StatusCode::OK, CONTENT_TYPE, &text)
            }
            (&Method::GET | &Method::HEAD, "/healthz") => http::text_reply(StatusCode::OK, "ok\n"),
            (&Method::GET | &Method::HEAD, _) => {
                http::text_reply(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n")
            }
            _ => http::text_reply(
                StatusCode::METHOD_NOT_ALLOWED,
                "these can be read, and no more\n",
            ),
        }
    }
}
