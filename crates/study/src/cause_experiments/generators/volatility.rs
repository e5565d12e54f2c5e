//! Proposes `STABLE` for functions that only read, and that are volatile since nobody declared otherwise: an index does not serve a
//! condition on a volatile function, which is called for each row.

use diagnose::Change;
use sql::UsedNames;

use super::super::intervention::{Action, Intervention, MeasuredStatement};
use super::super::statement_trial::TrialConnection;

/// Volatile functions in SQL and PL/pgSQL: name, signature, body.
const VOLATILE_SQL: &str = "SELECT p.proname, p.oid::pg_catalog.regprocedure::text, p.prosrc FROM pg_catalog.pg_proc p \
     JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
     WHERE p.provolatile = 'v' AND l.lanname IN ('sql', 'plpgsql') AND p.oid >= 16384 \
     AND p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype";
/// Words of bodies that do more than read, or whose result differs within a statement.
const NOT_STABLE: [&str; 20] = [
    "insert",
    "update",
    "delete",
    "merge",
    "truncate",
    "create",
    "alter",
    "drop",
    "execute",
    "perform",
    "nextval",
    "setval",
    "random",
    "clock_timestamp",
    "timeofday",
    "gen_random_uuid",
    "call",
    "copy",
    "lock",
    "set_config",
];

/// Proposes it for the functions that a statement names, if their bodies only read.
pub(super) fn propose(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Vec<Intervention> {
    let used = UsedNames::of(&statement.sets[statement.representative].sql);
    let rows = connection.query(VOLATILE_SQL).unwrap_or_default();
    let functions = rows.into_iter().filter_map(|row| {
        let [name, signature, body]: [Option<String>; 3] = row.try_into().ok()?;
        Some((name?, signature?, body?))
    });
    functions
        .filter(|(name, _, body)| {
            let body = UsedNames::of(body);
            used.mention(name) && !NOT_STABLE.iter().any(|word| body.mention(word))
        })
        .map(|(name, signature, _)| Intervention {
            cause: format!(
                "the function {name} is volatile, so that it is called for each row and no index serves the condition"
            ),
            change: Change::sql(
                format!("declare that {name} only reads, and gives the same result within a statement"),
                format!("ALTER FUNCTION {signature} STABLE;"),
            ),
            action: Action::OnExecution,
            risk: "its body seems to read only; make sure that its result does not change within a statement".to_owned(),
        })
        .collect()
}
