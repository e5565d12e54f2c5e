//! Settings of the exported server, and of its databases and roles.

use std::collections::HashMap;

use connect::login::Row;

use crate::document::ServerSetting;
use crate::error::PlannerCopyError;
use crate::exporter::Exporter;
use crate::setting_values::EXPORTED_SETTINGS;

/// Settings of the session before the transaction, which sets some itself. A function of `pg_catalog` without operators, since
/// `search_path` is that of the session here.
pub(crate) const OF_SESSION_SQL: &str =
    "SELECT name, setting, source FROM pg_catalog.pg_show_all_settings()";

/// Values of the configuration files that apply after a reload.
const FILE_SQL: &str = "SELECT name, setting FROM pg_catalog.pg_file_settings WHERE applied";

/// Setting in the transaction of the export.
struct SettingOfSession {
    name: String,
    /// Value with its unit.
    value: String,
    source: String,
}

/// Place of the server's own value of a setting.
#[derive(Debug, PartialEq, Eq)]
enum ServerValue {
    /// The session has it.
    Known(String),
    /// The session has another one, of its role or connection, so that it is only in the configuration file.
    InFile,
    /// The server has the default, or it is a setting of the database.
    None,
}

impl Exporter<'_> {
    /// Reads the settings. `before` has those of the session before the transaction.
    pub(crate) fn read_settings(&mut self, before: &[Row]) -> Result<(), PlannerCopyError> {
        let before: HashMap<&str, (&str, &str)> = before
            .iter()
            .filter_map(|row| match &row[..] {
                [Some(name), setting, Some(source)] => {
                    let setting = setting.as_deref().unwrap_or_default();
                    Some((name.as_str(), (setting, source.as_str())))
                }
                _ => None,
            })
            .collect();
        let rows = self.query(
            "settings",
            &format!(
                "SELECT name, current_setting(name), source FROM pg_settings WHERE {EXPORTED_SETTINGS} ORDER BY 1"
            ),
        )?;
        let mut hidden = Vec::new();
        for row in rows {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let mut text = || row.next().unwrap_or_default();
            let setting = SettingOfSession {
                name: text(),
                value: text(),
                source: text(),
            };
            match server_value(&setting, before.get(setting.name.as_str()).copied()) {
                ServerValue::Known(value) => self.export.settings.push(ServerSetting {
                    name: setting.name,
                    value,
                }),
                ServerValue::InFile => hidden.push(setting.name),
                ServerValue::None => {}
            }
        }
        self.read_hidden_settings(hidden)?;
        self.export.role_settings = self.read(
            "settings of roles",
            &format!(
                "SELECT row_to_json(x) FROM (SELECT r.rolname AS role, s.setdatabase <> 0 AS in_database, \
                 split_part(one, '=', 1) AS name, substring(one FROM position('=' IN one) + 1) AS value \
                 FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole \
                 LEFT JOIN pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) one \
                 WHERE (s.setdatabase = 0 OR d.datname = current_database()) \
                 AND split_part(one, '=', 1) IN (SELECT name FROM pg_settings WHERE {EXPORTED_SETTINGS}) ORDER BY s.setrole, 2) x"
            ),
        )?;
        Ok(())
    }

    /// Reads the configuration file's values of settings that the role or the connection of the export replaces.
    fn read_hidden_settings(&mut self, names: Vec<String>) -> Result<(), PlannerCopyError> {
        if names.is_empty() {
            return Ok(());
        }
        match self.attempt(FILE_SQL)? {
            Ok(rows) => {
                for row in rows {
                    if let [Some(name), Some(value)] = &row[..]
                        && let Some(name) = names.iter().find(|one| one.eq_ignore_ascii_case(name))
                    {
                        self.export.settings.push(ServerSetting {
                            name: name.clone(),
                            value: value.clone(),
                        });
                    }
                }
            }
            Err(error) => {
                for name in names {
                    self.not_exported(
                        format!("setting {name} of the configuration file"),
                        format!(
                            "the role or the connection of the export has a value of its own, and the role may not read the \
                             file ({error}); other roles are planned with the default; export as a role without that setting"
                        ),
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns the server's own value of a setting, from those in the transaction and before it.
fn server_value(setting: &SettingOfSession, before: Option<(&str, &str)>) -> ServerValue {
    // A value that the transaction sets has the source `session`; these settings have no unit.
    let (value, source) = match before {
        Some((value, source)) if setting.source == "session" => (value, source),
        _ => (setting.value.as_str(), setting.source.as_str()),
    };
    match source {
        "configuration file" | "command line" | "environment variable" | "global" => {
            ServerValue::Known(value.to_owned())
        }
        "user" | "database user" | "client" | "session" => ServerValue::InFile,
        _ => ServerValue::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(source: &str, before: Option<(&str, &str)>) -> ServerValue {
        let setting = SettingOfSession {
            name: "DateStyle".to_owned(),
            value: "ISO, YMD".to_owned(),
            source: source.to_owned(),
        };
        server_value(&setting, before)
    }

    #[test]
    fn setting_that_the_transaction_sets_has_the_value_of_the_configuration_file() {
        let of_file = Some(("SQL, DMY", "configuration file"));
        let known = |text: &str| ServerValue::Known(text.to_owned());
        assert_eq!(value("session", of_file), known("SQL, DMY"));
        assert_eq!(
            value("session", Some(("ISO, MDY", "default"))),
            ServerValue::None
        );
        assert_eq!(value("configuration file", None), known("ISO, YMD"));
    }

    #[test]
    fn setting_of_the_exporting_role_is_looked_for_in_the_configuration_file() {
        assert_eq!(value("user", None), ServerValue::InFile);
        assert_eq!(
            value("session", Some(("ISO, MDY", "client"))),
            ServerValue::InFile
        );
        assert_eq!(value("database", None), ServerValue::None);
    }
}
