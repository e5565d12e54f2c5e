//! `rehearse capture proxy`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::options::sending::Digest;

use super::encrypting::EncryptArgs;
use super::masking::MaskArgs;
use super::observing::address;

/// `rehearse capture proxy`
#[derive(Debug, Args)]
pub struct CaptureProxy {
    /// Where clients connect to: ADDRESS:PORT, a PORT of 127.0.0.1, or the path of a unix socket; port 0
    /// takes a free one and says which. Can be given again.
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub listen: Vec<String>,
    /// The server: postgres://HOST:PORT or 'host=… port=…' with libpq's parameters (sslmode, several
    /// hosts …). Clients say their own user, database and password.
    #[arg(long, value_name = "URL")]
    pub upstream: String,
    /// The workload to make, NAME.workload; where recording is stopped and started again, NAME-2.workload
    /// and so on.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// Do not record until it is asked for: by SIGUSR1, or at --admin-listen.
    #[arg(long)]
    pub paused: bool,
    /// Serve the status (GET /), and take POST /start and POST /stop with a token, at this address of this machine: a
    /// PORT, or 127.0.0.1:PORT; port 0 takes a free one and says which.
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub admin_listen: Option<SocketAddr>,
    /// Take the token for POST /start and POST /stop from this file [default: a new token in
    /// NAME.workload.control-token].
    #[arg(
        long,
        value_name = "FILE",
        env = "REHEARSE_CONTROL_TOKEN_FILE",
        hide_env_values = true
    )]
    pub admin_token_file: Option<PathBuf>,
    /// The certificate that clients see (PEM, with its chain). Without one, there is no TLS for clients.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM, not encrypted, its owner's alone).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Refuse clients without TLS.
    #[arg(long, requires = "tls_cert")]
    pub tls_required: bool,
    /// Take down a checksum of every result, so that a replay can tell whether it is equal.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub checksum_results: Option<Digest>,
    /// After Ctrl-C, how long connections that are not idle have to come to the end of their
    /// transaction.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = clock::duration_of)]
    pub drain: Duration,
    /// Threads that forward.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Forward connections without TLS by epoll as well, and not by io_uring where the system has it
    #[arg(long)]
    pub without_io_uring: bool,
    /// How many MiB may wait to be recorded; what comes beyond that is forwarded and not recorded.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub buffer: u32,
    /// Print the account as JSON.
    #[arg(long)]
    pub json: bool,
    /// How its values are masked.
    #[command(flatten)]
    pub masking: MaskArgs,
    /// To whom it is encrypted.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = address(text)?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(
            "whoever reaches it could stop the recording, so it is of this machine only; give a port, or 127.0.0.1 with one"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_is_of_this_machine_only() {
        assert_eq!(loopback("7000").unwrap().to_string(), "127.0.0.1:7000");
        assert!(loopback("[::1]:7000").is_ok());
        assert!(loopback("0.0.0.0:7000").unwrap_err().contains("127.0.0.1"));
    }
}
