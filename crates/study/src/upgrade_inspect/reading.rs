//! Reads the facts of a server. Each query is a read-only transaction. One that the server refuses becomes an unchecked
//! part.

use std::collections::HashSet;
use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, Login, QueryConnection};
use replay::LoginMap;
use serde::de::DeserializeOwned;

use super::facts::part::{
    EXTENDED_STATISTICS, EXTENDED_STATISTICS_DATA, EXTENSIONS, INDEXES, OFFERED, ROLE_SETTINGS,
    SLOTS, SUBSCRIPTION_TABLES, SUBSCRIPTIONS, TABLE_STATISTICS, TABLES,
};
use super::facts::{
    DatabaseFacts, Extension, Identity, RefusedObject, Relation, ServerFacts, Setting,
    StatisticsObject,
};
use super::queries;
use super::result::UncheckedPart;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Time limit of the queries of one connection.
const TIME_MAX: Duration = Duration::from_secs(600);
/// Settings of each session: it does not write, wait for locks, or run long queries.
const SESSION: [(&str, &str); 5] = [
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "120s"),
    ("lock_timeout", "2s"),
    ("search_path", "pg_catalog"),
    ("quote_all_identifiers", "off"),
];

/// `insufficient_privilege`
const INSUFFICIENT_PRIVILEGE: [u8; 5] = *b"42501";

/// Reader of one server.
pub(super) struct Reader<'a> {
    dialer: Dialer,
    login: Login,
    address: String,
    is_new: bool,
    interrupt: &'a Interrupt,
}

impl<'a> Reader<'a> {
    /// Prepares a reader. `is_new` names the side in reports.
    ///
    /// # Errors
    /// If a file that the target names cannot be used.
    pub(super) fn new(
        target: &Target,
        is_new: bool,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        let login = LoginMap::default().login(target, "", "", "rehearse upgrade");
        let own = SESSION.map(|(name, value)| (name.into(), value.into()));
        Ok(Reader {
            dialer: Dialer::new(target)?,
            login: Login {
                settings: [&own[..], &login.settings].concat().into(),
                ..login
            },
            address: target.address(),
            is_new,
            interrupt,
        })
    }

    fn open(&self, database: Option<&str>) -> Result<Session<'_>, Failure> {
        let login = Login {
            database: database.map_or_else(|| self.login.database.clone(), Into::into),
            ..self.login.clone()
        };
        let opened = self.dialer.open_query_connection(&login);
        let mut connection = opened.map_err(|error| {
            Failure::could_not(format!(
                "cannot connect to the database {} of {}: {error}",
                login.database, self.address
            ))
        })?;
        connection.limit(TIME_MAX);
        Ok(Session {
            connection,
            database: database.map(str::to_owned),
            is_new: self.is_new,
            unchecked: Vec::new(),
        })
    }

    /// Reads the facts of the whole server.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses its version, settings or databases.
    pub(super) fn server(
        &self,
        unchecked: &mut Vec<UncheckedPart>,
    ) -> Result<ServerFacts, Failure> {
        let mut session = self.open(None)?;
        let identity: Vec<Identity> = session.need("version", queries::IDENTITY)?;
        let settings: Vec<Setting> = session.need("settings", queries::SETTINGS)?;
        let offered: Vec<Extension> = session.read(OFFERED, queries::OFFERED);
        let mut facts = ServerFacts {
            identity: identity.into_iter().next().unwrap_or_default(),
            settings: settings
                .into_iter()
                .map(|one| (one.name.clone(), one))
                .collect(),
            role_settings: session.read(ROLE_SETTINGS, queries::ROLE_SETTINGS),
            databases: session.need("databases", queries::DATABASES)?,
            prepared: session.read("prepared transactions", queries::PREPARED),
            slots: session.read(SLOTS, queries::SLOTS),
            subscriptions: session.read(SUBSCRIPTIONS, queries::SUBSCRIPTIONS),
            md5_roles: session.read("passwords of roles", queries::MD5_ROLES),
            types: set(session.need("types", queries::TYPES)?),
            system_columns: set(session.need("system views", queries::SYSTEM_COLUMNS)?),
            offered: offered
                .into_iter()
                .map(|one| (one.name, one.version))
                .collect(),
            refused: Vec::new(),
            aliases: HashSet::new(),
            contents: Vec::new(),
            unread: HashSet::new(),
        };
        let sees_settings: Vec<bool> = session.read("privileges", queries::SEES_SETTINGS);
        if sees_settings == [false] {
            session.report(
                "settings that only some roles see",
                "the role lacks the privileges of pg_read_all_settings".to_owned(),
            );
        }
        facts.unread = session.unread();
        unchecked.append(&mut session.unchecked);
        Ok(facts)
    }

    /// Returns those of the names under which the server accepts a setting. A name about which it was not asked counts as
    /// accepted.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub(super) fn accepted_settings(
        &self,
        names: &[&str],
        unchecked: &mut Vec<UncheckedPart>,
    ) -> Result<HashSet<String>, Failure> {
        if names.is_empty() {
            return Ok(HashSet::new());
        }
        let mut session = self.open(None)?;
        let mut accepted = HashSet::new();
        for (position, name) in names.iter().enumerate() {
            match session.accepts_setting(name) {
                Ok(true) => _ = accepted.insert((*name).to_owned()),
                Ok(false) => {}
                Err(reason) => {
                    let rest = &names[position..];
                    session.report(&format!("removed settings ({})", rest.join(", ")), reason);
                    accepted.extend(rest.iter().map(|&name| name.to_owned()));
                    break;
                }
            }
        }
        unchecked.append(&mut session.unchecked);
        Ok(accepted)
    }

    /// Reads the names, encodings and lines of `pg_hba.conf` that version 19 refuses.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub(super) fn refused_by_19(
        &self,
        unchecked: &mut Vec<UncheckedPart>,
    ) -> Result<Vec<RefusedObject>, Failure> {
        let mut session = self.open(None)?;
        let mut refused = session.read("names and encodings", queries::REFUSED_NAMES_OF_19);
        refused.extend(session.read("lines of pg_hba.conf", queries::RADIUS_LINES));
        unchecked.append(&mut session.unchecked);
        Ok(refused)
    }

    /// Reads the facts of one database; `types` are searched in columns. `None` if it cannot be connected to, which is
    /// an unchecked part.
    ///
    /// # Errors
    /// If a stop is requested.
    pub(super) fn database(
        &self,
        (name, number): (&str, u32),
        types: &[&str],
        unchecked: &mut Vec<UncheckedPart>,
    ) -> Result<Option<DatabaseFacts>, Failure> {
        if self.interrupt.is_requested() {
            return Err(Failure::could_not("the inspection was stopped"));
        }
        let mut session = match self.open(Some(name)) {
            Ok(session) => session,
            Err(error) => {
                unchecked.push(UncheckedPart {
                    on_new_server: self.is_new,
                    database: Some(name.to_owned()),
                    part: "the whole database".to_owned(),
                    reason: error.message,
                });
                return Ok(None);
            }
        };
        let mut facts = session.contents((name, number), types);
        facts.unread = session.unread();
        unchecked.append(&mut session.unchecked);
        Ok(Some(facts))
    }
}

fn set(names: Vec<String>) -> HashSet<String> {
    names.into_iter().collect()
}

/// Open connection to one database.
struct Session<'a> {
    connection: QueryConnection<'a>,
    database: Option<String>,
    is_new: bool,
    unchecked: Vec<UncheckedPart>,
}

impl Session<'_> {
    fn contents(&mut self, (name, number): (&str, u32), types: &[&str]) -> DatabaseFacts {
        let mut refused = Vec::new();
        if number < 140_000 {
            refused = self.read("operators and aggregates", &queries::refused_by_14());
        }
        if number < 180_000 {
            refused.extend(self.read("inherited NOT NULL", &queries::refused_by_18()));
        }
        if number < 190_000 {
            refused.extend(self.read("operator classes", &queries::refused_by_19()));
        }
        let typed_columns = match types {
            [] => Vec::new(),
            types => self.read("types of columns", &queries::typed_columns(types)),
        };
        let actual: Vec<Option<String>> =
            self.read("collation version", queries::actual_collation(number));
        let large_objects: Vec<u64> = self.read("large objects", queries::LARGE_OBJECTS);
        let relations: Vec<Relation> = self.read(TABLES, &queries::relations(number));
        let statistics: Vec<StatisticsObject> =
            self.read(EXTENDED_STATISTICS, &queries::statistics_objects(number));
        self.report_invisible(&relations, &statistics);
        DatabaseFacts {
            name: name.to_owned(),
            actual: actual.into_iter().next().flatten(),
            relations,
            indexes: self.read(INDEXES, &queries::indexes()),
            collations: self.read("collations", &queries::collations()),
            constraints: self.read("constraints", &queries::constraints()),
            statistics,
            extensions: self.read(EXTENSIONS, queries::EXTENSIONS),
            libraries: self.read("libraries of functions", &queries::libraries()),
            view_columns: self.read("views", &queries::view_columns()),
            typed_columns,
            refused,
            no_identity: self.read("published tables", &queries::no_identity()),
            unsynchronised: self.read("tables of subscriptions", queries::UNSYNCHRONISED),
            subscription_tables: self.read(SUBSCRIPTION_TABLES, queries::SUBSCRIPTION_TABLES),
            large_objects: large_objects.into_iter().next().unwrap_or(0),
            unread: HashSet::new(),
        }
    }

    /// Reads rows of JSON. A refusal is an unchecked part.
    fn read<T: DeserializeOwned>(&mut self, part: &str, sql: &str) -> Vec<T> {
        self.try_read(sql).unwrap_or_else(|reason| {
            self.report(part, reason);
            Vec::new()
        })
    }

    /// Reports the planner statistics that the role may not see.
    fn report_invisible(&mut self, relations: &[Relation], statistics: &[StatisticsObject]) {
        let tables = relations.iter();
        let tables = tables.filter(|one| one.has_rows && one.has_statistics.is_none());
        let tables: Vec<&str> = tables.map(|one| one.name.as_str()).collect();
        let objects = statistics.iter();
        let objects = objects.filter(|one| one.table_has_rows && one.has_data.is_none());
        let objects: Vec<&str> = objects.map(|one| one.name.as_str()).collect();
        for (kind, names, needed) in [
            (TABLE_STATISTICS, tables, "SELECT on the table"),
            (
                EXTENDED_STATISTICS_DATA,
                objects,
                "the role of the table's owner",
            ),
        ] {
            let Some(first) = names.first() else {
                continue;
            };
            let part = match names.len() {
                1 => format!("{kind}: {first}"),
                number => format!("{kind}: {number}, such as {first}"),
            };
            let reason = format!("the role may not see them; it needs {needed}, or a superuser");
            self.report(&part, reason);
        }
    }

    fn report(&mut self, part: &str, reason: String) {
        self.unchecked.push(UncheckedPart {
            on_new_server: self.is_new,
            database: self.database.clone(),
            part: part.to_owned(),
            reason,
        });
    }

    /// Returns the parts that were not read.
    fn unread(&self) -> HashSet<String> {
        let parts = self.unchecked.iter();
        parts.map(|one| one.part.clone()).collect()
    }

    /// Whether the server accepts a setting of this name. A setting that the role may not read exists.
    fn accepts_setting(&mut self, name: &str) -> Result<bool, String> {
        match self.connection.query(&queries::accepts_setting(name)) {
            Ok(rows) => Ok(rows == [[Some("true".into())]]),
            Err(error) if error.sqlstate == INSUFFICIENT_PRIVILEGE => Ok(true),
            Err(error) => Err(error.message),
        }
    }

    /// Reads rows of JSON without which there is no inspection.
    fn need<T: DeserializeOwned>(&mut self, part: &str, sql: &str) -> Result<Vec<T>, Failure> {
        self.try_read(sql).map_err(|reason| {
            Failure::could_not(format!("cannot read the {part} of the server: {reason}"))
        })
    }

    fn try_read<T: DeserializeOwned>(&mut self, sql: &str) -> Result<Vec<T>, String> {
        let rows = self.connection.query(sql).map_err(|error| error.message)?;
        let texts = rows.into_iter().filter_map(|row| row.into_iter().next());
        texts
            .map(|text| {
                serde_json::from_str(text.as_deref().unwrap_or("null"))
                    .map_err(|error| format!("the answer has an unexpected form ({error})"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_that_the_role_may_not_see_are_unknown_and_reported() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let interrupt = Interrupt::default();
        let setup = "CREATE ROLE reporting LOGIN; CREATE TABLE t (a int, b int, c int); \
             INSERT INTO t SELECT i, i, i FROM generate_series(1, 100) i; CREATE STATISTICS pair ON a, b FROM t; \
             GRANT SELECT ON t TO reporting; CREATE TABLE part (a int, b int); INSERT INTO part VALUES (1, 1); \
             ALTER TABLE part ALTER a SET STATISTICS 0; GRANT SELECT (a) ON part TO reporting; ANALYZE";
        let reader = Reader::new(&target, true, &interrupt).unwrap();
        let number = reader.server(&mut Vec::new()).unwrap().identity.number;
        let dialer = Dialer::new(&target).unwrap();
        let login = LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = dialer.open_query_connection(&login).unwrap();
        connection.query(setup).unwrap();
        let read = |user: &str| {
            let target = Target {
                user: Some(user.to_owned()),
                ..target.clone()
            };
            let reader = Reader::new(&target, false, &interrupt).unwrap();
            let mut unchecked = Vec::new();
            let facts = reader.database(("postgres", number), &[], &mut unchecked);
            let facts = facts.unwrap().unwrap();
            let tables = facts.relations.iter().map(|one| one.has_statistics);
            assert!(
                !unchecked.iter().any(UncheckedPart::can_block),
                "{unchecked:?}"
            );
            let parts: Vec<String> = unchecked.into_iter().map(|one| one.part).collect();
            (
                tables.collect::<Vec<_>>(),
                facts.statistics[0].has_data,
                parts,
            )
        };
        let nothing: [String; 0] = [];
        let (tables, data, parts) = read("postgres");
        assert_eq!((tables, data), (vec![Some(true); 2], Some(true)));
        assert_eq!(parts, nothing);
        let (tables, data, parts) = read("reporting");
        assert_eq!((tables, data), (vec![None, Some(true)], None));
        let tables = "planner statistics of tables: public.part";
        let objects = "data of extended statistics: public.pair";
        assert!(parts.iter().any(|part| part == tables), "{parts:?}");
        assert!(parts.iter().any(|part| part == objects), "{parts:?}");
    }
}
