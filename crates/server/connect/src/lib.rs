//! Connects to a server that the user names: a `postgres://` URL or `key=value` pairs, completed from the
//! sources that libpq reads: the service file, the environment, then libpq's defaults.
//!
//! A replay uses it for its target, the proxy for its upstream server. [`dial`] opens a socket up to the
//! first message, [`tls`] verifies the server, and [`login`] does start-up and authentication, and sends
//! queries of this program one after the other. All operations block. Statements of a workload are left to
//! `replay`.
//!
//! Source: PostgreSQL documentation, 34.1.1 (connection strings), 34.15 (environment), 34.16 (password file),
//! 34.17 (service file). Unsupported parameters are refused, never ignored (`parameters.rs`).

pub mod dial;
pub mod login;
mod parameters;
mod parse;
mod passfile;
mod plain_file;
mod security;
mod service;
pub mod tls;
mod warning;

use std::fmt::{self, Write as _};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

pub use parse::hide_password;
pub use passfile::{PasswordFile, PasswordFileProblem};
pub use security::{
    AuthMethod, ChannelBindingMode, SecurityOptions, SslMode, TlsVersions, TrustedRoots,
};
pub use warning::set_warning_listener;

/// Setting that makes transactions read-only by default.
const READ_ONLY: &str = "default_transaction_read_only";
const PORT: u16 = 5432;
/// libpq has no time limit by default; a replay needs one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Host of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A host name or an IP address.
    Tcp(String),
    /// The directory of a unix socket.
    Unix(PathBuf),
    /// The name of an abstract unix socket, without its `@`.
    Abstract(String),
}

/// An address of a server to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Host, which is also the name that the certificate is compared with. `None` if only the address is
    /// known.
    pub host: Option<Host>,
    /// Address to connect to without resolving the host name (`hostaddr`).
    pub address: Option<IpAddr>,
    /// Port; part of the socket's name for a unix socket.
    pub port: u16,
}

/// Required state of the server (`target_session_attrs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionAttributes {
    /// Any state.
    #[default]
    Any,
    /// It accepts writing transactions.
    ReadWrite,
    /// It accepts read-only transactions only.
    ReadOnly,
    /// It is not a standby.
    Primary,
    /// It is a standby.
    Standby,
    /// It is a standby, unless none of the servers is.
    PreferStandby,
}

/// TCP keepalive options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Whether the system sends keepalive probes.
    pub on: bool,
    /// Idle seconds before the first probe; `None` for the system's default.
    pub idle_s: Option<i32>,
    /// Seconds between probes.
    pub interval_s: Option<i32>,
    /// Number of unanswered probes before the connection is closed.
    pub count: Option<i32>,
    /// Milliseconds that sent data may stay unacknowledged before the connection is closed.
    pub user_timeout_ms: Option<i32>,
}

/// A server, with the values for sessions that the workload does not define.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Servers; the first that meets the requirements is used.
    pub servers: Vec<Server>,
    /// Whether they are tried in random order (`load_balance_hosts=random`).
    pub in_random_order: bool,
    /// Required state of the server.
    pub session: SessionAttributes,
    /// Role for sessions without a known role.
    pub user: Option<String>,
    /// Database for sessions without a known database.
    pub database: Option<String>,
    /// Password for all roles. `None`: each is looked up in the password file.
    pub password: Option<String>,
    /// Password file of libpq.
    pub password_file: PasswordFile,
    /// Time limit for opening a connection to one address, including authentication.
    pub connect_timeout: Duration,
    /// `client_encoding` for sessions that use the target's. Queries of this program use UTF-8.
    pub encoding: Option<String>,
    /// Arguments of the server (`options`), such as `-c work_mem=64MB`.
    pub options: Option<String>,
    /// Settings of every session at its start, by name, in addition to `options`. They override those of the
    /// role and the database.
    pub settings: Vec<(String, String)>,
    /// `application_name` of sessions without a known one.
    pub application: Option<String>,
    /// Security options.
    pub security: SecurityOptions,
    /// TCP keepalive options.
    pub keep_alive: KeepAlive,
}

/// Reason why a target cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not a connection string.
    #[error(
        "'{given}' is not a target: {reason}; give postgres://USER@HOST:PORT/DATABASE or 'host=… port=… dbname=… user=…'"
    )]
    Malformed {
        /// String as given, without the password.
        given: String,
        /// Description of the error.
        reason: String,
    },
    /// It requires an unsupported feature.
    #[error("the target asks for {what}, which is not done here; {instead}")]
    Unsupported {
        /// Unsupported feature.
        what: String,
        /// Remedy.
        instead: &'static str,
    },
    /// The parameter is unknown.
    #[error("'{name}'{place} is no parameter of a target; there are {known}")]
    Unknown {
        /// Parameter as given.
        name: String,
        /// Source of the parameter, if it is not the target itself.
        place: String,
        /// Supported parameters.
        known: String,
    },
    /// The value of a parameter is invalid.
    #[error("{name}={value} makes no sense for a target; {name} is {allowed}")]
    Value {
        /// Parameter.
        name: String,
        /// Value as given, without a password that a mistake made a part of it.
        value: String,
        /// Allowed values.
        allowed: String,
    },
    /// The service does not exist.
    #[error("the target's service '{name}' cannot be used: {reason}")]
    Service {
        /// Service as given.
        name: String,
        /// Reason.
        reason: String,
    },
    /// A file that the target names cannot be used.
    #[error(
        "the {what} {} cannot be used: {reason}; {instead}",
        parse::hide_in_path(path)
    )]
    File {
        /// Kind of file.
        what: &'static str,
        /// Path.
        path: PathBuf,
        /// Reason.
        reason: String,
        /// Remedy.
        instead: &'static str,
    },
}

impl Target {
    /// Parses a connection string. `environment` returns libpq's variables (`PGHOST` …) and `HOME`, which
    /// complete the string and its service.
    ///
    /// # Errors
    /// If it is malformed or requires an unsupported feature.
    pub fn parse(
        given: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TargetError> {
        let malformed = |reason: String| TargetError::Malformed {
            given: hide_password(given),
            reason,
        };
        let environment = |name: &str| environment(name).filter(|value| !value.is_empty());
        let mut settings = parameters::Settings::default();
        let is_url = given.contains("://") && given.contains('?');
        for (name, value) in parse::pairs(given).map_err(malformed)? {
            settings.set(&name, value, "").map_err(|error| {
                match given.find('?') < given.rfind('@') && is_url {
                    // The name may be a part of the password.
                    true => malformed(parse::UNESCAPED.to_owned()),
                    false => error,
                }
            })?;
        }
        let service = settings
            .take("service")
            .or_else(|| environment("PGSERVICE"));
        let service_file = settings
            .take("servicefile")
            .or_else(|| environment("PGSERVICEFILE"));
        if let Some(service) = service {
            let found = service::settings(&service, service_file.as_deref(), &environment)?;
            settings.fill(found);
        }
        settings.fill_from_environment(&environment)?;

        let attributes = [
            ("any", SessionAttributes::Any),
            ("read-write", SessionAttributes::ReadWrite),
            ("read-only", SessionAttributes::ReadOnly),
            ("primary", SessionAttributes::Primary),
            ("standby", SessionAttributes::Standby),
            ("prefer-standby", SessionAttributes::PreferStandby),
        ];
        let orders = [("disable", false), ("random", true)];
        let timeout = settings.number("connect_timeout", " of seconds")?;
        let security = SecurityOptions::from(&mut settings, &environment)?;
        let keep_alive = KeepAlive::from(&mut settings)?;
        let fallback = settings.take("fallback_application_name");
        let target = Target {
            in_random_order: settings
                .choice("load_balance_hosts", &orders)?
                .unwrap_or(false),
            session: settings
                .choice("target_session_attrs", &attributes)?
                .unwrap_or_default(),
            servers: servers(&mut settings).map_err(malformed)?,
            user: settings.take("user"),
            database: settings.take("dbname"),
            password: settings.take("password"),
            password_file: PasswordFile::find(settings.take("passfile").as_deref(), &environment),
            // In libpq, zero and less mean no limit. A replay uses a day.
            connect_timeout: timeout.map_or(CONNECT_TIMEOUT, |seconds| {
                match u64::try_from(seconds) {
                    Ok(seconds @ 1..) => Duration::from_secs(seconds.min(86_400)),
                    _ => Duration::from_secs(86_400),
                }
            }),
            // `auto` means the encoding of a terminal's locale, which does not apply here.
            encoding: settings
                .take("client_encoding")
                .filter(|encoding| encoding != "auto"),
            options: settings.take("options"),
            settings: Vec::new(),
            application: settings.take("application_name").or(fallback),
            security,
            keep_alive,
        };
        Ok(target)
    }

    /// Whether sessions start with `default_transaction_read_only` on.
    pub fn is_read_only(&self) -> bool {
        let keeps = |(name, value): &(String, String)| name == READ_ONLY && value == "on";
        self.settings.iter().any(keeps)
    }

    /// Whether [`Target::settings`] has this setting. Names of settings are case-insensitive.
    pub(crate) fn sets(&self, name: &str) -> bool {
        let is = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
        self.settings.iter().any(is)
    }

    /// Returns the start-up parameter `options`: the target's own, and the settings as `-c name=value`, with
    /// a backslash before white space and backslashes (documentation, 54.7, StartupMessage).
    pub fn start_up_options(&self) -> String {
        let mut options = self.options.clone().unwrap_or_default();
        for (name, value) in &self.settings {
            let space = if options.is_empty() { "" } else { " " };
            let _ = write!(options, "{space}-c {name}=");
            for character in value.chars() {
                if character.is_ascii_whitespace() || character == '\\' {
                    options.push('\\');
                }
                options.push(character);
            }
        }
        options
    }

    /// Returns hosts and ports as one text without secrets.
    pub fn address(&self) -> String {
        let all: Vec<String> = self.servers.iter().map(Server::to_string).collect();
        all.join(", ")
    }

    /// Returns the password for a role on a database of a server, from the string, the environment, or
    /// libpq's file.
    pub fn password_for(&self, server: &Server, user: &str, database: &str) -> Option<String> {
        let from = |file: &PasswordFile| {
            server
                .names_in_password_file()
                .iter()
                .find_map(|host| file.password(host, server.port, database, user))
        };
        self.password.clone().or_else(|| from(&self.password_file))
    }
}

/// Returns the name of this machine, if the system tells it.
pub fn machine_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns whether an address is one of this machine's.
pub fn is_own_address(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || std::net::UdpSocket::bind((address, 0)).is_ok()
}

impl Server {
    /// Returns the IP addresses that it has now; none for a Unix socket, and for a name that cannot be resolved.
    pub fn ip_addresses(&self) -> Vec<IpAddr> {
        match (self.address, &self.host) {
            (Some(address), _) => vec![address],
            (None, Some(Host::Tcp(name))) => (name.as_str(), self.port)
                .to_socket_addrs()
                .map_or_else(|_| Vec::new(), |found| found.map(|one| one.ip()).collect()),
            (None, _) => Vec::new(),
        }
    }

    /// Returns the names that libpq compares with the first field of a password file.
    fn names_in_password_file(&self) -> Vec<String> {
        match &self.host {
            Some(Host::Tcp(host)) => vec![host.clone()],
            Some(Host::Unix(directory)) => {
                vec![directory.display().to_string(), "localhost".to_owned()]
            }
            Some(Host::Abstract(name)) => vec![format!("@{name}"), "localhost".to_owned()],
            None => self.address.iter().map(IpAddr::to_string).collect(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match (&self.host, self.address) {
            (Some(Host::Unix(directory)), _) => {
                write!(f, "{}/.s.PGSQL.{port}", directory.display())
            }
            (Some(Host::Abstract(name)), _) => write!(f, "@{name}/.s.PGSQL.{port}"),
            (Some(Host::Tcp(host)), _) if host.contains(':') => write!(f, "[{host}]:{port}"),
            (Some(Host::Tcp(host)), _) => write!(f, "{host}:{port}"),
            (None, Some(IpAddr::V6(address))) => write!(f, "[{address}]:{port}"),
            (None, Some(address)) => write!(f, "{address}:{port}"),
            (None, None) => write!(f, "port {port}"),
        }
    }
}

impl KeepAlive {
    fn from(settings: &mut parameters::Settings) -> Result<Self, TargetError> {
        // Zero and less mean the system's default, as in libpq.
        let mut positive = |name: &str, unit: &str| -> Result<Option<i32>, TargetError> {
            let number = settings.number(name, unit)?;
            Ok(number
                .and_then(|number| i32::try_from(number).ok())
                .filter(|number| *number > 0))
        };
        Ok(KeepAlive {
            idle_s: positive("keepalives_idle", " of seconds")?,
            interval_s: positive("keepalives_interval", " of seconds")?,
            count: positive("keepalives_count", "")?,
            user_timeout_ms: positive("tcp_user_timeout", " of milliseconds")?,
            on: settings
                .number("keepalives", ": 0 or 1")?
                .is_none_or(|on| on != 0),
        })
    }
}

/// Combines `host`, `hostaddr` and `port` to servers.
fn servers(settings: &mut parameters::Settings) -> Result<Vec<Server>, String> {
    let list = |text: Option<String>| -> Vec<String> {
        text.map_or(Vec::new(), |text| {
            text.split(',').map(|part| part.trim().to_owned()).collect()
        })
    };
    let hosts = list(settings.take("host"));
    let addresses = list(settings.take("hostaddr"));
    let ports = list(settings.take("port"));
    let count = hosts.len().max(addresses.len()).max(1);
    for (what, given, one_will_do) in [
        ("hosts", hosts.len(), false),
        ("addresses", addresses.len(), false),
        ("ports", ports.len(), true),
    ] {
        if given != 0 && given != count && !(one_will_do && given == 1) {
            return Err(format!("it names {given} {what} for {count} servers"));
        }
    }
    (0..count)
        .map(|place| {
            let address = match addresses.get(place).map_or("", String::as_str) {
                "" => None,
                text => Some(text.parse::<IpAddr>().map_err(|_| {
                    format!("its hostaddr '{}' is no address", hide_password(text))
                })?),
            };
            let host = match hosts.get(place).map_or("", String::as_str) {
                "" if address.is_some() => None,
                "" => Some(Host::Tcp("localhost".to_owned())),
                text => Some(match text.strip_prefix('@') {
                    Some(name) => Host::Abstract(name.to_owned()),
                    None if text.starts_with('/') => Host::Unix(text.into()),
                    None => Host::Tcp(text.to_owned()),
                }),
            };
            let port = match ports.get(if ports.len() == 1 { 0 } else { place }) {
                None => PORT,
                Some(text) if text.is_empty() => PORT,
                Some(text) => text
                    .parse::<u16>()
                    .ok()
                    .filter(|&port| port > 0)
                    .ok_or_else(|| match text.parse::<u64>() {
                        Ok(_) => format!("{text} is no port (1 to 65535)"),
                        // It may be a part of a password.
                        Err(_) => "a port is not a number from 1 to 65535".to_owned(),
                    })?,
            };
            Ok(Server {
                host,
                address,
                port,
            })
        })
        .collect()
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("address", &self.address())
            .field("user", &self.user)
            .field("database", &self.database)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
