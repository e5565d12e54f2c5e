//! Options of the program's own log, metrics and live page.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{Args, ValueEnum};
use http_server::{Limits, ListenerOptions};
use study::Failure;
use telemetry::ExportSettings;

/// Log of every command.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Write messages on standard error as text, or as one JSON object per line.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Log messages of this level and above [default: error; with --log-format json, info].
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// Formats of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Severities, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum LogLevel {
    /// Command failures.
    Error,
    /// Unexpected events.
    Warn,
    /// Actions.
    Info,
    /// Progress.
    Debug,
}

/// Metrics of a replay, or of a comparison that follows one.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Serve Prometheus metrics at this address during the replay: IP:PORT, or a PORT of
    /// 127.0.0.1. Port 0 selects a free port and prints it. There is no authentication.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Serve metrics for this long after the end, for a last scrape; Ctrl-C stops it.
    #[arg(long, value_name = "DURATION", requires = "metrics", value_parser = clock::parse_duration)]
    pub metrics_linger: Option<Duration>,
}

/// Export to an OpenTelemetry collector.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Export")]
pub struct OtlpArgs {
    /// Export metrics to the OpenTelemetry collector at this address, over OTLP with HTTP and
    /// protobuf: http://HOST:4318. A replay exports spans of statements as well. Headers, resource
    /// attributes and times are read from the variables OTEL_*.
    #[arg(
        long,
        value_name = "ENDPOINT",
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true
    )]
    pub otlp: Option<String>,
}

impl OtlpArgs {
    /// Returns the settings of the export, if there is to be one.
    ///
    /// # Errors
    /// If the endpoint or a variable is invalid.
    pub fn settings(&self) -> Result<Option<ExportSettings>, Failure> {
        // An empty variable counts as absent.
        let endpoint = self
            .otlp
            .as_deref()
            .filter(|endpoint| !endpoint.trim().is_empty());
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        ExportSettings::read(endpoint, |name| std::env::var(name).ok())
            .map_err(|message| Failure::usage(format!("cannot export over OTLP: {message}")))
    }
}

/// Spans of a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Export")]
pub struct SpanArgs {
    /// Export spans for this share of the captured traces, 0 to 1. Statements without a sampled
    /// traceparent in their comment have no span.
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, requires = "otlp", value_parser = ratio)]
    pub otlp_span_ratio: f64,
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse::<f64>().ok();
    let valid = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
    valid.ok_or_else(|| "it is no share; give a number from 0 to 1, such as 0.1".to_owned())
}

/// Names under which HTTP listeners may be addressed.
#[derive(Debug, Clone, Default, Args)]
pub struct AllowHostArgs {
    /// Serve HTTP requests to this host name as well, such as the DNS name of this machine. Repeatable
    /// [default: localhost and IP addresses, since a foreign site could let its own name lead here].
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub allow_host: Vec<String>,
}

impl AllowHostArgs {
    /// Returns the options of a listener that reports its failure with `complain`.
    pub fn listener_options(&self, complain: fn(&str)) -> ListenerOptions {
        ListenerOptions {
            limits: Limits::default(),
            allowed_hosts: self.allow_host.clone(),
            complain,
        }
    }
}

/// Parses a host name, without a port.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match !text.is_empty() && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(
            "it is no host name; give a name without a port, such as replay.example.org".to_owned(),
        ),
    }
}

/// Live page of a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Live page")]
pub struct PageArgs {
    /// Serve a page that shows the replay while it runs. --ui selects a free port of 127.0.0.1
    /// and prints it, --ui=PORT that port, --ui=IP:PORT any address. Anyone with the printed URL
    /// can read it.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = address)]
    pub ui: Option<SocketAddr>,
    /// Serve the page for this long after the end; Ctrl-C stops it.
    #[arg(long, value_name = "DURATION", requires = "ui", value_parser = clock::parse_duration)]
    pub ui_linger: Option<Duration>,
}

/// Parses an address to listen on. A port alone means the loopback address.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::new(loopback, port));
    }
    text.parse().map_err(|_| {
        "it is no address to listen at; give a port such as 9187, or an IP address with one, such as 127.0.0.1:9187 or [::1]:9187"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_a_share() {
        assert_eq!(
            (ratio("0"), ratio("0.25"), ratio("1")),
            (Ok(0.0), Ok(0.25), Ok(1.0))
        );
        for wrong in ["", "-0.1", "1.1", "NaN", "10%"] {
            assert!(ratio(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn allowed_host_is_a_name_without_a_port() {
        assert_eq!(
            host_name("replay.example.org").unwrap(),
            "replay.example.org"
        );
        for wrong in ["", "a:80", "http://a", "a/b", "*"] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_alone_is_of_this_machine_only() {
        let is = |text: &str| address(text).map(|address| address.to_string());
        assert_eq!(is("9187").unwrap(), "127.0.0.1:9187");
        assert_eq!(is("localhost:0").unwrap(), "127.0.0.1:0");
        assert_eq!(is("0.0.0.0:9187").unwrap(), "0.0.0.0:9187");
        assert_eq!(is("[::1]:9187").unwrap(), "[::1]:9187");
        for wrong in [
            "",
            "70000",
            "127.0.0.1",
            "::1",
            "host:9187",
            "http://127.0.0.1:1",
        ] {
            assert!(is(wrong).unwrap_err().contains("give a port"), "{wrong}");
        }
    }
}
