//! libpq's parameters by name: supported ones, those with supported values only, and the remedy for
//! unsupported ones. None is ignored.
//!
//! Source: PostgreSQL 18 documentation, 34.1.2 (parameters) and 34.15 (environment).

use std::collections::BTreeMap;

use super::TargetError;
use super::parse::{gives_password, hide_password};

/// Support of a parameter.
enum Use {
    /// It is supported.
    Taken,
    /// Only these values are supported, since they are the behaviour anyway; with the remedy for others.
    Only(&'static [&'static str], &'static str),
    /// It is not supported; with the remedy.
    Refused(&'static str),
}
use Use::{Only, Refused, Taken};

const NO_GSS: &str = "leave it out: GSSAPI is not done; authenticate by password or certificate";
const NO_OAUTH: &str = "leave it out: OAuth is not done; authenticate by password or certificate";
const NO_SCRAM_KEYS: &str = "give the password instead of a key made of it";
const PROTOCOL: &str = "leave it out: version 3.0 is spoken here";

/// Name, environment variable (empty for none), and support.
const PARAMETERS: [(&str, &str, Use); 58] = [
    ("service", "PGSERVICE", Taken),
    ("servicefile", "PGSERVICEFILE", Taken),
    ("host", "PGHOST", Taken),
    ("hostaddr", "PGHOSTADDR", Taken),
    ("port", "PGPORT", Taken),
    ("dbname", "PGDATABASE", Taken),
    ("user", "PGUSER", Taken),
    ("password", "PGPASSWORD", Taken),
    ("passfile", "PGPASSFILE", Taken),
    ("require_auth", "PGREQUIREAUTH", Taken),
    ("channel_binding", "PGCHANNELBINDING", Taken),
    ("connect_timeout", "PGCONNECT_TIMEOUT", Taken),
    ("client_encoding", "PGCLIENTENCODING", Taken),
    ("options", "PGOPTIONS", Taken),
    ("application_name", "PGAPPNAME", Taken),
    ("fallback_application_name", "", Taken),
    ("keepalives", "", Taken),
    ("keepalives_idle", "", Taken),
    ("keepalives_interval", "", Taken),
    ("keepalives_count", "", Taken),
    ("tcp_user_timeout", "", Taken),
    ("sslmode", "PGSSLMODE", Taken),
    ("sslnegotiation", "PGSSLNEGOTIATION", Taken),
    ("sslcert", "PGSSLCERT", Taken),
    ("sslkey", "PGSSLKEY", Taken),
    ("sslrootcert", "PGSSLROOTCERT", Taken),
    ("sslcrl", "PGSSLCRL", Taken),
    ("sslsni", "PGSSLSNI", Taken),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", Taken),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", Taken),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", Taken),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", Taken),
    (
        "sslcertmode",
        "PGSSLCERTMODE",
        Only(
            &["allow"],
            "leave it out: a client certificate is sent where there is one and the server asks",
        ),
    ),
    (
        "sslcompression",
        "PGSSLCOMPRESSION",
        Only(&["0"], "leave it out: TLS is not compressed"),
    ),
    (
        "requiressl",
        "PGREQUIRESSL",
        Only(&["0"], "use sslmode=require"),
    ),
    (
        "sslpassword",
        "",
        Refused("give a key that is not encrypted: openssl pkey -in KEY -out PLAINKEY"),
    ),
    (
        "sslcrldir",
        "PGSSLCRLDIR",
        Refused("put the lists into one file and name it as sslcrl"),
    ),
    ("sslkeylogfile", "", Refused("leave it out")),
    (
        "requirepeer",
        "PGREQUIREPEER",
        Refused("leave it out, and name a socket directory that only the server's user can write"),
    ),
    (
        "gssencmode",
        "PGGSSENCMODE",
        Only(&["disable", "prefer"], NO_GSS),
    ),
    ("krbsrvname", "PGKRBSRVNAME", Refused(NO_GSS)),
    ("gsslib", "PGGSSLIB", Refused(NO_GSS)),
    ("gssdelegation", "PGGSSDELEGATION", Only(&["0"], NO_GSS)),
    (
        "replication",
        "",
        Only(
            &["false", "off", "no", "0"],
            "leave it out: replication connections are not replayed",
        ),
    ),
    (
        "min_protocol_version",
        "PGMINPROTOCOLVERSION",
        Only(&["3.0"], PROTOCOL),
    ),
    (
        "max_protocol_version",
        "PGMAXPROTOCOLVERSION",
        Only(&["3.0"], PROTOCOL),
    ),
    ("scram_client_key", "", Refused(NO_SCRAM_KEYS)),
    ("scram_server_key", "", Refused(NO_SCRAM_KEYS)),
    ("oauth_issuer", "", Refused(NO_OAUTH)),
    ("oauth_client_id", "", Refused(NO_OAUTH)),
    ("oauth_client_secret", "", Refused(NO_OAUTH)),
    ("oauth_scope", "", Refused(NO_OAUTH)),
    (
        "authtype",
        "",
        Refused("leave it out: it has no meaning any more"),
    ),
    (
        "tty",
        "PGTTY",
        Refused("leave it out: it has no meaning any more"),
    ),
    // Parameters that libpq accepts from other drivers' URLs.
    ("ssl", "", Only(&["true"], "use sslmode")),
    // They change the behaviour of a session, which the workload defines.
    (
        "datestyle",
        "PGDATESTYLE",
        Refused("use options='-c DateStyle=…', which says so for every session"),
    ),
    (
        "timezone",
        "PGTZ",
        Refused("use options='-c TimeZone=…', which says so for every session"),
    ),
    (
        "geqo",
        "PGGEQO",
        Refused("use options='-c geqo=…', which says so for every session"),
    ),
];

/// Parameters whose values no message shows.
const MAY_GIVE_PASSWORD: [&str; 2] = ["password", "options"];

/// Values by parameter name.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Sets a value; a later one wins, as in libpq. `place` is its source, for messages.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: String,
        place: &str,
    ) -> Result<(), TargetError> {
        let Some((name, _, usage)) = PARAMETERS.iter().find(|(known, ..)| *known == name) else {
            let taken: Vec<&str> = PARAMETERS
                .iter()
                .filter(|(.., usage)| matches!(usage, Taken))
                .map(|(name, ..)| *name)
                .collect();
            return Err(TargetError::Unknown {
                name: name.to_owned(),
                place: place.to_owned(),
                known: taken.join(", "),
            });
        };
        let instead = match usage {
            // Messages name hosts, roles, databases and files.
            Taken if !MAY_GIVE_PASSWORD.contains(name) && gives_password(&value) => {
                return Err(TargetError::Unsupported {
                    what: format!("a password in the value of {name}{place}"),
                    instead: "end that value before the password: a backslash or quotes make both one value",
                });
            }
            Taken => {
                self.values.insert(name, value);
                return Ok(());
            }
            Only(values, _) if values.contains(&value.as_str()) => {
                if *name == "ssl" {
                    self.values.insert("sslmode", "require".to_owned());
                }
                return Ok(());
            }
            Only(_, instead) | Refused(instead) => *instead,
        };
        let what = match usage {
            Only(..) => format!("{name}={}{place}", hide_password(&value)),
            // Some values are secret.
            _ => format!("{name}{place}"),
        };
        Err(TargetError::Unsupported { what, instead })
    }

    /// Adds values that are missing from other settings.
    pub(super) fn fill(&mut self, others: Settings) {
        for (name, value) in others.values {
            self.values.entry(name).or_insert(value);
        }
    }

    /// Adds values that are missing from libpq's environment variables. An empty one counts as missing.
    pub(super) fn fill_from_environment(
        &mut self,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Result<(), TargetError> {
        let mut found = Settings::default();
        for (name, variable, _) in &PARAMETERS {
            if !variable.is_empty()
                && !self.values.contains_key(name)
                && let Some(value) = environment(variable).filter(|value| !value.is_empty())
            {
                found.set(name, value, &format!(" (the environment's {variable})"))?;
            }
        }
        self.fill(found);
        Ok(())
    }

    /// Takes a value; an empty one counts as missing.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.values.remove(name).filter(|value| !value.is_empty())
    }

    /// Takes one of several words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, TargetError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match choices.iter().find(|(word, _)| *word == value) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                Err(TargetError::Value {
                    name: name.to_owned(),
                    value: hide_password(&value),
                    allowed: words.join(", "),
                })
            }
        }
    }

    /// Takes an integer.
    pub(super) fn number(&mut self, name: &str, unit: &str) -> Result<Option<i64>, TargetError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match value.trim().parse::<i32>() {
            Ok(number) => Ok(Some(i64::from(number))),
            Err(_) => Err(TargetError::Value {
                name: name.to_owned(),
                value: hide_password(&value),
                allowed: format!("a whole number{unit}"),
            }),
        }
    }
}
