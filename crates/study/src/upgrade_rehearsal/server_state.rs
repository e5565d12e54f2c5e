//! State of a server of the user that the runs of a rehearsal depend on.

use std::collections::BTreeMap;
use std::path::Path;

use connect::Target;
use connect::login::Dialer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::server_facts::{Rows, ServerIdentity, columns, open, rows};
use crate::failure::Failure;

/// Names in a message, at most.
const NAMES_MAX: usize = 5;

/// Settings that are no defaults, and those of roles and databases.
const SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings \
       WHERE source NOT IN ('default', 'override', 'client', 'session', 'interactive', 'test') \
     UNION ALL SELECT 'settings of ' || coalesce('the role ' || r.rolname, 'all roles') \
         || coalesce(' in the database ' || d.datname, ''), pg_catalog.array_to_string(s.setconfig, ' ') \
       FROM pg_catalog.pg_db_role_setting s LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole \
       LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase";

/// Relations, and whether they have statistics that the role may see.
const RELATIONS: &str = "SELECT n.nspname || '.' || c.relname, s.tablename IS NOT NULL \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN (SELECT DISTINCT schemaname, tablename FROM pg_catalog.pg_stats) s \
       ON s.schemaname = n.nspname AND s.tablename = c.relname \
     WHERE c.relkind IN ('r', 'm', 'p', 'i', 'I') AND c.relpersistence <> 't' \
       AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'";

const SIZE: &str = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database())";

/// State of a server that the runs of a rehearsal depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerState {
    version: String,
    /// `None` if it is unknown, or a command restores the server, since that may create it again.
    system_identifier: Option<String>,
    /// Hashes of the values of settings, which may be secret.
    settings: BTreeMap<String, String>,
    /// Relations, and whether they have statistics.
    relations: BTreeMap<String, bool>,
    /// Size of the database, in bytes; `None` if nothing restores the data.
    bytes: Option<u64>,
}

/// Way in which the data get back to their first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restoring {
    /// By a command of the user.
    Command,
    /// From a template database.
    Template,
    /// Nothing restores them.
    Nothing,
}

/// Difference of sizes that counts as none: a share, and bytes. Restores do not give the same size each time.
const SIZE_MARGIN: (f64, u64) = (0.05, 1 << 20);

impl ServerState {
    /// Reads the state of a server and of the target's database.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses a query.
    pub(super) fn read(target: &Target, restoring: Restoring) -> Result<Self, Failure> {
        let identity = ServerIdentity::read(target)?;
        let dialer = Dialer::new(target)?;
        let mut connection = open(target, &dialer)?;
        let address = target.address();
        let hash = |value: &str| {
            let hash = Sha256::digest(value);
            let bytes = hash.iter().take(8);
            bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in pairs(rows(&mut connection, ("settings", &address), SETTINGS)?) {
            settings.insert(name, hash(&value));
        }
        let relations = pairs(rows(&mut connection, ("relations", &address), RELATIONS)?);
        let relations = relations.map(|(name, has_statistics)| (name, has_statistics == "t"));
        let bytes = match restoring {
            Restoring::Nothing => None,
            Restoring::Command | Restoring::Template => {
                let size = rows(&mut connection, ("size", &address), SIZE)?;
                columns(size)
                    .next()
                    .flatten()
                    .and_then(|size| size.parse().ok())
            }
        };
        Ok(ServerState {
            version: identity.version,
            system_identifier: match restoring {
                Restoring::Command => None,
                Restoring::Template | Restoring::Nothing => identity.system_identifier,
            },
            settings,
            relations: relations.collect(),
            bytes,
        })
    }

    /// Names what differs from an earlier state.
    pub(super) fn differences(&self, earlier: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.version != earlier.version {
            let ServerState { version, .. } = earlier;
            found.push(format!("version {} instead of {version}", self.version));
        }
        if self.system_identifier != earlier.system_identifier {
            found.push("another cluster (system identifier)".to_owned());
        }
        let settings = names_that_differ(&earlier.settings, &self.settings);
        found.extend(list("settings", &settings));
        let (earlier_names, names) = (names_only(&earlier.relations), names_only(&self.relations));
        found.extend(list(
            "relations",
            &names_that_differ(&earlier_names, &names),
        ));
        let changed = self.relations.iter().filter(|(name, has_statistics)| {
            let known = earlier.relations.get(*name);
            known.is_some_and(|known| known != *has_statistics)
        });
        let changed: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
        found.extend(list("presence of statistics", &changed));
        if let (Some(bytes), Some(before)) = (self.bytes, earlier.bytes) {
            #[expect(clippy::cast_precision_loss, reason = "sizes are below 2^53 bytes")]
            let share = bytes.abs_diff(before) as f64 / before.max(1) as f64;
            if share > SIZE_MARGIN.0 && bytes.abs_diff(before) > SIZE_MARGIN.1 {
                found.push(format!(
                    "size of the database: {bytes} instead of {before} bytes"
                ));
            }
        }
        found
    }
}

fn pairs(rows: Rows) -> impl Iterator<Item = (String, String)> {
    rows.into_iter().filter_map(|row| {
        let mut values = row.into_iter();
        Some((values.next()??, values.next()?.unwrap_or_default()))
    })
}

fn names_only(relations: &BTreeMap<String, bool>) -> BTreeMap<String, ()> {
    relations.keys().map(|name| (name.clone(), ())).collect()
}

fn names_that_differ<'m, V: PartialEq>(
    earlier: &'m BTreeMap<String, V>,
    now: &'m BTreeMap<String, V>,
) -> Vec<&'m str> {
    let changed = now
        .iter()
        .filter(|(name, value)| earlier.get(*name) != Some(*value));
    let gone = earlier.keys().filter(|name| !now.contains_key(*name));
    changed
        .map(|(name, _)| name)
        .chain(gone)
        .map(String::as_str)
        .collect()
}

fn list(subject: &str, names: &[&str]) -> Option<String> {
    let shown = names
        .iter()
        .take(NAMES_MAX)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len() {
        0 => None,
        number if number > NAMES_MAX => Some(format!(
            "{subject}: {shown} and {} more",
            number - NAMES_MAX
        )),
        _ => Some(format!("{subject}: {shown}")),
    }
}

/// Records the states of both servers before the first run, or refuses those that differ from the recorded ones.
///
/// # Errors
/// If the file cannot be read or written, or a state differs.
pub(super) fn record_or_compare(
    directory: &Path,
    states: &[(&str, ServerState); 2],
) -> Result<(), Failure> {
    let file = directory.join("servers.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        let text = serde_json::to_string_pretty(&states.each_ref().map(|(_, state)| state));
        let partial = directory.join("servers.json.partial");
        let written = std::fs::write(&partial, text.expect("plain data"));
        return written
            .and_then(|()| std::fs::rename(&partial, &file))
            .map_err(|error| {
                Failure::could_not(format!("cannot write {}: {error}", file.display()))
            });
    };
    let known: [ServerState; 2] = serde_json::from_str(&text).map_err(|error| {
        Failure::could_not(format!(
            "{} is damaged: {error}; begin again with another -o",
            file.display()
        ))
    })?;
    let mut found = Vec::new();
    for ((side, state), earlier) in states.iter().zip(&known) {
        let differences = state.differences(earlier);
        if !differences.is_empty() {
            found.push(format!("the {side} server ({})", differences.join("; ")));
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "cannot resume {}: its runs are of another state of {}; restore that state, or begin again with another -o",
            directory.display(),
            found.join(" and of ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ServerState {
        ServerState {
            version: "15.4".to_owned(),
            system_identifier: Some("7".to_owned()),
            settings: BTreeMap::from([("jit".to_owned(), "a".to_owned())]),
            relations: BTreeMap::from([("public.items".to_owned(), false)]),
            bytes: Some(100 << 20),
        }
    }

    #[test]
    fn state_with_other_settings_relations_statistics_or_size_names_each_difference() {
        let earlier = state();
        let smaller_change = ServerState {
            bytes: Some(101 << 20),
            ..state()
        };
        assert_eq!(smaller_change.differences(&earlier), [""; 0]);
        let changed = ServerState {
            version: "15.5".to_owned(),
            system_identifier: Some("8".to_owned()),
            settings: BTreeMap::from([("work_mem".to_owned(), "b".to_owned())]),
            relations: BTreeMap::from([
                ("public.items".to_owned(), true),
                ("public.orders".to_owned(), false),
            ]),
            bytes: Some(50 << 20),
        };
        assert_eq!(
            changed.differences(&earlier),
            [
                "version 15.5 instead of 15.4",
                "another cluster (system identifier)",
                "settings: work_mem, jit",
                "relations: public.orders",
                "presence of statistics: public.items",
                "size of the database: 52428800 instead of 104857600 bytes",
            ]
        );
    }

    #[test]
    fn resumed_rehearsal_of_a_server_that_was_analyzed_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let states = [("old", state()), ("new", state())];
        record_or_compare(directory.path(), &states).unwrap();
        record_or_compare(directory.path(), &states).unwrap();
        let mut analyzed = state();
        analyzed.relations.insert("public.items".to_owned(), true);
        let states = [("old", state()), ("new", analyzed)];
        let failure = record_or_compare(directory.path(), &states).unwrap_err();
        let expected = "the new server (presence of statistics: public.items)";
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}
