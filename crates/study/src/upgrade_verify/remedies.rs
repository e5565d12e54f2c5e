//! Looks for the effects of remedies on a server.

use connect::login::QueryConnection;

use super::remedy_objects::RemedyObject;
use super::result::VerifiedRemedy;
use crate::environment::quote_literal;
use crate::upgrade_remedies::RegressionRemedy;

/// Checks each statement of the remedies on a server of this major version. The session only reads.
pub(super) fn verify_remedies(
    connection: &mut QueryConnection<'_>,
    major: u16,
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
                (None, _) => object(connection, major, statement),
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

/// Looks for the object that a statement creates or fills.
fn object(
    connection: &mut QueryConnection<'_>,
    major: u16,
    statement: &str,
) -> (Option<bool>, String) {
    let Some(object) = RemedyObject::of_statement(statement) else {
        return (
            None,
            "Whether it is in place cannot be seen from a new session.".to_owned(),
        );
    };
    let questions = object.questions(major);
    let reason = match text(connection, &questions.question) {
        Ok(answer) => {
            return match answer.as_deref() {
                Some("t") => (Some(true), questions.present.to_owned()),
                Some("f") | None => (Some(false), questions.missing.to_owned()),
                Some(reason) => (None, reason.to_owned()),
            };
        }
        Err(reason) => reason,
    };
    // Statistics are visible to few roles.
    let substitute = questions.substitute.filter(|(question, _)| {
        let answer = text(connection, question);
        answer.is_ok_and(|answer| answer.as_deref() == Some("t"))
    });
    match substitute {
        Some((_, present)) => (Some(true), present.to_owned()),
        None => (None, format!("It cannot be checked: {reason}")),
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
    use crate::upgrade_rehearsal::major_of;

    #[test]
    fn remedy_in_place_is_found_by_roles_with_and_without_rights_and_under_any_search_path() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = replay::Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = connect::login::Dialer::new(&target).unwrap();
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = dialer.open_query_connection(&login).unwrap();
        let major = major_of(connection.server_version()).unwrap();
        let setup = "CREATE SCHEMA app; CREATE TABLE app.facts (at timestamp, a int, b int); \
             INSERT INTO app.facts SELECT now(), i, i FROM generate_series(1, 100) i; \
             CREATE INDEX day ON app.facts (extract(day FROM at)); \
             CREATE STATISTICS app.pair ON a, b FROM app.facts; CREATE TABLE app.plain AS SELECT 1 AS a; ANALYZE; \
             CREATE TABLE app.empty (a int); CREATE ROLE monitor; CREATE ROLE app_owner; ALTER TABLE app.facts OWNER TO app_owner; \
             SET search_path = app";
        connection.query(setup).unwrap();
        let printed = "SELECT pg_get_indexdef('app.day'::regclass)";
        let index = text(&mut connection, printed).unwrap().unwrap();
        let printed = "SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext";
        let statistics = text(&mut connection, printed).unwrap().unwrap();
        let other_version = "CREATE INDEX day ON app.facts USING btree (other(at))";
        let for_all = [&*index, other_version, "ANALYZE app.plain"];
        // Whether they have data is visible to a superuser and to the owner.
        let extended = [&*statistics, "ANALYZE app.facts"];
        for (role, data) in [
            ("postgres", Some(true)),
            ("app_owner", Some(true)),
            ("monitor", None),
        ] {
            connection.query(&format!("SET ROLE {role}")).unwrap();
            let all = for_all.map(|statement| (statement, Some(true)));
            for (statement, expected) in all.into_iter().chain(extended.map(|one| (one, data))) {
                let (found, reason) = object(&mut connection, major, statement);
                assert_eq!(found, expected, "{role}: {statement}: {reason}");
            }
            let missing = "CREATE INDEX night ON app.facts USING btree (a)";
            let found = object(&mut connection, major, missing).0;
            assert_eq!(found, Some(false), "{role}");
        }
        let unseen = object(&mut connection, major, "ANALYZE app.empty").0;
        assert_eq!(unseen, None);
        connection.query("RESET ROLE").unwrap();
        for missing in ["ANALYZE app.empty", "ANALYZE app.none"] {
            let found = object(&mut connection, major, missing).0;
            assert_eq!(found, Some(false), "{missing}");
        }
    }

    #[test]
    fn analyze_is_in_place_only_if_it_was_executed_on_this_server() {
        // Earlier versions report the time of an ANALYZE later.
        let (_sandbox, endpoint) = test_support::server().major(15).start();
        let target = replay::Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = connect::login::Dialer::new(&target).unwrap();
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = dialer.open_query_connection(&login).unwrap();
        let setup = "CREATE TABLE facts (a int, b int); ALTER TABLE facts SET (autovacuum_enabled = off); \
             INSERT INTO facts SELECT i % 10, i % 10 FROM generate_series(1, 1000) i; ANALYZE facts";
        connection.query(setup).unwrap();
        let (analyze, create) = ("ANALYZE public.facts", "CREATE STATISTICS public.pair ");
        let mut expect = |major: u16, statement: &str, expected: Option<bool>| {
            let (found, reason) = object(&mut connection, major, statement);
            assert_eq!(found, expected, "{major}, {statement}: {reason}");
        };
        expect(18, analyze, Some(true));
        // The counters are as after pg_upgrade, which keeps statistics from 18 on.
        let execute = |sql: &str| {
            let mut other = dialer.open_query_connection(&login).unwrap();
            other.query(sql).unwrap();
        };
        execute("SELECT pg_stat_reset()");
        expect(18, analyze, None);
        expect(17, analyze, Some(true));
        // Statistics that were created after the ANALYZE have no data, whatever the version has of them.
        execute("CREATE STATISTICS pair ON a, b FROM facts");
        for major in [14, 15, 18] {
            expect(major, analyze, Some(false));
            expect(major, create, Some(false));
        }
        execute("ANALYZE facts");
        for major in [14, 15, 18] {
            expect(major, analyze, Some(true));
            expect(major, create, Some(true));
        }
        // Before 15, missing values may also be a result of ANALYZE.
        execute("DROP STATISTICS pair; CREATE STATISTICS pair (mcv) ON a, b FROM facts");
        for statement in [analyze, create] {
            expect(14, statement, None);
        }
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
