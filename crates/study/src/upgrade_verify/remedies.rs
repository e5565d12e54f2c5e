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
            let (in_place, found) = match &remedy.setting {
                Some((name, value)) => setting(connection, (name, value)),
                None => object(connection, statement),
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
    let show = format!("SELECT pg_catalog.current_setting({})", quote_literal(name));
    let mut read = || -> Result<[Option<String>; 2], String> {
        let now = text(connection, &show)?;
        text(connection, "BEGIN READ ONLY")?;
        let set = format!("SET LOCAL {name} = {}", quote_literal(value));
        let wanted = text(connection, &set).and_then(|_| text(connection, &show));
        text(connection, "ROLLBACK")?;
        Ok([now, wanted?])
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

/// Looks for the object that a statement creates or fills.
fn object(connection: &mut QueryConnection<'_>, statement: &str) -> (Option<bool>, String) {
    let after = |prefix: &str| statement.strip_prefix(prefix).map(quote_literal);
    let (question, yes, no) = if let Some(table) = after("ANALYZE ") {
        (
            format!(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_statistic WHERE starelid = pg_catalog.to_regclass({table})) \
                 AND NOT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s LEFT JOIN pg_catalog.pg_statistic_ext_data d \
                 ON d.stxoid = s.oid WHERE s.stxrelid = pg_catalog.to_regclass({table}) AND d.stxoid IS NULL)"
            ),
            "The table and its extended statistics have data.",
            "The table or an extended statistics object of it has no statistics.",
        )
    } else if let Some(index) = after("REINDEX INDEX ") {
        (
            format!(
                "SELECT coalesce((SELECT indisvalid FROM pg_catalog.pg_index \
                 WHERE indexrelid = pg_catalog.to_regclass({index})), false)"
            ),
            "The index is valid. When it was built is not recorded.",
            "The index is missing or invalid.",
        )
    } else if statement.starts_with("CREATE STATISTICS ") {
        let wanted = quote_literal(statement);
        (
            format!(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_statistic_ext_data d \
                 ON d.stxoid = s.oid WHERE pg_catalog.pg_get_statisticsobjdef(s.oid) = {wanted})"
            ),
            "The extended statistics exist and have data.",
            "The extended statistics are missing or have no data.",
        )
    } else if statement.starts_with("CREATE ") {
        let wanted = quote_literal(statement);
        (
            format!(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_index WHERE indisvalid \
                 AND pg_catalog.pg_get_indexdef(indexrelid) = {wanted})"
            ),
            "The index exists and is valid.",
            "The index is missing or invalid.",
        )
    } else {
        return (
            None,
            "Whether it is in place cannot be seen from a new session.".to_owned(),
        );
    };
    match text(connection, &question) {
        Ok(answer) => {
            let is_there = matches!(answer.as_deref(), Some("t" | "true"));
            let found = match is_there {
                true => yes,
                false => no,
            };
            (Some(is_there), found.to_owned())
        }
        // Statistics are visible to few roles.
        Err(reason) => (None, format!("It cannot be checked: {reason}")),
    }
}

/// Returns the first value of an answer.
fn text(connection: &mut QueryConnection<'_>, sql: &str) -> Result<Option<String>, String> {
    let rows = connection.query(sql).map_err(|error| error.message)?;
    let first = rows.into_iter().flatten().flatten().next();
    Ok(first.map(|text| text.to_string()))
}
