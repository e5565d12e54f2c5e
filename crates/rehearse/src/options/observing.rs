//! How the tool itself is watched: its log, and its metrics.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{Args, ValueEnum};

/// The log of any command.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// How what is told on standard error is written: text for people, or a JSON object a line.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// What the log tells of: this and what is worse [default: error; with --log-format json, info].
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

/// How bad something is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum LogLevel {
    /// The command could not do what it was asked.
    Error,
    /// Something that was not asked for happened.
    Warn,
    /// What is being done.
    Info,
    /// How far it is.
    Debug,
}

/// Metrics of a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Serve metrics for Prometheus at this address while the replay runs: IP:PORT, or a PORT of
    /// 127.0.0.1; port 0 takes a free one and says which. Whoever reaches it can read them.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Serve them for this long after the end, for a last scrape; Ctrl-C ends it.
    #[arg(long, value_name = "DURATION", requires = "metrics", value_parser = clock::duration_of)]
    pub metrics_linger: Option<Duration>,
}

/// The live page of a replay.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Live page")]
pub struct PageArgs {
    /// Serve one page that shows the replay while it runs: --ui takes a free port of 127.0.0.1 and says
    /// which, --ui=PORT that one, --ui=IP:PORT any. Whoever has its address can look.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = address)]
    pub ui: Option<SocketAddr>,
    /// Serve it for this long after the end; Ctrl-C ends it.
    #[arg(long, value_name = "DURATION", requires = "ui", value_parser = clock::duration_of)]
    pub ui_linger: Option<Duration>,
}

/// An address to listen at: a port alone is of this machine only.
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
