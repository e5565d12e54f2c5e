//! Settings of a template database. `CREATE DATABASE … TEMPLATE` does not copy them, and production's sessions have them.

use connect::login::{LoginError, QueryConnection, Row, Value};
use observe::may_be_secret;
use planner_copy::{assigned_value, quote_setting};
use serde::{Deserialize, Serialize};

use super::quote_identifier;

/// Type of names and texts.
const TEXT: u32 = 25;

/// Settings of a database, and of roles in it. Those of roles in all databases hold without being copied.
const SETTINGS: &str = "SELECT r.rolname, pg_catalog.split_part(one, '=', 1), pg_catalog.substr(one, pg_catalog.strpos(one, '=') + 1) \
     FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase \
     LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole CROSS JOIN pg_catalog.unnest(s.setconfig) one \
     WHERE d.datname = $1 AND (s.setrole = 0 OR r.rolname IS NOT NULL) ORDER BY 1 NULLS FIRST, 2";

/// `insufficient_privilege`
const NO_PRIVILEGE: [u8; 5] = *b"42501";

/// Setting that protects a template from writes. With it, each write of a replay would fail.
const READ_ONLY: &str = "default_transaction_read_only";

/// Reason why a database lacks a setting of its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingReason {
    /// The server does not accept it of the role.
    Refused,
    /// It protects the template from writes.
    LeftOut,
}

/// Setting of a template that the database created from it does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct MissingSetting {
    /// Name, with the role that it is for.
    pub(crate) setting: String,
    pub(crate) reason: MissingReason,
    /// Sentence with the reason and what to do.
    pub(crate) sentence: String,
}

/// Setting of a database, or of a role in it.
struct DatabaseSetting {
    /// Role that it is for; `None` if it is for all.
    role: Option<String>,
    name: String,
    value: String,
}

/// Gives a database the settings of its template. Returns those that it does not get.
///
/// # Errors
/// If the settings cannot be read.
pub(super) fn copy_settings(
    questions: &mut QueryConnection<'_>,
    template: &str,
    database: &str,
) -> Result<Vec<MissingSetting>, LoginError> {
    let rows = questions.query_with(SETTINGS, &[TEXT], &[Some(Value::Text(template))])?;
    let settings: Vec<DatabaseSetting> = rows.into_iter().filter_map(setting).collect();
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let major = major_version(questions)?;
    let names = (template, database);
    let missing = settings.iter().filter_map(|one| {
        if one.protects_template() {
            return Some(one.left_out(names));
        }
        let refusal = apply(questions, one, database, major).err()?;
        Some(one.refused(names, &refusal))
    });
    Ok(missing.collect())
}

impl DatabaseSetting {
    /// Whether it makes the transactions of all sessions read only. That of a role is one of production.
    fn protects_template(&self) -> bool {
        let is_off = ["off", "false", "no", "0"].contains(&self.value.to_lowercase().as_str());
        self.role.is_none() && self.name == READ_ONLY && !is_off
    }

    /// Returns the name, with the role that it is for.
    fn named(&self) -> String {
        let role = self.role.as_ref();
        let role = role.map_or(String::new(), |role| format!(" of role {role}"));
        format!("{}{role}", self.name)
    }

    fn left_out(&self, (template, database): (&str, &str)) -> MissingSetting {
        MissingSetting {
            sentence: format!(
                "the setting {READ_ONLY} of the template {template} is left out of the replayed database {database}, since each write \
                 would fail there; if production has it, set it for the roles"
            ),
            setting: self.named(),
            reason: MissingReason::LeftOut,
        }
    }

    fn refused(&self, (template, database): (&str, &str), refusal: &Refusal) -> MissingSetting {
        let advice = match refusal.sqlstate == Some(NO_PRIVILEGE) {
            true => {
                "; let the role of the URL be a superuser, or set it for the server or for the role"
            }
            false => "",
        };
        let setting = self.named();
        MissingSetting {
            sentence: format!(
                "the setting {setting} of the template {template} does not hold in the replayed database {database}: {}{advice}",
                refusal.message
            ),
            setting,
            reason: MissingReason::Refused,
        }
    }
}

/// Reason of a server that does not accept a setting, without values that may be secret.
struct Refusal {
    /// Code of the server; `None` if it was not asked.
    sqlstate: Option<[u8; 5]>,
    message: String,
}

fn setting(row: Row) -> Option<DatabaseSetting> {
    let mut values = row.into_iter();
    let role = values.next()?;
    Some(DatabaseSetting {
        role,
        name: values.next()??,
        value: values.next()??,
    })
}

fn major_version(questions: &mut QueryConnection<'_>) -> Result<u32, LoginError> {
    let rows = questions.query("SELECT pg_catalog.current_setting('server_version_num')")?;
    let number = rows.into_iter().flatten().flatten().next();
    let number: u32 = number.and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(number / 10_000)
}

/// Applies a setting.
fn apply(
    questions: &mut QueryConnection<'_>,
    one: &DatabaseSetting,
    database: &str,
    major: u32,
) -> Result<(), Refusal> {
    let value = assigned_value(&one.name, &one.value, major).ok_or_else(|| Refusal {
        sqlstate: None,
        message: "its value is no list".to_owned(),
    })?;
    let database = quote_identifier(database);
    let whose = match &one.role {
        Some(role) => format!("ROLE {} IN DATABASE {database}", quote_identifier(role)),
        None => format!("DATABASE {database}"),
    };
    let sql = format!("ALTER {whose} SET {} = {value}", quote_setting(&one.name));
    let done = questions.query(&sql);
    done.map(drop).map_err(|error| Refusal {
        sqlstate: Some(error.sqlstate),
        message: match may_be_secret(&one.name, &one.value) {
            true => "the server refuses it".to_owned(),
            false => error.message,
        },
    })
}

#[cfg(test)]
mod tests {
    use replay::{LoginMap, Target};

    use super::*;
    use crate::environment::{AtEnd, Condition, DataSource, Environment, TargetEnvironment, ask};

    fn target(url: &str) -> Target {
        Target::parse(url, |_| None).unwrap()
    }

    fn created_from(url: &str, template: &str) -> TargetEnvironment {
        let target = target(url);
        let login = LoginMap::default().login(&target, "", "", "rehearse");
        let data = DataSource::Template(template.to_owned());
        let conditions = vec![Condition::default()];
        TargetEnvironment::new(target, login, data, conditions, AtEnd::Restore)
    }

    fn values<const N: usize>(url: &str, names: [&str; N]) -> [String; N] {
        names.map(|name| {
            let rows = ask(&target(url), &format!("SELECT current_setting('{name}')"));
            rows.unwrap()[0][0].clone().unwrap()
        })
    }

    #[test]
    fn database_created_from_a_template_has_its_settings_and_those_of_roles_in_it() {
        let (_sandbox, endpoint) = test_support::server().start();
        let admin = target(&endpoint.url("postgres"));
        for statement in [
            "CREATE DATABASE \"shop's tmpl\"",
            "CREATE ROLE \"read only\" SUPERUSER LOGIN",
            "ALTER DATABASE \"shop's tmpl\" SET random_page_cost = 1.2",
            "ALTER DATABASE \"shop's tmpl\" SET search_path = sales, \"Odd, one\", public",
            "ALTER DATABASE \"shop's tmpl\" SET DateStyle = 'SQL, DMY'",
            "ALTER DATABASE \"shop's tmpl\" SET my.parameter = 'it''s \\ = it'",
            "ALTER ROLE \"read only\" IN DATABASE \"shop's tmpl\" SET work_mem = '77MB'",
            "ALTER ROLE \"read only\" SET geqo = off",
        ] {
            ask(&admin, statement).unwrap();
        }
        let url = endpoint.url("shop_proof");
        let mut environment = created_from(&url, "shop's tmpl");
        environment.set_up(0).unwrap();
        let names = [
            "random_page_cost",
            "search_path",
            "DateStyle",
            "my.parameter",
            "work_mem",
        ];
        assert_eq!(
            values(&url, names),
            [
                "1.2",
                "sales, \"Odd, one\", public",
                "SQL, DMY",
                "it's \\ = it",
                "4MB"
            ]
        );
        let as_role = format!("{url}?user=read%20only");
        assert_eq!(values(&as_role, ["work_mem", "geqo"]), ["77MB", "off"]);
        environment.release().unwrap();
    }

    #[test]
    fn setting_that_the_role_must_not_set_is_reported_and_the_database_is_created() {
        let (_sandbox, endpoint) = test_support::server().start();
        let admin = target(&endpoint.url("postgres"));
        for statement in [
            "CREATE ROLE owner CREATEDB LOGIN",
            "CREATE DATABASE tmpl OWNER owner",
            "ALTER DATABASE tmpl SET log_min_duration_statement = 0",
            "ALTER DATABASE tmpl SET work_mem = '5MB'",
        ] {
            ask(&admin, statement).unwrap();
        }
        let url = format!("{}?user=owner", endpoint.url("shop_proof"));
        let mut environment = created_from(&url, "tmpl");
        environment.set_up(0).unwrap();
        assert_eq!(values(&url, ["work_mem"]), ["5MB"]);
        let missing: Vec<&MissingSetting> = environment.missing_settings.iter().collect();
        let [one] = &missing[..] else {
            panic!("{missing:?}");
        };
        assert_eq!(one.reason, MissingReason::Refused);
        let note = &one.sentence;
        let expected = "the setting log_min_duration_statement of the template tmpl does not hold in the replayed database \
             shop_proof: permission denied";
        assert!(note.starts_with(expected), "{note}");
        assert!(note.contains("be a superuser"), "{note}");
        // The next creation does not report it again.
        environment.set_up(0).unwrap();
        assert_eq!(environment.missing_settings.len(), 1);
        environment.release().unwrap();
    }

    #[test]
    fn protection_of_a_template_from_writes_is_left_out_and_that_of_a_role_is_copied() {
        let (_sandbox, endpoint) = test_support::server().start();
        let admin = target(&endpoint.url("postgres"));
        for statement in [
            "CREATE DATABASE tmpl",
            "CREATE ROLE reader SUPERUSER LOGIN",
            "ALTER ROLE reader IN DATABASE tmpl SET default_transaction_read_only = on",
            "ALTER DATABASE tmpl SET default_transaction_read_only = on",
        ] {
            ask(&admin, statement).unwrap();
        }
        let url = endpoint.url("shop_proof");
        let mut environment = created_from(&url, "tmpl");
        environment.set_up(0).unwrap();
        assert_eq!(values(&url, [READ_ONLY]), ["off"]);
        let as_role = format!("{url}?user=reader");
        assert_eq!(values(&as_role, [READ_ONLY]), ["on"]);
        let missing: Vec<&MissingSetting> = environment.missing_settings.iter().collect();
        let [one] = &missing[..] else {
            panic!("{missing:?}");
        };
        assert_eq!(
            (one.setting.as_str(), one.reason),
            (READ_ONLY, MissingReason::LeftOut)
        );
        environment.release().unwrap();
    }

    #[test]
    fn advice_on_the_role_is_given_only_if_it_lacks_the_privilege() {
        let setting = DatabaseSetting {
            role: Some("app".to_owned()),
            name: "work_mem".to_owned(),
            value: String::new(),
        };
        let refusal = |sqlstate: &[u8; 5]| Refusal {
            sqlstate: Some(*sqlstate),
            message: "no".to_owned(),
        };
        let sentence = |code| setting.refused(("tmpl", "shop"), &refusal(code)).sentence;
        assert!(sentence(b"42501").contains("be a superuser"));
        assert_eq!(
            sentence(b"22023"),
            "the setting work_mem of role app of the template tmpl does not hold in the replayed database shop: no"
        );
    }
}
