//! Maps captured users and databases to the logins of a replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use connect::Target;
use workload::{ArchiveError, WireDetails, WorkloadReader};

pub use connect::login::Login;

use crate::startup_options::StartupOptions;

/// Name of the encoding's startup parameter.
const ENCODING: &str = "client_encoding";

/// Client encoding of sessions whose clients did not request one.
///
/// A log's texts are UTF-8 in a workload, whatever the log's encoding. A capture from the wire has the client's
/// own bytes, and a client without a request had the encoding of its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefaultEncoding {
    /// UTF8.
    Utf8,
    /// The target's `client_encoding`; if empty, none is sent and the server's default applies.
    Target(Box<str>),
}

impl DefaultEncoding {
    /// Chooses the encoding by the workload's source.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn of(reader: &WorkloadReader, target: &Target) -> Result<Self, ArchiveError> {
        Ok(match is_from_wire(reader)? {
            true => DefaultEncoding::Target(target.encoding.as_deref().unwrap_or_default().into()),
            false => DefaultEncoding::Utf8,
        })
    }
}

/// Whether the workload has the clients' messages byte for byte.
///
/// # Errors
/// If the workload cannot be read.
pub fn is_from_wire(reader: &WorkloadReader) -> Result<bool, ArchiveError> {
    match &*reader.info().provenance.source_kind {
        "proxy" | "attach" | "pcap" => return Ok(true),
        "log" | "script" => return Ok(false),
        // The source of a recovered workload is unknown.
        _ => {}
    }
    for event in reader.events()? {
        let (event, _) = event?;
        if event.kind.is_statement() && !event.prelude {
            return Ok(event.wire_details.is_some());
        }
    }
    Ok(false)
}

/// Adds the settings that the client sent to a login.
pub(crate) fn with_settings_of(
    mut login: Login,
    particulars: Option<&WireDetails>,
    encoding: &DefaultEncoding,
) -> Login {
    // The start-up message has several `options` in reverse order, so that the first, of `--startup-options`, overrides
    // those of the client.
    let mut settings = login.settings.to_vec();
    settings.extend(
        particulars
            .into_iter()
            .flat_map(|known| known.sent_settings().cloned()),
    );
    if let DefaultEncoding::Target(encoding) = encoding
        && !settings
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(ENCODING))
    {
        let in_options = settings.iter().any(|(name, value)| {
            let value = value.to_ascii_lowercase().replace('-', "_");
            &**name == "options" && value.contains(ENCODING)
        });
        // A separate parameter would override the client's options.
        let encoding = match in_options {
            true => Box::default(),
            false => encoding.clone(),
        };
        settings.push((ENCODING.into(), encoding));
    }
    login.settings = settings.into();
    login
}

/// Mapping of captured users and databases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginMap {
    /// One role for all sessions.
    pub user: Option<String>,
    /// One database for all sessions.
    pub database: Option<String>,
    /// Captured role to role.
    pub users: BTreeMap<String, String>,
    /// Captured database to database.
    pub databases: BTreeMap<String, String>,
    /// Every session logs in as `user`, or else as the target's user, and sets the role that it would otherwise
    /// log in as.
    pub set_role: bool,
    /// Options that sessions start with, in addition to those of the capture.
    pub startup_options: StartupOptions,
}

impl LoginMap {
    /// Restores the map from a run's options ([`crate::Options::to_manifest`]).
    pub fn from_manifest(described: &BTreeMap<String, String>) -> Self {
        let mapped = |what: &str| -> BTreeMap<String, String> {
            let all = described.iter();
            all.filter_map(|(name, to)| {
                let from = name.strip_prefix(what)?;
                Some((from.to_owned(), to.clone()))
            })
            .collect()
        };
        LoginMap {
            user: described.get("user").cloned(),
            database: described.get("database").cloned(),
            users: mapped("map_user "),
            databases: mapped("map_database "),
            set_role: described.contains_key("set_role"),
            startup_options: StartupOptions::of_described(described),
        }
    }

    /// Returns the login of a session with this captured user and database. Empty ones come from the target's
    /// user and database. Without any database, it is the one with the user's name, as for libpq.
    pub fn login(&self, target: &Target, user: &str, database: &str, application: &str) -> Login {
        let options = (self.startup_options).of_session(user, database, application);
        let settings = match &*options {
            "" => Arc::default(),
            options => [("options".into(), options.into())].into(),
        };
        let choose = |one: &Option<String>,
                      map: &BTreeMap<String, String>,
                      logged: &str,
                      fallback: &Option<String>|
         -> Option<String> {
            if let Some(mapped) = map.get(logged) {
                return Some(mapped.clone());
            }
            if let Some(one) = one {
                return Some(one.clone());
            }
            if !logged.is_empty() {
                return Some(logged.to_owned());
            }
            fallback.clone()
        };
        let (user, role) = if self.set_role {
            let mapped = self.users.get(user).map_or(user, String::as_str);
            let role = (!mapped.is_empty()).then(|| Arc::from(mapped));
            (self.user.clone().or_else(|| target.user.clone()), role)
        } else {
            (choose(&self.user, &self.users, user, &target.user), None)
        };
        let user = user.unwrap_or_else(|| "postgres".to_owned());
        let database = choose(&self.database, &self.databases, database, &target.database)
            .unwrap_or_else(|| user.clone());
        Login {
            role: role.filter(|role| **role != *user),
            user: user.into(),
            database: database.into(),
            application: match application {
                "" => target.application.as_deref().unwrap_or("").into(),
                name => name.into(),
            },
            settings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_map_prefers_mapping_then_fixed_name_then_log() {
        let target = Target::parse("postgres://fallback@h/spare", |_| None).unwrap();
        let mut map = LoginMap::default();
        let resolved = |map: &LoginMap, user, database| {
            let login = map.login(&target, user, database, "");
            (login.user.to_string(), login.database.to_string())
        };
        let pair = |user: &str, database: &str| (user.to_owned(), database.to_owned());
        assert_eq!(resolved(&map, "app", "shop"), pair("app", "shop"));
        assert_eq!(resolved(&map, "", ""), pair("fallback", "spare"));
        map.user = Some("one".to_owned());
        map.users.insert("app".to_owned(), "app2".to_owned());
        map.databases.insert("shop".to_owned(), "copy".to_owned());
        assert_eq!(resolved(&map, "app", "shop"), pair("app2", "copy"));
        assert_eq!(resolved(&map, "other", "x"), pair("one", "x"));
    }

    #[test]
    fn login_sends_the_encoding_of_the_client() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let none = || DefaultEncoding::Target("".into());
        let resolved = |settings: &[(&str, &str)], encoding: &DefaultEncoding| {
            let settings = settings.iter();
            let known = WireDetails {
                settings: settings
                    .map(|&(name, value)| (name.into(), value.into()))
                    .collect(),
                ..WireDetails::default()
            };
            let login = LoginMap::default().login(&target, "a", "b", "");
            let settings = with_settings_of(login, Some(&known), encoding).settings;
            let encodings = settings
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(ENCODING));
            encodings
                .map(|(_, value)| value.to_string())
                .collect::<Vec<_>>()
        };
        let latin1 = DefaultEncoding::Target("LATIN1".into());
        // Without any, it is UTF8.
        assert_eq!(
            resolved(&[("TimeZone", "UTC")], &DefaultEncoding::Utf8),
            [""; 0]
        );
        assert_eq!(resolved(&[("TimeZone", "UTC")], &none()), [""]);
        assert_eq!(resolved(&[], &latin1), ["LATIN1"]);
        assert_eq!(
            resolved(&[("Client_Encoding", "WIN1252")], &latin1),
            ["WIN1252"]
        );
        let options = [("options", "--client-encoding=WIN1252")];
        assert_eq!(resolved(&options, &latin1), [""]);
    }

    #[test]
    fn login_does_not_send_reported_settings() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let timezone: (Box<str>, Box<str>) = ("TimeZone".into(), "UTC".into());
        let known = WireDetails {
            settings: vec![
                timezone.clone(),
                (
                    workload::REPORTED_STANDARD_CONFORMING_STRINGS.into(),
                    "off".into(),
                ),
            ],
            ..WireDetails::default()
        };
        let login = LoginMap::default().login(&target, "a", "b", "");
        let login = with_settings_of(login, Some(&known), &DefaultEncoding::Utf8);
        assert_eq!(*login.settings, [timezone]);
    }

    #[test]
    fn login_map_is_restored_from_described_options() {
        let pair = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), to.to_owned())]);
        let logins = LoginMap {
            user: Some("one".to_owned()),
            database: Some("copy".to_owned()),
            users: pair("app user", "app2"),
            databases: pair("shop", "shop2"),
            set_role: true,
            ..LoginMap::default()
        };
        for logins in [logins, LoginMap::default()] {
            let options = crate::Options {
                logins: logins.clone(),
                ..crate::Options::default()
            };
            assert_eq!(LoginMap::from_manifest(&options.to_manifest()), logins);
        }
    }

    #[test]
    fn login_map_set_role_uses_one_login() {
        let target = Target::parse("postgres://admin@h/spare", |_| None).unwrap();
        let mut map = LoginMap {
            set_role: true,
            ..LoginMap::default()
        };
        map.users.insert("app".to_owned(), "app2".to_owned());
        let resolved = |map: &LoginMap, user| {
            let login = map.login(&target, user, "shop", "");
            (
                login.user.to_string(),
                login.role.map(|role| role.to_string()),
            )
        };
        let pair = |user: &str, role: &str| (user.to_owned(), Some(role.to_owned()));
        assert_eq!(resolved(&map, "other"), pair("admin", "other"));
        assert_eq!(resolved(&map, "app"), pair("admin", "app2"));
        // Its own role needs no change; where the log knew none there is none to become.
        assert_eq!(resolved(&map, "admin"), ("admin".to_owned(), None));
        assert_eq!(resolved(&map, ""), ("admin".to_owned(), None));
        map.user = Some("login".to_owned());
        assert_eq!(resolved(&map, "admin"), pair("login", "admin"));
    }

    #[test]
    fn login_prefers_the_application_of_the_log() {
        let target = Target::parse("postgres://h/?application_name=t", |_| None).unwrap();
        let resolved = |name| {
            LoginMap::default()
                .login(&target, "a", "b", name)
                .application
        };
        assert_eq!((&*resolved("shop"), &*resolved("")), ("shop", "t"));
    }
}
