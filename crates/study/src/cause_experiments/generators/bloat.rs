//! Proposes to rewrite tables whose pages are mostly empty. A scan reads them all, and plain VACUUM gives back none but the last ones.

use diagnose::{Change, qualified_name};

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};
use super::super::statement_trial::TrialConnection;
use crate::environment::quote_literal;
use crate::notes;

/// Pages for each page that the rows need, from which on it matters.
const BLOATED: f64 = 3.0;
/// Pages of a table from which on it matters.
const PAGES_MIN: f64 = 100.0;

/// Proposes it for tables that a sequential scan reads in a noticeable part of the time. `CLUSTER` stands in for `VACUUM FULL`, which no
/// transaction can execute: both write the rows to a new file and build the indexes again.
pub(super) fn propose(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Vec<Intervention> {
    let mut names: Vec<String> = Vec::new();
    statement.plan().root.each(&mut |node, _| {
        let relation = node.relation.clone();
        let fact = relation.and_then(|name| statement.evidence.table(&(None, name)));
        if let Some(table) = fact.filter(|_| node.kind == "Seq Scan") {
            let name = qualified_name(&table.schema, &table.name);
            if statement.scan_share(node) >= EXPENSIVE && !names.contains(&name) {
                names.push(name);
            }
        }
    });
    let proposed = names.iter().map(|name| of_table(connection, name));
    proposed
        .filter_map(|found| {
            found.unwrap_or_else(|reason| {
                notes::note(&format!(
                    "The pages of a table could not be counted, so that nothing is tried against empty ones: {reason}."
                ));
                None
            })
        })
        .collect()
}

fn of_table(
    connection: &mut TrialConnection<'_>,
    name: &str,
) -> Result<Option<Intervention>, String> {
    // A row takes its header of 24 bytes, its pointer of 4, and its columns (storage-page-layout).
    let question = format!(
        "SELECT pg_catalog.pg_relation_size(t.oid) / 8192.0, \
           t.reltuples * (28 + (SELECT sum(s.avg_width) FROM pg_catalog.pg_stats s \
             WHERE s.schemaname = n.nspname AND s.tablename = t.relname)) / 8192.0, \
           (SELECT pg_catalog.quote_ident(i.relname) FROM pg_catalog.pg_index x \
              JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = t.oid AND x.indisprimary) \
         FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace \
         WHERE t.oid = {}::pg_catalog.regclass AND t.relkind = 'r' AND t.reltuples > 0",
        quote_literal(name)
    );
    let row = connection.query(&question)?.into_iter().next();
    let Some([Some(pages), Some(needed), Some(key)]) = row.as_deref() else {
        return Ok(None);
    };
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    let (pages, needed) = (number(pages), number(needed).max(1.0));
    if pages < PAGES_MIN || pages < BLOATED * needed {
        return Ok(None);
    }
    Ok(Some(Intervention {
        cause: format!(
            "{name} has {pages:.0} pages for rows that need {needed:.0}, and a scan reads them all"
        ),
        change: Change::sql(
            "write the rows to a new file",
            format!("VACUUM (FULL, ANALYZE) {name};"),
        ),
        action: Action::StandIn(vec![format!("CLUSTER {name} USING {key}")]),
        risk: "nobody can read or write the table meanwhile, and it takes room for a copy; the extension pg_repack does without the lock. \
               It grows again unless autovacuum keeps up: look for old transactions and for tables with autovacuum off"
            .to_owned(),
    }))
}
