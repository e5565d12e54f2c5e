//! Looks for the effects of remedies on a server.

use connect::login::QueryConnection;

use super::result::VerifiedRemedy;
use crate::environment::quote_literal;
use crate::upgrade_remedies::RegressionRemedy;

/// Checks each statement of the remedies. The session only reads.
pub(super) fn verify_remedies(
    connection: &mut QueryConnection<'_>,
    remedies: &[RegressionRemedy],
) -> Vec<VerifiedRemedy> {
    let mut verified: Vec<VerifiedRemedy> = Vec::new();
    for remedy in remedies {
        for statement in &remedy.statements {
            if verified.iter().any(|one| one.statement == *statement) {
                continue;
            }
            let (in_place, found) = match (&remedy.setting, &remedy.role) {
                (Some((name, value)), Some(role)) => {
                    setting_of_role(connection, role, (name, value))
                }
                (Some((name, value)), None) => setting(connection, (name, value)),
                (None, _) => object(connection, statement),
            };
            verified.push(VerifiedRemedy {
                statement: statement.clone(),
                in_place,
                found,
            });
        }
    }
    verified
}

/// Compares the value of a new session with the one of the remedy.
fn setting(
    connection: &mut QueryConnection<'_>,
    (name, value): (&str, &str),
) -> (Option<bool>, String) {
    let mut read = || -> Result<[Option<String>; 2], String> {
        let now = text(connection, &show(name))?;
        Ok([now, printed(connection, (name, value))?])
    };
    match read() {
        Ok([Some(now), Some(wanted)]) => (
            Some(now == wanted),
            format!("The setting {name} is {now} in a new session."),
        ),
        Ok(_) => (None, format!("The setting {name} cannot be read.")),
        Err(reason) => (None, format!("The setting {name} cannot be read: {reason}")),
    }
}

/// Compares the stored setting of a role, which sessions of others do not have. Its setting in the database overrides the one in
/// all databases.
fn setting_of_role(
    connection: &mut QueryConnection<'_>,
    role: &str,
    (name, value): (&str, &str),
) -> (Option<bool>, String) {
    let question = format!(
        "SELECT pg_catalog.substr(one, pg_catalog.strpos(one, '=') + 1) FROM pg_catalog.pg_db_role_setting s \
         JOIN pg_catalog.pg_roles r ON r.oid = s.setrole, pg_catalog.unnest(s.setconfig) one WHERE r.rolname = {} \
         AND pg_catalog.lower(pg_catalog.split_part(one, '=', 1)) = pg_catalog.lower({}) AND s.setdatabase IN (0, \
         (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())) \
         ORDER BY s.setdatabase DESC LIMIT 1",
        quote_literal(role),
        quote_literal(name)
    );
    let mut read = || -> Result<Option<(String, bool)>, String> {
        let Some(stored) = text(connection, &question)? else {
            return Ok(None);
        };
        let is_equal = printed(connection, (name, &stored))? == printed(connection, (name, value))?;
        Ok(Some((stored, is_equal)))
    };
    match read() {
        Ok(None) => (
            Some(false),
            format!("The role {role} does not have the setting {name}."),
        ),
        Ok(Some((stored, is_equal))) => (
            Some(is_equal),
            format!("The role {role} has the setting {name} = {stored}."),
        ),
        Err(reason) => (
            None,
            format!("The settings of the role {role} cannot be read: {reason}"),
        ),
    }
}

/// Returns a value as the server prints it: `64MB` for `65536kB`.
fn printed(
    connection: &mut QueryConnection<'_>,
    (name, value): (&str, &str),
) -> Result<Option<String>, String> {
    text(connection, "BEGIN READ ONLY")?;
    let set = format!("SET LOCAL {name} = {}", quote_literal(value));
    let printed = text(connection, &set).and_then(|_| text(connection, &show(name)));
    text(connection, "ROLLBACK")?;
    printed
}

fn show(name: &str) -> String {
    format!("SELECT pg_catalog.current_setting({})", quote_literal(name))
}

/// Object that a statement creates or fills.
#[derive(Debug, PartialEq, Eq)]
enum RemedyObject<'s> {
    /// Statistics of a table.
    Statistics { table: &'s str },
    /// Index that is built again.
    RebuiltIndex { index: &'s str },
    /// Extended statistics, by their name with the schema.
    ExtendedStatistics { name: &'s str },
    /// Index, by its name and its table. Versions print definitions differently.
    Index { name: &'s str, table: &'s str },
}

impl<'s> RemedyObject<'s> {
    /// Finds the object in a statement of this program, or in a definition that a server printed. `None` if there is none.
    fn of_statement(statement: &'s str) -> Option<Self> {
        if let Some(table) = statement.strip_prefix("ANALYZE ") {
            return Some(RemedyObject::Statistics { table });
        }
        if let Some(index) = statement.strip_prefix("REINDEX INDEX ") {
            return Some(RemedyObject::RebuiltIndex { index });
        }
        if let Some(rest) = statement.strip_prefix("CREATE STATISTICS ") {
            let (name, _) = split_name(rest);
            return Some(RemedyObject::ExtendedStatistics { name });
        }
        let rest = statement.strip_prefix("CREATE ")?;
        let rest = rest.strip_prefix("UNIQUE ").unwrap_or(rest);
        let (name, rest) = split_name(rest.strip_prefix("INDEX ")?);
        let rest = rest.strip_prefix(" ON ")?;
        let (table, _) = split_name(rest.strip_prefix("ONLY ").unwrap_or(rest));
        Some(RemedyObject::Index { name, table })
    }

    /// Returns the question whether it is there, the one that a role without access to its data may ask instead, and the
    /// sentences on both answers. The second question finds only what is there.
    fn questions(&self) -> (String, Option<String>, &'static str, &'static str) {
        match self {
            RemedyObject::Statistics { table } => {
                let relation = relation_named(table);
                (
                    format!(
                        "SELECT EXISTS (SELECT {relation} AND EXISTS (SELECT FROM pg_catalog.pg_statistic WHERE starelid = c.oid) \
                         AND NOT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s LEFT JOIN pg_catalog.pg_statistic_ext_data d \
                         ON d.stxoid = s.oid WHERE s.stxrelid = c.oid AND d.stxoid IS NULL))"
                    ),
                    Some(format!(
                        "SELECT EXISTS (SELECT {relation} AND EXISTS (SELECT FROM pg_catalog.pg_stat_all_tables \
                         WHERE relid = c.oid AND coalesce(last_analyze, last_autoanalyze) IS NOT NULL))"
                    )),
                    "The table and its extended statistics have data.",
                    "The table or an extended statistics object of it has no statistics.",
                )
            }
            RemedyObject::RebuiltIndex { index } => (
                format!(
                    "SELECT EXISTS (SELECT {} AND EXISTS (SELECT FROM pg_catalog.pg_index WHERE indexrelid = c.oid AND indisvalid))",
                    relation_named(index)
                ),
                None,
                "The index is valid. When it was built is not recorded.",
                "The index is missing or invalid.",
            ),
            RemedyObject::ExtendedStatistics { name } => {
                let from = "FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace";
                let is_named = format!(
                    "pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(s.stxname) = {}",
                    quote_literal(name)
                );
                (
                    format!(
                        "SELECT EXISTS (SELECT {from} JOIN pg_catalog.pg_statistic_ext_data d ON d.stxoid = s.oid WHERE {is_named})"
                    ),
                    Some(format!(
                        "SELECT EXISTS (SELECT {from} JOIN pg_catalog.pg_stat_all_tables t ON t.relid = s.stxrelid \
                         WHERE {is_named} AND coalesce(t.last_analyze, t.last_autoanalyze) IS NOT NULL)"
                    )),
                    "The extended statistics exist and have data.",
                    "The extended statistics are missing or have no data.",
                )
            }
            RemedyObject::Index { name, table } => (
                format!(
                    "SELECT EXISTS (SELECT {} AND EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x \
                     ON x.oid = i.indexrelid WHERE i.indrelid = c.oid AND i.indisvalid AND pg_catalog.quote_ident(x.relname) = {}))",
                    relation_named(table),
                    quote_literal(name)
                ),
                None,
                "An index of this name exists on the table and is valid.",
                "The index is missing or invalid.",
            ),
        }
    }
}

/// Returns the part of a query that finds a relation `c` by its quoted name. `to_regclass` needs a right on the schema.
fn relation_named(name: &str) -> String {
    format!(
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) = {}",
        quote_literal(name)
    )
}

/// Splits a name, with its schema, from the text after it.
fn split_name(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    let end = text.find(|c: char| {
        is_quoted ^= c == '"';
        !is_quoted && c == ' '
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// Looks for the object that a statement creates or fills.
fn object(connection: &mut QueryConnection<'_>, statement: &str) -> (Option<bool>, String) {
    let Some(object) = RemedyObject::of_statement(statement) else {
        return (
            None,
            "Whether it is in place cannot be seen from a new session.".to_owned(),
        );
    };
    let (question, other, yes, no) = object.questions();
    let mut ask = |question: &str| -> Result<bool, String> {
        let answer = text(connection, question)?;
        Ok(matches!(answer.as_deref(), Some("t" | "true")))
    };
    match ask(&question) {
        Ok(true) => (Some(true), yes.to_owned()),
        Ok(false) => (Some(false), no.to_owned()),
        // Statistics are visible to few roles. All see when a table was analyzed since its counters were reset.
        Err(reason) => match other.map(|other| ask(&other)) {
            Some(Ok(true)) => (
                Some(true),
                "The table was analyzed after the upgrade.".to_owned(),
            ),
            _ => (None, format!("It cannot be checked: {reason}")),
        },
    }
}

/// Returns the first value of an answer.
fn text(connection: &mut QueryConnection<'_>, sql: &str) -> Result<Option<String>, String> {
    let rows = connection.query(sql).map_err(|error| error.message)?;
    let first = rows.into_iter().flatten().flatten().next();
    Ok(first.map(|text| text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_found_in_definitions_of_servers_and_in_statements() {
        for (statement, object) in [
            (
                "CREATE INDEX day ON public.facts USING btree (date_part('day'::text, at))",
                Some(RemedyObject::Index {
                    name: "day",
                    table: "public.facts",
                }),
            ),
            (
                "CREATE UNIQUE INDEX \"a \"\" ON b\" ON ONLY \"my app\".\"t\" USING btree (a)",
                Some(RemedyObject::Index {
                    name: "\"a \"\" ON b\"",
                    table: "\"my app\".\"t\"",
                }),
            ),
            (
                "CREATE STATISTICS app.\"s s\" (ndistinct) ON a, b FROM app.t",
                Some(RemedyObject::ExtendedStatistics {
                    name: "app.\"s s\"",
                }),
            ),
            (
                "ANALYZE public.facts",
                Some(RemedyObject::Statistics {
                    table: "public.facts",
                }),
            ),
            (
                "REINDEX INDEX public.i",
                Some(RemedyObject::RebuiltIndex { index: "public.i" }),
            ),
            ("ALTER TABLE t SET (fillfactor = 70)", None),
            ("CREATE EXTENSION hstore", None),
        ] {
            assert_eq!(RemedyObject::of_statement(statement), object, "{statement}");
        }
    }

    #[test]
    fn remedy_in_place_is_found_by_roles_with_and_without_rights_and_under_any_search_path() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = replay::Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = connect::login::Dialer::new(&target).unwrap();
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = dialer.open_query_connection(&login).unwrap();
        let setup = "CREATE SCHEMA app; CREATE TABLE app.facts (at timestamp, a int, b int); \
             INSERT INTO app.facts SELECT now(), i, i FROM generate_series(1, 100) i; \
             CREATE INDEX day ON app.facts (extract(day FROM at)); \
             CREATE STATISTICS app.pair ON a, b FROM app.facts; ANALYZE app.facts; \
             CREATE TABLE app.empty (a int); CREATE ROLE monitor; SET search_path = app";
        connection.query(setup).unwrap();
        let printed = "SELECT pg_get_indexdef('app.day'::regclass)";
        let index = text(&mut connection, printed).unwrap().unwrap();
        let printed = "SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext";
        let statistics = text(&mut connection, printed).unwrap().unwrap();
        let other_version = "CREATE INDEX day ON app.facts USING btree (other(at))";
        let in_place = [&index, other_version, &statistics, "ANALYZE app.facts"];
        for role in ["postgres", "monitor"] {
            connection.query(&format!("SET ROLE {role}")).unwrap();
            for statement in in_place {
                let (found, reason) = object(&mut connection, statement);
                assert_eq!(found, Some(true), "{role}: {statement}: {reason}");
            }
            let missing = "CREATE INDEX night ON app.facts USING btree (a)";
            assert_eq!(object(&mut connection, missing).0, Some(false), "{role}");
        }
        let unseen = object(&mut connection, "ANALYZE app.empty").0;
        assert_eq!(unseen, None);
        connection.query("RESET ROLE").unwrap();
        let empty = object(&mut connection, "ANALYZE app.empty").0;
        assert_eq!(empty, Some(false));
    }

    #[test]
    fn setting_of_a_role_is_compared_as_printed_and_that_in_the_database_overrides() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = replay::Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = connect::login::Dialer::new(&target).unwrap();
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = dialer.open_query_connection(&login).unwrap();
        for (change, in_place, words) in [
            (
                "CREATE ROLE app",
                false,
                "does not have the setting work_mem",
            ),
            (
                "ALTER ROLE app SET work_mem = '65536kB'",
                true,
                "work_mem = 65536kB",
            ),
            (
                "ALTER ROLE app IN DATABASE postgres SET work_mem = '1MB'",
                false,
                "work_mem = 1MB",
            ),
        ] {
            connection.query(change).unwrap();
            let (found, text) = setting_of_role(&mut connection, "app", ("work_mem", "64MB"));
            assert_eq!(found, Some(in_place), "{text}");
            assert!(text.contains(words), "{text}");
        }
    }
}
