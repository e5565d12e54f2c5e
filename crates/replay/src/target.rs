//! Which server, as its user names it: a `postgres://` URL or `key=value` pairs, completed from
//! where libpq looks: the environment, then libpq's defaults.
//!
//! Source: PostgreSQL documentation, 34.1.1 (connection strings), 34.15 (environment), 34.16
//! (password file). Not taken here: service files, several hosts, TLS. Asked for, they are
//! refused, never ignored.

mod parse;
mod passfile;

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

pub use passfile::PasswordFile;

use crate::guard;

const PORT: u16 = 5432;
/// libpq waits for ever; a replay must come to an end.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name or an address.
    Tcp(String),
    /// The directory of a unix socket.
    Unix(PathBuf),
}

/// A server, and what to say there where the workload does not.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Where it listens.
    pub host: Host,
    /// Its port; part of the socket's name for a unix socket.
    pub port: u16,
    /// The role for sessions whose own is not known.
    pub user: Option<String>,
    /// The database for sessions whose own is not known.
    pub database: Option<String>,
    /// One password for all. `None`: the password file is asked for each.
    pub password: Option<String>,
    /// libpq's password file.
    pub password_file: PasswordFile,
    /// Settings that every session begins with, by name; they go before those of the role and the
    /// database.
    pub settings: Vec<(String, String)>,
    /// How long opening a connection may take, with authentication.
    pub connect_timeout: Duration,
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
    #[error("the target asks for {what}, which replay cannot do yet; {instead}")]
    Unsupported {
        /// What it asks for.
        what: String,
        /// What to do instead.
        instead: &'static str,
    },
}

impl Target {
    /// Reads a connection string. `environment` is asked for libpq's variables (`PGHOST` …) where
    /// the string is silent.
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
        let pairs = parse::pairs(given).map_err(malformed)?;
        let mut settings = parse::Settings::default();
        for (name, value) in pairs {
            settings
                .set(&name, value)
                .map_err(|problem| match problem {
                    parse::Problem::Malformed(reason) => malformed(reason),
                    parse::Problem::Unsupported(what, instead) => {
                        TargetError::Unsupported { what, instead }
                    }
                })?;
        }
        let from = |variable: &str| environment(variable).filter(|value| !value.is_empty());
        let host = settings
            .host
            .or_else(|| from("PGHOST"))
            .unwrap_or_else(|| "localhost".to_owned());
        if host.contains(',') {
            return Err(TargetError::Unsupported {
                what: format!("several hosts ({host})"),
                instead: "name the one to replay against",
            });
        }
        let port_text = settings.port.or_else(|| from("PGPORT"));
        let port = match &port_text {
            None => PORT,
            Some(text) => text
                .parse::<u16>()
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| malformed(format!("'{text}' is no port (1 to 65535)")))?,
        };
        Ok(Target {
            host: match host.strip_prefix('@') {
                Some(_) => {
                    return Err(TargetError::Unsupported {
                        what: "an abstract unix socket".to_owned(),
                        instead: "give the directory of a socket or a host",
                    });
                }
                None if host.starts_with('/') => Host::Unix(PathBuf::from(host)),
                None => Host::Tcp(host),
            },
            port,
            user: settings.user.or_else(|| from("PGUSER")),
            database: settings.database.or_else(|| from("PGDATABASE")),
            password: settings.password.or_else(|| from("PGPASSWORD")),
            password_file: PasswordFile::find(settings.password_file.as_deref(), &environment),
            settings: Vec::new(),
            connect_timeout: settings
                .connect_timeout_s
                .map_or(CONNECT_TIMEOUT, Duration::from_secs),
        })
    }

    /// Whether sessions begin with `default_transaction_read_only` on.
    pub(crate) fn is_read_only(&self) -> bool {
        let keeps = |(name, value): &(String, String)| name == guard::SETTING && value == "on";
        self.settings.iter().any(keeps)
    }

    /// The settings as the start-up parameter `options` has them: `-c name=value`, with a
    /// backslash before white space and backslashes (documentation, 54.7, StartupMessage).
    pub(crate) fn start_up_options(&self) -> String {
        let mut options = String::new();
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

    /// Host and port in one, without anything secret.
    pub fn address(&self) -> String {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]:{}", self.port),
            Host::Tcp(host) => format!("{host}:{}", self.port),
            Host::Unix(directory) => {
                format!("{}/.s.PGSQL.{}", directory.display(), self.port)
            }
        }
    }

    /// The password for a role on a database, from the string, the environment or the file.
    pub fn password_for(&self, user: &str, database: &str) -> Option<String> {
        if let Some(password) = &self.password {
            return Some(password.clone());
        }
        let host = match &self.host {
            Host::Tcp(host) => host.as_str(),
            // What libpq matches for sockets.
            Host::Unix(_) => "localhost",
        };
        self.password_file.password(host, self.port, database, user)
    }
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
mod tests {
    use super::*;

    fn target(given: &str) -> Result<Target, TargetError> {
        Target::parse(given, |_| None)
    }

    #[test]
    fn urls_and_pairs_say_the_same() {
        let url = target("postgres://app:s%40cret@db.example:6543/shop?connect_timeout=3").unwrap();
        let pairs = target(
            "host=db.example port=6543 user=app password='s@cret' dbname=shop connect_timeout = 3",
        )
        .unwrap();
        assert_eq!(url, pairs);
        assert_eq!(url.password.as_deref(), Some("s@cret"));
        assert_eq!(url.address(), "db.example:6543");
        assert_eq!(url.connect_timeout, Duration::from_secs(3));
    }

    #[test]
    fn sockets_and_addresses() {
        let socket = target("postgresql:///shop?host=/var/run/postgresql").unwrap();
        assert_eq!(socket.host, Host::Unix("/var/run/postgresql".into()));
        assert_eq!(socket.address(), "/var/run/postgresql/.s.PGSQL.5432");
        assert_eq!(
            target("postgres://%2Ftmp%2Fpg:5433/x").unwrap().host,
            Host::Unix("/tmp/pg".into())
        );
        let v6 = target("postgres://[::1]:5433/x").unwrap();
        assert_eq!((v6.host.clone(), v6.port), (Host::Tcp("::1".into()), 5433));
        assert_eq!(v6.address(), "[::1]:5433");
    }

    #[test]
    fn the_environment_fills_in() {
        let environment = |name: &str| match name {
            "PGHOST" => Some("db".to_owned()),
            "PGUSER" => Some("me".to_owned()),
            "PGPASSWORD" => Some("secret".to_owned()),
            _ => None,
        };
        let target = Target::parse("postgres://", environment).unwrap();
        assert_eq!(target.address(), "db:5432");
        assert_eq!(target.user.as_deref(), Some("me"));
        assert!(!format!("{target:?}").contains("secret"));
        let named = Target::parse("postgres://you@other/x", environment).unwrap();
        assert_eq!(
            (named.user.as_deref(), named.address().as_str()),
            (Some("you"), "other:5432")
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused_and_no_password_shown() {
        for (given, says) in [
            ("mysql://x", "not a target"),
            ("localhost", "not a target"),
            ("postgres://u:secret@h:99999/x", "no port"),
            ("postgres://u:secret@h:0/x", "no port"),
            ("postgres://u:sec%zzret@h/x", "percent"),
            ("postgres://u@h/x?sslmode=verify-full", "TLS"),
            ("postgres://u@h1,h2/x", "several hosts"),
            ("postgres://u@h/x?frobnicate=1", "frobnicate"),
            ("host=h password='secret", "quote"),
            ("host=h port", "'port'"),
        ] {
            let error = target(given).unwrap_err().to_string();
            assert!(error.contains(says), "{given}: {error}");
            assert!(!error.contains("secret"), "{given}: {error}");
        }
    }
}
