//! Warms the caches before each run, in the same way on all sides.

use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection};

use crate::environment::{STATEMENTS_TIME_MAX, quote_literal};

const CREATE_EXTENSION: &str = "CREATE EXTENSION pg_prewarm";
const DROP_EXTENSION: &str = "DROP EXTENSION pg_prewarm";

/// Returns the login of this program's own connections. The target's own user may have more privileges than that of a
/// session.
pub(crate) fn own_login(target: &Target, session: &Login) -> Login {
    let mut login = session.clone();
    if let Some(user) = &target.user {
        login.user = user.as_str().into();
        login.role = None;
    }
    login
}

/// Opens a connection for queries that take as long as the data are large, such as those of [`warm_caches`].
///
/// # Errors
/// If the login fails.
pub(crate) fn open_own_connection<'a>(
    dialer: &'a Dialer,
    login: &Login,
) -> Result<QueryConnection<'a>, String> {
    let connection = dialer.open_query_connection(login);
    let mut connection = connection.map_err(|error| error.to_string())?;
    connection.limit(STATEMENTS_TIME_MAX);
    Ok(connection)
}

/// Reads tables and indexes into shared buffers, the smallest first, as long as they fit. At a private server the
/// extension pg_prewarm is created if it is available, and dropped at the end. Without it tables are read by a scan.
/// Relations that cannot be read are skipped, alike on all sides.
///
/// # Errors
/// If relations were skipped, or the extension could not be dropped.
pub(crate) fn warm_caches(
    questions: &mut QueryConnection<'_>,
    is_private: bool,
) -> Result<(), String> {
    let failed = |error: LoginError| error.to_string();
    let found = questions.query("SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'");
    let was_there = !found.map_err(failed)?.is_empty();
    // It is not available everywhere.
    let is_created = !was_there && is_private && questions.query(CREATE_EXTENSION).is_ok();
    let warmed = read_relations(questions, was_there || is_created);
    if is_created {
        questions.query(DROP_EXTENSION).map_err(failed)?;
    }
    warmed
}

fn read_relations(questions: &mut QueryConnection<'_>, has_extension: bool) -> Result<(), String> {
    let fitting = "SELECT c.oid::regclass::text, c.relkind FROM (\
          SELECT oid, relkind, sum(pg_catalog.pg_relation_size(oid)) OVER (ORDER BY pg_catalog.pg_relation_size(oid), oid) AS so_far \
          FROM pg_class WHERE relkind IN ('r', 'm', 'i') AND relpersistence <> 't' \
          AND relnamespace <> 'information_schema'::regnamespace \
          AND relnamespace <> 'pg_catalog'::regnamespace) c \
        WHERE so_far <= (SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers') \
        ORDER BY so_far";
    let relations = questions.query(fitting);
    let relations = relations.map_err(|error| error.to_string())?;
    let mut refusals = Vec::new();
    for row in &relations {
        let [Some(name), Some(kind)] = row.as_slice() else {
            continue;
        };
        let question = match (has_extension, kind.as_str()) {
            (true, _) => format!("SELECT pg_prewarm({}::regclass)", quote_literal(name)),
            (false, "i") => continue,
            (false, _) => format!("SELECT count(*) FROM {name}"),
        };
        if let Err(error) = questions.query(&question) {
            refusals.push(error.to_string());
        }
    }
    match refusals.first() {
        Some(first) => Err(format!(
            "{} of {} tables and indexes could not be read: {first}",
            refusals.len(),
            relations.len()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::LoginMap;

    #[test]
    fn skipped_relation_is_reported_and_no_extension_stays() {
        let (_sandbox, endpoint) = test_support::server().start();
        let mut client = test_support::connect(&endpoint);
        let schema = "CREATE TABLE secret AS SELECT 1 AS id; CREATE ROLE reader LOGIN";
        client.batch_execute(schema).unwrap();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let mut login = LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = open_own_connection(&dialer, &login).unwrap();
        assert_eq!(warm_caches(&mut connection, true), Ok(()));
        let extensions = "SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'";
        assert_eq!(client.query(extensions, &[]).unwrap().len(), 0);
        login.user = "reader".into();
        let mut connection = open_own_connection(&dialer, &login).unwrap();
        let skipped = warm_caches(&mut connection, false).unwrap_err();
        assert!(skipped.contains("1 of "), "{skipped}");
        assert!(skipped.contains("permission denied"), "{skipped}");
    }
}
