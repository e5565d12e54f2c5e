//! Proposes indexes on the columns of foreign keys. Deleting a row, or changing its key, searches each table
//! that references it, and PostgreSQL creates no index for that search.

use diagnose::Change;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};
use super::super::statement_trial::TrialConnection;
use crate::environment::quote_literal;
use crate::notes;

/// Proposes an index for each foreign key below an expensive trigger that has none. Cascades are followed, since
/// the trigger's time includes the triggers of the rows that it deletes.
pub(super) fn propose(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Vec<Intervention> {
    let times = statement.times();
    let expensive = times
        .triggers
        .iter()
        .filter(|one| one.ms >= EXPENSIVE * times.total_ms());
    let mut all: Vec<Intervention> = Vec::new();
    for trigger in expensive {
        let Some(constraint) = &trigger.constraint else {
            continue;
        };
        let keys = unindexed_keys(connection, constraint, &trigger.relation);
        let keys = keys.unwrap_or_else(|reason| {
            notes::note(&format!(
                "The foreign keys below the constraint {constraint} could not be read, so that no index on them is tried: {reason}."
            ));
            Vec::new()
        });
        for key in keys {
            let change = Change::sql(
                format!("an index on the foreign key {}", key.constraint),
                format!("CREATE INDEX ON {} ({});", key.table, key.columns),
            );
            if all.iter().any(|one| one.change.form == change.form) {
                continue;
            }
            all.push(Intervention {
                cause: format!(
                    "the foreign key {} searches all of {} for each row, since no index begins with {}",
                    key.constraint, key.table, key.columns
                ),
                change,
                action: Action::OnExecution,
                risk: "every write to the table keeps it up to date; on a live server build it with CREATE INDEX CONCURRENTLY".to_owned(),
            });
        }
    }
    all
}

/// Foreign key without an index on the referencing columns.
struct UnindexedKey {
    constraint: String,
    /// Referencing table, quoted.
    table: String,
    /// Referencing columns, quoted.
    columns: String,
}

/// Returns the foreign keys without an index among a constraint, which references the relation, and those that it
/// cascades to.
fn unindexed_keys(
    connection: &mut TrialConnection<'_>,
    constraint: &str,
    relation: &str,
) -> Result<Vec<UnindexedKey>, String> {
    let question = format!(
        "WITH RECURSIVE fk AS (\
           SELECT c.oid, c.conname, c.conrelid, c.conkey FROM pg_catalog.pg_constraint c \
           JOIN pg_catalog.pg_class t ON t.oid = c.confrelid \
           WHERE c.contype = 'f' AND c.conname = {} AND t.relname = {} \
           UNION SELECT c.oid, c.conname, c.conrelid, c.conkey FROM fk \
           JOIN pg_catalog.pg_constraint c ON c.contype = 'f' AND c.confrelid = fk.conrelid) \
         SELECT fk.conname, pg_catalog.format('%I.%I', n.nspname, r.relname), \
           (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY k.place) \
            FROM pg_catalog.unnest(fk.conkey) WITH ORDINALITY k (attnum, place) \
            JOIN pg_catalog.pg_attribute a ON a.attrelid = fk.conrelid AND a.attnum = k.attnum) \
         FROM fk JOIN pg_catalog.pg_class r ON r.oid = fk.conrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
         WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = fk.conrelid \
           AND i.indisvalid AND i.indpred IS NULL \
           AND (i.indkey::int2[])[0:pg_catalog.cardinality(fk.conkey) - 1] OPERATOR(pg_catalog.@>) fk.conkey)",
        quote_literal(constraint),
        quote_literal(relation)
    );
    let rows = connection.query(&question)?;
    let keys = rows
        .into_iter()
        .filter_map(|row| {
            let [constraint, table, columns]: [Option<String>; 3] = row.try_into().ok()?;
            Some(UnindexedKey {
                constraint: constraint?,
                table: table?,
                columns: columns?,
            })
        })
        .collect();
    Ok(keys)
}
