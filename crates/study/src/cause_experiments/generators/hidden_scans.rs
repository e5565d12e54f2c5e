//! Proposes indexes for statements inside of functions, triggers and constraints, whose scans are in no plan. The server counts
//! the rows that they read.

use diagnose::{Change, qualified_name};
use sql::UsedNames;

use super::super::intervention::{Action, Intervention, MeasuredStatement};
use super::super::statement_trial::TrialConnection;
use crate::environment::quote_identifier;
use crate::notes;

/// Rows that are read without an index from which on it matters.
const ROWS_MIN: f64 = 1_000.0;
/// Largest number of columns of a table that are tried.
const COLUMNS_MAX: usize = 4;

/// Rows read by scans of whole tables in this transaction: schema, table, rows.
const SCANS_SQL: &str =
    "SELECT schemaname, relname, seq_tup_read FROM pg_catalog.pg_stat_xact_user_tables";
/// Bodies of functions that are not the server's own.
const BODIES_SQL: &str = "SELECT p.prosrc FROM pg_catalog.pg_proc p \
     JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE l.lanname IN ('sql', 'plpgsql') AND p.oid >= 16384";

/// Proposes indexes on the columns by which functions may look for rows of a table that is scanned, and is not in the plan.
pub(super) fn propose(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Vec<Intervention> {
    let found = read_scans(connection, statement).and_then(|tables| {
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let bodies = connection.query(BODIES_SQL)?;
        let bodies: Vec<UsedNames> = bodies
            .iter()
            .flatten()
            .flatten()
            .map(|body| UsedNames::of(body))
            .collect();
        Ok(tables
            .iter()
            .flat_map(|table| of_table(statement, table, &bodies))
            .collect())
    });
    found.unwrap_or_else(|reason| {
        notes::note(&format!(
            "The scans inside of functions could not be counted, so that no index for them is tried: {reason}."
        ));
        Vec::new()
    })
}

/// Table that is scanned outside of the plan.
struct ScannedTable {
    schema: String,
    name: String,
    rows: f64,
}

/// Executes the statement, and returns the tables of whose rows more were read than its plan read.
fn read_scans(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Result<Vec<ScannedTable>, String> {
    connection.begin()?;
    let counted = count_scans(connection, statement);
    connection.roll_back()?;
    let (before, after) = counted?;
    let mut planned = Vec::new();
    statement.plan().root.each(&mut |node, _| {
        if node.kind == "Seq Scan" {
            planned.extend(node.relation.clone());
        }
    });
    let mut tables = Vec::new();
    for (schema, name, rows) in after {
        let earlier = before.iter().find(|one| one.0 == schema && one.1 == name);
        let rows = rows - earlier.map_or(0.0, |one| one.2);
        if rows >= ROWS_MIN && !planned.contains(&name) {
            tables.push(ScannedTable { schema, name, rows });
        }
    }
    Ok(tables)
}

type Counts = Vec<(String, String, f64)>;

fn count_scans(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Result<(Counts, Counts), String> {
    let read = |connection: &mut TrialConnection<'_>| -> Result<Counts, String> {
        let rows = connection.query(SCANS_SQL)?.into_iter();
        Ok(rows
            .filter_map(|row| {
                let [schema, name, rows]: [Option<String>; 3] = row.try_into().ok()?;
                Some((schema?, name?, rows?.parse().ok()?))
            })
            .collect())
    };
    let before = read(connection)?;
    connection.execute(&statement.sets[statement.representative], statement.mode)?;
    Ok((before, read(connection)?))
}

fn of_table(
    statement: &MeasuredStatement<'_>,
    table: &ScannedTable,
    bodies: &[UsedNames],
) -> Vec<Intervention> {
    let key = (Some(table.schema.clone()), table.name.clone());
    let Some(fact) = statement.evidence.table(&key) else {
        return Vec::new();
    };
    let bodies: Vec<&UsedNames> = bodies
        .iter()
        .filter(|body| body.mention(&table.name))
        .collect();
    let is_used = |column: &&String| bodies.iter().any(|body| body.mention(column));
    let columns: Vec<String> = fact
        .column_names
        .iter()
        .filter(is_used)
        .take(COLUMNS_MAX)
        .map(|column| quote_identifier(column))
        .collect();
    let mut keys: Vec<String> = columns.clone();
    if columns.len() == 2 {
        keys.push(columns.join(", "));
        keys.push(format!("{}, {}", columns[1], columns[0]));
    }
    let name = qualified_name(&table.schema, &table.name);
    let made = keys.into_iter().map(|key| Intervention {
        cause: format!(
            "a function that it calls reads {:.0} rows of {name} without an index",
            table.rows
        ),
        change: Change::sql(
            format!("an index on {key}, by which the function may look for rows"),
            format!("CREATE INDEX ON {name} ({key});"),
        ),
        action: Action::OnExecution,
        risk: format!(
            "every write to {name} keeps it up to date; on a live server build it with CREATE INDEX CONCURRENTLY"
        ),
    });
    made.collect()
}
