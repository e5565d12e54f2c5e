//! Who connects where: the logged user on the logged database, unless mapped.

use std::collections::BTreeMap;
use std::sync::Arc;

use connect::Target;
use workload::{ArchiveError, Particulars, WorkloadReader};

pub use connect::login::Login;

/// `client_encoding`, and how a session's start-up has it.
const ENCODING: &str = "client_encoding";

/// What sessions whose clients said nothing of their encoding say of it.
///
/// A log's texts are UTF-8 here, however the server wrote them. From the wire come the client's own bytes, and
/// one that said nothing had the encoding of its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsaid {
    /// UTF8.
    Utf8,
    /// What the target's `client_encoding` says; empty: nothing, so that the server's holds.
    AsTarget(Box<str>),
}

impl Unsaid {
    /// # Errors
    /// Where the workload cannot be read.
    pub(crate) fn of(reader: &WorkloadReader, target: &Target) -> Result<Self, ArchiveError> {
        Ok(match is_from_wire(reader)? {
            true => Unsaid::AsTarget(target.encoding.as_deref().unwrap_or_default().into()),
            false => Unsaid::Utf8,
        })
    }
}

/// Whether the workload has what clients sent, byte for byte.
///
/// # Errors
/// Where it cannot be read.
pub fn is_from_wire(reader: &WorkloadReader) -> Result<bool, ArchiveError> {
    match &*reader.info().provenance.source_kind {
        "proxy" | "pcap" => return Ok(true),
        "log" | "script" => return Ok(false),
        // A recovered one does not say.
        _ => {}
    }
    for event in reader.events()? {
        let (event, _) = event?;
        if event.kind.is_statement() && !event.prelude {
            return Ok(event.particulars.is_some());
        }
    }
    Ok(false)
}

/// The same login, with the settings that its client sent.
pub(crate) fn with_settings_of(
    mut login: Login,
    particulars: Option<&Particulars>,
    unsaid: &Unsaid,
) -> Login {
    let mut settings =
        particulars.map_or_else(Vec::new, |known| known.sent_settings().cloned().collect());
    if let Unsaid::AsTarget(encoding) = unsaid
        && !settings
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(ENCODING))
    {
        let in_options = settings.iter().any(|(name, value)| {
            let value = value.to_ascii_lowercase().replace('-', "_");
            &**name == "options" && value.contains(ENCODING)
        });
        // A parameter of its own would count for more than what the client's options say.
        let encoding = match in_options {
            true => Box::default(),
            false => encoding.clone(),
        };
        settings.push((ENCODING.into(), encoding));
    }
    login.settings = settings.into();
    login
}

/// Changes to the logged users and databases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginMap {
    /// One role for all sessions.
    pub user: Option<String>,
    /// One database for all sessions.
    pub database: Option<String>,
    /// From logged role to role.
    pub users: BTreeMap<String, String>,
    /// From logged database to database.
    pub databases: BTreeMap<String, String>,
    /// Every session logs in as `user`, or else as the target's own, and becomes the role that it
    /// would have logged in as.
    pub set_role: bool,
}

impl LoginMap {
    /// The one that a run's options speak of ([`crate::Options::described`]).
    pub fn of_described(described: &BTreeMap<String, String>) -> Self {
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
        }
    }

    /// What a session of this logged user and database says to the target. What the log did not
    /// know (empty) comes from the target's own user and database; a database that nobody names
    /// is that of the user's name, as for libpq.
    pub fn login(&self, target: &Target, user: &str, database: &str, application: &str) -> Login {
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
                said => said.into(),
            },
            settings: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_stronger_than_one_for_all_and_that_than_the_log() {
        let target = Target::parse("postgres://fallback@h/spare", |_| None).unwrap();
        let mut map = LoginMap::default();
        let said = |map: &LoginMap, user, database| {
            let login = map.login(&target, user, database, "");
            (login.user.to_string(), login.database.to_string())
        };
        let pair = |user: &str, database: &str| (user.to_owned(), database.to_owned());
        assert_eq!(said(&map, "app", "shop"), pair("app", "shop"));
        assert_eq!(said(&map, "", ""), pair("fallback", "spare"));
        map.user = Some("one".to_owned());
        map.users.insert("app".to_owned(), "app2".to_owned());
        map.databases.insert("shop".to_owned(), "copy".to_owned());
        assert_eq!(said(&map, "app", "shop"), pair("app2", "copy"));
        assert_eq!(said(&map, "other", "x"), pair("one", "x"));
    }

    #[test]
    fn of_the_encoding_is_said_what_the_client_said() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let none = || Unsaid::AsTarget("".into());
        let said = |settings: &[(&str, &str)], unsaid: &Unsaid| {
            let settings = settings.iter();
            let known = Particulars {
                settings: settings
                    .map(|&(name, value)| (name.into(), value.into()))
                    .collect(),
                ..Particulars::default()
            };
            let login = LoginMap::default().login(&target, "a", "b", "");
            let settings = with_settings_of(login, Some(&known), unsaid).settings;
            let encodings = settings
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(ENCODING));
            encodings
                .map(|(_, value)| value.to_string())
                .collect::<Vec<_>>()
        };
        let latin1 = Unsaid::AsTarget("LATIN1".into());
        // Without any, it is UTF8.
        assert_eq!(said(&[("TimeZone", "UTC")], &Unsaid::Utf8), [""; 0]);
        assert_eq!(said(&[("TimeZone", "UTC")], &none()), [""]);
        assert_eq!(said(&[], &latin1), ["LATIN1"]);
        assert_eq!(
            said(&[("Client_Encoding", "WIN1252")], &latin1),
            ["WIN1252"]
        );
        let options = [("options", "--client-encoding=WIN1252")];
        assert_eq!(said(&options, &latin1), [""]);
    }

    #[test]
    fn what_the_server_reported_is_not_sent() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let timezone: (Box<str>, Box<str>) = ("TimeZone".into(), "UTC".into());
        let known = Particulars {
            settings: vec![
                timezone.clone(),
                (workload::REPORTED_STRINGS.into(), "off".into()),
            ],
            ..Particulars::default()
        };
        let login = LoginMap::default().login(&target, "a", "b", "");
        let login = with_settings_of(login, Some(&known), &Unsaid::Utf8);
        assert_eq!(*login.settings, [timezone]);
    }

    #[test]
    fn a_runs_options_say_who_connected_where() {
        let pair = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), to.to_owned())]);
        let logins = LoginMap {
            user: Some("one".to_owned()),
            database: Some("copy".to_owned()),
            users: pair("app user", "app2"),
            databases: pair("shop", "shop2"),
            set_role: true,
        };
        for logins in [logins, LoginMap::default()] {
            let options = crate::Options {
                logins: logins.clone(),
                ..crate::Options::default()
            };
            assert_eq!(LoginMap::of_described(&options.described()), logins);
        }
    }

    #[test]
    fn many_roles_go_through_one_login() {
        let target = Target::parse("postgres://admin@h/spare", |_| None).unwrap();
        let mut map = LoginMap {
            set_role: true,
            ..LoginMap::default()
        };
        map.users.insert("app".to_owned(), "app2".to_owned());
        let said = |map: &LoginMap, user| {
            let login = map.login(&target, user, "shop", "");
            (
                login.user.to_string(),
                login.role.map(|role| role.to_string()),
            )
        };
        let pair = |user: &str, role: &str| (user.to_owned(), Some(role.to_owned()));
        assert_eq!(said(&map, "other"), pair("admin", "other"));
        assert_eq!(said(&map, "app"), pair("admin", "app2"));
        // Its own role needs no change; where the log knew none there is none to become.
        assert_eq!(said(&map, "admin"), ("admin".to_owned(), None));
        assert_eq!(said(&map, ""), ("admin".to_owned(), None));
        map.user = Some("login".to_owned());
        assert_eq!(said(&map, "admin"), pair("login", "admin"));
    }

    #[test]
    fn the_log_knows_the_application_better_than_the_target() {
        let target = Target::parse("postgres://h/?application_name=t", |_| None).unwrap();
        let said = |name| {
            LoginMap::default()
                .login(&target, "a", "b", name)
                .application
        };
        assert_eq!((&*said("shop"), &*said("")), ("shop", "t"));
    }
}
