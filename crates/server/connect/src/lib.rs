//! Which server, as its user names it: a `postgres://` URL or `key=value` pairs, completed from
//! where libpq looks: the service file, the environment, then libpq's defaults.
//!
//! Who drives: whoever connects to a server that its user names: a replay to its target, the proxy
//! to its upstream. [`dial`] is the way there up to the first message, [`tls`] what is trusted,
//! [`login`] start-up and authentication, and questions of our own, asked one after the other.
//! Deliberately absent: what a workload says to the server, and anything that does not block.
//!
//! Source: PostgreSQL documentation, 34.1.1 (connection strings), 34.15 (environment), 34.16
//! (password file), 34.17 (service file). What of it is not done is refused, never ignored
//! (`parameters.rs`).

pub mod dial;
pub mod login;
mod parameters;
mod parse;
mod passfile;
mod security;
mod service;
pub mod tls;

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use passfile::{PasswordFile, PasswordFileProblem};
pub use security::{Binding, Method, Roots, Security, SslMode};

/// The setting that keeps a session from writing.
const READ_ONLY: &str = "default_transaction_read_only";
const PORT: u16 = 5432;
/// libpq waits for ever; a replay must come to an end.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name or an address.
    Tcp(String),
    /// The directory of a unix socket.
    Unix(PathBuf),
    /// The name of an abstract unix socket, without its `@`.
    Abstract(String),
}

/// One of the places to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where it listens; also the name that its certificate is compared with. `None`: only its
    /// address is known.
    pub host: Option<Host>,
    /// Where to connect to without asking for the name's address (`hostaddr`).
    pub address: Option<IpAddr>,
    /// Its port; part of the socket's name for a unix socket.
    pub port: u16,
}

/// What a server must be to be connected to (`target_session_attrs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionAttributes {
    /// Anything.
    #[default]
    Any,
    /// It takes writing transactions.
    ReadWrite,
    /// It takes none.
    ReadOnly,
    /// It is no standby.
    Primary,
    /// It is a standby.
    Standby,
    /// It is a standby, or none of the servers is.
    PreferStandby,
}

/// How a TCP connection that says nothing is kept, and given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Whether the system asks at all.
    pub on: bool,
    /// Silent for how many seconds; `None`: the system's.
    pub idle_s: Option<i32>,
    /// Asked again after how many seconds.
    pub interval_s: Option<i32>,
    /// Given up after how many questions.
    pub count: Option<i32>,
    /// Given up when what was sent was not acknowledged for so many milliseconds.
    pub user_timeout_ms: Option<i32>,
}

/// A server, and what to say there where the workload does not.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Where to connect: to the first that answers as asked.
    pub servers: Vec<Server>,
    /// Whether they are tried in an order of chance (`load_balance_hosts=random`).
    pub in_random_order: bool,
    /// What the server must be.
    pub session: SessionAttributes,
    /// The role for sessions whose own is not known.
    pub user: Option<String>,
    /// The database for sessions whose own is not known.
    pub database: Option<String>,
    /// One password for all. `None`: the password file is asked for each.
    pub password: Option<String>,
    /// libpq's password file.
    pub password_file: PasswordFile,
    /// How long opening a connection to one address may take, with authentication.
    pub connect_timeout: Duration,
    /// `client_encoding`, for sessions that are to have the one that the target names. Our own questions
    /// are asked in UTF-8.
    pub encoding: Option<String>,
    /// Arguments for the server (`options`), such as `-c work_mem=64MB`.
    pub options: Option<String>,
    /// Settings that every session begins with, by name, behind those of `options`; they go before
    /// those of the role and the database.
    pub settings: Vec<(String, String)>,
    /// `application_name` of sessions whose own is not known.
    pub application: Option<String>,
    /// How far it is trusted.
    pub security: Security,
    /// How a connection that says nothing is kept.
    pub keep_alive: KeepAlive,
}

/// Why a target cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is no connection string.
    #[error(
        "'{given}' is not a target: {reason}; give postgres://USER@HOST:PORT/DATABASE or 'host=… port=… dbname=… user=…'"
    )]
    Malformed {
        /// As given, without the password.
        given: String,
        /// What is wrong.
        reason: String,
    },
    /// It asks for what this version cannot do.
    #[error("the target asks for {what}, which is not done here; {instead}")]
    Unsupported {
        /// What it asks for.
        what: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// A parameter that nobody knows.
    #[error("'{name}'{place} is no parameter of a target; there are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// Where it stands, if not in the target itself.
        place: String,
        /// Those that are taken.
        known: String,
    },
    /// A parameter's value makes no sense.
    #[error("{name}={value} makes no sense for a target; {name} is {allowed}")]
    Value {
        /// The parameter.
        name: String,
        /// As given.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// There is no such service.
    #[error("the target's service '{name}' cannot be used: {reason}")]
    Service {
        /// As given.
        name: String,
        /// Why.
        reason: String,
    },
    /// A file that the target names is of no use.
    #[error("the {what} {} cannot be used: {reason}; {instead}", path.display())]
    File {
        /// What it is.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why.
        reason: String,
        /// What to do.
        instead: &'static str,
    },
}

impl Target {
    /// Reads a connection string. `environment` is asked for libpq's variables (`PGHOST` …) and
    /// for `HOME` where the string and its service are silent.
    ///
    /// # Errors
    /// Where it is malformed or asks for what cannot be done.
    pub fn parse(
        given: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TargetError> {
        let malformed = |reason: String| TargetError::Malformed {
            given: parse::without_password(given),
            reason,
        };
        let environment = |name: &str| environment(name).filter(|value| !value.is_empty());
        let mut settings = parameters::Settings::default();
        for (name, value) in parse::pairs(given).map_err(malformed)? {
            settings.set(&name, value, "")?;
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
        let security = Security::from(&mut settings, &environment)?;
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
            // libpq: zero and less is no limit; a day is one that a replay can bear.
            connect_timeout: timeout.map_or(CONNECT_TIMEOUT, |seconds| {
                match u64::try_from(seconds) {
                    Ok(seconds @ 1..) => Duration::from_secs(seconds.min(86_400)),
                    _ => Duration::from_secs(86_400),
                }
            }),
            // What `auto` stands for, the encoding of a terminal's locale, is nothing to a session here.
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

    /// Whether sessions begin with `default_transaction_read_only` on.
    pub fn is_read_only(&self) -> bool {
        let keeps = |(name, value): &(String, String)| name == READ_ONLY && value == "on";
        self.settings.iter().any(keeps)
    }

    /// Whether [`Target::settings`] have this one. Names of settings are told apart without their case.
    pub(crate) fn sets(&self, name: &str) -> bool {
        let is = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
        self.settings.iter().any(is)
    }

    /// What the start-up parameter `options` has: the target's own, and the settings as
    /// `-c name=value`, with a backslash before white space and backslashes (documentation, 54.7,
    /// StartupMessage).
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

    /// Hosts and ports in one, without anything secret.
    pub fn address(&self) -> String {
        let all: Vec<String> = self.servers.iter().map(Server::to_string).collect();
        all.join(", ")
    }

    /// The password for a role on a database of a server: from the string or the environment, or from libpq's file.
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

impl Server {
    /// What libpq compares with a password file's first field.
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
        // Zero and less is the system's own, as with libpq.
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

/// The places that `host`, `hostaddr` and `port` name together.
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
                text => Some(
                    text.parse::<IpAddr>()
                        .map_err(|_| format!("its hostaddr '{text}' is no address"))?,
                ),
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
                    .ok_or_else(|| format!("'{text}' is no port (1 to 65535)"))?,
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
